"""Undo and redo of memory: new commits on top, nothing is ever rewritten.

Recall and the queue are a record of what happened, so they are never undone; core memory, notes, system.md and
memory.yaml are.
"""

from __future__ import annotations

from collections.abc import Iterator

from memory_fs.change import Author, Change
from memory_fs.errors import VaultError
from memory_fs.vault import Transaction, Vault

MEMORY = ("core", "archival", "system.md", "memory.yaml")


def undo(vault: Vault, author: Author) -> Change:
    """Take back the newest change of memory that is not taken back yet.

    Raises:
        VaultError: there is none, or its lines were edited since.
    """
    vault.adopt()
    change = _newest_standing(vault)
    if change is None:
        raise VaultError("nothing to undo")
    return _apply(vault, change, author, back=True)


def redo(vault: Vault, author: Author) -> Change:
    """Bring back what the newest undo took back; any new change of memory ends the chain.

    Raises:
        VaultError: there is none, or its lines were edited since.
    """
    vault.adopt()
    change = _newest_undone(vault)
    if change is None:
        raise VaultError("nothing to redo")
    return _apply(vault, change, author, back=False)


def _changes(vault: Vault) -> Iterator[Change]:
    """The changes of memory, newest first; the vault's first commit is where undo ends."""
    for change in vault.history.log_of(MEMORY):
        if vault.history.parent(change.rev):
            yield change


def _newest_standing(vault: Vault) -> Change | None:
    settled: dict[str, bool] = {}  # change -> whether the newest word on it was an undo
    for change in _changes(vault):
        undone, redone = change.trailers.get("Undoes"), change.trailers.get("Redoes")
        if undone or redone:
            settled.setdefault(undone or redone or "", bool(undone))
        elif not settled.get(change.rev):
            return change
    return None


def _newest_undone(vault: Vault) -> Change | None:
    redone: set[str] = set()
    for change in _changes(vault):
        if "Redoes" in change.trailers:
            redone.add(change.trailers["Redoes"])
        elif "Undoes" not in change.trailers:
            if change.rev not in redone:
                return None
        elif change.trailers["Undoes"] in redone:
            redone.discard(change.trailers["Undoes"])
        else:
            return vault.history.show(change.trailers["Undoes"])
    return None


def _apply(vault: Vault, change: Change, author: Author, back: bool) -> Change:
    """Put the other side of a change in place, merging what was edited elsewhere in the same files since."""

    def work(transaction: Transaction) -> None:
        for path, before, after in vault.history.contents(change.rev):
            if not path.startswith(MEMORY):
                continue
            old, new = (after, before) if back else (before, after)
            transaction.read(path)
            now = transaction.base[path]
            if now != old:
                merged = vault.history.merge(old, now, new)
                if merged is None:
                    verb = "undone" if back else "redone"
                    raise VaultError(f"{path} was edited on the same lines since; nothing was {verb}", path=path)
                new = merged
            transaction.put(path, new)

    word = "Undo" if back else "Redo"
    trailers = {f"{word}es": change.rev}
    _, made = vault.transact(work, f"{word}: {change.subject}", author=author, trailers=trailers)
    if made is None:
        raise VaultError(f"{word.lower()} of {change.rev[:8]} would change nothing")
    return made
