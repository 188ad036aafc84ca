"""What memory files there are and what they hold now: a look at each, and a reading where that does not settle it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from memory_fs.events import clean
from memory_fs.paths import FOLDERS, INNER, is_memory_file
from memory_fs.swap import write_aside

_Seen = dict[str, tuple[int, int, str]]  # name -> size, time and digest of a file
RACY_NS = 2_000_000_000  # a file younger than this may change again without a new time stamp


def digest(data: bytes) -> str:
    """The name that git gives to a text: its blob id."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Scan:
    """The memory files below one folder."""

    def __init__(self, root: Path) -> None:
        """Args: root: the vault's folder, which must exist."""
        self.root = root.resolve()
        self.inner = self.root / INNER
        self.troubles: dict[str, str] = {}
        self._seen: dict[str, _Seen] = {}  # folder -> what was seen in it
        self._found: dict[str, str] = {}
        self._saved = self._scanned = False
        self._mutex = threading.Lock()

    def scan(self) -> Mapping[str, str]:
        """path -> digest of every memory file now on disk; the same object again where nothing changed.

        A file is read only when its size or time differs from the last scan, or when it is so young that it could
        change without a new time stamp. What cannot be listed or read is unknown, not deleted: it keeps its last
        digest, and `troubles` says why.
        """
        with self._mutex:
            self._scanned = True
            return self._scan()

    def _scan(self) -> Mapping[str, str]:
        self.troubles = {}
        before, self._seen = self._seen, {}
        for folder in ("", *(f"{name}/" for name in FOLDERS)):
            self._look(folder, before, time.time_ns())
        for folder in before if self.troubles else ():
            known = {name: seen for name, seen in before[folder].items() if self.is_unknown(folder + name)}
            if known:
                self._seen[folder] = known | self._seen.get(folder, {})
        same = self._seen.keys() == before.keys() and all(self._seen[name] is before[name] for name in before)
        if not same or not self._found:
            self._found = {
                folder + name: seen[2] for folder, files in self._seen.items() for name, seen in files.items()
            }
            self._saved = self._saved and same
        return self._found

    def count(self, folder: str) -> int:
        """How many memory files there are below a folder such as `archival/`.

        As of the last scan (a turn begins with one) and the program's own writes since: every prompt asks this.
        """
        if not self._scanned:
            self.scan()
        with self._mutex:
            return sum(len(files) for place, files in self._seen.items() if place.startswith(folder))

    def note(self, path: str, data: bytes | None) -> None:
        """A file was written (None: deleted) by this program. The next scan looks at it all the same."""
        folder, slash, name = path.rpartition("/")
        with self._mutex:
            files = self._seen.setdefault(folder + slash, {})
            if data is None:
                files.pop(name, None)
            else:
                files[name] = (len(data), -1, digest(data))
            self._found, self._saved = {}, False

    def _look(self, folder: str, before: Mapping[str, _Seen], now: int) -> None:
        """See every file of a folder and those below it; a folder in which nothing changed keeps its record."""
        known = before.get(folder, {})
        files, folders = self._list(folder, known)
        seen: _Seen = {}
        for name, size, changed in files:
            last = known.get(name)
            if last is not None and last[0] == size and last[1] == changed:
                seen[name] = last
                continue
            try:
                content = digest((self.root / (folder + name)).read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                self.troubles[folder + name] = error.strerror or str(error)
                continue
            seen[name] = (size, -1 if now - changed <= RACY_NS else changed, content)
        unchanged = len(seen) == len(known) and all(known.get(name) is entry for name, entry in seen.items())
        if seen or known:
            self._seen[folder] = known if unchanged and folder in before else seen
        for inside in folders:
            self._look(inside, before, now)

    def _list(self, folder: str, known: Container[str]) -> tuple[list[tuple[str, int, int]], list[str]]:
        """(name, size, time) of the memory files in a folder, and the folders in it that may hold more.

        As few steps a file as can be, since every search comes through here: a name that was a memory file before is
        not looked at again.
        """
        files: list[tuple[str, int, int]] = []
        folders: list[str] = []
        try:
            with _entries(self.root / folder) as entries:
                for entry in entries:
                    try:
                        if entry.name in known or self._is_memory(folder, entry, folders):
                            is_now = entry.stat(follow_symlinks=False)
                            if stat.S_ISREG(is_now.st_mode):
                                files.append((entry.name, is_now.st_size, is_now.st_mtime_ns))
                            elif entry.name in known:  # what was a file is something else now
                                self._is_memory(folder, entry, folders)
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        self.troubles[folder + entry.name] = error.strerror or str(error)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.troubles[folder] = error.strerror or str(error)
        return files, folders

    def _is_memory(self, folder: str, entry: os.DirEntry[str], folders: list[str]) -> bool:
        """Whether an entry is a memory file by its name and kind; adds a folder to `folders`."""
        path = folder + entry.name
        if not entry.name.isascii() and clean(entry.name) != entry.name:
            self.troubles[clean(path)] = "its name is no UTF-8; rename it"
        elif entry.is_file(follow_symlinks=False):
            return is_memory_file(path)
        elif entry.is_symlink():
            if is_memory_file(path):
                self.troubles[path] = "a symbolic link is not followed"
        elif folder and not folder.startswith("core/") and entry.name[0] != "." and entry.is_dir():
            folders.append(f"{path}/")
        return False

    def is_unknown(self, path: str) -> bool:
        """Whether the last scan could not tell if a file is there: it, or a folder above it, could not be read."""
        return path.startswith(tuple(self.troubles))

    def load_seen(self) -> None:
        """Take up the last scan of an earlier program."""
        try:
            saved = json.loads((self.inner / "scan.json").read_text(encoding="utf-8"))
            self._seen = {
                folder: {name: (int(size), int(changed), str(seen)) for name, (size, changed, seen) in files.items()}
                for folder, files in saved.items()
            }
            self._saved = True
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            self._seen = {}  # a loss costs time only

    def save_seen(self) -> None:
        """Keep the last scan for the next program."""
        if not self._saved:
            with contextlib.suppress(OSError):
                place = self.inner / "scan.json"
                write_aside(place, json.dumps(self._seen).encode(), sync=False).replace(place)
                self._saved = True


@contextlib.contextmanager
def _entries(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What is in a folder; through its descriptor where that can be, so that each look starts there."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with os.scandir(handle) as entries:
            yield entries
    finally:
        os.close(handle)
