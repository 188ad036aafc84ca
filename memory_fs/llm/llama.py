"""GGUF models: `LlamaModel` writes replies, `TokenCounter` only counts tokens.

A slot is a KV cache with the tokens in it. For each prompt the slot is cut back to what the prompt has in common with
it, and only the rest is evaluated. The head of a prompt (its first part, which stays the same from prompt to prompt)
is also kept as a checkpoint on disk, so that a new process need not evaluate it again. What llama.cpp does is in
`native.py`, what a chat looks like in `chat.py`, how a reply is written in `generate.py`.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Self

from memory_fs.errors import ModelError, PromptTooLong
from memory_fs.llm import Completion, Flag, Turn, cpu, native
from memory_fs.llm.generate import Picker, Writer, generate
from memory_fs.llm.kv import Checkpoints, identity, user_key
from memory_fs.llm.template import family_of
from memory_fs.llm.tokens import Encoder

SMALLEST_HEAD = 64
"""Heads of prompts with fewer tokens are not worth a checkpoint."""

SMALLEST_WINDOW = 256
"""Tokens; less holds no prompt worth the name."""


class TokenCounter:
    """Counts the tokens of prompts exactly as the model does, without loading its weights.

    Args:
        path: a GGUF file.
        window: the context window to report, tokens.

    Raises:
        ModelError: the file is missing or no GGUF model.
    """

    def __init__(self, path: Path, *, window: int = 4096) -> None:
        self._model = native.load(path, vocab_only=True)
        self._setup(path, window)

    def _setup(self, path: Path, window: int) -> None:
        if window < SMALLEST_WINDOW:
            raise ModelError(f"a window of {window} tokens is too small; give at least {SMALLEST_WINDOW}", path=path)
        self.path, self.name = path, path.stem
        self.notes: list[str] = []
        self.vocab = native.Vocab(self._model)
        metadata = self.vocab.metadata
        self.trained = int(metadata.get(f"{metadata.get('general.architecture')}.context_length", "0"))
        self.window = window
        if 0 < self.trained < window:
            self.window = self.trained
            self.notes.append(
                f"{self.name} was trained for {self.trained} tokens: the window is {self.trained}, not {window}"
            )
        family = family_of(metadata, self.vocab.text(self.vocab.bos), self.vocab.text(self.vocab.eos))
        self.encoder = Encoder(self.vocab, family)

    def count(self, turns: Sequence[Turn]) -> int:
        """Tokens of the whole prompt, turn markers and the opening of the reply included."""
        return self.encoder.count(turns)

    def count_text(self, text: str) -> int:
        """Tokens of a bare text."""
        return len(self.encoder.content(text))

    def close(self) -> None:
        """Free the native memory."""
        model, self._model = self._model, None
        if model is not None:
            self.vocab.close()
            native.free(model)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, window={self.window})"


@dataclass(frozen=True)
class Info:
    """What a person may want to know of a loaded model: sizes in bytes and tokens."""

    path: Path
    bytes: int
    family: str
    window: int
    trained: int
    threads: int
    cache: str


class LlamaModel(TokenCounter):
    """A GGUF model with a fixed context window; implements `memory_fs.llm.Model`.

    Args:
        path: a GGUF file.
        window: the context window, tokens; a window larger than the model was trained for is made smaller, and
            `notes` says so.
        seed: with a temperature above 0, the same seed and prompt give the same reply.
        temperature: 0 always takes the likeliest token.
        threads: None uses what affinity and container quota allow.
        kv_folder: where checkpoints of prompt heads are kept; None keeps none.

    Raises:
        ModelError: the file is missing, damaged or does not fit into memory.
    """

    def __init__(
        self,
        path: Path,
        *,
        window: int = 4096,
        seed: int = 0,
        temperature: float = 0.0,
        threads: int | None = None,
        kv_folder: Path | None = None,
    ) -> None:
        self._model = native.load(path, vocab_only=False)
        self._setup(path, window)
        self.seed, self.temperature = seed, temperature
        self.threads = threads or cpu.threads()
        self._context = native.Context(self._model, self.vocab, window=self.window, threads=self.threads)
        self._grammars = native.Grammars(self.vocab)
        self._ends = self.vocab.ends | self.encoder.ends
        self._lock = Lock()
        self._heads: list[set[int]] = [set() for _ in range(native.SLOTS)]
        self._checkpoints = None
        if kv_folder is not None:
            self._checkpoints = Checkpoints(kv_folder, identity(path, native.VERSION, "f16"), user_key())

    @property
    def info(self) -> Info:
        """What a person may want to know of the model."""
        size = self.path.stat().st_size
        family, cache = self.encoder.family.name, self._context.kind
        return Info(self.path, size, family, self.window, self.trained, self.threads, cache)

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
        """Continue the prompt with one assistant turn; see `memory_fs.llm.Model`."""
        start, max_tokens = time.perf_counter(), max(0, max_tokens)
        prompt, head = self.encoder.encode(turns)
        if len(prompt) + max_tokens > self.window:
            raise PromptTooLong(
                f"a prompt of {len(prompt)} tokens and a reply of {max_tokens} do not fit a window of {self.window}"
            )
        with self._lock:
            if self._model is None:
                raise ModelError("the model was closed", path=self.path)
            matcher = self._grammars.matcher(grammar) if grammar is not None else None
            writer = Writer(self.vocab.piece, on_text)
            reused, whole = self._prepare(slot, prompt, head, cancel)
            finish = (
                "cancelled"
                if not whole
                else generate(
                    _Slot(self._context, slot, self._ends),
                    prompt[self._context.length(slot) :],
                    writer,
                    Picker(self.temperature, (self.seed % 2**64, _hash(prompt))),
                    matcher=matcher,
                    max_tokens=max_tokens,
                    cancel=cancel,
                )
            )
        return Completion(writer.text, finish, len(prompt), reused, writer.count, time.perf_counter() - start)

    def _prepare(self, slot: int, prompt: list[int], head: int, cancel: Flag | None) -> tuple[int, bool]:
        """Bring a slot as far as it goes without writing: tokens that were there already, and whether all went well.

        The head is evaluated by itself, so that its checkpoint is the same whatever follows it.
        """
        reused = self._context.keep(slot, prompt)
        if self._checkpoints is None or head < SMALLEST_HEAD or reused >= head:
            return reused, True
        tokens = prompt[:head]
        state = self._checkpoints.load(tokens)
        if state is not None:
            if self._context.restore(slot, tokens, state):
                return head, True
            self._checkpoints.forget(tokens)
            reused = 0
        if not self._context.evaluate(slot, tokens[reused:], cancel):
            return reused, False
        if self._worth_saving(slot, tokens):
            self._checkpoints.save(tokens, self._context.state(slot))
        return reused, True

    def _worth_saving(self, slot: int, head: list[int]) -> bool:
        """Whether a head deserves a checkpoint: the first one of a slot, and any that comes back."""
        key = _hash(head)
        worth = key in self._heads[slot] or not self._heads[slot]
        self._heads[slot].add(key)
        return worth

    def close(self) -> None:
        """Free the native memory; the model cannot be used any more."""
        with self._lock:
            if self._model is not None:
                self._context.close()
            super().close()


class _Slot:
    """One slot of a context, as `generate` wants it."""

    def __init__(self, context: native.Context, slot: int, ends: frozenset[int]) -> None:
        self._context, self._slot = context, slot
        self.is_end = ends.__contains__
        self.logits = context.logits

    def evaluate(self, tokens: Sequence[int], cancel: Flag | None) -> bool:
        return self._context.evaluate(self._slot, tokens, cancel)


def _hash(tokens: Sequence[int]) -> int:
    """The same number for the same tokens, in every process."""
    return int.from_bytes(blake2b(array("q", tokens).tobytes(), digest_size=8).digest())
