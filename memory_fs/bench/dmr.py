"""Deep memory retrieval (MemGPT, section 3.1.1): a fact of an earlier session is asked for in a new one.

Data: a LoCoMo file. The turns of all sessions are recall memory, on their days; nothing of them is in context.
Questions without an answer (category 5) are left out. The level is LoCoMo's category: 1 multi-hop, 2 temporal,
3 open-domain, 4 single-hop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_fs.bench.data import document, wrong
from memory_fs.bench.question import Judge, Outcome, Question, Setting, Task
from memory_fs.bench.scores import contained, normalised, rouge_l
from memory_fs.events import Message, MessageRole

_FORM = "%I:%M %p on %d %B, %Y"
_PAUSE = timedelta(seconds=20)  # between two turns of a session


def task(path: Path) -> Task:
    """All questions that have an answer, conversation by conversation.

    Raises:
        MemoryFsError: the file cannot be read, or has another form.
    """
    samples = document(path)
    try:
        found = [question for sample in samples for question in _questions(sample)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise wrong(path, f"this is no LoCoMo file ({type(error).__name__}: {error})") from error
    return Task("dmr", found)


def _questions(sample: Mapping[str, Any]) -> Iterator[Question]:
    name = re.sub(r"[^A-Za-z0-9-]+", "-", str(sample["sample_id"]))[:40]
    setting = Setting(name, talk=tuple(talk(sample["conversation"], name)))
    for number, asked in enumerate(sample["qa"]):
        if "answer" in asked and asked["category"] != 5:
            answer = str(asked["answer"])
            level, judge = str(asked["category"]), recalled(answer)
            yield Question(f"{name}-{number:03d}", setting, str(asked["question"]), (answer,), judge, level)


def talk(conversation: Mapping[str, Any], name: str) -> Iterator[Message]:
    """The turns of all sessions; the first speaker is the user, and each is named, as questions name them.

    Args:
        conversation: LoCoMo's, with `session_N` and `session_N_date_time`.
        name: of the conversation; message ids begin with it.
    """
    first, number = conversation["speaker_a"], 1
    while turns := conversation.get(f"session_{number}"):
        start = datetime.strptime(conversation[f"session_{number}_date_time"], _FORM).replace(tzinfo=UTC)
        for place, turn in enumerate(turns):
            role: MessageRole = "user" if turn["speaker"] == first else "assistant"
            picture = f" (shares a picture: {turn['blip_caption']})" if turn.get("blip_caption") else ""
            content = f"{turn['speaker']}: {turn['text']}{picture}"
            ref = f"{name}-{number}-{place}"
            yield Message(ref, start + place * _PAUSE, role, content, f"{name}-{number}", place // 2 + 1)
        number += 1


def recalled(answer: str) -> Judge:
    """Right is a reply that contains the answer; beside it whether it is the answer, and ROUGE-L recall."""

    def judge(outcome: Outcome) -> dict[str, float]:
        exact = normalised(outcome.reply) == normalised(answer)
        right = contained([answer], outcome.reply)
        return {"right": float(right), "exact": float(exact), "ROUGE-L": rouge_l(answer, outcome.reply)}

    return judge
