"""Makes a new vault: its folder, its files, its history."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from memory_fs.change import PROGRAM
from memory_fs.disk import INNER
from memory_fs.errors import VaultError
from memory_fs.events import Clock, system_clock
from memory_fs.vault import Transaction, Vault, is_vault


def create_vault(root: Path, files: Mapping[str, str], *, clock: Clock | None = None) -> None:
    """Make a vault of these files (path -> text), with its history.

    Args:
        root: the folder, new or empty.
        files: path -> text.
        clock: tells the time of its first change; the system's by default.

    Raises:
        VaultError: a vault is there already, or the folder cannot be written.
    """
    taken = VaultError(f"{root} is a vault already; nothing was changed", path=root)
    if is_vault(root) and ((root / "memory.yaml").exists() or (root / "core").exists()):
        raise taken
    try:
        (root / INNER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VaultError(f"cannot make {root} ({error.strerror})", path=root) from error
    with Vault(root, clock=clock or system_clock) as vault:
        if vault.history.head:  # without one, an earlier start was cut short
            raise taken

        def work(transaction: Transaction) -> None:
            for path, text in files.items():
                transaction.write(path, text)

        vault.transact(work, "Start a new vault", author=PROGRAM)
