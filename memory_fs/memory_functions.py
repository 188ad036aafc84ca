"""The functions of the MemGPT paper (section 2.1, figure 3), three more for blocks and `read`, over the three tiers.

What each returns is what the model reads next. Texts from notes and messages are quoted line by line behind `> `, so
that nothing in them can look like a result of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from memory_fs.archival import Archival
from memory_fs.clash import Clash, clash
from memory_fs.core import Core
from memory_fs.errors import FunctionError
from memory_fs.events import Call
from memory_fs.functions import ON_DEMAND, FunctionTable
from memory_fs.recall import Recall
from memory_fs.records import Hit
from memory_fs.vault import Transaction

Label = Annotated[str, 60]
Query = Annotated[str, 120]
Date = Annotated[str, 10]
Reason = Annotated[str, 200, ON_DEMAND]  # for what is pinned
HIT_CHARS = 600  # of each hit, characters; the whole text stays in its file
PAPER = (
    "send_message",
    "core_memory_append",
    "core_memory_replace",
    "archival_memory_insert",
    "archival_memory_search",
    "conversation_search",
    "conversation_search_date",
)
WRITING = (
    "core_memory_append",
    "core_memory_replace",
    "archival_memory_insert",
    "memory_insert",
    "memory_rethink",
    "memory_create_block",
)
"""The functions that write to core or archival memory."""


@dataclass
class Memory:
    """What a function may touch: the three tiers, through one transaction.

    Attributes:
        source: where what is saved now comes from: session and turn.
        pages: what this call brought up, as `archival/k3f9x2`; the answer is worded from them.
        why: what brought them up: `search` or `read`.
        reply: what send_message was given.
        before: a search of the conversation finds what was said before this moment: not the question itself.
        clashes: whether an append is held against the lines of its block.
        both: what an append may say all the same: who calls was asked.
        ready, sure: the call that an append was answered with instead; whether nothing else is left to do.
    """

    core: Core
    archival: Archival
    recall: Recall
    transaction: Transaction
    page_size: int = 5
    source: dict[str, Any] = field(default_factory=dict)
    pages: list[str] = field(default_factory=list)
    why: str = "search"
    reply: str | None = None
    before: datetime | None = None
    clashes: bool = True
    both: str = ""
    ready: Call | None = None
    sure: bool = False


def send_message(memory: Memory, message: str) -> str:
    """Say something to the user. Ends your turn."""
    if not message.strip():
        raise FunctionError("message is empty; say something to the user")
    memory.reply = message
    return "sent"


def core_memory_append(memory: Memory, label: Label, content: str) -> str:
    """Save a new fact in core memory, as a new line of a block."""
    block = memory.core.block(label)
    asked = memory.clashes and not block.read_only and content != memory.both
    found = clash(block.lines, content) if asked else None
    if found:
        ways = {"label": label, "old_content": found.line, "new_content": content}
        if block.pinned:
            ways["reason"] = "the same words" if found.again else ""
        memory.ready, memory.sure = Call("core_memory_replace", ways, request_heartbeat=True), found.again
        raise FunctionError(_answered(found, memory.ready))
    return memory.core.append(memory.transaction, label, content)


def core_memory_replace(memory: Memory, label: Label, old_content: str, new_content: str, reason: Reason = "") -> str:
    """Correct a fact in core memory: the old line is replaced by the new one."""
    return memory.core.replace(memory.transaction, label, old_content, new_content, reason)


def archival_memory_insert(memory: Memory, content: str, tags: list[str] = []) -> str:  # noqa: B006 (never changed)
    """Save a longer text as a note in archival memory."""
    note_id = memory.archival.insert(memory.transaction, content, tags, memory.source)
    return f"saved as note {note_id}"


def archival_memory_search(memory: Memory, query: Query, page: int = 1) -> str:
    """Search the notes in archival memory."""
    found = memory.archival.search(query, page, memory.page_size)
    quoted = [_quote(_head(hit), hit.text) for hit in found.hits]
    memory.pages += [f"archival/{hit.id}" for hit in found.hits]
    return _listing(("note", f"for {query[:80]!r}"), found.page, found.pages, found.total, page, quoted)


def conversation_search(memory: Memory, query: Query, page: int = 1) -> str:
    """Search everything that was said earlier."""
    found = memory.recall.search(query, page, memory.page_size, memory.before)
    quoted = [_quote(f"[{hit.id}] {hit.date:%Y-%m-%d}", hit.text) for hit in found.hits]
    memory.pages += [f"recall/{hit.id}" for hit in found.hits]
    return _listing(("message", f"for {query[:80]!r}"), found.page, found.pages, found.total, page, quoted)


def conversation_search_date(memory: Memory, start_date: Date, end_date: Date, page: int = 1) -> str:
    """Read what was said on days from start_date to end_date (2026-11-29, today or yesterday)."""
    found = memory.recall.search_date(start_date, end_date, page, memory.page_size)
    quoted = [_quote(f"[{m.id}] {_minute(m.time)} {m.role}", m.content) for m in found.messages]
    what = ("message", f"from {found.start} to {found.end}")
    memory.pages += [f"recall/{message.id}" for message in found.messages]
    return _listing(what, found.page, found.pages, found.total, page, quoted)


def read(memory: Memory, id: Label) -> str:
    """Read one note or message by the id that stands in brackets where it was found or linked."""
    name = id.strip(" []")
    found = memory.archival.get(name) or memory.recall.spoken(name)
    if found is None:
        raise FunctionError(f"there is no note or message {name!r}; search for it with other words")
    memory.pages, memory.why = [f"{found.kind}/{found.id}"], "read"
    return _quote(_head(found), found.text)


def memory_insert(memory: Memory, label: Label, content: str, line: int = -1) -> str:
    """Put a text behind a line of a core memory block (0 is the start, -1 the end)."""
    return memory.core.insert(memory.transaction, label, content, line)


def memory_rethink(memory: Memory, label: Label, content: str, reason: Reason = "") -> str:
    """Rewrite a whole core memory block."""
    return memory.core.rethink(memory.transaction, label, content, reason)


def memory_create_block(memory: Memory, label: Label, description: str, content: str = "") -> str:
    """Make a new core memory block."""
    return memory.core.create(memory.transaction, label, description, content)


def default_table() -> FunctionTable:
    """A new table with the paper's seven functions, three for blocks, and `read`."""
    return FunctionTable(
        [
            send_message,
            core_memory_append,
            core_memory_replace,
            archival_memory_insert,
            archival_memory_search,
            conversation_search,
            conversation_search_date,
            memory_insert,
            memory_rethink,
            memory_create_block,
            read,
        ]
    )


