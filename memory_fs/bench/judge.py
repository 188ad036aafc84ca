"""Replies as prompts for a large model, for those who have one: it sees that other words mean the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from memory_fs.bench.harness import Row, writing

JUDGE = """You check answers of an assistant. Say CORRECT if the answer gives the same fact as the right answer, also \
in other words, another format of a date or with more around it; else say WRONG. One word.

Question: {question}
Right answer: {right}
Answer to check: {reply}

CORRECT or WRONG:"""


def judge_prompts(rows: Iterable[Row]) -> Iterator[dict[str, str]]:
    """Rows of a log as prompts for a large model: {"id", "system", "prompt"}."""
    for row in rows:
        prompt = JUDGE.format(question=row["question"], right=" or ".join(row["answers"]), reply=row["reply"])
        yield {"id": row["id"], "system": row["system"], "prompt": prompt}


def write(rows: Iterable[Row], path: Path) -> None:
    """Write the prompts as JSON lines.

    Raises:
        MemoryFsError: the file cannot be written.
    """
    lines = "".join(json.dumps(prompt, ensure_ascii=False) + "\n" for prompt in judge_prompts(rows))
    with writing(path):
        path.write_text(lines, encoding="utf-8")
