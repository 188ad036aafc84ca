"""How much of what answers a question a search of the conversation brings up, on LoCoMo (Maharana et al. 2024).

    memory-fs bench retrieval LOCOMO.json

Each conversation becomes the recall of a vault of its own, one day file for each day, every turn with its speaker's
name in front; pictures are left out. The questions are asked as they stand, through `Recall.search`. A figure is the
mean over questions of the share of their evidence among the first five or ten hits. Category 5, questions that have no
answer, is not asked.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_fs.bench.table import percentile
from memory_fs.create import create_vault
from memory_fs.events import Message, MessageRole
from memory_fs.formats.day import day_path, render_message
from memory_fs.recall import Recall
from memory_fs.search import Search
from memory_fs.vault import Vault

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
TOPS = (5, 10)
_TURN = re.compile(r"D:?(\d+):(\d+)")  # some evidence names several turns, some is misspelt


@dataclass(frozen=True)
class Asked:
    """One question, with the share of its evidence among the first hits of `TOPS`, and what it took, seconds."""

    category: int
    shares: tuple[float, ...]
    seconds: float


def run(path: Path, limit: int | None = None) -> list[dict[str, object]]:
    """Ask all questions; one row for each category and one for all.

    Args:
        path: a LoCoMo file.
        limit: only the first conversations.
    """
    samples = json.loads(path.read_text(encoding="utf-8"))[:limit]
    asked = [one for sample in samples for one in _ask(sample)]
    rows = [_row(name, [one for one in asked if one.category == number]) for number, name in CATEGORIES.items()]
    return [row for row in (*rows, _row("all", asked)) if row["questions"]]


def _row(name: str, asked: Sequence[Asked]) -> dict[str, object]:
    means = [sum(one.shares[n] for one in asked) / max(1, len(asked)) for n in range(len(TOPS))]
    times = [one.seconds * 1e3 for one in asked]
    return {
        "questions of": name,
        "questions": len(asked),
        **{f"recall@{top}": round(mean, 3) for top, mean in zip(TOPS, means, strict=True)},
        "p50 ms": percentile(times, 0.5),
        "p95 ms": percentile(times, 0.95),
    }


def _ask(sample: Mapping[str, Any]) -> Iterator[Asked]:
    """Every question of a conversation whose evidence is there."""
    messages = list(turns(sample["conversation"]))
    known = {message.id for message in messages}
    with tempfile.TemporaryDirectory() as folder, Vault(_vault(Path(folder) / "vault", messages)) as vault:
        search = Search(vault)
        recall = Recall(search)
        search.sync()
        for question in sample["qa"]:
            evidence = _ids(question.get("evidence", ())) & known
            if question["category"] in CATEGORIES and evidence:
                yield _one(recall, question, evidence)
        search.close()


def _one(recall: Recall, question: Mapping[str, Any], evidence: set[str]) -> Asked:
    start = time.perf_counter()
    hits = recall.search(question["question"], size=max(TOPS)).hits
    seconds = time.perf_counter() - start
    shares = tuple(len(evidence & {hit.id for hit in hits[:top]}) / len(evidence) for top in TOPS)
    return Asked(question["category"], shares, seconds)


def turns(conversation: Mapping[str, Any]) -> Iterator[Message]:
    """The turns of a conversation as messages, a second apart; the first speaker is the user."""
    sessions = (number for number in range(1, 100) if conversation.get(f"session_{number}"))
    for number in sessions:
        start = datetime.strptime(conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")
        for place, turn in enumerate(conversation[f"session_{number}"]):
            moment = start.replace(tzinfo=UTC) + timedelta(seconds=place)
            if moment.date() != start.date():  # a talk past midnight stays with its session
                moment = start.replace(hour=23, minute=59, second=59, tzinfo=UTC)
            role: MessageRole = "user" if turn["speaker"] == conversation["speaker_a"] else "assistant"
            (id,) = _ids([turn["dia_id"]])
            yield Message(id, moment, role, f"{turn['speaker']}: {turn['text']}", f"session-{number}", place + 1)


def _ids(names: Sequence[str]) -> set[str]:
    """The turns that LoCoMo's `D8:6; D9:17` names, as ids that a day file can hold."""
    return {f"D{int(session)}-{int(turn)}" for name in names for session, turn in _TURN.findall(name)}


def _vault(root: Path, messages: Sequence[Message]) -> Path:
    files = {"memory.yaml": "zone: UTC\n"}
    for message in messages:
        path = day_path(message.time.date())
        files[path] = files.get(path, f"# {message.time:%Y-%m-%d}\n\n") + render_message(message)
    create_vault(root, files)
    return root
