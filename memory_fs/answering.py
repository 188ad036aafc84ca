"""Wording the answer: the model's draft, held against memory, and taken back while memory holds what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from memory_fs import edits, policy
from memory_fs.core import Core
from memory_fs.draft import Draft
from memory_fs.events import Message
from memory_fs.evidence import codes
from memory_fs.formats.settings import QueueState
from memory_fs.llm import Flag
from memory_fs.onward import denies, onward
from memory_fs.pager import Pager
from memory_fs.queue_manager import QueueManager
from memory_fs.steps import Pass, Turn
from memory_fs.vault import Vault
from memory_fs.writer import TAIL, Writer


@dataclass(frozen=True)
class Ask:
    """One question to the model: the person's, or where the answer to it goes on.

    Attributes:
        only: the page that the answer starts from; all pages where it is empty.
        exact: whether it names a code, and so what holds it.
    """

    question: str
    only: str = ""
    exact: bool = False


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
        said, shown, ask = "", "", Ask(turn.event.text, exact=bool(codes(turn.said)))
        while True:
            draft = Draft(on_text, self._cancel, self._check(turn, ask) if looks else None, shown)
            known = len(turn.paging.pages)
            text = self._draft(turn, window, ask, draft, passes)
            if draft.stopped:  # memory holds what it lacks; or all is there and it does not see it: ask otherwise
                looks, shown = looks - 1, draft.shown
                ask = ask if len(turn.paging.pages) > known else replace(ask, exact=False)
                continue
            said = f"{said} {text}".strip()
            more = onward(turn.paging, self._pager.hit, ask.question, text) if looks else None
            if more is None:
                self._pager.answered(turn.paging, said)
                return said
            looks, shown, ask = looks - 1, "", Ask(more.question, more.page, exact=True)
            if on_text:
                on_text(" ")

    def _check(self, turn: Turn, ask: Ask) -> Callable[[str, list[str], str], bool]:
        def lacks(sentence: str, unsure: list[str], source: str) -> bool:
            empty = ask.exact and not ask.only and denies(turn.paging, self._pager.hit, ask.question, sentence)
            return self._pager.check(turn.paging, sentence, source, unsure) or empty

        return lacks

    def _draft(self, turn: Turn, window: int, ask: Ask, draft: Draft, passes: list[Pass]) -> str:
        summary, before = self._talk(turn, self._queue.state())
        text, done = self._writer.message(
            self._core.blocks(),
            summary,
            before,
            self.evidence(turn, window, ask.only),
            ask.question,
            ask.exact,
            self._vault.settings.reply_reserve,
            draft,
        )
        passes.append(done)
        return text

    def evidence(self, turn: Turn, window: int, only: str = "") -> list[str]:
        """What a turn brought up that is in the working set: texts of a person's functions, then of pages.

        Args:
            turn, window: as for `word`.
            only: the page from which an answer goes on: what led there is left out.
        """
        held = self._pager.hold(self._queue.state(), turn.paging, window)
        return [*turn.evidence, *self._pager.texts(held, turn.paging, only)]

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
