"""What goes into the search index and what comes out of it.

A `Document` is one searchable record: a note, or one message of a recall day file. A `Hit` is a record that a search
found, a `Page` some of them. The functions turn a document into tokens with their places and into bytes, and back.

This module is pure. It does not know the index, nor where documents come from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b

from memory_fs.analysis import Posting, postings, tag_form

KINDS = ("archival", "recall")
TITLE_WEIGHT = 2.0  # a word of the title counts as two of the text (measured: docs/decisions/010-index.md)

# Roles that name a part of the machinery, not somebody: as words they would find every message.
_NO_NAMES = frozenset({"assistant", "function", "system", "tool", "user"})
_MONTH_NAMES = "january february march april may june july august september october november december"
_MONTHS = dict(enumerate(_MONTH_NAMES.split(), 1))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (datetime.min.replace(tzinfo=UTC) - _EPOCH), (datetime.max.replace(tzinfo=UTC) - _EPOCH)
_TICK = timedelta(microseconds=1)

# Marks: tokens for filters. They begin with a control character, which no text can put into a token.
EVERY = "\x1f*"


def tag_mark(tag: str) -> str:
    """The token of records that have a tag."""
    return "\x1f#" + tag_form(tag)


def id_mark(id: str) -> str:
    """The token of records with an id."""
    return "\x1f=" + id


def text_mark(text: str) -> str:
    """The token of records with exactly this text."""
    return "\x1f!" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def part_mark(whole: str) -> str:
    """The token of the records that are parts of a document."""
    return "\x1f>" + blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def day_mark(day: str) -> str:
    """The token of records of a day (`2026-11-29`) or a month (`2026-11`)."""
    return "\x1f@" + day


def date_word(word: str) -> str:
    """The token of records whose date has a word in it: `november`, `2026`, `29`. It ranks, it does not find."""
    return "\x1f~" + word


@dataclass(frozen=True)
class Document:
    """One searchable record: a note file holds one, a recall day file one for each message.

    Attributes:
        id: stable id of the note or message, unique within its kind.
        kind: `archival` or `recall`.
        path: vault-relative POSIX path of the file.
        text: what is searched, and shown in hits.
        date: aware; a naive one is taken as UTC. Its day is the day in its own zone.
        title: searched too, with twice the weight.
        tags: searched too, and to filter by.
        source: the citation to show; not searched.
        role: of a message: who spoke. A name is searched too, `user` and `assistant` are not.
        place: of a message: its neighbours in the talk have the numbers beside its own; 0 stands alone. Of a part of
            a document: a number that grows from part to part.
        whole: of a note: the document that it is a part of.
        pinned: of a note: whether a person wrote `priority: pinned`.
    """

    id: str
    kind: str
    path: str
    text: str
    date: datetime
    title: str = ""
    tags: tuple[str, ...] = ()
    source: str = ""
    role: str = ""
    place: int = 0
    pinned: bool = False
    whole: str = ""


@dataclass(frozen=True)
class Hit:
    """One record that a search found; `date` is in UTC, a higher `score` is a better match."""

    id: str
    path: str
    kind: str
    text: str
    date: datetime
    source: str
    tags: tuple[str, ...]
    score: float
    title: str = ""
    pinned: bool = False


@dataclass(frozen=True)
class Page:
    """Some of the hits of one search.

    Attributes:
        query: as it was asked.
        page: which page this is, from 1.
        pages: how many there are; 0 when nothing was found.
        total: hits on all pages.
        hits: best first.
        asked: the page that was asked for; differs from `page` where there is no such page.
    """

    query: str
    page: int
    pages: int
    total: int
    hits: tuple[Hit, ...]
    asked: int

    def _repr_html_(self) -> str:
        from memory_fs import notebook

        return notebook.page(self).html()

    def _repr_markdown_(self) -> str:
        from memory_fs import notebook

        return notebook.page(self).markdown()


@dataclass(frozen=True)
class PageIn:
    """A page that came into the working set.

    Attributes:
        page: `archival/k3f9x2` or `recall/k3f9x2`.
        why: `fault`, `prefetch`, `search` or `read`.
        cause: the words it was found by, or the page that led to it.
        part: whether it was fetched ahead as the next part of the same document.
    """

    page: str
    why: str
    cause: str
    part: bool = False


@dataclass
class Paging:
    """The pages of one turn, in the order in which they came.

    Attributes:
        number: of the turn.
        before: when its event came: messages from then on are no memory yet; None before it is in recall.
        used: pages that were fetched ahead and led to the answer.
    """

    number: int
    before: datetime | None = None
    pages: list[PageIn] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def has(self, page: str) -> bool:
        """Whether a page came in this turn."""
        return any(one.page == page for one in self.pages)

    def behind(self, page: str) -> set[str]:
        """A page, and what was fetched ahead because of it."""
        found = {page}
        for one in self.pages:  # what leads somewhere came first
            found |= {one.page} if one.why == "prefetch" and one.cause in found else set()
        return found


def ticks(date: datetime) -> int:
    """Microseconds since 1970, UTC; within the years that Python can show in UTC."""
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(_FIRST, min(_LAST, aware - _EPOCH)) // _TICK


def terms(document: Document) -> dict[str, Posting]:
    """The tokens to index a document under."""
    name = "" if document.role.lower() in _NO_NAMES else document.role
    texts = [(document.text, 1.0), (document.title, TITLE_WEIGHT), (name, 1.0)]
    return postings([*texts, *((tag, 1.0) for tag in document.tags)], _marks(document))


def _marks(document: Document) -> Iterator[str]:
    day = document.date.date()
    yield EVERY
    yield id_mark(document.id)
    yield text_mark(document.text)
    yield from dict.fromkeys(map(tag_mark, document.tags))
    if document.whole:
        yield part_mark(document.whole)
    yield from map(day_mark, (day.isoformat(), day.isoformat()[:7]))
    yield from map(date_word, (str(day.year), _MONTHS[day.month], str(day.day)))


def size(document: Document) -> int:
    """How long a document is for ranking, characters."""
    return len(document.text) + len(document.title)


def mark(document: Document) -> str:
    """Changes whenever anything of the document does; its size stands after the colon."""
    content = repr((document, document.date.utcoffset())).encode("utf-8", "surrogatepass")
    return f"{blake2b(content, digest_size=12).hexdigest()}:{size(document)}"


def pack(ref: str, document: Document) -> bytes:
    """A document, and what its writer knows it by, as bytes."""
    offset = document.date.utcoffset()
    seconds = None if offset is None else offset.total_seconds()
    one = document
    kept = (ref, seconds, one.id, one.kind, one.path, one.text, one.title, one.tags, one.source, one.role, one.place)
    return json.dumps((*kept, one.pinned, one.whole), ensure_ascii=False).encode("utf-8", "surrogatepass")


def unpack(packed: bytes, date: int) -> tuple[str, Document]:
    """The reference and the document from the bytes of `pack` and the `ticks` of its date."""
    ref, seconds, id, kind, path, text, title, tags, *rest = json.loads(packed.decode("utf-8", "surrogatepass"))
    moment = _EPOCH + date * _TICK
    with suppress(OverflowError):  # at the very ends of the calendar
        moment = moment.astimezone(UTC if seconds is None else timezone(timedelta(seconds=seconds)))
    return ref, Document(id, kind, path, text, moment, title, tuple(tags), *rest)


def hit(document: Document, score: float) -> Hit:
    """A document as a search shows it."""
    one, date = document, _EPOCH + ticks(document.date) * _TICK
    return Hit(one.id, one.path, one.kind, one.text, date, one.source, one.tags, score, one.title, one.pinned)
