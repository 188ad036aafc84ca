"""llama.cpp and llguidance as a few small objects: model files, vocabularies, KV caches, grammars.

The only importer of llama_cpp and llguidance. It uses llama.cpp's own functions and none of llama-cpp-python's
classes, so that several prompts can keep their KV caches side by side and be cut back to any token. It knows no chat,
no reply and no policy: `llama.py` has those.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import numpy as np

from memory_fs.errors import ModelError
from memory_fs.llm import Flag
from memory_fs.llm.generate import Logits

# Threads that spin while they wait for each other stall everything once another program takes a core. OpenMP reads
# this when the library is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
# When llama.cpp gives up for good it would call a debugger for its last words, and hang in it.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import llama_cpp as api
from llguidance import LLMatcher, LLTokenizer

SLOTS = 2
BATCH = 32
"""Most tokens evaluated at a time: few enough that Ctrl-C is served between two batches."""
TILE, FEW = 16, 7


@api.llama_log_callback  # type: ignore[untyped-decorator]
def _silent(_level: int, _text: bytes, _data: object) -> None:
    """Drops llama.cpp's log; redirecting file descriptors instead would break notebooks."""


api.llama_log_set(_silent, ctypes.c_void_p(0))
api.llama_backend_init()

VERSION: str = api.__version__


def load(path: Path, *, vocab_only: bool) -> Any:
    """A native model; one clear ModelError for any file that is none."""
    if not path.is_file():
        raise ModelError(f"there is no model file {path}; fetch one with `memory-fs model install`", path=path)
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{path} is no GGUF file", path=path)
    params = api.llama_model_default_params()
    params.vocab_only = vocab_only
    params.use_extra_bufts = False  # repacked weights would be a second copy in memory, and are no faster here
    model = api.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelError(f"{path} is damaged, or of a kind that this llama.cpp does not know", path=path)
    return model


def free(model: Any) -> None:
    """Free a native model; its vocabulary and contexts must not be used any more."""
    api.llama_model_free(model)


