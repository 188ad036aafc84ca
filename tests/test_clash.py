"""An append that repeats a line of its block or gives it another value is answered with that line, and decided once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import MakeAgent, block, prompts_of, say, value_of
from hypothesis import given
from hypothesis import strategies as st

from memory_fs.agent import Agent, reply_of
from memory_fs.clash import Clash, clash
from memory_fs.testing import call

LINES = "Name: Chad.\nLives in Lisbon.\nHas a dog called Biscuit."
OFF = {"memory.yaml": "zone: UTC\nwithout: [clashes]\n"}


@pytest.mark.parametrize(
    ("line", "said", "again"),
    [
        ("Lives in Lisbon.", "lives in  Lisbon", True),
        ("住在杭州。", "住在杭州", True),
        ("Lives in Lisbon.", "Lives in Porto.", False),
        ("Name: Chad.", "Name: Ana.", False),
        ("Job: nurse", "job: teacher in Porto", False),
        ("Works for Ana.", "Works for Eva on Mondays.", False),
        ("名字：阿明。", "名字：小林。", False),
        ("住在杭州", "住在上海", False),
        ("Mira Olsen teaches pottery at the old mill.", "Mira Olsen teaches painting at the old mill.", False),
    ],
)
def test_line_with_the_same_words_or_another_value_is_found(line: str, said: str, again: bool) -> None:
    """Case, spaces and full stops make no new fact; the same label, opening or most words say something of the same."""
    others = ["Owns a boat.", "Sister: Ana, a nurse."]
    assert clash([*others, line], said) == Clash(line, again)
    assert clash([*others, line], f"Likes plums.\n{said}") == Clash(line, again)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Has a dog called Biscuit.", "Has a cat called Luna."),
        ("Likes tea.", "Likes coffee."),
        ("Mira Olsen teaches pottery.", "Mira Olsen is afraid of heights."),
        ("Ada Berg and Tom Field own a bakery.", "Ada Berg and Eva Lund sing in a choir."),
        ("Ana loves Tom.", "Tom loves Ana."),
        ("Fact one.", "Fact two."),
        ("Item number 5.", "Item number 6."),
        ("我叫小林", "我养了一只金毛，叫豆豆"),
        ("Meet at 10:30", "Meet at 10:45"),
        ("!!!", "???"),
        ("a", "b"),
    ],
)
def test_another_fact_is_another_line(line: str, said: str) -> None:
    """The same verb, the same person, the same shape are not the same matter."""
    assert clash([line], said) is None


@given(st.lists(st.text(max_size=30), max_size=4), st.text(max_size=60))
def test_any_text_is_taken(lines: list[str], said: str) -> None:
    """Whatever the texts are, what is found is one of the lines."""
    found = clash(lines, said)
    assert found is None or found.line in lines


def append(agent: Agent, content: str) -> Any:
    """Append to the block of the user, outside any conversation."""
    return agent.call("core_memory_append", {"label": "human", "content": content})


@pytest.mark.parametrize(("said", "line"), [("Lives in Porto.", 1), ("name: chad", 0)])
def test_append_that_clashes_is_answered_with_a_replace_that_works(make_agent: MakeAgent, said: str, line: int) -> None:
    """Nothing is written; the answer has the line and, to the letter, the call that puts the new one in its place."""
    agent = make_agent(files=block("human", LINES))
    agent.vault.adopt()
    head = agent.vault.history.head
    result, change = append(agent, said)
    old = LINES.split("\n")[line]
    assert (result.ok, change, value_of(agent.vault), agent.vault.history.head) == (False, None, LINES, head)
    assert f": {old}\n" in result.text
    ready = json.loads(result.text[result.text.index("{") : result.text.index("}") + 1])
    assert agent.call("core_memory_replace", ready)[0].ok
    assert value_of(agent.vault) == LINES.replace(old, said)


def test_other_lines_are_appended_as_ever(make_agent: MakeAgent) -> None:
    """A person who adds facts of one kind is not asked, however many there are."""
    agent = make_agent(files=block("human", LINES))
    facts = [f"Likes {what}." for what in "tea coffee plums".split()] + [f"Fact {n}." for n in range(9)]
    assert all(append(agent, fact)[0].ok for fact in facts)
    assert value_of(agent.vault) == "\n".join([LINES, *facts])


def test_a_line_to_the_letter_is_there_already(make_agent: MakeAgent) -> None:
    """What is asked for is so: no failure, and no change."""
    agent = make_agent(files=block("human", LINES))
    result, change = append(agent, "Lives in Lisbon.")
    assert (result.ok, change) == (True, None) and "already" in result.text


def test_clashes_can_be_switched_off(make_agent: MakeAgent) -> None:
    """`without: [clashes]` appends what it is given."""
    agent = make_agent(files=block("human", LINES) | OFF)
    assert append(agent, "Lives in Porto.")[0].ok
    assert value_of(agent.vault) == f"{LINES}\nLives in Porto."


# -- in a turn ------------------------------------------------------------------------------------------------------


def saving(content: str) -> str:
    """The completion that appends."""
    return call("core_memory_append", missing="saving a new fact", label="human", content=content)


PORTO = {"label": "human", "old_content": "Lives in Lisbon.", "new_content": "Lives in Porto."}


def test_the_next_step_judges_that_line_alone(make_agent: MakeAgent) -> None:
    """The model says whether the one line is still true: the replace is ready, and so is the append."""
    replace = call("core_memory_replace", missing="correcting a line", **PORTO)
    agent = make_agent([saving("Lives in Porto."), replace, say("Nice.")], files=block("human", LINES))
    first, second, last = agent.run("I just moved to Porto.")
    assert not first.result.ok and first.result.text in prompts_of(agent)[1] and not first.diff
    grammar = agent.model.grammars[1]  # type: ignore[attr-defined]
    assert '"enum": ["Lives in Porto."]' in grammar and "Biscuit" not in grammar and "send_message" not in grammar
    assert second.result.ok and reply_of(last) == "Nice."
    assert value_of(agent.vault) == LINES.replace("Lisbon", "Porto")


def test_the_model_may_keep_both(make_agent: MakeAgent) -> None:
    """Where it says that the line still holds the same append goes through: nobody is asked twice."""
    agent = make_agent([saving("Name: Eva."), saving("Name: Eva."), say("Hi.")], files=block("human", LINES))
    steps = list(agent.run("My sister and I are called Chad and Eva."))
    assert [step.result.ok for step in steps] == [False, True, True]
    assert value_of(agent.vault) == f"{LINES}\nName: Eva."


def test_a_repeated_line_costs_no_further_completion(make_agent: MakeAgent) -> None:
    """There is nothing to choose: code makes the ready call, and the turn goes on to its answer."""
    agent = make_agent([saving("lives in lisbon"), say("I know.")], files=block("human", LINES))
    first, second, last = agent.run("I live in Lisbon, near the old harbour market hall, as you know.")
    assert not first.result.ok and second.result.ok and not second.passes
    assert reply_of(last) == "I know."
    assert value_of(agent.vault) == LINES.replace("Lives in Lisbon.", "lives in lisbon")


@pytest.mark.parametrize("limits", ["max_steps: 2", "max_failures: 1", "functions: [core_memory_append]"])
def test_a_clash_leaves_the_turn_its_answer(make_agent: MakeAgent, limits: str) -> None:
    """It is no mistake that ends a turn, and at the last step, or without a replace, what is left is offered."""
    files = block("human", LINES) | {"memory.yaml": f"zone: UTC\n{limits}\n"}
    more = [] if "steps" in limits else [saving("Lives in Porto.")]
    agent = make_agent([saving("Lives in Porto."), *more, say("Nice.")], files=files)
    assert agent.send("I just moved to Porto.") == "Nice."
