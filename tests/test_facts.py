"""What is saved is one fact a line; what somebody tells in Chinese, in their own words."""

from __future__ import annotations

import pytest
from conftest import MakeAgent, say

from memory_fs.policy import facts, one_a_line
from memory_fs.testing import call


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        ("你好！我叫王芳，在银行上班。", ["我叫王芳", "在银行上班"]),
        ("我有一只猫，叫咪咪。", ["我有一只猫，叫咪咪"]),
        ("我喜欢喝茶，不喜欢咖啡。你呢？", ["我喜欢喝茶", "不喜欢咖啡"]),
        ("我叫李雷。今年三十岁。", ["我叫李雷", "今年三十岁"]),
        ("谢谢，就这些。", []),
        ("我的猫叫什么？", []),
        ("I have a cat, called Milo.", []),
        ("My friend is 王芳.", []),
        ("我喜欢喝茶。" * 80, []),  # a text of this length is a document
        ("", []),
    ],
)
def test_facts_are_clauses(said: str, lines: list[str]) -> None:
    """A comma parts facts, what refers back stays with what it names; questions, thanks and other scripts give none."""
    assert facts(said) == lines


def test_an_append_keeps_every_word_of_a_chinese_message(make_agent: MakeAgent) -> None:
    """Whatever the model writes, the lines are the person's; a fact that is there already is not said twice."""
    append = call("core_memory_append", missing="saving a new fact", label="human", content="金毛。")
    agent = make_agent([append, say("好的。"), append, say("好的。")])
    agent.send("我养了一只金毛，叫豆豆。")
    assert agent.core.block("human").value == "我养了一只金毛，叫豆豆"
    agent.send("我养了一只金毛，叫豆豆，住在杭州。")
    assert agent.core.block("human").value == "我养了一只金毛，叫豆豆\n住在杭州"


def test_an_english_append_is_the_models(make_agent: MakeAgent) -> None:
    """The model's words stand where it rewords well."""
    append = call("core_memory_append", missing="saving a new fact", label="human", content="Name: Chad.")
    agent = make_agent([append, say("Hello.")])
    agent.send("My name is Chad.")
    assert agent.core.block("human").value == "Name: Chad."


def test_an_append_of_two_sentences_makes_two_lines(make_agent: MakeAgent) -> None:
    """Each fact stands in a line of its own, and can be replaced without the other; so it is in a replace."""
    told = call("core_memory_append", missing="saving a new fact", label="human", content="Name: Bo. Lives in Ghent.")
    moved = call(
        "core_memory_replace",
        missing="correcting a line",
        label="human",
        old_content="Lives in Ghent.",
        new_content="Lives in Bruges. Works there.",
    )
    agent = make_agent([told, say("Hello."), moved, say("Good.")])
    agent.send("I'm Bo and I live in Ghent.")
    assert agent.core.block("human").lines == ["Name: Bo.", "Lives in Ghent."]
    agent.send("I moved to Bruges and work there.")
    assert agent.core.block("human").lines == ["Name: Bo.", "Lives in Bruges.", "Works there."]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Name: Nora. Plays the cello.", ["Name: Nora.", "Plays the cello."]),
        ("Dr. Hale is a dentist. He works in Bruges.", ["Dr. Hale is a dentist.", "He works in Bruges."]),
        ("Mrs. J. Osei runs 3.5 km; see a.osei@example.org", ["Mrs. J. Osei runs 3.5 km; see a.osei@example.org"]),
        ("Lives in Porto.", ["Lives in Porto."]),
    ],
)
def test_statements_become_lines_of_their_own(text: str, lines: list[str]) -> None:
    """A sentence that a model wrote behind another is a line, so that each can be replaced; titles end none."""
    assert one_a_line(text) == lines
