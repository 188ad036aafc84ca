"""Wording the answer: the model's draft, held against memory, and taken back while memory holds what it lacks."""

from __future__ import annotations

from collections.abc import Callable

from memory_fs import edits, policy
from memory_fs.core import Core
from memory_fs.draft import Draft
from memory_fs.events import Message
from memory_fs.formats.settings import QueueState
from memory_fs.llm import Flag
from memory_fs.pager import Pager
from memory_fs.queue_manager import QueueManager
from memory_fs.steps import Pass, Turn
from memory_fs.vault import Vault
from memory_fs.writer import TAIL, Writer


class Answering:
    """Words the answers of one agent."""

    def __init__(
        self, vault: Vault, core: Core, queue: QueueManager, pager: Pager, writer: Writer, cancel: Flag
    ) -> None:
        """Args: vault, core, queue, pager, writer: the agent's; cancel: ends a completion when set."""
        self._vault, self._core, self._queue = vault, core, queue
        self._pager, self._writer, self._cancel = pager, writer, cancel

    def page_in(self, turn: Turn) -> bool:
        """Page in what memory holds for a message that asks; returns whether it holds anything."""
        if not policy.asks(turn.said) or not self._vault.settings.has("faults"):
            return False
        _, before = self._talk(turn, self._queue.state())
        seen = [block.value for block in self._core.blocks()] + [message.content for message in before[-TAIL:]]
        return self._pager.demand(turn.paging, turn.said, "\n".join(seen))

    def word(self, turn: Turn, window: int, on_text: Callable[[str], None] | None, passes: list[Pass]) -> str:
        """The message that answers a turn; every draft is a pass.

        Args:
            turn: what is answered.
            window: tokens; a share of it is the working set.
            on_text: called with each sentence that is going to stay.
            passes: the step's; those of the wording are added.
        """
        settings = self._vault.settings
        looks = settings.max_faults if settings.has("faults") and policy.asks(turn.said) else 0
        shown = ""
        while True:
            draft = Draft(on_text, self._cancel, self._check(turn) if looks else None, shown)
            text = self._draft(turn, window, draft, passes)
            if not draft.stopped:
                self._pager.answered(turn.paging, text)
                return text
            looks, shown = looks - 1, draft.shown

    def _check(self, turn: Turn) -> Callable[[str, list[str], str], bool]:
        return lambda sentence, unsure, source: self._pager.check(turn.paging, sentence, source, unsure)

    def _draft(self, turn: Turn, window: int, draft: Draft, passes: list[Pass]) -> str:
        summary, before = self._talk(turn, self._queue.state())
        text, done = self._writer.message(
            self._core.blocks(),
            summary,
            before,
            self.evidence(turn, window),
            turn.event.text,
            self._vault.settings.reply_reserve,
            draft,
        )
        passes.append(done)
        return text

    def evidence(self, turn: Turn, window: int) -> list[str]:
        """What a turn brought up that is in the working set: texts of a person's functions, then of pages."""
        held = self._pager.hold(self._queue.state(), turn.paging, window)
        return [*turn.evidence, *self._pager.texts(held, turn.paging)]

    def _talk(self, turn: Turn, state: QueueState) -> tuple[str, list[Message]]:
        """The summary and the talk before the turn's event.

        What was said before a person corrected memory by hand may contradict it: it stays out of the wording.
        """
        messages = self._queue.messages(state)
        asked = next((n for n in range(len(messages) - 1, -1, -1) if messages[n].role == turn.event.kind), 0)
        edited = [
            n for n, m in enumerate(messages[:asked]) if m.role == "system" and m.content.startswith(edits.EDITED)
        ]
        since = edited[-1] + 1 if edited else 0
        return "" if since else state.summary, messages[since:asked]
