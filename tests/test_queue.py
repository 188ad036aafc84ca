"""The queue: what is in context, the alert, the flush, the summary; what leaves the context is never lost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast, get_args

import pytest
from conftest import HELLO, MakeAgent, block, edit_by_hand, memory_of, prompts_of, queued, said, say
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_fs.agent import Agent
from memory_fs.errors import PromptTooLong
from memory_fs.events import Message, MessageRole
from memory_fs.formats.settings import QueueState
from memory_fs.llm import Turn
from memory_fs.prompt import SUMMARY
from memory_fs.queue_manager import ALERT, ALERT_READ_ONLY, QueueManager
from memory_fs.testing import ScriptedModel, call
from memory_fs.writer import first_sentences

FILLER = "Is porridge with plums and pears a very fine breakfast on a cold grey morning? "


class Talker(ScriptedModel):
    """Answers every message, and sums up by naming the last words of each message that it is shown."""

    def __init__(self, window: int, summary: str = "") -> None:
        super().__init__(iter(lambda: self._reply, None), window=window)
        self.summary = summary
        self.summaries: list[str] = []

    def _reply(self, turns: Sequence[Turn]) -> str:
        if not turns[0].content.startswith(SUMMARY):
            answer = say("I see, plums and pears.")
            return answer if isinstance(answer, str) else answer(turns)
        self.summaries.append(turns[1].content)
        return self.summary


def talk(agent: Agent, messages: int, start: int = 0) -> None:
    """Ask something of a few words, so many times: questions are answered with the whole queue in sight."""
    for number in range(start, start + messages):
        agent.send(f"What is number {number} zq{number}zq? {FILLER * 3}")


def talker(make_agent: MakeAgent, window: int = 1024, summary: str = "", core: str = "", **options: bool) -> Agent:
    """An agent with a small window whose model always answers."""
    agent = make_agent(window=window, files=block("human", core, limit=9000) if core else {})
    agent.close()
    return Agent(agent.vault, Talker(window, summary), **options)


def flushes(agent: Agent) -> list[str]:
    """The subjects of all flushes, oldest first."""
    return [change.subject for change in agent.vault.history.log() if change.subject.startswith("Flush")][::-1]


def alerts(agent: Agent) -> int:
    """How many memory-pressure alerts recall holds."""
    return said(agent).count(("system", ALERT))


# -- pressure -------------------------------------------------------------------------------------------------------


def test_alert_comes_once_a_period(make_agent: MakeAgent) -> None:
    """Above the warning share the model is alerted exactly once, and again only after a flush."""
    agent = talker(make_agent)
    seen = []
    for number in range(16):
        talk(agent, 1, number)
        seen.append((alerts(agent), len(flushes(agent))))
    assert seen[0] == (0, 0)
    assert len(flushes(agent)) >= 2
    assert all(alert in (flush, flush + 1) for alert, flush in seen)  # one in each period, never two
    assert {alert - flush for alert, flush in seen} == {0, 1}
    agent.close()


def test_alert_is_shown_to_the_model_as_the_programs(make_agent: MakeAgent) -> None:
    """The alert is an interrupt in the queue, marked as the program's, and names what to call."""
    agent = talker(make_agent)
    while not alerts(agent):
        talk(agent, 1)
    shown = prompts_of(agent)[-1] if len(prompts_of(agent)) else ""
    assert f"[system] {ALERT}" in shown and "archival_memory_insert" in ALERT
    agent.close()


def test_alert_of_a_read_only_session_asks_for_nothing(make_agent: MakeAgent) -> None:
    """What cannot be saved is not asked for: the alert says what will leave, and where it stays."""
    agent = talker(make_agent, read_only=True)
    while not flushes(agent):
        talk(agent, 1)
    (alert,) = [content for role, content in said(agent) if role == "system"]
    assert alert == ALERT_READ_ONLY and "oldest messages will soon leave" in alert and "conversation_search" in alert
    assert not any(word in alert.casefold() for word in ("save", "core_memory", "archival_memory"))
    assert alerts(agent) == 0
    agent.close()


