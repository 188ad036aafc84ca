"""`memory-fs bench TASK`: the experiments of the MemGPT paper, each with the same options, and reports of logs.

Annotations are evaluated here, as the options of a command are put together from those of two functions.
"""

import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memory_fs.cli_bench import DEFAULT, ModelOption, load, print_rows
from memory_fs.cli_options import JsonOption, group, say
from memory_fs.errors import MemoryFsError

if TYPE_CHECKING:
    from memory_fs.bench.harness import Row
    from memory_fs.bench.question import Task
    from memory_fs.llm import Model

tasks_app = group("Experiments: questions put to memory_fs and to what it is measured against.")
_option = typer.Option


def experiment(name: str) -> Callable[[Callable[..., "Task"]], Callable[..., "Task"]]:
    """Make a command of a function that makes a task: its own arguments, then those of every experiment."""

    def register(make: Callable[..., "Task"]) -> Callable[..., "Task"]:
        mine, shared = (inspect.signature(f).parameters for f in (make, _run))
        both = {**mine, **{key: value for key, value in shared.items() if key != "task"}}

        def command(**given: Any) -> None:
            task = make(**{key: given[key] for key in mine})
            _run(task, **{key: given[key] for key in shared if key != "task"})

        command.__doc__ = make.__doc__
        command.__signature__ = inspect.Signature(list(both.values()))  # type: ignore[attr-defined]
        command.__annotations__ = {key: value.annotation for key, value in both.items()}
        tasks_app.command(name)(command)
        return make

    return register


SeedOption = Annotated[int, _option("--seed", help="Decides what is generated or drawn.")]
RowsArgument = Annotated[Path, typer.Argument(help="JSON lines.")]


def _run(
    task: "Task",
    system: Annotated[
        list[str] | None, _option(help="What is asked: memory_fs, -guard, memgpt, rag, ...; repeat.")
    ] = None,
    every: Annotated[bool, _option("--all", help="Ask every system that can do the task.")] = False,
    k: Annotated[list[int] | None, _option("--k", min=1, help="Hits that rag takes; repeat. Default: 5.")] = None,
    seed: SeedOption = 0,
    limit: Annotated[int | None, _option(min=1, help="Only the first questions.")] = None,
    log: Annotated[Path | None, _option(help="Append JSON lines here; what is there is not asked again.")] = None,
    judge_prompt: Annotated[
        Path | None, _option(help="Write prompts for a large model that judges the replies.")
    ] = None,
    window: Annotated[int, _option(min=1024, help="Context window, tokens.")] = 4096,
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Ask the questions of a task and print the figures."""
    from memory_fs.bench import judge
    from memory_fs.bench.harness import Log
    from memory_fs.bench.report import figures, plain
    from memory_fs.bench.systems import chosen

    if not task.questions:
        raise MemoryFsError("there is nothing to ask: the data has no question with an answer")
    names, kept = chosen(system or (), every, k or (5,), task.writes), Log(log)
    with load(model, window) as loaded, _stopped(log):
        rows = _asked(loaded, task, names, kept, seed, limit)
    if judge_prompt:
        judge.write(rows, judge_prompt)
    found = figures(rows)
    print_rows(found if as_json else plain(found), as_json)


@contextmanager
def _stopped(log: Path | None) -> Iterator[None]:
    """Say what Ctrl-C leaves."""
    from memory_fs.bench.harness import read_log

    try:
        yield
    except KeyboardInterrupt:
        if log and log.stat().st_size:
            say(f"stopped; {len(read_log(log))} answers are in {log}, and the same command goes on from there")
        raise


def _asked(model: "Model", task: "Task", names: Sequence[str], log: Any, seed: int, limit: int | None) -> "list[Row]":
    """Ask everything; a bar in a terminal, else a line for each answer."""
    from memory_fs.bench.harness import ask
    from memory_fs.progress import progress

    rows: list[Row] = []
    total, asked, start = len(names) * len(task.questions[:limit]), 0, time.monotonic()
    with progress("questions") as report:
        for row, new in ask(model, task, names, log, seed=seed, limit=limit):
            rows.append(row)
            asked += new
            report(len(rows), total)
            if new and not sys.stderr.isatty():
                say(_line(rows, total, (time.monotonic() - start) / asked * (total - len(rows))))
    return rows


def _line(rows: "Sequence[Row]", total: int, left: float) -> str:
    """How far it is: the last row, the score of its system so far, the time left (seconds)."""
    last = rows[-1]
    mine = [row["scores"]["right"] for row in rows if row["system"] == last["system"]]
    level = f" level {last['level']}" if last["level"] else ""
    score = f"{last['scores']['right']:.2g}, so far {sum(mine) / len(mine):.1%}"
    return f"{len(rows)}/{total} {last['system']}{level}: {score}; {last['seconds']:.1f} s, {_span(left)} left"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@experiment("nested-kv")
def nested_kv(
    level: Annotated[list[int] | None, _option(min=0, max=20, help="Only this nesting level; repeat.")] = None,
    orderings: Annotated[int, _option(min=1, help="Questions at each level.")] = 30,
    pairs: Annotated[int, _option(min=30, help="Notes.")] = 140,
    seed: SeedOption = 0,
) -> "Task":
    """Ask for values of keys that may be keys themselves; 140 notes, levels 0 to 4."""
    from memory_fs.bench.nested_kv import LEVELS, task

    return task(seed, level or range(LEVELS), orderings, pairs)


@experiment("core-read")
def core_read(rows: RowsArgument) -> "Task":
    """Ask questions whose answers are in core memory: {"question", "answer", "facts"}."""
    from memory_fs.bench.core_read import task

    return task(rows)


@experiment("core-update")
def core_update(rows: RowsArgument) -> "Task":
    """Tell facts that make a line of core memory untrue: {"answer", "facts", "new_fact", "stale_fact_indices"}."""
    from memory_fs.bench.core_update import task

    return task(rows)


@experiment("doc-qa")
def doc_qa(
    passages: Annotated[Path, typer.Argument(help='JSON lines: {"id", "title", "text"}')],
    questions: Annotated[Path, typer.Argument(help='JSON lines: {"question", "answers", "gold_ids"}')],
    notes: Annotated[int | None, _option(min=1, help="Notes in the archive. Default: all passages.")] = None,
    seed: SeedOption = 0,
) -> "Task":
    """Ask questions whose answers are in notes."""
    from memory_fs.bench.doc_qa import task

    return task(passages, questions, notes, seed)


@experiment("dmr")
def dmr(locomo: Annotated[Path, typer.Argument(help="A LoCoMo file.")]) -> "Task":
    """Ask in a new session for what was said in earlier ones."""
    from memory_fs.bench.dmr import task

    return task(locomo)


@experiment("opener")
def opener(rows: Annotated[Path, typer.Argument(help='JSON lines: {"persona": [...]} or {"facts": [...]}')]) -> "Task":
    """Let a new session be opened, and look how much of what is known of the user is taken up."""
    from memory_fs.bench.opener import task

    return task(rows)


@tasks_app.command("report")
def report(
    logs: Annotated[list[Path], typer.Argument(help="Logs of experiments.")],
    plot: Annotated[Path | None, _option(help="Draw accuracy by level here: a .png or .svg file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the table of some logs, and a picture."""
    from memory_fs.bench import plot as picture
    from memory_fs.bench.harness import key, read_log
    from memory_fs.bench.report import figures, plain

    rows = {key(row): row for log in logs for row in read_log(log)}
    found = figures(rows.values())
    if plot:
        picture.plot(found, plot)
    print_rows(found if as_json else plain(found), as_json)
