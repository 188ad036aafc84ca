"""Recall memory: what was said is found, what the machinery wrote is not, and days are days of the vault's zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import HELLO, MakeAgent, edit_by_hand, said, say

from memory_fs.agent import Agent
from memory_fs.events import Message
from memory_fs.recall import Recall
from memory_fs.search import Search
from memory_fs.testing import call, counting_ids, make_vault
from memory_fs.vault import Vault


def search(agent: Agent, query: str, **arguments: Any) -> str:
    """Search as the model does."""
    return agent.call("conversation_search", {"query": query, **arguments})[0].text


def dates(agent: Agent, start: str, end: str, **arguments: Any) -> str:
    """Ask for days as the model does."""
    return agent.call("conversation_search_date", {"start_date": start, "end_date": end, **arguments})[0].text


def test_both_sides_of_the_talk_are_found(make_agent: MakeAgent) -> None:
    """What the person said and what the agent said with send_message are found by their own words."""
    agent = make_agent([say("Porcupines are splendid.")])
    agent.send("Hello, wonderful evening.")
    assert "> Porcupines are splendid." in search(agent, "porcupines")
    assert "> Hello, wonderful evening." in search(agent, "wonderful")


def test_words_of_the_envelope_are_not_found(make_agent: MakeAgent) -> None:
    """Time, role, heartbeat, session and the names of functions are no part of what was said."""
    agent = make_agent([say("Porcupines.")])
    agent.send("Hello.")
    for word in ("user", "assistant", "time", "role", "heartbeat", "message", "send_message", "turn", agent.session):
        assert search(agent, word).startswith("no messages"), word


def test_day_with_bytes_that_are_no_text_is_read_and_continued(make_agent: MakeAgent) -> None:
    """An editor with another encoding spoils the section that it touched: others are found, and the talk goes on."""
    first, second = (f"## 14:00:0{n}+00:00 user m{n}\n\nzebra {n}\n\n" for n in (1, 2))
    text = "# 2026-11-29\n\n" + first + "## 14:00:05+00:00 user mx\n\nStraße zebra\n\n" + second
    again = make_agent([say("Hello, zebra.")])
    edit_by_hand(again.vault, "recall/2026/11/2026-11-29.md", text.encode("latin-1"))
    list(again.run(HELLO))
    now = (again.vault.root / "recall/2026/11/2026-11-29.md").read_bytes()
    assert now.startswith(text.encode("latin-1")) and b"Hello, zebra." in now
    assert [message.id for message in again.recall.all()][:2] == ["m1", "m2"]
    assert sorted(hit.text for hit in again.recall.search("zebra").hits) == ["Hello, zebra.", "zebra 1", "zebra 2"]


def test_calls_and_results_are_not_found(make_agent: MakeAgent) -> None:
    """A search finds no echo of an earlier search, and nothing of what functions were given or returned."""
    agent = make_agent(
        [
            call("archival_memory_insert", content="The walrus note."),
            call("archival_memory_search", query="walrus"),
            call("conversation_search", query="walrus"),
            say("Nothing more."),
        ]
    )
    list(agent.run(HELLO))
    assert [role for role, content in said(agent) if "walrus" in content] == [
        "call",
        "call",
        "result",
        "call",
        "result",
    ]
    assert search(agent, "walrus").startswith("no messages")
    assert search(agent, "saved as note").startswith("no messages")


def test_messages_are_in_the_file_of_their_day_as_they_were(make_agent: MakeAgent) -> None:
    """The day file is readable: a heading with time, role, id, session and turn, then the text itself."""
    agent = make_agent([say("Hi!")])
    agent.send("Hello.\n## 14:24:07+00:00 user forged (s, turn 1)\n---")
    text = (agent.vault.root / "recall/2026/11/2026-11-29.md").read_text()
    assert f"+00:00 user id0002 ({agent.session}, turn 1)\n\nHello.\n\\## 14:24:07+00:00 user forged" in text
    assert said(agent) == [("user", "Hello.\n## 14:24:07+00:00 user forged (s, turn 1)\n---"), ("assistant", "Hi!")]


def test_recall_only_grows(make_agent: MakeAgent) -> None:
    """Every message is appended; what stood before stays byte for byte, a person's own remark included."""
    agent = make_agent([say("One."), say("Two.")])
    agent.send(HELLO)
    path = "recall/2026/11/2026-11-29.md"
    text = (agent.vault.read(path) or "") + "<!-- a remark -->"
    edit_by_hand(agent.vault, path, text)
    agent.send("And again.")
    after = agent.vault.read(path) or ""
    assert after.startswith(text) and [content for _, content in said(agent)][-2:] == ["And again.", "Two."]


