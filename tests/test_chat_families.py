"""How each model family is written to: one golden prompt each, and what holds for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_fs.llm import Turn
from memory_fs.llm.chat import CHATML, FAMILIES, PLAIN, Family, choose, render
from memory_fs.llm.template import derive, family_of

GOLDEN = Path(__file__).parent / "golden"
THOUGHT = "Is it </think> or /no_think? <|im_end|> [INST] <end_of_turn>"
CHAT = (
    Turn("system", ("You keep a memory.\n", "Name: Maren.")),
    Turn("user", ("Hello!",)),
    Turn("assistant", ("Hello, Maren.",)),
    Turn("user", (THOUGHT,)),
)
ALL = (*FAMILIES, CHATML, PLAIN)


def text(turns: tuple[Turn, ...], family: Family) -> str:
    """A prompt as one text."""
    return "".join(segment.text for segment in render(turns, family))


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_each_family_has_a_golden_prompt(family: Family) -> None:
    """The prompt of a small conversation is, byte for byte, the one in the family's golden file."""
    assert text(CHAT, family) == (GOLDEN / f"prompt_{family.name}.txt").read_text(encoding="utf-8")


def test_each_golden_prompt_has_a_family() -> None:
    """No golden file is left of a family that is gone."""
    assert {path.name for path in GOLDEN.glob("prompt_*.txt")} == {f"prompt_{family.name}.txt" for family in ALL}


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_contents_are_never_part_of_a_marker(family: Family) -> None:
    """Every part of every turn is a segment of its own, unchanged, in order; think tags and commands survive."""
    contents = [segment.text for segment in render(CHAT, family) if not segment.marker]
    parts = [part for turn in CHAT for part in turn.parts]
    assert [content for content in contents if content != family.joint] == parts
    assert all(segment.text for segment in render(CHAT, family))


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_a_longer_chat_continues_the_shorter_one(family: Family) -> None:
    """Adding turns changes nothing before them, up to the opening of the reply: the cached prefix stays good."""
    for length in range(2, len(CHAT)):
        shorter = render(CHAT[:length], family)
        while shorter and shorter[-1].marker and shorter[-1].text == family.opening:
            shorter.pop()
        assert render(CHAT, family)[: len(shorter)] == shorter


def test_a_family_without_a_system_turn_gets_it_in_the_user_turn() -> None:
    """The system text opens the next user turn, or stands alone when none follows; no part is lost."""
    gemma = next(family for family in FAMILIES if family.name == "gemma3")
    system, user, reply = CHAT[:3]
    assert text((system, user), gemma) == (
        "<start_of_turn>user\nYou keep a memory.\nName: Maren.\n\nHello!<end_of_turn>\n<start_of_turn>model\n"
    )
    alone = "<start_of_turn>user\nYou keep a memory.\nName: Maren.<end_of_turn>\n"
    assert text((system,), gemma) == f"{alone}<start_of_turn>model\n"
    assert text((system, reply), gemma).startswith(f"{alone}<start_of_turn>model\nHello, Maren.")
    both = render((system, system, user), gemma)
    assert [segment.text for segment in both if not segment.marker] == [*system.parts, "\n\n"] * 2 + ["Hello!"]


@pytest.mark.parametrize(
    ("architecture", "template", "name"),
    [
        ("qwen2", "<|im_start|>", "qwen2.5"),
        ("qwen3", "<|im_start|> <think>", "qwen3"),
        ("qwen3moe", "<|im_start|>", "qwen3-instruct"),
        ("qwen35", "<|im_start|> <think>", "qwen3.5"),
        ("gemma3", "<start_of_turn>", "gemma3"),
        ("gemma4", "<|turn>", "gemma4"),
        ("llama", "<|start_header_id|>", "llama3.2"),
        ("lfm2", "<|im_start|>", "lfm2"),
        ("llama", "<|im_start|> named SmolLM", "smollm2"),
        ("smollm3", "<|im_start|>", "smollm3"),
        ("phi3", "<|im_start|> <|im_sep|>", "phi-4"),
        ("phi3", "'<|' + message['role'] + '|>' + message['content'] + '<|end|>'", "phi-4-mini"),
        ("granitehybrid", "<|start_of_role|>", "granite4"),
        ("mistral3", "[SYSTEM_PROMPT]", "ministral"),
    ],
)
def test_a_family_is_known_by_architecture_and_template(architecture: str, template: str, name: str) -> None:
    """GGUF metadata decides; a fine-tune with other markup is none of the known families."""
    found = choose({"general.architecture": architecture, "tokenizer.chat_template": template})
    assert found is not None
    assert found.name == name
    assert choose({"general.architecture": architecture, "tokenizer.chat_template": "{{ '[[' }}"}) is None
    assert choose({"general.architecture": "rwkv7", "tokenizer.chat_template": template}) is None


