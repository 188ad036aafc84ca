"""Checks of one file's text: settings, blocks, notes, and what merges and strangers leave in any of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from memory_fs.doctor.case import Case, Trouble
from memory_fs.errors import FormatError
from memory_fs.formats.block import BOM, parse_block
from memory_fs.formats.note import parse_note
from memory_fs.formats.settings import parse_settings
from memory_fs.formats.strict_yaml import load_mapping
from memory_fs.vault import decode

_WARNING = re.compile(r"line (\d+): (.*)", re.DOTALL)
_MARKERS = (re.compile(r"<{7}(?: .*)?\r?\Z"), re.compile(r"={7}\r?\Z"), re.compile(r">{7}(?: .*)?\r?\Z"))
_HEADLESS = re.compile(r"(?:[a-z_]+:[ \t].*\n)*id:[ \t].*\n(?:[a-z_]+:[ \t].*\n)*---[ \t]*\r?$", re.MULTILINE)
# Flags of regions are spelt with tag characters, which is their one honest use.
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f")
_HIDDEN = re.compile(
    "[\u202a-\u202e\u2066-\u2069]|[\U000e0000-\U000e007f]+"
    "|[\u200b-\u200d\u2060-\u2064\ufeff\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}"
)


def no_utf8(path: str, data: bytes) -> Trouble | None:
    """Bytes that are no text, with their line."""
    try:
        decode(data, path)
    except FormatError as error:
        told = f"save it with that encoding, for example: iconv -f latin1 -t utf-8 {shlex.quote(path)}"
        return Trouble(path, "encoding", "not UTF-8", told, error.line)
    return None


def settings(case: Case, path: str, text: str) -> Iterator[Trouble]:
    """memory.yaml can be read, and every key of it is known."""
    try:
        found = parse_settings(text, path)
    except FormatError as error:
        yield broken(case, path, error)
        return
    for warning in found.warnings:
        yield _told(path, "settings", warning, "mend that line; until then the default is in use")


def block(case: Case, path: str, text: str) -> Iterator[Trouble]:
    """A block can be read, keeps to its limit, and is called as its file is."""
    label = PurePosixPath(path).stem
    try:
        found, shown = load_mapping(text.removeprefix(BOM), path), parse_block(text, label, path)
    except FormatError as error:
        yield broken(case, path, error)
        return
    for warning in found.warnings:
        yield _told(path, "block", warning, "keep one of the two")
    if str(found.data.get("label", label)) != label:
        what = f"`label: {found.data['label']}` differs from the file's name, and the name counts"
        yield Trouble(path, "label", what, f"write `label: {label}`, or rename the file", found.lines["label"])
    if shown.used > shown.limit:
        what = f"the value has {shown.used} characters, {shown.used - shown.limit} over its limit of {shown.limit}"
        mend = "shorten it, or raise `limit`; until then the model can only shorten it"
        yield Trouble(path, "oversize", what, mend, found.lines.get("value", 0))


def broken(case: Case, path: str, error: FormatError) -> Trouble:
    """A file that cannot be read as its format."""
    mend = f"mend that line, or {_earlier(path)}; until then the last good text is in use"
    return Trouble(path, "broken", error.problem, mend, error.line, error.column)


def _earlier(path: str) -> str:
    place = shlex.quote(path)
    return f"`memory-fs restore {place}@REV` with a REV of `memory-fs log {place}`"


def note(case: Case, path: str, text: str) -> Iterator[Trouble]:
    """A note's front matter can be read, and there is text below it."""
    found = parse_note(text, path)
    case.notes.setdefault(found.id, []).append(path)
    case.texts[path] = frozenset([hash((found.id, found.text))])
    for warning in found.warnings:
        if warning.startswith("line "):  # a note without front matter is a note
            mend = "close it with a line `---`" if "no closing" in warning else "mend that line"
            yield _told(path, "front-matter", warning, f"{mend}; the text is found by searches either way")
    if _HEADLESS.match(text.removeprefix(BOM)):
        what = "front matter has no opening ---, all of it is read as text"
        yield Trouble(path, "front-matter", what, "put a line `---` above it", 1)
    if not found.text.strip():
        yield Trouble(path, "front-matter", "a note without text", "write some, or delete the file", normal=True)


def _told(path: str, kind: str, warning: str, mend: str) -> Trouble:
    found = _WARNING.match(warning)
    return Trouble(path, kind, found[2] if found else warning, mend, int(found[1]) if found else 0)


def conflict_markers(case: Case, path: str, text: str) -> Iterator[Trouble]:
    """A merge that was not finished left both sides in the file."""
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1) if "<<<<<<<" in text else ():
        if _MARKERS[len(lines)].match(line):
            lines.append(number)
        if len(lines) == len(_MARKERS):
            mend = "choose what is right and delete the lines of <, = and >"
            yield Trouble(path, "conflict", "a merge left both sides of a conflict here", mend, lines[0])
            return


def hidden(case: Case, path: str, text: str) -> Iterator[Trouble]:
    """Characters that nobody sees, in which an order to the model can hide."""
    if text.isascii():
        return
    found = list(_HIDDEN.finditer(_FLAG.sub("", text.removeprefix(BOM))))
    if found:
        line = found[0].string.count("\n", 0, found[0].start()) + 1
        what = f"{sum(len(one[0]) for one in found)} characters that are not shown and can hide or turn words"
        yield Trouble(path, "hidden", what, "look at the line in an editor that shows them", line, normal=True)


def nul(case: Case, path: str, text: str) -> Iterator[Trouble]:
    """NUL is in no text; a power cut leaves it where bytes were never written."""
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        what = f"{text.count(chr(0))} NUL characters, as an interrupted write of another program leaves them"
        yield Trouble(path, "encoding", what, f"delete them, or {_earlier(path)}", line)