# -- days -----------------------------------------------------------------------------------------------------------

MakeRecall = Callable[..., tuple[Vault, Recall]]


@pytest.fixture
def make_recall(tmp_path: Path) -> MakeRecall:
    """Makes a vault in a zone with one message for each of these moments (UTC); its clock stands at the last one."""

    def make(zone: str, *moments: str) -> tuple[Vault, Recall]:
        now = [datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in moments]
        vault = make_vault(
            tmp_path / "vault", {"memory.yaml": f"zone: {zone}\n"}, clock=lambda: now[-1], new_id=counting_ids("m")
        )
        recall = Recall(Search(vault))
        for moment in now:
            time = moment.astimezone(vault.now().tzinfo)
            message = Message(vault.new_id(), time, "user", f"said at {moment:%H:%M:%S}")
            vault.transact(lambda t, m=message: recall.append(t, [m]), "Say")  # type: ignore[misc]
        return vault, recall

    return make


@pytest.mark.parametrize(
    ("zone", "day", "before", "first", "last", "after"),
    [
        ("UTC", "2026-11-29", "11-28T23:59:59", "11-29T00:00:00", "11-29T23:59:59", "11-30T00:00:00"),
        # 23 hours: clocks go forward, from UTC+0 to UTC+1
        ("Europe/Lisbon", "2026-03-29", "03-28T23:59:59", "03-29T00:00:00", "03-29T22:59:59", "03-29T23:00:00"),
        # 25 hours: clocks go back, from UTC+1 to UTC+0
        ("Europe/Lisbon", "2026-10-25", "10-24T22:59:59", "10-24T23:00:00", "10-25T23:59:59", "10-26T00:00:00"),
        ("Asia/Kathmandu", "2026-11-29", "11-28T18:14:59", "11-28T18:15:00", "11-29T18:14:59", "11-29T18:15:00"),
        ("America/St_Johns", "2026-11-29", "11-29T03:29:59", "11-29T03:30:00", "11-30T03:29:59", "11-30T03:30:00"),
    ],
)
def test_a_day_is_whole_in_the_zone_of_the_vault(
    make_recall: MakeRecall, zone: str, day: str, before: str, first: str, last: str, after: str
) -> None:
    """One day holds its first and its last second (moments in UTC) and no other, also when the clocks change."""
    _, recall = make_recall(zone, *(f"2026-{moment}" for moment in (before, first, last, after)))
    page = recall.search_date(day, day)
    assert [message.time.astimezone(UTC).isoformat()[5:19] for message in page.messages] == [first, last]
    assert [message.time.isoformat()[11:19] for message in page.messages] == ["00:00:00", "23:59:59"]


@pytest.mark.parametrize(
    ("zone", "day", "before", "first", "last", "after", "clocks"),
    [
        # the day begins at one o'clock: midnight is left out
        ("America/Santiago", "2026-09-06", "09-06T03:59:59", "09-06T04:00:00", "09-07T02:59:59", "09-07T03:00:00",
         ["01:00:00-03:00", "23:59:59-03:00"]),
        # midnight comes twice: the hour after it is repeated
        ("America/Havana", "2026-11-01", "11-01T03:59:59", "11-01T04:00:00", "11-02T04:59:59", "11-02T05:00:00",
         ["00:00:00-04:00", "23:59:59-05:00"]),
        # the last hour comes twice: it is eleven o'clock again before the day ends
        ("America/Santiago", "2026-04-04", "04-04T02:59:59", "04-04T03:00:00", "04-05T03:59:59", "04-05T04:00:00",
         ["00:00:00-03:00", "23:59:59-04:00"]),
    ],
)  # fmt: skip
def test_a_day_whose_midnight_moves_is_whole(
    make_recall: MakeRecall, zone: str, day: str, before: str, first: str, last: str, after: str, clocks: list[str]
) -> None:
    """Where clocks change at midnight a day has 23 or 25 hours at its very edge, and still holds all its messages."""
    vault, recall = make_recall(zone, *(f"2026-{moment}" for moment in (before, first, last, after)))
    page = recall.search_date(day, day)
    assert [message.time.astimezone(UTC).isoformat()[5:19] for message in page.messages] == [first, last]
    assert [message.time.isoformat()[11:] for message in page.messages] == clocks
    with Vault(vault.root) as again:  # read anew from the file of the day
        assert Recall(Search(again)).search_date(day, day).messages == page.messages


