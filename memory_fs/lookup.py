"""Answers a search from postings: which records, in which order.

The index supplies one thing, where tokens stand (`Postings`). The rest is arithmetic on sets, here: what a query
requires and excludes, BM25 (Robertson and Zaragoza 2009, with title words weighted before saturation, as BM25F does),
the order of equals, pages. No query language of any library sees a text, so nothing in a text can be an operator.

It does not know how or where postings are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, takewhile
from math import ceil, log
from typing import Protocol

from memory_fs.analysis import Part, Query, parse
from memory_fs.records import EVERY, Document, Hit, Page, date_word, day_mark, hit, id_mark, tag_mark, text_mark, ticks

_B, _K1 = 0.75, 1.2  # BM25: how much length counts, and how soon repetition stops to count
_LONG_RUN = 4  # characters; a longer run without spaces is rather a sentence than a word

Matches = dict[int, float]  # document number -> how much of it there is


class Postings(Protocol):
    """What an index knows; documents are numbered."""

    def matches(self, kind: str, tokens: tuple[str, ...]) -> Matches:
        """The documents that have a token, or several in a row, and how often; title words weighted."""
        ...

    def count(self, kind: str) -> int:
        """The number of documents of a kind."""
        ...

    def size(self, number: int) -> int:
        """How long a document is."""
        ...

    def mean_size(self, kind: str) -> float:
        """How long the documents of a kind are on average."""
        ...

    def date(self, number: int) -> int:
        """The `ticks` of a document's date."""
        ...

    def order(self, number: int) -> bytes:
        """The id and path of a document, as bytes that compare."""
        ...

    def document(self, number: int) -> Document:
        """The document itself."""
        ...


@dataclass(frozen=True)
class Request:
    """What a search asks for; the same fields as `Index.search`, and the query as it was read."""

    kind: str
    query: str
    size: int
    any_tags: tuple[str, ...] = ()
    all_tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    asked: Query = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "asked", parse(self.query))


def find(postings: Postings, request: Request, page: int) -> Page:
    """One page of what is asked for; a page past the end is the last one."""
    scores = _Lookup(postings, request).run()
    found = sorted(((round(score, 6), number) for number, score in scores.items()), reverse=True)
    pages = max(1, ceil(len(found) / request.size))
    shown = min(max(page, 1), pages)
    hits = _slice(postings, found, (shown - 1) * request.size, shown * request.size)
    return Page(request.query, shown, pages, len(found), hits, page)


def _slice(postings: Postings, found: list[tuple[float, int]], start: int, end: int) -> tuple[Hit, ...]:
    """The hits from start to end; dates and ids are compared only where scores are equal."""
    if not found[start:end]:
        return ()
    best, least = found[start][0], found[start:end][-1][0]
    skipped = sum(1 for _ in takewhile(lambda one: one[0] > best, found))
    near = takewhile(lambda one: one[0] >= least, found[skipped:])
    ordered = sorted((-score, -postings.date(number), postings.order(number), number) for score, number in near)
    wanted = ordered[start - skipped : end - skipped]
    return tuple(hit(postings.document(number), -score) for score, _, _, number in wanted)


def get(postings: Postings, kind: str, id: str) -> Hit | None:
    """The record with an id; where several files carry it, the one whose path comes first."""
    return _first(postings, postings.matches(kind, (id_mark(id),)))


def find_text(postings: Postings, kind: str, text: str) -> Hit | None:
    """The record with exactly this text."""
    near = postings.matches(kind, (text_mark(text),))
    return _first(postings, (number for number in near if postings.document(number).text == text))


def every(postings: Postings, kind: str) -> Iterator[Document]:
    """Every record of a kind, in no order."""
    return map(postings.document, postings.matches(kind, (EVERY,)))


def _first(postings: Postings, numbers: Iterable[int]) -> Hit | None:
    documents = sorted((postings.document(number) for number in numbers), key=lambda document: document.path)
    return hit(documents[0], 0.0) if documents else None


class _Lookup:
    """One request, answered."""

    def __init__(self, postings: Postings, request: Request) -> None:
        self._postings, self._request = postings, request
        self._count, self._mean = postings.count(request.kind), postings.mean_size(request.kind)
        self._asked = request.asked

    def run(self) -> Matches:
        """Document number -> score; 0.0 for all when there is nothing to rank by."""
        scores: Matches = {}
        for part in self._asked.any:
            self._rank(scores, self._ways(part))
        needed = [self._ways(part) for part in self._asked.required if part.tokens]
        for ways in needed:
            self._rank(scores, ways)
        if not self._asked.any and not needed and self._filtered():
            scores = dict.fromkeys(self._having(EVERY), 0.0)
        kept = self._sift(scores, needed)
        for word in (token for part in self._asked.any for token in part.tokens):  # a date ranks, it does not find
            self._rank(scores, [self._having(date_word(word))])
        return {number: scores[number] for number in kept}

    def _filtered(self) -> bool:
        asked = self._request
        return bool(asked.any_tags or asked.all_tags or asked.since or asked.until or self._asked.required)

    def _sift(self, found: Iterable[int], needed: Iterable[list[Matches]]) -> set[int]:
        """What is left when everything required and excluded is heeded."""
        kept = set(found)
        for ways in needed:
            kept &= set().union(*ways)
        for tag in (*self._request.all_tags, *(part.tag for part in self._asked.required if part.tag)):
            kept &= self._having(tag_mark(tag)).keys()
        if self._request.any_tags:
            kept &= {number for tag in self._request.any_tags for number in self._having(tag_mark(tag))}
        for part in self._asked.excluded:
            kept.difference_update(*self._ways(part))
        if self._request.since:
            since = ticks(self._request.since)
            kept = {number for number in kept if self._postings.date(number) >= since}
        if self._request.until:
            until = ticks(self._request.until)
            kept = {number for number in kept if self._postings.date(number) < until}
        return kept

    def _rank(self, scores: Matches, ways: Iterable[Matches]) -> None:
        """Add the BM25 score of each way to satisfy a part."""
        for matches in ways:
            rarity = log(1 + (self._count - len(matches) + 0.5) / (len(matches) + 0.5)) * (_K1 + 1)
            for number, weight in matches.items():
                length = self._postings.size(number) / self._mean
                score = rarity * weight / (weight + _K1 * (1 - _B + _B * length))
                scores[number] = scores.get(number, 0.0) + score

    def _ways(self, part: Part) -> list[Matches]:
        """The ways to satisfy one part of the query, each with what it finds."""
        ways = [self._having(tag_mark(part.tag))] if part.tag else []
        ways += [self._having(day_mark(part.day))] if part.day else []
        if not part.tokens:
            return ways
        ways.append(self._having(*part.tokens))
        sentence = part.kind == "run" and len(part.tokens) > _LONG_RUN
        if part.kind == "exact" or (ways[-1] and not sentence):
            return ways
        pieces: dict[tuple[str, ...], None] = {}
        if part.kind == "run" and len(part.tokens) > 2:
            pieces.update(dict.fromkeys(pairwise(part.tokens)))
        if sentence or part.kind == "loose":
            pieces.update(dict.fromkeys((token,) for token in part.tokens))
        return ways + [self._having(*piece) for piece in pieces]

    def _having(self, *tokens: str) -> Matches:
        return self._postings.matches(self._request.kind, tokens)
