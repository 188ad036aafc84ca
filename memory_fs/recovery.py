"""After a crash: finish or drop what the journal names, file by file, never over what a person has written since.

A change whose commit is whole is finished, whether it was acknowledged or not. One whose commit is not whole never came
past its sync: nothing of it was acknowledged and none of its files was touched, so it is dropped. After a power cut the
branch itself may be lost; then the newest whole change of the journal is the newest one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence

from memory_fs.disk import Disk
from memory_fs.errors import VaultError
from memory_fs.history import History
from memory_fs.journal import Entry, Journal


def recover(disk: Disk, history: History, journal: Journal) -> None:
    """Bring files, branch and journal to one story. The caller holds the vault's lock.

    Raises:
        VaultError: a file cannot be written.
    """
    todo, since = journal.unfinished(), journal.suspect_since()
    if not todo and since is None:
        return
    named = journal.begun()
    known = {entry.rev for entry in named}
    if since is not None:
        history.objects.drop_broken(since)
        _mend_head(history, named, known)
    for entry in todo:
        # In the run that wrote it every object is there, on the device or not; what cannot be read now is an error.
        if not entry.lost_power or history.objects.whole(entry.rev, known):
            _finish(disk, history, entry)
    if since is not None:
        disk.sync()
    if todo:
        journal.done(todo[-1].number)
    if since is not None:
        journal.settle()


def _mend_head(history: History, named: Sequence[Entry], known: Collection[str]) -> None:
    """Where a power cut took the branch, the newest whole change of the journal is the newest one."""
    with contextlib.suppress(VaultError):
        head = history.head
        if head is None or head in known or history.objects.whole(head, known):
            return
    whole = [entry.rev for entry in named if history.objects.whole(entry.rev, known)]
    history.reset(whole[-1] if whole else None)


def _finish(disk: Disk, history: History, entry: Entry) -> None:
    held = history.holds(entry.rev)
    before: dict[str, bytes | None] = {}
    after: dict[str, bytes | None] = {}
    for path, old, new in history.contents(entry.rev):
        later = held and history.read(path) != new
        if not later and disk.read(path) == old and not _saved_since(disk, path, entry.began):
            before[path], after[path] = old, new
    _put(disk, after, before)
    if not held:
        history.finish(entry.rev)


def _saved_since(disk: Disk, path: str, moment: int) -> bool:
    """Whether a person put the old text back: then the file is younger than the change."""
    with contextlib.suppress(OSError):
        return disk.place(path).stat().st_mtime_ns > moment
    return False


def take_back(disk: Disk, history: History, rev: str) -> None:
    """Undo the part of a change that was done before it failed.

    Raises:
        VaultError: a file cannot be written.
    """
    done = {path: (before, after) for path, before, after in history.contents(rev) if disk.read(path) == after}
    _put(disk, {path: both[0] for path, both in done.items()}, {path: both[1] for path, both in done.items()})


def _put(disk: Disk, files: dict[str, bytes | None], before: dict[str, bytes | None]) -> None:
    if files:
        with disk.staged(files) as install:
            disk.sync()
            install(before)
