"""How each model family writes a chat: pure text, no tokens.

A prompt is a list of segments: markers, in which the tokenizer may see control tokens, and contents, in which it
never may. The templates that model files ship are not used for the families below: they put today's date into the
prompt, cut contents at think tags, obey words in contents or refuse a system turn. This module knows no tokenizer and
no model file; `template.py` makes a `Family` out of the template of any other file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memory_fs.llm import Role, Turn

Pair = tuple[str, str]


class Segment(NamedTuple):
    """A piece of a prompt that is tokenized by itself."""

    text: str
    marker: bool


@dataclass(frozen=True)
class Family:
    """The markup of one model family.

    Attributes:
        name: the family, for people.
        user, assistant, system: what stands before and after the content of such a turn. `system` is None where the
            family has no system turn; its text then opens the next user turn, with `joint` between the two.
        opening: what opens the reply; an empty thought where the family would think aloud.
        ends: markers that end a reply, besides the end-of-generation tokens that the vocabulary lists.
        bos: whether a prompt starts with the vocabulary's BOS token; None follows the vocabulary's own flag.
        architectures: GGUF architectures of the family.
        signs: texts that the file's chat template must contain; after a `!`, must not.
    """

    name: str
    user: Pair
    assistant: Pair
    opening: str
    system: Pair | None = None
    joint: str = "\n\n"
    ends: tuple[str, ...] = ()
    bos: bool | None = None
    architectures: frozenset[str] = field(default=frozenset(), repr=False)
    signs: tuple[str, ...] = field(default=(), repr=False)

    def around(self, role: Role) -> Pair:
        """What stands before and after a turn of `role`."""
        if role == "assistant":
            return self.assistant
        return self.user if role == "user" or self.system is None else self.system

    def markers(self) -> set[str]:
        """Every marker text of the family."""
        pairs = (self.user, self.assistant, self.system or self.user)
        return {text for pair in (*pairs, self.ends, (self.opening,)) for text in pair if text}

    def fits(self, metadata: Mapping[str, str]) -> bool:
        """Whether a file with this GGUF metadata belongs to the family."""
        template = metadata.get("tokenizer.chat_template", "")
        return metadata.get("general.architecture", "") in self.architectures and all(
            sign[1:] not in template if sign.startswith("!") else sign in template for sign in self.signs
        )


def render(turns: Sequence[Turn], family: Family) -> list[Segment]:
    """The segments of a whole prompt, up to the opening of the reply; none is empty."""
    segments: list[Segment] = []
    for role, parts in _without_system(turns, family):
        before, after = family.around(role)
        segments.append(Segment(before, True))
        segments.extend(Segment(part, False) for part in parts)
        segments.append(Segment(after, True))
    segments.append(Segment(family.opening, True))
    return [segment for segment in segments if segment.text]


def _without_system(turns: Sequence[Turn], family: Family) -> Iterator[tuple[Role, tuple[str, ...]]]:
    """Roles and parts of the turns; a system turn that the family lacks opens the user turn after it."""
    waiting: tuple[str, ...] = ()
    for turn in turns:
        if turn.role == "system" and family.system is None:
            waiting += (*turn.parts, family.joint)
            continue
        if waiting and turn.role == "user":
            yield "user", waiting + turn.parts
        else:
            if waiting:
                yield "user", waiting[:-1]
            yield turn.role, turn.parts
        waiting = ()
    if waiting:
        yield "user", waiting[:-1]


def _headed(head: str, names: Mapping[Role, str], middle: str, end: str) -> dict[Role, Pair]:
    """Turns that are written as `head`, the role's name, `middle`, the content, `end`."""
    return {role: (f"{head}{name}{middle}", end) for role, name in names.items()}


