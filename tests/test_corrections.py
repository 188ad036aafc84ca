"""What memory was corrected from is no evidence: the message that said so stays in recall and out of answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path

import pytest

from memory_fs import Agent
from memory_fs.corrections import Corrections
from memory_fs.evidence import Evidence
from memory_fs.llm import Turn
from memory_fs.testing import ScriptedModel, call, make_vault

SAVE = call("core_memory_append", label="human", content="Name: Ada, lives in Lisbon.")
MOVE = call(
    "core_memory_replace",
    label="human",
    old_content="Name: Ada, lives in Lisbon.",
    new_content="Name: Ada, lives in Porto.",
)


def told(root: Path, *calls: str) -> Agent:
    """An agent that has been told where somebody lives, and saved it; it answers ok to everything."""
    planned = iter([SAVE, *calls])

    def reply(turns: Sequence[Turn]) -> str:
        return next(planned, call("send_message")) if "# Functions" in turns[0].parts[0] else '{"message": "ok"}'

    agent = Agent(make_vault(root), ScriptedModel(repeat(reply)))
    agent.send("My name is Ada and I live in Lisbon.")
    return agent


def found(agent: Agent, question: str) -> list[str]:
    """What speaks to a question: ids of notes, texts of messages."""
    agent.vault.adopt()
    hits = Evidence(agent.search, Corrections(agent.vault).outdated).about(question, 5)
    return [hit.id if hit.kind == "archival" else hit.text for hit in hits]


@pytest.mark.parametrize("how", ["by the model", "by hand"])
def test_a_message_that_memory_was_corrected_from_is_no_evidence(tmp_path: Path, how: str) -> None:
    """Once the line is replaced, by the model or by hand, the old message is not paged in; before, it is."""
    with told(tmp_path / "vault", MOVE) as agent:
        assert found(agent, "Who is Ada and what is Lisbon to her?")
        if how == "by the model":
            agent.send("I just moved to Porto.")
        else:
            file = agent.vault.root / "core" / "human.yaml"
            file.write_text(file.read_text().replace("Lisbon", "Porto"))
        assert not found(agent, "Who is Ada and what is Lisbon to her?")


def test_what_core_memory_says_again_is_evidence_again(tmp_path: Path) -> None:
    """A line that was taken out and came back makes its message count again."""
    with told(tmp_path / "vault") as agent:
        file = agent.vault.root / "core" / "human.yaml"
        before = file.read_text()
        file.write_text(before.replace("Lisbon", "Porto"))
        assert not found(agent, "Who is Ada and what is Lisbon to her?")
        file.write_text(before)
        assert found(agent, "Who is Ada and what is Lisbon to her?")


def test_notes_are_never_outdated(tmp_path: Path) -> None:
    """A note is what somebody filed: it counts whatever core memory was corrected from."""
    note = "---\nid: k3f9x2\n---\nAda lived in Lisbon for ten years.\n"
    with told(tmp_path / "vault") as agent:
        file = agent.vault.root / "core" / "human.yaml"
        file.write_text(file.read_text().replace("Lisbon", "Porto"))
        (agent.vault.root / "archival").mkdir()
        (agent.vault.root / "archival" / "ada.md").write_text(note)
        assert "k3f9x2" in found(agent, "What is Lisbon to Ada?")


def test_an_edit_that_was_seen_before_history_had_it_counts_afterwards(tmp_path: Path) -> None:
    """A file that was saved while a turn went on corrects what was said once it is adopted."""
    with told(tmp_path / "vault") as agent:
        corrections = Corrections(agent.vault)
        evidence = Evidence(agent.search, corrections.outdated)
        file = agent.vault.root / "core" / "human.yaml"
        file.write_text(file.read_text().replace("Lisbon", "Porto"))
        assert evidence.about("Who is Ada and what is Lisbon to her?", 5)
        agent.vault.adopt()
        assert not evidence.about("Who is Ada and what is Lisbon to her?", 5)
