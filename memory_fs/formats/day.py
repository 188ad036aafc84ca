r"""recall/YYYY/MM/YYYY-MM-DD.md: one message after the other, readable, append-only for the program.

    ## 14:24:07+00:00 user k3f9x2 (2026-11-29-a7, turn 3)

    Hi! My name is Chad.

A line of a message that looks like such a heading gets a backslash in front (Markdown shows it without), so any text
comes back as it was. Lines end at \n alone: other line ends are content. Bytes that are no UTF-8 make their section
unreadable, not the day: `decode_day` turns each of them into a lone surrogate, which no text of a message can hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import cast, get_args

from memory_fs.errors import FunctionError
from memory_fs.events import Message, MessageRole
from memory_fs.formats.block import BOM

_ROLES = "|".join(get_args(MessageRole))
_HEADING = re.compile(
    rf"## (?P<time>\d\d:\d\d:\d\d[+-]\d\d:\d\d) (?P<role>{_ROLES}) (?P<id>[A-Za-z0-9_-]{{1,64}})"
    r"(?: \((?P<session>[^,()\n]*), turn (?P<turn>\d{1,9})\))?[ \t]*\r?\Z"
)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LOOKALIKE = re.compile(r"^(\\*## \d\d:\d\d:\d\d)", re.MULTILINE)
_ESCAPED = re.compile(r"^\\(\\*## \d\d:\d\d:\d\d)", re.MULTILINE)
_CUT = re.compile(r"^## \d\d:\d\d:\d\d", re.MULTILINE)
_UNDECODED = re.compile("[\udc80-\udcff]")
_SPOKEN = re.compile("^" + _HEADING.pattern.replace(_ROLES, "user|assistant").replace(r"\Z", "$"), re.MULTILINE)
NO_MESSAGE = "text that belongs to no message"
NO_TEXT = "bytes that are not UTF-8"


def day_path(day: date) -> str:
    """Where the messages of a day are, relative to the vault."""
    return f"recall/{day:%Y}/{day:%m}/{day:%Y-%m-%d}.md"


def day_of(path: str) -> date | None:
    """The day that a recall file's name gives, or None."""
    try:
        return date.fromisoformat(path.rsplit("/", 1)[-1].removesuffix(".md"))
    except ValueError:
        return None


def day_named(text: str, today: date) -> date:
    """The day that a person or the model means: `2026-11-29`, `today` or `yesterday`.

    Raises:
        FunctionError: it is none of these.
    """
    word = text.strip().casefold()
    if word in ("today", "yesterday"):
        return today - timedelta(days=word == "yesterday")
    try:
        if not _DAY.fullmatch(word):
            raise ValueError(word)
        return date.fromisoformat(word)
    except ValueError as error:
        raise FunctionError(f"{text[:40]!r} is no date; write 2026-11-29, today or yesterday") from error


def render_message(message: Message) -> str:
    """The lines to append for one message."""
    where = f" ({message.session}, turn {message.turn})" if message.session or message.turn else ""
    moment = message.time.isoformat(timespec="seconds").split("T", 1)[1]
    content = re.sub(_LOOKALIKE, r"\\\1", message.content)
    return f"## {moment} {message.role} {message.id}{where}\n\n{content}\n\n"


def count_spoken(text: str) -> int:
    """How many messages of the person and the agent a day file holds, by their headings."""
    return sum(1 for _ in _SPOKEN.finditer(text))


def decode_day(data: bytes) -> str:
    """The text of a day file, whatever its bytes."""
    return data.decode(errors="surrogateescape")


def encode_day(text: str) -> bytes:
    """The bytes that `decode_day` read."""
    return text.encode(errors="surrogateescape")


@dataclass(frozen=True)
class Section:
    """One part of a day file, from its heading to the next.

    Attributes:
        text: all its characters, the heading among them; put together, the sections are the file.
        line: of the heading, from 1; of the first bad byte where the section is no text.
        message: what it says; None where it is no message.
        problem: why not; '' also for blank lines and the title above the first message.
    """

    text: str
    line: int
    message: Message | None = None
    problem: str = ""


def parse_day(text: str, day: date) -> tuple[list[Message], list[str]]:
    """The messages of a day file, and warnings for lines that belong to none. Never fails.

    Args:
        text: the whole file.
        day: the date that its name gives.
    """
    sections = list(sections_of(text, day))
    messages = [section.message for section in sections if section.message]
    return messages, [f"line {section.line}: {section.problem}" for section in sections if section.problem]


def sections_of(text: str, day: date) -> Iterator[Section]:
    """The parts of a day file in order; the first is what stands above the first heading, and may be empty."""
    for part, line in _parts(text):
        bad = _UNDECODED.search(part)
        if bad:
            yield Section(part, line + part.count("\n", 0, bad.start()), problem=NO_TEXT)
            continue
        heading, _, content = part.removeprefix(BOM).partition("\n")
        if not _CUT.match(heading):
            odd = any(row and not row.startswith("# ") for row in part.removeprefix(BOM).splitlines())
            yield Section(part, line, problem=NO_MESSAGE if odd else "")
            continue
        found = _HEADING.match(heading)
        moment = _time(day, found["time"]) if found else None
        if not found or moment is None:
            yield Section(part, line, problem=NO_MESSAGE)
            continue
        message = Message(
            id=found["id"],
            time=moment,
            role=cast(MessageRole, found["role"]),
            content=re.sub(_ESCAPED, r"\1", _content(content)),
            session=found["session"] or "",
            turn=int(found["turn"] or 0),
        )
        yield Section(part, line, message)


def _parts(text: str) -> Iterator[tuple[str, int]]:
    """(part, line at which it starts): the text cut before each line that looks like a heading."""
    start, line = 0, 1
    for found in _CUT.finditer(text):
        if found.start():
            yield text[start : found.start()], line
        line += text.count("\n", start, found.start())
        start = found.start()
    yield text[start:], line


def with_id(section: str, message_id: str) -> str:
    """The text of a message's section with another id, all else as it was."""
    mark = BOM if section.startswith(BOM) else ""
    heading, end, rest = section.removeprefix(BOM).partition("\n")
    found = _HEADING.match(heading)
    if found:
        heading = heading[: found.start("id")] + message_id + heading[found.end("id") :]
    return mark + heading + end + rest


def _content(raw: str) -> str:
    """A message's own text, without the blank lines that frame it."""
    for frame in ("\r\n", "\n"):
        if raw.startswith(frame):
            raw = raw.removeprefix(frame)
            break
    for frame in ("\r\n\r\n", "\n\n", "\r\n", "\n"):
        if raw.endswith(frame):
            return raw.removesuffix(frame)
    return raw


def _time(day: date, clock: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{day.isoformat()}T{clock}")
    except ValueError:
        return None
