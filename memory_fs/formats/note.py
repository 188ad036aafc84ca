"""archival/**/*.md: YAML front matter, then Markdown. Any file reads as a note; what was odd about it is a warning.

A person's file is never made readable by rewriting it: a missing id is derived from the path, a broken head leaves the
body searchable.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from memory_fs.errors import FormatError
from memory_fs.formats.block import BOM, PINNED
from memory_fs.formats.strict_yaml import Mapping, load_mapping, scalar

_HEAD = re.compile(r"---[ \t]*\r?\n(.*?)(?:^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)
_SLUG = re.compile(r"[^\w]+")
SLUG_BYTES = 60
WHOLES = ("file", "url")  # the keys of a source that name a document
_MOST = 1 << 31
ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


@dataclass(frozen=True)
class Note:
    """One note of archival memory.

    Attributes:
        id: from the front matter, else derived from the path.
        created: aware; None where the front matter gives no date.
        text: the body without the line end that closes the file.
        source: where it came from, as the front matter says it: data, never a reason to trust it.
        warnings: what was ignored, with its line.
        pinned: whether the front matter says `priority: pinned`.
    """

    id: str
    text: str
    created: datetime | None = None
    title: str = ""
    tags: tuple[str, ...] = ()
    source: MappingType[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    pinned: bool = False

    @property
    def citation(self) -> str:
        """The source on one line: `notes.pdf, page 3`."""
        return ", ".join(str(v) if k in WHOLES else f"{k} {v}" for k, v in self.source.items())

    @property
    def part(self) -> tuple[str, int]:
        """The document that it is a part of, and a number that grows from part to part; ("", 0) where it is none.

        A source such as `{file: notes.pdf, page: 3, chunk: 2}` names both: the numbers count in the order in which they
        stand there, two of them, each below 2**31.
        """
        whole = next((f"{key} {self.source[key]}" for key in WHOLES if self.source.get(key)), "")
        numbers = [value for value in self.source.values() if type(value) is int and 0 <= value < _MOST]
        first, second = [*numbers, 0, 0][:2]
        return (whole, first * _MOST + second + 1) if whole and numbers else ("", 0)


def parse_note(text: str, path: str) -> Note:
    """Read a note file; never fails.

    Args:
        text: the whole file.
        path: relative to the vault; gives the id where the file has none.
    """
    text = text.removeprefix(BOM)
    head, body, warnings = _split(text)
    found = Mapping()
    if head is not None:
        try:
            found = load_mapping(head, None, first_line=2)
        except FormatError as error:
            warnings.append(f"line {error.line}: front matter ignored, {error.problem}")
    say = _Warnings(found)
    data = found.data
    note_id = str(data.get("id") or "")
    if not ID.match(note_id):
        if note_id:
            say("id", f"id {note_id[:40]!r} ignored: letters, digits, - and _ only")
        note_id = "f" + hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:7]
    return Note(
        id=note_id,
        text=body.removesuffix("\r\n" if text[3:5] == "\r\n" else "\n"),
        created=_moment(data.get("created") or data.get("date"), say),
        title=str(data.get("title") or ""),
        tags=_tags(data.get("tags"), say),
        source=_source(data.get("source"), say),
        warnings=(*warnings, *say.told),
        pinned=data.get("priority") == PINNED,
    )


class _Warnings:
    """Collects what was ignored, each with the line of its key."""

    def __init__(self, found: Mapping) -> None:
        self._lines = found.lines
        self.told = list(found.warnings)

    def __call__(self, key: str, what: str) -> None:
        self.told.append(f"line {self._lines.get(key, 1)}: {what}")


def with_id(text: str, note_id: str) -> str:
    """The note's text with another id in its front matter, all else as it was; unchanged where it has none."""
    found = _HEAD.match(text.removeprefix(BOM))
    if not found:
        return text
    try:
        place = load_mapping(found.group(1)).places.get("id")
    except FormatError:
        return text
    if place is None or place.start == place.end:
        return text
    start = found.start(1) + len(text) - len(text.removeprefix(BOM))
    return text[: start + place.start] + scalar(note_id) + text[start + place.end :]


def _split(text: str) -> tuple[str | None, str, list[str]]:
    found = _HEAD.match(text)
    if found:
        return found.group(1), text[found.end() :], []
    if text.startswith("---"):
        return None, text, ["line 1: front matter has no closing ---, all of it is read as text"]
    return None, text, ["no front matter: its id comes from its path and changes when the file moves"]


def _moment(value: Any, say: _Warnings) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(str(value).strip())
    except ValueError:
        try:
            moment = datetime.combine(date.fromisoformat(str(value)[:10]), datetime.min.time())
        except ValueError:
            say("created", f"created {str(value)[:40]!r} ignored: not a date such as 2026-11-29T14:24:07+00:00")
            return None
    try:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        return None


def _tags(value: Any, say: _Warnings) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list):
        say("tags", "tags ignored: expected a list such as [pets, home]")
        return ()
    return tuple(
        dict.fromkeys(str(tag) for tag in value if tag not in (None, "") and not isinstance(tag, (dict, list)))
    )


def _source(value: Any, say: _Warnings) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items() if not isinstance(item, (dict, list))}
    if isinstance(value, (str, int, float)):
        return {"file": str(value)}
    say("source", "source ignored: expected {file: ..., page: ...}")
    return {}


def render_note(note: Note) -> str:
    """The text of a new note file; `parse_note` gives the same note back."""
    lines = ["---", f"id: {scalar(note.id)}"]
    if note.created:
        lines.append(f"created: {note.created.isoformat(timespec='seconds')}")
    if note.title:
        lines.append(f"title: {scalar(note.title)}")
    lines.append(f"tags: {scalar(list(note.tags))}")
    if note.source:
        lines.append(f"source: {scalar(dict(note.source))}")
    if note.pinned:
        lines.append(f"priority: {PINNED}")
    return "\n".join([*lines, "---", note.text]) + "\n"


def note_name(note: Note, day: date) -> str:
    """`2026-11-29-chads-golden-retriever-k3f9x2.md`: a file name of at most 100 bytes that every system takes."""
    words = _SLUG.sub("-", (note.title or note.text[:200]).casefold()).strip("-_")
    slug = words.encode()[:SLUG_BYTES].decode(errors="ignore")
    if len(words) > len(slug) and "-" in slug[20:]:  # cut between words where there are words
        slug = slug.rsplit("-", 1)[0]
    return "-".join(part for part in (f"{day:%Y-%m-%d}", slug.strip("-"), note.id) if part) + ".md"