def test_pressure_counts_the_whole_prompt(make_agent: MakeAgent) -> None:
    """No prompt is larger than the window less the reserve, whatever was said."""
    agent = talker(make_agent)
    settings_file = agent.vault.root / "memory.yaml"
    settings_file.write_text(settings_file.read_text() + "without: [faults]\n")  # every message is decided on
    talk(agent, 12)
    model = cast(Talker, agent.model)
    capacity = 1024 - agent.vault.settings.reply_reserve
    deciding = [turns for turns in model.prompts if "# Functions" in turns[0].content]
    assert len(deciding) == 12 and max(map(model.count, deciding)) <= capacity
    agent.close()


def test_three_flushes_lose_nothing(make_agent: MakeAgent) -> None:
    """After three flushes every message is in recall word for word, and every evicted one is found by its own words."""
    agent = talker(make_agent, summary="They spoke of porridge with plums and pears at breakfast.")
    number = 0
    while len(flushes(agent)) < 3:
        talk(agent, 1, number)
        number += 1
    spoken = [content for role, content in said(agent) if role == "user"]
    assert spoken == [f"What is number {n} zq{n}zq? {FILLER * 3}" for n in range(number)]
    in_context = {message.content for message in queued(agent)}
    evicted = [content for content in spoken if content not in in_context]
    assert len(evicted) >= 6
    for content in evicted:
        page = agent.recall.search(content.split()[4])
        assert [hit.text for hit in page.hits] == [content]
    state = agent.queue.state()
    assert state.evicted + len(state.messages) == sum(role != "call" for role, _ in said(agent))
    agent.close()


def test_flush_comes_down_to_its_share(make_agent: MakeAgent) -> None:
    """A flush leaves at most half of the window, and tells the model how much is out of context."""
    agent = talker(make_agent)
    while not flushes(agent):
        talk(agent, 1)
    capacity = 1024 - agent.vault.settings.reply_reserve
    model = cast(Talker, agent.model)
    assert model.count(model.prompts[-1]) <= capacity // 2 + 100  # what was said since
    assert f"Earlier messages, out of context: {agent.queue.state().evicted}." in prompts_of(agent)[-1]
    agent.close()


# -- the summary ----------------------------------------------------------------------------------------------------


def test_second_flush_folds_the_first_summary_in(make_agent: MakeAgent) -> None:
    """The summary is recursive: the model is given the old one, and what it writes replaces it in queue.yaml."""
    agent = talker(make_agent, summary="They spoke of porridge with plums and pears.")
    while len(flushes(agent)) < 2:
        talk(agent, 1)
    model = cast(Talker, agent.model)
    first, second = model.summaries
    assert "Old summary:" not in first and "New messages:" in first
    assert "Old summary:\nThey spoke of porridge with plums and pears.\n" in second
    assert "summary: |\n  They spoke of porridge with plums and pears.\n" in (agent.vault.read("queue.yaml") or "")
    assert "They spoke of porridge with plums and pears." in prompts_of(agent)[-1]
    agent.close()


def room(agent: Agent) -> int:
    """The tokens that messages and the summary may take together."""
    return agent._pressure.capacity() - agent._pressure.measure(QueueState())


SPOKE = " ".join(f"They spoke of porridge with plums and pears on day {n}." for n in range(30))
BULKY = "\n".join(f"Fact {n} about porridge with plums and pears." for n in range(40))


def test_summary_leaves_room_for_what_it_sums_up(make_agent: MakeAgent) -> None:
    """Where instructions and core memory take most of the window, the summary takes a quarter of the rest at most."""
    agent = talker(make_agent, window=1536, summary=SPOKE[:900], core=BULKY)
    assert 300 < room(agent) < 700
    while len(flushes(agent)) < 3:
        talk(agent, 1)
    summary = agent.queue.state().summary
    assert summary and room(agent) // 8 < agent.model.count_text(summary) <= room(agent) // 4
    agent.close()


