"""The files below a vault's root: which paths are allowed, whole writes, the lock, and what is there now.

The only module that writes memory files. It knows bytes and paths; what they mean is for others.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memory_fs.errors import Conflict, VaultError
from memory_fs.events import clean
from memory_fs.swap import swap

SYNCFS: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None
INNER = ".memory_fs"
TOP_FILES = ("memory.yaml", "system.md", "queue.yaml")
FOLDERS = {"core": (".yaml",), "recall": (".md",), "archival": (".md", ".markdown", ".txt")}
_Found = tuple[str, "os.DirEntry[str]"]
RACY_NS = 2_000_000_000  # a file younger than this may change again without a new time stamp
_RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}


def is_memory_file(path: str) -> bool:
    """Whether a path (relative, `/` between its parts) is one that the vault keeps: no editor's droppings."""
    top, _, rest = path.partition("/")
    if not rest:
        return top in TOP_FILES
    name = rest.rsplit("/", 1)[-1]
    hidden = any(part.startswith(".") for part in rest.split("/"))
    return not hidden and name.endswith(FOLDERS.get(top, ())) and (top != "core" or "/" not in rest)


def check_path(path: str, *, new: bool = False) -> str:
    """The path itself, when a file of the vault may have it.

    Args:
        path: relative, `/` between its parts.
        new: the program chooses it, so every system has to take it; a person's file may have any name that theirs took.

    Raises:
        VaultError: it is absolute, climbs, names another kind of file, or no file system could hold it.
    """
    parts = path.split("/")
    reason = None
    if any(part in ("", ".", "..") for part in parts):
        reason = "it must be relative, without empty parts, `.` or `..`"
    elif "\0" in path or any(len(part.encode(errors="surrogatepass")) > 255 for part in parts):
        reason = "a name has more than 255 bytes, or NUL"
    elif not is_memory_file(path):
        reason = "only core/*.yaml, recall/, archival/, memory.yaml, system.md and queue.yaml are memory"
    elif new or os.name == "nt":  # there, such names mean something else
        reason = _unportable(path, parts)
    if reason:
        raise VaultError(f"path {path[:80]!r} refused: {reason}", path=path[:80])
    return path


def _unportable(path: str, parts: list[str]) -> str | None:
    if any(char in '\\:*?"<>|' or ord(char) < 32 for char in path):
        return "it holds a character that file names must not have"
    if any(part.split(".")[0].casefold() in _RESERVED or part.endswith((" ", ".")) for part in parts):
        return "a name is reserved"
    return None


