"""What a person did to memory by hand since the agent's last turn, and how the model is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from memory_fs.change import AGENT, Change

if TYPE_CHECKING:
    from memory_fs.history import History

EDITED = "The user edited core memory by hand; it is right as it stands now:"
RECEIVED = "Receive a"  # how the commit begins that starts a turn
_FAR = 200  # changes that are looked back at
_SHOWN = 300  # characters of new lines that the model is shown


def edits(history: History) -> list[Change]:
    """The changes since the last turn began that are not the agent's own, oldest first."""
    changes = islice(history.log(), _FAR)
    found = [change for change in _until_turn(changes) if change.author != AGENT[0]]
    return [change for change in reversed(found) if history.parent(change.rev)]


def _until_turn(changes: Iterator[Change]) -> Iterator[Change]:
    for change in changes:
        if "Turn" in change.trailers and change.subject.startswith(RECEIVED):
            return
        yield change


def told(changes: list[Change]) -> str:
    """The event that the model gets, or '' where core memory was not edited.

    It counts the lines and shows the new ones. The old lines stay out: a small model would read them as true.
    """
    files = [(path, diff) for change in changes for path, diff in change.files if path.startswith("core/")]
    if not files:
        return ""
    counts = ", ".join(change.counts() for change in changes if any(path.startswith("core/") for path in change.paths))
    lines = [line[1:].strip() for _, diff in files for line in diff.split("\n")[2:] if line.startswith("+")]
    new = " ".join(filter(None, lines))[:_SHOWN]
    return f"{EDITED} {counts}" + (f"; new: {new}" if new else "")
