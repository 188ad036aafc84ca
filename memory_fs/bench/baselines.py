"""What memory is measured against: the same model and window, and no memory of its own.

Each fills the window as well as its method allows, and words its answer in the same clean form as the agent does.

- `closed`: the question alone, and leave to answer from general knowledge.
- `truncation`: as much of the newest as fits.
- `summary`: the same, and what does not fit is folded into a recursive summary (MemGPT, sections 2.2 and 3.1.1).
- `rag`: the best hits of the real index for the question as it stands, once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from memory_fs.bench.question import Outcome, Question, Setting
from memory_fs.bench.vaults import Vaults
from memory_fs.events import Message
from memory_fs.formats.note import Note
from memory_fs.formats.settings import Settings
from memory_fs.llm import Completion, Flag, Model, Turn
from memory_fs.pager import quote
from memory_fs.prompt import MESSAGE_GRAMMAR, Prompt, answer_prompt
from memory_fs.records import Hit
from memory_fs.search import Search
from memory_fs.vault import Vault
from memory_fs.writer import SLOT, Writer, message_in

CLOSED = "You are a friendly assistant. Reply to the user's last message in one or two short sentences."
SPARE = 8  # tokens: what joining texts may cost above their sum


def closed(model: Model, question: Question) -> Outcome:
    """Answer from what the model knows."""
    turns = (Turn("system", (CLOSED,)), Turn("user", (question.text,)))
    start = time.perf_counter()
    done = _complete(model, turns)
    return Outcome(message_in(done.text), (done,), time.perf_counter() - start)


def truncation(model: Model, question: Question) -> Outcome:
    """Answer from the newest texts that fit."""
    start = time.perf_counter()
    texts = _tail(model, question.setting.texts, _room(model, question), joint=0)  # rather too many: the first go again
    prompt = _filled(model, question, "", texts)
    return _answer(model, prompt, start)


def rag(model: Model, question: Question, vaults: Vaults, k: int) -> Outcome:
    """Answer from the best hits for the question.

    Args:
        model, question: what answers what.
        vaults: where the memory is made; lines of core memory are notes there, as only those are searched.
        k: how many hits.
    """
    with vaults.fresh(searchable(question.setting)) as root, Vault(root) as vault:
        search = Search(vault)
        start = time.perf_counter()
        texts = [_shown(hit) for hit in _best(search, question.text, k)]
        done = _answer(model, _filled(model, question, "", texts), start)
        search.close()
    return done


@dataclass
class Summaries:
    """The `summary` baseline; a setting is summed up once, in the question that first needs it."""

    model: Model
    _known: dict[str, tuple[str, int]] = field(default_factory=dict)

    def answer(self, question: Question) -> Outcome:
        """Answer from the summary of what is older and the newest texts that fit beside it."""
        start, passes = time.perf_counter(), list[Completion]()
        key = question.setting.key
        if key not in self._known:
            self._known = {key: self._fold(question, passes)}
        summary, first = self._known[key]
        texts = question.setting.texts[first:]
        room = _room(self.model, question, summary)
        done = _answer(self.model, _filled(self.model, question, summary, _tail(self.model, texts, room)), start)
        return replace(done, completions=(*passes, *done.completions))

    def _fold(self, question: Question, passes: list[Completion]) -> tuple[str, int]:
        """Sum up what does not fit, half a window at a time; returns the summary and how many texts are in it."""
        texts, budget = question.setting.texts, Settings.summary_tokens
        if len(_tail(self.model, texts, _room(self.model, question))) == len(texts):
            return "", 0
        summary, writer = "", Writer(self.model, Flag())
        end = len(texts) - len(_tail(self.model, texts, _room(self.model, question) - budget))
        done = 0
        while done < end:
            part = _head(self.model, texts[done:end], self.model.window // 2)
            summary, made = writer.summary(summary, [_message(text) for text in part], budget)
            passes += [made.completion] if made else []
            done += len(part)
        return summary, end


def searchable(setting: Setting) -> Setting:
    """The same memory with the lines of core memory as notes."""
    day = datetime(2026, 1, 1, tzinfo=UTC)
    lines = tuple(Note(f"line{number:04d}", line, day) for number, line in enumerate(setting.human))
    return replace(setting, key=f"{setting.key} searchable", human=(), notes=(*setting.notes, *lines))


def _best(search: Search, query: str, k: int) -> list[Hit]:
    """The best hits of both kinds, the best last: what is nearest to the question is read best."""
    hits = [hit for kind in ("archival", "recall") for hit in search.search(kind, query, size=k).hits]
    return sorted(hits, key=lambda hit: hit.score)[-k:]


def _shown(hit: Hit) -> str:
    return f"{hit.date:%Y-%m-%d} {hit.text}" if hit.kind == "recall" else quote(hit) if hit.title else hit.text


def _message(text: str) -> Message:
    return Message("", datetime(2026, 1, 1, tzinfo=UTC), "user", text)


# -- filling the window ---------------------------------------------------------------------------------------------


def _room(model: Model, question: Question, summary: str = "") -> int:
    """Tokens that are left for texts."""
    bare = answer_prompt((), summary, (), ("",), question.text)
    return model.window - _reserve(model) - model.count(bare.turns) - SPARE


def _reserve(model: Model) -> int:
    return min(Settings.reply_reserve, model.window // 4)


def _tail(model: Model, texts: Sequence[str], room: int, joint: int = 1) -> list[str]:
    """The newest texts that have room, oldest first."""
    return _head(model, texts[::-1], room, 0, joint)[::-1]


def _head(model: Model, texts: Sequence[str], room: int, least: int = 1, joint: int = 1) -> list[str]:
    """The first texts that have room, and `least` at any rate; between two of them there are `joint` tokens."""
    kept: list[str] = []
    for text in texts:
        room -= model.count_text(text) + joint
        if room < 0 and len(kept) >= least:
            break
        kept.append(text)
    return kept


def _filled(model: Model, question: Question, summary: str, texts: Sequence[str]) -> Prompt:
    """The prompt of the answer; where the texts are too long together, the first of them are left out."""
    left = list(texts)
    while True:
        prompt = answer_prompt((), summary, (), left, question.text)
        if not left or model.count(prompt.turns) + _reserve(model) < model.window:
            return prompt
        left.pop(0)


def _answer(model: Model, prompt: Prompt, start: float) -> Outcome:
    done = _complete(model, prompt.turns)
    return Outcome(message_in(done.text), (done,), time.perf_counter() - start)


def _complete(model: Model, turns: Sequence[Turn]) -> Completion:
    most = max(16, min(_reserve(model), model.window - model.count(turns) - 1))
    return model.complete(turns, grammar=MESSAGE_GRAMMAR, max_tokens=most, slot=SLOT)
