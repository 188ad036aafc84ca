"""GGUF models through llama.cpp. The only importer of llama_cpp and llguidance."""

from __future__ import annotations

import codecs
import ctypes
import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # a busy core must not stall the other threads
import llama_cpp
import llguidance.llamacpp
import numpy as np
from llguidance import LLMatcher

from memory_fs.errors import ModelError, PromptTooLong
from memory_fs.llm import Completion, Flag, Turn
from memory_fs.llm.chat import CHATML, choose
from memory_fs.llm.tokens import Encoder

BATCH = 64


@llama_cpp.llama_log_callback
def _silent(level: int, text: bytes, data: object) -> None:
    return None


llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


class Vocab:
    """The vocabulary of a loaded model."""

    def __init__(self, model: Any) -> None:
        self.handle = llama_cpp.llama_model_get_vocab(model)
        self.size = llama_cpp.llama_vocab_n_tokens(self.handle)
        self.bos = llama_cpp.llama_vocab_bos(self.handle) if llama_cpp.llama_vocab_get_add_bos(self.handle) else None
        self.eog = {t for t in range(self.size) if llama_cpp.llama_vocab_is_eog(self.handle, t)}
        self.piece = lru_cache(maxsize=65536)(self._piece)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        out = (llama_cpp.llama_token * (len(data) + 8))()
        n = llama_cpp.llama_tokenize(self.handle, data, len(data), out, len(out), False, special)
        return list(out[:n])

    def is_control(self, token: int) -> bool:
        return bool(llama_cpp.llama_vocab_is_control(self.handle, token))

    def _piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(512)
        n = llama_cpp.llama_token_to_piece(self.handle, token, buffer, 512, 0, False)
        return buffer.raw[: max(n, 0)]


class LlamaModel:
    """A GGUF model with a fixed context window."""

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
        if not path.is_file():
            raise ModelError(f"no model file {path}; fetch one with `memory-fs model install`", path=path)
        self.path, self.window, self.name = path, window, path.stem
        self.seed, self.temperature = seed, temperature
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise ModelError(f"{path} is damaged or no GGUF model", path=path)
        self.vocab = Vocab(self._model)
        c = llama_cpp.llama_context_default_params()
        c.n_ctx, c.n_seq_max, c.n_batch, c.n_ubatch = 2 * window, 2, BATCH, BATCH
        c.kv_unified, c.swa_full, c.no_perf = False, True, True
        c.n_threads = c.n_threads_batch = threads or 2
        self._ctx = llama_cpp.llama_init_from_model(self._model, c)
        if not self._ctx:
            raise ModelError(f"{path}: no context of {window} tokens", path=path)
        self._mem = llama_cpp.llama_get_memory(self._ctx)
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self._slots: list[list[int]] = [[], []]
        self._lock = Lock()
        self._encoder = Encoder(self.vocab, choose({}) or CHATML)
        self._ll = None
        self.notes: list[str] = []

    def count(self, turns: Sequence[Turn]) -> int:
        return self._encoder.count(turns)

    def count_text(self, text: str) -> int:
        return len(self._encoder.content(text))

    def _decode(self, slot: int, tokens: Sequence[int], cancel: Flag | None) -> bool:
        b, have = self._batch, self._slots[slot]
        for start in range(0, len(tokens), BATCH):
            if cancel is not None and cancel.is_set():
                return False
            chunk = tokens[start : start + BATCH]
            for i, token in enumerate(chunk):
                b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, len(have) + i, 1, 0
                b.seq_id[i][0] = slot
            b.logits[len(chunk) - 1], b.n_tokens = 1, len(chunk)
            if code := llama_cpp.llama_decode(self._ctx, b):
                raise ModelError(f"{self.name}: llama.cpp failed with code {code}", path=self.path)
            have.extend(chunk)
        return True

    def _logits(self) -> Any:
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self._ctx, -1), (self.vocab.size,))

    def _matcher(self, grammar: str) -> LLMatcher:
        if self._ll is None:
            self._ll = llguidance.llamacpp.lltokenizer_from_vocab(self.vocab.handle, eos_token=sorted(self.vocab.eog))
        m = LLMatcher(self._ll, LLMatcher.grammar_from_lark(grammar), log_level=0)
        if m.is_error():
            raise ModelError(f"bad grammar: {m.get_error()}")
        return m

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
        with self._lock:
            return self._complete(turns, grammar, max_tokens, slot, on_text, cancel)

    def _complete(self, turns: Any, grammar: Any, max_tokens: int, slot: int, on_text: Any, cancel: Any) -> Completion:
        t0 = time.perf_counter()
        prompt, _ = self._encoder.encode(turns)
        if len(prompt) + max_tokens > self.window:
            raise PromptTooLong(f"prompt of {len(prompt)} and reply of {max_tokens} tokens, window {self.window}")
        have = self._slots[slot]
        same = 0
        while same < min(len(have), len(prompt) - 1) and have[same] == prompt[same]:
            same += 1
        if not llama_cpp.llama_memory_seq_rm(self._mem, slot, same, -1):
            llama_cpp.llama_memory_seq_rm(self._mem, slot, -1, -1)
            same = 0
        del have[same:]
        matcher = self._matcher(grammar) if grammar else None
        text, decoder, made = "", codecs.getincrementaldecoder("utf-8")("replace"), 0

        def emit(tokens: Sequence[int], final: bool = False) -> None:
            nonlocal text
            new = decoder.decode(b"".join(self.vocab.piece(t) for t in tokens), final)
            text += new
            if new and on_text:
                on_text(new)

        finish: Literal["stop", "length", "cancelled"] = "stop"
        todo = list(prompt[same:])
        forced = matcher.compute_ff_tokens()[:max_tokens] if matcher else []
        while True:
            if forced and matcher:
                matcher.consume_tokens(forced)
                made += len(forced)
                todo += forced
                emit(forced)
            if matcher and matcher.is_stopped():
                break
            if made >= max_tokens:
                finish = "length"
                break
            if not self._decode(slot, todo, cancel):
                finish = "cancelled"
                break
            logits = self._logits()
            token = int(logits.argmax())
            if matcher and not (token not in self.vocab.eog and matcher.try_consume_tokens([token]) == 1):
                if token in self.vocab.eog and matcher.is_accepting():
                    break
                bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
                allowed = np.unpackbits(bits, bitorder="little")[: self.vocab.size].astype(bool)
                token = int(np.where(allowed, logits, -np.inf).argmax())
                if token in self.vocab.eog:
                    break
                matcher.consume_token(token)
            if token in self.vocab.eog:
                break
            made += 1
            emit([token])
            todo = [token]
            forced = matcher.compute_ff_tokens()[: max_tokens - made] if matcher else []
            if cancel is not None and cancel.is_set():
                finish = "cancelled"
                break
        emit([], True)
        return Completion(text, finish, len(prompt), same, made, time.perf_counter() - t0)

    def close(self) -> None:
        if self._ctx:
            llama_cpp.llama_free(self._ctx)
            llama_cpp.llama_model_free(self._model)
            self._ctx = self._model = None

    def __enter__(self) -> LlamaModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
