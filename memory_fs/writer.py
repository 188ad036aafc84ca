"""The model's short prompts: wording a message, and folding evicted messages into the summary.

Each is a prompt of its own, without functions and thoughts: a small model words best when it has nothing else to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from memory_fs.draft import Draft
from memory_fs.events import Message, clean
from memory_fs.formats.block import Block
from memory_fs.llm import Flag, Model, Piece
from memory_fs.prompt import Prompt, answer_prompt, message_grammar, summary_prompt
from memory_fs.steps import Pass

SLOT = 1  # the model's KV cache for short prompts
TAIL = 3  # messages before the question that the wording pass sees, and up to as many more
FEW = 0.5  # of the summary's budget: the tokens of evicted messages that need no model to be summed up
EVIDENCE = 8  # texts that it sees, the newest


class Writer:
    """Words messages and summaries with one model."""

    def __init__(self, model: Model, cancel: Flag) -> None:
        """Args: model; cancel: ends a completion when set."""
        self._model = model
        self._cancel = cancel

    def warm(self, blocks: Sequence[Block]) -> None:
        """Read what the wording of every message begins with."""
        turns = answer_prompt(blocks, "", (), (), "").turns[:1]
        self._model.complete(turns, max_tokens=1, slot=SLOT, cancel=self._cancel)

    def message(
        self,
        blocks: Sequence[Block],
        summary: str,
        before: Sequence[Message],
        evidence: Sequence[str],
        question: str,
        exact: bool,
        most: int,
        draft: Draft,
    ) -> tuple[str, Pass]:
        """Word the next message to the user from the question and its evidence.

        What does not fit is left out in this order: older talk and the summary, older evidence.

        Args:
            blocks, summary, before, evidence, question, exact: as for `answer_prompt`.
            most: the longest message, tokens.
            draft: takes the message while it is written, and may stop it.
        """
        for tail, shown, chars in ((TAIL, EVIDENCE, 4000), (2, 4, 2000), (0, 1, 600)):
            # The talk starts at a multiple of the tail, so that its beginning stays in the KV cache for some turns.
            talk = before[max(0, (len(before) // tail - 1) * tail) :] if tail else ()
            prompt = answer_prompt(blocks, summary if tail else "", talk, evidence[-shown:], question[:chars], exact)
            if self._room(prompt) >= min(most, 128):
                break
        draft.begin(prompt.text)
        done = self._complete("word", prompt, most, message_grammar(draft.shown), draft)
        if not draft.stopped:
            draft.end()
        if draft.stopped:
            self._cancel.clear()
        return message_in(done.completion.text), done

    def summary(self, summary: str, evicted: Sequence[Message], budget: int) -> tuple[str, Pass | None]:
        """The recursive summary of what was said so far (paper, section 2.2).

        The model's words count when they fit and are about what they sum up; else the first sentence of each message.
        So do these while little was evicted and they fit beside the old summary: in a window that a flush can hardly
        empty, the model would read and write more in each turn than it makes room for.

        Args:
            summary: the old one.
            evicted: what it has to take in.
            budget: tokens.
        """

        def fits(text: str) -> bool:
            return self._model.count_text(text) <= budget

        fallback = first_sentences(summary, evicted, fits)
        spoken = [message for message in evicted if message.role in ("user", "assistant")]
        said = "\n".join(message.content for message in spoken)
        if self._model.count_text(said) <= budget * FEW and fallback == first_sentences(
            summary, evicted, lambda _: True
        ):
            return fallback, None
        prompt = summary_prompt(summary, spoken)
        while spoken and self._room(prompt) < budget:
            spoken = spoken[len(spoken) // 2 + 1 :]
            prompt = summary_prompt(summary, spoken)
        if not spoken:
            return fallback, None
        done = self._complete("summarise", prompt, budget)
        words = clean(done.completion.text.strip())
        return (words if words and fits(words) and is_about(words, summary, spoken) else fallback), done

    def _complete(
        self,
        kind: str,
        prompt: Prompt,
        most: int,
        grammar: str | None = None,
        draft: Draft | None = None,
    ) -> Pass:
        tokens = max(16, min(most, self._room(prompt)))
        completion = self._model.complete(
            prompt.turns,
            grammar=grammar,
            max_tokens=tokens,
            slot=SLOT,
            on_text=MessageStream(draft.add) if draft and draft.watched else None,
            cancel=self._cancel,
        )
        if completion.finish == "cancelled" and not (draft and draft.stopped):
            raise KeyboardInterrupt
        return Pass(kind, prompt, completion)

    def _room(self, prompt: Prompt) -> int:
        return self._model.window - self._model.count(prompt.turns) - 1


def message_in(text: str) -> str:
    """The message in the wording pass's `{"message": "..."}`, also when it was cut off."""
    for end in ("", '"}', "}"):
        try:
            return str(json.loads(text + end)["message"]).strip()
        except (ValueError, KeyError, TypeError):
            continue
    return text.strip()


class MessageStream:
    """Turns the pieces of `{"message": "..."}` into pieces of the message, as soon as they are whole characters."""

    _START = '{"message": "'

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._all = ""
        self._at = len(self._START)
        self._least = 1.0

    def __call__(self, piece: str) -> None:
        """Take the next piece."""
        self._all += piece
        self._least = min(self._least, getattr(piece, "likely", 1.0))
        start, end = self._at, self._at
        while end < len(self._all) and self._all[end] != '"':
            step = 1 if self._all[end] != "\\" else 6 if self._all[end + 1 : end + 2] == "u" else 2
            if end + step > len(self._all):
                break
            end += step
        if end > start:
            self._on_text(Piece(json.loads(f'"{self._all[start:end]}"'), self._least))
            self._least = 1.0
        self._at = end


def is_about(words: str, summary: str, messages: Sequence[Message]) -> bool:
    """Whether a summary shares enough with what it sums up to be one, and does not repeat itself."""
    known = (summary + " " + " ".join(message.content for message in messages)).casefold()
    mine = [word for word in words.casefold().split() if len(word) > 3]
    if not mine:
        return any(char in known for char in words if ord(char) > 0x2E80)
    shared = sum(word.strip(".,;:!?\"'()") in known for word in mine)
    return shared >= len(mine) * 0.4 and len(set(mine)) >= len(mine) * 0.3


_OWN = re.compile(r"\d{4}-\d\d-\d\d assistant: ")  # a line of the agent's
_SENTENCE = re.compile(r".+?(?:[.!?…](?=\s|$)|[。！？]|\n|$)", re.DOTALL)


def first_sentences(summary: str, messages: Sequence[Message], fits: Callable[[str], bool]) -> str:
    """The summary without a model: the old one, then the first sentence of each evicted message, cut to the budget.

    When it gets too long, what the agent said goes first, then what is oldest.

    Args:
        summary: the old summary.
        messages: what was evicted.
        fits: whether a text is within the budget.
    """
    lines = [line for line in summary.split("\n") if line.strip()]
    for message in messages:
        found = _SENTENCE.match(message.content.strip())
        if found and message.role in ("user", "assistant"):
            lines.append(f"{message.time:%Y-%m-%d} {message.role}: {found.group().strip()[:200]}")
    while lines and not fits("\n".join(lines)):
        lines.pop(next((n for n, line in enumerate(lines) if _OWN.match(line)), 0))
    return "\n".join(lines)
