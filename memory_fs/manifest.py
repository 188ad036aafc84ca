"""What an index holds: which files, in which state, and which records of each.

The manifest is a list of changes, one sealed file for each generation of the index, and now and then a file with the
whole. A change is written *before* the index commits the generation it belongs to, and counts only once that
generation is there. So a crash at any point leaves index and manifest telling the same story, and a commit writes a
few hundred bytes however many notes there are.

It does not know what a record is or how it is indexed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from memory_fs.sealed import Damaged, SealedFolder, clear_the_way, locked

_EVERY = 64  # generations between two files with the whole
_NAME = re.compile(r"(?P<what>all|change)-(?P<generation>\d{1,18})\.json")


@dataclass(frozen=True)
class Entry:
    """One file as the index holds it.

    Attributes:
        digest: the content it was read from.
        records: key of each record in it ("kind/…") -> its mark ("digest:size"). Empty when it could not be read.
    """

    digest: str
    records: Mapping[str, str]


Change = dict[str, Entry | None]  # path -> what it holds now; None: the file is gone


@dataclass
class Manifest:
    """The files and records of one generation.

    Attributes:
        files: path -> digest of the content, for comparison with the disk at one stroke.
        records: path -> records of the file.
        kinds: number of records of each kind.
        sizes: sum of their sizes.
        generation: the index commit that this belongs to.
        whole: the last generation whose file holds everything.
    """

    files: dict[str, str] = field(default_factory=dict)
    records: dict[str, Mapping[str, str]] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    generation: int = 0
    whole: int = 0

    @classmethod
    def load(cls, folder: SealedFolder, generation: int) -> Manifest:
        """Read the manifest that belongs to a generation of the index.

        Raises:
            Damaged: a part is missing or was not written by this program.
        """
        names = [found for name in folder.names() if (found := _NAME.fullmatch(name))]
        wholes = [int(found["generation"]) for found in names if found["what"] == "all"]
        made = cls(whole=max((number for number in wholes if number <= generation), default=0))
        if made.whole:
            made.apply(_read(folder, "all", made.whole), made.whole)
        for number in range(made.whole + 1, generation + 1):
            made.apply(_read(folder, "change", number), number)
        return made

    def save(self, folder: SealedFolder, change: Change) -> None:
        """Write what the next generation will hold; `apply` the change after the index has committed it.

        Raises:
            OSError: it cannot be written.
        """
        number = self.generation + 1
        if number - self.whole < _EVERY:
            folder.write(f"change-{number}.json", _dump(change))
            return
        after: Change = {path: Entry(digest, self.records[path]) for path, digest in self.files.items()}
        after |= change
        folder.write(f"all-{number}.json", _dump({path: entry for path, entry in after.items() if entry}))

    def apply(self, change: Change, generation: int) -> None:
        """Move on to a generation."""
        for path, entry in change.items():
            self.files.pop(path, None)
            self._count(self.records.pop(path, {}), -1)
            if entry is not None:
                self.files[path], self.records[path] = entry.digest, entry.records
                self._count(entry.records, 1)
        self.generation = generation
        if generation - self.whole >= _EVERY:
            self.whole = generation

    def _count(self, records: Mapping[str, str], sign: int) -> None:
        for key, mark in records.items():
            kind = key.partition("/")[0]
            self.kinds[kind] += sign
            self.sizes[kind] += sign * int(mark.rpartition(":")[2])

    def sweep(self, folder: SealedFolder) -> None:
        """Delete the parts that no later `load` will read, and what an interrupted write left."""
        for name in folder.names():
            found = _NAME.fullmatch(name)
            if name.endswith(".tmp") or (found and int(found["generation"]) < self.whole):
                folder.delete(name)


def _dump(change: Change) -> bytes:
    plain = {path: entry and [entry.digest, dict(entry.records)] for path, entry in change.items()}
    return json.dumps(plain, separators=(",", ":")).encode()  # escapes lone surrogates of undecodable file names


def _read(folder: SealedFolder, what: str, generation: int) -> Change:
    plain = json.loads(folder.read(f"{what}-{generation}.json"))
    return {path: entry and Entry(entry[0], entry[1]) for path, entry in plain.items()}


__all__ = ["Change", "Damaged", "Entry", "Manifest", "SealedFolder", "clear_the_way", "locked"]