def test_long_talk_in_a_window_that_is_mostly_fixed(make_agent: MakeAgent) -> None:
    """At 2,048 tokens with little room a flush still makes room for several messages, and all of them are in recall."""
    agent = talker(make_agent, window=2048, summary=SPOKE, core="\n".join([BULKY, BULKY.replace("Fact", "Point")]))
    assert room(agent) < 500
    for number in range(60):
        agent.send(f"What is number {number} zq{number}zq? Is porridge with plums and pears a fine breakfast?")
    assert len(flushes(agent)) <= 15
    assert sum(role == "user" for role, _ in said(agent)) == 60
    agent.close()


def test_summary_is_cut_when_core_memory_grows_beside_it(make_agent: MakeAgent) -> None:
    """What was summed up while there was room does not end the talk: its oldest lines go, the rest stays."""
    agent = talker(make_agent, window=1536, summary="zebra " * 400)  # first sentences take the place of such a summary
    while len(flushes(agent)) < 2:
        talk(agent, 1)
    before = agent.queue.state().summary.split("\n")
    edit_by_hand(agent.vault, "core/human.yaml", block("human", BULKY, limit=9000)["core/human.yaml"])
    edit_by_hand(agent.vault, "core/more.yaml", block("more", BULKY[:1400], limit=9000)["core/more.yaml"])
    talk(agent, 2)
    after = agent.queue.state().summary.split("\n")
    assert len(after) < len(before) and agent.model.count_text("\n".join(after)) <= room(agent) // 4
    agent.close()


@pytest.mark.parametrize("summary", ["", "zebra " * 400, "The quarterly budget exceeded expectations entirely."])
def test_useless_summary_is_replaced_by_first_sentences(make_agent: MakeAgent, summary: str) -> None:
    """An empty, endless or unrelated summary is not kept: code writes the first sentence of each evicted message."""
    agent = talker(make_agent, summary=summary)
    while not flushes(agent):
        talk(agent, 1)
    kept = agent.queue.state().summary
    assert "2026-11-29 user: What is number 0 zq0zq?\n" in kept and "zebra" not in kept and "budget" not in kept
    assert agent.model.count_text(kept) <= agent.vault.settings.summary_tokens
    agent.close()


def test_summary_is_a_file_that_a_person_may_edit(make_agent: MakeAgent) -> None:
    """A summary rewritten by hand is in the next prompt, and is what the next flush folds in."""
    agent = talker(make_agent, summary="They spoke of porridge with plums and pears.")
    while not flushes(agent):
        talk(agent, 1)
    text = (agent.vault.read("queue.yaml") or "").replace("porridge with plums", "pancakes with cherries")
    edit_by_hand(agent.vault, "queue.yaml", text)
    while len(flushes(agent)) < 2:
        talk(agent, 1)
    model = cast(Talker, agent.model)
    assert any("pancakes with cherries" in text for text in prompts_of(agent) if "# Functions" in text)
    assert "Old summary:\nThey spoke of pancakes with cherries and pears.\n" in model.summaries[1]
    agent.close()


def test_queue_edited_while_the_summary_is_written_keeps_the_edit(make_agent: MakeAgent) -> None:
    """A person's summary, saved at the very moment of a flush, is not written over."""
    agent = talker(make_agent)
    model = cast(Talker, agent.model)

    def edit(turns: Sequence[Turn]) -> str:
        if turns[0].content.startswith(SUMMARY):
            text = (agent.vault.read("queue.yaml") or "").replace('summary: ""', "summary: Mine, plums and all.")
            edit_by_hand(agent.vault, "queue.yaml", text)
            return "They spoke of porridge with plums and pears."
        return Talker._reply(model, turns)

    model._replies = iter(lambda: edit, None)
    while not flushes(agent):
        talk(agent, 1)
    assert agent.queue.state().summary == "Mine, plums and all."
    assert agent.queue.state().evicted > 0
    agent.close()


