"""The page table: every block, note, message and the summary, whether it is in context, and where it comes from.

A view for people, made from the files, the queue and the history; nothing is kept in it. In context are core memory,
the summary and the messages of the queue; pages of the working set join them in the turns that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from memory_fs.agent import Agent
from memory_fs.change import Change
from memory_fs.formats.day import day_path
from memory_fs.formats.settings import Frame, QueueState
from memory_fs.prompt import core_text
from memory_fs.records import Hit, hit
from memory_fs.vouch import by_model, confirmed

FAR = 2000  # changes that are looked back at for who wrote a file
TRUST = {"person": "high", "agent": "low", "file": "low"}  # by provenance; the user's own words count as the person's


@dataclass(frozen=True)
class Entry:
    """One page.

    Attributes:
        page: `core/human`, `archival/k3f9x2`, `recall/k3f9x2` or `summary`.
        path: the file it stands in.
        where: `in context`, `working set` (kept at hand, in the prompt of the turn that needs it) or `on disk`.
        tokens: as the model counts the text.
        provenance: `person`, `agent` or `file` (a note whose source names one).
        trust: `high` for what a person wrote or said, `low` for what the model wrote or a file said.
        turn: the last turn that used it, 0 when none is known.
        referenced: the mark of the CLOCK rule.
        dirty: the model wrote it last, and nobody else has said since what it wrote (`memory_fs.vouch`).
        pinned: whether it never leaves.
    """

    page: str
    path: str
    where: str
    tokens: int
    provenance: str
    trust: str
    turn: int = 0
    referenced: bool = False
    dirty: bool = False
    pinned: bool = False


def page_table(agent: Agent, count: Callable[[str], int], on_disk: int = 0) -> list[Entry]:
    """The pages in context, then so many of those on disk, the newest first.

    Args:
        agent: whose memory it is.
        count: the tokens of a text.
        on_disk: how many of the notes and messages out of context are wanted at most.
    """
    agent.vault.look()  # what a person has just saved is theirs
    state = agent.queue.state()
    held = {frame.page: frame for frame in state.frames}
    queued = {f"recall/{ref.partition('/')[2]}" for ref in state.messages}
    hits = [found for page in held if (found := agent.pager.hit(page))]
    hits += list(islice(_others(agent, {*held, *queued}), on_disk))
    paths = [f"core/{block.label}.yaml" for block in agent.core.blocks()] + [one.path for one in hits]
    wrote = _last_changes(agent, paths)
    blocks = _blocks(agent, state, count, wrote)
    return [
        *blocks,
        *_messages(agent, state, count),
        *(_entry(agent, hit, held, count, wrote) for hit in hits),
    ]


def _others(agent: Agent, but: set[str]) -> Iterator[Hit]:
    """Notes, then messages, that are not in context: the last by path first, which is the newest."""
    files = agent.vault.files()
    for kind in ("archival", "recall"):
        for path in sorted((path for path in files if path.startswith(f"{kind}/")), reverse=True):
            found = (hit(document, 0.0) for document in reversed(agent.search.load(path)))
            yield from (one for one in found if f"{kind}/{one.id}" not in but)


def _last_changes(agent: Agent, paths: Iterable[str]) -> dict[str, Change]:
    """The newest change of each file; of files that were not touched for long, none."""
    wanted = set(paths)
    found: dict[str, Change] = {}
    for change in islice(agent.vault.history.log_of(wanted), FAR):
        found |= {path: change for path in change.paths if path in wanted and path not in found}
        if len(found) == len(wanted):
            break
    return found


def _writer(change: Change | None) -> str:
    return "agent" if by_model(change) else "person"


def _blocks(agent: Agent, state: QueueState, count: Callable[[str], int], wrote: dict[str, Change]) -> Iterator[Entry]:
    for block in agent.core.blocks():
        path = f"core/{block.label}.yaml"
        by = _writer(wrote.get(path))
        size = count(core_text([block]))
        dirty = by == "agent" and not confirmed(agent.search, path, block.value)
        yield Entry(f"core/{block.label}", path, "in context", size, by, TRUST[by], 0, True, dirty, block.pinned)
    if state.summary:
        yield Entry("summary", "queue.yaml", "in context", count(state.summary), "agent", "low", state.turn, True)


def _messages(agent: Agent, state: QueueState, count: Callable[[str], int]) -> Iterator[Entry]:
    for message in agent.queue.messages(state):
        by = "person" if message.role == "user" else "agent"
        size, path = count(message.content), day_path(message.time.date())
        yield Entry(f"recall/{message.id}", path, "in context", size, by, TRUST[by], message.turn, True)


def _entry(
    agent: Agent, one: Hit, held: dict[str, Frame], count: Callable[[str], int], wrote: dict[str, Change]
) -> Entry:
    page = f"{one.kind}/{one.id}"
    frame = held.get(page)
    by = _writer(wrote.get(one.path)) if one.kind == "archival" else "person"
    by = "file" if by == "person" and one.source else by
    dirty = by == "agent" and not confirmed(agent.search, one.path, one.text)
    where = "working set" if frame else "on disk"
    turn, marked = (frame.turn, frame.referenced) if frame else (0, False)
    return Entry(page, one.path, where, count(one.text), by, TRUST[by], turn, marked, dirty, one.pinned)
