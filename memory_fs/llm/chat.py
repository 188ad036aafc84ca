"""How each model family writes a chat: pure text, no tokens.

A prompt is a list of segments: markers, which the tokenizer may read as control tokens, and contents, which it never
may. Shipped chat templates are not used for the families below, since they put today's date into the prompt, cut
contents at think tags or refuse a system turn. This module knows no tokenizer and no model file; `template.py` makes
a `Family` for a file that is of none of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from memory_fs.llm import Role, Turn


class Segment(NamedTuple):
    """A piece of a prompt that is tokenized by itself."""

    text: str
    marker: bool


@dataclass(frozen=True)
class Family:
    """The markup of one model family.

    Attributes:
        name: the family, for people.
        system, user, assistant: what stands before and after the content of such a turn. `system` is None where the
            family has no system turn; its text then opens the first user turn.
        opening: what opens the reply, think suppression included.
        ends: markers that end a reply, besides the end-of-generation tokens that the vocabulary lists.
        bos: whether the prompt starts with the vocabulary's BOS token; None follows the vocabulary's own flag.
        joint: what stands between a merged system text and the first user text.
    """

    name: str
    user: tuple[str, str]
    assistant: tuple[str, str]
    opening: str
    system: tuple[str, str] | None = None
    ends: tuple[str, ...] = ()
    bos: bool | None = None
    joint: str = "\n\n"
    architectures: tuple[str, ...] = ()
    hints: tuple[str, ...] = field(default=(), repr=False)

    def markers(self, role: Role) -> tuple[str, str]:
        """What stands before and after a turn of `role`."""
        if role == "system":
            return self.system or self.user
        return self.user if role == "user" else self.assistant


def render(turns: Sequence[Turn], family: Family) -> list[Segment]:
    """The segments of a whole prompt, up to the opening of the reply; no segment is empty."""
    segments: list[Segment] = []
    for role, parts in _merged(turns, family):
        before, after = family.markers(role)
        segments.append(Segment(before, True))
        segments.extend(Segment(part, False) for part in parts)
        segments.append(Segment(after, True))
    segments.append(Segment(family.opening, True))
    return [segment for segment in segments if segment.text]


def _merged(turns: Sequence[Turn], family: Family) -> Iterable[tuple[Role, tuple[str, ...]]]:
    """The turns as roles and parts; a system turn that the family lacks is joined with the user turn after it."""
    waiting: tuple[str, ...] = ()
    for turn in turns:
        if turn.role == "system" and family.system is None:
            waiting += (*turn.parts, family.joint)
        elif waiting and turn.role == "user":
            yield "user", waiting + turn.parts
            waiting = ()
        else:
            if waiting:
                yield "user", waiting[:-1]
                waiting = ()
            yield turn.role, turn.parts
    if waiting:
        yield "user", waiting[:-1]


def _chatml(name: str, **more: object) -> Family:
    start, end = "<|im_start|>", "<|im_end|>\n"
    opening = f"{start}assistant\n{more.pop('think', '')}"
    return Family(
        name=name,
        system=(f"{start}system\n", end),
        user=(f"{start}user\n", end),
        assistant=(f"{start}assistant\n", end),
        opening=opening,
        ends=("<|im_end|>",),
        **more,  # type: ignore[arg-type]
    )


CHATML = _chatml("chatml")

FAMILIES: tuple[Family, ...] = (_chatml("qwen2.5", architectures=("qwen2",), hints=("<|im_start|>",)),)


def choose(metadata: Mapping[str, str]) -> Family | None:
    """The family of a model file, from its GGUF metadata; None when it is of none that is known here."""
    architecture, template = metadata.get("general.architecture", ""), metadata.get("tokenizer.chat_template", "")
    for family in FAMILIES:
        if architecture in family.architectures and all(hint in template for hint in family.hints):
            return family
    return None
