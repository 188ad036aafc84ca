"""Doubles for tests and notebooks, public: a model that replays lines, a clock that stands, a vault in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_fs.create import create_vault
from memory_fs.errors import ModelError, PromptTooLong
from memory_fs.events import Clock, IdSource
from memory_fs.formats.block import new_block
from memory_fs.llm import Completion, Flag, Turn
from memory_fs.vault import Vault

Reply = str | Callable[[Sequence[Turn]], str]
_TOKEN = re.compile(r"\s?[A-Za-z0-9]{1,6}|\s|[^\sA-Za-z0-9]")


def call(function: str, known: str = "", missing: str = "", **arguments: Any) -> str:
    """The completion that makes one function call."""
    return json.dumps(
        {"known": known, "missing": missing, "function": function, "arguments": arguments}, ensure_ascii=False
    )


class ScriptedModel:
    """A model that gives one prepared completion after another and keeps what it was asked.

    It counts tokens by a simple rule (a token is up to six letters, or one other character) and reuses what two prompts
    in a row begin with, so that the figures of a test are the same on every machine.
    """

    def __init__(self, replies: Iterable[Reply], *, window: int = 4096, name: str = "scripted") -> None:
        """Args: replies: texts, or functions from the turns to a text; window: tokens."""
        self._replies = iter(replies)
        self.window = window
        self.name = name
        self.prompts: list[tuple[Turn, ...]] = []
        self.grammars: list[str | None] = []
        self._cache: dict[int, list[str]] = {}

    def count(self, turns: Sequence[Turn]) -> int:
        """Tokens of a prompt: those of its parts, four for each turn's markers, and three to open the reply."""
        return sum(self.count_text(part) for turn in turns for part in turn.parts) + 4 * len(turns) + 3

    def count_text(self, text: str) -> int:
        """Tokens of a text."""
        return len(_TOKEN.findall(text))

    def complete(
        self,
        turns: Sequence[Turn],
        *,
        grammar: str | None = None,
        max_tokens: int = 512,
        slot: int = 0,
        on_text: Callable[[str], None] | None = None,
        cancel: Flag | None = None,
    ) -> Completion:
        """The next completion.

        Raises:
            PromptTooLong: prompt and reply do not fit the window, as for every model.
            ModelError: there is none left.
        """
        if self.count(turns) + max_tokens > self.window:
            raise PromptTooLong(f"{self.count(turns)} tokens and a reply of {max_tokens} do not fit {self.window}")
        self.prompts.append(tuple(turns))
        self.grammars.append(grammar)
        reply = next(self._replies, None)
        if reply is None:
            raise ModelError("the script has no completion left")
        text = reply if isinstance(reply, str) else reply(turns)
        if cancel is not None and cancel.is_set():
            return Completion("", "cancelled", self.count(turns))
        for piece in re.findall(r".{1,8}", text, re.DOTALL):
            if on_text:
                on_text(piece)
        return Completion(text, "stop", self.count(turns), self._reused(turns, slot), self.count_text(text), 0.0)

    def _reused(self, turns: Sequence[Turn], slot: int) -> int:
        tokens = [token for turn in turns for part in turn.parts for token in _TOKEN.findall(part)]
        known, self._cache[slot] = self._cache.get(slot, []), tokens
        same = 0
        while same < min(len(tokens), len(known)) and tokens[same] == known[same]:
            same += 1
        return same


def fixed_clock(start: str = "2026-11-29T14:24:07+00:00", seconds: float = 1.0) -> Clock:
    """A clock that starts at a moment and goes on by so many seconds each time it is asked."""
    moment = datetime.fromisoformat(start).astimezone(UTC)
    ticks = iter(range(10**9))

    def clock() -> datetime:
        return moment + timedelta(seconds=seconds * next(ticks))

    return clock


def counting_ids(prefix: str = "id") -> IdSource:
    """An id source that counts: id0001, id0002, ..."""
    numbers = iter(range(1, 10**9))
    return lambda: f"{prefix}{next(numbers):04d}"


def make_vault(root: Path | str, files: dict[str, str] | None = None, **options: Any) -> Vault:
    """A small real vault: two blocks, short instructions, UTC, a fixed clock and counting ids.

    Args:
        root: the folder, new or empty.
        files: path -> text, added to those or instead of them.
        options: for `Vault`.
    """
    texts = {
        "memory.yaml": "zone: UTC\nwindow: 4096\n",
        "system.md": "Remember what the user says.\n",
        "core/persona.yaml": new_block("persona", "Who I am.", 500, "I am helpful."),
        "core/human.yaml": new_block("human", "What I know about the user.", 500),
        **(files or {}),
    }
    create_vault(Path(root), texts, clock=fixed_clock())  # a commit's id depends on its time
    return Vault(root, **{"clock": fixed_clock(), "new_id": counting_ids(), **options})
