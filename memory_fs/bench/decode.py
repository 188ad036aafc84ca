"""How fast a function call is written: three ways to the same call, same model, same prompt, one run.

*ours* is `LlamaModel` with a llguidance grammar; *gbnf* is llama-cpp-python's own path, its JSON-schema grammar and its
sampler; *free* is llama-cpp-python without any grammar, the speed that is usually taken for the limit. Each way
reads the prompt once before the clock starts, so that only writing is measured. The ways take turns, so that a busy
machine is unfair to none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from memory_fs.llm import Turn
from memory_fs.llm.llama import LlamaModel

LINES = (
    "Maren Tolvik, born in the north in 1984, has worked as a carpenter in Bergen since she finished school there.",
    "Sails a small blue boat called Petrel on Sundays, weather permitting, together with her brother Jon and his dog.",
    "Keeps two goats behind the workshop and sells their cheese at the market on the first Saturday of every month.",
    "Is learning the fiddle from an old neighbour, one evening a week, and hopes to play at a wedding next summer.",
)
"""The lines of the block that the call may replace."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "known": {"type": "string", "maxLength": 160},
        "missing": {"type": "string", "maxLength": 80},
        "function": {"enum": ["core_memory_replace"]},
        "arguments": {
            "type": "object",
            "properties": {
                "label": {"enum": ["human", "persona"]},
                "old_content": {"enum": list(LINES)},
                "new_content": {"type": "string"},
                "request_heartbeat": {"type": "boolean"},
            },
            "required": ["label", "old_content", "new_content", "request_heartbeat"],
            "additionalProperties": False,
        },
    },
    "required": ["known", "missing", "function", "arguments"],
    "additionalProperties": False,
}
"""A call as the loop asks for it: a thought in two fields, and the replacement of one of the block's lines."""

TIGHT = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}

TURNS = (
    Turn(
        "system",
        (
            "You keep a memory about the user. Reply with one function call as JSON on one line.\n"
            "known: what memory says about it, in a few words. missing: what is new, in a few words.\n"
            "core_memory_replace(label, old_content, new_content, request_heartbeat) puts new_content in the place of "
            "the line old_content.\n\n"
            'For "I have moved to Hull" it is {"known": "lives in York, in a flat by the river", "missing": "the new '
            'city and the house", "function": "core_memory_replace", "arguments": {"label": "human", "old_content": '
            '"Lives in York, in a flat by the river.", "new_content": "Lives in Hull since last week, in a house with '
            'a small garden.", "request_heartbeat": false}}\n\nBlock human:\n',
            "\n".join(LINES),
        ),
    ),
    Turn(
        "user",
        ("We sold Petrel! Jon and I row a green canoe called Kittiwake now.",),
    ),
)

Way = Callable[[], tuple[str, int]]


def run(model_path: Path, tokens: int = 160, repeat: int = 3) -> dict[str, Any]:
    """Measure the three ways.

    Args:
        model_path: a GGUF file.
        tokens: the longest reply of each way, tokens; the call takes about 120.
        repeat: how often each way is timed; the medians are reported.

    Returns:
        `ways`, a dict for each with `tokens`, `seconds` and `rate` (tokens a second) and the `text`; `ratio`, how many
        times faster than *gbnf* *ours* writes, in tokens a second; `time_ratio`, the same for the whole call.
    """
    with LlamaModel(model_path, window=2048) as model:
        ways = {"ours": _ours(model, tokens), **_theirs(model, tokens)}
        texts = {name: way()[0] for name, way in ways.items()}  # reads the prompt, compiles the grammar
        runs: dict[str, list[tuple[float, int]]] = {name: [] for name in ways}
        for _ in range(repeat):
            for name, way in ways.items():
                start = time.perf_counter()
                count = way()[1]
                runs[name].append((time.perf_counter() - start, count))
    found = {name: _summary(texts[name], times) for name, times in runs.items()}
    return {
        "model": model_path.name,
        "threads": model.threads,
        "ways": found,
        "ratio": found["ours"]["rate"] / found["gbnf"]["rate"],
        "time_ratio": found["gbnf"]["seconds"] / found["ours"]["seconds"],
    }


def _summary(text: str, times: list[tuple[float, int]]) -> dict[str, Any]:
    seconds = median(time for time, _ in times)
    return {"text": text, "tokens": times[0][1], "seconds": seconds, "rate": times[0][1] / seconds}


def _ours(model: LlamaModel, tokens: int) -> Way:
    grammar = f"start: call\ncall: %json {json.dumps(SCHEMA | TIGHT)}\n"

    def write() -> tuple[str, int]:
        done = model.complete(TURNS, grammar=grammar, max_tokens=tokens)
        return done.text, done.generated_tokens

    return write


def _theirs(model: LlamaModel, tokens: int) -> dict[str, Way]:
    from memory_fs.llm.native import stock

    prompt = model.encoder.encode(TURNS)[0]
    complete = stock(model.path, window=model.window, threads=model.threads)
    schema = json.dumps(SCHEMA)
    return {
        "gbnf": lambda: complete(prompt, tokens, schema),
        "free": lambda: complete(prompt, tokens, None),
    }
