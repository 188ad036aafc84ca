"""Conversations on the real model: the short one that a memory has to get right, and a long one in a small window."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_fs.agent import Agent, Step, reply_of
from memory_fs.llm import Model
from memory_fs.starter import init_vault
from memory_fs.vault import Vault


@dataclass(frozen=True)
class Script:
    """A conversation, and what has to come of it.

    Attributes:
        messages: what the person says.
        saved: words that the human block holds at last.
        gone: a word that it no longer holds.
        answers: number of a message -> a word of its answer.
    """

    messages: tuple[str, ...]
    saved: tuple[str, ...]
    gone: str
    answers: Mapping[int, str]


SIX = {
    "en": Script(
        (
            "Hi! My name is Chad and I live in Lisbon.",
            "I have a golden retriever called Biscuit.",
            "I just moved to Porto.",
            "What is my dog's name?",
            "Where do I live now?",
            "Thanks, that is all.",
        ),
        ("Chad", "Biscuit", "Porto"),
        "Lisbon",
        {3: "Biscuit", 4: "Porto"},
    ),
    "zh": Script(
        (
            "你好！我叫小林，住在杭州。",
            "我养了一只金毛，叫豆豆。",
            "我刚搬到上海。",
            "我的狗叫什么名字？",
            "我现在住在哪里？",
            "谢谢，就这些。",
        ),
        ("小林", "豆豆", "上海"),
        "杭州",
        {3: "豆豆", 4: "上海"},
    ),
}


def talk(agent: Agent, messages: Iterable[str], say: Callable[[str], None]) -> tuple[list[str], list[Step]]:
    """Send messages one after the other; returns the answers and every step."""
    replies, steps = [], []
    for message in messages:
        start = time.perf_counter()
        turn = list(agent.run(message))
        steps += turn
        replies.append(reply_of(turn[-1]))
        calls = ", ".join(step.call.function if step.call else "no call" for step in turn)
        say(f"> {message[:100]}\n  {replies[-1][:200]}  ({calls}; {time.perf_counter() - start:.1f} s)")
    return replies, steps


def figures(steps: Sequence[Step]) -> dict[str, Any]:
    """What some steps cost: passes, prompt tokens, the share from the KV cache, generated tokens, seconds."""
    total = {"prompt": 0, "reused": 0, "generated": 0}
    for step in steps:
        for key, number in step.tokens().items():
            total[key] += number
    return {
        "steps": len(steps),
        "passes": sum(len(step.passes) for step in steps),
        "prompt tokens": total["prompt"],
        "from KV cache": f"{total['reused'] / max(1, total['prompt']):.1%}",
        "generated": total["generated"],
        "seconds": round(sum(step.seconds for step in steps), 1),
    }


def six(model: Model, say: Callable[[str], None], language: str = "en") -> dict[str, Any]:
    """The six-message conversation: what human.yaml says after it, and whether the answers are right.

    Args:
        model: any model.
        say: told each line.
        language: `en` or `zh`.
    """
    script = SIX[language]
    with tempfile.TemporaryDirectory() as folder, Agent(init_vault(Path(folder) / "vault"), model) as agent:
        agent.warm()  # as `memory-fs chat` does before the first message
        replies, steps = talk(agent, script.messages, say)
        human = agent.core.block("human").value
    say(f"\ncore/human.yaml:\n{human}\n")
    return {
        **figures(steps),
        "saved": all(word in human for word in script.saved),
        "lines outdated": sum(script.gone in line for line in human.split("\n")),
        "answers": f"{sum(word in replies[n] for n, word in script.answers.items())} of {len(script.answers)}",
    }


def long_messages(path: Path, count: int) -> list[str]:
    """The first messages of one speaker of a LoCoMo file, each with the session's date where it begins."""
    conversation = json.loads(path.read_text(encoding="utf-8"))[0]["conversation"]
    speaker = conversation["speaker_a"]
    found = []
    for number in range(1, 100):
        for said in conversation.get(f"session_{number}", []):
            if said["speaker"] == speaker and said.get("text"):
                found.append(said["text"])
    return found[:count]


def long(model: Model, path: Path, say: Callable[[str], None], count: int = 60, window: int = 2048) -> dict[str, Any]:
    """A long conversation in a small window: flushes, and whether everything stays in recall and can be found.

    Args:
        model: any model whose window is at least `window`.
        path: a LoCoMo file.
        say: told each line.
        count: user messages.
        window: tokens.
    """
    messages = long_messages(path, count)
    with tempfile.TemporaryDirectory() as folder:
        root = init_vault(Path(folder) / "vault")
        settings = root / "memory.yaml"
        settings.write_text(settings.read_text().replace("window: 4096", f"window: {window}"), encoding="utf-8")
        with Agent(Vault(root), model) as agent:
            agent.warm()
            _, steps = talk(agent, messages, say)
            flushes = sum(1 for change in agent.vault.history.log() if change.subject.startswith("Flush"))
            kept = {message.id: message for message in agent.recall.all()}
            verbatim = sum(text in {m.content for m in kept.values() if m.role == "user"} for text in messages)
            in_context = {ref.split("/")[1] for ref in agent.queue.state().messages}
            evicted = [m for m in kept.values() if m.role in ("user", "assistant") and m.id not in in_context]
            missed = [m for m in evicted if not _found(agent, m.id, m.content)]
            say(f"\nsummary: {agent.queue.state().summary}\n")
            for message in missed:
                say(f"not found: {message.content[:100]!r}")
    return {
        **figures(steps),
        "messages": len(messages),
        "flushes": flushes,
        "verbatim in recall": f"{verbatim} of {len(messages)}",
        "evicted found": f"{len(evicted) - len(missed)} of {len(evicted)}",
        "summaries by model": sum(item.kind == "summarise" for step in steps for item in step.passes),
        "ended early": sum(step.final and step.ended != "answered" for step in steps),
    }


def _found(agent: Agent, message_id: str, content: str) -> bool:
    """Whether a search for a message's own words brings it up on the first two pages."""
    pages = (agent.recall.search(content, page) for page in (1, 2))
    return any(hit.id == message_id for page in pages for hit in page.hits)
