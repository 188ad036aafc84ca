"""Writing a reply: the loop from logits to text, with or without a grammar.

One pass of the loop takes the forced tokens of the grammar, if any, evaluates what is new as one batch, and picks the
next token. This module knows numpy and protocols; the engine and the grammar matcher are handed in.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from memory_fs.errors import ModelError
from memory_fs.llm import Flag, Piece

Finish = Literal["stop", "length", "cancelled"]
Logits = npt.NDArray[np.float32]

UNLIKELY = 0.05
"""At a temperature above 0, tokens with less than this share of the likeliest one's probability are not considered."""


class Matcher(Protocol):
    """A grammar with a position in it (llguidance's LLMatcher)."""

    def compute_ff_tokens(self) -> list[int]:
        """Tokens that the grammar forces next."""
        ...

    def try_consume_tokens(self, tokens: list[int]) -> int:
        """Move past the tokens as far as the grammar allows; how many that were."""
        ...

    def compute_bitmask(self) -> bytes:
        """One bit a token: whether it is allowed next."""
        ...

    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        ...

    def is_stopped(self) -> bool:
        """Whether the text must end here."""
        ...

    def is_error(self) -> bool:
        """Whether the matcher gave up."""
        ...

    def get_error(self) -> str:
        """Why it gave up."""
        ...


class Stream(Protocol):
    """One sequence of an engine."""

    def evaluate(self, tokens: Sequence[int], cancel: Flag | None) -> bool:
        """Append tokens and compute the logits after the last; False when cancelled on the way."""
        ...

    def logits(self) -> Logits:
        """Logits after the last evaluated token; a view that the next evaluation overwrites."""
        ...

    def is_end(self, token: int) -> bool:
        """Whether the token ends a reply."""
        ...


class Writer:
    """Collects the text of tokens and passes it on, whole characters only."""

    def __init__(self, piece: Callable[[int], bytes], on_text: Callable[[str], None] | None) -> None:
        self.count = 0
        self._piece, self._on_text = piece, on_text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._texts: list[str] = []
        self._least = 1.0

    def add(self, tokens: Sequence[int], likely: float = 1.0) -> None:
        """Append tokens, of which the model found the least likely one so likely (0 to 1)."""
        self.count += len(tokens)
        self._least = min(self._least, likely)  # a character may need several tokens
        text = self._decoder.decode(b"".join(map(self._piece, tokens)))
        if text:
            self._texts.append(text)
            if self._on_text is not None:
                self._on_text(Piece(text, self._least))
            self._least = 1.0

    @property
    def watched(self) -> bool:
        """Whether somebody sees the pieces."""
        return self._on_text is not None

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._texts)


class Picker:
    """Chooses the next token: the likeliest at temperature 0, else one drawn with a seeded generator."""

    def __init__(self, temperature: float, seed: Sequence[int]) -> None:
        self._temperature = temperature
        self._random = np.random.Generator(np.random.PCG64(list(seed))) if temperature > 0 else None

    def __call__(self, logits: Logits, matcher: Matcher | None, is_end: Callable[[int], bool]) -> int:
        """A token that the matcher allows, and past which it has moved unless the token ends the reply."""
        if matcher is None:
            return self._choose(logits, None)
        if self._random is None:
            # Most of the time the likeliest token is allowed: asking about one is far cheaper than a whole mask.
            token = int(logits.argmax())
            if matcher.is_accepting() if is_end(token) else matcher.try_consume_tokens([token]) == 1:
                return token
        mask = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        _check(matcher)
        allowed = np.flatnonzero(np.unpackbits(mask, count=min(8 * mask.size, logits.size), bitorder="little"))
        token = self._choose(logits, allowed)
        if not is_end(token) and matcher.try_consume_tokens([token]) != 1:
            _check(matcher)
            raise ModelError("the grammar refused a token that its own mask allows")
        return token

    def _choose(self, logits: Logits, allowed: npt.NDArray[np.intp] | None) -> int:
        scores = logits if allowed is None else logits[allowed]
        if not scores.size:
            raise ModelError("the grammar allows no further token")
        if self._random is None:
            place = int(scores.argmax())
        else:
            shares = np.exp((scores.astype(np.float64) - float(scores.max())) / self._temperature)
            shares[shares < UNLIKELY] = 0.0
            place = int(np.searchsorted(np.cumsum(shares), self._random.random() * shares.sum(), side="right"))
        return place if allowed is None else int(allowed[place])


def generate(
    sequence: Stream,
    prompt: Sequence[int],
    writer: Writer,
    pick: Picker,
    *,
    matcher: Matcher | None,
    max_tokens: int,
    cancel: Flag | None,
) -> Finish:
    """Evaluate what is left of the prompt and write the reply; how it ended.

    Args:
        sequence: where the earlier part of the prompt is already evaluated.
        prompt: the tokens still to evaluate, at least one.
        writer: takes the reply.
        pick: chooses tokens.
        matcher: the grammar, at its start; None for free text.
        max_tokens: the longest reply, tokens.
        cancel: ends the reply when set.
    """
    new = list(prompt)
    while True:
        forced = _forced(matcher, max_tokens - writer.count)
        writer.add(forced)
        new += forced
        if matcher is not None and matcher.is_stopped():
            _check(matcher)
            return "stop"
        if writer.count >= max_tokens:
            return "length"
        if not sequence.evaluate(new, cancel):
            return "cancelled"
        logits = sequence.logits()
        token = pick(logits, matcher, sequence.is_end)
        if sequence.is_end(token):
            return "stop"
        writer.add([token], _likely(logits, token) if writer.watched else 1.0)
        new = [token]


def _likely(logits: Logits, token: int) -> float:
    """The probability of a token before any grammar (softmax)."""
    return float(1.0 / np.exp(logits - logits[token]).sum())


def _forced(matcher: Matcher | None, room: int) -> list[int]:
    """The tokens that the grammar forces next, and past which it has moved."""
    tokens = matcher.compute_ff_tokens()[:room] if matcher is not None else []
    if matcher is not None and tokens and matcher.try_consume_tokens(tokens) != len(tokens):
        _check(matcher)
        raise ModelError("the grammar refused a token that it forces")
    return tokens


def _check(matcher: Any) -> None:
    if matcher.is_error():
        raise ModelError(f"the grammar failed: {matcher.get_error()}")
