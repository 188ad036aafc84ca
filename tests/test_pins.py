"""Pins: `priority: pinned` keeps a note in the working set, and stays in a block as a person wrote it."""

from __future__ import annotations

from conftest import MakeAgent, edit_by_hand
from hypothesis import given
from hypothesis import strategies as st

from memory_fs.formats.block import new_block, parse_block, replace_value
from memory_fs.formats.note import Note, parse_note, render_note
from memory_fs.formats.settings import QueueState
from memory_fs.records import Paging

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60)


@given(TEXTS, st.booleans())
def test_note_keeps_its_pin(text: str, pinned: bool) -> None:
    """A note that is written and read again is pinned as it was; the text may say what it likes."""
    note = Note("k3f9x2", text, pinned=pinned)
    assert parse_note(render_note(note), "archival/x.md").pinned == pinned


@given(TEXTS)
def test_block_keeps_its_pin_byte_for_byte(value: str) -> None:
    """A new value leaves `priority:` and every other key as a person wrote them."""
    text = new_block("human", "About.").replace("read_only", "priority: pinned   # mine\nmood: 'x'\nread_only")
    written = replace_value(text, value)
    assert parse_block(written, "human").pinned and not parse_block(new_block("human", "About."), "human").pinned
    assert "priority: pinned   # mine\nmood: 'x'\n" in written


def test_pinned_note_stays_in_the_working_set(make_agent: MakeAgent) -> None:
    """However many other notes come in, a pinned one stays; unpinned by hand it can go."""
    files = {}
    for number in range(12):
        pin = "priority: pinned\n" if number == 0 else ""
        files[f"archival/n{number}.md"] = f"---\nid: n{number}\n{pin}---\nNumber {number}. {'word ' * 150}\n"
    agent, state = make_agent(files=files), QueueState()
    agent.search.sync()

    def bring(state: QueueState, numbers: range, turn: int) -> QueueState:
        for number in numbers:
            paging = Paging(turn + number)
            agent.pager.searched(paging, [f"archival/n{number}"])
            state = agent.pager.keep(state, paging, 4096)
        return state

    state = bring(state, range(12), 1)
    assert "archival/n0" in {frame.page for frame in state.frames}
    assert agent.pager.counters.evictions > 0
    edit_by_hand(agent.vault, "archival/n0.md", files["archival/n0.md"].replace("priority: pinned\n", ""))
    state = bring(state, range(1, 12), 20)
    assert "archival/n0" not in {frame.page for frame in state.frames}
