"""What counts as a word, in notes and in queries alike.

Text becomes a list of tokens; a query becomes a `Query`, a small structure of tokens that an index can look up. Both
go through `normalise` first, so that spelling variants meet: café = cafe, Straße = STRASSE, composed = decomposed.

- Letters, digits and their marks make words. Punctuation separates them, so `1.2.10` is three tokens in a row.
- Chinese, Japanese and Korean characters (and Thai, Lao, Burmese, Khmer: scripts without spaces) are one token each;
  a word in them is found as a run of tokens.
- Emoji and other symbols beyond ASCII are one token each. `C++` and `C#` keep their ending.

This module is pure. It does not know any index, file or date; it never raises on any text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from memory_fs.english import root

MAX_TOKEN = 64  # characters; a longer word is cut into pieces that follow each other, so it is still found whole
MAX_QUERY = 10_000  # characters of a query that are read
MAX_PARTS = 64  # parts of one query; the rest of a longer query is ignored
MAX_PHRASE = 64  # tokens of one phrase; a longer one is looked up by its beginning

# Words that carry no topic. A query that has other words does without them; one of nothing else is looked up as it is.
_STOP_WORDS = """
a about an and are as at be been but by can could did do does for from had has have how i if in into is it its me my of
on or our s t that the their them there these they this to was we were what when where which who whom whose why will
with would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Combining accents (Latin, Greek, Cyrillic), Hebrew points, Arabic vowel signs and tatweel. Not the marks of Indic
# scripts or the kana voicing marks: those make another letter.
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0652\u0670\u0640]+")
_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"})

# Blocks of scripts that are written without spaces between words (Hangul has spaces, but none before its particles).
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1100, 0x11FF),  # Hangul letters
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3021, 0xA4CF),  # kana, Bopomofo, Han, Yi
    (0xA960, 0xA97F),  # Hangul letters
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),  # Han
    (0x1B000, 0x1B16F),  # kana
    (0x20000, 0x3FFFF),  # Han
)
_APOSTROPHES = re.compile("['\u2019\u02bc\u2018`]")


class _Characters(dict[int, str]):
    """What each character does to the text around it, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        self[code] = made = _treat(code)
        return made


def _treat(code: int) -> str:
    """The character itself in a word, set apart by spaces, a space for a separator, or nothing."""
    char = chr(code)
    category = unicodedata.category(char)
    if category == "Cf":  # joiners, soft hyphens, direction marks; a zero-width space does separate
        return " " if code == 0x200B else ""
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or code == 0x20E3 or 0x1F3FB <= code <= 0x1F3FF:
        return ""  # variation selectors, the keycap, skin tones: a plain emoji finds them all
    if _APOSTROPHES.match(char):  # one of them is a letter to Unicode; queries are cut at them all
        return " "
    if category[0] in "LMN":
        return f" {char} " if any(low <= code <= high for low, high in _UNSPACED) else char
    if char in "+#":
        return char
    if code > 0x7F and category in ("Sm", "Sc", "So", "Co", "Cn"):
        return f" {char} "  # Cn: an emoji newer than this Python's tables
    return " "


_CHARACTERS = _Characters()
_ENDING = re.compile(r"[^+#]+(?:[+#]+$)?")


def normalise(text: str) -> str:
    """Text with compatibility forms, case and accents folded (NFKC, casefold, base letters)."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).casefold()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", folded))
    return unicodedata.normalize("NFKC", bare).translate(_LETTERS)


def tokens(text: str) -> list[str]:
    """The tokens of a text, in order; each follows the one before it."""
    return _split(normalise(text))


def _split(text: str) -> list[str]:
    words = text.translate(_CHARACTERS).split()
    if "+" not in text and "#" not in text and max(map(len, words), default=0) <= MAX_TOKEN:
        return words
    pieces = [piece for word in words for piece in _ENDING.findall(word)]
    return [piece[at : at + MAX_TOKEN] for piece in pieces for at in range(0, len(piece), MAX_TOKEN)]


def stem(token: str) -> str:
    """A token without the ending of `C++` or `C#`: such a token is indexed under both."""
    return token.rstrip("+#")


def unspaced(token: str) -> bool:
    """Whether a token is one character of a script without spaces."""
    return len(token) == 1 and any(low <= ord(token) <= high for low, high in _UNSPACED)


def tag_form(tag: str) -> str:
    """A tag as it is compared: normalised, inner spaces single."""
    return " ".join(normalise(tag).split())[:256]


