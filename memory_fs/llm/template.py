"""A `Family` out of the chat template that a model file carries, for files of no known family.

The template is run once, in a sandbox, over a small chat whose contents are marks of our own; what stands between the
marks in the result are the family's markers. Later prompts are then rendered by `chat.py`, so that contents stay
apart from the markup for these models too. This module knows Jinja, and no tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memory_fs.llm import Turn
from memory_fs.llm.chat import CHATML, PLAIN, Family, choose, render

_SYSTEM, _FIRST, _REPLY, _SECOND = (f"q7{name}7q" for name in ("alder", "birch", "cedar", "dogwood"))
_CHAT = (
    Turn("system", (_SYSTEM,)),
    Turn("user", (_FIRST,)),
    Turn("assistant", (_REPLY,)),
    Turn("user", (_SECOND,)),
)


def family_of(metadata: Mapping[str, str], bos: str = "", eos: str = "") -> Family:
    """The family of a model file: a known one, else one from its own template, else ChatML or a plain format.

    Args:
        metadata: the file's GGUF metadata.
        bos, eos: the texts of the vocabulary's BOS and EOS tokens.
    """
    known = choose(metadata)
    if known is not None:
        return known
    template = metadata.get("tokenizer.chat_template", "")
    return derive(template, bos, eos) or (CHATML if "<|im_start|>" in template else PLAIN)


def derive(template: str, bos: str = "", eos: str = "") -> Family | None:
    """The family that a Jinja chat template describes; None when no fixed markers explain what it writes."""
    run = _Runner(template, bos, eos)
    return _attempt(run, _CHAT, eos) or _attempt(run, _CHAT[1:], eos)


def _attempt(run: _Runner, chat: tuple[Turn, ...], eos: str) -> Family | None:
    """The family that explains how the template writes this chat; without a system turn it gets none."""
    whole, closed, ended = run(chat), run(chat, opening=False), run(chat[:-1], opening=False)
    if whole is None or closed is None or ended is None:
        return None
    if not whole.startswith(closed):  # some templates write the end of the text when no reply is asked for
        closed, ended = closed.removesuffix(eos), ended.removesuffix(eos)
    family = _from_texts(whole, closed, ended, _SYSTEM in whole) if whole.startswith(closed) else None
    explained = family is not None and "".join(segment.text for segment in render(chat, family)) == whole
    return family if explained else None


def _from_texts(whole: str, closed: str, ended: str, system: bool) -> Family | None:
    """The markers between the marks of three renderings: with the reply's opening, without it, and up to a reply."""
    try:
        head, rest = whole.split(_SYSTEM) if system else ("", whole)
        between, rest = rest.split(_FIRST)
        to_reply, rest = rest.split(_REPLY)
        to_user, _ = rest.split(_SECOND)
        user_after, assistant_after = closed.split(_SECOND)[1], ended.split(_REPLY)[1]
    except ValueError:  # a mark is missing, or stands there twice
        return None
    if not (to_reply.startswith(user_after) and to_user.startswith(assistant_after)):
        return None
    user = (to_user.removeprefix(assistant_after), user_after)
    plain = Family(
        name="template",
        user=user,
        assistant=(to_reply.removeprefix(user_after), assistant_after),
        opening=whole.removeprefix(closed),
        ends=(assistant_after.strip(),) if assistant_after.strip() else (),
    )
    if not system:
        return plain
    if head == user[0]:  # the template itself puts the system text into the first user turn
        return replace(plain, joint=between)
    return replace(plain, system=(head, between.removesuffix(user[0]))) if between.endswith(user[0]) else None


class _Runner:
    """Runs one template; a template that fails gives None."""

    def __init__(self, template: str, bos: str, eos: str) -> None:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self._bos, self._eos = bos, eos
        self._failures = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals.update(raise_exception=_refuse, strftime_now=lambda _form: "")
        try:
            self._template = environment.from_string(template) if template else None
        except TemplateError:
            self._template = None

    def __call__(self, turns: tuple[Turn, ...], opening: bool = True) -> str | None:
        if self._template is None:
            return None
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        try:
            text: str = self._template.render(
                messages=messages,
                add_generation_prompt=opening,
                enable_thinking=False,
                bos_token=self._bos,
                eos_token=self._eos,
                tools=None,
            )
        except self._failures:
            return None
        return text.removeprefix(self._bos)


def _refuse(message: str) -> None:
    raise ValueError(message)
