"""What somebody tells in Chinese is saved in their own words, one fact a line."""

from __future__ import annotations

import pytest
from conftest import MakeAgent, say

from memory_fs.policy import facts
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
