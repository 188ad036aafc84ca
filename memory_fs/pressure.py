"""Memory pressure: how full the window is, the alert, the flush (paper, section 2.2).

100 % is the window less the reply reserve, counted on the whole compiled prompt in the model's own tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from memory_fs.change import Change
from memory_fs.core import Core
from memory_fs.errors import PromptTooLong
from memory_fs.events import Message
from memory_fs.formats.settings import QueueState
from memory_fs.llm import Model
from memory_fs.prompt import Prompt
from memory_fs.queue_manager import ALERT, ALERT_READ_ONLY, QueueManager
from memory_fs.steps import Pass, Turn
from memory_fs.vault import Transaction, Vault
from memory_fs.write_back import WriteBack
from memory_fs.writer import Writer

LEAST = 64  # tokens that must be left for a message


class MemoryPressure:
    """Keeps the prompt within the window."""

    def __init__(
        self,
        vault: Vault,
        model: Model,
        queue: QueueManager,
        writer: Writer,
        write_back: WriteBack,
        compiled: Callable[[QueueState], Prompt],
        read_only: bool,
    ) -> None:
        """Make it.

        Args:
            vault, model, queue, writer, write_back: the agent's.
            compiled: the prompt for a state of the queue.
            read_only: whether nothing can be saved, so that it makes no sense to ask for it.
        """
        self._read_only = read_only
        self._write_back = write_back
        self._vault = vault
        self._model = model
        self._queue = queue
        self._writer = writer
        self._compiled = compiled
        self.preview = vault.settings.window // 2  # characters shown of a longer message

    @property
    def window(self) -> int:
        """The context window in use, tokens."""
        return min(self._vault.settings.window, self._model.window)

    def capacity(self) -> int:
        """100 %: tokens of the window less those reserved for the reply."""
        return self.window - self._vault.settings.reply_reserve

    def measure(self, state: QueueState) -> int:
        """Tokens of the whole prompt for a state of the queue."""
        return self._model.count(self._compiled(state).turns)

    def _summary_budget(self) -> int:
        """The longest summary, tokens: it leaves three quarters of what can be used at all to the messages."""
        room = self.capacity() - self.measure(QueueState())
        return max(0, min(self._vault.settings.summary_tokens, room // 4))

    def check_room(self, core: Core) -> None:
        """Make sure that a message fits beside what can never be evicted.

        Raises:
            PromptTooLong: it does not; names the sizes and the file to shorten.
        """
        bare = self.measure(QueueState())
        if bare + LEAST <= self.capacity():
            return
        sizes = {"system.md": len(self._vault.read("system.md") or "")}
        sizes |= {f"core/{block.label}.yaml": block.used for block in core.blocks()}
        largest = max(sizes, key=lambda name: sizes[name])
        raise PromptTooLong(
            f"system instructions and core memory take {bare} of {self.capacity()} tokens; "
            f"shorten {largest} ({sizes[largest]} characters) or raise `window` in memory.yaml",
            path=self._vault.root / largest,
        )

    def relieve(self, turn: Turn) -> tuple[list[Pass], list[Change]]:
        """Alert the model once a period above the warning share; flush above the whole.

        Returns:
            The passes and the changes that this took.
        """
        capacity, settings = self.capacity(), self._vault.settings
        self.preview = capacity // 2
        state = self._queue.state()
        used = self.measure(state)
        if used > capacity:
            done = self._flush(turn, state, int(capacity * settings.flush_to))
            while self.preview > LEAST and self.measure(self._queue.state()) > capacity:
                self.preview //= 2  # one message alone is too long: its beginning has to do, the whole is in recall
            return done
        if used > capacity * settings.pressure and not state.alerted:
            return [], self._alert(turn)
        return [], []

    def _alert(self, turn: Turn) -> list[Change]:
        turn.warned = not self._read_only
        alert = ALERT_READ_ONLY if self._read_only else ALERT

        def work(transaction: Transaction) -> None:
            now = replace(self._queue.state(), alerted=True)
            self._queue.push(transaction, now, [turn.message(self._vault, "system", alert)])

        _, change = self._vault.transact(work, "Alert: memory pressure", trailers=turn.trailers())
        return [change] if change else []

    def _flush(self, turn: Turn, state: QueueState, target: int) -> tuple[list[Pass], list[Change]]:
        passes: list[Pass] = []

        def summarise(summary: str, evicted: Sequence[Message]) -> str:
            text, done = self._writer.summary(summary, evicted, self._summary_budget())
            passes.extend([done] if done else [])
            return text

        new, evicted = self._queue.flush(state, self.measure, target, summarise)
        if not evicted:  # the newest event may stand beside a summary that was made when there was more room
            new = replace(state, summary=summarise(state.summary, ()))
        if not evicted and new.summary == state.summary:
            return passes, []
        gone, left_behind = {message.ref for message in evicted}, self._write_back.unsaved(evicted)

        def work(transaction: Transaction) -> None:
            now = self._queue.state()
            # A person may have edited queue.yaml while the summary was being written: the edit stays.
            summary = new.summary if now.summary == state.summary else now.summary
            left = tuple(ref for ref in now.messages if ref not in gone)
            self._queue.save(transaction, replace(new, summary=summary, messages=left))
            if left_behind:
                self._write_back.keep(transaction, left_behind, {"session": turn.session, "turn": turn.number})

        what = f"{len(evicted)} messages leave the context" if evicted else "the summary is cut"
        subject = f"Flush: {what}"
        _, change = self._vault.transact(work, subject, trailers=turn.trailers())
        return passes, [change] if change else []
