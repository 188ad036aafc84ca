"""What in memory speaks to a text: notes and messages that hold what it names, or most of what it is about.

Two kinds count. A *code* (an id, an e-mail address, a version, a number of an order) means one thing wherever it
stands, so a record with the same code is evidence however unlike the rest is. Else a record is evidence when it holds
enough of the text's weighty words, rare words counting more (inverse document frequency; Sparck Jones 1972).

It knows search, and no conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from math import log

from memory_fs.analysis import STOP_WORDS, tokens, unspaced
from memory_fs.policy import stated
from memory_fs.records import Hit
from memory_fs.search import Search

KINDS = ("archival", "recall")
LEAST = 0.2  # of the weight of a text's words that a record has to hold
NEAR = 0.6  # of the best record's score that another has to reach
RARE = 4  # records; what stands in more of them names nothing in particular
_CODE = re.compile(r"[^\W_](?:[\w.@:/+-]*[\w])?")
_DATE = re.compile(r"\d{1,4}[-./:]\d{1,2}(?:[-./:]\d{1,4})?|\d{1,4}")
_NAME = re.compile(r"[^\W\d_a-z][\w'’-]+(?:\s+[^\W\d_a-z][\w'’-]+)*")
_LINK = re.compile(r"\[\[([^\[\]|\n]{1,80})(?:\|[^\[\]\n]*)?\]\]")


def codes(text: str) -> list[str]:
    """The codes in a text: runs of letters and digits, or longer numbers; no dates and times."""
    found = []
    for item in _CODE.findall(text):
        mixed = any(c.isdigit() for c in item) and (len(item) > 5 or any(c.isalpha() for c in item))
        if ((mixed and len(item) > 3) or "@" in item[1:-1]) and not _DATE.fullmatch(item):
            found.append(item)
    return list(dict.fromkeys(found))


def names(text: str) -> list[str]:
    """Words that are written like names: capitals in front, not only because a sentence begins."""
    found = []
    for match in _NAME.finditer(text):
        name, before = match.group(), text[: match.start()].rstrip()
        opens = not before or before[-1] in '.!?:\n"“'
        if not opens or " " in name:
            found.append(name)
    return list(dict.fromkeys(found))


def links(text: str) -> list[str]:
    """The ids that a text links to, as `[[k3f9x2]]` or `[[k3f9x2|Biscuit]]`."""
    return list(dict.fromkeys(match.strip() for match in _LINK.findall(text)))


def weighty(text: str) -> list[str]:
    """The tokens of a text that carry a topic; of scripts without spaces, each character."""
    return [t for t in dict.fromkeys(tokens(text)) if t not in STOP_WORDS and (len(t) > 1 or unspaced(t))]


class Evidence:
    """Finds evidence in one vault."""

    def __init__(self, search: Search, outdated: Callable[[Hit], bool] = lambda hit: False) -> None:
        """Args: search: the searchable side of the vault; outdated: whether a record is known to hold no longer."""
        self._search, self._outdated = search, outdated

    def about(self, text: str, size: int, before: datetime | None = None) -> list[Hit]:
        """What speaks to a text, the strongest first.

        Args:
            text: a question, or a part of a draft.
            size: the most that is wanted.
            before: only messages from before this moment.
        """
        self._search.sync()
        exact = [hit for code in codes(text) for hit in self.having(code, size, before)]
        if exact:
            return _once(exact)[:size]
        found = [hit for kind in KINDS for hit in self._ranked(kind, text, size, before)]
        found = sorted((hit for hit in found if self.strength(text, hit) >= LEAST), key=lambda hit: -hit.score)
        return [hit for hit in found if hit.score >= NEAR * found[0].score][:size]

    def having(self, code: str, size: int, before: datetime | None = None) -> list[Hit]:
        """Records that hold a code or a name to the letter; none where too many do."""
        quoted = '"' + code.replace('"', " ") + '"'
        pages = [self._search.index.search(kind, quoted, size=size, until=_until(kind, before)) for kind in KINDS]
        hits = [hit for page in pages if page.total <= max(RARE, size) for hit in page.hits]
        return [hit for hit in hits if not self._outdated(hit)]

    def strength(self, text: str, hit: Hit) -> float:
        """The share of a text's weighty words that a record holds, 0 to 1, rare words counting more."""
        words = weighty(text)
        if not words:
            return 0.0
        weights = {word: self._weight(hit.kind, word) for word in words}
        held = set(tokens(f"{hit.title} {hit.text}"))
        return sum(weights[word] for word in words if word in held) / sum(weights.values())

    def _weight(self, kind: str, word: str) -> float:
        count = self._search.index.count(kind)
        return log(1 + (count + 1) / (self._search.index.spread(kind, word) + 0.5))

    def _ranked(self, kind: str, text: str, size: int, before: datetime | None) -> tuple[Hit, ...]:
        page = self._search.index.search(kind, _plain(text), size=2 * size, until=_until(kind, before))
        return tuple(hit for hit in page.hits if not _only_asks(hit) and not self._outdated(hit))[:size]


def _only_asks(hit: Hit) -> bool:
    """Whether a message is nothing but a question: the same question, asked before, answers none."""
    return hit.kind == "recall" and not stated(hit.text)


def _plain(text: str) -> str:
    """A text as a query in which nothing is an operator."""
    return " ".join(word.lstrip("-#") for word in text.replace('"', " ").split() if not word.startswith("tag:"))


def _until(kind: str, before: datetime | None) -> datetime | None:
    return before if kind == "recall" else None


def _once(hits: Iterable[Hit]) -> list[Hit]:
    return list({(hit.kind, hit.id): hit for hit in hits}.values())
