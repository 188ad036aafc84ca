"""Scores of the experiments: what counts as an answer, and how sure a share is."""

from __future__ import annotations

import pytest

from memory_fs.bench.scores import contained, interval, normalised, rouge_l


def test_answers_are_compared_without_case_marks_and_articles() -> None:
    """Two wordings of one answer are the same text once normalised."""
    assert normalised("  The  Under-Butler’s, a “Mr. Carson”!") == "underbutlers mr carson"


@pytest.mark.parametrize(
    ("answers", "reply", "right"),
    [
        (["Lisbon", "Porto"], "You live in PORTO now.", True),
        (["the Beatles"], "It was Beatles!", True),
        (["Lisbon"], "I do not know.", False),
        (["..."], "Anything", False),
        ([], "Anything", False),
    ],
)
def test_a_reply_is_right_when_any_answer_stands_in_it(answers: list[str], reply: str, right: bool) -> None:
    """Containment is what counts; an answer that is empty once normalised is contained in nothing."""
    assert contained(answers, reply) is right


def test_rouge_is_the_share_of_wanted_words_in_order() -> None:
    """Words between the wanted ones cost nothing, another order does."""
    assert rouge_l("likes green tea", "She likes very green tea, I think.") == 1
    assert rouge_l("tea green", "green tea") == 0.5
    assert rouge_l("", "green tea") == rouge_l("tea", "") == 0


def test_interval_is_seeded_and_holds_the_mean() -> None:
    """The same values and seed give the same interval; one value has no width; nothing has none."""
    values = [1.0] * 7 + [0.0] * 3
    low, high = interval(values, seed=3)
    assert (low, high) == interval(values, seed=3)
    assert 0.3 < low < 0.7 < high <= 1.0
    assert interval([1.0]) == (1.0, 1.0)
    assert interval([]) == (0.0, 0.0)
