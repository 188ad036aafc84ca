"""Pruning: what is older than a moment becomes one first commit, the rest stands on it, and what nobody names goes.

Safe at every instruction, because the old objects stay until the branch names the new ones: new commits and a pack of
all that is still wanted are on the device first, then the branch moves, and only when that is on the device are the old
packs and loose objects deleted. A crash leaves some objects too many, which the next pruning removes.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType, ReferenceType, SortMode

from memory_fs.change import Author
from memory_fs.errors import VaultError
from memory_fs.history import MAIN, History, guard

_PARENT = re.compile(rb"^parent ([0-9a-f]{40})$", re.MULTILINE)
_NAMING = re.compile(rb"^(?:Undoes|Redoes|Restores): .*$", re.MULTILINE)
_ID = re.compile(rb"\b[0-9a-f]{40}\b")
_ELSEWHERE = "refs/remotes/"  # what git last saw in other repositories: it would keep everything that was ever pushed


@dataclass(frozen=True)
class Pruned:
    """What pruning did, or would do.

    Attributes:
        changes: before and after, the first commit included.
        size: of the git directory before and after, bytes on the disk; None where nothing was done.
        kept_by: branches and tags of a person's own; whatever they name is kept whole.
    """

    changes: tuple[int, int]
    size: tuple[int, int | None]
    kept_by: tuple[str, ...] = ()


def prune_history(
    history: History,
    cutoff: float,
    by: Author,
    sync: Callable[[], None] | None = None,
) -> Pruned:
    """Squash what is not younger than a moment into one commit and remove what only that had.

    Args:
        cutoff: seconds since 1970.
        by: the author of the commit that stands for the others.
        sync: waits until all that was written is on the device; the caller holds the vault's lock then. Without it
            nothing is done, and what would be is told.

    Raises:
        VaultError: the disk is full or read-only, or the history is damaged; it is as usable as it was.
    """
    if history.head is None:
        raise VaultError("there is no history yet; nothing was pruned")
    try:
        with guard():
            pruning = _Pruning(history.repo, cutoff)
            return pruning.run(by, sync) if sync else pruning.plan()
    except KeyError as error:
        raise VaultError(f"the history lacks an object ({error}); see `memory-fs doctor`") from error


class _Pruning:
    def __init__(self, repo: pygit2.Repository, cutoff: float) -> None:
        self._repo = repo
        self._folder = Path(repo.path)
        commits = list(repo.walk(repo.references[MAIN].target, SortMode.TOPOLOGICAL))
        young = [number for number, commit in enumerate(commits) if commit.author.time > cutoff]
        split = young[-1] + 1 if young else 0
        self._kept, self._old = commits[:split], commits[split:]

    def plan(self) -> Pruned:
        changes = (len(self._kept) + len(self._old), len(self._kept) + min(1, len(self._old)))
        return Pruned(changes, (self._size(), None), tuple(self._others()) if len(self._old) > 1 else ())

    def run(self, by: Author, sync: Callable[[], None]) -> Pruned:
        planned = self.plan()
        head = self._rewritten(by)
        pack = self._pack([head, *self._others().values()])
        sync()
        self._repo.references.create(MAIN, head, force=True)
        self._forget(head)
        sync()
        self._repo.free()
        objects = self._folder / "objects"
        for place in {*objects.glob("[0-9a-f][0-9a-f]/*"), *(objects / "pack").iterdir()} - pack:
            if place.suffix != ".broken":  # what the doctor put aside
                place.unlink(missing_ok=True)
        for folder in objects.glob("[0-9a-f][0-9a-f]"):
            with contextlib.suppress(OSError):  # something is left in it
                folder.rmdir()
        return Pruned(planned.changes, (planned.size[0], self._size()), planned.kept_by)

    def _rewritten(self, author: Author) -> pygit2.Oid:
        """Write the new commits, oldest first; returns the newest. A history with nothing to squash keeps its ids."""
        if len(self._old) < 2:
            return (self._kept or self._old)[0].id
        last = self._old[0]
        by = pygit2.Signature(*author, last.author.time, last.author.offset)
        message = f"Start of what is kept of the history\n\nPruned: {len(self._old)}\n"
        root = self._repo.create_commit(None, by, by, message, last.tree_id, [])
        new: dict[bytes, bytes] = {}
        head = root
        for commit in reversed(self._kept):
            header, _, text = commit.read_raw().partition(b"\n\n")
            header = _PARENT.sub(lambda found: b"parent " + new.get(found[1], str(root).encode()), header)
            text = _NAMING.sub(lambda line: _ID.sub(lambda found: new.get(found[0], found[0]), line[0]), text)
            head = self._repo.write(ObjectType.COMMIT, header + b"\n\n" + text)
            new[str(commit.id).encode()] = str(head).encode()
        return head

    def _others(self) -> dict[str, pygit2.Oid]:
        """name -> target of every other reference that a person made, a detached HEAD among them."""
        found = {}
        for reference in self._repo.references.objects:
            mine = reference.name == MAIN or reference.name.startswith(_ELSEWHERE)
            if not mine and reference.type == ReferenceType.DIRECT:
                found[reference.name] = pygit2.Oid(hex=str(reference.target))
        if self._repo.head_is_detached:
            found["HEAD"] = self._repo.head.peel(pygit2.Commit).id
        return found

    def _pack(self, tips: Iterable[pygit2.Oid]) -> set[Path]:
        """Write one pack of all that these reach; returns its files."""
        before = self._packs()
        builder = pygit2.PackBuilder(self._repo)
        for oid in self._reached(tips):
            builder.add(oid)
        builder.write(self._folder / "objects" / "pack")
        return {place for place, _ in self._packs() - before}

    def _packs(self) -> set[tuple[Path, int]]:
        """What is among the packs, each with its time: the same objects make a pack of the same name again."""
        return {(place, place.stat().st_mtime_ns) for place in (self._folder / "objects" / "pack").iterdir()}

    def _reached(self, tips: Iterable[pygit2.Oid]) -> Iterator[pygit2.Oid]:
        seen: set[pygit2.Oid] = set()
        walk = self._repo.walk(None, SortMode.NONE)
        for tip in tips:
            found = self._repo[tip]
            while isinstance(found, pygit2.Tag):
                yield found.id
                found = found.get_object()
            if isinstance(found, pygit2.Commit):
                walk.push(found.id)
            else:
                yield from _new(found, seen)
        for commit in walk:
            yield commit.id
            yield from _new(commit.tree, seen)

    def _forget(self, head: pygit2.Oid) -> None:
        """Let go of what else names old commits and files: git's view of other repositories, its logs, graph, index."""
        for name in [name for name in self._repo.references if name.startswith(_ELSEWHERE)]:
            self._repo.references.delete(name)
        for folder in ("logs", "objects/info/commit-graphs"):
            shutil.rmtree(self._folder / folder, ignore_errors=True)
        (self._folder / "objects/info/commit-graph").unlink(missing_ok=True)
        if (self._folder / "index").exists():  # a person has used git here; the vault has no index of its own
            self._repo.index.read_tree(self._repo[head].peel(pygit2.Tree))
            self._repo.index.write()

    def _size(self) -> int:
        stats = (place.stat() for place in self._folder.rglob("*"))
        return sum(stat.st_blocks * 512 if hasattr(stat, "st_blocks") else stat.st_size for stat in stats)


def _new(found: pygit2.Object, seen: set[pygit2.Oid]) -> Iterator[pygit2.Oid]:
    """The ids of a tree or a file and all that is in it, those left out that were seen before."""
    if found.id in seen:
        return
    seen.add(found.id)
    yield found.id
    if isinstance(found, pygit2.Tree):
        for entry in found:
            if not isinstance(entry, pygit2.Commit):  # another repository's
                yield from _new(entry, seen)
