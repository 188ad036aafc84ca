"""Exact tokens of prompts: which text becomes which tokens, and how many.

`Encoder` tokenizes every segment of a prompt apart and remembers the result. Contents go through a tiktoken encoding
built from the model's own vocabulary where that gives the same tokens as llama.cpp, else through llama.cpp; markers
always go through llama.cpp. This module knows no model file: `llama.py` hands it a `Vocabulary`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from memory_fs.llm import Turn
from memory_fs.llm.chat import Family, render


class Vocabulary(Protocol):
    """What is needed of a model's vocabulary."""

    bos: int | None

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text; with `special`, control tokens are recognised in it."""
        ...

    def is_control(self, token: int) -> bool:
        """Whether a token is markup and no text."""
        ...


class Encoder:
    """Turns to tokens, for one vocabulary and one family."""

    def __init__(self, vocabulary: Vocabulary, family: Family) -> None:
        self.family = family
        self._vocabulary = vocabulary
        self.content = lru_cache(maxsize=4096)(self._content)
        self.marker = lru_cache(maxsize=256)(self._marker)

    def encode(self, turns: Sequence[Turn]) -> tuple[list[int], int]:
        """The tokens of a prompt, and how many of them its static head (the first part) takes."""
        tokens = [] if self._vocabulary.bos is None else [self._vocabulary.bos]
        head = 0
        for segment in render(turns, self.family):
            tokens += self.marker(segment.text) if segment.marker else self.content(segment.text)
            if not segment.marker and not head:
                head = len(tokens)
        return tokens, head

    def count(self, turns: Sequence[Turn]) -> int:
        """Tokens of a whole prompt."""
        return len(self.encode(turns)[0])

    def _marker(self, text: str) -> tuple[int, ...]:
        return tuple(self._vocabulary.tokenize(text, special=True))

    def _content(self, text: str) -> tuple[int, ...]:
        return tuple(self._vocabulary.tokenize(text, special=False))
