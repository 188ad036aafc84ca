"""What the model sees, made from what is on disk. Pure: the same texts give the same prompt, byte for byte.

What never changes comes first, so that its tokens stay in the KV cache: system instructions and functions, then core
memory, then the summary, then the queue. Texts from files and messages are content, never markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from memory_fs.events import Message
from memory_fs.formats.block import Block
from memory_fs.functions import Function
from memory_fs.llm import Role, Turn

PREVIEW_CHARS = 1200  # of a message that alone would fill a large part of the window, characters
_HIDDEN = dict.fromkeys((8203, *range(8234, 8239), 8288, *range(8294, 8298), 65279))
_HIDDEN |= dict.fromkeys(range(0xE0000, 0xE0080))
# The zero-width non-joiner is spelling behind letters of the Arabic and the Indic scripts, and hides elsewhere.
_STRAY = re.compile("(?<![\u0600-\u08ff\u0900-\u0dff\ufb50-\ufefc])\u200c")


@dataclass(frozen=True)
class Region:
    """One part of the prompt, for people: its name and its text."""

    name: str
    text: str


@dataclass(frozen=True)
class Prompt:
    """A compiled prompt: what the model is given, and the same by region."""

    turns: tuple[Turn, ...]
    regions: tuple[Region, ...]

    @property
    def text(self) -> str:
        """The whole prompt as plain text."""
        return "\n\n".join(region.text for region in self.regions if region.text)

    def _repr_html_(self) -> str:
        from memory_fs import notebook

        return notebook.prompt(self).html()

    def _repr_markdown_(self) -> str:
        from memory_fs import notebook

        return notebook.prompt(self).markdown()


def compile_prompt(
    instructions: str,
    functions: Sequence[Function],
    blocks: Sequence[Block],
    notes: int,
    evicted: int,
    summary: str,
    messages: Sequence[Message],
    preview: int = PREVIEW_CHARS,
    evidence: Sequence[str] = (),
) -> Prompt:
    """The prompt of the deciding pass.

    Args:
        instructions: system.md.
        functions: those the model may call.
        blocks: core memory, in order.
        notes: how many notes are in archival memory.
        evicted: how many messages are out of context.
        summary: of the evicted messages.
        messages: the queue, oldest first.
        preview: characters shown of a longer message.
        evidence: texts that were paged in, where this pass words the answer, too.
    """
    offered = "\n".join(f"{f.signature()}: {f.doc}" for f in functions)
    system = f"{visible(instructions).strip()}\n\n# Functions\n{offered}"
    core = core_text(blocks)
    counts = f"\nNotes in archival memory: {notes}. Earlier messages, out of context: {evicted}."
    told = f"\n\n# Summary of the earlier conversation\n{visible(summary)}" if summary else ""
    shown = [(message, _shown(message, preview)) for message in messages]
    turns = [Turn("system", (system, "\n\n# Core memory\n" + core + counts, told))]
    turns += [Turn(_turn_role(message), (text,)) for message, text in shown]
    found = "[system] Found in memory:\n" + visible("\n".join(evidence)) if evidence else ""
    turns += [Turn("user", (found,))] if found else []
    regions = [
        Region("system", system),
        Region("core", core + counts),
        Region("summary", told.strip()),
        *(Region(f"queue: {message.role}", text) for message, text in shown),
        *([Region("working set", found)] if found else []),
    ]
    return Prompt(tuple(turns), tuple(regions))


def core_text(blocks: Sequence[Block]) -> str:
    """Core memory as the model sees it: each block with its description, used and limit (characters)."""
    return "\n".join(
        f"[{block.label}] {visible(block.description)} ({block.used}/{block.limit} characters{_marks(block)})\n"
        f"{visible(block.value) or '(empty)'}"
        for block in blocks
    )


def _marks(block: Block) -> str:
    return (", read-only" if block.read_only else "") + (", pinned" if block.pinned else "")


def visible(text: str) -> str:
    """Text without characters that hide: zero-width, bidirectional controls, tags. Joiners of emoji and words stay."""
    return _STRAY.sub("", text.translate(_HIDDEN))


def call_text(function: str, arguments: object) -> str:
    """A call as it stands in the queue."""
    return json.dumps({"function": function, "arguments": arguments}, ensure_ascii=False)


def _turn_role(message: Message) -> Role:
    return "assistant" if message.role in ("assistant", "call") else "user"


def _shown(message: Message, preview: int) -> str:
    content = visible(message.content)
    if len(content) > preview:
        content = (
            f"{content[:preview]} ... (message {message.ref}, {len(content)} characters, is whole in recall memory)"
        )
    if message.role == "assistant":
        return call_text("send_message", {"message": content})
    if message.role == "call":
        return content
    mark = {"user": "", "result": "[result] ", "system": "[system] "}[message.role]
    # A person's message cannot look like a result: only code writes these marks at the start of a turn.
    return mark + (f" {content}" if not mark and content.lstrip().startswith(("[result]", "[system]")) else content)


ANSWER = """You are a friendly assistant with a good memory, and you talk with a user. \
Reply to the user's last message in one or two short sentences, in the user's language. \
Answer questions from your memory below. If memory does not have the answer, say that you do not know."""


NOTES = "Answer the question from the notes. One short sentence."


def answer_prompt(
    blocks: Sequence[Block],
    summary: str,
    messages: Sequence[Message],
    evidence: Sequence[str],
    question: str,
    exact: bool = False,
) -> Prompt:
    """The prompt of the wording pass: memory, the last of the talk, what was found, and the message to answer.

    No functions and no thoughts: a small model words best when it has nothing else to do. Where something was paged in
    it has less still to do: a question and notes. Which of them comes first was measured
    (docs/decisions/041-control-plane.md): where a code leads from note to note, the question; in prose, the notes.

    Args:
        blocks: core memory.
        summary: of the evicted messages.
        messages: the last messages before the question.
        evidence: texts that were paged in during this turn.
        question: the message to answer.
        exact: whether the question names a code.
    """
    if evidence:
        return _notes_prompt(blocks, summary, messages, evidence, question, exact)
    memory = "\n".join(visible(block.value) for block in blocks if block.value)
    told = f"\n\nEarlier in this conversation:\n{visible(summary)}" if summary else ""
    talk = [m for m in messages if m.role in ("user", "assistant")]
    turns = [Turn("system", (ANSWER, "\n\nYour memory:\n" + memory, told))]
    turns += [Turn(_turn_role(m), (_spoken(m),)) for m in talk]
    turns.append(Turn("user", (visible(question),)))
    regions = [Region("system", ANSWER), Region("core", memory), Region("summary", told.strip())]
    regions += [Region(f"queue: {m.role}", _spoken(m)) for m in talk]
    return Prompt(tuple(turns), (*regions, Region("question", visible(question))))


def _notes_prompt(
    blocks: Sequence[Block],
    summary: str,
    messages: Sequence[Message],
    evidence: Sequence[str],
    question: str,
    exact: bool,
) -> Prompt:
    core = [line for block in blocks if block.label != "persona" for line in block.value.split("\n") if line.strip()]
    talk = [f"{m.role}: {m.content[:600]}" for m in messages if m.role in ("user", "assistant")]
    known, said, found = (
        "\n".join(map(visible, texts)) for texts in (core, [*filter(None, [summary]), *talk], evidence)
    )
    notes = "\n".join(filter(None, (known, said, found)))
    regions = [Region("system", NOTES), Region("question", visible(question)), Region("core", known)]
    regions += [Region("queue", said), Region("evidence", found)]
    parts = (visible(question), "\n\nNotes:\n", notes) if exact else ("Notes:\n", notes, "\n\n", visible(question))
    return Prompt((Turn("system", (NOTES,)), Turn("user", parts)), tuple(regions))


def _spoken(message: Message) -> str:
    """A message of the talk in the wording pass; the agent's in the form that the grammar asks for."""
    text = visible(message.content)[:600]
    return json.dumps({"message": text}, ensure_ascii=False) if message.role == "assistant" else text


