"""Hostile input for every parser and every function: no crash, no hang, exact round trips, nothing else changed.

    python -m tests.torture.fuzz --inputs 100000

Each input is a real file or call with a few mutations. A parser may refuse it with the error that it declares and do
nothing else. What it reads has to come back when it is written; what a function stages has to be what it was asked to
change. The same seed gives the same inputs.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

from memory_fs import analysis
from memory_fs.agent import Agent
from memory_fs.bench.table import table
from memory_fs.disk import check_path
from memory_fs.doctor import examine
from memory_fs.errors import FormatError, FunctionError, VaultError
from memory_fs.events import Call, Message, clean
from memory_fs.formats import day as days
from memory_fs.formats.block import new_block, parse_block, replace_value
from memory_fs.formats.note import Note, parse_note, render_note, with_id
from memory_fs.formats.settings import parse_queue, parse_settings, render_queue
from memory_fs.formats.strict_yaml import load_mapping
from memory_fs.functions import parse_call
from memory_fs.memory_functions import Memory
from memory_fs.progress import progress
from memory_fs.starter import NOTES, init_vault
from memory_fs.testing import ScriptedModel, call, make_vault
from memory_fs.vault import Transaction, decode

from .base import blame, main, workplace
from .mutation import TOKENS, Mutator

DAY = date(2026, 11, 29)
PATIENCE = 10.0  # seconds of processor time that one input may take; a thousand times what it needs

DAY_TEXT = """# 2026-11-29

## 14:24:07+00:00 user k3f9x2 (2026-11-29-a7, turn 3)

Hi! My name is Chad.

## 14:24:09-03:30 call m2

{"function": "send_message"}

\\## 10:00:00+00:00 no heading

## 14:24:10+00:00 assistant m3 (s, turn 4)

Hello

"""
QUEUE_TEXT = """# What is in context.
turn: 4
evicted: 2
alerted: false
summary: |
  They met in Porto.

  He has a dog.
messages:
  - 2026-11-29/k3f9x2
  - 2026-11-29/m3
"""
BLOCK_TEXT = """# who I talk to
label: human
description: >-
  What I know: about
  the person.
limit: 2000            # characters
read_only: false
value: |
  Name: Chad.
  Lives in Porto.

# the end
mood: "fine"
"""
NOTE_TEXT = """---
id: k3f9x2
created: 2026-11-29T14:24:07+00:00
title: "Biscuit: a dog"
tags: [pets, "a, b", 狗]
source: {file: notes.pdf, page: 3}
---
Chad's golden retriever is called Biscuit.

---
id: no head
---
"""


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


# -- parsers ----------------------------------------------------------------------------------------------------------


def yaml(text: str, mutator: Mutator) -> None:
    """A mapping's places lie in the text."""
    try:
        found = load_mapping(text, "x.yaml")
    except FormatError as error:
        assert "\n" not in str(error) and error.line >= 0
        return
    assert found.data.keys() == found.lines.keys()
    assert all(0 <= place.start <= place.end <= len(text) for place in found.places.values())


def block(text: str, mutator: Mutator) -> None:
    """Whatever a readable block file looks like, a value that is written is read back, and nothing else changes."""
    try:
        found = parse_block(text, "human", "core/human.yaml")
    except FormatError:
        return
    value = mutator.text([found.value, mutator.word(), "Name: Chad.\nLives in Porto."])
    for wanted in (value, found.value):
        try:
            written = replace_value(text, wanted)
        except FormatError:
            assert not _storable(text, wanted), "a value that could be stored was refused"
            continue
        again = parse_block(written, "human")
        assert again.value == wanted, "the value"
        assert replace(again, value="", warnings=()) == replace(found, value="", warnings=()), "another key"
    made = new_block("x", clean(mutator.word()), 5, clean(value))
    assert parse_block(made, "x").value == clean(value)


def _storable(text: str, value: str) -> bool:
    """Whether YAML has a way to write a value into this file: not where a key or its first mark is there twice."""
    odd = text.startswith("\ufeff\ufeff") or parse_block(text, "human").warnings
    return clean(value) == value and clean(text) == text and not odd


def note(text: str, mutator: Mutator) -> None:
    """Any text is a note; what was read can be written, and another id changes nothing else."""
    found = parse_note(text, "archival/x.md")
    if clean(text) == text:
        again = parse_note(render_note(replace(found, warnings=())), "archival/x.md")
        assert _plain(again) == _plain(found), "round trip"
    fresh = parse_note(with_id(text, "fresh-1"), "archival/x.md")
    renamed = fresh.id == "fresh-1"
    assert _plain(replace(fresh, id="")) == _plain(replace(found, id="")), "another id"
    assert renamed or with_id(text, "fresh-1") == text


def _plain(found: Note) -> tuple[object, ...]:
    created = found.created and found.created.replace(microsecond=0)
    return found.id, found.text, created, found.title, found.tags, repr(dict(found.source))


