"""Who wrote each line of a file, and when: the change that each line came with, through renames of a note."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from memory_fs.change import Change
from memory_fs.errors import VaultError
from memory_fs.formats.note import parse_note
from memory_fs.vault import Vault

Lines = list[bytes]
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


@dataclass(frozen=True)
class Line:
    """One line of a file, counted from 1, and the change that it came with; `path` is what the file was called then."""

    number: int
    text: str
    change: Change
    path: str


def blame(vault: Vault, path: str) -> list[Line]:
    """The lines of a file as it is now. What a person has just saved is theirs.

    Raises:
        VaultError: there is no such file.
    """
    vault.look()
    data = vault.history.read(path)
    if data is None:
        raise VaultError(f"there is no file {path} in memory; see `memory-fs log {path}` for what became of it")
    lines = version = _lines(data)
    came: dict[int, tuple[Change, str]] = {}
    there = {number: number for number in range(len(lines))}  # line of the version at hand -> line of today
    for change, name, before in _versions(vault, path, data):
        older = _lines(before or b"")
        kept = _kept(older, version)
        came |= {today: (change, name) for line, today in there.items() if line not in kept}
        there = {kept[line]: today for line, today in there.items() if line in kept}
        if not there:
            break
        version = older
    texts = (line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace") for line in lines)
    return [Line(number + 1, text, *came[number]) for number, text in enumerate(texts)]


def _versions(
    vault: Vault, path: str, text: bytes, start: str | None = None
) -> Iterator[tuple[Change, str, bytes | None]]:
    """(change, path, bytes before) of each change of a file, newest first, under earlier names, too."""
    for change in vault.history.log(path, start):
        parent = vault.history.parent(change.rev)
        before = vault.history.read(path, parent) if parent else None
        source = _moved_from(vault, path, text, change) if before is None else None
        if source and parent:
            before = vault.history.read(source, parent) or b""
            yield change, path, before
            yield from _versions(vault, source, before, parent)
            return
        yield change, path, before
        if before is None:
            return
        text = before


def _moved_from(vault: Vault, path: str, text: bytes, change: Change) -> str | None:
    """What a file that appeared with a change was called before: what went with it had the same text, or its id."""
    gone = [
        (old, data) for old, data, after in vault.history.contents(change.rev) if after is None and data is not None
    ]
    same = [old for old, data in gone if data == text]
    if not same and path.startswith("archival/"):
        note_id = parse_note(text.decode("utf-8", "replace"), path).id
        same = [old for old, data in gone if parse_note(data.decode("utf-8", "replace"), old).id == note_id]
    return same[0] if same else None


def _lines(data: bytes) -> Lines:
    return _LINE.findall(data)


def _kept(old: Lines, new: Lines) -> dict[int, int]:
    """Line of the new text -> the same line of the old. What both begin and end with is no work for the matcher."""
    most = min(len(old), len(new))
    head = next((n for n in range(most) if old[n] != new[n]), most)
    tail = next((n for n in range(most - head) if old[-1 - n] != new[-1 - n]), most - head)
    kept = {n: n for n in range(head)} | {len(new) - 1 - n: len(old) - 1 - n for n in range(tail)}
    middle = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for i, j, size in middle.get_matching_blocks():
        kept |= {head + j + n: head + i + n for n in range(size)}
    return kept
