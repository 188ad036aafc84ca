"""Which paths are memory: names only, no look at the disk."""

from __future__ import annotations

import os
import re

from memory_fs.errors import VaultError

INNER = ".memory_fs"
TOP_FILES = ("memory.yaml", "system.md", "queue.yaml")
FOLDERS = {"core": (".yaml",), "recall": (".md",), "archival": (".md", ".markdown", ".txt")}
_RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}
_TAKEN_FOR_GIT = re.compile(r"git~1[ .]*(?:[:\\].*)?\Z", re.IGNORECASE | re.DOTALL)


def is_kept_by_git(name: str) -> bool:
    """Whether history can hold a file or folder of this name: git refuses what some system takes for `.git`."""
    return not _TAKEN_FOR_GIT.match(name)


def is_memory_file(path: str) -> bool:
    """Whether a path (relative, `/` between its parts) is one that the vault keeps: no editor's droppings."""
    top, _, rest = path.partition("/")
    if not rest:
        return top in TOP_FILES
    name = rest.rsplit("/", 1)[-1]
    hidden = any(part.startswith(".") or not is_kept_by_git(part) for part in rest.split("/"))
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
