"""Recall memory: every message, appended to the file of its day (paper, section 2.1, "recall storage")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime

from memory_fs.errors import FunctionError
from memory_fs.events import Message
from memory_fs.formats.day import (
    count_spoken,
    day_named,
    day_of,
    day_path,
    decode_day,
    encode_day,
    parse_day,
    render_message,
)
from memory_fs.search import SPOKEN, Hit, Page, Search
from memory_fs.vault import Transaction


@dataclass(frozen=True)
class DatePage:
    """Messages between two days, page by page; `page` counts from 1."""

    start: date
    end: date
    page: int
    pages: int
    total: int
    messages: tuple[Message, ...]
    asked: int = 1


class Recall:
    """The messages of one vault."""

    def __init__(self, records: Search) -> None:
        """Args: records: the searchable side of the vault."""
        self._records = records
        self._vault = records.vault
        self._days: dict[str, tuple[bytes, list[Message]]] = {}

    def append(self, transaction: Transaction, messages: Iterable[Message]) -> None:
        """Stage messages at the end of their days."""
        for message in messages:
            path = day_path(message.time.date())
            data = transaction.data(path)
            text = f"# {message.time:%Y-%m-%d}\n\n" if data is None else decode_day(data)
            if not text.endswith("\n\n"):  # a person's edit took the blank line away
                text += "\n" if text.endswith("\n") else "\n\n"
            transaction.put(path, encode_day(text + render_message(message)))

    def day(self, day: date) -> list[Message]:
        """The messages of one day, in the order of the file; sections that cannot be read are passed over."""
        path = day_path(day)
        data = self._vault.disk.read(path) or b""
        known = self._days.get(path)
        if known is None or known[0] != data:
            known = self._days[path] = (data, parse_day(decode_day(data), day)[0])
        return known[1]

    def get(self, ref: str) -> Message | None:
        """The message that a reference such as `2026-11-29/k3f9x2` names; None where it is gone."""
        day_text, _, message_id = ref.partition("/")
        day = day_of(day_text)
        if day is None:
            return None
        return next((message for message in self.day(day) if message.id == message_id), None)

    def all(self) -> Iterator[Message]:
        """Every message, oldest day first."""
        for day in self._on_disk():
            yield from self.day(day)

    def _on_disk(self) -> list[date]:
        """The days that have a file, oldest first."""
        places = (self._vault.root / "recall").glob("*/*/*.md")
        return sorted(day for place in places if (day := day_of(place.name)) is not None)

    def count(self) -> int:
        """How many messages the person and the agent wrote: from the files, as the index may still be to build."""
        texts = (self._vault.disk.read(day_path(day)) or b"" for day in self._on_disk())
        return sum(count_spoken(decode_day(text)) for text in texts)

    def search(self, query: str, page: int = 1, size: int = 5, before: datetime | None = None) -> Page:
        """What the person and the agent said, best first; with a moment, what was said before it."""
        return self._records.search("recall", query, page=page, size=size, until=before)

    def spoken(self, name: str) -> Hit | None:
        """What the person or the agent said under an id, `recall/k3f9x2` or `2026-11-29/k3f9x2`; None if nobody did."""
        return None if name.startswith("archival/") else self._records.get("recall", name.rpartition("/")[2])

    def search_date(self, start: str, end: str, page: int = 1, size: int = 5) -> DatePage:
        """What was said on whole days of the vault's zone, oldest first.

        Args:
            start, end: `2026-11-29`, `today` or `yesterday`; both days included.
            page: from 1.
            size: messages a page.

        Raises:
            FunctionError: no such date, or the start is after the end.
        """
        today = self._vault.now().date()
        first, last = day_named(start, today), day_named(end, today)
        if first > last:
            raise FunctionError(f"start_date {first} is after end_date {last}; swap them")
        found: list[Message] = []
        for day in self._on_disk():
            if first <= day <= last:
                found += [message for message in self.day(day) if message.role in SPOKEN]
        pages = max(1, -(-len(found) // size))
        at = min(max(page, 1), pages)
        return DatePage(first, last, at, pages, len(found), tuple(found[(at - 1) * size : at * size]), page)
