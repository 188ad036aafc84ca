"""Page faults, prefetch and the query cache: what memory holds for a message comes in before it is answered.

- A message that asks is held against memory. What speaks to it and is not in context is a page fault.
- A draft of the answer is checked, sentence by sentence. A code in it that stands in a note which is not in context, or
  a name that nothing in context holds but memory does, is a fault: the draft is taken back. Words of which the model
  itself was unsure are left out of the look-up (FLARE, arXiv 2305.06983, section 3.2).
- What a page links to comes along, and the next part of its document, marked as prefetched; while nobody uses pages of
  one of these kinds, fewer of that kind come.
- The pages for a question that was asked before are known, as long as no note has changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_fs.evidence import RARE, Evidence, codes, links, names, weighty
from memory_fs.formats.settings import QueueState, Settings
from memory_fs.records import Hit, PageIn, Paging
from memory_fs.search import Search
from memory_fs.working_set import admit

AHEAD = 6  # pages that are fetched ahead in one turn, at most
CACHED = 256  # questions whose pages are known


@dataclass
class Counters:
    """What paging did in one session.

    Attributes:
        faults: how often something was missing in context; `pages` came in for it.
        drafts: drafts that were taken back for it.
        hits: questions for which all was in context.
        prefetched: pages that were fetched ahead; `prefetch_used` of them led to the answer.
        cache_hits: questions whose pages were known.
        evictions: pages that left the working set.
        refused: calls that could not help and were not run.
        write_backs: texts saved because they left the context unsaved.
    """

    faults: int = 0
    pages: int = 0
    drafts: int = 0
    hits: int = 0
    prefetched: int = 0
    prefetch_used: int = 0
    cache_hits: int = 0
    evictions: int = 0
    refused: int = 0
    write_backs: int = 0


@dataclass
class Patience:
    """How much of one kind is fetched ahead: less while it is of no use.

    Attributes:
        wasted: turns in a row whose pages were of no use.
        waits: turns that this kind still sits out.
    """

    wasted: int = 0
    waits: int = 0

    def settle(self, ahead: Collection[str], used: Collection[str]) -> None:
        """Take in what was fetched ahead in a turn, and what of it was of use."""
        if ahead:
            self.wasted = 0 if set(ahead) & set(used) else self.wasted + 1
            self.waits = 2**self.wasted - 1 if self.wasted > 1 else 0
        elif self.waits:
            self.waits -= 1


class Pager:
    """Pages for one agent."""

    def __init__(
        self, search: Search, evidence: Evidence, settings: Callable[[], Settings], count: Callable[[str], int]
    ) -> None:
        """Args: search; evidence: what speaks to a text; settings: as they are now; count: the tokens of a text."""
        self._search, self._evidence, self._settings, self._count = search, evidence, settings, count
        self._known: OrderedDict[tuple[str, ...], tuple[str, tuple[str, ...]]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._links, self._parts = Patience(), Patience()
        self.counters = Counters()

    # -- what is missing ----------------------------------------------------------------------------------------

    def demand(self, paging: Paging, question: str, in_context: str) -> bool:
        """Page in what memory holds for a question; returns whether it holds anything.

        Args:
            paging: the turn's pages; what is found is added.
            question: what was asked.
            in_context: the text of core memory and the talk: what stands there need not come in.
        """
        settings = self._settings()
        key, version = tuple(sorted(weighty(question))), self._search.version()
        known = self._known.get(key)
        if settings.has("query_cache") and known and known[0] == version:
            self.counters.cache_hits += 1
            found = [(page, "fault", question) for page in known[1]]
        else:
            hits = self._evidence.about(question, settings.page_size, paging.before)
            found = [(page_of(hit), "fault", question) for hit in hits if hit.text.strip() not in in_context]
        self._known[key] = (version, tuple(page for page, _, _ in found))
        if len(self._known) > CACHED:
            self._known.popitem(last=False)
        return self._take(paging, found)

    def check(self, paging: Paging, draft: str, in_context: str, unsure: Sequence[str] = ()) -> bool:
        """Page in what a draft lacks; returns whether it lacked something.

        Args:
            paging: the turn's pages; what is found is added.
            draft: a sentence of it, or all.
            in_context: everything that the draft was made from.
            unsure: its words of which the model was not sure.
        """
        sure = " ".join(word for word in draft.split() if word not in unsure)
        found = []
        for code in codes(sure):
            found += [(page_of(hit), "fault", code) for hit in self._evidence.having(code, RARE, paging.before)]
        for name in names(sure):
            if name.casefold() not in in_context.casefold():
                found += [(page_of(hit), "fault", name) for hit in self._evidence.having(name, RARE, paging.before)]
        for one in list(paging.pages):
            hit = self.hit(one.page)
            if hit and not self._settings().has("prefetch") and _leans_on(draft, hit):
                found += [(f"archival/{id}", "fault", one.page) for id in links(hit.text)]
        if not self._take(paging, found, in_context):
            return False
        self.counters.drafts += 1
        return True

    def _take(self, paging: Paging, found: Iterable[tuple[str, str, str]], in_context: str = "") -> bool:
        new = {}
        for page, why, cause in found:
            hit = self.hit(page)
            if hit and not paging.has(page) and hit.text.strip() not in in_context:
                new[page] = PageIn(page, why, cause)
        paging.pages += new.values()
        if new:
            self.counters.faults += 1
            self.counters.pages += len(new)
            self._ahead(paging)
        return bool(new)

    # -- what will be missing -----------------------------------------------------------------------------------

    def searched(self, paging: Paging, hits: Iterable[str], why: str = "search") -> None:
        """The model itself searched for these pages, or read them."""
        paging.pages += [PageIn(page, why, "") for page in dict.fromkeys(hits) if not paging.has(page)]
        self._ahead(paging)

    def _ahead(self, paging: Paging) -> None:
        """Fetch what the pages lead to, and what that leads to, as far as the budget goes."""
        if not self._settings().has("prefetch"):
            return
        room = AHEAD - sum(one.why == "prefetch" for one in paging.pages)
        for one in paging.pages:  # grows while it is gone through: a chain of links comes in whole
            hit = self.hit(one.page) if room > 0 else None
            for ahead in (*self._linked(hit, paging.before), *self._next_part(one, hit)) if hit else ():
                if room > 0 and not paging.has(ahead.page):
                    paging.pages.append(ahead)
                    self.counters.prefetched += 1
                    room -= 1

    def _linked(self, hit: Hit, before: datetime | None) -> list[PageIn]:
        """Where a page leads: its links, and records that share a rare code with it."""
        if self._links.waits:
            return []
        pages = [f"archival/{id}" for id in links(hit.text) if self.hit(f"archival/{id}")]
        for code in codes(hit.text):
            pages += [page_of(other) for other in self._evidence.having(code, RARE, before)]
        return [PageIn(page, "prefetch", page_of(hit)) for page in dict.fromkeys(pages) if page != page_of(hit)]

    def _next_part(self, one: PageIn, hit: Hit) -> list[PageIn]:
        """What comes next in a page's document; of a page that was fetched ahead itself nothing, or all would come."""
        if self._parts.waits or one.why == "prefetch":
            return []
        found = self._search.index.next_part(hit.kind, hit.id)
        return [PageIn(page_of(found), "prefetch", one.page, part=True)] if found else []

    def answered(self, paging: Paging, reply: str) -> None:
        """Count which of the prefetched pages led to the answer; fetch less ahead while none does."""
        ahead = {one.page: one for one in paging.pages if one.why == "prefetch"}
        used = set()
        for page in ahead:
            hit = self.hit(page)
            while hit and _leans_on(reply, hit) and page in ahead and page not in used:
                used.add(page)
                page = ahead[page].cause  # what led there was of use as well
        paging.used |= used
        self.counters.prefetch_used += len(used)
        for patience, part in ((self._links, False), (self._parts, True)):
            patience.settle([page for page, one in ahead.items() if one.part is part], used)

    # -- the working set ----------------------------------------------------------------------------------------

    def hold(self, state: QueueState, paging: Paging, window: int) -> QueueState:
        """The queue's state with the turn's pages in the working set."""
        settings = self._settings()
        if not settings.has("clock"):
            return state
        budget, held = int(window * settings.working_set), {frame.page for frame in state.frames}
        pinned = self._pinned(held | {one.page for one in paging.pages})
        for one in paging.pages:
            if one.why == "prefetch" and one.page in held and one.page not in paging.used:
                continue  # it is there, and nobody used it
            state = admit(state, one.page, one.why, paging.number, self._size, budget, pinned)
        return state

    def keep(self, state: QueueState, paging: Paging, window: int) -> QueueState:
        """`hold` for good: what leaves is counted."""
        kept = self.hold(state, paging, window)
        self.counters.evictions += len({frame.page for frame in state.frames} - {frame.page for frame in kept.frames})
        return kept

    def texts(self, state: QueueState, paging: Paging, only: str = "") -> list[str]:
        """The turn's pages that are in the working set, as the model sees them, in the order in which they came.

        Args:
            state, paging: what is held, and what came.
            only: leave out all but this page and what was fetched because of it.
        """
        held = {frame.page for frame in state.frames}
        wanted = paging.behind(only) if only else {one.page for one in paging.pages}
        on = self._settings().has("clock")
        hits = [self.hit(one.page) for one in paging.pages if one.page in wanted and (one.page in held or not on)]
        return [quote(hit) for hit in hits if hit]

    def hit(self, page: str) -> Hit | None:
        """The record on a page, as it is on disk now; None where it is gone."""
        kind, _, id = page.partition("/")
        return self._search.index.get(kind, id) if kind in ("archival", "recall") else None

    def _size(self, page: str) -> int:
        hit = self.hit(page)
        text = quote(hit) if hit else ""
        if text not in self._sizes:
            self._sizes[text] = self._count(text)
        return self._sizes[text]

    def _pinned(self, pages: Iterable[str]) -> frozenset[str]:
        """Those of some pages that a person pinned: they never leave the working set."""
        hits = {page: self.hit(page) for page in pages}
        return frozenset(page for page, hit in hits.items() if hit and hit.pinned)


def page_of(hit: Hit) -> str:
    """The page of a record: its kind and id."""
    return f"{hit.kind}/{hit.id}"


def quote(hit: Hit) -> str:
    """A record as the model sees it; a message with its day, since "yesterday" in it counts from there."""
    name = f"{hit.date:%Y-%m-%d}" if hit.kind == "recall" else hit.title or hit.id
    return f"[{name}] {hit.text}"


def _leans_on(text: str, hit: Hit) -> bool:
    """Whether a text has a code of a record, or a good part of its weighty words."""
    if any(code in text for code in codes(hit.text)):
        return True
    words = set(weighty(hit.text))
    return len(words & set(weighty(text))) >= max(2, 0.2 * len(words))
