"""Whether a vault's repository is whole. It only reads, but for two repairs that add what is missing.

Every object that the branch leads to is read and held against its hash. Commits and trees are taken apart here, from
their bytes: that is many times quicker than through pygit2's objects, and a vault has many.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryOpenFlag

from memory_fs.errors import VaultError
from memory_fs.history import MAIN
from memory_fs.objects import loose

Report = Callable[[int, int], None]
_OURS = {"core.bare": "false", "core.worktree": "../.."}
_ENTRY = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)
_FOLDER = b"40000"  # the mode of a tree
_LINKS = re.compile(rb"^(tree|parent) ([0-9a-f]{40})$", re.MULTILINE)
_UNREADABLE = (pygit2.GitError, KeyError, ValueError, OSError)


@dataclass(frozen=True)
class Damage:
    """An object that cannot be read.

    Attributes:
        id: its name, 40 hex digits.
        path: the file or folder it holds; '' for a commit.
        rev: the newest change that it belongs to.
        why: missing, torn, or what libgit2 says.
    """

    id: str
    path: str
    rev: str
    why: str

    @property
    def closed(self) -> bool:
        """Whether it is there and may only not be read, which is no damage."""
        return self.why == os.strerror(errno.EACCES)


class Checkup:
    """One repository under examination."""

    def __init__(self, folder: Path) -> None:
        """Args: folder: the git directory.

        Raises:
            VaultError: no repository is there, or it cannot be opened.
        """
        self._folder = folder
        try:
            self._repo = pygit2.Repository(str(folder), RepositoryOpenFlag.BARE)  # whatever its work tree is
        except _UNREADABLE as error:
            raise VaultError(f"the history cannot be opened ({error})", path=folder) from error
        self._entries = lru_cache(4096)(self._parse_tree)

    def close(self) -> None:
        """Release the files of the repository."""
        self._repo.free()

    # -- is it one of ours -------------------------------------------------------------------------------------------

    def oddities(self) -> Iterator[tuple[str, str]]:
        """(what is not as this program makes it, the git arguments that put it right)."""
        for key, wanted in _OURS.items():
            found = self._repo.config[key] if key in self._repo.config else "not set"  # noqa: SIM401 (it has no get)
            if found != wanted:
                yield f"its {key} is {found}, not {wanted}", f"config {key} {wanted}"
        with contextlib.suppress(*_UNREADABLE):
            head = self._repo.lookup_reference("HEAD").raw_target
            if head != MAIN.encode():
                name = head.decode(errors="replace") if isinstance(head, bytes) else str(head)[:8]
                yield (
                    f"HEAD is {name.removeprefix('refs/heads/')}, and the vault is kept on main",
                    f"symbolic-ref HEAD {MAIN}",
                )

    # -- the branch --------------------------------------------------------------------------------------------------

    @property
    def head(self) -> str | None:
        """The commit that the branch names, or None."""
        try:
            return str(self._repo.references[MAIN].target)
        except _UNREADABLE:
            return None

    def tips(self) -> list[tuple[str, int]]:
        """(commit, changes up to it) of those that no other follows, the longest line first.

        One of them is where a lost branch was; the others were prepared and given up.
        """
        parents: dict[str, list[str]] = {}
        for oid in map(str, self._repo):
            data, _ = self._read(oid)
            if data is not None and data.startswith(b"tree ") and _links(data)[0]:
                parents[oid] = _links(data)[1]
        ends = parents.keys() - {before for each in parents.values() for before in each}
        return sorted(((tip, _length(tip, parents)) for tip in ends), key=lambda found: (-found[1], found[0]))

    def name_branch(self, rev: str) -> None:
        """Let the branch name a commit, where it names none; what is there of it is kept beside it.

        Raises:
            VaultError: it cannot be written.
        """
        place = self._folder / MAIN
        try:
            if self.head is None and place.exists():
                place.replace(place.with_name("main.broken"))
            self._repo.references.create(MAIN, rev)
        except _UNREADABLE as error:
            raise VaultError(f"the branch cannot be named ({error})", path=self._folder) from error

    # -- the objects -------------------------------------------------------------------------------------------------

    def changes(self) -> list[tuple[str, str]]:
        """(commit, its tree) of every change that can be reached, newest first; it ends where one cannot be read."""
        return [(rev, tree) for rev, tree, _ in self._commits if tree]

    @cached_property
    def _commits(self) -> list[tuple[str, str, str]]:
        """(commit, its tree or '', why it cannot be read), newest first."""
        found = []
        cut = self._cut_off()
        waiting, seen = [self.head or ""], {""}
        while waiting:
            rev = waiting.pop()
            if rev in seen:
                continue
            seen.add(rev)
            data, why = self._read(rev)
            tree, parents = _links(data) if data is not None else ("", [])
            found.append((rev, tree, why or ("" if tree else "it names no tree")))
            if rev not in cut:
                waiting += parents
        return found

    def _cut_off(self) -> set[str]:
        """The commits whose parents were left behind on purpose, when history was pruned."""
        try:
            return set((self._folder / "shallow").read_text(encoding="ascii").split())
        except (OSError, ValueError):
            return set()

    def damages(self, report: Report) -> Iterator[Damage]:
        """Read every object that the branch leads to, and name those that cannot be read.

        Args:
            report: called with the number of changes that were read, and of all.
        """
        seen: set[bytes] = set()
        for number, (rev, tree, why) in enumerate(self._commits, 1):
            if why:
                yield Damage(rev, "", rev, why)
            else:
                yield from self._damages_below(tree, rev, seen)
            report(number, len(self._commits))

    def _damages_below(self, tree: str, rev: str, seen: set[bytes]) -> Iterator[Damage]:
        waiting = [(bytes.fromhex(tree), "", True)]
        while waiting:
            oid, path, is_tree = waiting.pop()
            if oid in seen:
                continue
            seen.add(oid)
            data, why = self._read(oid.hex())
            if data is None:
                yield Damage(oid.hex(), path, rev, why)
            elif is_tree:
                for mode, name, child in _ENTRY.findall(data):
                    if child not in seen:
                        below = name.decode(errors="surrogateescape")
                        waiting.append((child, f"{path}/{below}" if path else below, mode == _FOLDER))

    def _read(self, oid: str) -> tuple[bytes | None, str]:
        """The content of an object, or why it cannot be read. Loose ones not through libgit2: it hangs on torn ones."""
        place = self._folder / "objects" / oid[:2] / oid[2:]
        try:
            return loose(place)
        except FileNotFoundError:
            return self._read_packed(oid)
        except OSError as error:
            return None, error.strerror or str(error)

    def _read_packed(self, oid: str) -> tuple[bytes | None, str]:
        try:
            return self._repo.read(oid)[1], ""
        except KeyError:
            return None, "it is missing"
        except _UNREADABLE as error:
            return None, str(error).removeprefix(f"{oid}: ")

    def has(self, oid: str) -> bool:
        """Whether there is an object of this name that can be read."""
        return self._read(oid)[0] is not None

    def put_back(self, data: bytes) -> None:
        """Write a file's object anew, in place of one that is missing or damaged; the damaged one is kept beside it.

        Raises:
            VaultError: it cannot be written.
        """
        oid = str(pygit2.hash(data))
        place = self._folder / "objects" / oid[:2] / oid[2:]
        try:
            if place.exists():
                place.replace(place.with_name(f"{place.name}.broken"))
            with contextlib.closing(Checkup(self._folder)) as fresh:  # one that has not seen the damaged one
                fresh._repo.create_blob(data)
        except _UNREADABLE as error:
            raise VaultError(f"the history cannot be written ({error})", path=self._folder) from error

    # -- what history says of files ----------------------------------------------------------------------------------

    def files(self) -> dict[str, str] | None:
        """path -> blob id of every file at the newest commit; None where that cannot be read."""
        data, _ = self._read(self.head) if self.head else (None, "")
        if data is None:
            return None
        found: dict[str, str] = {}
        waiting = [(_links(data)[0], "")]
        while waiting:
            tree, prefix = waiting.pop()
            inside, _ = self._read(tree)
            if inside is None:
                return None
            for name, child, is_folder in _tree_entries(inside):
                if is_folder:
                    waiting.append((child, f"{prefix}{name}/"))
                else:
                    found[prefix + name] = child
        return found

    def first(self, wanted: Mapping[str, Callable[[bytes], bool]]) -> dict[str, int]:
        """path -> the number of the first change (0 is the oldest) in which that file passes its test.

        Args:
            wanted: path -> the test of its bytes. Paths that never pass are left out.
        """
        found: dict[str, int] = {}
        folders: dict[str, list[str]] = {}
        for path in wanted:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        before: dict[str, str | None] = {}
        for number, (_, tree) in enumerate(reversed(self.changes())):
            for folder, paths in folders.items():
                inside = self._folder_id(tree, folder)
                if inside is None or before.get(folder) == inside:
                    continue
                before[folder] = inside
                names = self._entries(inside)
                for path in paths:
                    blob = names.get(path.rpartition("/")[2])
                    if path not in found and blob and wanted[path](self._read(blob)[0] or b""):
                        found[path] = number
        return found

    def _folder_id(self, tree: str, folder: str) -> str | None:
        found: str | None = tree
        for name in folder.split("/") if folder else ():
            found = self._entries(found).get(name) if found else None
        return found

    def _parse_tree(self, oid: str) -> dict[str, str]:
        return {name: child for name, child, _ in _tree_entries(self._read(oid)[0] or b"")}


def _length(tip: str, parents: Mapping[str, list[str]]) -> int:
    """How many changes lead up to a commit."""
    count = 0
    while tip in parents:
        count += 1
        tip = next(iter(parents[tip]), "")
    return count


def _links(commit: bytes) -> tuple[str, list[str]]:
    """The tree and the parents that a commit names."""
    head = commit.partition(b"\n\n")[0]
    names = [(kind, oid.decode()) for kind, oid in _LINKS.findall(head)]
    trees = [oid for kind, oid in names if kind == b"tree"]
    return (trees[0] if trees else ""), [oid for kind, oid in names if kind == b"parent"]


def _tree_entries(data: bytes) -> Iterator[tuple[str, str, bool]]:
    """(name, object, whether it is a folder) of each entry of a tree."""
    for mode, name, oid in _ENTRY.findall(data):
        yield name.decode(errors="surrogateescape"), oid.hex(), mode == _FOLDER
