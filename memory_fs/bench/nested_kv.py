"""Nested key-value retrieval (MemGPT, section 3.2.2): a value may be a key itself, and has to be followed to its end.

140 pairs of UUIDs are notes, one each. In each of 30 orderings other pairs are chained, and one question is asked at
each nesting level: at level 3 it takes four look-ups. Nothing is read from a file; the seed decides everything.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from memory_fs.bench.question import Judge, Outcome, Question, Setting, Task
from memory_fs.formats.note import Note

PAIRS, LEVELS, ORDERINGS = 140, 5, 30
_START = datetime(2026, 1, 1, tzinfo=UTC)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ASKED = (
    "What is the final value of the key {key}? "
    "A value may be a key itself: then look up its value as well, until you get a value that is no key."
)


def task(seed: int = 0, levels: Sequence[int] = range(LEVELS), orderings: int = ORDERINGS, pairs: int = PAIRS) -> Task:
    """All questions, ordering by ordering, so that the first ones are of all levels.

    Args:
        seed: decides the pairs, the chains and the orderings.
        levels: how often a value is a key again.
        orderings: how many questions each level has.
        pairs: how many notes there are.
    """
    asked = [_question(seed, number, level, pairs) for number in range(orderings) for level in levels]
    return Task("nested-kv", asked, f"{pairs} pairs")


def _question(seed: int, ordering: int, level: int, pairs: int) -> Question:
    """One question: chain some pairs, then shuffle all of them."""
    dice = random.Random(f"{seed} {ordering} {level}")
    keys, values = ([_uuid(dice) for _ in range(pairs)] for _ in range(2))
    values[:level] = keys[1 : level + 1]
    order = list(range(pairs))
    dice.shuffle(order)
    notes = tuple(_note(place, keys[n], values[n]) for place, n in enumerate(order))
    name = f"{ordering:02d}-{level}"
    text = ASKED.format(key=keys[0])
    return Question(name, Setting(name, notes=notes), text, (values[level],), ends_with(values[level]), str(level))


def _uuid(dice: random.Random) -> str:
    return str(UUID(int=dice.getrandbits(128), version=4))


def _note(place: int, key: str, value: str) -> Note:
    return Note(f"pair{place:04d}", f"key: {key}, value: {value}", _START + timedelta(minutes=place))


def ends_with(value: str) -> Judge:
    """Right is a reply that gives the value, and after it no other: a value on the way is no answer."""

    def judge(outcome: Outcome) -> dict[str, float]:
        given = _UUID.findall(outcome.reply.casefold())
        return {"right": float(bool(given) and given[-1] == value)}

    return judge
