"""Exact tokens of prompts: which text becomes which tokens, and how many they are.

`Encoder` tokenizes every segment of a prompt apart and remembers the result. Contents never become control tokens.
The first texts go through llama.cpp's own tokenizer, which is ready at once; when there is much to count, a tiktoken
encoding is built from the model's vocabulary, seven times faster, and used if it gives the same tokens. This module
is the only importer of tiktoken, and knows no model file: `llama.py` hands it a `Vocabulary`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

from memory_fs.llm import Turn
from memory_fs.llm.chat import Family, render

MUCH = 200_000
"""Characters tokenized before the faster encoding is built; building it takes about a second."""

_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PATTERNS = {
    "qwen2": rf"{_SHORT}|{_WORDS}|\p{{N}}|{_REST}",
    "llama-bpe": rf"{_SHORT}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    "lfm2": rf"{_SHORT}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
    "smaug-bpe": rf"{_SHORT}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}",
}
"""How each pre-tokenizer (GGUF `tokenizer.ggml.pre`) cuts a text into words, as regular expressions."""

PROBE = (
    "Chad's dog isn't 3 years old; it's 12,345.678 days!  Two spaces,\ttabs\t\t\n\n\n  and   lines \r\n  end. "
    "Größe naïve Ærø ångström I'VE we'LL ’tis … «quote» — dash\n金毛寻回犬叫饼干。我住在杭州，1998年搬来的！ "
    "日本語のテキスト、カタカナ。 한국어 문장입니다. Привет, мир! שלום مرحبا नमस्ते\n🐕🦮👩\u200d👩\u200d👧 "
    'e\u0301 \u200b\u00a0\u3000 C++ C# a_b fooBar HTTPServer2 x=1;y+=2 //!? ***bold*** `code` {"k": [1, null]}\n'
    "def f(x):\n    return {\n        'a': x**2,\n    }  # done\n\n\t\tif (a&&b) { c->d(); }\n"
    "<b>html</b> <|im_end|> </s>\x00\x01"
)
"""A text of many kinds; an encoding that tokenizes it as llama.cpp does is taken to be the same."""


class Vocabulary(Protocol):
    """What is needed of a model's vocabulary."""

    @property
    def bos(self) -> int | None:
        """The token that starts a prompt, where the vocabulary has one."""
        ...

    @property
    def add_bos(self) -> bool:
        """Whether the vocabulary wants it."""
        ...

    @property
    def pre(self) -> str:
        """The name of its pre-tokenizer."""
        ...

    @property
    def control(self) -> frozenset[int]:
        """Tokens that are markup and no text."""
        ...

    @property
    def marked(self) -> frozenset[int]:
        """Tokens that stand for a fixed text, whatever is around it: `control` and the ones a user defined."""
        ...

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text; with `special`, control tokens are recognised in it."""
        ...

    def text(self, token: int) -> str:
        """The text that a marked token stands for."""
        ...

    def ordinary(self) -> dict[str, int] | None:
        """The ordinary tokens of a byte-level vocabulary, as it writes them; None for other kinds."""
        ...


class Encoder:
    """Turns to tokens, for one vocabulary and one family. Safe to share between threads."""

    def __init__(self, vocabulary: Vocabulary, family: Family) -> None:
        self.family = family
        self._vocabulary = vocabulary
        self._ordinary: Callable[[str], list[int]] = self._by_llama
        self._left = MUCH
        self.marker = lru_cache(maxsize=256)(self._marker)
        self.content = lru_cache(maxsize=4096)(self._content)
        own = {token for text in family.markers() for token in self.marker(text)}
        self.reserved = vocabulary.control | (own & vocabulary.marked)
        self.ends = frozenset(ids[0] for text in family.ends if len(ids := self.marker(text)) == 1) & self.reserved
        wanted = vocabulary.add_bos if family.bos is None else family.bos
        self._start = [vocabulary.bos] if wanted and vocabulary.bos is not None else []

    def encode(self, turns: Sequence[Turn]) -> tuple[list[int], int]:
        """The tokens of a prompt, and how many of them its head takes: all up to the end of the first part."""
        tokens, head = list(self._start), 0
        for segment in render(turns, self.family):
            tokens += self.marker(segment.text) if segment.marker else self.content(segment.text)
            if not head and not segment.marker:
                head = len(tokens)
        return tokens, head

    def count(self, turns: Sequence[Turn]) -> int:
        """Tokens of a whole prompt."""
        sizes = (len((self.marker if marker else self.content)(text)) for text, marker in render(turns, self.family))
        return len(self._start) + sum(sizes)

    def _marker(self, text: str) -> tuple[int, ...]:
        return tuple(self._vocabulary.tokenize(text, special=True))

    def _content(self, text: str) -> tuple[int, ...]:
        """Tokens of a text in which nothing is markup."""
        tokens = self._ordinary(text) if text else []
        bad = self.reserved.intersection(tokens)
        if not bad:
            return tuple(tokens)
        # A tokenizer may see a marker even in plain text: cut the text inside each, and look again.
        found: list[int] = []
        for piece in _cut(text, [self._vocabulary.text(token) for token in bad]):
            found += self._content(piece) if piece != text else (t for t in tokens if t not in bad)
        return tuple(found)

    def _by_llama(self, text: str) -> list[int]:
        self._left -= len(text)
        if self._left < 0:
            self._ordinary = _faster(self._vocabulary) or self._vocabulary_only
            return self._ordinary(text)
        return self._vocabulary_only(text)

    def _vocabulary_only(self, text: str) -> list[int]:
        return self._vocabulary.tokenize(text, special=False)


def _faster(vocabulary: Vocabulary) -> Callable[[str], list[int]] | None:
    """A tiktoken encoding of the vocabulary, where it gives the same tokens as llama.cpp on the probe text."""
    pattern, ordinary = PATTERNS.get(vocabulary.pre), vocabulary.ordinary()
    if pattern is None or ordinary is None:
        return None
    import tiktoken

    letters = _byte_letters()
    try:
        ranks = {bytes(letters[letter] for letter in text): token for text, token in ordinary.items()}
        encoding: Any = tiktoken.Encoding("gguf", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        same = encoding.encode_ordinary(PROBE) == vocabulary.tokenize(PROBE, special=False)
    except (KeyError, ValueError):
        return None

    def tokenize(text: str) -> list[int]:
        try:
            return list(encoding.encode_ordinary(text))
        except (KeyError, ValueError):  # its regular expressions give up on some very long words
            return vocabulary.tokenize(text, special=False)

    return tokenize if same else None


def _cut(text: str, literals: Sequence[str]) -> list[str]:
    """The text in pieces, cut in the middle of each of the literals."""
    pattern = "|".join(re.escape(literal) for literal in literals if literal)
    places = [(found.start() + found.end() + 1) // 2 for found in re.finditer(pattern, text)] if pattern else []
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True) if start < end]


def _byte_letters() -> dict[str, int]:
    """The byte behind each letter of a byte-level vocabulary: itself where it prints, the others from letter 256 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)).difference(shown))
    return {chr(byte): byte for byte in shown} | {chr(256 + place): byte for place, byte in enumerate(hidden)}