class Vocab:
    """The vocabulary and metadata of a native model."""

    def __init__(self, model: Any) -> None:
        self.handle: Any = api.llama_model_get_vocab(model)
        self.size: int = api.llama_vocab_n_tokens(self.handle)
        self.metadata = _metadata(model)
        self.pre = self.metadata.get("tokenizer.ggml.pre", "")
        self.add_bos = bool(api.llama_vocab_get_add_bos(self.handle))
        bos, eos = api.llama_vocab_bos(self.handle), api.llama_vocab_eos(self.handle)
        self.bos, self.eos = (bos if bos >= 0 else None), (eos if eos >= 0 else None)
        kinds = [api.llama_vocab_get_attr(self.handle, token) for token in range(self.size)]
        control, defined = api.LLAMA_TOKEN_ATTR_CONTROL, api.LLAMA_TOKEN_ATTR_USER_DEFINED
        self.control = frozenset(token for token, kind in enumerate(kinds) if kind & control)
        self.marked = frozenset(token for token, kind in enumerate(kinds) if kind & (control | defined))
        self.ends = frozenset(token for token in self.marked if api.llama_vocab_is_eog(self.handle, token))
        self.piece = lru_cache(maxsize=1 << 15)(self._piece)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Tokens of a text, without BOS; with `special`, control tokens are recognised in it."""
        if self.handle is None:
            raise ModelError("the model was closed")
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        tokens = (api.llama_token * room)()
        count = api.llama_tokenize(self.handle, data, len(data), tokens, room, False, special)
        if count < 0:
            raise ModelError(f"llama.cpp cannot tokenize a text of {len(text)} characters")
        return list(tokens[:count])

    def text(self, token: int | None) -> str:
        """The text of a token, as the vocabulary lists it."""
        return "" if token is None else api.llama_vocab_get_text(self.handle, token).decode("utf-8", "replace")

    def ordinary(self) -> dict[str, int] | None:
        """The ordinary tokens of a byte-level vocabulary, as it writes them; None for other kinds."""
        if self.metadata.get("tokenizer.ggml.model") != "gpt2":
            return None
        normal, kind = api.LLAMA_TOKEN_ATTR_NORMAL, api.llama_vocab_get_attr
        return {self.text(token): token for token in range(self.size) if kind(self.handle, token) & normal}

    def close(self) -> None:
        """Forget the native vocabulary, which goes with its model."""
        self.handle = None

    def _piece(self, token: int) -> bytes:
        buffer = ctypes.create_string_buffer(256)
        length = api.llama_token_to_piece(self.handle, token, buffer, len(buffer), 0, False)
        return buffer.raw[: max(0, length)]


def _metadata(model: Any) -> dict[str, str]:
    buffer, found = ctypes.create_string_buffer(1 << 18), {}
    for index in range(api.llama_model_meta_count(model)):
        api.llama_model_meta_key_by_index(model, index, buffer, len(buffer))
        key = buffer.value.decode("utf-8", "replace")
        api.llama_model_meta_val_str_by_index(model, index, buffer, len(buffer))
        found[key] = buffer.value.decode("utf-8", "replace")
    return found


def batches(count: int) -> list[int]:
    """Sizes of the batches in which tokens are evaluated.

    llama.cpp's kernels for processors multiply up to `FEW` tokens one by one, and more in tiles of `TILE`, full or
    not: 8 tokens at once cost as much as 16, twice as much as 4 and 4.
    """
    sizes = []
    while count:
        if count <= FEW:
            size = count
        elif count <= TILE - 3:
            size = (count + 1) // 2
        elif count <= BATCH - 5:
            size = min(count, TILE)
        else:
            size = min(count, BATCH)
        sizes.append(size)
        count -= size
    return sizes


class Context:
    """KV caches of a model: one sequence of evaluated tokens for each slot. One thread at a time."""

    def __init__(self, model: Any, vocab: Vocab, *, window: int, threads: int) -> None:
        params = api.llama_context_default_params()
        params.n_ctx, params.n_seq_max = SLOTS * (-(-window // 256) * 256), SLOTS
        params.n_batch = params.n_ubatch = BATCH
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified, params.swa_full, params.no_perf = False, True, True
        self._handle = api.llama_init_from_model(model, params)
        if not self._handle:
            raise ModelError(f"there is no memory for a context of {window} tokens; choose a smaller window")
        self._memory = api.llama_get_memory(self._handle)
        self._batch = api.llama_batch_init(BATCH, 0, 1)
        self._vocab = vocab
        self._tokens: list[list[int]] = [[] for _ in range(SLOTS)]
        self._recurrent = api.llama_model_is_recurrent(model) or api.llama_model_is_hybrid(model)
        self._cancel: Flag | None = None
        self._abort = api.ggml_abort_callback(lambda _data: self._cancel is not None and self._cancel.is_set())
        self._never = api.ggml_abort_callback()

    @property
    def kind(self) -> str:
        """How far a slot can be cut back: `plain` anywhere, `recurrent` not at all."""
        return "recurrent" if self._recurrent else "plain"

    def length(self, slot: int) -> int:
        """Tokens in a slot."""
        return len(self._tokens[slot])

    def keep(self, slot: int, prompt: Sequence[int]) -> int:
        """Cut a slot back to what it has in common with a prompt, at most all but the last token; how much that is."""
        have = self._tokens[slot]
        del have[api.llama_memory_seq_pos_max(self._memory, slot) + 1 :]  # an interrupted evaluation
        same, most = 0, min(len(have), len(prompt) - 1)
        while same < most and have[same] == prompt[same]:
            same += 1
        # A recurrent state cannot be cut. A sliding window lets itself be cut even where the cells are gone.
        cut = api.llama_memory_seq_rm(self._memory, slot, same, -1)
        if not cut or (not self._recurrent and api.llama_memory_seq_pos_min(self._memory, slot) > 0):
            api.llama_memory_seq_rm(self._memory, slot, -1, -1)
            same = 0
        del have[same:]
        return same

    def evaluate(self, slot: int, tokens: Sequence[int], cancel: Flag | None) -> bool:
        """Append tokens to a slot and compute the logits after the last; False when cancelled on the way."""
        have, batch = self._tokens[slot], self._batch
        self._watch(cancel if len(tokens) > 1 else None)
        done = 0
        for size in batches(len(tokens)):
            if cancel is not None and cancel.is_set():
                return False
            chunk = tokens[done : done + size]
            done += size
            for place, token in enumerate(chunk):
                batch.token[place], batch.pos[place], batch.logits[place] = token, len(have) + place, 0
                batch.n_seq_id[place], batch.seq_id[place][0] = 1, slot
            batch.n_tokens, batch.logits[len(chunk) - 1] = len(chunk), 1
            code = api.llama_decode(self._handle, batch)
            if code == 2:
                return False
            if code:
                raise ModelError(f"llama.cpp could not evaluate {len(chunk)} tokens (code {code})")
            have.extend(chunk)
        return True

    def logits(self) -> Logits:
        """Logits after the last evaluated token; a view that the next evaluation overwrites."""
        return np.ctypeslib.as_array(api.llama_get_logits_ith(self._handle, -1), (self._vocab.size,))

    def state(self, slot: int) -> bytes:
        """The KV cache of a slot."""
        size = api.llama_state_seq_get_size(self._handle, slot)
        data = (ctypes.c_uint8 * size)()
        return bytes(memoryview(data)[: api.llama_state_seq_get_data(self._handle, data, size, slot)])

    def restore(self, slot: int, tokens: Sequence[int], state: bytes) -> bool:
        """Fill a slot with the KV cache after these tokens; an empty slot and False when that is impossible."""
        data = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        done = api.llama_state_seq_set_data(self._handle, data, len(state), slot) == len(state)
        if done and api.llama_memory_seq_pos_max(self._memory, slot) == len(tokens) - 1:
            self._tokens[slot] = list(tokens)
            return True
        api.llama_memory_seq_rm(self._memory, slot, -1, -1)
        self._tokens[slot] = []
        return False

    def close(self) -> None:
        """Free the native memory."""
        api.llama_batch_free(self._batch)
        api.llama_free(self._handle)

    def _watch(self, cancel: Flag | None) -> None:
        """Let llama.cpp ask for the flag inside a batch, too.

        Not where Ctrl-C raises KeyboardInterrupt: an exception in a callback of native code would be lost.
        """
        raising = current_thread() is main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._cancel = None if raising else cancel
        api.llama_set_abort_callback(self._handle, self._abort if self._cancel else self._never, None)


class Grammars:
    """Compiled grammars over one vocabulary; building the first takes about a second, copies are cheap."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab
        self._compiled = lru_cache(maxsize=32)(self._compile)

    def matcher(self, grammar: str) -> LLMatcher:
        """A matcher at the start of a Lark grammar."""
        return self._compiled(grammar).deep_copy()

    @cached_property
    def _tokenizer(self) -> LLTokenizer:
        vocab = self._vocab
        # llguidance knows special tokens by a byte in front that no text has
        special = vocab.control | {token for token in vocab.marked if re.fullmatch("<.*>", vocab.text(token))}
        tokens = [b"\xff" + vocab.text(t).encode() if t in special else vocab.piece(t) for t in range(vocab.size)]
        function = ctypes.cast(api.llama_cpp._lib.llama_tokenize, ctypes.c_void_p).value
        make: Any = LLTokenizer
        made: LLTokenizer = make.from_llamacpp(
            tokens=tokens, vocab_ptr=vocab.handle, tokenize_fptr=function, eos_token=sorted(vocab.ends), slices=None
        )
        return made

    def _compile(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._tokenizer, LLMatcher.grammar_from_lark(grammar), log_level=0)
        if matcher.is_error():
            raise ModelError(f"the grammar is wrong: {' '.join(matcher.get_error().split())}")
        return matcher


def stock(path: Path, *, window: int, threads: int) -> Callable[[list[int], int, str | None], tuple[str, int]]:
    """llama-cpp-python's own way to complete a prompt, to compare with.

    Returns:
        A function from a prompt, the most tokens to write and a JSON schema (None: no grammar) to the text and its
        tokens; always the likeliest token.
    """
    from llama_cpp.llama_grammar import LlamaGrammar

    grammar = lru_cache(maxsize=8)(lambda schema: LlamaGrammar.from_json_schema(schema, verbose=False))
    llama: Any = api.Llama(
        model_path=str(path), n_ctx=window, n_threads=threads, n_threads_batch=threads, verbose=False, seed=0
    )

    def complete(prompt: list[int], tokens: int, schema: str | None) -> tuple[str, int]:
        rules = None if schema is None else grammar(schema)
        done = llama.create_completion(prompt, max_tokens=tokens, temperature=0.0, grammar=rules)
        return done["choices"][0]["text"], done["usage"]["completion_tokens"]

    return complete
