"""The queue manager (paper, section 2.2): which messages are in context, and what happens when they no longer fit.

At the warning share of the window the model is alerted, once a period. When the prompt is full the oldest messages
leave the context, down to the flush share, and their gist goes into the recursive summary. They stay in recall, word
for word. It knows message lengths through a measure that it is given, and the words of a summary through another.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from memory_fs.errors import FormatError
from memory_fs.events import Message
from memory_fs.formats.settings import QueueState, parse_queue, render_queue
from memory_fs.recall import Recall
from memory_fs.vault import Transaction, Vault, decode

PATH = "queue.yaml"
_FULL = "Memory pressure: the context window is nearly full and the oldest messages will soon leave it. "
ALERT = _FULL + "Save what must not be forgotten now, with core_memory_append or archival_memory_insert."
ALERT_READ_ONLY = _FULL + "They stay in recall memory, where conversation_search finds them."
Measure = Callable[[QueueState], int]
Summarise = Callable[[str, Sequence[Message]], str]


class QueueManager:
    """The queue of one vault."""

    def __init__(self, vault: Vault, recall: Recall) -> None:
        """Args: vault, recall: where queue.yaml and the messages are."""
        self._vault = vault
        self._recall = recall
        self._known: tuple[bytes, QueueState] | None = None  # the file's bytes, and what they say
        self.trouble = ""

    def state(self) -> QueueState:
        """What queue.yaml says now; while it cannot be read, the last good state, and `trouble` says why.

        A person may have emptied or deleted the file: then nothing is in context, and all is still in recall.
        """
        data = self._vault.disk.read(PATH) or b""
        if self._known is None or self._known[0] != data:
            try:
                self._known, self.trouble = (data, _parse(data)), ""
            except FormatError as error:
                self._known, self.trouble = (data, self._last_good()), str(error)
        return self._known[1]

    def _last_good(self) -> QueueState:
        """The newest state of history that can be read."""
        for change in self._vault.history.log(PATH):
            with contextlib.suppress(FormatError):
                return _parse(self._vault.history.read(PATH, change.rev) or b"")
        return QueueState()

    def messages(self, state: QueueState) -> list[Message]:
        """The messages in context, oldest first; references to messages that are gone are passed over."""
        found = (self._recall.get(ref) for ref in state.messages)
        return [message for message in found if message is not None]

    def push(self, transaction: Transaction, state: QueueState, messages: Sequence[Message]) -> QueueState:
        """Write messages to recall and put them at the end of the queue."""
        self._recall.append(transaction, messages)
        return self.save(transaction, replace(state, messages=state.messages + tuple(m.ref for m in messages)))

    def drop(self, transaction: Transaction, state: QueueState, messages: Sequence[Message]) -> QueueState:
        """Take messages out of context without a trace in the summary; recall keeps them."""
        gone = {message.ref for message in messages}
        return self.save(transaction, replace(state, messages=tuple(r for r in state.messages if r not in gone)))

    def save(self, transaction: Transaction, state: QueueState) -> QueueState:
        """Stage queue.yaml.

        A file that a person broke is theirs to mend: it stays, and the state is kept in this program alone.
        """
        try:
            parse_queue(transaction.read(PATH) or "", PATH)
        except FormatError:
            self._known = (self._vault.disk.read(PATH) or b"", state)
        else:
            transaction.write(PATH, render_queue(state))
        return state

    def flush(
        self, state: QueueState, measure: Measure, target: int, summarise: Summarise
    ) -> tuple[QueueState, list[Message]]:
        """Evict the oldest messages until the prompt fits the target.

        The newest event stays, nothing of what stays is a function's result without its call, and where anything can go
        something goes.

        Args:
            state: the queue as it is.
            measure: the tokens of the whole prompt for a queue state.
            target: tokens to come down to.
            summarise: (old summary, evicted messages) -> new summary.

        Returns:
            The new state and the evicted messages; the same state and none when nothing can go.
        """
        messages = self.messages(state)
        parts = _evictable(messages)
        if not parts:
            return state, []
        evicted = next((part for part in parts if measure(_without(state, messages, part)) <= target), parts[-1])
        summary = summarise(state.summary, evicted).strip()
        return replace(_without(state, messages, evicted), summary=summary, alerted=False), evicted


def _parse(data: bytes) -> QueueState:
    return parse_queue(decode(data, PATH), PATH)


def _without(state: QueueState, messages: Sequence[Message], evicted: Sequence[Message]) -> QueueState:
    refs = tuple(message.ref for message in messages if message not in evicted)
    return replace(state, messages=refs, evicted=state.evicted + len(evicted))


def _evictable(messages: list[Message]) -> list[list[Message]]:
    """What may go, the least first: the oldest messages, never a call without its result, never the newest event.

    An alert is none: it comes in the middle of a turn, and what the turn is about has to stay.
    """
    events = [
        n for n, m in enumerate(messages) if m.role in ("user", "system") and m.content not in (ALERT, ALERT_READ_ONLY)
    ]
    last = events[-1] if events else len(messages)
    older = [messages[:n] for n in range(1, last + 1) if n == len(messages) or messages[n].role != "result"]
    if older or not events:
        return older
    # One event alone fills the window with its own calls: the oldest of those go.
    return [messages[1:n] for n in range(2, len(messages)) if messages[n].role != "result"]
