"""A read-only session: it talks and remembers what was said, and writes nothing to core and archival memory."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import HELLO, MakeAgent, block, memory_of, prompts_of, said, say

from memory_fs import policy
from memory_fs.agent import Agent, reply_of
from memory_fs.memory_functions import WRITING, Memory
from memory_fs.testing import call

CALLS: dict[str, dict[str, Any]] = {
    "core_memory_append": {"label": "human", "content": "Likes tea."},
    "core_memory_replace": {"label": "human", "old_content": "Name: Chad.", "new_content": "Name: Eve."},
    "archival_memory_insert": {"content": "A note."},
    "memory_insert": {"label": "human", "content": "Likes tea."},
    "memory_rethink": {"label": "human", "content": "Nothing."},
    "memory_create_block": {"label": "plans", "description": "What is planned."},
}


def reader(make_agent: MakeAgent, *replies: Any, **options: Any) -> Agent:
    """An agent that may only read, with every function in its settings."""
    names = ", ".join([*CALLS, "archival_memory_search"])
    settings = {"memory.yaml": f"zone: UTC\nfunctions: [{names}]\n"}
    return make_agent(replies, files=block("human", "Name: Chad.") | settings, read_only=True, **options)


def test_every_function_that_writes_is_known() -> None:
    """The calls of this file are all that there are, and the policy knows no other."""
    assert set(CALLS) == set(WRITING) >= set(policy.WRITES)


@pytest.mark.parametrize("function", CALLS)
def test_function_that_writes_is_refused(make_agent: MakeAgent, function: str) -> None:
    """A call from outside the conversation says why nothing came of it, and no file differs."""
    agent = reader(make_agent)
    before = memory_of(agent.vault)
    result, change = agent.call(function, CALLS[function])
    assert not result.ok and change is None
    assert result.text == "error: this session is read-only: nothing is written to core or archival memory"
    assert memory_of(agent.vault) == before


def test_function_that_writes_is_not_offered(make_agent: MakeAgent) -> None:
    """The model reads of no function that writes, cannot call one, and is not asked to save what it is told."""
    agent = reader(make_agent, say("Hello Eve."))
    before = memory_of(agent.vault)
    (step,) = agent.run("My name is Eve and I live in Faro.")
    assert reply_of(step) == "Hello Eve." and memory_of(agent.vault) == before
    assert [function.name for function in agent.functions()] == ["send_message", "archival_memory_search"]
    assert not any(f"{name}(" in agent.prompt().text for name in WRITING)


def test_conversation_is_still_recorded(make_agent: MakeAgent) -> None:
    """Recall and the queue go on as ever, a call that the model should not have made among them."""
    agent = reader(make_agent, call("core_memory_append", **CALLS["core_memory_append"]), say("Hello."))
    before = memory_of(agent.vault)
    first, last = agent.run(HELLO)
    assert "not offered" in first.result.text and reply_of(last) == "Hello."
    assert [role for role, _ in said(agent)] == ["user", "call", "result", "assistant"]
    assert "Hello." in agent.prompt().text and len(prompts_of(agent)) == 2
    assert memory_of(agent.vault) == before


def test_function_of_a_person_cannot_write_either(make_agent: MakeAgent) -> None:
    """What counts is whether memory would differ, not what the function is called."""

    def jot(memory: Memory, text: str) -> str:
        """Jot down a text."""
        return memory.core.append(memory.transaction, "human", text)

    agent = reader(make_agent, functions=[jot])
    result, change = agent.call("jot", {"text": "Likes tea."})
    assert (result.ok, change) == (False, None) and "read-only" in result.text
    assert agent.call("archival_memory_search", {"query": "tea"})[0].ok