def test_first_sentences_keep_the_newest_within_the_budget() -> None:
    """The summary without a model takes a sentence of each message; too long, it keeps what the person said last."""
    when = datetime(2026, 11, 29, tzinfo=UTC)
    texts = [("user", "My dog is four. He barks!"), ("call", "{}"), ("result", "ok"), ("assistant", "好的。再见。")]
    messages = [Message(str(n), when, cast(MessageRole, role), text) for n, (role, text) in enumerate(texts)]
    assert first_sentences("Old.", messages, lambda text: True) == (
        "Old.\n2026-11-29 user: My dog is four.\n2026-11-29 assistant: 好的。"
    )
    assert first_sentences("Old.", messages, lambda text: len(text) < 60) == "Old.\n2026-11-29 user: My dog is four."
    assert first_sentences("Old.", messages, lambda text: len(text) < 36) == "2026-11-29 user: My dog is four."
    assert first_sentences("Old.", messages, lambda text: not text) == ""


# -- the flush itself -----------------------------------------------------------------------------------------------

ROLES = st.lists(
    st.sampled_from(["user", "assistant", "call", "system", "alert"]).flatmap(
        lambda role: st.just(("call", "result") if role == "call" else (role,))
    ),
    max_size=12,
).map(lambda groups: [role for group in groups for role in group])


@settings(max_examples=60, deadline=None)
@given(ROLES, st.integers(0, 400))
def test_flush_keeps_what_belongs_together(roles: list[str], target: int) -> None:
    """Any queue: the oldest go, a call goes with its result, what stays never starts with a result, it shrinks."""
    when = datetime(2026, 11, 29, tzinfo=UTC)
    messages = [
        Message(
            f"m{n}", when, "system" if role == "alert" else cast(MessageRole, role), ALERT if role == "alert" else "x"
        )
        for n, role in enumerate(roles)
    ]
    queue = QueueManager.__new__(QueueManager)  # a flush looks at nothing but the messages
    queue.messages = lambda state: [m for m in messages if m.ref in state.messages]  # type: ignore[method-assign]
    state = QueueState("old", tuple(m.ref for m in messages), True, 7, 3)
    new, evicted = queue.flush(state, lambda s: 30 * len(s.messages), target, lambda old, gone: f"{old}+{len(gone)}")
    kept = [message for message in messages if message not in evicted]
    events = [n for n, role in enumerate(roles) if role in ("user", "system")]
    start = 1 if events and events[-1] == 0 else 0  # the newest event is the oldest message: its calls go
    assert evicted == messages[start : start + len(evicted)] and new.messages == tuple(m.ref for m in kept)
    assert not events or messages[events[-1]] in kept
    assert all(message.role != "result" or kept[n - 1].role == "call" for n, message in enumerate(kept))
    if not evicted:
        assert new == state
        assert len(messages) <= start or roles[start:] in (["call", "result"], ["assistant"], ["alert"])
        return
    assert (new.summary, new.alerted, new.turn, new.evicted) == (f"old+{len(evicted)}", False, 7, 3 + len(evicted))


def test_question_stays_while_its_own_searches_fill_the_window(make_agent: MakeAgent) -> None:
    """A turn that looks up more than fits loses its oldest look-ups, never what it is about."""

    def look() -> str:
        """Look."""
        return FILLER * 12

    def think(turns: Sequence[Turn]) -> str:
        return "" if turns[0].content.startswith(SUMMARY) else call("look")

    agent = make_agent([think] * 20, functions=[look], window=1024)
    edit_by_hand(agent.vault, "memory.yaml", "window: 1024\nreply_reserve: 256\nmax_steps: 9\n")
    list(agent.run("What is around here, zqfirst?"))
    assert alerts(agent) >= 1 and len(flushes(agent)) >= 2
    deciding = [turns for turns in agent.model.prompts if "# Functions" in turns[0].content]  # type: ignore[attr-defined]
    assert len(deciding) == 8
    for turns in deciding:
        assert any(turn.content.endswith("What is around here, zqfirst?") for turn in turns)


