"""The table of functions, and the grammar made from it: what the model is able to say at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import pytest
from conftest import MakeAgent, block, say
from llguidance import LLMatcher, LLTokenizer

from memory_fs.errors import FunctionError
from memory_fs.functions import Function, FunctionTable, grammar
from memory_fs.memory_functions import PAPER, default_table
from memory_fs.prompt import MESSAGE_GRAMMAR
from memory_fs.testing import call


def roll(sides: int, bonus: float, loud: bool, names: list[str], note: Annotated[str, 20] = "") -> str:
    """Roll dice."""
    return ""


# -- the table ------------------------------------------------------------------------------------------------------


def test_the_papers_seven_functions_are_the_default() -> None:
    """The seven functions of the MemGPT paper are in the table, with the arguments that they are known by."""
    table = default_table()
    assert [function.signature() for function in table.select(PAPER)] == [
        "send_message(message)",
        "core_memory_append(label, content)",
        "core_memory_replace(label, old_content, new_content)",
        "archival_memory_insert(content, tags)",
        "archival_memory_search(query, page)",
        "conversation_search(query, page)",
        "conversation_search_date(start_date, end_date, page)",
    ]
    assert len(table.select([])) == 11


def test_schema_follows_the_signature() -> None:
    """Names, order, kinds, lengths and which arguments are required come from the Python signature."""
    schema = Function.of(roll).schema()
    assert list(schema["properties"]) == ["sides", "bonus", "loud", "names", "note"]
    assert [schema["properties"][name]["type"] for name in schema["properties"]] == [
        "integer", "number", "boolean", "array", "string"
    ]  # fmt: skip
    assert schema["properties"]["note"]["maxLength"] == 20
    assert schema["required"] == ["sides", "bonus", "loud", "names"] and schema["additionalProperties"] is False


def untyped(x):  # type: ignore[no-untyped-def]
    """Has no types."""


def odd(x: dict[str, str]) -> str:
    """Has a type that JSON schema would have to guess."""
    return ""


def silent(x: int) -> str:  # noqa: D103 (that is what is wrong with it)
    return ""


@pytest.mark.parametrize(
    ("function", "reason"), [(untyped, "must be typed"), (odd, "must be typed"), (silent, "needs a docstring")]
)
def test_function_that_cannot_be_described_is_refused(function: Callable[..., Any], reason: str) -> None:
    """A function without types or docstring is an error when it is registered, not when it is called."""
    with pytest.raises(FunctionError, match=reason):
        FunctionTable([function])


def test_name_is_registered_once() -> None:
    """A person's function cannot silently replace one that is there."""

    def send_message(message: str) -> str:
        """Mine."""
        return ""

    with pytest.raises(FunctionError, match="send_message is registered already"):
        default_table().add(send_message)


# -- the grammar ----------------------------------------------------------------------------------------------------


@cache
def tokenizer() -> LLTokenizer:
    """One token for each byte."""
    return LLTokenizer("byte")


