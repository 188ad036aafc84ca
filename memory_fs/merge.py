"""A three-way merge of one memory file: git's, and where that gives up on a block, one of its value line by line.

In a block one fact is one line, and the next one is put right behind it. Git's merge calls two edits in neighbouring
lines a conflict; here that must not keep a person from taking back the first fact and leaving the second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from memory_fs.errors import FormatError
from memory_fs.formats.block import Block, parse_block, replace_value
from memory_fs.history import History

_BLOCK = re.compile(r"core/(.+)\.yaml")
Edit = tuple[int, int, tuple[str, ...]]
"""Lines of the base, from and to (not included), and what stands in their place."""


def merge_file(
    history: History, path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None
) -> bytes | None:
    """The base with the edits of both sides; None where both edited the same lines, or one deleted the file.

    A block that was readable on both sides is readable when it is merged, else it counts as not merged.
    """
    if base is None or ours is None or theirs is None:
        return None
    merged = history.merge(base, ours, theirs)
    block = _BLOCK.fullmatch(path)
    if block is None:
        return merged
    sides = [_parsed(data, block[1]) for data in (base, ours, theirs)]
    if merged is not None and (_parsed(merged, block[1]) or None in sides):
        return merged
    old, mine, other = sides
    if old is None or mine is None or other is None or _frame(old) != _frame(other):
        return None
    lines = merge_lines(*(side.value.split("\n") if side.value else [] for side in (old, mine, other)))
    return None if lines is None else replace_value(ours.decode(), "\n".join(lines), path).encode()


def _parsed(data: bytes, label: str) -> Block | None:
    try:
        return parse_block(data.decode(), label)
    except (FormatError, UnicodeDecodeError):
        return None


def _frame(block: Block) -> tuple[object, ...]:
    """All of a block but its value."""
    return block.description, block.limit, block.read_only


def merge_lines(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """The base with the edits of both sides; None where both edited the same line, or put lines at the same place."""
    merged: list[str] = []
    done = 0
    last: Edit | None = None
    for edit in sorted({*_edits(base, ours), *_edits(base, theirs)}):
        start, end, lines = edit
        if last is not None and (start < last[1] or (start, end) == (last[0], last[1])):
            return None
        merged += [*base[done:start], *lines]
        done, last = end, edit
    return [*merged, *base[done:]]


def _edits(base: Sequence[str], side: Sequence[str]) -> list[Edit]:
    codes = SequenceMatcher(None, base, side, autojunk=False).get_opcodes()
    return [(i1, i2, tuple(side[j1:j2])) for kind, i1, i2, j1, j2 in codes if kind != "equal"]
