"""The questions of the experiments: how memory is set up for them, and what counts as right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memory_fs.bench import core_read, core_update, dmr, doc_qa, nested_kv, opener
from memory_fs.bench.data import rows
from memory_fs.bench.question import Outcome, Question
from memory_fs.errors import MemoryFsError

FACTS = ["Ana is a nurse.", "Ana lives in Braga.", "Ana has two sons."]
UPDATE = {
    "answer": "teacher (at school)",
    "facts": FACTS,
    "new_fact": "Ana works as a teacher.",
    "stale_fact_indices": [0],
}


def lines(path: Path, *found: Any) -> Path:
    """Write a JSON lines file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in found), encoding="utf-8")
    return path


def right(question: Question, reply: str = "", human: tuple[str, ...] = ()) -> float:
    """How right a reply, or a block, is."""
    return question.judge(Outcome(reply, human=human))["right"]


def test_values_are_keys_as_often_as_the_level_says() -> None:
    """Following the chain from the key that is asked for takes level + 1 notes and ends at the answer."""
    for question in nested_kv.task(seed=1, orderings=2).questions:
        pairs = dict(note.text.removeprefix("key: ").split(", value: ") for note in question.setting.notes)
        assert len(pairs) == 140
        (key,) = [key for key in pairs if key in question.text]
        steps = 0
        while key in pairs:
            key, steps = pairs[key], steps + 1
        assert ((key,), str(steps - 1)) == (question.answers, question.level)


def test_nested_pairs_are_seeded() -> None:
    """One seed gives the same questions again, another one others; the first questions are of all levels."""
    first, same, other = (nested_kv.task(seed=seed, orderings=1).questions for seed in (1, 1, 2))
    assert [q.text for q in first] == [q.text for q in same] != [q.text for q in other]
    assert [q.level for q in first] == ["0", "1", "2", "3", "4"]


def test_a_value_on_the_way_is_no_answer() -> None:
    """The final value has to be given, and none after it; the way to it may be told before."""
    (question,) = nested_kv.task(levels=[1], orderings=1).questions
    between = next(n.text.split()[-1] for n in question.setting.notes if n.text.split()[1].strip(",") in question.text)
    (final,) = question.answers
    assert right(question, f"It is {between}, whose value is {final}.") == 1
    assert right(question, f"It is {between}.") == right(question, f"{final} or {between}") == right(question) == 0


def test_core_read_puts_facts_into_the_human_block(tmp_path: Path) -> None:
    """Each row is a question with its facts as lines."""
    row = {"question": "What is Ana?", "answer": "nurse", "facts": FACTS}
    (question,) = core_read.task(lines(tmp_path / "rows", row)).questions
    assert question.setting.human == tuple(FACTS)
    assert right(question, "She is a nurse.") == 1 and right(question, "I do not know.") == 0


@pytest.mark.parametrize(
    ("human", "figures"),
    [
        (["Ana works as a teacher.", *FACTS[1:]], (1, 1, 1, 1)),
        ([*FACTS[1:], "Ana: teacher."], (1, 1, 1, 1)),
        ([*FACTS, "Ana works as a teacher."], (0, 0, 1, 1)),
        (FACTS[1:], (0, 1, 0, 1)),
        (["Ana works as a teacher.", FACTS[1]], (0, 1, 1, 0.5)),
        (FACTS, (0, 0, 0, 1)),
    ],
)
def test_an_update_is_right_when_only_the_stale_line_went(
    tmp_path: Path, human: list[str], figures: tuple[float, ...]
) -> None:
    """The stale line has to go, the fact to come in whatever words, every other line to stay."""
    (question,) = core_update.task(lines(tmp_path / "rows", UPDATE)).questions
    assert question.text == question.told == "Ana works as a teacher."
    found = question.judge(Outcome("", human=tuple(human)))
    assert tuple(found[name] for name in ("right", "stale gone", "new there", "untouched")) == figures


def passages(tmp_path: Path) -> tuple[Path, Path]:
    """Four passages, two of which answer a question."""
    texts = [{"id": f"p{n}", "title": f"Title {n}", "text": f"one two three {n}"} for n in range(4)]
    asked = [{"question": f"which {n}", "answers": [f"three {n}"], "gold_ids": [f"p{n}"]} for n in (1, 3)]
    return lines(tmp_path / "p", *texts), lines(tmp_path / "q", *asked)


def test_an_archive_shrinks_to_the_notes_that_answer(tmp_path: Path) -> None:
    """Those that answer a question stay however small the archive is to be."""
    for size, kept in ((1, 2), (3, 3), (None, 4)):
        task = doc_qa.task(*passages(tmp_path), notes=size)
        notes = task.questions[0].setting.notes
        assert len(notes) == kept and {"p1", "p3"} <= {note.id for note in notes}
        assert task.variant == f"{kept} notes"
    assert right(task.questions[0], "It is three 1.") == 1


def test_an_archive_grows_by_jumbled_notes(tmp_path: Path) -> None:
    """What is added has the words of the passages under ids of its own, the same for the same seed."""
    first, again = (doc_qa.task(*passages(tmp_path), notes=9, seed=2).questions[0].setting for _ in range(2))
    assert first == again
    added = [note for note in first.notes if note.id.startswith("x")]
    assert len(first.notes) == 9 and len({note.id for note in first.notes}) == 9
    assert all({"one", "two", "three"} < set(note.text.split()) for note in added)


