"""The files below a vault's root: reading, whole writes, the lock; what is there now is for `memory_fs.scan`.

The only module that writes memory files. It knows bytes and paths; what they mean is for others.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from memory_fs.errors import Conflict, VaultError
from memory_fs.paths import FOLDERS, INNER, TOP_FILES, check_path, is_memory_file
from memory_fs.scan import Scan, digest
from memory_fs.swap import SYNCFS, swap, sync_folder, syncs_whole, write_aside


class Disk(Scan):
    """The files of one vault.

    Attributes:
        whole_sync: one `sync` makes all that was written durable; else each file and folder is synced by itself.
    """

    def __init__(self, root: Path) -> None:
        """Args: root: the vault's folder, which must exist."""
        super().__init__(root)
        self.whole_sync = syncs_whole(self.root)

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
                self.note(path, files[path])
                del waiting[path]
            for folder in () if self.whole_sync else {self.place(path).parent for path in files}:
                sync_folder(folder)

        try:
            for path, data in files.items():
                place = self.place(path)
                waiting[path] = (place, None if data is None else write_aside(place, data, sync=not self.whole_sync))
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

        One wait for a whole change, where fsync of each object, file and folder takes some thirty. Where that is not to
        be had (`whole_sync`), each of them was fsynced when it was written, and nothing is left to do.

        Raises:
            OSError: the device failed.
        """
        if not self.whole_sync:
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
            with contextlib.suppress(OSError):  # the lock is gone all the same
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


__all__ = ["FOLDERS", "INNER", "TOP_FILES", "Disk", "check_path", "digest", "is_memory_file"]