SUMMARY = """Write the memory of a conversation in a few short sentences: who the user is, what was said, decided, \
asked and promised, with names, numbers and dates. Keep what the old summary says. No opinions, nothing new."""


def summary_prompt(summary: str, messages: Sequence[Message]) -> Prompt:
    """The prompt that folds evicted messages into the recursive summary (paper, section 2.2)."""
    talk = "\n".join(
        f"{m.time:%Y-%m-%d} {m.role}: {visible(m.content)[:400]}" for m in messages if m.role in ("user", "assistant")
    )
    text = (f"Old summary:\n{visible(summary)}\n\n" if summary else "") + f"New messages:\n{talk}\n\nThe new summary:"
    return Prompt(
        (Turn("system", (SUMMARY,)), Turn("user", (text,))), (Region("system", SUMMARY), Region("text", text))
    )


def message_grammar(opening: str = "") -> str:
    """The grammar of the wording pass: one message, which may have to begin with words that were shown already."""
    start = json.dumps('{"message": "' + json.dumps(opening, ensure_ascii=False)[1:-1], ensure_ascii=False)
    text = r"""TEXT: /([^"\\\x00-\x1f]|\\["\\\/nt]){1,1200}/"""
    return f'start: {start} TEXT "\\"}}"\n{text}\n'


MESSAGE_GRAMMAR = message_grammar()
