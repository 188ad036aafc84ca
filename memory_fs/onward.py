"""Where an answer stops short: it gives what the next record is known by, and says nothing of that record.

Asked about A, where one note leads from A to B and another from B to C, a small model answers B. Nothing is missing in
context then, so no look-up helps; asked about B, the same model goes on. Which record leads to which is known from what
was fetched ahead. Pure: pages in, the next question out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memory_fs.evidence import codes, weighty
from memory_fs.records import Hit, Paging

Lookup = Callable[[str], Hit | None]


@dataclass(frozen=True)
class Onward:
    """How an answer goes on: what is asked next, and the page that answers it."""

    question: str
    page: str


def onward(paging: Paging, hit: Lookup, question: str, reply: str) -> Onward | None:
    """The next question where a reply stops short, or None where it does not.

    The question names a code of one record; the reply gives a code, of that record or of one behind it, by which a
    further record was fetched, and no code of what lies behind that.

    Args:
        paging: what came into context, in order.
        hit: the record on a page.
        question: as it was asked last.
        reply: the answer to it.
    """
    for one in reversed([one for one in paging.pages if one.why == "prefetch" and not one.part]):
        here, there = hit(one.cause), hit(one.page)
        if here and there:
            known, named = codes(here.text), {*codes(there.text), there.id}
            asked = next((code for code in codes(question) if code in _above(paging, hit, one.cause)), "")
            given = next((code for code in codes(reply) if code in known and code in named), "")
            told = _beyond(paging, hit, one.page) - set(known)
            if asked and given not in ("", asked) and not told & set(codes(reply)):
                return Onward(question.replace(asked, given), one.page)
    return None


def denies(paging: Paging, hit: Lookup, question: str, reply: str) -> bool:
    """Whether a reply gives nothing of the records that hold, to the letter, what the question names."""
    held = [
        found
        for found in (hit(one.page) for one in paging.pages)
        if found and set(codes(question)) & set(codes(found.text))
    ]
    new = (_words(found.text) - _words(question) for found in held)
    return bool(held) and not any(words & _words(reply) for words in new)


def _words(text: str) -> set[str]:
    return {*codes(text), *weighty(text)}


def _above(paging: Paging, hit: Lookup, page: str) -> set[str]:
    """The codes of a record and of those that led to it."""
    ways = {one.page: one.cause for one in paging.pages if one.why == "prefetch"}
    found = hit(page)
    mine = set(codes(found.text)) if found else set()
    return mine | _above(paging, hit, ways.pop(page)) if page in ways else mine


def _beyond(paging: Paging, hit: Lookup, page: str) -> set[str]:
    hits = (hit(one) for one in paging.behind(page))
    return {code for found in hits if found for code in codes(found.text)}
