"""What has to hold for any input: one function for each parser, and the functions, searches and the doctor on vaults.

Each gets a text and a source of more, and raises when something is read or written wrongly. A refusal with the error
that the parser declares is right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

from memory_fs import analysis
from memory_fs.agent import Agent
from memory_fs.disk import INNER, check_path
from memory_fs.doctor import examine
from memory_fs.errors import FormatError, FunctionError, VaultError
from memory_fs.events import Call, Message, clean
from memory_fs.formats import day as days
from memory_fs.formats.block import new_block, parse_block, replace_value
from memory_fs.formats.note import Note, parse_note, render_note, with_id
from memory_fs.formats.settings import parse_queue, parse_settings, render_queue
from memory_fs.formats.strict_yaml import load_mapping
from memory_fs.functions import parse_call
from memory_fs.journal import Journal
from memory_fs.memory_functions import Memory
from memory_fs.scan import Scan
from memory_fs.testing import ScriptedModel, make_vault
from memory_fs.vault import Transaction, decode

from .mutation import Mutator

DAY = date(2026, 11, 29)
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


class Kept:
    """What the program keeps for itself beside the memory: anything in it costs time at most."""

    def __init__(self, root: Path) -> None:
        make_vault(root).close()
        self.root, self.files = root, Scan(root).scan()

    @staticmethod
    def seeds() -> list[str]:
        """A journal, and what a scan saw."""
        lines = (f"begin {n} {10**18 + n} {'ab' * 20} {'c' * 36}".ljust(255) + "\n" for n in (8, 7))
        seen = {"": {"system.md": [29, 10**18, "ab" * 20]}, "core/": {"human.yaml": [9, -1, "cd" * 20]}}
        return ["".join(lines) + "done 7 settled".ljust(255) + "\n", json.dumps(seen)]

    def __call__(self, text: str, mutator: Mutator) -> None:
        """Put it in the place of both files; the journal names changes or none, the scan sees what there is."""
        for name in ("journal", "scan.json"):
            (self.root / ".memory_fs" / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        assert all(entry.number > 0 and len(entry.rev) == 40 for entry in Journal(self.root / INNER, True).unfinished())
        scan = Scan(self.root)
        scan.load_seen()
        assert scan.scan().keys() == self.files.keys()


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
