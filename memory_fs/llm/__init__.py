"""What the loop needs of a language model, and nothing else.

`Model` is the one seam between memory_fs and an inference engine. `memory_fs.llm.llama.LlamaModel` runs GGUF files
through llama.cpp; `memory_fs.testing.ScriptedModel` replays lines. Nothing here imports an engine, so that
`import memory_fs` stays quick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event as Flag
from typing import Literal, Protocol

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Turn:
    """One turn of a chat prompt.

    `parts` are tokenized apart from each other, and never as control tokens. A part that stays the same from prompt
    to prompt therefore keeps its tokens, whatever follows it; the first part of the first turn is where a model keeps
    a checkpoint of its KV cache.
    """

    role: Role
    parts: tuple[str, ...]

    @property
    def content(self) -> str:
        """The whole text of the turn."""
        return "".join(self.parts)


class Piece(str):
    """A piece of text as a model writes it, with the probability that the model gave to its least likely token."""

    likely: float

    def __new__(cls, text: str, likely: float = 1.0) -> Piece:
        """Args: text; likely: 0 to 1."""
        piece = super().__new__(cls, text)
        piece.likely = likely
        return piece


@dataclass(frozen=True)
class Completion:
    """What a model wrote for one prompt, and what that cost.

    Attributes:
        text: the text, without end-of-turn markers.
        finish: `stop` (the model or the grammar ended it), `length` (max_tokens), `cancelled`.
        prompt_tokens: tokens of the whole prompt; `reused_tokens` of them came from the KV cache.
        generated_tokens: tokens of `text`, forced ones included.
        seconds: wall time of the call.
    """

    text: str
    finish: Literal["stop", "length", "cancelled"] = "stop"
    prompt_tokens: int = 0
    reused_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0


class Model(Protocol):
    """A language model with a fixed context window."""

    @property
    def name(self) -> str:
        """The name to show, for example the file's stem."""
        ...

    @property
    def window(self) -> int:
        """The context window, tokens."""
        ...

    def count(self, turns: Sequence[Turn]) -> int:
        """Tokens of the whole prompt, turn markers and the opening of the reply included."""
        ...

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""
        ...

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        grammar: str | None = None,
        max_tokens: int = 512,
        slot: int = 0,
        on_text: Callable[[str], None] | None = None,
        cancel: Flag | None = None,
    ) -> Completion:
        """Continue the prompt with one assistant turn.

        Args:
            turns: the prompt.
            grammar: a llguidance Lark grammar that the text must follow; None for free text.
            max_tokens: the longest text, tokens.
            slot: which of the model's KV caches to use (0 or 1); prompts of one kind share a slot.
            on_text: called with each new piece of text while it is written; a `Piece` where the model knows how likely
                it found it.
            cancel: when set, from another thread or a signal handler, the call ends within a second.

        Raises:
            PromptTooLong: prompt and reply do not fit the window.
            ModelError: the engine failed.
        """
        ...


__all__ = ["Completion", "Flag", "Model", "Piece", "Role", "Turn"]
