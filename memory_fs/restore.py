"""Bring back a file or a folder of memory as it was at an earlier state, as a new change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from memory_fs.change import Author, Change
from memory_fs.disk import FOLDERS, check_path, is_memory_file
from memory_fs.errors import VaultError
from memory_fs.formats.note import parse_note
from memory_fs.vault import Transaction, Vault


@dataclass(frozen=True)
class Restored:
    """What came of it: the change (None: all is as it was then), and (path, where it is now) of notes left alone."""

    change: Change | None
    moved: Sequence[tuple[str, str]] = ()


def restore(vault: Vault, path: str, rev: str, author: Author) -> Restored:
    """Put a file, or all files of a folder, back as they were. What came into the folder since stays.

    A note that is elsewhere by now, under the same id, is left where it is: a second copy would be a second note.

    Args:
        path: a memory file, or a folder such as `archival/2026`.
        rev: a commit.

    Raises:
        VaultError: no such file or folder of memory, or it was not there then, or the note was moved since.
    """
    path = path.rstrip("/")
    _check(path)
    vault.adopt()
    then = vault.history.tree(rev)
    wanted = [name for name in then if name == path or name.startswith(f"{path}/")]
    if not wanted:
        raise VaultError(f"{path} was not there at {rev[:8]}; see `memory-fs log {path}`", path=path)
    moved = _moved(vault, rev, then.keys(), wanted)
    if path in moved:
        raise VaultError(f"this note is {moved[path]} now; move that file back, or edit it there", path=path)

    def work(transaction: Transaction) -> None:
        for name in wanted:
            if name not in moved:
                transaction.put(name, vault.history.read(name, rev))

    subject, trailers = f"Restore {path} as it was at {rev[:8]}", {"Restores": rev}
    _, change = vault.transact(work, subject, author=author, trailers=trailers)
    return Restored(change, tuple(moved.items()))


def _check(path: str) -> None:
    """Refuse what is no file and no folder of memory."""
    ending = FOLDERS.get(path.partition("/")[0], ("",))[0]
    try:
        check_path(path if is_memory_file(path) else f"{path}/x{ending}")
    except VaultError as error:
        name = f"{path[:80]!r} is no file or folder of memory"
        raise VaultError(f"{name}; name one such as core/human.yaml or archival/2026", path=path[:80]) from error


def _moved(vault: Vault, rev: str, then: Collection[str], wanted: Sequence[str]) -> dict[str, str]:
    """Of the wanted notes that are gone: where those are now whose id has turned up under a new name since."""
    now = vault.files()
    gone = [name for name in wanted if name.startswith("archival/") and name not in now]
    came = [name for name in now if name.startswith("archival/") and name not in then] if gone else []
    ids = {_id(vault.disk.read(name), name): name for name in came}
    places = {name: ids.get(_id(vault.history.read(name, rev), name)) for name in gone}
    return {name: place for name, place in places.items() if place is not None}


def _id(data: bytes | None, path: str) -> str:
    return parse_note((data or b"").decode("utf-8", "replace"), path).id