class Disk:
    """The files of one vault."""

    def __init__(self, root: Path) -> None:
        """Args: root: the vault's folder, which must exist."""
        self.root = root.resolve()
        self.inner = self.root / INNER
        self.troubles: dict[str, str] = {}
        self._seen: dict[str, tuple[int, int, str]] = {}

    def place(self, path: str) -> Path:
        """Where a checked path stands on disk, symbolic links followed.

        Raises:
            VaultError: the path is refused, or a link leads out of the vault.
        """
        place = self.root / check_path(path)
        if not self._crosses_link(path):
            return place
        try:
            real = place.resolve()
        except (OSError, RuntimeError) as error:  # a loop of links
            raise VaultError(f"path {path!r} cannot be followed ({error})", path=path) from error
        if not real.is_relative_to(self.root) or real.is_relative_to(self.inner):
            raise VaultError(f"path {path!r} leads out of the vault", path=path)
        return real

    def _crosses_link(self, path: str) -> bool:
        """Whether a part of a path is a symbolic link, or cannot be looked at: a look at each, as resolving is slow."""
        at = str(self.root)
        for part in path.split("/"):
            at = f"{at}{os.sep}{part}"
            try:
                if stat.S_ISLNK(os.lstat(at).st_mode):
                    return True
            except OSError as error:
                return error.errno not in (errno.ENOENT, errno.ENOTDIR)
        return False

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, or None where there is none.

        Raises:
            VaultError: the path is refused, or the file cannot be read.
        """
        try:
            return self.place(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise VaultError(f"{path} cannot be read ({error.strerror})", path=path) from error

    # -- writing ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def staged(self, files: Mapping[str, bytes | None]) -> Iterator[Callable[[Mapping[str, bytes | None]], None]]:
        """Write files under temporary names beside their places, ready to be put in place (None deletes).

        Yields a function that puts them in place, given what each path is known to hold until then (None: no file).
        Temporary files that are left at the end are removed.

        Raises:
            VaultError: the disk is full or read-only; files not yet replaced are as they were.
            Conflict: from the function that is yielded: a file holds something else by now, and keeps it.
        """
        waiting: dict[str, tuple[Path, Path | None]] = {}

        def install(before: Mapping[str, bytes | None]) -> None:
            for path, (place, aside) in list(waiting.items()):
                if not swap(aside, place, before[path]):
                    raise Conflict(f"{path} was changed at the same moment", path=path)
                del waiting[path]
            for folder in {self.place(path).parent for path in files}:
                _sync_folder(folder)

        try:
            for path, data in files.items():
                place = self.place(path)
                waiting[path] = (place, None if data is None else _write_aside(place, data))
            yield install
        except OSError as error:
            what = error.filename or "the vault"
            raise VaultError(f"cannot write {what} ({error.strerror}); nothing is lost") from error
        finally:
            for _, aside in waiting.values():
                if aside is not None:
                    with contextlib.suppress(OSError):
                        aside.unlink(missing_ok=True)

    def sync(self) -> None:
        """Wait until all that was written to the vault's file system is on the device.

        One wait for a whole change, where fsync of each object, file and folder takes some thirty. Where the system
        has no syncfs, each of them was fsynced when it was written, and nothing is left to do.

        Raises:
            OSError: the device failed.
        """
        if SYNCFS is None:
            return
        handle = os.open(self.root, os.O_RDONLY)
        try:
            if SYNCFS(handle) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), str(self.root))
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def lock(self, timeout: float = 10.0) -> Iterator[None]:
        """Hold the vault's write lock, which ends with the process. Readers need none.

        Args:
            timeout: seconds to wait for another program.

        Raises:
            VaultError: another program holds it all that time, or the folder cannot be written.
        """
        try:
            self.inner.mkdir(exist_ok=True)
            handle = os.open(self.inner / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise VaultError(f"the vault {self.root} cannot be written ({error.strerror})", path=self.root) from error
        try:
            deadline = time.monotonic() + timeout
            while not _try_lock(handle):
                if time.monotonic() > deadline:
                    raise VaultError(f"another program has been writing to {self.root} for {timeout:.0f} s; try again")
                time.sleep(0.005)
            yield
        finally:
            os.close(handle)

    # -- what is there ------------------------------------------------------------------------------------------

    def scan(self, digest: Callable[[bytes], str]) -> dict[str, str]:
        """path -> digest of every memory file now on disk.

        A file is read only when its size or time differs from the last scan, or when it is so young that it could
        change without a new time stamp. What cannot be listed or read is unknown, not deleted: it keeps its last
        digest, and `troubles` says why.
        """
        self.troubles = {}
        now, before = time.time_ns(), self._seen
        seen: dict[str, tuple[int, int, str]] = {}
        found: dict[str, str] = {}
        for path, entry in self._entries():
            known = before.get(path)
            try:
                seen_now = entry.stat(follow_symlinks=False)
                if known is None or known[0] != seen_now.st_size or known[1] != seen_now.st_mtime_ns:
                    known = (seen_now.st_size, seen_now.st_mtime_ns, digest(Path(entry.path).read_bytes()))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.troubles[path] = error.strerror or str(error)
                if known is None:
                    continue
            found[path] = known[2]
            young = now - known[1] <= RACY_NS
            seen[path] = (known[0], -1, known[2]) if young else known
        for path in filter(self.is_unknown, before if self.troubles else ()):
            seen[path], found[path] = before[path], before[path][2]
        self._seen = seen
        return found

    def count(self, folder: str) -> int:
        """How many memory files a folder such as `archival/` holds."""
        return len(self._list(folder, True, []))

    def _entries(self) -> list[_Found]:
        found = self._list("", False, [])
        for folder in FOLDERS:
            self._list(f"{folder}/", folder != "core", found)
        return found

    def _list(self, prefix: str, deep: bool, found: list[_Found]) -> list[_Found]:
        """Add the memory files below a folder; as few steps a file as can be, since every search comes through here."""
        try:
            with os.scandir(self.root / prefix) as entries:
                ordered = list(entries)
        except FileNotFoundError:
            return found
        except OSError as error:
            self.troubles[prefix] = error.strerror or str(error)
            return found
        endings = FOLDERS.get(prefix.partition("/")[0], ())
        for entry in ordered:
            name = entry.name
            if not name.isascii() and clean(name) != name:
                self.troubles[clean(prefix + name)] = "its name is no UTF-8; rename it"
            elif entry.is_file(follow_symlinks=False):
                if (name.endswith(endings) and name[0] != ".") if prefix else name in TOP_FILES:
                    found.append((prefix + name, entry))
            elif entry.is_symlink():
                if is_memory_file(prefix + name):
                    self.troubles[prefix + name] = "a symbolic link is not followed"
            elif deep and name[0] != ".":
                self._list(f"{prefix}{name}/", deep, found)
        return found

    def is_unknown(self, path: str) -> bool:
        """Whether the last scan could not tell if a file is there: it, or a folder above it, could not be read."""
        return path.startswith(tuple(self.troubles))

    def load_seen(self) -> None:
        """Take up the last scan of an earlier program."""
        try:
            saved = json.loads((self.inner / "scan.json").read_text(encoding="utf-8"))
            self._seen = {path: (int(a), int(b), str(c)) for path, (a, b, c) in saved.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            self._seen = {}  # a loss costs time only

    def save_seen(self) -> None:
        """Keep the last scan for the next program."""
        with contextlib.suppress(OSError):
            place = self.inner / "scan.json"
            _write_aside(place, json.dumps(self._seen).encode(), sync=False).replace(place)


def _write_aside(place: Path, data: bytes, sync: bool = True) -> Path:
    """Write the bytes under a new name beside their place, and make sure that all of them are on disk."""
    _make_folder(place.parent)
    aside = place.parent / f".{secrets.token_hex(8)}.tmp"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _mode(place))
    try:
        view = memoryview(data)
        while view:  # a write may take less than it is given
            view = view[os.write(handle, view) :]
        if os.fstat(handle).st_size != len(data):
            raise OSError(5, "short write", str(aside))
        if sync and SYNCFS is None:
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


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    if SYNCFS is not None or os.name == "nt":  # Windows cannot open a folder
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
