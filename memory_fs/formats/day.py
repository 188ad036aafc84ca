r"""recall/YYYY/MM/YYYY-MM-DD.md: one message after the other, readable, append-only for the program.

    ## 14:24:07+00:00 user k3f9x2 (2026-11-29-a7, turn 3)

    Hi! My name is Chad.

A line of a message that looks like such a heading gets a backslash in front (Markdown shows it without), so any text
comes back as it was. Lines end at \n alone: other line ends are content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import cast, get_args

from memory_fs.events import Message, MessageRole
from memory_fs.formats.block import BOM

_ROLES = "|".join(get_args(MessageRole))
_HEADING = re.compile(
    rf"## (?P<time>\d\d:\d\d:\d\d[+-]\d\d:\d\d) (?P<role>{_ROLES}) (?P<id>[A-Za-z0-9_-]{{1,64}})"
    r"(?: \((?P<session>[^,()\n]*), turn (?P<turn>\d{1,9})\))?[ \t]*\r?\Z"
)
_LOOKALIKE = re.compile(r"^(\\*## \d\d:\d\d:\d\d)", re.MULTILINE)
_ESCAPED = re.compile(r"^\\(\\*## \d\d:\d\d:\d\d)", re.MULTILINE)


def day_path(day: date) -> str:
    """Where the messages of a day are, relative to the vault."""
    return f"recall/{day:%Y}/{day:%m}/{day:%Y-%m-%d}.md"


def day_of(path: str) -> date | None:
    """The day that a recall file's name gives, or None."""
    try:
        return date.fromisoformat(path.rsplit("/", 1)[-1].removesuffix(".md"))
    except ValueError:
        return None


def render_message(message: Message) -> str:
    """The lines to append for one message."""
    where = f" ({message.session}, turn {message.turn})" if message.session else ""
    moment = message.time.isoformat(timespec="seconds").split("T", 1)[1]
    content = re.sub(_LOOKALIKE, r"\\\1", message.content)
    return f"## {moment} {message.role} {message.id}{where}\n\n{content}\n\n"


def parse_day(text: str, day: date) -> tuple[list[Message], list[str]]:
    """The messages of a day file, and warnings for lines that belong to none. Never fails.

    Args:
        text: the whole file.
        day: the date that its name gives.
    """
    messages: list[Message] = []
    warnings: list[str] = []
    for heading, content, line in _sections(text.removeprefix(BOM)):
        found = _HEADING.match(heading)
        moment = _time(day, found["time"]) if found else None
        if not found or moment is None:
            if heading or any(text and not text.startswith("# ") for text in content.splitlines()):
                warnings.append(f"line {line}: text that belongs to no message")
            continue
        messages.append(
            Message(
                id=found["id"],
                time=moment,
                role=cast(MessageRole, found["role"]),
                content=re.sub(_ESCAPED, r"\1", content),
                session=found["session"] or "",
                turn=int(found["turn"] or 0),
            )
        )
    return messages, warnings


def _sections(text: str) -> Iterator[tuple[str, str, int]]:
    """(heading, content, line of the heading) in order; the part before the first heading comes with heading ''."""
    heading, line, start, offset = "", 1, 0, 0
    for number, raw in enumerate(text.split("\n"), 1):
        if raw.startswith("## ") and _LOOKALIKE.match(raw):
            if offset:
                yield heading, _content(text[start:offset]), line
            heading, line, start = raw, number, offset + len(raw) + 1
        offset += len(raw) + 1
    yield heading, _content(text[start:]), line


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
