"""Data files, by path; whatever is wrong with one is told in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_fs.errors import FormatError, MemoryFsError


def read(path: Path) -> str:
    """The text of a data file.

    Raises:
        MemoryFsError: it is missing, no UTF-8, or empty.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise MemoryFsError(f"{path} cannot be read ({getattr(error, 'strerror', '') or error})", path=path) from error
    if not text.strip():
        raise MemoryFsError(f"{path} is empty", path=path)
    return text


Kinds = Mapping[str, type | tuple[type, ...]]
NUMBER = (int, float)


def rows(path: Path, keys: Kinds) -> list[dict[str, Any]]:
    """The objects of a JSON lines file.

    Args:
        path: the file.
        keys: those that each object has at least, and what kind of value they have.

    Raises:
        MemoryFsError: as for `read`; FormatError: a line that is no such object.
    """
    lines = [(n, line) for n, line in enumerate(read(path).split("\n"), 1) if line.strip()]
    return [_row(path, number, line, keys) for number, line in lines]


def _row(path: Path, number: int, line: str, keys: Kinds) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"no JSON ({error})", path=path, line=number) from error
    if not isinstance(found, dict):
        raise FormatError("each line must be a JSON object", path=path, line=number)
    for key, kind in keys.items():
        if key not in found:
            raise FormatError(f"`{key}` is missing", path=path, line=number)
        if not isinstance(found[key], kind):
            raise FormatError(f"`{key}` cannot be {str(found[key])[:40]!r}", path=path, line=number)
    return found


def document(path: Path) -> Any:
    """A whole JSON document; raises as `rows` does."""
    try:
        return json.loads(read(path))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"no JSON ({error})", path=path) from error


def wrong(path: Path, what: str) -> FormatError:
    """The error for data of another form than a task needs."""
    return FormatError(what, path=path)
