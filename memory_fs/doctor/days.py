"""Checks of recall: sections that are no messages, ids that are there twice, misplaced files; and of the queue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import partial

from memory_fs.doctor.case import MEND, Case, Trouble
from memory_fs.doctor.mend import change_bytes, mend, rewrite, set_aside
from memory_fs.doctor.texts import broken
from memory_fs.errors import FormatError
from memory_fs.formats.block import BOM
from memory_fs.formats.day import (
    NO_MESSAGE,
    NO_TEXT,
    Section,
    day_of,
    day_path,
    decode_day,
    encode_day,
    sections_of,
    with_id,
)
from memory_fs.formats.settings import parse_queue, render_queue
from memory_fs.vault import Transaction, decode

QUEUE = "queue.yaml"
SPOKEN = ("user", "assistant")  # the roles that are searched
_TITLE = re.compile(r"# (\d{4}-\d\d-\d\d)[ \t]*\r?$", re.MULTILINE)


def day(case: Case, path: str, text: str) -> Iterator[Trouble]:
    """Every section of a day file is a message; the others stay readable whatever one of them is.

    Args:
        text: bytes that are no UTF-8 stand in it as lone surrogates.
    """
    when = day_of(path)
    if when is None or path != day_path(when):
        yield _misplaced(path, when)
        if when is None:
            return
    fix = partial(take_out_broken, path=path)
    spoken = set()
    for section in sections_of(text, when):
        if problem := _problem(section):
            case.doubtful.add(path)
            yield Trouble(path, "section", problem, MEND, section.line, fix=fix)
        elif section.problem:
            mend = "it is found by no search; move it into a note, or delete it"
            yield Trouble(path, "section", "text above the first message", mend, section.line)
        elif section.message:
            if path == day_path(when):
                case.messages.setdefault(section.message.id, []).append((path, section.line))
            if section.message.role in SPOKEN:
                spoken.add(hash((section.message.id, section.message.content)))
    case.texts[path] = frozenset(spoken)
    title = _TITLE.search(text.partition("\n## ")[0])
    if title and title[1] != when.isoformat():
        what = f"its title says {title[1]}, its name says {when}, and the name counts"
        yield Trouble(path, "day", what, "rename the file or correct the title", text.count("\n", 0, title.start()) + 1)


def _misplaced(path: str, when: date | None) -> Trouble:
    if when is None:
        what = "its name is no day, so none of it is read"
        return Trouble(path, "day", what, "name it as recall/2026/11/2026-11-29.md is named, or make it a note")
    what = f"its messages are not those of {when}: they are read from {day_path(when)}"
    return Trouble(path, "day", what, "move it there, or out of the vault if it is a copy")


def _problem(section: Section) -> str:
    """Why a section is broken; '' for messages, and for what a person wrote above the first."""
    if section.problem == NO_MESSAGE and section.text.removeprefix(BOM).startswith("## "):
        return "a heading that cannot be read, so its message is lost"
    return section.problem if section.problem == NO_TEXT else ""


def take_out_broken(case: Case, path: str) -> None:
    """Move the broken sections of a day into a file beside it; all others stay byte for byte."""
    when = day_of(path) or date.min

    def change(data: bytes) -> bytes:
        sections = list(sections_of(decode_day(data), when))
        bad = "".join(section.text for section in sections if _problem(section))
        if not bad:
            return data
        set_aside(case, path, encode_day(bad))
        good = "".join(section.text for section in sections if not _problem(section))
        return (good or f"# {when}\n\n").encode()

    rewrite(case, path, f"{path}: broken sections set aside", change)


def repeated_messages(case: Case) -> Iterator[Trouble]:
    """Two messages with one id: the later one cannot be named, so it gets another."""
    for message_id, places in case.messages.items():
        first, *others = sorted(places)
        for path, line in others:
            what = f"message id {message_id} is there twice, first in {first[0]}:{first[1]}"
            fix = partial(renumber, path=path, message_id=message_id, keep=path == first[0])
            yield Trouble(path, "message-id", what, MEND, line, fix=fix)


def renumber(case: Case, path: str, message_id: str, keep: bool) -> None:
    """Give fresh ids to the messages of a day that carry an id; all but the first where `keep`.

    The queue goes on naming the message that it named.
    """
    when = day_of(path) or date.min
    made: list[str] = []

    def change(data: bytes) -> bytes:
        made.clear()
        rest = keep
        parts = []
        for section in sections_of(decode_day(data), when):
            text = section.text
            if section.message and section.message.id == message_id:
                if not rest:
                    made.append(case.vault.new_id())
                    text = with_id(text, made[-1])
                rest = False
            parts.append(text)
        return encode_day("".join(parts))

    def work(transaction: Transaction) -> None:
        change_bytes(transaction, path, change)
        if made and not keep:
            _rename_in_queue(transaction, f"{when}/{message_id}", f"{when}/{made[0]}")

    mend(case, f"{path}: a fresh id in place of {message_id}, which another message has", work)


def _rename_in_queue(transaction: Transaction, old: str, new: str) -> None:
    with suppress(FormatError):
        state = parse_queue(transaction.read(QUEUE) or "")
        if old in state.messages:
            messages = tuple(new if ref == old else ref for ref in state.messages)
            transaction.write(QUEUE, render_queue(replace(state, messages=messages)))


def queue(case: Case) -> Iterator[Trouble]:
    """The queue can be read, and every message that it names is there, once."""
    try:
        text = decode(case.queue or b"", QUEUE)
        state = parse_queue(text, QUEUE)
    except FormatError as error:
        if "UTF-8" in error.problem:
            return  # said of every file
        yield replace(broken(case, QUEUE, error), mend=MEND, fix=last_good_queue)
        return
    seen: set[str] = set()
    for ref in state.messages:
        gone = ref in seen or not _is_there(case, ref)
        if gone:
            line = next((n for n, row in enumerate(text.split("\n"), 1) if ref and ref in row), 0)
            what = f"names message {ref[:80]} {'twice' if ref in seen else 'that is gone'}"
            sure = _day_path(ref) not in case.doubtful
            advice = MEND if sure else f"mend {_day_path(ref)} first: the message may be in its broken part"
            yield Trouble(QUEUE, "queue", what, advice, line, fix=drop_gone if sure else None)
        seen.add(ref)


def _day_path(ref: str) -> str:
    when = day_of(ref.partition("/")[0])
    return day_path(when) if when else ""


def _is_there(case: Case, ref: str) -> bool:
    path = _day_path(ref)
    return bool(path) and any(place == path for place, _ in case.messages.get(ref.partition("/")[2], ()))


def drop_gone(case: Case) -> None:
    """Take out of the queue what names no message, and repetitions."""

    def work(transaction: Transaction) -> None:
        state = parse_queue(transaction.read(QUEUE) or "", QUEUE)
        there: dict[str, set[str]] = {}  # day file -> the ids in it
        for path in {_day_path(ref) for ref in state.messages} - {""}:
            text = decode_day(case.disk.read(path) or b"")
            sections = sections_of(text, day_of(path) or date.min)
            there[path] = {section.message.id for section in sections if section.message}
        kept = tuple(
            ref
            for ref in dict.fromkeys(state.messages)
            if _day_path(ref) in case.doubtful or ref.partition("/")[2] in there.get(_day_path(ref), ())
        )
        if kept != state.messages:
            transaction.write(QUEUE, render_queue(replace(state, messages=kept)))

    mend(case, f"{QUEUE}: names of messages that are gone", work)


def last_good_queue(case: Case) -> None:
    """Set a queue that cannot be read aside and bring back the newest one of history that can."""

    def good(data: bytes | None) -> bool:
        try:
            parse_queue(decode(data or b"", QUEUE), QUEUE)
        except FormatError:
            return False
        return True

    def change(data: bytes) -> bytes:
        if good(data):
            return data
        set_aside(case, QUEUE, data)
        history = case.vault.history
        texts = (history.read(QUEUE, change.rev) for change in history.log(QUEUE))
        return next((text for text in texts if text is not None and good(text)), b"")

    rewrite(case, QUEUE, f"{QUEUE}: set aside, since it cannot be read", change)