def day(text: str, mutator: Mutator) -> None:
    """The sections of a day are the day; each message can be written and read alone."""
    sections = list(days.sections_of(text, DAY))
    assert "".join(section.text for section in sections) == text, "sections"
    messages, warnings = days.parse_day(text, DAY)
    assert len(messages) + len(warnings) <= len(sections)
    for message in messages:
        assert days.parse_day(days.render_message(message), DAY) == ([message], []), "round trip"
    for section in sections:
        again = days.parse_day(days.with_id(section.text, "fresh-1"), DAY)[0]
        assert again == ([replace(section.message, id="fresh-1")] if section.message else []), "another id"
    content = clean(mutator.text([text, "Hello"]))
    made = Message("m1", messages[0].time if messages else _noon(), "user", content, "s-1", 1)
    assert days.parse_day("# x\n\n" + days.render_message(made) * 2, DAY)[0] == [made, made], "any content"


def _noon() -> Any:
    return days.parse_day("## 12:00:00+00:00 user a\n", DAY)[0][0].time


def settings(text: str, mutator: Mutator) -> None:
    """Settings that are read are within their bounds."""
    try:
        found = parse_settings(text, "memory.yaml")
    except FormatError:
        return
    assert 512 <= found.window <= 1_048_576 and 0.1 <= found.pressure < 1 and 1 <= found.max_steps <= 100


def queue(text: str, mutator: Mutator) -> None:
    """A queue that is read can be written, and is the same again."""
    try:
        found = parse_queue(text, "queue.yaml")
    except FormatError:
        return
    found = replace(found, summary=clean(found.summary), messages=tuple(map(clean, found.messages)))
    assert parse_queue(render_queue(found)) == found, "round trip"


def query(text: str, mutator: Mutator) -> None:
    """A query is read, in bounds."""
    found = analysis.parse(text)
    assert len(found.any) + len(found.required) + len(found.excluded) <= 4 * analysis.MAX_PARTS


def completion(text: str, mutator: Mutator) -> None:
    """A completion is a call of an object's shape, or refused with what to do next."""
    try:
        found = parse_call(text)
    except FunctionError as error:
        assert "\n" not in str(error)
        return
    assert isinstance(found["function"], str) and isinstance(found.get("arguments", {}), dict)
    json.dumps(found, ensure_ascii=False).encode()


def path(text: str, mutator: Mutator) -> None:
    """A path that is allowed stays below the vault."""
    for new in (False, True):
        try:
            check_path(text, new=new)
        except VaultError as error:
            assert len(str(error)) < 1200  # eighty characters, each perhaps escaped
        else:
            assert not {"", ".", ".."} & set(text.split("/")) and "\0" not in text


# -- functions, searches, the doctor ----------------------------------------------------------------------------------


class Functions:
    """Calls on a real vault; what they stage is looked at and dropped, now and then it is written."""

    def __init__(self, root: Path) -> None:
        files = {"core/human.yaml": BLOCK_TEXT, "recall/2026/11/2026-11-29.md": DAY_TEXT, "archival/x.md": NOTE_TEXT}
        self.agent = Agent(make_vault(root, files), ScriptedModel([]))
        self.agent.search.sync()
        self.calls = 0

    def __call__(self, text: str, mutator: Mutator) -> None:
        """Run what a completion proposes."""
        proposed = self.agent.executor.read(text)
        if not isinstance(proposed, Call):
            assert not proposed.ok and proposed.text
            return
        self.calls += 1
        keep = self.calls % 50 == 0
        before = {place: place.read_bytes() for place in self._files()} if keep else {}
        try:
            staged, _ = self.agent.vault.transact(lambda t: self._run(t, proposed, keep), "Fuzz")
        except _Dropped:
            return
        touched = {self.agent.vault.root / one for one in staged}
        after = {place: place.read_bytes() for place in self._files()}
        differing = {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}
        assert differing <= touched, "a file that was not staged"

    def _run(self, transaction: Transaction, proposed: Call, keep: bool) -> list[str]:
        agent = self.agent
        result = agent.executor.run(proposed, Memory(agent.core, agent.archival, agent.recall, transaction))
        assert isinstance(result.text, str) and " failed: " not in result.text, result.text
        assert result.ok or not transaction.staged, "a refused call staged something"
        for one, data in transaction.staged.items():
            check_path(one, new=True)
            assert one.startswith(self._allowed(proposed)), one
            if one.startswith("core/"):
                found = parse_block(decode(data or b"", one), Path(one).stem)
                assert not found.read_only and (found.used <= found.limit or "shorten" in result.text)
        if not keep:
            raise _Dropped
        return list(transaction.staged)

    def _allowed(self, proposed: Call) -> str:
        if proposed.function == "archival_memory_insert":
            return "archival/2026/11/2026-11-29-"
        return f"core/{proposed.arguments.get('label')}.yaml"

    def _files(self) -> Iterator[Path]:
        return (
            place for place in self.agent.vault.root.rglob("*") if place.is_file() and ".memory_fs" not in place.parts
        )

    def search(self, text: str, mutator: Mutator) -> None:
        """Any query on a real index finds pages, and the same again."""
        index = self.agent.search.index
        for kind in ("archival", "recall"):
            found = index.search(kind, text, page=mutator.dice.choice((-1, 0, 1, 10**9)))
            assert found.total >= 0 and 1 <= found.page <= max(1, found.pages) and len(found.hits) <= 5


