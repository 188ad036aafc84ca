"""Asks systems the questions of a task, and keeps a log that a later run takes up."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory_fs.bench.data import NUMBER, Kinds
from memory_fs.bench.data import rows as read_rows
from memory_fs.bench.question import Outcome, Question, Task
from memory_fs.bench.scores import normalised
from memory_fs.bench.systems import Ask, system
from memory_fs.bench.vaults import Vaults
from memory_fs.errors import FormatError, MemoryFsError, PromptTooLong
from memory_fs.llm import Model

Row = dict[str, Any]
TOLD = 0.5  # of a written text's words: so many are from the message when the message told it
KEYS = ("task", "variant", "model", "window", "seed", "system", "level", "id")
_SUMS = ("calls", "prompt", "reused", "generated", "seconds", "wrong writes", "troubles")
KINDS: Kinds = {
    **dict.fromkeys(KEYS, str),
    **dict.fromkeys(_SUMS, NUMBER),
    **{"window": int, "seed": int, "scores": dict, "counters": dict, "question": str, "reply": str, "answers": list},
}
_BEGIN = b'{"task": '


@dataclass(frozen=True)
class Run:
    """What makes two rows of a log the same experiment."""

    task: str
    variant: str
    model: str
    window: int
    seed: int


class Log:
    """Rows by experiment, system, level and question; on disk where it has a path, each row at once."""

    def __init__(self, path: Path | None = None) -> None:
        """Open a log, or begin one.

        Raises:
            MemoryFsError: the file cannot be read or written. FormatError: a line is no row.
        """
        self._path = path
        self._rows: dict[tuple[object, ...], Row] = {}
        if path:
            with writing(path), path.open("ab"):  # now, not after the first answer
                pass
            _drop_torn(path)
            self._rows = {key(row): row for row in read_log(path)} if path.stat().st_size else {}

    def get(self, run: Run, name: str, question: Question) -> Row | None:
        """The row of a question that was asked before."""
        return self._rows.get((*asdict(run).values(), name, question.level, question.id))

    def add(self, row: Row) -> None:
        """Take a row; it is in the file when this returns."""
        self._rows[key(row)] = row
        if self._path:
            with writing(self._path), self._path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def key(row: Row) -> tuple[object, ...]:
    """What tells one row from another."""
    return tuple(row[one] for one in KEYS)


def read_log(path: Path) -> list[Row]:
    """The rows of a log.

    Raises:
        MemoryFsError: it cannot be read. FormatError: a line is no row of a benchmark.
    """
    found = read_rows(path, KINDS)
    for number, row in enumerate(found, 1):
        if not isinstance(row["scores"].get("right"), NUMBER):
            raise FormatError("`scores` must say how `right` the reply is", path=path, line=number)
    return found


def _drop_torn(path: Path) -> None:
    """Take away the row that was being written when an earlier run was killed; its question is asked again."""
    with writing(path), path.open("r+b") as file:
        data = file.read()
        end = data.rfind(b"\n") + 1
        if data[end:].startswith(_BEGIN):
            file.truncate(end)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What goes wrong with a file that is written becomes one line.

    Raises:
        MemoryFsError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise MemoryFsError(f"{path} cannot be written ({error.strerror})", path=path) from error


def ask(
    model: Model, task: Task, names: Sequence[str], log: Log, *, seed: int = 0, limit: int | None = None
) -> Iterator[tuple[Row, bool]]:
    """Ask every system every question, system by system, so that each keeps what the model has read of its prompt.

    Args:
        model: answers for all.
        task: the questions.
        names: systems, as `systems.chosen` gives them.
        log: rows that are in it are handed out as they are; new ones are added.
        seed: the one that the task was made with.
        limit: only the first questions.

    Yields:
        A row for each question, and whether it was asked now.
    """
    run = Run(task.name, task.variant, model.name, model.window, seed)
    with tempfile.TemporaryDirectory() as folder:
        vaults = Vaults(Path(folder), model.window)
        for name in names:
            put = system(name, model, vaults)
            for question in task.questions[:limit]:
                known = log.get(run, name, question)
                row = known or _row(run, name, question, put)
                if not known:
                    log.add(row)
                yield row, not known


def _row(run: Run, name: str, question: Question, put: Ask) -> Row:
    try:
        outcome = put(question)
    except PromptTooLong as error:  # the system cannot do this one in this window: that is a result
        outcome = Outcome(f"(no answer: {error})")
    done = outcome.completions
    return {
        **asdict(run),
        "system": name,
        "level": question.level,
        "id": question.id,
        "question": question.text,
        "answers": question.answers,
        "reply": outcome.reply,
        "scores": dict(question.judge(outcome)),
        "functions": outcome.calls,
        "calls": len(done),
        "prompt": sum(one.prompt_tokens - one.reused_tokens for one in done),
        "reused": sum(one.reused_tokens for one in done),
        "generated": sum(one.generated_tokens for one in done),
        "seconds": round(outcome.seconds, 3),
        "wrong writes": sum(not _told(text, question.told) for text in outcome.written),
        "written": outcome.written,
        "counters": dict(outcome.counters),
        "troubles": outcome.troubles,
    }


def _told(text: str, told: str) -> bool:
    """Whether most words of a text are from what the user told."""
    words, known = normalised(text).split(), set(normalised(told).split())
    return sum(word in known for word in words) >= max(1, TOLD * len(words))
