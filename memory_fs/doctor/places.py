"""Checks of what lies in the folders: names, links, permissions, leftovers. No file is opened."""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
import unicodedata
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from memory_fs.disk import FOLDERS, INNER
from memory_fs.doctor.case import MEND, Case, Entry, Trouble
from memory_fs.doctor.mend import sweep
from memory_fs.events import clean
from memory_fs.paths import is_kept_by_git

_LEFTOVER = re.compile(r"\.[0-9a-f]{8,}\.tmp\Z")
_HOUR = 3600.0  # seconds; a temporary file of the program lives for a fraction of one


def unreadable(case: Case) -> Iterator[Trouble]:
    """What cannot be listed or looked at hides all that is in it."""
    for entry in case.entries:
        if entry.why:
            yield Trouble(entry.path, "unreadable", f"cannot be read ({entry.why})", _allow(case, entry.path))


def closed(case: Case, path: str, why: str) -> Trouble:
    """A file that is there and cannot be read."""
    return Trouble(path, "unreadable", f"cannot be read ({why})", _allow(case, path))


def kinds_of_file(case: Case) -> Iterator[Trouble]:
    """A folder, pipe or device that stands where a memory file belongs is never read."""
    for entry in case.entries:
        if entry.stat and entry.is_memory and not (entry.is_file or entry.is_link or _is_parent(entry)):
            what = "a folder" if entry.is_folder else "no ordinary file"
            yield Trouble(entry.path, "unreadable", f"{what} stands where a file belongs", "move it out of the vault")
    for name in FOLDERS:
        if (case.root / name).is_file():
            yield Trouble(name, "unreadable", "a file stands where a folder belongs", "move it out of the vault")


def _is_parent(entry: Entry) -> bool:
    return entry.is_folder and entry.path.startswith(("recall/", "archival/"))


def links(case: Case) -> Iterator[Trouble]:
    """Symbolic links are not followed: they could lead out of the vault, or in circles."""
    for entry in case.entries:
        if not entry.is_link or not (entry.is_memory or _could_be_folder(entry.path)):
            continue
        place = case.root / entry.path
        try:
            real = place.resolve(strict=True)
            inside = real.is_relative_to(case.root) and not real.is_relative_to(case.root / INNER)
            what = "a link, and links are not followed" if inside else "a link that leads out of the vault"
        except FileNotFoundError:
            what = "a link to nothing"
        except (OSError, RuntimeError):
            what = "a link in a circle"
        mend = f"put the file itself there, or remove the link: rm {_quoted(place)}"
        yield Trouble(entry.path, "link", what, mend)


def _could_be_folder(path: str) -> bool:
    top, _, rest = path.partition("/")
    return top in FOLDERS and (not rest or (top != "core" and not rest.rsplit("/", 1)[-1].startswith(".")))


def permissions(case: Case) -> Iterator[Trouble]:
    """The owner may read and write every file, and enter every folder; else a write would fail later."""
    for entry in (Entry("", case.root.stat()), *case.entries, *case.inner):
        if entry.stat is None or not (entry.is_folder or (entry.is_file and entry.is_memory)):
            continue
        wanted, letters = (stat.S_IRWXU, "rwx") if entry.is_folder else (stat.S_IRUSR | stat.S_IWUSR, "rw")
        if entry.stat.st_mode & wanted != wanted:
            mode = stat.filemode(entry.stat.st_mode)
            what = f"its owner may not do all that is needed ({mode})"
            yield Trouble(entry.path or ".", "permissions", what, _allow(case, entry.path, letters))
        elif not os.access(case.root / entry.path, os.R_OK | os.W_OK):
            what = f"it belongs to another user (number {entry.stat.st_uid})"
            yield Trouble(entry.path or ".", "permissions", what, f"sudo chown -R $(id -u) {_quoted(case.root)}")


def _allow(case: Case, path: str, letters: str = "rwX") -> str:
    return f"chmod u+{letters} {_quoted(case.root / path)}"


def _quoted(place: Path) -> str:
    return shlex.quote(clean(str(place)))


def names(case: Case) -> Iterator[Trouble]:
    """Names that are no text, or that git refuses: such a file is not memory."""
    for entry in case.entries:
        if clean(entry.path) != entry.path:
            yield Trouble(clean(entry.path), "name", "its name is not UTF-8, so it is not read", "rename it")
        elif not is_kept_by_git(entry.name):
            what = "git keeps nothing of this name, as some systems take it for .git; it is not read"
            yield Trouble(entry.path, "name", what, "rename it")


def collisions(case: Case) -> Iterator[Trouble]:
    """Names that some systems take for one: there, one file would replace the other."""
    seen: dict[str, str] = {}
    for entry in case.entries:
        if entry.is_link or not (entry.is_folder or entry.is_memory):
            continue
        other = seen.setdefault(unicodedata.normalize("NFC", entry.path).casefold(), entry.path)
        if other != entry.path and other.rpartition("/")[0] == entry.path.rpartition("/")[0]:
            what = f"on some systems this is the same name as {other.rpartition('/')[2]!r}"
            yield Trouble(clean(entry.path), "name", what, "rename one of the two")


def leftovers(case: Case) -> Iterator[Trouble]:
    """Temporary files of a write that was interrupted; never one that may still be at work."""
    inner = case.root / INNER
    found = [entry for entry in case.entries if entry.is_file and _LEFTOVER.match(entry.name)]
    if case.inner and case.reachable:
        # Some of these are written without the lock, so only old ones count.
        held = [Entry(f"{INNER}/{one.name}", one.lstat()) for one in inner.iterdir() if _LEFTOVER.match(one.name)]
        found += [entry for entry in held if entry.stat and time.time() - entry.stat.st_mtime > _HOUR]
    for entry in found:
        if entry.stat and not (case.busy and time.time() - entry.stat.st_mtime < _HOUR):
            fix = partial(sweep, path=entry.path, seen=entry.stat)
            yield Trouble(entry.path, "leftover", "left behind by a write that was interrupted", MEND, fix=fix)


def lock(case: Case) -> Iterator[Trouble]:
    """Another program that is writing is no trouble, but what it has half done may look like one."""
    if case.busy:
        what = "another program is writing just now; what it has half done can look like trouble"
        yield Trouble(f"{INNER}/lock", "lock", what, "look again when it is done", normal=True)