def _listing(what: tuple[str, str], page: int, pages: int, total: int, asked: int, quoted: list[str]) -> str:
    kind, which = what
    if not total:
        return f"no {kind}s {which}"
    past = f" (there is no page {asked})" if asked != page else ""
    plural = "" if total == 1 else "s"
    return "\n".join([f"{total} {kind}{plural} {which}, page {page} of {pages}{past}:", *quoted])


def _quote(head: str, text: str) -> str:
    shown = text if len(text) <= HIT_CHARS else f"{text[:HIT_CHARS]} ... ({len(text)} characters in all)"
    return head + "".join(f"\n> {line}" for line in shown.splitlines() or [""])


def _head(hit: Hit) -> str:
    """Id, day, pin and citation of a record, on one line: a note's source is text from anywhere."""
    cited = f", {' '.join(hit.source.split())[:120]}" if hit.source else ""
    return f"[{hit.id}] {hit.date:%Y-%m-%d}{' (pinned)' if hit.pinned else ''}{cited}"


def _answered(found: Clash, ready: Call) -> str:
    """What an append is told that clashes with a line."""
    says = "says this already" if found.again else "has a line that may say the same or no longer hold"
    both = "" if found.again else "; if both are true, give both lines as new_content"
    both += "; give a reason, the block is pinned" if ready.arguments.get("reason") == "" else ""
    call = f"{ready.function} {json.dumps(ready.arguments, ensure_ascii=False)}"
    return f"nothing was appended: {ready.arguments['label']} {says}: {found.line}\nTo put it anew: {call}{both}"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
