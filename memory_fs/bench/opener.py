"""Conversation opener (MemGPT, section 3.1.2): the first message of a new session takes up what is known of the user.

Data: JSON lines with a list of facts about one person each, as "persona" or as "facts".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memory_fs.bench.data import rows, wrong
from memory_fs.bench.question import Judge, Outcome, Question, Setting, Task
from memory_fs.bench.scores import mean, rouge_l

ASKED = "A new session begins. Write the first message to the user: greet them, and take up what you know about them."
BEST = 3


def task(path: Path) -> Task:
    """One opener a row; raises as `rows` does."""
    found = []
    for number, row in enumerate(rows(path, {})):
        lines = row.get("persona", row.get("facts"))
        if not isinstance(lines, list) or not lines:
            raise wrong(path, f"row {number + 1} has no list `persona` or `facts`")
        name, facts = f"{number:04d}", tuple(map(str, lines))
        found.append(Question(name, Setting(name, human=facts), ASKED, facts, covers(facts), kind="system"))
    return Task("opener", found)


def covers(facts: Sequence[str]) -> Judge:
    """ROUGE-L recall of each fact in the message: the mean of all, the best, and the mean of the best three."""

    def judge(outcome: Outcome) -> dict[str, float]:
        found = sorted((rouge_l(fact, outcome.reply) for fact in facts), reverse=True)
        return {"right": mean(found), "best": found[0], "best 3": mean(found[:BEST])}

    return judge
