"""How long history is kept: older changes become one, and their objects leave the disk. Files never change."""

from __future__ import annotations

import re
from datetime import timedelta

from memory_fs.change import PROGRAM
from memory_fs.errors import FunctionError
from memory_fs.history_prune import Pruned, prune_history
from memory_fs.vault import Vault

_SPAN = re.compile(r"([0-9]{1,5})([dwy])")
_DAYS = {"d": 1, "w": 7, "y": 365}


def span(text: str) -> timedelta:
    """A time such as `90d`, `12w` or `1y`; `0d` is none.

    Raises:
        FunctionError: it is written in another way.
    """
    found = _SPAN.fullmatch(text.strip().casefold())
    if found is None:
        raise FunctionError(f"{text[:40]!r} is no time to keep; write days, weeks or years: 90d, 12w, 1y")
    return timedelta(days=int(found[1]) * _DAYS[found[2]])


def prune(vault: Vault, keep: timedelta, *, dry_run: bool = False) -> Pruned:
    """Squash all changes that are older into one and remove what only they had. Other programs wait meanwhile.

    Args:
        keep: changes younger than that stay, under new ids when there was something to squash.
        dry_run: only say what would be done.

    Raises:
        VaultError: another program holds the lock, or the disk is full; the history is then as usable as before.
    """
    cutoff = vault.now().timestamp() - keep.total_seconds()
    if dry_run:
        vault.adopt()
        return prune_history(vault.history, cutoff, PROGRAM)
    with vault.hold():
        return prune_history(vault.history, cutoff, PROGRAM, vault.disk.sync)