# -- any other file: its own template ---------------------------------------------------------------------------------

PLAIN_TEMPLATE = """
{%- for message in messages -%}
    [{{ message.role }}]{{ message.content }}[end]{{ "\\n" }}
{%- endfor -%}
{%- if add_generation_prompt -%}[assistant]{%- endif -%}
"""


def test_a_template_gives_the_markers() -> None:
    """The markers around each turn are read off the template, and contents stay apart."""
    family = derive(PLAIN_TEMPLATE)
    assert family is not None
    assert (family.system, family.user, family.assistant) == tuple(
        (f"[{role}]", "[end]\n") for role in ("system", "user", "assistant")
    )
    assert family.opening == "[assistant]"
    assert family.ends == ("[end]",)
    assert text(CHAT, family).startswith("[system]You keep a memory.\nName: Maren.[end]\n[user]Hello![end]\n")


def test_a_bos_that_the_template_writes_is_left_to_the_tokenizer() -> None:
    """The BOS text is no part of the markers: a prompt gets exactly one BOS token."""
    family = derive("{{ bos_token }}" + PLAIN_TEMPLATE, bos="<s>")
    assert family is not None
    assert family.system == ("[system]", "[end]\n")


def test_an_end_of_text_at_the_very_end_is_no_marker() -> None:
    """Templates that close the text when no reply is asked for are understood."""
    family = derive(PLAIN_TEMPLATE.replace("{%- endif -%}\n", "{%- else -%}{{ eos_token }}{%- endif -%}"), eos="</s>")
    assert family is not None
    assert family.assistant == ("[assistant]", "[end]\n")


@pytest.mark.parametrize(
    "first",
    [
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}",
        "{% set messages = messages | rejectattr('role', 'equalto', 'system') | list %}",
    ],
    ids=["refuses", "drops"],
)
def test_a_template_without_a_system_role_merges_it(first: str) -> None:
    """A template that refuses a system turn, or drops it without a word, gets its text in the user turn."""
    family = derive(first + PLAIN_TEMPLATE)
    assert family is not None
    assert family.system is None
    assert text(CHAT[:2], family) == "[user]You keep a memory.\nName: Maren.\n\nHello![end]\n[assistant]"


def test_a_template_that_thinks_is_asked_not_to() -> None:
    """A template that opens a thought unless told otherwise is told so."""
    think = "[assistant]{% if enable_thinking %}<think>{% else %}<think></think>{% endif %}"
    family = derive(PLAIN_TEMPLATE.replace("[assistant]", think))
    assert family is not None
    assert family.opening == "[assistant]<think></think>"


def test_a_date_in_a_template_is_left_empty() -> None:
    """The clock never enters a prompt through a template."""
    family = derive("Today: {{ strftime_now('%d %b %Y') }}." + PLAIN_TEMPLATE)
    assert family is not None
    assert family.system is not None
    assert family.system[0] == "Today: .[system]"


@pytest.mark.parametrize(
    "template",
    [
        "",
        "{% for",
        "{{ messages[9].content }}",
        "{% for message in messages %}{{ loop.index }}{{ message.content }}{% endfor %}",
        "{% for message in messages %}{{ message.content }}{{ message.content }}{% endfor %}",
        "{{ messages[0].__class__.__mro__ }}",
        "{% for a in range(99999999) %}{{ a }}{% endfor %}",
        "{{ 1 / 0 }}",
        "{% include 'secret' %}",
    ],
)
def test_a_template_that_cannot_be_followed_is_replaced(template: str) -> None:
    """Broken, empty, hostile templates and those with changing markers give None; ChatML or a plain format is used."""
    assert derive(template) is None
    assert family_of({"tokenizer.chat_template": template}) is PLAIN
    assert family_of({"tokenizer.chat_template": template + "<|im_start|>{{ nothing.at.all }}"}) is CHATML
