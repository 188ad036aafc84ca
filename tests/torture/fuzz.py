"""Hostile input for every parser and every function: no crash, no hang, exact round trips, nothing else changed.

    python -m tests.torture.fuzz --inputs 100000

Each input is a real file or call with a few mutations. A parser may refuse it with the error that it declares and do
nothing else. What it reads has to come back when it is written; what a function stages has to be what it was asked to
change. The same seed gives the same inputs.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from memory_fs.bench.table import table
from memory_fs.progress import progress
from memory_fs.starter import NOTES, init_vault
from memory_fs.testing import call

from . import checks
from .base import blame, main, workplace
from .checks import BLOCK_TEXT, DAY_TEXT, NOTE_TEXT, QUEUE_TEXT
from .mutation import TOKENS, Mutator

PATIENCE = 10.0  # seconds of processor time that one input may take; a thousand times what it needs


@dataclass
class Target:
    """One parser or function under fire.

    Attributes:
        seeds: real inputs, to be mutated.
        check: raises for an input that is read or written wrongly.
        share: how often it gets an input, compared with the others.
        make: an input from the seeds.
    """

    name: str
    seeds: list[str]
    check: Callable[[str, Mutator], None]
    share: float = 1.0
    make: Callable[[Mutator, list[str]], str] = Mutator.text
    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    crashes: list[tuple[str, str]] = field(default_factory=list)

    def row(self) -> dict[str, object]:
        """Its line of the table."""
        return {
            "parser or function": self.name,
            "inputs": self.inputs,
            "crashes": len(self.crashes),
            "seconds": round(self.seconds, 1),
            "slowest, ms": round(self.slowest * 1000, 1),
        }


@dataclass
class Report:
    """What came of it."""

    targets: list[Target]

    @property
    def crashes(self) -> list[tuple[str, str]]:
        """(what happened, the input)."""
        return [crash for target in self.targets for crash in target.crashes]

    def report(self) -> int:
        """Print everything; the exit status of the program."""
        rows = [target.row() for target in self.targets]
        whole = {key: sum(row[key] for row in rows) for key in ("inputs", "crashes", "seconds")}  # type: ignore[misc]
        print(table([*rows, {"parser or function": "all", **whole}]))
        for target in self.targets:
            for what, text in target.crashes[:5]:
                print(f"  {target.name}: {what}\n      {text!r}")
        return int(bool(self.crashes))


@contextmanager
def targets(folder: Path) -> Iterator[list[Target]]:
    """All of them, on vaults in a folder."""
    starter = init_vault(folder / "starter")
    notes = [place.read_text(encoding="utf-8") for place in starter.glob("archival/**/*.md")]
    assert len(notes) == len(NOTES)
    made = [(starter / one).read_text(encoding="utf-8") for one in ("core/human.yaml", "core/persona.yaml")]
    calls = [
        call("core_memory_append", "no", "a fact", label="human", content="Likes tea."),
        call("core_memory_replace", label="human", old_content="Lives in Porto.", new_content="Lives in Rome."),
        call("archival_memory_insert", content="A long story.", tags=["a", "b"]),
        call("archival_memory_search", query="golden retriever", page=1),
        call("conversation_search", query="Chad"),
        call("conversation_search_date", start_date="2026-11-29", end_date="today", page=2),
        call("memory_insert", label="human", content="Likes tea.", line=0),
        call("memory_rethink", label="persona", content="New."),
        call("memory_create_block", label="pets", description="Animals", content="Biscuit"),
        call("send_message", "", "nothing", message="Hello."),
    ]
    queries = [
        "golden retriever",
        '"golden retriever" -cat',
        "tag:pets #home 2026-11-29",
        "金毛 豆豆",
        "C++ don't 5'10\"",
    ]
    functions = checks.Functions(folder / "functions")
    yield [
        Target("YAML", [BLOCK_TEXT, QUEUE_TEXT, *made], checks.yaml, 2),
        Target("blocks, read and written", [BLOCK_TEXT, *made, "{label: human, value: a}\n", "value:"], checks.block),
        Target("notes, front matter", [NOTE_TEXT, *notes], checks.note, 2),
        Target("recall days", [DAY_TEXT], checks.day, 2),
        Target("queue.yaml", [QUEUE_TEXT], checks.queue),
        Target("memory.yaml", [(starter / "memory.yaml").read_text(encoding="utf-8")], checks.settings),
        Target("queries", queries, checks.query, 2),
        Target("journal and scan", checks.Kept.seeds(), checks.Kept(folder / "kept"), 0.5),
        Target("paths", ["archival/2026/11/x.md", "core/human.yaml", "memory.yaml", *TOKENS], checks.path),
        Target("completions", calls, checks.completion, 2),
        Target("functions on a vault", calls, functions, 2, checks.odd_call),
        Target("searches in an index", queries, functions.search),
        Target("doctor on a vault", [""], checks.Patient(folder / "patient"), 0.03),
    ]
    functions.agent.close()


class Hang(BaseException):
    """An input took too long; no handler of errors may take this for one of its own."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise Hang when what is inside takes so much processor time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds:.0f} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def fire(target: Target, mutator: Mutator) -> None:
    """One input."""
    text = target.make(mutator, target.seeds)
    started = time.process_time()
    try:
        with bounded(PATIENCE):
            target.check(text, mutator)
    except (Exception, Hang) as error:
        target.crashes.append((blame(error), text))
    took = time.process_time() - started
    target.inputs += 1
    target.seconds += took
    target.slowest = max(target.slowest, took)


def run(inputs: int = 100_000, seed: int = 1, only: str = "") -> Report:
    """Fire so many inputs, a share of them at each target."""
    with workplace() as folder, targets(folder) as found, progress("inputs") as report:
        chosen = [target for target in found if only in target.name]
        shares: Mapping[str, float] = {target.name: target.share for target in chosen}
        done = 0
        for target in chosen:
            mutator = Mutator(random.Random(f"{seed} {target.name}"))
            for _ in range(max(1, round(inputs * shares[target.name] / sum(shares.values())))):
                fire(target, mutator)
                done += 1
                report(done, inputs)
        return Report(chosen)


if __name__ == "__main__":
    main(run, __doc__, inputs=100_000, seed=1, only="")
