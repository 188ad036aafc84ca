"""What the tests share: small real vaults and agents, and verbs for what a person does to their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memory_fs.agent import Agent
from memory_fs.change import Change
from memory_fs.core import Core
from memory_fs.errors import ModelError
from memory_fs.events import Message
from memory_fs.formats.block import new_block
from memory_fs.formats.settings import DEFAULT_MODEL
from memory_fs.llm import Turn
from memory_fs.prompt import ANSWER, NOTES
from memory_fs.testing import Reply, ScriptedModel, call, make_vault
from memory_fs.vault import Vault

MakeAgent = Callable[..., Agent]
HELLO = "Keep the following in mind."  # tells nothing of anybody and asks nothing: every function is offered


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    """A small real vault with the blocks persona and human, in UTC."""
    with make_vault(tmp_path / "vault") as made:
        yield made


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[MakeAgent]:
    """Makes agents in vaults of their own, each with a model that replays lines; closes them at the end.

    `make_agent([replies], files={path: text}, window=tokens, **options of Agent)`
    """
    made: list[Agent] = []

    def make(
        replies: Iterable[Reply] = (), *, files: dict[str, str] | None = None, window: int = 4096, **options: Any
    ) -> Agent:
        folder = tmp_path / f"vault{len(made)}"
        settings = {"memory.yaml": f"zone: UTC\nwindow: {window}\nreply_reserve: {min(512, window // 4)}\n"}
        vault = make_vault(folder, {**settings, **(files or {})})
        made.append(Agent(vault, ScriptedModel(replies, window=window), **options))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    """An agent for single calls: its model has nothing to say."""
    return make_agent()


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The file of the default model. A `model` test without it fails: a skipped proof proves nothing."""
    from memory_fs.llm.registry import find

    try:
        return find(DEFAULT_MODEL, Path(__file__).parents[1])
    except ModelError as error:
        pytest.fail(f"{error}")


# -- what the model says --------------------------------------------------------------------------------------------


def say(message: str) -> Reply:
    """The completion that answers at once, in the pass that decides as in the one that words."""

    def reply(turns: Sequence[Turn]) -> str:
        if turns[0].content.startswith((ANSWER, NOTES)):
            return json.dumps({"message": message}, ensure_ascii=False)
        return call("send_message", missing="nothing", message=message)

    return reply


# -- what a person does ---------------------------------------------------------------------------------------------


def edit_by_hand(vault: Vault, path: str, text: str | bytes) -> Path:
    """Save a file as an editor does: a new file that takes the old one's place."""
    place = vault.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_name("4913.new")
    aside.write_bytes(text if isinstance(text, bytes) else text.encode())
    aside.replace(place)
    return place


# -- what there is --------------------------------------------------------------------------------------------------


def snapshot(vault: Vault, *but: str) -> dict[str, bytes]:
    """path -> bytes of every file of the vault outside `.memory_fs`, without those whose path starts with `but`."""
    files = (place for place in vault.root.rglob("*") if place.is_file())
    found = {place.relative_to(vault.root).as_posix(): place.read_bytes() for place in files}
    return {path: data for path, data in found.items() if not path.startswith((".memory_fs", *but))}


def memory_of(vault: Vault) -> dict[str, bytes]:
    """The files that a conversation alone must not change: all but recall and the queue."""
    return snapshot(vault, "recall/", "queue.yaml")


def value_of(vault: Vault, label: str = "human") -> str:
    """What a block says now."""
    return Core(vault).block(label).value


def changes_of(vault: Vault, path: str | None = None) -> list[Change]:
    """The history, newest first."""
    return list(vault.history.log(path))


def said(agent: Agent) -> list[tuple[str, str]]:
    """(role, content) of every message in recall, oldest first."""
    return [(message.role, message.content) for message in agent.recall.all()]


def queued(agent: Agent) -> list[Message]:
    """The messages that are in context."""
    return agent.queue.messages(agent.queue.state())


def prompts_of(agent: Agent) -> list[str]:
    """What the scripted model was shown, completion by completion."""
    assert isinstance(agent.model, ScriptedModel)
    return ["\n".join(turn.content for turn in turns) for turns in agent.model.prompts]


def block(label: str, value: str = "", limit: int = 500) -> dict[str, str]:
    """A block file for `make_agent(files=...)`."""
    return {f"core/{label}.yaml": new_block(label, f"About {label}.", limit, value)}
