"""Questions answered from core memory: facts as lines of the human block, one question each, the whole loop.

Data: letta-evals `core_memory_read.jsonl` or rows of the same form: {"question", "answer", "facts"}.
"""

from __future__ import annotations

from pathlib import Path

from memory_fs.bench.data import rows
from memory_fs.bench.question import Question, Setting, Task, holds


def task(path: Path) -> Task:
    """One question a row; raises as `rows` does."""
    found = []
    for number, row in enumerate(rows(path, {"question": str, "answer": object, "facts": list})):
        name, answers = f"{number:04d}", (str(row["answer"]),)
        setting = Setting(name, human=tuple(map(str, row["facts"])))
        found.append(Question(name, setting, str(row["question"]), answers, holds(answers)))
    return Task("core-read", found)
