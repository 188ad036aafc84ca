"""What an experiment is made of: a memory to ask from, questions, and what came of asking. Knows no system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memory_fs.bench.scores import contained
from memory_fs.events import Message
from memory_fs.formats.note import Note
from memory_fs.llm import Completion


@dataclass(frozen=True)
class Setting:
    """The memory that a question is asked from.

    Attributes:
        key: names it; questions with the same key share it.
        human: lines of the block `human`.
        notes: archival memory, oldest first.
        talk: recall memory, oldest first.
    """

    key: str
    human: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    talk: tuple[Message, ...] = ()

    @property
    def texts(self) -> list[str]:
        """All of it as texts, oldest first: for those who have no memory to look into."""
        notes = [f"[{note.title}] {note.text}" if note.title else note.text for note in self.notes]
        return [*self.human, *notes, *(f"{message.time:%Y-%m-%d} {message.content}" for message in self.talk)]


@dataclass(frozen=True)
class Outcome:
    """What a system did with a question.

    Attributes:
        completions: every call of the model.
        seconds: wall time of the answer; setting up the memory is not in it.
        human: the lines of the block `human` afterwards.
        written: lines and notes that memory has and did not have before.
        calls: the functions that were called, a failed one with what it said.
        counters: what paging did.
        troubles: what the doctor finds in the vault afterwards.
    """

    reply: str
    completions: tuple[Completion, ...] = ()
    seconds: float = 0.0
    human: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    troubles: int = 0


Judge = Callable[[Outcome], Mapping[str, float]]


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        id: unique within its task and level.
        judge: gives `right` (0 to 1) and further figures.
        level: a group of questions that has figures of its own.
        told: what the message tells about the user, and memory may therefore take in.
        kind: who speaks: the person, or the program.
    """

    id: str
    setting: Setting
    text: str
    answers: tuple[str, ...]
    judge: Judge
    level: str = ""
    told: str = ""
    kind: Literal["user", "system"] = "user"


@dataclass(frozen=True)
class Task:
    """Questions with a name.

    Attributes:
        variant: what else the figures depend on, such as the size of the archive.
        writes: it asks memory to change, so that only systems that write can do it.
    """

    name: str
    questions: Sequence[Question]
    variant: str = ""
    writes: bool = False


def holds(answers: Sequence[str]) -> Judge:
    """A reply is right when any of the answers stands in it."""
    return lambda outcome: {"right": float(contained(answers, outcome.reply))}
