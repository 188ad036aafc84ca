"""The page table: what is in context and what is on disk, who wrote it, and its marks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from conftest import MakeAgent, edit_by_hand, say

from memory_fs.agent import Agent
from memory_fs.events import Clock
from memory_fs.page_table import Entry, page_table
from memory_fs.policy import says
from memory_fs.testing import call

NOTE = "---\nid: k3f9x2\npriority: pinned\n---\nThe boiler BX-2291 was serviced in May.\n"
FILED = "---\nid: p7a2c4\nsource: {file: bills.pdf, page: 3}\n---\nA bill for pipes.\n"


def entries(agent_table: list[Entry]) -> dict[str, Entry]:
    """The pages by name."""
    return {entry.page: entry for entry in agent_table}


def test_context_and_disk_are_told_apart(make_agent: MakeAgent) -> None:
    """Blocks and the queue are in context, a note is on disk until a question pages it in, and then marked as used."""
    agent = make_agent([say("In May.")], files={"archival/boiler.md": NOTE})
    before = entries(page_table(agent, len, 10))
    assert before["core/human"].where == "in context" and before["archival/k3f9x2"].where == "on disk"
    assert "archival/k3f9x2" not in entries(page_table(agent, len))
    agent.send("When was BX-2291 serviced?")
    after = entries(page_table(agent, len))
    note = after["archival/k3f9x2"]
    assert (note.where, note.turn, note.referenced, note.pinned) == ("working set", 1, True, True)
    assert note.tokens == len("The boiler BX-2291 was serviced in May.")
    assert sum(page.startswith("recall/") for page in after) == 2


def test_what_the_model_wrote_is_dirty_until_a_person_edits_it(make_agent: MakeAgent) -> None:
    """A block that the model changed last is dirty and of low trust; a person's edit makes it clean."""
    save = call("core_memory_append", missing="saving a new fact", label="human", content="Name: Ada.")
    agent = make_agent([save, say("Hello.")])
    assert not entries(page_table(agent, len))["core/human"].dirty
    agent.send("My name is Ada.")
    wrote = entries(page_table(agent, len))["core/human"]
    assert (wrote.dirty, wrote.provenance, wrote.trust) == (True, "agent", "low")
    edit_by_hand(agent.vault, "core/human.yaml", (agent.vault.read("core/human.yaml") or "").replace("Ada", "Eva"))
    agent.vault.adopt()
    edited = entries(page_table(agent, len))["core/human"]
    assert (edited.dirty, edited.provenance, edited.trust) == (False, "person", "high")


def test_a_note_from_a_file_is_of_low_trust(make_agent: MakeAgent) -> None:
    """Text that came from a document is data, whoever put it there."""
    agent = make_agent(files={"archival/bill.md": FILED, "archival/boiler.md": NOTE})
    found = entries(page_table(agent, len, 10))
    assert (found["archival/p7a2c4"].provenance, found["archival/p7a2c4"].trust) == ("file", "low")
    assert (found["archival/k3f9x2"].provenance, found["archival/k3f9x2"].trust) == ("person", "high")


# -- a second source ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("I live in Porto.", "Lives in Porto."),
        ("Hi! My name is Ada. How are you?", "Name: Ada."),
        ("I have a dog called Biscuit", "Has a dog called Biscuit."),
        ("I live in Porto. My name is Ada.", "Name: Ada. Lives in Porto."),
        ("我住在上海。", "住在上海"),
    ],
)
def test_the_same_words_say_the_same(text: str, line: str) -> None:
    """Who speaks, articles, full stops and what else is said make no difference."""
    assert says(text, line)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("I do not live in Porto.", "Lives in Porto."),
        ("I no longer live in Porto.", "Lives in Porto."),
        ("I lived in Porto.", "Lives in Porto."),
        ("Do I live in Porto?", "Lives in Porto."),
        ("I moved from Porto.", "Moved to Porto."),
        ("Tom loves Ana.", "Ana loves Tom."),
        ("I am 31 years old.", "Is 30 years old."),
        ("My name is Ada.", "Name: Ada. Lives in Porto."),
        ("我不住在上海。", "住在上海"),
        ("我是！", "是"),
        ("", ""),
    ],
)
def test_a_denial_a_question_and_another_tense_do_not(text: str, line: str) -> None:
    """What differs in any word that carries meaning is no confirmation."""
    assert not says(text, line)


