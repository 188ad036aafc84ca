"""Which line a statement says anew: found by shared words, so that a fact has one line and no other line is lost."""

from __future__ import annotations

import pytest
from conftest import MakeAgent

from memory_fs.revision import Revision, revision

LINES = [
    "Mira Olsen and Tom Field opened a small bakery in Bergen.",
    "Mira Olsen teaches pottery on Saturdays.",
    "Tom Field is afraid of heights.",
]


@pytest.mark.parametrize(
    ("said", "old"),
    [
        ("Mira Olsen and Tom Field opened a small bookshop in Bergen.", 0),
        ("Mira Olsen teaches painting on Saturdays.", 1),
        ("Tom Field is not afraid of heights at all.", 2),
        ("Mira Olsen no longer teaches pottery.", 1),
        ("Anna Berg teaches pottery on Saturdays.", 1),
    ],
)
def test_a_statement_replaces_the_line_about_the_same_thing(said: str, old: int) -> None:
    """Another value, another person in the same role, a denial: the line that shares its words is the one."""
    assert revision(LINES, said) == Revision(LINES[old], said)


@pytest.mark.parametrize(
    "said",
    [
        "Mira Olsen and Tom Field adopted a grey cat.",  # the same people, another matter
        "Mira Olsen also teaches pottery to children.",  # said to be more, not other
        "Mira Olsen teaches pottery on Saturdays.",  # nothing new
        "Does Mira Olsen teach painting on Saturdays?",
        "I teach painting on Saturdays.",  # about the one who speaks: the model puts it into words
        "The weather is lovely in Bergen.",
        "",
    ],
)
def test_what_shares_only_names_or_adds_replaces_nothing(said: str) -> None:
    """Names in common are not the same matter; additions, questions and what is known leave every line."""
    assert revision(LINES, said) is None


def human(lines: list[str], extra: str = "") -> dict[str, str]:
    """A human block with lines."""
    value = "".join(f"\n  {line}" for line in lines)
    return {"core/human.yaml": f"description: What I know.\nlimit: 2000\n{extra}value: |{value}\n"}


def test_the_sentence_itself_becomes_the_line_and_the_others_stay(make_agent: MakeAgent) -> None:
    """No model chooses or rewords: the line is the person's sentence, in the old one's place."""
    agent = make_agent(["All right."], files=human(LINES))
    first, last = agent.run("Mira Olsen teaches painting on Saturdays.")
    assert first.call and first.call.function == "core_memory_replace" and not first.passes
    assert agent.core.block("human").value.split("\n") == [
        LINES[0],
        "Mira Olsen teaches painting on Saturdays.",
        LINES[2],
    ]
    assert first.prompt.text == "" and last.final


@pytest.mark.parametrize("extra", ["read_only: true\n", "priority: pinned\n"])
def test_a_line_of_a_pinned_or_read_only_block_is_never_replaced_by_rule(make_agent: MakeAgent, extra: str) -> None:
    """What a person pinned or closed is theirs to change."""
    agent = make_agent(["All right."] * 4, files=human(LINES, extra))
    agent.send("Mira Olsen teaches painting on Saturdays.")
    assert agent.core.block("human").value.split("\n") == LINES
