"""What `--fix` does to files: each repair one change of the vault, and what is taken out of a file put beside it.

Repairs look again before they write: the file may have changed since it was found wanting, and doing one twice does no
harm. The only module besides `memory_fs.disk` that writes into memory folders, and never over anything: the bytes set
aside are no memory file, so the vault's one write path refuses their name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

from memory_fs.change import PROGRAM
from memory_fs.disk import INNER, digest
from memory_fs.doctor.case import Case
from memory_fs.errors import VaultError
from memory_fs.vault import Transaction

Rewrite = Callable[[bytes], bytes]


def rewrite(case: Case, path: str, subject: str, change: Rewrite) -> None:
    """Change one file, as a change of its own in history.

    Raises:
        VaultError: it cannot be written.
    """
    mend(case, subject, lambda transaction: change_bytes(transaction, path, change))


def mend(case: Case, subject: str, work: Callable[[Transaction], object]) -> None:
    """Do some work as one change of the program; the subject says what was mended."""
    case.vault.transact(work, f"Mend {subject}", author=PROGRAM)


def change_bytes(transaction: Transaction, path: str, change: Rewrite) -> None:
    """Stage another content of a file that is there; it need not be text."""
    before = transaction.data(path)
    if before is not None:
        transaction.put(path, change(before))


def set_aside(case: Case, path: str, data: bytes) -> None:
    """Put bytes that were taken out of a file beside it, as `NAME.broken-1` or the next free number.

    A file that has just these bytes already is enough.

    Raises:
        VaultError: they cannot be written.
    """
    place = case.root / path
    for number in count(1):
        aside = place.with_name(f"{place.name}.broken-{number}")
        try:
            _write_new(aside, data)
        except FileExistsError:
            if not aside.is_file() or aside.is_symlink() or aside.read_bytes() != data:
                continue
        except OSError as error:
            raise VaultError(f"cannot write {aside} ({error.strerror}); nothing is lost", path=aside) from error
        return


def _write_new(place: Path, data: bytes) -> None:
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            place.unlink()
            raise


def sweep(case: Case, path: str, seen: os.stat_result) -> None:
    """Remove a temporary file that was left behind; under the lock, so that no writer can be at work on it.

    A write that was killed at the wrong moment may have left a person's own text in it: what history does not hold is
    kept under a name that is no memory.

    Raises:
        VaultError: another program is writing, or it cannot be removed.
    """
    place = case.root / path
    with case.disk.lock():
        try:
            now = place.lstat()
            if (now.st_ino, now.st_mtime_ns, now.st_size) != (seen.st_ino, seen.st_mtime_ns, seen.st_size):
                return
            data = place.read_bytes()
            if data and not path.startswith(INNER) and not (case.history and case.history.has(digest(data))):
                set_aside(case, f"{path.rpartition('/')[0]}/leftover{place.name}".lstrip("/"), data)
            place.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            raise VaultError(f"{path} cannot be removed ({error.strerror})", path=path) from error
