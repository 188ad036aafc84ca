"""What memory was corrected from: a message that says what core memory no longer says is no evidence of it.

"I live in Lisbon" stays in recall for ever. Since the line that it led to was replaced, by the model or by a person's
hand, it is history and not an answer. The history of core memory tells which words a line lost, and when.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile

from memory_fs.analysis import tokens
from memory_fs.errors import FormatError
from memory_fs.evidence import weighty
from memory_fs.formats.block import parse_block
from memory_fs.records import Hit
from memory_fs.vault import Vault, decode

_FAR = 1000  # changes that are looked back at when a vault is opened
Blobs = tuple[str | None, str | None]  # what a path holds: in its file, and in history


@dataclass(frozen=True)
class Lost:
    """A line that core memory lost, and when."""

    time: datetime
    words: frozenset[str]


class Corrections:
    """The corrections of one vault's core memory."""

    def __init__(self, vault: Vault) -> None:
        """Args: vault."""
        self._vault = vault
        self._lost: list[Lost] = []
        self._seen: set[str] = set()  # changes whose losses are known
        self._at: dict[str, Blobs] = {}  # core memory as it was looked at last
        self._now: frozenset[str] = frozenset()  # the words that it has

    def outdated(self, hit: Hit) -> bool:
        """Whether a message says what core memory has been corrected from since, and does not say again."""
        if hit.kind != "recall":
            return False
        self._look()
        words = set(tokens(hit.text))
        gone = [lost.words - self._now for lost in self._lost if lost.time >= hit.date]
        return any(left and left <= words for left in gone)

    def _look(self) -> None:
        """Take in what has changed; nothing to do while core memory's files are the same."""
        core = {path: blob for path, blob in self._vault.files().items() if path.startswith("core/")}
        # An edit is in the file before it is in history: both have to be the same.
        at = {path: (core.get(path), self._vault.history.blob_id(path)) for path in {*core, *self._at}}
        if at == self._at:
            return
        new = takewhile(lambda change: change.rev not in self._seen, self._vault.history.log("core"))
        for change in islice(new, _FAR):
            self._seen.add(change.rev)
            self._lost += [Lost(change.time, words) for words in self._words(change.rev)]
        lines = (line for path in core for line in _lines(path, self._vault.disk.read(path)))
        self._at, self._now = at, frozenset(word for line in lines for word in tokens(line))

    def _words(self, rev: str) -> list[frozenset[str]]:
        """The words of each line that one change took out of a block."""
        found = []
        for path, before, after in self._vault.history.contents(rev):
            if path.startswith("core/") and before is not None:
                kept = set(_lines(path, after))
                found += [frozenset(weighty(line)) for line in _lines(path, before) if line not in kept]
        return found


def _lines(path: str, data: bytes | None) -> list[str]:
    with contextlib.suppress(FormatError):
        return parse_block(decode(data, path), path, path).value.split("\n") if data else []
    return []
