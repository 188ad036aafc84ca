"""Pins: `priority: pinned` keeps a note in the working set, and stays in a block as a person wrote it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeAgent, changes_of, edit_by_hand, prompts_of, say, value_of
from hypothesis import given
from hypothesis import strategies as st
from shell import Shell

from memory_fs.formats.block import new_block, parse_block, replace_value
from memory_fs.formats.note import Note, parse_note, render_note
from memory_fs.formats.settings import QueueState
from memory_fs.llm import Turn
from memory_fs.prompt import SUMMARY
from memory_fs.records import Paging
from memory_fs.testing import ScriptedModel, call

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
    agent.search.sync()
    state = bring(state, range(1, 12), 20)
    assert "archival/n0" not in {frame.page for frame in state.frames}


# -- a pinned block is replaced with a reason alone -----------------------------------------------------------------

NAME = {"core/human.yaml": "label: human\npriority: pinned\nvalue: |\n  Name: Chad.\n  Allergic to nuts.\n"}
RENAMED = {"label": "human", "old_content": "Name: Chad.", "new_content": "Name: Eva."}
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("core_memory_replace", RENAMED),
    ("core_memory_replace", {**RENAMED, "new_content": ""}),
    ("memory_rethink", {"label": "human", "content": "Name: Eva."}),
]


@pytest.mark.parametrize(("function", "arguments"), WRITES)
@pytest.mark.parametrize("reason", [{}, {"reason": ""}, {"reason": " \n"}])
def test_pinned_line_is_not_replaced_without_a_reason(
    make_agent: MakeAgent, function: str, arguments: dict[str, Any], reason: dict[str, str]
) -> None:
    """Nothing is written, and the answer says which argument is missing."""
    agent = make_agent(files=NAME)
    result, change = agent.call(function, {**arguments, **reason})
    assert (result.ok, change, value_of(agent.vault)) == (False, None, "Name: Chad.\nAllergic to nuts.")
    assert "pinned" in result.text and "reason" in result.text


@pytest.mark.parametrize(("function", "arguments"), WRITES)
def test_the_reason_stays_with_the_change(make_agent: MakeAgent, function: str, arguments: dict[str, Any]) -> None:
    """It is a trailer of the commit, on one line whatever it holds."""
    agent = make_agent(files=NAME)
    result, change = agent.call(function, {**arguments, "reason": "She married.\nSession: forged"})
    assert result.ok and "Name: Chad." not in value_of(agent.vault)
    assert change and change.trailers["Reason"] == "She married. Session: forged"
    assert changes_of(agent.vault, "core/human.yaml")[0].trailers["Session"] == agent.session


def test_other_blocks_and_additions_ask_for_no_reason(make_agent: MakeAgent) -> None:
    """What is added leaves what is pinned; and a replace that changes nothing replaces nothing."""
    agent = make_agent(files=NAME)
    persona = {"label": "persona", "old_content": "I am helpful.", "new_content": "I am brief."}
    same = {"label": "human", "old_content": "Name: Chad.", "new_content": "Name: Chad."}
    assert agent.call("core_memory_append", {"label": "human", "content": "Likes tea."})[0].ok
    assert agent.call("core_memory_replace", persona)[0].ok and agent.call("core_memory_replace", same)[0].ok


def test_the_model_is_asked_for_a_reason_where_a_block_is_pinned(make_agent: MakeAgent) -> None:
    """The grammar of a pinned line ends with the reason; of another line, and in the prompt, there is none."""
    with_reason = {**RENAMED, "reason": "The user said so."}
    saved = call("core_memory_replace", missing="correcting a line", **with_reason)
    agent = make_agent([saved, say("Hello Eva.")], files=NAME)
    first, _ = agent.run("I am called Eva, I never was Chad.")
    assert first.result.ok and first.changes[-1].trailers["Reason"] == "The user said so."
    first_grammar = agent.model.grammars[0]  # type: ignore[attr-defined]
    (rule,) = [line for line in first_grammar.splitlines() if line.startswith("args") and "Name: Chad." in line]
    schema = json.loads(rule.partition("%json ")[2])
    assert list(schema["properties"]) == schema["required"] == ["label", "old_content", "new_content", "reason"]
    assert "reason)" not in prompts_of(agent)[0] and "(29/2000 characters, pinned)" in prompts_of(agent)[0]
    plain = make_agent([say("Hi.")] * 4, files={"core/human.yaml": "label: human\nvalue: |\n  Name: Chad.\n"})
    plain.send("I am called Eva, I never was Chad.")
    assert "Name: Chad." in plain.model.grammars[0] and "reason" not in plain.model.grammars[0]  # type: ignore[attr-defined]


def test_an_append_that_clashes_with_a_pinned_line_needs_a_reason_to_replace_it(make_agent: MakeAgent) -> None:
    """The ready call has a place for the reason; the same words need none, and both lines may be kept."""
    again, eva = {"label": "human", "content": "name: Chad"}, {"label": "human", "content": "Name: Eva."}
    agent = make_agent(files=NAME)
    text = agent.call("core_memory_append", eva)[0].text
    ready = json.loads(text[text.index("{") : text.index("}") + 1])
    assert ready == {**RENAMED, "reason": ""} and "give a reason" in text
    assert not agent.call("core_memory_replace", ready)[0].ok
    text = agent.call("core_memory_append", again)[0].text
    assert agent.call("core_memory_replace", json.loads(text[text.index("{") : text.index("}") + 1]))[0].ok
    assert value_of(agent.vault) == "name: Chad\nAllergic to nuts."


# -- where a pin is seen, and that it stays -------------------------------------------------------------------------

BOILER = {"archival/boiler.md": "---\nid: k3f9x2\npriority: pinned\n---\nThe boiler BX-2291: at most 60 degrees.\n"}
BOILER |= {"archival/tank.md": "---\nid: p7a2c4\nsource: '(pinned)'\n---\nThe tank beside the boiler is new.\n"}


def test_results_say_what_is_pinned(make_agent: MakeAgent) -> None:
    """A search and a read show the pin behind the day, where no text of a note can stand."""
    agent = make_agent(files=BOILER)
    heads = [
        line
        for name, arguments in (("archival_memory_search", {"query": "boiler"}), ("read", {"id": "k3f9x2"}))
        for line in agent.call(name, arguments)[0].text.splitlines()
        if line.startswith("[")
    ]
    assert [head.partition("] ")[0] for head in heads if head[19:].startswith(" (pinned)")] == ["[k3f9x2", "[k3f9x2"]
    hits = agent.archival.search("boiler")
    assert {hit.id: hit.pinned for hit in hits.hits} == {"k3f9x2": True, "p7a2c4": False}
    assert ", pinned, archival/boiler.md" in hits._repr_markdown_()


def test_the_shell_says_what_is_pinned(tmp_path: Path) -> None:
    """In the list as in JSON, and `show` gives the reason of a change."""
    shell = Shell(tmp_path)
    shell.here("init", str(shell.vault))
    for path, text in {**NAME, **BOILER}.items():
        (shell.vault / path).write_text(text, encoding="utf-8")
    assert ", pinned, archival/boiler.md" in shell.here("search", "archival", "degrees").out
    found = shell.here("search", "archival", "boiler", "--json").json["hits"]
    assert {hit["id"]: hit.get("pinned", False) for hit in found} == {"k3f9x2": True, "p7a2c4": False}
    shell.here("log")  # takes the edits into history
    shell.call("core_memory_replace", **RENAMED, reason="She married.")
    assert "\nreason: She married.\n" in shell.here("show", "HEAD").out


def test_a_flush_leaves_what_is_pinned(make_agent: MakeAgent) -> None:
    """Messages leave and are summed up; the pinned block is in the prompt as it was, the note in the working set."""
    filler = "Is porridge with plums and pears a fine breakfast on a cold grey morning? " * 3

    def reply(turns: Sequence[Turn]) -> str:
        if turns[0].content.startswith(SUMMARY):
            return "They spoke of breakfast."
        answer = say("At most 60.")
        return answer if isinstance(answer, str) else answer(turns)

    agent = make_agent(files=NAME | BOILER, window=1024)
    agent.model = ScriptedModel(iter(lambda: reply, None), window=1024)
    agent.send("How warm may the boiler BX-2291 get, in degrees?")
    while agent.queue.state().evicted == 0 or len(changes_of(agent.vault)) < 30:
        agent.send(filler)
    assert "archival/k3f9x2" in {frame.page for frame in agent.queue.state().frames}
    assert "Name: Chad.\nAllergic to nuts." in agent.prompt().text
