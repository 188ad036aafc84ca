"""Everyday conversations: what is read, what counts as right, what counts as said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memory_fs.bench.everyday import figures, judged, read, run, supported
from memory_fs.errors import MemoryFsError
from memory_fs.testing import ScriptedModel, call

OWN = Path(__file__).parent / "data" / "everyday.jsonl"
TALK = {"id": "a", "messages": ["My dog is called Rex.", "Who is Rex?"], "answers": {"1": {"right": ["dog"]}}}


def test_forty_conversations_are_half_chinese() -> None:
    """The conversations that come with the tests can be read; half of them are Chinese, and all ask something."""
    found = read(OWN)
    assert len(found) == 40 and sum(one["id"].startswith("zh") for one in found) == 20
    assert all(one["answers"] for one in found)


@pytest.mark.parametrize("answers", [{"2": {"right": ["x"]}}, {"1": {"right": []}}, {"1": ["x"]}])
def test_an_answer_to_no_message_is_refused(tmp_path: Path, answers: object) -> None:
    """Answers must belong to a message and say what is right."""
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps({**TALK, "answers": answers}), encoding="utf-8")
    with pytest.raises(MemoryFsError, match="row 1: `answers` must be"):
        read(path)


def test_a_wrong_word_spoils_a_right_answer() -> None:
    """A reply that has the old value beside the new one is wrong."""
    way = {"right": ["September"], "wrong": ["June"]}
    assert judged("In September.", way)
    assert not judged("In June, no, in September.", way)
    assert not judged("Soon.", way)


def test_a_line_is_supported_by_the_words_of_the_user() -> None:
    """A line may name the kind of a fact, and has no other word that was not said."""
    assert supported("Name: Nora, plays the cello.", ["I'm Nora and I play the cello."])
    assert not supported("Nora plays the violin.", ["I'm Nora and I play the cello."])
    assert not supported("住在上海", ["我住在杭州"])


def test_answers_and_lines_are_counted(tmp_path: Path) -> None:
    """A conversation is held with the real loop; its figures and a line of the log tell what came of it."""
    instructions = ["", ""]  # are read before the first message, in both slots
    append = call("core_memory_append", label="human", content="Dog: Rex, a poodle.")
    model = ScriptedModel([*instructions, append, '{"message": "Nice."}', '{"message": "Rex is your dog."}'])
    log = tmp_path / "log.jsonl"
    rows = run(model, [TALK], lambda line: None, log)
    assert rows == [json.loads(line) | {"talk": rows[0]["talk"]} for line in log.read_text().splitlines()]
    assert (rows[0]["right"], rows[0]["asked"], rows[0]["supported"], rows[0]["saved"]) == (1, 1, 0, 1)
    assert figures(rows)["right"] == "1.000"
