"""Data files, by path; whatever is wrong with one is told in one line."""

from __future__ import annotations

import json
from collections.abc import Iterable
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


def rows(path: Path, keys: Iterable[str]) -> list[dict[str, Any]]:
    """The objects of a JSON lines file, each with at least these keys.

    Raises:
        MemoryFsError: as for `read`; FormatError: a line that is no such object.
    """
    lines = [(n, line) for n, line in enumerate(read(path).split("\n"), 1) if line.strip()]
    return [_row(path, number, line, list(keys)) for number, line in lines]


def _row(path: Path, number: int, line: str, keys: list[str]) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"no JSON ({error})", path=path, line=number) from error
    if not isinstance(found, dict):
        raise FormatError("each line must be a JSON object", path=path, line=number)
    missing = [key for key in keys if key not in found]
    if missing:
        raise FormatError(f"`{missing[0]}` is missing", path=path, line=number)
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
