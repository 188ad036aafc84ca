"""Which line of a block an appended line repeats, or gives another value for: seen by form, without any topic.

Three forms count: the same words; a statement that shares most of its words with the line (`memory_fs.revision`); and
the same opening with another value behind it (`Name: Ana.` and `Name: Eva.`, `Lives in Faro.` and `Lives in Porto.`).
Whether both may be true is not a matter of form: who calls is shown the line. Pure: texts in, a line out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from memory_fs.analysis import tokens, unspaced
from memory_fs.policy import topic
from memory_fs.revision import revision

SHARED = 3  # words of weight that line and statement have in common: two people who own a dog share fewer
OPENING = 2  # words that are the same in front of another value
VALUE = 4  # characters of a value in a script without spaces, at most
_LABEL = re.compile(r"\s*([^\W\d][^\n:：]{0,39}?)\s*(?::\s|：)")
_WORD = re.compile(r"[\w'’-]+")


@dataclass(frozen=True)
class Clash:
    """A line that an append says again (in the same words), or may make untrue."""

    line: str
    again: bool


def clash(lines: Sequence[str], content: str) -> Clash | None:
    """The first line that new content clashes with; None where it adds to them.

    Args:
        lines: of a block.
        content: what is appended; each of its lines is a statement of its own.
    """
    if content.strip() in (line.strip() for line in lines):
        return None  # it is there to the letter: nothing is left to do
    pairs = list(product(content.split("\n"), lines))
    found = next((Clash(line, True) for said, line in pairs if _repeats(line, said)), None)
    anew = (revision(lines, said) for said in content.split("\n"))
    found = found or next((Clash(one.old, False) for one in anew if one and _much(one.old, one.new)), None)
    return found or next((Clash(line, False) for said, line in pairs if _opens_alike(line, said)), None)


def _repeats(line: str, said: str) -> bool:
    return bool(tokens(said)) and tokens(line) == tokens(said)


def _much(line: str, said: str) -> bool:
    return len(topic(line) & topic(said)) >= SHARED


def _opens_alike(line: str, said: str) -> bool:
    labels = [found.group(1) if (found := _LABEL.match(text)) else "" for text in (line, said)]
    if any(labels):
        return tokens(labels[0]) == tokens(labels[1])
    old, new = _words(line), _words(said)
    pairs = zip(old, new, strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a.casefold() != b.casefold()), min(len(old), len(new)))
    return same >= OPENING and bool(topic(" ".join(new[:same]))) and _values(old[same:], new[same:])


def _words(text: str) -> list[str]:
    """The words as they are written; of scripts without spaces, each character."""
    found = _WORD.findall(text)
    return [part for word in found for part in (list(word) if unspaced(word[0]) else [word])]


def _values(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether what follows an opening is one value each: a name, and perhaps more behind one of them.

    Where names cannot be seen, a short text is one.
    """
    if not old or not new:
        return False
    if all(map(unspaced, (*old, *new))):
        return max(len(old), len(new)) <= VALUE
    names = [all(word[0].isupper() or word[0].isdigit() for word in words) for words in (old, new)]
    return old[0][0].isupper() and new[0][0].isupper() and any(names)
