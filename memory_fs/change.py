"""A change of the vault, as history hands it out: who, when, why, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice

Author = tuple[str, str]
"""A name and an e-mail address."""

_FEW = 5  # files that are announced one by one
AGENT: Author = ("agent", "agent@memory-fs.invalid")
PROGRAM: Author = ("memory_fs", "program@memory-fs.invalid")


@dataclass(frozen=True, eq=False)
class Change:
    """One commit.

    Attributes:
        rev: the commit's id, 40 hex digits.
        author: the name of who did it.
        time: aware.
        subject: what was done and why, one line.
        trailers: `Session`, `Turn`, `Function`, `Undoes`, `Redoes`.
    """

    rev: str
    author: str
    time: datetime
    subject: str
    trailers: Mapping[str, str]
    _patches: Callable[[str], Iterable[tuple[str, str]]]

    @cached_property
    def files(self) -> tuple[tuple[str, str], ...]:
        """(path, unified diff) of every file that the change touched."""
        return tuple(self._patches(self.rev))

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that the change touched."""
        return tuple(path for path, _ in self.files)

    def counts(self) -> str:
        """`core/human.yaml +1 -1`: lines added and taken away in each file."""
        parts = []
        for path, diff in self.files:
            added, gone = _counted(diff)
            parts.append(f"{path} +{added} -{gone}")
        return ", ".join(parts[:3]) + (f" and {len(parts) - 3} more files" if len(parts) > 3 else "")

    def announced(self) -> list[str]:
        """What a person did, one line a file: `core/human.yaml changed by hand: +1 -1`; of many files one line."""
        first = list(islice(self._patches(self.rev), _FEW + 1))
        return [_announced(*file) for file in first] if len(first) <= _FEW else [self.subject]

    @property
    def diff(self) -> str:
        """The whole change as one unified diff."""
        return "".join(diff for _, diff in self.files)

    def __repr__(self) -> str:
        return f"Change({self.rev[:8]} {self.author}: {self.subject})"

    def _repr_html_(self) -> str:
        from memory_fs import notebook

        return notebook.change(self).html()

    def _repr_markdown_(self) -> str:
        from memory_fs import notebook

        return notebook.change(self).markdown()


def _counted(diff: str) -> tuple[int, int]:
    """Lines added and taken away in a unified diff of one file."""
    lines = diff.split("\n")[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _announced(path: str, diff: str) -> str:
    added, gone = _counted(diff)
    if diff.startswith("--- /dev/null"):
        return f"{path} added by hand: +{added}"
    if "\n+++ /dev/null" in diff:
        return f"{path} deleted by hand: -{gone}"
    return f"{path} changed by hand: +{added} -{gone}"
