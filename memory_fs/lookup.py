"""Answers a search from postings: which records, in which order.

The index supplies one thing, where tokens stand (`Postings`). The rest is arithmetic on sets, here: what a query
requires and excludes, BM25 (Robertson and Zaragoza 2009, with title words weighted before saturation, as BM25F does),
what neighbours in a talk lend each other (docs/decisions/040-retrieval.md), the order of equals, pages. No query
language of any library sees a text, so nothing in a text can be an operator.

It does not know how or where postings are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise, takewhile
from math import ceil, log
from typing import Protocol

from memory_fs.analysis import Part, Query, form_mark, parse
from memory_fs.english import inflects, root
from memory_fs.records import (
    EVERY,
    Document,
    Hit,
    Page,
    date_word,
    day_mark,
    hit,
    id_mark,
    part_mark,
    tag_mark,
    text_mark,
    ticks,
)

_B, _K1 = 0.75, 1.2  # BM25: how much length counts, and how soon repetition stops to count
_LONG_RUN = 4  # characters; a longer run without spaces is rather a sentence than a word

_FORM = 0.3  # what `dogs` counts where `dog` was asked for
_SHARES = (0.5, 0.3)  # what a message takes of its neighbours, of the next and of the one after that, on either side

Matches = dict[int, float]  # document number -> how much of it there is
Beside = Sequence[tuple[float, dict[int, int]]]  # shares, each with document number -> the one that takes it


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

    def place(self, number: int) -> int:
        """Where a message stands in the talk, or a part in its document; 0 for what stands alone."""
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


def next_part(postings: Postings, kind: str, id: str) -> Hit | None:
    """The record that comes next in the document that a record is a part of."""
    here = [postings.document(number) for number in postings.matches(kind, (id_mark(id),))]
    if not here or not here[0].whole:
        return None
    places = {n: postings.place(n) for n in postings.matches(kind, (part_mark(here[0].whole),))}
    after = min((place for place in places.values() if place > here[0].place), default=0)
    return _first(postings, (number for number, place in places.items() if place == after))


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
        needed = [self._ways(part, self._having) for part in self._asked.required if part.tokens]
        ranking = [self._ways(part, self._in_any_form) for part in self._asked.any]
        terms = [matches for ways in (*ranking, *needed) for matches in ways]
        found: set[int] = set().union(*terms)
        if not self._asked.any and not needed and self._filtered():
            found = set(self._having(EVERY))
        scores = dict.fromkeys(self._sift(found, needed), 0.0)
        beside = self._beside(scores)
        for matches in terms:
            self._rank(scores, matches, beside)
        for word in (token for part in self._asked.any for token in part.tokens):  # a date ranks, it does not find
            self._rank(scores, self._having(date_word(word)))
        return scores

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
            kept.difference_update(*self._ways(part, self._having))
        if self._request.since:
            since = ticks(self._request.since)
            kept = {number for number in kept if self._postings.date(number) >= since}
        if self._request.until:
            until = ticks(self._request.until)
            kept = {number for number in kept if self._postings.date(number) < until}
        return kept

    def _beside(self, numbers: Iterable[int]) -> Beside:
        """Who stands near whom in the talk, of these documents alone: what is left out lends nothing either."""
        if self._request.kind != "recall":  # notes stand alone; not asking each of them saves a third of the time
            return ()
        places = {number: place for number in numbers if (place := self._postings.place(number))}
        numbered = {place: number for number, place in places.items()}
        return [
            (share, {number: numbered[place + step] for number, place in places.items() if place + step in numbered})
            for distance, share in enumerate(_SHARES, 1)
            for step in (-distance, distance)
        ]

    def _rank(self, scores: Matches, matches: Matches, beside: Beside = ()) -> None:
        """Add the BM25 score of one way to satisfy a part; a message takes a share of what its neighbours have."""
        rarity = log(1 + (self._count - len(matches) + 0.5) / (len(matches) + 0.5)) * (_K1 + 1)
        size, least, slope = self._postings.size, 1 - _B, _B / self._mean
        own = {number: matches[number] / (least + slope * size(number)) for number in matches if number in scores}
        weights = dict(own) if beside else own
        for share, neighbours in beside:
            for number in own.keys() & neighbours.keys():
                near = neighbours[number]
                weights[near] = weights.get(near, 0.0) + share * own[number]
        for number, weight in weights.items():
            scores[number] += rarity * weight / (weight + _K1)

    def _ways(self, part: Part, look: Callable[..., Matches]) -> list[Matches]:
        """The ways to satisfy one part of the query, each with what it finds; `look` is how its words are looked up."""
        ways = [self._having(tag_mark(part.tag))] if part.tag else []
        ways += [self._having(day_mark(part.day))] if part.day else []
        if not part.tokens:
            return ways
        ways.append(look(*part.tokens))
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

    def _in_any_form(self, *tokens: str) -> Matches:
        """As `_having`; a single English word also in its other forms, which count less."""
        exact = self._having(*tokens)
        if len(tokens) > 1 or not inflects(tokens[0]):
            return exact
        common = root(tokens[0])
        found: Matches = {}
        for matches in (self._having(form_mark(common)), exact if common == tokens[0] else self._having(common)):
            for number, weight in matches.items():
                found[number] = found.get(number, 0.0) + _FORM * weight
        for number, weight in exact.items():  # these are in one of the two as well
            found[number] += (1 - _FORM) * weight
        return found