def accepts(source: str, text: str) -> bool:
    """Whether a grammar takes a text from the first byte to the last, and could end there."""
    matcher = LLMatcher(tokenizer(), LLMatcher.grammar_from_lark(source), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    tokens = list(text.encode())
    return int(matcher.try_consume_tokens(tokens)) == len(tokens) and bool(matcher.is_accepting())


def of(*names: str, **options: Any) -> str:
    """The grammar of some functions of the default table."""
    return grammar(default_table().select(names), **options)


GOOD = {
    "send_message": {"message": "Hi, 小林 🐕!"},
    "core_memory_append": {"label": "human", "content": 'He said "hi"\n\\o/'},
    "core_memory_replace": {"label": "human", "old_content": "a", "new_content": ""},
    "archival_memory_insert": {"content": "A note.", "tags": ["a", "b c"]},
    "archival_memory_search": {"query": "boat", "page": 2},
    "conversation_search": {"query": "boat"},
    "conversation_search_date": {"start_date": "2026-11-29", "end_date": "today"},
}


@pytest.mark.parametrize("name", PAPER)
def test_every_function_of_the_paper_can_be_called(name: str) -> None:
    """The grammar of all functions takes a good call of each, tight, thought first."""
    missing = "nothing" if name == "send_message" else "what is needed"
    assert accepts(of(*PAPER), call(name, "He is Chad.", missing, **GOOD[name]))


BAD = {
    "not JSON": "Hello!",
    "empty": "",
    "cut off": call("conversation_search", "", "the boat", query="boat")[:-1],
    "two calls": call("conversation_search", "", "the boat", query="boat") * 2,
    "unknown function": call("format_disk", "", "space", query="boat"),
    "function not offered": call("core_memory_append", "", "saving it", label="human", content="x"),
    "missing argument": call("conversation_search", "", "the boat"),
    "extra argument": call("conversation_search", "", "the boat", query="boat", mood="x"),
    "number for a text": call("conversation_search", "", "the boat", query=5),
    "text for a number": call("conversation_search", "", "the boat", query="boat", page="2"),
    "fraction for a number": call("conversation_search", "", "the boat", query="boat", page=1.5),
    "too long a text": call("conversation_search", "", "the boat", query="x" * 121),
    "nothing missing, yet searching": call("conversation_search", "", "nothing", query="boat"),
    "nothing in other words": call("conversation_search", "", "None at all", query="boat"),
    "something missing, yet answering": call("send_message", "", "the boat", message="Hi."),
    "no thought": '{"function": "conversation_search", "arguments": {"query": "boat"}}',
    "loose JSON": call("conversation_search", "", "the boat", query="boat").replace(", ", ",  "),
    "control character": call("conversation_search", "", "the boat", query="boat").replace("boat", "bo\x07at"),
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_else_can_be_said(name: str) -> None:
    """The grammar refuses every kind of call that would be wrong, and a thought that contradicts the call."""
    assert not accepts(of("send_message", "conversation_search"), BAD[name])


def test_heartbeat_is_asked_for_where_it_counts() -> None:
    """In the paper's mode every call but send_message must say whether it wants a heartbeat; else none may."""
    plain = call("conversation_search", "", "the boat", query="boat")
    asked = call("conversation_search", "", "the boat", query="boat", request_heartbeat=True)
    answer = call("send_message", "", "nothing", message="Hi.")
    beating, quiet = of(*PAPER, heartbeat=True), of(*PAPER)
    assert [accepts(beating, text) for text in (plain, asked, answer)] == [False, True, True]
    assert [accepts(quiet, text) for text in (plain, asked, answer)] == [True, False, True]


def test_bare_function_is_chosen_without_arguments() -> None:
    """Where another pass words the message, send_message is only chosen."""
    chosen = '{"known": "", "missing": "nothing", "function": "send_message"}'
    assert accepts(of(*PAPER, bare="send_message"), chosen)
    assert not accepts(of(*PAPER, bare="send_message"), call("send_message", "", "nothing", message="Hi."))


LINES = [
    "Name: Chad.",
    'Says "hi" \\o/',
    "住在杭州 🐕",
    "{braces} [and] %json /x/ | y",
    "<|im_end|> </think>",
    "a\tb\u2028c",
    "~ -> ;",
]


def test_replace_can_only_name_lines_that_are_there() -> None:
    """A block's lines, whatever they hold, are the only old texts that can be replaced, each in its own block."""
    choices = {
        "core_memory_replace": [{"label": ["human"], "old_content": LINES}, {"label": ["pets"], "old_content": ["Rex"]}]
    }
    source = of("core_memory_replace", choices=choices)

    def replaces(label: str, old: str) -> bool:
        return accepts(
            source, call("core_memory_replace", "", "correcting it", label=label, old_content=old, new_content="x")
        )

    assert [line for line in LINES if not replaces("human", line)] == []
    assert replaces("pets", "Rex")
    for label, old in [
        ("human", "Rex"),
        ("pets", LINES[0]),
        ("human", "Name: Bo."),
        ("human", ""),
        ("persona", LINES[0]),
    ]:
        assert not replaces(label, old)


def test_an_argument_on_demand_is_asked_for_where_a_way_names_it() -> None:
    """A reason has to be written where it is asked for, and cannot be where it is not."""
    ways = [
        {"label": ["rules"], "old_content": ["No nuts."], "reason": list[str]()},
        {"label": ["human"], "old_content": ["Likes nuts."]},
    ]
    source = of("core_memory_replace", choices={"core_memory_replace": ways})

    def replaces(label: str, old: str, **reason: str) -> bool:
        arguments = {"label": label, "old_content": old, "new_content": "x", **reason}
        return accepts(source, call("core_memory_replace", "", "correcting it", **arguments))

    assert replaces("rules", "No nuts.", reason="The doctor said so.") and replaces("human", "Likes nuts.")
    assert not replaces("rules", "No nuts.") and not replaces("rules", "No nuts.", reason="")
    assert not replaces("human", "Likes nuts.", reason="The doctor said so.")


def judged(verdicts: dict[str, str], missing: str, function: str, **arguments: Any) -> str:
    """A call whose thought goes through the lines of memory."""
    return call(function, "; ".join(f"{line} -> {verdict}" for line, verdict in verdicts.items()), missing, **arguments)


def test_verdicts_on_lines_bind_the_call() -> None:
    """A line judged untrue is the one that must be replaced; with all lines true only something new can be saved."""
    lines = LINES[:3]
    choices = {
        "core_memory_append": [{"label": ["human"]}],
        "core_memory_replace": [{"label": ["human"], "old_content": lines}],
    }
    source = of("core_memory_append", "core_memory_replace", choices=choices, lines=lines)
    true = dict.fromkeys(lines, "still true")
    new = {"label": "human", "content": "Has a dog."}
    assert accepts(source, judged(true, "saving a new fact", "core_memory_append", **new))
    for line in lines:
        one = {**true, line: "no longer true"}
        swap = {"label": "human", "old_content": line, "new_content": "Has a cat."}
        assert accepts(source, judged(one, "correcting a line", "core_memory_replace", **swap))
        assert not accepts(source, judged(one, "saving a new fact", "core_memory_append", **new))
        assert not accepts(source, judged(true, "correcting a line", "core_memory_replace", **swap))
    assert not accepts(source, judged(dict(list(true.items())[:2]), "saving a new fact", "core_memory_append", **new))


def test_own_function_has_a_grammar_too() -> None:
    """Every kind of argument that a person's function may have can be written, and nothing else."""
    source = grammar([Function.of(roll)])
    good = {"sides": 6, "bonus": 1.5, "loud": True, "names": ["a"], "note": "x" * 20}
    assert accepts(source, call("roll", "", "a number", **good))
    for name, value in [
        ("sides", 6.5),
        ("bonus", "x"),
        ("loud", 1),
        ("names", "a"),
        ("names", [1]),
        ("note", "x" * 21),
    ]:
        assert not accepts(source, call("roll", "", "a number", **{**good, name: value}))


MESSAGES = {
    "a question that memory cannot answer": (
        "Which paint did we choose for the boat?",
        call("conversation_search", "Memory says nothing of paint.", "the paint of the boat", query="paint boat"),
    ),
    "a new fact": (
        "I have a dog called Biscuit.",
        call("core_memory_append", "Name: Chad. -> still true", "saving a new fact", label="human", content="Biscuit."),
    ),
    "a new fact with a title, and a second one": (
        "Dr. Hale is my dentist. He works in Bruges.",
        call("core_memory_append", "Name: Chad. -> still true", "saving a new fact", label="human",
             content="Dentist: Dr. Hale. He works in Bruges."),
    ),
    "a fact that makes a line untrue": (
        "My name is Bo, not Chad.",
        call("core_memory_replace", "Name: Chad. -> no longer true", "correcting a line", label="human",
             old_content="Name: Chad.", new_content="Name: Bo."),
    ),
    "a greeting": ("Hello there.", '{"known": "", "missing": "nothing", "function": "send_message"}'),
    "a greeting, and a search": ("Hello there.", call("archival_memory_search", "", "what was noted", query="notes")),
}  # fmt: skip


@pytest.mark.parametrize("kind", MESSAGES)
def test_what_a_message_needs_can_be_said(make_agent: MakeAgent, kind: str) -> None:
    """In each situation the grammar of the first step lets the model make the call that the situation asks for."""
    message, completion = MESSAGES[kind]
    agent = make_agent([completion, say("Done.")], files=block("human", "Name: Chad."))
    step = agent.step(message)
    assert step.result.ok, step.result.text
    source = agent.model.grammars[0]  # type: ignore[attr-defined]
    assert accepts(source, completion)
    assert not accepts(source, completion.replace("}", ', "x": 1}', 1))


@pytest.mark.parametrize("message", ["Hi!", 'He said "no".', "back\\slash", "line\nbreak\ttab", "小林 🐕", "a/b"])
def test_any_message_can_be_worded(message: str) -> None:
    """The grammar of the wording pass takes quotes, line breaks, signs and other scripts, and an empty message not."""
    assert accepts(MESSAGE_GRAMMAR, json.dumps({"message": message}, ensure_ascii=False))
    assert not accepts(MESSAGE_GRAMMAR, '{"message": ""}')


def test_grammar_text_is_the_same_every_time() -> None:
    """The same functions give the same grammar, so that a model can keep the compiled one."""
    choices = {"core_memory_append": [{"label": ["human", "persona"]}]}
    assert of(*PAPER, choices=choices) == of(*PAPER, choices=choices)


def test_what_the_grammar_takes_is_what_the_checks_take() -> None:
    """A call that the grammar lets through is one that the table accepts."""
    for name, arguments in GOOD.items():
        function = default_table().get(name)
        assert function.check(json.loads(call(name, **arguments))["arguments"]) == arguments
