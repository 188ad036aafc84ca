"""What the doctor looks at, and what it says: a `Case` is one vault on one day, a `Trouble` one finding.

Looking changes nothing: hand edits are not adopted, an interrupted change is not finished, no index is built. Only a
fix opens the vault as every other command does.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from memory_fs.disk import FOLDERS, INNER, Disk, digest, is_memory_file
from memory_fs.errors import VaultError
from memory_fs.events import clean
from memory_fs.history_check import Checkup
from memory_fs.journal import Journal
from memory_fs.vault import Vault

MEND = "`memory-fs doctor --fix`"
Fix = Callable[["Case"], None]
Report = Callable[[int, int], None]
_QUARANTINED = re.compile(r".*\.broken-\d+\Z")


@dataclass(frozen=True)
class Trouble:
    """One finding.

    Attributes:
        path: the file or folder, relative to the vault.
        kind: one word for programs, such as `front-matter`.
        what: what is wrong, for a person.
        mend: what to do about it: a command, or where to look.
        line: from 1; 0 where there is none.
        column: from 1; 0 where there is none.
        normal: worth knowing, and nothing wrong.
        fix: what `--fix` does; doing it twice does no harm. None: only a person can decide.
        fixed: whether it was done.
    """

    path: str
    kind: str
    what: str
    mend: str
    line: int = 0
    column: int = 0
    normal: bool = False
    fix: Fix | None = field(default=None, compare=False, repr=False)
    fixed: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays the same when lines move."""
        return self.path, self.kind, self.what

    def json(self) -> dict[str, object]:
        """As scripts read it."""
        names = ("path", "line", "column", "kind", "what", "mend", "normal")
        return {**{name: getattr(self, name) for name in names}, "fixable": self.fix is not None, "fixed": self.fixed}

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        return f"{place}: {self.what}"


@dataclass(frozen=True)
class Entry:
    """Something in a memory folder: `path` is relative, `why` says why it cannot be looked at."""

    path: str
    stat: os.stat_result | None = None
    why: str = ""

    @property
    def is_file(self) -> bool:
        """Whether it is an ordinary file."""
        return self.stat is not None and stat.S_ISREG(self.stat.st_mode)

    @property
    def is_memory(self) -> bool:
        """Whether the vault would keep it; a name that is no text is none that it could keep."""
        return is_memory_file(self.path) and clean(self.path) == self.path

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.stat is not None and stat.S_ISDIR(self.stat.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.stat is not None and stat.S_ISLNK(self.stat.st_mode)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rsplit("/", 1)[-1]


class Case:
    """One vault, as it is now; what checks of single files find is kept for those that compare files.

    Attributes:
        entries: everything in the vault but hidden folders, links not followed.
        inner: `.memory_fs` and the folders in it.
        blobs: path -> git's id of the content of each memory file that could be read.
        notes: id of a note -> the files that carry it.
        messages: id of a message -> (file, line) of each section that carries it.
        texts: path -> (id, text) of each searchable record, hashed.
        doubtful: days of which not all could be read.
        closed: files and folders that could not be read.
        sound: whether the newest change can be read, so that another can be put on top of it.
    """

    def __init__(self, root: Path, report: Report) -> None:
        """Args: root: the vault's folder; report: called with (done, of how many)."""
        self.disk = Disk(root)
        self.root = self.disk.root
        self.report = report
        self.queue = self._bytes("queue.yaml")  # before the days that it names, which are written before it
        self.entries = list(_walk(self.root, ""))
        self.inner = list(_folders(self.root, INNER))
        self.blobs: dict[str, str] = {}
        self.notes: dict[str, list[str]] = {}
        self.messages: dict[str, list[tuple[str, int]]] = {}
        self.texts: dict[str, frozenset[int]] = {}
        self.doubtful: set[str] = set()
        self.closed = {entry.path for entry in self.entries if entry.why or entry.is_link}
        self.sound = True

    def _bytes(self, path: str) -> bytes | None:
        try:
            return self.disk.read(path)
        except VaultError:
            return None

    def files(self) -> Iterator[tuple[str, bytes | str]]:
        """(path, its bytes, or why they cannot be read) of every memory file."""
        found = [entry for entry in self.entries if entry.is_file and entry.is_memory]
        for number, entry in enumerate(found, 1):
            try:
                data = (self.root / entry.path).read_bytes()
                self.blobs[entry.path] = digest(data)
                yield entry.path, data
            except FileNotFoundError:
                continue  # gone since it was listed
            except OSError as error:
                self.closed.add(entry.path)
                self.doubtful.add(entry.path)
                yield entry.path, error.strerror or str(error)
            self.report(number, len(found))

    def is_unknown(self, path: str) -> bool:
        """Whether it could not be told if a file is there: it, or a folder above it, could not be read."""
        return any(not one or path == one or path.startswith(f"{one}/") for one in self.closed)

    @cached_property
    def reachable(self) -> bool:
        """Whether history and index can be looked at: what may not be read is not damaged."""
        return all(not one.why and os.access(self.root / one.path, os.R_OK | os.X_OK) for one in self.inner)

    @cached_property
    def git(self) -> Path:
        """The git directory."""
        return self.root / INNER / "git"

    @cached_property
    def history(self) -> Checkup | None:
        """The repository; None where there is none, or none that opens."""
        if not self.reachable or not (self.git / "HEAD").exists():
            return None
        try:
            return Checkup(self.git)
        except VaultError:
            return None

    @cached_property
    def changes(self) -> int:
        """How many changes history has."""
        return len(self.history.changes()) if self.history else 0

    @property
    def unfinished(self) -> bool:
        """Whether a change may not be wholly in place."""
        return bool(Journal(self.root / INNER, self.disk.whole_sync).unfinished())

    @cached_property
    def busy(self) -> bool:
        """Whether another program holds the vault's lock."""
        if not self.reachable or not (self.root / INNER / "lock").exists():
            return False
        try:
            with self.disk.lock(timeout=0):
                return False
        except VaultError as error:
            return error.__cause__ is None  # else it could not even be opened

    @cached_property
    def vault(self) -> Vault:
        """The vault, opened as every command opens it; for fixes alone, since opening finishes what was interrupted."""
        return Vault(self.root)

    def close(self) -> None:
        """Release what was opened."""
        opened = vars(self)
        if opened.get("vault"):
            self.vault.close()
        if opened.get("history"):
            opened["history"].close()


def _walk(root: Path, prefix: str) -> Iterator[Entry]:
    """Everything below a folder; of the vault itself only what belongs to memory."""
    try:
        with os.scandir(root / prefix) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield Entry(prefix.rstrip("/"), None, error.strerror or str(error))
        return
    for one in ordered:
        if one.name == INNER or _QUARANTINED.match(one.name):
            continue
        try:
            entry = Entry(prefix + one.name, one.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue
        except OSError as error:
            entry = Entry(prefix + one.name, None, error.strerror or str(error))
        yield entry
        if entry.is_folder and not one.name.startswith(".") and (prefix or one.name in FOLDERS):
            yield from _walk(root, f"{entry.path}/")


def _folders(root: Path, path: str) -> Iterator[Entry]:
    """A folder of the program's own, if it is there, and all below it."""
    try:
        found = Entry(path, (root / path).lstat())
        names = [one.name for one in os.scandir(root / path) if one.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield Entry(path, _stat(root / path), error.strerror or str(error))
        return
    yield found
    for name in names:
        yield from _folders(root, f"{path}/{name}")


def _stat(place: Path) -> os.stat_result | None:
    try:
        return place.lstat()
    except OSError:
        return None