def odd_call(mutator: Mutator, seeds: list[str]) -> str:
    """A call whose JSON is right and whose arguments are not."""
    dice, proposed = mutator.dice, json.loads(mutator.dice.choice(seeds))
    arguments = proposed["arguments"]
    for name in dice.sample(sorted(arguments), dice.randint(0, len(arguments))):
        value = arguments[name]
        odd = [None, True, 0, -1, 10**30, 1.5, [], {}, [value], {"a": value}, mutator.word(), [mutator.word(), "a"]]
        arguments[name] = mutator.text([value, BLOCK_TEXT]) if isinstance(value, str) else dice.choice(odd)
        if dice.random() < 0.2:
            arguments[name] = dice.choice(odd)
    if dice.random() < 0.1:
        arguments[mutator.word()] = mutator.word()
    if dice.random() < 0.1:
        arguments.pop(dice.choice(sorted(arguments)))
    text = json.dumps(proposed)
    return mutator.text([text]) if dice.random() < 0.1 else text


class _Dropped(Exception):
    """Ends a change that is not to be written."""


class Patient:
    """A vault whose files are mutated, for the doctor: it never fails, and changes only what it says."""

    FILES: ClassVar = {
        "core/human.yaml": BLOCK_TEXT,
        "recall/2026/11/2026-11-29.md": DAY_TEXT,
        "archival/x.md": NOTE_TEXT,
        "queue.yaml": QUEUE_TEXT,
        "memory.yaml": "zone: UTC\nwindow: 4096\n",
    }

    def __init__(self, folder: Path) -> None:
        self.folder, self.visits = folder, 0

    def __call__(self, text: str, mutator: Mutator) -> None:
        """Put mutated files in place, look, mend, look again."""
        root = self.folder / str(self.visits // 20)
        if self.visits % 20 == 0:  # a history that grows for ever would be all that is read
            make_vault(root, self.FILES).close()
        self.visits += 1
        for one, seed in self.FILES.items():
            mutated = mutator.text([seed]) if mutator.dice.random() < 0.5 else seed
            (root / one).write_bytes(mutated.encode(errors="surrogateescape" if _bytes(mutated) else "replace"))
        before = self._now(root)
        first = examine(root)
        assert self._now(root) == before, "a look changed a file"
        mended = examine(root, fix=True)
        said = {trouble.path for trouble in first.troubles + mended.troubles if trouble.fixed or trouble.fix}
        after = self._now(root)
        assert {one for one in before if before[one] != after[one]} <= said, "a file was changed that nobody spoke of"
        assert not [one for one in examine(root).troubles if one.fix and not one.normal], "fixable, but not fixed"

    def _now(self, root: Path) -> dict[str, bytes]:
        return {one: (root / one).read_bytes() for one in self.FILES}


def _bytes(text: str) -> bool:
    return all(not 0xD800 <= ord(char) <= 0xDFFF or 0xDC80 <= ord(char) <= 0xDCFF for char in text)


# -- the run ----------------------------------------------------------------------------------------------------------


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
    functions = Functions(folder / "functions")
    yield [
        Target("YAML", [BLOCK_TEXT, QUEUE_TEXT, *made], yaml, 2),
        Target("blocks, read and written", [BLOCK_TEXT, *made, "{label: human, value: Chad}\n", "value:"], block),
        Target("notes, front matter", [NOTE_TEXT, *notes], note, 2),
        Target("recall days", [DAY_TEXT], day, 2),
        Target("queue.yaml", [QUEUE_TEXT], queue),
        Target("memory.yaml", [(starter / "memory.yaml").read_text(encoding="utf-8")], settings),
        Target("queries", queries, query, 2),
        Target("paths", ["archival/2026/11/x.md", "core/human.yaml", "memory.yaml", *TOKENS], path),
        Target("completions", calls, completion, 2),
        Target("functions on a vault", calls, functions, 2, odd_call),
        Target("searches in an index", queries, functions.search),
        Target("doctor on a vault", [""], Patient(folder / "patient"), 0.03),
    ]
    functions.agent.close()


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raise TimeoutError when what is inside takes so much processor time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds:.0f} s")

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
    except Exception as error:
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
