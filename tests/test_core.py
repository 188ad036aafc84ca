"""Core memory: what a function may do to a block, and what it is told when it may not."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import MakeAgent, block, changes_of, edit_by_hand, prompts_of, say, snapshot, value_of

from memory_fs.agent import Agent, reply_of
from memory_fs.events import Result
from memory_fs.testing import call
from memory_fs.undo import undo

LINES = "Name: Chad.\nLives in Porto.\nHas a dog."


def do(agent: Agent, function: str, **arguments: Any) -> Result:
    """Call a function; where it is refused, check that no file and no history differs."""
    agent.vault.adopt()
    before, head = snapshot(agent.vault), agent.vault.history.head
    result, change = agent.call(function, arguments)
    if not result.ok:
        assert change is None
        assert (snapshot(agent.vault), agent.vault.history.head) == (before, head)
    return result


# -- append ---------------------------------------------------------------------------------------------------------


def test_append_to_an_empty_block_is_the_text_alone(agent: Agent) -> None:
    """The first line of a block has no empty line in front; the next one stands below it."""
    assert do(agent, "core_memory_append", label="human", content="Hi").ok
    assert value_of(agent.vault) == "Hi"
    assert do(agent, "core_memory_append", label="human", content="b").ok
    assert value_of(agent.vault) == "Hi\nb"


@pytest.mark.parametrize("content", ["", " ", " \t\n", "\u3000"])
def test_append_of_nothing_is_refused(agent: Agent, content: str) -> None:
    """Empty or blank content changes nothing, leaves no history entry, and the model is told."""
    result = do(agent, "core_memory_append", label="human", content=content)
    assert not result.ok and "empty" in result.text


def test_append_of_a_line_that_is_there_is_no_change(agent: Agent) -> None:
    """A fact that a block already says is not stored twice."""
    do(agent, "core_memory_append", label="human", content="Name: Chad.")
    head = agent.vault.history.head
    assert "already" in do(agent, "core_memory_append", label="human", content="Name: Chad. ").text
    assert agent.vault.history.head == head


@pytest.mark.parametrize("letter", ["x", "é", "狗", "🐕"])
def test_limit_is_reached_but_not_passed(make_agent: MakeAgent, letter: str) -> None:
    """A block may be filled to its last character; one more is refused with the limit and the size asked for."""
    agent = make_agent(files=block("human", letter * 5, limit=10))
    assert do(agent, "core_memory_append", label="human", content=letter * 4).ok
    assert len(value_of(agent.vault)) == 10
    result = do(agent, "core_memory_append", label="human", content=letter)
    assert not result.ok and "10" in result.text and "12" in result.text


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("core_memory_replace", {"old_content": "Chad", "new_content": "x" * 50}),
        ("memory_insert", {"content": "x" * 50, "line": 0}),
        ("memory_rethink", {"content": "x" * 50}),
    ],
)
def test_every_write_heeds_the_limit(make_agent: MakeAgent, function: str, arguments: dict[str, Any]) -> None:
    """Whatever way a block is written, its limit is checked before a byte changes."""
    agent = make_agent(files=block("human", "Chad", limit=20))
    result = do(agent, function, label="human", **arguments)
    assert not result.ok and "20" in result.text


# -- replace --------------------------------------------------------------------------------------------------------


def test_replace_of_one_match(make_agent: MakeAgent) -> None:
    """The text that is there once is replaced, the rest stays."""
    agent = make_agent(files=block("human", LINES))
    assert do(agent, "core_memory_replace", label="human", old_content="Porto", new_content="Rome").ok
    assert value_of(agent.vault) == LINES.replace("Porto", "Rome")


def test_replace_without_a_match_shows_the_nearest_line(make_agent: MakeAgent) -> None:
    """When nothing matches the model is shown the line that it probably meant."""
    agent = make_agent(files=block("human", LINES))
    result = do(agent, "core_memory_replace", label="human", old_content="lives in porto", new_content="x")
    assert not result.ok and "Lives in Porto." in result.text


def test_replace_in_an_empty_block_says_so(agent: Agent) -> None:
    """In an empty block there is nothing to replace, and the model is told what to call instead."""
    result = do(agent, "core_memory_replace", label="human", old_content="a", new_content="b")
    assert not result.ok and "core_memory_append" in result.text


def test_replace_of_empty_text_is_refused(make_agent: MakeAgent) -> None:
    """An empty old text is everywhere, so it names nothing."""
    agent = make_agent(files=block("human", LINES))
    assert not do(agent, "core_memory_replace", label="human", old_content="", new_content="x").ok


@pytest.mark.parametrize(("value", "old", "lines"), [("a dog\nb\na dog", "a dog", (1, 3)), ("aba\naaa", "aa", (2, 2))])
def test_replace_with_two_matches_names_both_lines(
    make_agent: MakeAgent, value: str, old: str, lines: tuple[int, int]
) -> None:
    """An ambiguous text is refused with the line of each match, overlapping ones included."""
    agent = make_agent(files=block("human", value))
    result = do(agent, "core_memory_replace", label="human", old_content=old, new_content="x")
    assert not result.ok and f"lines {lines[0]} and {lines[1]}" in result.text


def test_replace_by_nothing_deletes(make_agent: MakeAgent) -> None:
    """An empty new text takes the old one out; of a whole line no empty line stays."""
    agent = make_agent(files=block("human", LINES))
    assert do(agent, "core_memory_replace", label="human", old_content=" in Porto", new_content="").ok
    assert value_of(agent.vault) == "Name: Chad.\nLives.\nHas a dog."
    assert do(agent, "core_memory_replace", label="human", old_content="Lives.", new_content="").ok
    assert do(agent, "core_memory_replace", label="human", old_content="Has a dog.", new_content="").ok
    assert value_of(agent.vault) == "Name: Chad."
    assert do(agent, "core_memory_replace", label="human", old_content="Name: Chad.", new_content="").ok
    assert value_of(agent.vault) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Chad", "Chad"),
        ("Name: Chad.", "Name: Chad."),
        ("a", "a"),  # there more than once
        ("Lives in Lisbon.", "Lives in Porto."),  # replaced before
        ("Lives in Lisbon.", " Lives in Porto. "),
    ],
)
def test_replace_that_is_done_already_is_no_change(make_agent: MakeAgent, old: str, new: str) -> None:
    """What is asked for is so: it counts as done, says so, and leaves no history entry."""
    agent = make_agent(files=block("human", LINES))
    agent.vault.adopt()
    head = agent.vault.history.head
    result = do(agent, "core_memory_replace", label="human", old_content=old, new_content=new)
    assert result.ok and f"unchanged: it says this already: {new.strip()}" in result.text
    assert (value_of(agent.vault), agent.vault.history.head) == (LINES, head)


def test_replace_by_the_same_ends_the_writing_of_its_turn(make_agent: MakeAgent) -> None:
    """The model is not told of a failure that it would repeat: the turn goes on to its answer."""
    same = {"label": "human", "old_content": "Lives in Porto.", "new_content": "Lives in Porto."}
    replies = [call("core_memory_replace", missing="correcting a line", **same), say("Noted.")]
    agent = make_agent(replies, files=block("human", LINES))
    first, last = agent.run("I live in Porto, close to the river and the bridges, as I told you before.")
    assert first.result.ok and reply_of(last) == "Noted." and value_of(agent.vault) == LINES


# -- labels, permissions --------------------------------------------------------------------------------------------

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("core_memory_append", {"content": "x"}),
    ("core_memory_replace", {"old_content": "Chad", "new_content": "x"}),
    ("core_memory_replace", {"old_content": "Chad", "new_content": ""}),
    ("memory_insert", {"content": "x"}),
    ("memory_rethink", {"content": "x"}),
]


@pytest.mark.parametrize(("function", "arguments"), WRITES)
def test_unknown_label_is_answered_with_the_labels(agent: Agent, function: str, arguments: dict[str, Any]) -> None:
    """A block that is not there is refused by every kind of write, and those there are get named."""
    result = do(agent, function, label="pets", **arguments)
    assert not result.ok and "persona" in result.text and "human" in result.text


@pytest.mark.parametrize(("function", "arguments"), WRITES)
def test_read_only_block_refuses_every_write(make_agent: MakeAgent, function: str, arguments: dict[str, Any]) -> None:
    """`read_only: true` holds against each function that writes."""
    agent = make_agent(files={"core/human.yaml": "read_only: true\nvalue: Chad\n"})
    result = do(agent, function, label="human", **arguments)
    assert not result.ok and "read-only" in result.text


@pytest.mark.parametrize("label", ["my pets", "mascotas 🐕", "宠物", "café", "a.b"])
def test_block_that_a_person_named_freely_can_be_written(agent: Agent, label: str) -> None:
    """A block file with spaces, dots, accents or emoji in its name is a block like any other."""
    edit_by_hand(agent.vault, f"core/{label}.yaml", "value: Biscuit\n")
    assert do(agent, "core_memory_append", label=label, content="Rex").ok
    assert value_of(agent.vault, label) == "Biscuit\nRex"
    assert label in do(agent, "core_memory_append", label="nobody", content="x").text


# -- insert, line numbers, rethink ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "line", "expected"),
    [
        ("a\nb", 0, "new\na\nb"),
        ("a\nb", 1, "a\nnew\nb"),
        ("a\nb", 2, "a\nb\nnew"),
        ("a\nb", -1, "a\nb\nnew"),
        ("", 0, "new"),
        ("", -1, "new"),
    ],
)
def test_insert_puts_text_behind_a_line(make_agent: MakeAgent, value: str, line: int, expected: str) -> None:
    """0 is before the first line, n behind line n, -1 the end; into an empty block goes exactly the text."""
    agent = make_agent(files=block("human", value))
    assert do(agent, "memory_insert", label="human", content="new", line=line).ok
    assert value_of(agent.vault) == expected


@pytest.mark.parametrize("line", [-2, 3, 10**12])
def test_insert_behind_a_line_that_is_not_there_is_refused(make_agent: MakeAgent, line: int) -> None:
    """The model is told which lines there are."""
    agent = make_agent(files=block("human", "a\nb"))
    result = do(agent, "memory_insert", label="human", content="new", line=line)
    assert not result.ok and "-1 to 2" in result.text


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("core_memory_append", {"content": "12: buy milk"}),
        ("core_memory_replace", {"old_content": "1: Name: Chad.", "new_content": "Name: Bo."}),
        ("core_memory_replace", {"old_content": "Name: Chad.", "new_content": "1: Name: Bo."}),
        ("memory_insert", {"content": " 3: buy milk", "line": 1}),
        ("memory_rethink", {"content": "1: Name: Bo.\n2: Lives in Rome."}),
    ],
)
def test_displayed_line_numbers_are_refused(make_agent: MakeAgent, function: str, arguments: dict[str, Any]) -> None:
    """A model that copies line numbers from a listing is told to leave them out."""
    agent = make_agent(files=block("human", LINES))
    result = do(agent, function, label="human", **arguments)
    assert not result.ok and "line number" in result.text


@pytest.mark.parametrize("text", ["Line 3: buy milk", "At 12:30 lunch", "12 eggs: buy", "2026: moved", "1.5: ratio"])
def test_text_that_only_resembles_a_line_number_is_kept(agent: Agent, text: str) -> None:
    """Ordinary text with numbers and colons is stored as it is."""
    assert do(agent, "core_memory_append", label="human", content=text).ok
    assert value_of(agent.vault) == text


def test_rethink_keeps_the_old_value_in_history(make_agent: MakeAgent) -> None:
    """A block may be rewritten whole, and what it said before can be brought back."""
    agent = make_agent(files=block("human", LINES))
    assert do(agent, "memory_rethink", label="human", content="Chad, in Porto.").ok
    assert value_of(agent.vault) == "Chad, in Porto."
    undo(agent.vault, ("tester", "t@example.invalid"))
    assert value_of(agent.vault) == LINES


# -- new and deleted blocks -----------------------------------------------------------------------------------------


def test_new_block_is_in_the_next_prompt(make_agent: MakeAgent) -> None:
    """A created block shows with its description, what is used and its limit."""
    agent = make_agent([say("Done.")])
    created = do(agent, "memory_create_block", label="pets", description="Animals: all of them.", content="Biscuit")
    assert created.ok
    agent.send("Hello.")
    assert "[pets] Animals: all of them. (7/2000 characters)\nBiscuit" in prompts_of(agent)[0]


def test_creating_a_block_twice_is_refused(agent: Agent) -> None:
    """An existing block is never replaced by a new one of its name."""
    result = do(agent, "memory_create_block", label="human", description="x", content="y")
    assert not result.ok and "already" in result.text


@pytest.mark.parametrize("label", ["", "a/b", "../human", "a b", "x" * 61, "con", ".hidden", "nul"])
def test_block_with_an_impossible_name_is_not_created(agent: Agent, label: str) -> None:
    """A label that could leave the folder, hide, or not be a file name on some system is refused."""
    assert not do(agent, "memory_create_block", label=label, description="x").ok


def test_new_block_heeds_the_limit(agent: Agent) -> None:
    """A block cannot be created with more text than it may hold."""
    result = do(agent, "memory_create_block", label="pets", description="x", content="x" * 2001)
    assert not result.ok and "2000" in result.text and "2001" in result.text


def test_deleted_block_can_be_recovered(make_agent: MakeAgent) -> None:
    """A block that a person deleted leaves the prompt, and undo brings the file back byte for byte."""
    agent = make_agent(files=block("pets", "Biscuit"))
    place = agent.vault.root / "core/pets.yaml"
    before = place.read_bytes()
    place.unlink()
    assert "[pets]" not in agent.prompt().text
    undo(agent.vault, ("tester", "t@example.invalid"))
    assert place.read_bytes() == before
    assert "[pets]" in agent.prompt().text


# -- what is stored -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "café ☕ 狗 👩‍👩‍👧",
        "a: b # c",
        "- item",
        "'quoted' \"twice\"",
        "tab\there ",
        "\x07bell\x1b[31m",
        "next\u0085line\u2028",
        "\rx",
    ],
)
def test_any_text_is_stored_as_it_is(agent: Agent, text: str) -> None:
    """Unicode, YAML's own signs, control characters and odd line ends come back unchanged."""
    assert do(agent, "core_memory_append", label="human", content=text).ok
    assert value_of(agent.vault) == text


def test_what_no_file_can_hold_is_replaced(agent: Agent) -> None:
    """NUL and a lone surrogate become the replacement character instead of failing the call."""
    assert do(agent, "core_memory_append", label="human", content="a\0b\ud800c").ok
    assert value_of(agent.vault) == "a\ufffdb\ufffdc"


def test_a_write_is_one_commit_that_says_why(agent: Agent) -> None:
    """One call makes one history entry: by the agent, with function and session, and a unified diff."""
    _, change = agent.call("core_memory_append", {"label": "human", "content": "Name: Chad."})
    assert change is not None
    assert changes_of(agent.vault)[0].rev == change.rev and len(changes_of(agent.vault)) == 2
    assert (change.author, change.paths) == ("agent", ("core/human.yaml",))
    assert change.trailers["Function"] == "core_memory_append" and change.trailers["Session"] == agent.session
    assert (
        change.diff.startswith("--- a/core/human.yaml\n+++ b/core/human.yaml\n@@")
        and "\n+  Name: Chad.\n" in change.diff
    )