# --- queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One thing to look up.

    Attributes:
        tokens: one word, or tokens that follow each other.
        kind: `exact` must match as it stands; `loose` ("well-known") and `run` (characters of a script without
            spaces) are looked up whole first, and in pieces where the whole is not found.
        day: `2026-11-29` or `2026-11`: the note's own date matches as well.
        tag: a normalised tag: a note that has it matches as well.
    """

    tokens: tuple[str, ...]
    kind: Literal["exact", "loose", "run"] = "exact"
    day: str = ""
    tag: str = ""


@dataclass(frozen=True)
class Query:
    """A query in neutral form: what ranks, what must be there, what must not."""

    any: tuple[Part, ...] = ()
    required: tuple[Part, ...] = ()
    excluded: tuple[Part, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.any or self.required)


_QUOTES = str.maketrans("“”„‟", '""""')
# A quotation (its marks stand outside words: not the inch sign of 5'10"), or a run of anything else.
_ITEM = re.compile(r"""(?P<no>(?<!\S)-)?(?<!\w)"(?P<quoted>[^"]*)"(?!\w)|(?P<chunk>(?:[^\s"]|(?<=\w)"(?=\w))+)""")
_DAY = re.compile(r"\W*(\d{4}-\d{2}(?:-\d{2})?)\W*")
_TAG = re.compile(r"tag:(?P<key>.+)|#(?P<hash>[^\W\d_][\w/-]*)\W*", re.DOTALL)
_LITERAL = re.compile(r"[\d@]")


def parse(text: str) -> Query:
    """Read a query: words, "phrases", -excluded, tag:name, #tag, dates.

    A query is data: nothing in it is an operator but the marks above, and no text raises.
    """
    found: dict[str, dict[Part, None]] = {"any": {}, "required": {}, "excluded": {}}
    for item in _ITEM.finditer(normalise(text[:MAX_QUERY].translate(_QUOTES))):
        if item["quoted"] is not None:
            role, parts = ("excluded" if item["no"] else "required"), _phrase(item["quoted"])
        else:
            role, parts = _chunk(item["chunk"])
        found[role].update(dict.fromkeys(parts))
        if sum(map(len, found.values())) >= MAX_PARTS:
            break
    return Query(_topical(found["any"]), tuple(found["required"]), tuple(found["excluded"]))


def _phrase(text: str) -> list[Part]:
    words = tuple(_split(text))[:MAX_PHRASE]
    return [Part(words)] if words else []


def _chunk(chunk: str) -> tuple[str, list[Part]]:
    """What one run of non-space characters asks for, and in which role."""
    if re.match(r"-[^-\s]", chunk):
        if tag := _TAG.fullmatch(chunk[1:]):
            return "excluded", [Part((), tag=tag_form(tag["key"] or tag["hash"]))]
        return "excluded", _phrase(chunk[1:])
    if tag := _TAG.fullmatch(chunk):
        if tag["key"]:
            return "required", [Part((), tag=tag_form(tag["key"]))]
        return "any", [Part(tuple(_split(tag["hash"]))[:MAX_PHRASE], tag=tag_form(tag["hash"]))]
    if day := _DAY.fullmatch(chunk):
        return "any", [Part(tuple(_split(day[1])), day=day[1])]
    pieces = [piece for piece in _APOSTROPHES.split(chunk) if len(piece) > 1] or [chunk]  # dog's, l'homme, O'Brien
    return "any", [part for piece in pieces for part in _parts(piece)]


def _parts(piece: str) -> Iterator[Part]:
    """Cut a piece where scripts with and without spaces meet."""
    runs: list[tuple[bool, list[str]]] = []
    for token in _split(piece):
        alone = unspaced(token)
        if not runs or runs[-1][0] != alone:
            runs.append((alone, []))
        runs[-1][1].append(token)
    for alone, run in runs:
        words = tuple(run[:MAX_PHRASE])
        literal = len(words) == 1 or (not alone and any(_LITERAL.search(word) for word in (piece, *words)))
        yield Part(words, "exact" if literal else "run" if alone else "loose")


def _topical(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts without stop words, unless nothing else is there."""
    every = tuple(parts)
    return tuple(part for part in every if part.tokens not in _STOPS or part.tag) or every


_STOPS = frozenset((word,) for word in STOP_WORDS)


# --- postings --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Posting:
    """Where one token stands in a record, and what it weighs there."""

    positions: list[int]
    weight: float = 0.0


def form_mark(root: str) -> str:
    """The token of records that have another form of a word than its root; no text can contain it."""
    return "\x1f/" + root


def postings(sections: Iterable[tuple[str, float]], marks: Iterable[str] = ()) -> dict[str, Posting]:
    """Every token of a record.

    Args:
        sections: texts with their weight; a phrase does not reach from one into the next.
        marks: tokens that no text can contain, for filters.
    """
    found: dict[str, Posting] = {}
    place = 0
    for text, weight in sections:
        for token in tokens(text):
            for name in (token, stem(token)) if token[-1] in "+#" else (token,):
                posting = found.get(name)
                if posting is None:
                    posting = found[name] = Posting([])
                posting.positions.append(place)
                posting.weight += weight
            place += 1
        place += 2
    found.update(_forms(found, place))
    found.update((mark, Posting([place], 1.0)) for mark in marks)
    return found


def _forms(found: Mapping[str, Posting], place: int) -> dict[str, Posting]:
    """A token for each root that differs from its words; it has their weight and stands nowhere in particular."""
    forms: dict[str, Posting] = {}
    for token, posting in found.items():
        if (common := root(token)) != token:
            forms.setdefault(form_mark(common), Posting([place])).weight += posting.weight
    return forms
