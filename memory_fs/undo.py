"""Undo and redo of memory: new commits on top, nothing is ever rewritten.

Recall and the queue are a record of what happened, so they are never undone; core memory, notes, system.md and
memory.yaml are. A change, a turn or a whole session is taken back by one commit that names in `Undoes` all it takes
back; redo takes that commit back and names the same ones in `Redoes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memory_fs.change import Author, Change
from memory_fs.errors import VaultError
from memory_fs.merge import merge_file
from memory_fs.vault import Transaction, Vault

MEMORY = ("core", "archival", "system.md", "memory.yaml")


def undo(vault: Vault, author: Author, rev: str | None = None) -> Change:
    """Take back a change of memory: the newest that is not taken back yet, or the one that `rev` names.

    Args:
        author: who asks for it.
        rev: its id, or the start of it.

    Raises:
        VaultError: there is none, it is taken back already, or its lines were edited since.
    """
    vault.adopt()
    if rev is not None:
        return _undo_named(vault, author, vault.history.show(rev))
    change = next(_standing(vault), None)
    if change is None:
        raise VaultError("nothing to undo")
    return _take_back(vault, author, [change], "Undo", f"Undo: {change.subject}")


def _undo_named(vault: Vault, author: Author, change: Change) -> Change:
    if vault.history.parent(change.rev) is None:
        raise VaultError(f"{change.rev[:8]} is where the history begins; it cannot be undone")
    if not any(path.startswith(MEMORY) for path in change.paths):
        raise VaultError(f"{change.rev[:8]} wrote only to recall and the queue, which are a record; nothing to undo")
    if "Undoes" in change.trailers:  # to take back an undo is to redo
        return _redo(vault, author, change)
    subject = f"Undo: {change.subject.removeprefix('Redo: ')}"
    if "Redoes" in change.trailers:
        return _take_back(vault, author, [change], "Undo", subject, change.trailers["Redoes"])
    if all(standing.rev != change.rev for standing in _standing(vault)):
        raise VaultError(f"{change.rev[:8]} is undone already; `memory-fs log` shows by which change")
    return _take_back(vault, author, [change], "Undo", subject)


def undo_turn(vault: Vault, author: Author, turn: str | None = None) -> Change:
    """Take back all that a turn wrote to memory, as one change.

    Args:
        author: who asks for it.
        turn: `SESSION/N`; by default the newest turn that wrote something which still stands.

    Raises:
        VaultError: there is none, or what it wrote was edited since; nothing is written then.
    """
    vault.adopt()
    session, _, number = (turn or "").rpartition("/")
    if turn is not None and not (session and number.isdecimal()):
        raise VaultError(f"{turn[:80]!r} names no turn; write SESSION/N, such as 2026-11-29-a7f3/4")
    return _undo_all(vault, author, "turn", ("Session", "Turn"), (session, str(int(number))) if turn else None)


def undo_session(vault: Vault, author: Author, session: str | None = None) -> Change:
    """Take back all that a session wrote to memory, as one change; else as `undo_turn`."""
    vault.adopt()
    return _undo_all(vault, author, "session", ("Session",), (session,) if session else None)


def _undo_all(vault: Vault, author: Author, what: str, keys: tuple[str, ...], wanted: tuple[str, ...] | None) -> Change:
    """Take back every change that stands and has these values in its trailers (default: those of the newest)."""
    changes = []
    for change in _standing(vault):
        found = tuple(change.trailers.get(key, "") for key in keys)
        if wanted is None and all(found):
            wanted = found
        if found == wanted:
            changes.append(change)
    name = f"{what} {'/'.join(wanted)}" if wanted else f"no {what}"
    if not changes:
        raise VaultError(f"nothing to undo: {name} has changes of memory that stand")
    count = f"{len(changes)} change{'s' * (len(changes) > 1)}"
    return _take_back(vault, author, changes, "Undo", f"Undo: {name}, {count}")


def redo(vault: Vault, author: Author) -> Change:
    """Bring back what the newest undo took back, all of it; any new change of memory ends the chain.

    Raises:
        VaultError: there is none, or its lines were edited since.
    """
    vault.adopt()
    change = _newest_undo(vault)
    if change is None:
        raise VaultError("nothing to redo")
    return _redo(vault, author, change)


def _redo(vault: Vault, author: Author, change: Change) -> Change:
    subject = f"Redo: {change.subject.removeprefix('Undo: ')}"
    return _take_back(vault, author, [change], "Redo", subject, change.trailers["Undoes"])


def _changes(vault: Vault) -> Iterator[Change]:
    """The changes of memory, newest first; the vault's first commit is where undo ends."""
    for change in vault.history.log_of(MEMORY):
        if vault.history.parent(change.rev):
            yield change


def _standing(vault: Vault) -> Iterator[Change]:
    """The changes of memory that are not taken back, newest first; undo and redo themselves left out."""
    settled: dict[str, bool] = {}  # change -> whether the newest word on it was an undo
    for change in _changes(vault):
        undone, redone = change.trailers.get("Undoes"), change.trailers.get("Redoes")
        for rev in (undone or redone or "").split():
            settled.setdefault(rev, bool(undone))
        if not undone and not redone and not settled.get(change.rev):
            yield change


def _newest_undo(vault: Vault) -> Change | None:
    """The newest undo that is not redone, when no change of memory came after it."""
    redone: set[str] = set()
    for change in _changes(vault):
        if "Redoes" in change.trailers:
            redone.add(change.trailers["Redoes"])
        elif "Undoes" not in change.trailers:
            return None
        elif change.trailers["Undoes"] not in redone:
            return change
        else:
            redone.discard(change.trailers["Undoes"])
    return None


# -- taking back ------------------------------------------------------------------------------------------------------


def _take_back(
    vault: Vault, author: Author, changes: Sequence[Change], word: str, subject: str, named: str = ""
) -> Change:
    """Take changes back, newest first, as one new change; what was edited elsewhere in their files since stays.

    Args:
        word: `Undo` or `Redo`.
        named: what the trailer names, when it is not these changes.
    """

    def work(transaction: Transaction) -> None:
        for change in changes:
            for path, before, after in vault.history.contents(change.rev):
                now = transaction.data(path)
                if now == before or not path.startswith(MEMORY):
                    continue
                back = before if now == after else merge_file(vault.history, path, after, now, before)
                if back is None and now != after:
                    told = _told(vault, path, (before, after), change, changes)
                    raise VaultError(f"{path} {told}; nothing was {word.lower().replace('do', 'done')}", path=path)
                transaction.put(path, back)

    trailers = {f"{word}es": named or " ".join(change.rev for change in changes)}
    _, made = vault.transact(work, subject, author=author, trailers=trailers)
    if made is None:
        raise VaultError(
            f"{word.lower()} of {changes[0].rev[:8]} would change nothing: its files are as before, or elsewhere by now"
        )
    return made


def _told(
    vault: Vault, path: str, sides: tuple[bytes | None, bytes | None], change: Change, ours: Sequence[Change]
) -> str:
    """Why a change of a file cannot be taken back: which later change is in the way, and whose it is."""
    before, after = sides
    later = []
    for found in vault.history.log(path):
        if found.rev == change.rev:
            break
        if all(found.rev != other.rev for other in ours):
            later.append(found)
    what, by = "was edited on the same lines since", ""
    for found in reversed(later):
        then = vault.history.read(path, found.rev)
        if then != after and merge_file(vault.history, path, after, then, before) is None:
            what = "was deleted or renamed since" if then is None else what
            by = f", by {found.author} in {found.rev[:8]} ({found.subject[:80]})"
            break
    return what + by
