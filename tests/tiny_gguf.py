"""Writes real GGUF files of some hundred kilobytes: random weights, a byte-level vocabulary, real control tokens.

They say nothing sensible, but llama.cpp runs them like any model, in milliseconds: KV caches, cancelling, grammars and
tokenizers can be tested for real without a download. Three kinds of memory: `llama` (plain attention), `gemma3` (a
sliding window) and `mamba` (recurrent).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
DEFINED = ("<think>", "</think>", "<|odd|>")
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "i n", "Ġ Ġ", "ä ½", "ä½ ł")
WIDTH, HEADS, LAYERS, INNER = 64, 2, 2, 96
SLIDING = 32
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def letters() -> list[str]:
    """The letters that stand for the bytes 0 to 255 in a byte-level vocabulary."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


def tiny_gguf(
    path: Path,
    kind: str = "llama",
    *,
    template: str = TEMPLATE,
    trained: int = 2048,
    seed: int = 7,
    add_bos: bool = False,
) -> Path:
    """Write a model file and return its path."""
    merged = [merge.replace(" ", "") for merge in MERGES]
    tokens = [*letters(), *merged, *CONTROL, *DEFINED]
    ordinary = len(tokens) - len(CONTROL) - len(DEFINED)
    fields: dict[str, Any] = {
        "general.architecture": kind,
        "general.name": "tiny",
        **_shape(kind, trained),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([1] * ordinary + [3] * len(CONTROL) + [4] * len(DEFINED), dtype=np.int32),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": ordinary,
        "tokenizer.ggml.eos_token_id": ordinary + 2,
        "tokenizer.ggml.add_bos_token": add_bos,
        "tokenizer.chat_template": template,
    }
    random = np.random.default_rng(seed)
    tensors = {
        name: np.ones(shape, np.float32)
        if name.endswith("norm.weight")
        else random.normal(0, 0.4, shape).astype(np.float32)
        for name, shape in _tensors(kind, len(tokens)).items()
    }
    if kind == "mamba":
        for layer in range(LAYERS):
            tensors[f"blk.{layer}.ssm_a"] = -np.abs(tensors[f"blk.{layer}.ssm_a"]) - 0.1
    path.write_bytes(_gguf(fields, tensors))
    return path


def _shape(kind: str, trained: int) -> dict[str, Any]:
    common = {
        f"{kind}.context_length": trained,
        f"{kind}.embedding_length": WIDTH,
        f"{kind}.block_count": LAYERS,
        f"{kind}.feed_forward_length": 0 if kind == "mamba" else INNER,
        f"{kind}.attention.head_count": 0 if kind == "mamba" else HEADS,
        f"{kind}.attention.layer_norm_rms_epsilon": 1e-5,
    }
    if kind == "mamba":
        sizes = {"conv_kernel": 4, "inner_size": 2 * WIDTH, "state_size": 16, "time_step_rank": 4}
        return common | {f"mamba.ssm.{name}": size for name, size in sizes.items()}
    if kind == "gemma3":
        head = {"key_length": WIDTH // HEADS, "value_length": WIDTH // HEADS, "sliding_window": SLIDING}
        return common | {f"gemma3.attention.{name}": size for name, size in head.items()}
    return common


def _tensors(kind: str, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes; the last number is the one that runs fastest in memory."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocabulary, WIDTH), "output_norm.weight": (WIDTH,)}
    shapes["output.weight"] = (vocabulary, WIDTH)
    for layer in range(LAYERS):
        own = _mamba_layer() if kind == "mamba" else _attention_layer(kind)
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in own.items()}
    return shapes


def _attention_layer(kind: str) -> dict[str, tuple[int, ...]]:
    square, head = (WIDTH, WIDTH), (WIDTH // HEADS,)
    shapes: dict[str, tuple[int, ...]] = {f"attn_{part}.weight": square for part in ("q", "k", "v", "output")}
    shapes |= {"attn_norm.weight": (WIDTH,), "ffn_norm.weight": (WIDTH,)}
    shapes |= {"ffn_gate.weight": (INNER, WIDTH), "ffn_up.weight": (INNER, WIDTH), "ffn_down.weight": (WIDTH, INNER)}
    if kind == "gemma3":
        shapes |= {"post_attention_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)}
        shapes |= {"attn_q_norm.weight": head, "attn_k_norm.weight": head}
    return shapes


def _mamba_layer() -> dict[str, tuple[int, ...]]:
    inner = 2 * WIDTH
    return {
        "attn_norm.weight": (WIDTH,),
        "ssm_in.weight": (2 * inner, WIDTH),
        "ssm_conv1d.weight": (inner, 4),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (4 + 32, inner),
        "ssm_dt.weight": (inner, 4),
        "ssm_dt.bias": (inner,),
        "ssm_a": (inner, 16),
        "ssm_d": (inner,),
        "ssm_out.weight": (WIDTH, inner),
    }


def _gguf(fields: dict[str, Any], tensors: dict[str, np.ndarray[Any, np.dtype[np.float32]]]) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(_text(key) + _value(value) for key, value in fields.items())
    data = b""
    for name, array in tensors.items():
        shape = array.shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += _padded(array.tobytes())
    return _padded(head) + data


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
    return struct.pack("<IIQ", 9, 5, len(value)) + value.tobytes()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 32)
