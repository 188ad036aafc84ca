"""The page table: what is in context and what is on disk, who wrote it, and its marks."""

from __future__ import annotations

from conftest import MakeAgent, edit_by_hand, say

from memory_fs.page_table import Entry, page_table
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
