"""The words that every layer shares: messages, events, calls and their results. No logic."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Clock = Callable[[], datetime]  # aware; the vault turns it into its own zone
IdSource = Callable[[], str]  # short, never the same twice
_LETTERS = "23456789abcdefghijkmnpqrstuvwxyz"

MessageRole = Literal["user", "assistant", "call", "result", "system"]
"""Who a message in recall is from: the person, the agent's words to the person, a function call, what the function
returned, and the program's own alerts."""


@dataclass(frozen=True)
class Message:
    """One entry of recall memory, and of the queue.

    Attributes:
        id: short, stable, unique in its vault.
        time: aware, in the vault's zone, whole seconds.
        content: any text without NUL and lone surrogates.
    """

    id: str
    time: datetime
    role: MessageRole
    content: str
    session: str = ""
    turn: int = 0

    @property
    def ref(self) -> str:
        """`2026-11-29/k3f9x2`: the day file and the id, which is how the queue names a message."""
        return f"{self.time:%Y-%m-%d}/{self.id}"


@dataclass(frozen=True)
class Event:
    """What wakes the agent: a message of the person, or an interrupt of the program (MemGPT paper, section 2.3)."""

    text: str
    kind: Literal["user", "system"] = "user"


@dataclass(frozen=True)
class Call:
    """A function call as the model proposed it.

    Attributes:
        function: its name.
        arguments: parsed JSON, not yet checked.
        known, missing: the two fields of the model's thought.
        request_heartbeat: the paper's flag; counts only where the vault says `heartbeat: requested`.
    """

    function: str
    arguments: dict[str, Any] = field(default_factory=dict)
    known: str = ""
    missing: str = ""
    request_heartbeat: bool = False


@dataclass(frozen=True)
class Result:
    """What a call came to.

    Attributes:
        ok: whether it was done.
        text: what the model reads next.
        ready: where it was answered with another call, that call.
        sure: whether that call is all that is left to do, and no choice.
    """

    ok: bool
    text: str
    ready: Call | None = None
    sure: bool = False


def clean(text: str) -> str:
    """Text that every file can hold: NUL and lone surrogates become U+FFFD, all else stays."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def system_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


def random_id() -> str:
    """Eight letters and digits, none of them easily misread."""
    return "".join(secrets.choice(_LETTERS) for _ in range(8))
