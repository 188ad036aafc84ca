"""Short everyday conversations: facts told, changed, and asked for in other words.

Data: JSON lines of {"id", "messages", "answers"}; `answers` gives, for the number of a message (from 0), the words of
which a right answer has one (`right`) and none (`wrong`). What memory holds afterwards is held against what was said.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_fs.agent import Agent
from memory_fs.bench.conversation import talk
from memory_fs.bench.data import Kinds, rows, wrong
from memory_fs.bench.harness import writing
from memory_fs.bench.scores import contained, interval
from memory_fs.bench.systems import notes
from memory_fs.llm import Model
from memory_fs.policy import topic
from memory_fs.starter import init_vault

KEYS: Kinds = {"id": str, "messages": list, "answers": dict}
LABELS = """name lives live living home works work job has have owns owned likes loves dislikes plays drives called user
the user's pet pets wife husband age favourite from
born allergic allergy currently moved 名字 姓名 住在 职业 用户 喜欢 宠物 年龄"""
"""What a line may say beside the words that were told: what kind of fact it is."""


def read(path: Path) -> list[dict[str, Any]]:
    """The conversations of a file.

    Raises:
        MemoryFsError: it cannot be read. FormatError: a line is no conversation.
    """
    found = rows(path, KEYS)
    for number, row in enumerate(found, 1):
        places = {str(n) for n in range(len(row["messages"]))}
        ways = row["answers"].values()
        if not set(row["answers"]) <= places or not all(isinstance(way, dict) and way.get("right") for way in ways):
            raise wrong(path, f'row {number}: `answers` must be {{"number of a message": {{"right": [...]}}}}')
    return found


def run(
    model: Model, conversations: Iterable[dict[str, Any]], say: Callable[[str], None], log: Path | None = None
) -> list[dict[str, Any]]:
    """Have the conversations, each with a new vault, and judge answers and memory.

    Args:
        model: any model.
        conversations: from `read`.
        say: told each line.
        log: JSON lines of what was said and saved are added here.

    Returns:
        A row for each conversation: `right` and `asked`, `supported` and `saved` (lines).
    """
    found = []
    for conversation in conversations:
        row = _one(model, conversation, say)
        found.append(row)
        if log:
            with writing(log), log.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
    return found


def _one(model: Model, conversation: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    messages, answers = conversation["messages"], conversation["answers"]
    with tempfile.TemporaryDirectory() as folder, Agent(init_vault(Path(folder) / "vault"), model) as agent:
        agent.warm()
        before = notes(agent.vault)
        replies, steps = talk(agent, messages, say)
        saved = [agent.core.block("human").value]
        saved += [one.text for path in sorted(notes(agent.vault) - before) for one in agent.search.load(path)]
    lines = [line for text in saved for line in text.split("\n") if line.strip()]
    wrong = [n for n, way in answers.items() if not judged(replies[int(n)], way)]
    told = [message for n, message in enumerate(messages) if str(n) not in answers]
    strange = [line for line in lines if not supported(line, told)]
    say(f"{conversation['id']}: wrong: {[messages[int(n)] for n in wrong]}, not said: {strange}, saved: {lines}\n")
    return {
        "id": conversation["id"],
        "right": len(answers) - len(wrong),
        "asked": len(answers),
        "supported": len(lines) - len(strange),
        "saved": len(lines),
        "seconds": round(sum(step.seconds for step in steps), 1),
        "talk": list(zip(messages, replies, strict=True)),
        "lines": lines,
    }


def judged(reply: str, way: Mapping[str, Sequence[str]]) -> bool:
    """Whether a reply has one of the right words and none of the wrong ones."""
    return contained(way["right"], reply) and not contained(way.get("wrong", ()), reply)


def supported(line: str, told: Sequence[str]) -> bool:
    """Whether every weighty word of a saved line was said by the user, or only names the kind of fact."""
    return topic(line) <= topic("\n".join(told)) | topic(LABELS)


def figures(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The shares of right answers and of supported lines, with intervals over conversations."""
    answers = [row["right"] / row["asked"] for row in found if row["asked"]]
    low, high = interval(answers)
    total = {key: sum(row[key] for row in found) for key in ("right", "asked", "supported", "saved", "seconds")}
    return {
        "conversations": len(found),
        "questions": total["asked"],
        "right": f"{total['right'] / max(1, total['asked']):.3f}",
        "95 % over conversations": f"{low:.2f}-{high:.2f}",
        "lines": total["saved"],
        "supported": f"{total['supported'] / max(1, total['saved']):.3f}",
        "seconds": round(total["seconds"], 1),
    }