SAVED = call("core_memory_append", missing="saving a new fact", label="human", content="Lives in Porto.")


def told(make_agent: MakeAgent, *later: str) -> Agent:
    """An agent whose model saved a line, and that was told more in later turns."""
    agent = make_agent([SAVED, *[say("I see.")] * 20])
    agent.send("I live in Porto.")
    for text in later:
        agent.send(text)
    return agent


def is_dirty(agent: Agent, page: str = "core/human") -> bool:
    """The dirty bit of a page."""
    return entries(page_table(agent, len, 20))[page].dirty


@pytest.mark.parametrize(
    ("later", "dirty"),
    [
        ((), True),  # the message that the line was made from is no second source
        (("Do I live in Porto?",), True),
        (("Thank you!",), True),
        (("I live in Porto.",), False),
        (("As I said. I live in Porto!", "Thank you!"), False),
    ],
)
def test_a_later_message_of_the_user_confirms_what_the_model_wrote(
    make_agent: MakeAgent, later: tuple[str, ...], dirty: bool
) -> None:
    """The user says the same again; who wrote it and how far it is trusted stays as it was."""
    agent = told(make_agent, *later)
    page = entries(page_table(agent, len))["core/human"]
    assert (page.dirty, page.provenance, page.trust) == (dirty, "agent", "low")


def test_the_models_own_words_confirm_nothing(make_agent: MakeAgent) -> None:
    """An answer that repeats the line, and a note that the model saved, come from the same source."""
    agent = make_agent([SAVED, say("You live in Porto."), *[say("You live in Porto.")] * 4])
    agent.send("I live in Porto.")
    agent.send("Where do I live?")
    assert agent.call("archival_memory_insert", {"content": "Lives in Porto."})[0].ok
    assert is_dirty(agent)


def test_every_line_that_the_model_wrote_has_to_be_confirmed(make_agent: MakeAgent) -> None:
    """One line said again leaves the other; a person's own line needs nobody else."""
    agent = told(make_agent, "I live in Porto.")
    assert agent.call("core_memory_append", {"label": "human", "content": "Has a boat."})[0].ok
    assert is_dirty(agent)
    agent.send("I have a boat.")
    assert not is_dirty(agent)


def test_a_note_from_elsewhere_confirms_and_an_older_one_does_not(make_agent: MakeAgent) -> None:
    """A file that was there before may be what the model read; one that comes later is a second source."""
    note = "---\nid: p7a2c4\nsource: {file: register.pdf}\n---\nLives in Porto.\n"
    older = make_agent([SAVED, say("I see.")], files={"archival/register.md": note})
    older.vault._clock = late(1)  # type: ignore[method-assign]
    older.send("I live in Porto.")
    assert is_dirty(older)
    agent = told(make_agent)
    edit_by_hand(agent.vault, "archival/register.md", note)
    agent.vault._clock = late(2)  # type: ignore[method-assign]
    assert not is_dirty(agent)


def late(days: int) -> Clock:
    """A clock that stands some days after the vault was made."""
    moment = datetime(2026, 11, 29, 15, tzinfo=UTC) + timedelta(days=days)
    return lambda: moment


def test_a_note_of_the_model_is_clean_once_a_person_edits_it(make_agent: MakeAgent) -> None:
    """Notes have the bit as well, and lose it by the same rule."""
    agent = make_agent()
    agent.call("archival_memory_insert", {"content": "The boiler was serviced in May."})
    (path,) = [path for path in agent.vault.files() if path.startswith("archival/")]
    (page,) = [name for name in entries(page_table(agent, len, 5)) if name.startswith("archival/")]
    assert is_dirty(agent, page)
    edit_by_hand(agent.vault, path, (agent.vault.read(path) or "").replace("May", "June"))
    assert not is_dirty(agent, page)