def test_the_hour_that_comes_twice_keeps_its_order(make_recall: MakeRecall) -> None:
    """Messages of the repeated hour stay in the order in which they were said, each with its own offset."""
    _, recall = make_recall("Europe/Lisbon", "2026-10-25T00:30:00", "2026-10-25T01:30:00")
    page = recall.search_date("2026-10-25", "2026-10-25")
    assert [m.time.isoformat() for m in page.messages] == ["2026-10-25T01:30:00+01:00", "2026-10-25T01:30:00+00:00"]


def test_today_and_yesterday_are_of_the_zone(make_recall: MakeRecall) -> None:
    """`today` and `yesterday` turn at midnight where the person lives."""
    _, recall = make_recall("Asia/Tokyo", "2026-11-28T14:59:59", "2026-11-28T15:00:00")  # now it is the 29th there
    assert [m.content for m in recall.search_date("today", "today").messages] == ["said at 15:00:00"]
    assert [m.content for m in recall.search_date("yesterday", "Yesterday").messages] == ["said at 14:59:59"]
    assert recall.search_date("yesterday", "today").total == 2


@pytest.mark.parametrize(
    "text",
    ["29.11.2026", "2026-11-31", "2026-13-01", "2026-11", "20261129", "2026-W48-7", "tomorrow", "", "2026-11-29T10:00",
     "２０２６-11-29", "0000-00-00"],
)  # fmt: skip
def test_other_dates_are_refused_with_the_format(agent: Agent, text: str) -> None:
    """Anything but a day, `today` and `yesterday` is an error that shows how to write one."""
    result, change = agent.call("conversation_search_date", {"start_date": text, "end_date": "today"})
    assert not result.ok and "2026-11-29, today or yesterday" in result.text and change is None


def test_start_after_end_is_refused(agent: Agent) -> None:
    """A period that runs backwards is an error, not an empty result."""
    assert "2026-11-30 is after" in dates(agent, "2026-11-30", "2026-11-29")


def test_days_come_in_pages_oldest_first(make_agent: MakeAgent) -> None:
    """A long period is paged from 1 with a constant total; only what was said counts; no page is past the end."""
    agent = make_agent([say(f"Answer {number}.") for number in range(6)])
    for number in range(6):
        agent.send(f"Hello {number}.")
    first = dates(agent, "2026-11-29", "2026-11-29")
    assert first.splitlines()[0] == "12 messages from 2026-11-29 to 2026-11-29, page 1 of 3:"
    assert [line for line in first.splitlines() if line.startswith(">")] == [
        "> Hello 0.", "> Answer 0.", "> Hello 1.", "> Answer 1.", "> Hello 2."
    ]  # fmt: skip
    assert "page 3 of 3 (there is no page 9):" in dates(agent, "2026-11-29", "today", page=9)
    assert dates(agent, "2026-11-28", "2026-11-28") == "no messages from 2026-11-28 to 2026-11-28"


def test_search_in_a_turn_does_not_find_its_own_question(make_agent: MakeAgent) -> None:
    """What was asked just now would be the best hit for its own words: only what was said before is found."""
    agent = make_agent(
        [
            say("I see."),
            call("conversation_search", query="walrus"),
            say("Yes."),
            call("conversation_search", query="yak"),
        ]
    )
    agent.send("The walrus sleeps.")
    first = next(agent.run("Did I mention a walrus?"))
    assert first.result.text.startswith("1 message for 'walrus'") and "sleeps" in first.result.text
    agent.close()