# -- too much at once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["word ", "狗"])
def test_message_larger_than_the_window_is_shown_in_part(make_agent: MakeAgent, letter: str) -> None:
    """One message of 100,000 characters: whole on disk, shown with id and size, the turn goes on, the next one too."""
    agent = talker(make_agent)
    text = (letter * 100_000)[:100_000]
    assert agent.send(text) == "I see, plums and pears."
    stored = next(message for message in agent.recall.all() if message.role == "user")
    assert stored.content == text
    assert f"(message {stored.ref}, 100000 characters, is whole in recall memory)" in prompts_of(agent)[0]
    assert agent.send(HELLO) == "I see, plums and pears."
    agent.close()


class Dear(Talker):
    """A model whose tokenizer needs three tokens for a character, as some do for emoji."""

    def count_text(self, text: str) -> int:
        return 3 * len(text) if "🐕" in text else super().count_text(text)


def test_preview_is_measured_in_tokens(make_agent: MakeAgent) -> None:
    """Where a character costs several tokens, less of it is shown, and the turn goes on."""
    agent = make_agent(window=2048)
    agent.close()
    again = Agent(agent.vault, Dear(2048))
    assert again.send("🐕" * 50_000) == "I see, plums and pears."
    assert again.send(HELLO) == "I see, plums and pears."
    again.close()


@pytest.mark.parametrize("path", ["system.md", "core/human.yaml"])
def test_fixed_part_larger_than_the_window_is_an_error_with_sizes(make_agent: MakeAgent, path: str) -> None:
    """Instructions or blocks that fill the window: one line with the sizes and the file to shorten; nothing is lost."""
    big = "word " * 2000
    files = {"system.md": big} if path == "system.md" else block("human", big.strip(), limit=20_000)
    agent = make_agent([say("Hi.")], files=files, window=1024)
    before = memory_of(agent.vault)
    with pytest.raises(PromptTooLong) as caught:
        agent.send(HELLO)
    line = str(caught.value)
    assert path in line and re.search(r"take \d{4} of 768 tokens", line) and "\n" not in line
    assert memory_of(agent.vault) == before and said(agent) == [("user", HELLO)]
    short = "Remember.\n" if path == "system.md" else "limit: 20000\nvalue: short\n"
    edit_by_hand(agent.vault, path, short)
    assert agent.send(HELLO) == "Hi."


def test_every_role_has_a_place_in_the_prompt(make_agent: MakeAgent) -> None:
    """Each kind of message that recall can hold is shown, and as what it is."""
    agent = make_agent([say("Hi.")])
    when = agent.vault.now()
    messages = [Message(role, when, role, f"text of {role}") for role in get_args(MessageRole)]
    agent.vault.transact(lambda t: agent.queue.push(t, agent.queue.state(), messages), "Fill")
    text = agent.prompt().text
    for shown in ("text of user", '{"message": "text of assistant"}', "text of call", "[result] text of result"):
        assert shown in text
    assert "[system] text of system" in text


def test_emptied_queue_is_an_empty_context(make_agent: MakeAgent) -> None:
    """A person may delete queue.yaml: nothing is in context, all is in recall, the talk goes on."""
    agent = make_agent([say("One."), say("Two.")])
    agent.send(HELLO)
    (agent.vault.root / "queue.yaml").unlink()
    assert queued(agent) == [] and len(said(agent)) == 2
    assert agent.send("Hello again.") == "Two."
    assert [message.content for message in queued(agent)] == ["Hello again.", "Two."]


def test_message_deleted_from_recall_by_hand_leaves_the_context(make_agent: MakeAgent) -> None:
    """A reference whose message a person took out of the day file is passed over."""
    agent = make_agent([say("One."), say("Two.")])
    agent.send("Hello, zqgone.")
    path = "recall/2026/11/2026-11-29.md"
    text = agent.vault.read(path) or ""
    start, end = text.index("## "), text.index("## ", text.index("## ") + 1)
    edit_by_hand(agent.vault, path, text[:start] + text[end:])
    assert agent.send("Hello again.") == "Two."
    assert "zqgone" not in prompts_of(agent)[-1]
