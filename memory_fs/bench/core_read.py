"""Questions answered from core memory: facts as lines of the human block, one question each, the whole loop.

Data: letta-evals `core_memory_read.jsonl` or rows of the same form: {"question", "answer", "facts"}.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memory_fs.agent import Agent, reply_of
from memory_fs.bench.table import percentile
from memory_fs.formats.block import new_block
from memory_fs.llm import Model
from memory_fs.starter import init_vault
from memory_fs.vault import Vault


def run(
    model: Model, path: Path, say: Callable[[str], None], limit: int = 50, log: Path | None = None
) -> dict[str, Any]:
    """Ask the first rows.

    Args:
        model: any model.
        path: the rows, JSON lines.
        say: told each line.
        limit: how many rows.
        log: JSON lines are appended here; rows already there are not asked again.

    Returns:
        The share of answers that contain the expected text, passes and seconds a question.
    """
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][:limit]
    done = _done(log)
    for number, row in enumerate(rows):
        if number in done:
            continue
        done[number] = {"row": number, **_ask(model, row)}
        right = sum(item["right"] for item in done.values())
        say(f"{number + 1}/{len(rows)} right {right}/{len(done)}: {done[number]['reply'][:120]} [{row['answer']}]")
        if log:
            with log.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(done[number], ensure_ascii=False) + "\n")
    asked = [done[number] for number in range(len(rows))]
    seconds = [item["seconds"] for item in asked]
    return {
        "rows": len(asked),
        "right": sum(item["right"] for item in asked) / max(1, len(asked)),
        "passes a question": sum(item["passes"] for item in asked) / max(1, len(asked)),
        "p50 s": percentile(seconds, 0.5),
        "p95 s": percentile(seconds, 0.95),
    }


def _ask(model: Model, row: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = init_vault(Path(folder) / "vault")
        block = new_block("human", "What I know about the user.", 8000, "\n".join(row["facts"]))
        (root / "core" / "human.yaml").write_text(block, encoding="utf-8")
        start = time.perf_counter()
        with Agent(Vault(root), model) as agent:
            steps = list(agent.run(row["question"]))
        reply = reply_of(steps[-1])
        return {
            "right": row["answer"].casefold() in reply.casefold(),
            "reply": reply,
            "calls": [step.call.function if step.call else "" for step in steps],
            "passes": sum(len(step.passes) for step in steps),
            "seconds": round(time.perf_counter() - start, 2),
        }


def _done(log: Path | None) -> dict[int, dict[str, Any]]:
    if not log or not log.exists():
        return {}
    return {item["row"]: item for item in map(json.loads, log.read_text(encoding="utf-8").splitlines())}
