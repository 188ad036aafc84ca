"""Which line of memory a statement says anew: found by shared words, since a small model cannot tell.

Asked whether a new statement makes an old line untrue, the default model is right about as often as a coin
(docs/decisions/041-control-plane.md). What speaks of the same thing shares words other than names: two lines about the
same people share their names and say different things. Words that deny or change let less do. Pure: texts in, a line
and a sentence out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from memory_fs.analysis import tokens
from memory_fs.policy import LONG, asks, sentences, tells, topic

SAME = 0.2  # of the words of line and sentence together that both have: with names, and again without
DENIED = 0.15  # the same, names included, where the sentence denies or changes something
_NAME = re.compile(r"[^\W\d_a-z][\w'’-]*")
_CHANGE = frozenset(
    """not no never instead rather longer anymore now changed without stopped quit former formerly switched actually
    doesn't isn't don't won't nicht kein keine mehr statt nie non ne pas plus jamais ya nunca""".split()
)
_CHANGE_SIGN = re.compile("不|没|改|换|もう|ない")
_MORE = frozenset("also too another additionally auch noch aussi también anche".split())
_MORE_SIGN = re.compile("也|又|还")


@dataclass(frozen=True)
class Revision:
    """A line of memory, and the sentence that says it anew."""

    old: str
    new: str


def revision(lines: Iterable[str], message: str) -> Revision | None:
    """The line that a message says anew, or None.

    Only of statements about others: what somebody says of themselves is put into words by the model.

    Args:
        lines: of core memory.
        message: what the person said.
    """
    if len(message) >= LONG or asks(message) or tells(message):
        return None
    pairs = [(line, said) for line in lines for said in sentences(message)]
    best = max(pairs, key=lambda pair: _shared(topic(pair[0]), topic(pair[1])), default=None)
    return Revision(*best) if best and _same(*best) else None


def _same(line: str, said: str) -> bool:
    old, new = topic(line), topic(said)
    names = {word for text in (line, said) for name in _NAME.findall(text) for word in topic(name)}
    changes = _has(said, _CHANGE, _CHANGE_SIGN)
    news = new - old or (changes and not _has(line, _CHANGE, _CHANGE_SIGN))
    if not news or not (old & new) - names or _has(said, _MORE, _MORE_SIGN):
        return False
    both, plain = _shared(old, new), _shared(old - names, new - names)
    return (both >= SAME and plain >= SAME) or (both >= DENIED and changes)


def _shared(one: set[str], other: set[str]) -> float:
    """How much two sets of words have in common (Jaccard), 0 to 1."""
    return len(one & other) / max(1, len(one | other))


def _has(text: str, words: frozenset[str], signs: re.Pattern[str]) -> bool:
    return bool(words & {*tokens(text), *text.casefold().split()} or signs.search(text))
