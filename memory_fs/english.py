"""Brings the forms of an English word to one root: `lives`, `lived` and `living`; `dog` and `dogs`; `go` and `went`.

Only endings of grammar are taken off (plural, -ed, -ing), none that make another word: `nation` and `national` stay
apart. A root is a key to compare, not a word to show: that of `live` is `liv`. What is no English word in plain
letters is its own root. A few words that differ fall together (`hope` and `hop`), and words of other languages may
lose an ending too; a search therefore counts a form less than the word.

This module is pure, and knows no index.
"""

from __future__ import annotations

import re
from functools import lru_cache

# Forms that no rule makes, each group after the word whose root they take.
_IRREGULAR = """
become became, begin began begun, break broke broken, bring brought, build built, buy bought, catch caught, child
children, choose chose chosen, come came, draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten, fall
fell fallen, feel felt, fight fought, find found, fly flew flown, foot feet, forget forgot forgotten, get got gotten,
give gave given, go going goes went gone, grow grew grown, hear heard, hide hid hidden, hold held, keep kept, knife
knives, know knew known, leave left, lend lent, lose lost, make made, man men, meet met, mouse mice, pay paid, person
people, ride rode ridden, run ran, say said, see saw seen, sell sold, send sent, sing sang sung, sit sat, sleep slept,
speak spoke spoken, spend spent, stand stood, swim swam swum, take took taken, teach taught, tell told, think thought,
throw threw thrown, tooth teeth, understand understood, wear wore worn, wife wives, win won, woman women, write wrote
written
"""
_WORD_OF = {form: group.split()[0] for group in _IRREGULAR.split(",") for form in group.split()[1:]}

_WORD = re.compile(r"[a-z]{2,}")
_SHORT = 3  # letters; a shorter word has no ending to take off, nor may less be left of a longer one
_VOWEL = re.compile("[aeiouy]")
_DOUBLED = re.compile(r"([bdfgmnprt])\1$")  # planned, running; not the l, s and z of called, passed, buzzed


def inflects(token: str) -> bool:
    """Whether a normalised token can have other forms."""
    return _WORD.fullmatch(token) is not None


@lru_cache(maxsize=65_536)
def root(token: str) -> str:
    """What the forms of a word have in common."""
    word = _WORD_OF.get(token, token)
    if len(word) > _SHORT and inflects(word):
        word = _without_past(without_s(word))
    if len(word) <= _SHORT or not inflects(word):
        return word
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "i"  # movies, which lost its -ies, meets movie, which is about to lose its -e
    return word.rstrip("e") or word


def without_s(word: str) -> str:
    """Without the ending of a plural, or of he, she and it."""
    if word.endswith("ies") and len(word) > _SHORT + 1:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_past(word: str) -> str:
    """Without -ed or -ing, where a word is left (`bring` and `need` have none)."""
    if word.endswith("ied") and len(word) > _SHORT + 1:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= _SHORT and _VOWEL.search(rest):
            return rest[:-1] if _DOUBLED.search(rest) else rest
    return word
