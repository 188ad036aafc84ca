"""Write-back: what the user said of themselves and nobody saved, before it leaves the context.

The model is asked once, by the memory-pressure alert. What it ignores is saved by rule, in the user's own words with
the ids of the messages, so that nothing depends on its diligence and nothing is saved that was not said. Words of a
model are not needed for it: an extraction by the default model would have to be checked against these same sentences.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory_fs import policy
from memory_fs.archival import Archival
from memory_fs.core import Core
from memory_fs.errors import FunctionError
from memory_fs.events import Message
from memory_fs.pager import Counters
from memory_fs.vault import Transaction

TITLE = "What the user said"


class WriteBack:
    """Write-back into one vault."""

    def __init__(self, core: Core, archival: Archival, counters: Counters, on: Callable[[], bool]) -> None:
        """Args: core, archival: what is saved, and where to; counters; on: whether anything may be written."""
        self._core, self._archival, self._counters, self._on = core, archival, counters, on

    def unsaved(self, evicted: Sequence[Message]) -> list[tuple[Message, str]]:
        """The sentences in which the user told something of themselves that neither core memory nor a note holds.

        Of a long message none: it is a document, whole in recall.

        Args:
            evicted: the messages that leave the context.
        """
        spoken = [m for m in evicted if m.role == "user" and len(m.content) < policy.LONG] if self._on() else []
        pairs = [(message, said) for message in spoken for said in policy.sentences(message.content)]
        return [(message, said) for message, said in pairs if self._is_new(said)]

    def _is_new(self, said: str) -> bool:
        if policy.asks(said) or not policy.tells(said) or not policy.topic(said):
            return False
        saved = [block.value for block in self._core.blocks()]
        saved += [hit.text for hit in self._archival.search(said, size=3).hits]
        return policy.is_news(said, "\n".join(saved))

    def keep(self, transaction: Transaction, found: Sequence[tuple[Message, str]], source: Mapping[str, Any]) -> None:
        """Save such sentences as one note.

        Args:
            transaction: the flush.
            found: from `unsaved`, at least one.
            source: where the note comes from: session and turn.
        """
        lines = "\n".join(dict.fromkeys(f"{message.time:%Y-%m-%d} user: {said}" for message, said in found))
        refs = ", ".join(dict.fromkeys(message.ref for message, _ in found))
        with contextlib.suppress(FunctionError):  # a note says exactly this already
            self._archival.insert(transaction, lines, ["written-back"], {**source, "messages": refs}, TITLE)
            self._counters.write_backs += len(found)
