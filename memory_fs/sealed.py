"""A folder of derived files that are believed only when this program wrote them.

Each file carries a keyed checksum over its name and content; the key lies outside the folder, in the user's cache. So
a file that was cut short, damaged, exchanged, made on another machine or planted by somebody is told apart before one
byte of it is interpreted. That matters because the search index holds pickles, and a pickle can run code.

It does not know what the files mean. Nothing here is precious: whoever finds a file `Damaged` builds it anew.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_bytes, token_hex

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

_SEAL = 32  # bytes of the checksum, at the end of each file
_PAUSE = 0.02  # seconds between two tries for a lock
_SPARE_KEY = token_bytes(_SEAL)

Stamp = frozenset[tuple[str, int, int, int]]


class Damaged(Exception):
    """A file is missing, or this program did not write it as it is."""


def user_key(path: Path | None = None) -> bytes:
    """The key of this user on this machine; made when there is none.

    Args:
        path: the key file; by default `memory_fs/index.key` in the user's cache folder.

    Where it cannot be kept, the key lasts as long as the process: what it seals is rebuilt at the next start.
    """
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        path = path or cache / "memory_fs" / "index.key"
        if path.is_file() and len(key := path.read_bytes()) == _SEAL:
            return key
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, token_bytes(_SEAL))
        return path.read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return _SPARE_KEY


def _put(path: Path, *parts: bytes) -> None:
    """Write a whole file or none, readable by its owner only; in parts, since putting them together would copy them."""
    part = path.with_name(f".{path.name}.{token_hex(8)}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            file.writelines(parts)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


class SealedFolder:
    """Named byte strings in one folder, each whole and sealed.

    Args:
        path: the folder; made by the first `write`.
        key: what seals them, 32 bytes.
    """

    def __init__(self, path: Path, key: bytes) -> None:
        self.path, self._key = path, key

    @classmethod
    def of_user(cls, parent: Path, version: str) -> SealedFolder:
        """The folder inside `parent` that belongs to this user and version; others there are left alone."""
        key = user_key()
        return cls(parent / blake2b(version.encode(), key=key, digest_size=6).hexdigest(), key)

    def _seal(self, name: str, *parts: bytes | memoryview) -> bytes:
        mark = blake2b(key=self._key, digest_size=_SEAL)
        mark.update(name.encode() + b"\0")
        for part in parts:
            mark.update(part)
        return mark.digest()

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises:
            Damaged: it is missing, or not as it was written under this name and key.
        """
        path = self.path / name
        try:
            if not path.is_file():  # a pipe would wait for ever
                raise Damaged(f"{name} is missing")
            with path.open("rb") as file:  # in two parts, since cutting off the seal would copy the rest
                data, seal = file.read(max(0, path.stat().st_size - _SEAL)), file.read()
        except OSError as error:
            raise Damaged(f"{name} cannot be read") from error
        if not compare_digest(self._seal(name, data), seal):
            raise Damaged(f"{name} is damaged or from elsewhere")
        return data

    def write(self, name: str, *parts: bytes) -> None:
        """Put a whole file in place, its parts one behind the other, or leave what was there.

        Raises:
            OSError: it cannot be written.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        _put(self.path / name, *parts, self._seal(name, *parts))

    def delete(self, name: str) -> None:
        """Remove a file; not being able to is no error, an unused file is harmless."""
        with suppress(OSError):
            (self.path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The files there are, sorted."""
        try:
            with os.scandir(self.path) as entries:
                return sorted(entry.name for entry in entries)
        except OSError:
            return []

    def stamp(self) -> Stamp:
        """What the folder looks like from outside: changes whenever another process, or a person, changed it."""
        try:
            with os.scandir(self.path) as entries:
                found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError:
            return frozenset()
        return frozenset((name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in found)

    def set_aside(self) -> None:
        """Make room for a new folder of this name, and remove the old one as far as that is possible.

        Raises:
            OSError: the old one cannot be moved.
        """
        old = self.path.with_name(f"{self.path.name}.{token_hex(4)}.old")
        try:
            self.path.rename(old)
        except FileNotFoundError:
            return
        discard(old)

    def prune(self, keep: int = 2) -> None:
        """Remove what lies beside this folder for other users and versions, but for the newest few."""
        try:
            others = [entry for entry in os.scandir(self.path.parent) if entry.name != self.path.name]
            folders = [entry for entry in others if entry.is_dir(follow_symlinks=False)]
            folders.sort(key=lambda entry: (entry.name.endswith(".old"), -entry.stat().st_mtime_ns))
        except OSError:
            return
        for place, entry in enumerate(folders):
            if place >= keep or entry.name.endswith(".old"):
                discard(Path(entry.path))


def discard(path: Path) -> None:
    """Remove a file or a folder tree, without following links; what cannot be removed stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink(missing_ok=True)


def clear_the_way(folder: Path) -> None:
    """Move away a file, or a link to nowhere, that stands where the folder belongs."""
    if (folder.is_symlink() or folder.exists()) and not folder.is_dir():
        folder.replace(folder.with_name(f"{folder.name}.damaged"))


@contextmanager
def locked(path: Path, patience: float) -> Iterator[bool]:
    """Whether the lock was had within so many seconds; released at the end, also by the death of the process."""
    until = time.monotonic() + patience
    path.parent.mkdir(parents=True, exist_ok=True)
    while (held := _try_lock(path)) is None and time.monotonic() < until:
        time.sleep(_PAUSE)
    try:
        yield held is not None
    finally:
        if held is not None:
            os.close(held)


def _try_lock(path: Path) -> int | None:
    held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if fcntl:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(held), path.stat()):
            return held  # not a lock on a file that was deleted meanwhile
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None
