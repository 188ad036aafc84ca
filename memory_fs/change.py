"""A change of the vault, as history hands it out: who, when, why, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

Author = tuple[str, str]
"""A name and an e-mail address."""

AGENT: Author = ("agent", "agent@memory-fs.invalid")


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
            lines = diff.split("\n")[2:]
            added, gone = (sum(line.startswith(sign) for line in lines) for sign in "+-")
            parts.append(f"{path} +{added} -{gone}")
        return ", ".join(parts[:3]) + (f" and {len(parts) - 3} more files" if len(parts) > 3 else "")

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
