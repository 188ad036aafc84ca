"""Whole files: written under another name, then put in place only if what is there is still what is known of it.

A look before the rename leaves a moment in which a person's save would be lost. Where the system can exchange two names
at once (Linux, renameat2), the look comes after: what was there is at hand then, and goes back if it is another.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from memory_fs.mounts import syncs_files_alone

SYNCFS: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None
_RENAME: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
_HERE, _KEEP, _EXCHANGE = -100, 1, 2  # AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # an old kernel, or a file system without it


def syncs_whole(folder: Path) -> bool:
    """Whether one syncfs makes durable all that was written to the file system of a folder."""
    return SYNCFS is not None and not syncs_files_alone(folder)


def swap(aside: Path | None, place: Path, before: bytes | None) -> bool:
    """Put the file `aside` in place (None: delete what is there), if `place` holds `before` (None: nothing).

    Returns:
        Whether it did; if not, `place` holds what it held, and `aside` is still there.

    Raises:
        OSError: the folder cannot be written.
    """
    if _read(place) != before:
        return False
    if aside is None:
        return before is None or _take_away(place, before)
    if before is None:
        return _rename(aside, place, _KEEP)
    if not _rename(aside, place, _EXCHANGE):
        return False
    if not aside.exists():  # no exchange here: it was renamed over the other
        return True
    if _read(aside) != before:
        _rename(aside, place, _EXCHANGE)
        return False
    aside.unlink()
    return True


def _take_away(place: Path, before: bytes) -> bool:
    """Delete a file that holds `before`: moved away first, so that another text that came meanwhile can go back."""
    aside = place.with_name(f".{secrets.token_hex(8)}.tmp")
    place.rename(aside)
    if _read(aside) != before:
        _rename(aside, place, _KEEP)
        return False
    aside.unlink()
    return True


def _rename(old: Path, new: Path, how: int) -> bool:
    """Rename without replacing, or exchange; False where the names are not as that needs them."""
    if _RENAME is not None and _RENAME(_HERE, os.fsencode(old), _HERE, os.fsencode(new), how) == 0:
        return True
    code = ctypes.get_errno() if _RENAME is not None else errno.ENOSYS
    if code in (errno.EEXIST, errno.ENOENT):
        return False
    if code not in _CANNOT:
        raise OSError(code, os.strerror(code), str(new))
    if how == _KEEP and new.exists():
        return False
    old.replace(new)
    return True


def _read(place: Path) -> bytes | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return place.read_bytes()
    return None


def write_aside(place: Path, data: bytes, *, sync: bool) -> Path:
    """Write the bytes under a new name beside their place; `sync`: wait until all of them are on the device."""
    _make_folder(place.parent, sync)
    aside = place.parent / f".{secrets.token_hex(8)}.tmp"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _mode(place))
    try:
        view = memoryview(data)
        while view:  # a write may take less than it is given
            view = view[os.write(handle, view) :]
        if os.fstat(handle).st_size != len(data):
            raise OSError(5, "short write", str(aside))
        if sync:
            os.fsync(handle)
    except BaseException as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, error.strerror, str(place)) from error
        raise
    finally:
        os.close(handle)
    return aside


def _mode(place: Path) -> int:
    try:
        return place.stat().st_mode & 0o777
    except OSError:
        return 0o644


def _make_folder(folder: Path, sync: bool) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent, sync)
    folder.mkdir(exist_ok=True)
    if sync:
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the device."""
    if os.name == "nt":  # Windows cannot open a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
