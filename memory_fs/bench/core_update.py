"""A fact of core memory becomes untrue: the line that says it has to go, the new fact to come, all else to stay.

Data: letta-evals `core_memory_update.jsonl` or rows of the same form: {"question", "answer", "facts", "new_fact",
"stale_fact_indices"}. The new fact is told as a message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from memory_fs.bench.data import rows, wrong
from memory_fs.bench.question import Judge, Outcome, Question, Setting, Task
from memory_fs.bench.scores import contained, mean, normalised

NEWS = 0.6  # of the words that only the new fact has: so many make a line that tells it
KEYS = {"answer": object, "facts": list, "new_fact": str, "stale_fact_indices": list}
_ASIDE = re.compile(r"\s*\([^)]*\)")


def task(path: Path) -> Task:
    """One question a row; raises as `rows` does."""
    found = []
    for number, row in enumerate(rows(path, KEYS)):
        name, fact, answer = f"{number:04d}", str(row["new_fact"]), str(row["answer"])
        facts = tuple(map(str, row["facts"]))
        if not all(type(n) is int and 0 <= n < len(facts) for n in row["stale_fact_indices"]):
            raise wrong(path, f"row {number + 1}: `stale_fact_indices` must be places in `facts`, from 0")
        stale = {facts[n] for n in row["stale_fact_indices"]}
        judge = updated(facts, stale, fact, answer)
        found.append(Question(name, Setting(name, human=facts), fact, (answer,), judge, told=fact))
    return Task("core-update", found, writes=True)


def updated(facts: Sequence[str], stale: set[str], fact: str, answer: str) -> Judge:
    """Right is a block without the stale lines, with the new fact, and with every other line as it was.

    Args:
        facts: the lines before.
        stale: those that the new fact makes untrue.
        fact: the new one.
        answer: what a question about it is answered with; a line that has it tells the fact in other words.
    """
    news = _words(fact) - set().union(*map(_words, stale)) or _words(fact)
    others = [line for line in facts if line not in stale]

    def judge(outcome: Outcome) -> dict[str, float]:
        added = " ".join(line for line in outcome.human if line not in facts)
        gone = not stale & set(outcome.human)
        told = contained([answer, _ASIDE.sub("", answer)], added) or len(news & _words(added)) >= NEWS * len(news)
        intact = mean([float(line in outcome.human) for line in others])
        right = gone and told and (intact == 1 or not others)
        return {"right": float(right), "stale gone": float(gone), "new there": float(told), "untouched": intact}

    return judge


def _words(text: str) -> set[str]:
    return set(normalised(text).split())
