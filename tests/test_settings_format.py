"""memory.yaml and queue.yaml: what a person may write there, and what is said when it cannot be used."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_fs.errors import FormatError
from memory_fs.formats.settings import QueueState, Settings, parse_queue, parse_settings, render_queue

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


# -- memory.yaml ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "\ufeff", "window:\n", "window: null\n"])
def test_what_is_not_said_keeps_its_default(text: str) -> None:
    """An empty file, a lone remark and a key without a value mean the defaults."""
    assert parse_settings(text) == Settings()


def test_every_setting_can_be_changed() -> None:
    """Each key of the file reaches the settings; a whole number is good enough for a share."""
    text = """
model: some-model          # a remark
window: 2048
reply_reserve: 256
pressure: 0.8
flush_to: 0.4
summary_tokens: 100
max_steps: 3
max_failures: 1
page_size: 10
heartbeat: requested
functions: [send_message, core_memory_append]
without: [prefetch, clock]
working_set: 0.3
max_faults: 2
zone: Asia/Kathmandu
temperature: 1
seed: 7
"""
    expected = Settings(
        model="some-model", window=2048, reply_reserve=256, pressure=0.8, flush_to=0.4, summary_tokens=100, max_steps=3,
        max_failures=1, page_size=10, heartbeat="requested", functions=("send_message", "core_memory_append"),
        without=("prefetch", "clock"), working_set=0.3, max_faults=2, zone="Asia/Kathmandu", temperature=1.0, seed=7,
    )  # fmt: skip
    for variant in (text, text.replace("\n", "\r\n"), "\ufeff" + text):
        assert parse_settings(variant) == expected
    assert all(getattr(expected, name) != value for name, value in vars(Settings()).items() if name != "warnings")


def test_starter_file_says_what_the_defaults_are() -> None:
    """The memory.yaml of a new vault shows every setting with its default."""
    text = (files("memory_fs.starter") / "memory.yaml").read_text(encoding="utf-8")
    assert parse_settings(text) == Settings()
    assert set(re.findall(r"(?m)^(\w+):", text)) == set(vars(Settings())) - {"warnings"}


@pytest.mark.parametrize(
    "line",
    ["window: many", "window: 511", "window: 4096.5", "window: true", "window: [4096]", "reply_reserve: 63",
     "reply_reserve: 3000", "pressure: 0", "pressure: 1", "pressure: .nan", "pressure: high", "flush_to: 1.5",
     "summary_tokens: 0", "max_steps: 0", "max_steps: 101", "max_failures: 0", "page_size: 0", "heartbeat: never",
     "heartbeat: yes", "functions: send_message", "functions: [1]", "zone: Mars/Olympus", "zone: ../../etc/passwd",
     "zone: 5", "temperature: -1", "temperature: .inf", "seed: x", "model: 5", "model: {a: b}", "a: &x 1", "a: *x",
     "a: !!python/object/apply:os.system ['true']", "window: [", "\tx: 1"],
)  # fmt: skip
def test_unusable_value_is_refused_with_its_line(line: str) -> None:
    """A value of the wrong kind, out of range or active is an error that names file and line."""
    with pytest.raises(FormatError) as caught:
        parse_settings(f"# settings\n{line}\n", "memory.yaml")
    assert re.match(r"memory\.yaml:[23]:", str(caught.value)) and "\n" not in str(caught.value)


def test_unknown_and_repeated_keys_are_reported() -> None:
    """A misspelt key changes nothing and is named with its line; of a repeated one the first counts."""
    found = parse_settings("windoww: 2048\nseed: 1\nseed: 2\n")
    assert replace(found, warnings=()) == Settings(seed=1)
    assert len(found.warnings) == 2 and "line 1: unknown setting `windoww`" in found.warnings[1]
    assert "line 3" in found.warnings[0]


# -- queue.yaml -----------------------------------------------------------------------------------------------------

STATES = st.builds(
    QueueState,
    summary=TEXT,
    messages=st.lists(st.from_regex(r"\A2026-11-\d\d/[a-z0-9_-]{1,8}\Z"), max_size=5).map(tuple),
    alerted=st.booleans(),
    turn=st.integers(0, 10**9),
    evicted=st.integers(0, 10**9),
)


@settings(max_examples=60)
@given(STATES)
def test_any_state_comes_back(state: QueueState) -> None:
    """Whatever the summary holds, the queue that is written is the queue that is read."""
    assert parse_queue(render_queue(state)) == state


def test_queue_file_is_readable() -> None:
    """The summary stands as a block of text and the messages one to a line, below a remark that explains the file."""
    text = render_queue(QueueState("Chad lives in Porto.\nHe has a dog.", ("2026-11-29/a", "2026-11-29/b"), True, 7, 3))
    assert text.startswith("# What is in context.")
    assert text.endswith("""
turn: 7
evicted: 3
alerted: true
summary: |
  Chad lives in Porto.
  He has a dog.
messages:
  - 2026-11-29/a
  - 2026-11-29/b
""")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("", QueueState()),
        ("summary: They met.\n", QueueState("They met.")),
        ("summary: 42\n", QueueState("42")),
        ("summary: yes\n", QueueState("yes")),
        ("summary: 2026-11-29\n", QueueState("2026-11-29")),
        ("summary: |\n  a\n  b\nmessages:\n", QueueState("a\nb")),
        ("\ufeffmessages: [2026-11-29/a]\r\nmood: x\r\n", QueueState(messages=("2026-11-29/a",))),
        ("alerted: maybe\nturn:\n", QueueState()),
    ],
)
def test_queue_that_a_person_edited_is_read(text: str, state: QueueState) -> None:
    """Missing keys, unknown keys, one-line summaries and the person's own characters are taken as they are."""
    assert parse_queue(text) == state


@pytest.mark.parametrize(
    "line", ["messages: a", "turn: -1", "turn: x", "turn: true", "evicted: 1.5", "summary: [a]", "summary: *x"]
)
def test_unusable_queue_is_refused_with_its_line(line: str) -> None:
    """A key of the wrong kind is an error that names file and line, so that nothing is written over it."""
    with pytest.raises(FormatError, match=r"\Aqueue\.yaml:2:"):
        parse_queue(f"# queue\n{line}\n", "queue.yaml")
