"""What the user said of themselves and nobody saved is saved by rule when it leaves the context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memory_fs import Agent
from memory_fs.llm import Turn
from memory_fs.testing import ScriptedModel, call, make_vault

TOLD = "I keep bees behind the mill. What do you think of that?"
FILLER = "Tell me something about clouds, rain, wind, thunder, hail, fog and snow, please, at some length?"


def talked(root: Path, settings: str = "", human: str = "", **options: bool) -> Agent:
    """An agent that was told one thing, saved nothing, and then talked until its small window was flushed."""

    def reply(turns: Sequence[Turn]) -> str:
        if "# Functions" in turns[0].content:
            return call("send_message", missing="nothing")
        return '{"message": "I see."}' if "Write the memory" not in turns[0].content else "They spoke of clouds."

    files = {
        "memory.yaml": f"zone: UTC\nwindow: 1024\nreply_reserve: 256\nwithout: [guard, verdicts{settings}]\n",
        "core/human.yaml": f"description: About the user.\nlimit: 500\nvalue: {human!r}\n",
    }
    agent = Agent(make_vault(root, files), ScriptedModel(iter(lambda: reply, None), window=1024), **options)
    agent.send(TOLD)
    for _ in range(40):
        agent.send(FILLER)
        if agent.queue.state().evicted:
            break
    assert agent.queue.state().evicted
    return agent


def notes(agent: Agent) -> list[str]:
    """The texts of all notes."""
    paths = [path for path in agent.vault.files() if path.startswith("archival/")]
    return [agent.vault.read(path) or "" for path in paths]


def test_what_nobody_saved_becomes_a_note_in_the_users_words(tmp_path: Path) -> None:
    """The flush writes the sentence, no question, with the id of its message, in the same change."""
    with talked(tmp_path / "vault") as agent:
        (note,) = notes(agent)
        assert note.rstrip().endswith("user: I keep bees behind the mill.") and "What do you think" not in note
        told = next(message for message in agent.recall.all() if message.content == TOLD)
        assert told.ref in note and agent.pager.counters.write_backs == 1
        (flush,) = [change for change in agent.vault.history.log() if change.subject.startswith("Flush")]
        assert any(path.startswith("archival/") for path in flush.paths)


def test_what_core_memory_holds_is_not_written_back(tmp_path: Path) -> None:
    """A fact that is saved already needs no note."""
    with talked(tmp_path / "vault", human="Keeps bees behind the mill.") as agent:
        assert notes(agent) == [] and agent.pager.counters.write_backs == 0


def test_write_back_can_be_switched_off(tmp_path: Path) -> None:
    """`without: [write_back]` leaves it all to the model."""
    with talked(tmp_path / "vault", settings=", write_back") as agent:
        assert notes(agent) == []


def test_a_read_only_session_writes_nothing_back(tmp_path: Path) -> None:
    """Archival memory stays as it is."""
    with talked(tmp_path / "vault", read_only=True) as agent:
        assert notes(agent) == []
