"""Word forms by themselves, neighbours in a real vault, and the benchmark of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from memory_fs.bench.retrieval import run, turns
from memory_fs.cli import app
from memory_fs.english import root
from memory_fs.recall import Recall
from memory_fs.search import Search
from memory_fs.testing import make_vault

CONVERSATION = {
    "speaker_a": "Ana",
    "speaker_b": "Ben",
    "session_1_date_time": "11:59 pm on 8 May, 2023",
    "session_1": [
        {"speaker": "Ana", "dia_id": "D1:1", "text": "Which city did you visit?"},
        {"speaker": "Ben", "dia_id": "D1:2", "text": "I went to Porto."},
    ],
    "session_2_date_time": "9:00 am on 1 June, 2023",
    "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "The kittens are asleep."}],
}
QUESTIONS = [
    {"question": "Where did Ben go?", "evidence": ["D1:02"], "category": 4},
    {"question": "When does the kitten sleep?", "evidence": ["D2:1; D1:1"], "category": 2},
    {"question": "Does Ben fly?", "evidence": ["D1:2"], "category": 5},
    {"question": "Who is it?", "evidence": ["D"], "category": 1},
]


@pytest.fixture
def locomo(tmp_path: Path) -> Path:
    """A file as LoCoMo has it, of one short conversation."""
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([{"conversation": CONVERSATION, "qa": QUESTIONS}]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "forms",
    [
        "live lives lived living",
        "dog dogs",
        "city cities",
        "study studies studied studying",
        "plan plans planned planning",
        "play plays played playing",
        "pass passes passed passing",
        "box boxes",
        "go goes going went gone",
        "buy buys buying bought",
        "agree agrees agreed agreeing",
        "child children",
        "try tries tried trying",
    ],
)
def test_forms_of_a_word_have_one_root(forms: str) -> None:
    """Plural, third person, past and -ing come to the same root, by rule or from the list."""
    assert len({root(form) for form in forms.split()}) == 1, [root(form) for form in forms.split()]


@pytest.mark.parametrize(
    "words", ["nation national", "bring br", "thing th", "need ne", "bus bu", "glass glas", "red r", "sky ski"]
)
def test_other_words_stay_apart(words: str) -> None:
    """What only looks like an ending is none, and endings that make another word are left."""
    first, second = words.split()
    assert root(first) != root(second)


@given(st.text())
def test_a_root_is_never_empty_and_only_words_have_another(token: str) -> None:
    """Any text has a root; what is not in plain small letters is its own."""
    assert bool(root(token)) == bool(token)
    if not (token.isascii() and token.isalpha() and token.islower()):
        assert root(token) == token


def test_neighbours_end_where_the_session_or_the_day_ends(tmp_path: Path) -> None:
    """The turn after a match is lifted; one that another session begins with is not."""
    heading = "## 10:00:0{n}+00:00 user m{n} (s{s}, turn {n})\n\n{text}\n\n"
    said = [
        (1, "s", "We took the ferry."),
        (2, "s", "Porto was hot."),
        (3, "t", "Porto was wet."),
        (4, "t", "Goodbye."),
    ]
    text = "# 2026-11-29\n\n" + "".join(heading.format(n=n, s=s, text=t) for n, s, t in said)
    with make_vault(tmp_path / "vault") as vault:
        place = vault.root / "recall/2026/11/2026-11-29.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        search = Search(vault)
        scores = {hit.id: hit.score for hit in Recall(search).search("ferry Porto").hits}
        alone = {hit.id: hit.score for hit in Recall(search).search("Porto").hits}
        search.close()
    assert set(scores) == {"m1", "m2", "m3"}
    assert scores["m2"] > alone["m2"] and scores["m3"] == alone["m3"]


def test_turns_keep_their_day_their_speaker_and_an_id_that_files_can_hold() -> None:
    """A session that passes midnight stays on its day, the first speaker is the user, `D1:2` becomes `D1-2`."""
    messages = list(turns(CONVERSATION))
    assert [(m.id, m.role, m.content[:4]) for m in messages][:2] == [
        ("D1-1", "user", "Ana:"),
        ("D1-2", "assistant", "Ben:"),
    ]
    assert {f"{m.time:%Y-%m-%d}" for m in messages} == {"2023-05-08", "2023-06-01"}


def test_the_benchmark_counts_the_share_of_evidence_by_category(locomo: Path) -> None:
    """One row a category that was asked, and one for all; questions without answer or evidence are not asked."""
    rows = {row["questions of"]: row for row in run(locomo)}
    assert {name: row["questions"] for name, row in rows.items()} == {"temporal": 1, "single-hop": 1, "all": 2}
    assert rows["single-hop"]["recall@5"] == 1.0
    assert rows["temporal"]["recall@10"] == 0.5
    assert rows["all"]["recall@10"] == 0.75


def test_the_benchmark_prints_a_table_or_json(locomo: Path) -> None:
    """`bench retrieval` prints the rows as a table, and with --json as one document."""
    plain = CliRunner().invoke(app, ["bench", "retrieval", str(locomo), "--limit", "1"])
    assert plain.exit_code == 0 and "| single-hop" in plain.output
    printed = CliRunner().invoke(app, ["bench", "retrieval", str(locomo), "--json"])
    assert json.loads(printed.output)[-1]["questions of"] == "all"