_NAMES: dict[Role, str] = {"system": "system", "user": "user", "assistant": "assistant"}
_MODEL: dict[Role, str] = {**_NAMES, "assistant": "model"}
_CHATML = _headed("<|im_start|>", _NAMES, "\n", "<|im_end|>\n")
_PHI_4 = _headed("<|im_start|>", _NAMES, "<|im_sep|>", "<|im_end|>")
_PHI_4_MINI = _headed("<|", _NAMES, "|>", "<|end|>")
_LLAMA_3 = _headed("<|start_header_id|>", _NAMES, "<|end_header_id|>\n\n", "<|eot_id|>")
_LLAMA_3["system"] = (f"{_LLAMA_3['system'][0]}Cutting Knowledge Date: December 2023\n\n", _LLAMA_3["system"][1])
_GRANITE = _headed("<|start_of_role|>", _NAMES, "<|end_of_role|>", "<|end_of_text|>\n")
_GEMMA_3 = _headed("<start_of_turn>", {"user": "user", "assistant": "model"}, "\n", "<end_of_turn>\n")
_GEMMA_4 = _headed("<|turn>", _MODEL, "\n", "<turn|>\n")
_SMOLLM_3_HEAD = (
    "## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: /no_think\n\n## Custom Instructions\n\n"
)
_SMOLLM_3: dict[Role, Pair] = {
    "system": (f"<|im_start|>system\n{_SMOLLM_3_HEAD}", "\n\n<|im_end|>\n"),
    "user": _CHATML["user"],
    "assistant": ("<|im_start|>assistant\n<think>\n\n</think>\n", "<|im_end|>\n"),
}
_MINISTRAL: dict[Role, Pair] = {
    "system": ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "user": ("[INST]", "[/INST]"),
    "assistant": ("", "</s>"),
}


def _family(
    name: str,
    turns: Mapping[Role, Pair],
    end: str,
    architectures: str = "",
    *signs: str,
    thought: str = "",
    bos: bool | None = None,
) -> Family:
    return Family(
        name=name,
        system=turns.get("system"),
        user=turns["user"],
        assistant=turns["assistant"],
        opening=turns["assistant"][0] + thought,
        ends=(end,),
        bos=bos,
        architectures=frozenset(architectures.split()),
        signs=signs,
    )


_NO_THOUGHT = "<think>\n\n</think>\n\n"

CHATML = _family("chatml", _CHATML, "<|im_end|>")
PLAIN = _family("plain", _headed("### ", {"user": "User", "assistant": "Assistant"}, ":\n", "\n\n"), "### User:")

FAMILIES: tuple[Family, ...] = (
    _family("qwen2.5", _CHATML, "<|im_end|>", "qwen2 qwen2moe", "<|im_start|>", "!<think>"),
    _family("qwen3", _CHATML, "<|im_end|>", "qwen3 qwen3moe", "<|im_start|>", "<think>", thought=_NO_THOUGHT),
    _family("qwen3-instruct", _CHATML, "<|im_end|>", "qwen3 qwen3moe", "<|im_start|>", "!<think>"),
    _family("qwen3.5", _CHATML, "<|im_end|>", "qwen35 qwen35moe", "<|im_start|>", thought=_NO_THOUGHT),
    _family("gemma3", _GEMMA_3, "<end_of_turn>", "gemma3 gemma3n", "<start_of_turn>", bos=True),
    _family("gemma4", _GEMMA_4, "<turn|>", "gemma4", "<|turn>", thought="<|channel>thought\n<channel|>", bos=True),
    _family("llama3.2", _LLAMA_3, "<|eot_id|>", "llama", "<|start_header_id|>", "!<think>", bos=True),
    _family("lfm2", _CHATML, "<|im_end|>", "lfm2 lfm2moe", "<|im_start|>", bos=True),
    _family("smollm2", _CHATML, "<|im_end|>", "llama", "<|im_start|>", "SmolLM"),
    _family("smollm3", _SMOLLM_3, "<|im_end|>", "smollm3", "<|im_start|>"),
    _family("phi-4", _PHI_4, "<|im_end|>", "phi3 llama", "<|im_sep|>", "!<think>"),
    _family("phi-4-mini", _PHI_4_MINI, "<|end|>", "phi3", "|>' + message['content'] + '<|end|>'", bos=False),
    _family("granite4", _GRANITE, "<|end_of_text|>", "granite granitemoe granitehybrid", "<|start_of_role|>"),
    _family("ministral", _MINISTRAL, "</s>", "mistral3 llama", "[SYSTEM_PROMPT]", bos=True),
)


def choose(metadata: Mapping[str, str]) -> Family | None:
    """The family of a model file, from its GGUF metadata; None when it is none of those known here."""
    return next((family for family in FAMILIES if family.fits(metadata)), None)