TALK = {
    "speaker_a": "Ana",
    "speaker_b": "Rui",
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_1": [
        {"speaker": "Ana", "dia_id": "D1:1", "text": "I bought a kayak.", "blip_caption": "a red kayak"},
        {"speaker": "Rui", "dia_id": "D1:2", "text": "Nice!"},
    ],
    "session_2_date_time": "12:05 am on 1 June, 2023",
    "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "I sold it."}],
    "session_3_date_time": "12:05 am on 2 June, 2023",
}
ASKED = [
    {"question": "What did Ana buy?", "answer": "kayak", "category": 4},
    {"question": "When?", "answer": 2023, "category": 2},
    {"question": "What did Rui buy?", "adversarial_answer": "kayak", "category": 5},
]


def locomo(path: Path, **changed: Any) -> Path:
    """A small LoCoMo file."""
    path.write_text(
        json.dumps([{"sample_id": "conv_1", "conversation": TALK, "qa": ASKED, **changed}]), encoding="utf-8"
    )
    return path


def test_earlier_sessions_are_recall_memory(tmp_path: Path) -> None:
    """Each turn is a message of its day under its speaker's name; questions without an answer are not asked."""
    task = dmr.task(locomo(tmp_path / "l.json"))
    assert [(q.text, q.answers, q.level) for q in task.questions] == [
        ("What did Ana buy?", ("kayak",), "4"),
        ("When?", ("2023",), "2"),
    ]
    talk = task.questions[0].setting.talk
    assert [(f"{m.time:%Y-%m-%d %H:%M}", m.role, m.content) for m in talk] == [
        ("2023-05-08 13:56", "user", "Ana: I bought a kayak. (shares a picture: a red kayak)"),
        ("2023-05-08 13:56", "assistant", "Rui: Nice!"),
        ("2023-06-01 00:05", "user", "Ana: I sold it."),
    ]


def test_recalled_facts_are_scored_three_ways(tmp_path: Path) -> None:
    """Containment counts as right; exactness and ROUGE-L recall stand beside it."""
    question = dmr.task(locomo(tmp_path / "l.json")).questions[0]
    assert question.judge(Outcome("A kayak.")) == {"right": 1, "exact": 1, "ROUGE-L": 1}
    assert question.judge(Outcome("She bought a kayak.")) == {"right": 1, "exact": 0, "ROUGE-L": 1}
    assert question.judge(Outcome("A boat.")) == {"right": 0, "exact": 0, "ROUGE-L": 0}


def test_an_opener_is_scored_by_the_facts_it_takes_up(tmp_path: Path) -> None:
    """The mean over all facts, the best one, and the best three; the program opens, not the user."""
    (question,) = opener.task(lines(tmp_path / "rows", {"persona": ["likes tea", "has a dog"]})).questions
    assert question.kind == "system" and question.setting.human == ("likes tea", "has a dog")
    assert question.judge(Outcome("Hello! Who likes tea?")) == {"right": 0.5, "best": 1, "best 3": 0.5}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ('{"a": 1}\n{"a":\n', ":2: no JSON"),
        ("[1]\n", ":1: each line must be a JSON object"),
        ('{"b": 1}\n', ":1: `a` is missing"),
        ('{"a": 1}\n\n{"a": "x"}\n', ":3: `a` cannot be 'x'"),
    ],
)
def test_broken_data_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    """What is wrong with a file of rows is one line that names the place."""
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MemoryFsError) as caught:
        rows(path, {"a": int})
    assert str(caught.value).startswith(str(path)) and told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_data_file_is_told(tmp_path: Path) -> None:
    """So is a folder, and a file that is no text."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "bytes"):
        with pytest.raises(MemoryFsError, match="cannot be read"):
            rows(path, {})


@pytest.mark.parametrize("data", [{}, [1], [{"sample_id": "a"}], [{"sample_id": "a", "conversation": {}, "qa": []}]])
def test_other_json_is_no_locomo_file(tmp_path: Path, data: object) -> None:
    """A file of another form is refused in one line."""
    path = tmp_path / "l.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    if data == {}:
        assert dmr.task(path).questions == []
    else:
        with pytest.raises(MemoryFsError, match="no LoCoMo file"):
            dmr.task(path)


@pytest.mark.parametrize("places", [[3], [-1], ["0"]])
def test_stale_lines_are_lines(tmp_path: Path, places: list[object]) -> None:
    """A place that no fact has is refused."""
    with pytest.raises(MemoryFsError, match="row 1: `stale_fact_indices`"):
        core_update.task(lines(tmp_path / "rows", {**UPDATE, "stale_fact_indices": places}))


def test_ids_of_passages_and_facts_of_personas_are_checked(tmp_path: Path) -> None:
    """An id that cannot name a note and a row without facts are refused."""
    bad = lines(tmp_path / "bad", {"id": "../x", "title": "", "text": "t"})
    with pytest.raises(MemoryFsError, match="is no id"):
        doc_qa.task(bad, passages(tmp_path)[1])
    with pytest.raises(MemoryFsError, match="row 1 has no list"):
        opener.task(lines(tmp_path / "o", {"facts": []}))
