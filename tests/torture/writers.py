"""Two programs and a person who write to the same files at the same time.

    python -m tests.torture.writers --seconds 60

The programs call functions and append to a shared note. The person saves the same files with an editor: reads, thinks,
looks once more before saving, and saves in place or by a rename. Every edit has a word of its own. At the end each word
has to be where it was put, or some later change has to have taken it away on purpose.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from memory_fs.agent import Agent
from memory_fs.errors import MemoryFsError
from memory_fs.formats.block import new_block
from memory_fs.history import AGENT, person
from memory_fs.testing import ScriptedModel, make_vault
from memory_fs.vault import Transaction, Vault

from .base import Child, Line, Tally, main, tell, workplace
from .busy import word
from .inspection import inspect, plain_git

BLOCK = "core/shared.yaml"
NOTES = ("archival/shared.md", "archival/list.md")
LINES = 12  # each writer's own in the block; from then on it replaces its oldest
WORD = re.compile(rb"(?:one|two|hand)[a-j]{8}")


# -- programs -------------------------------------------------------------------------------------------------------


class Program:
    """A program that changes the block, notes and makes new ones, and tells of each change that was acknowledged."""

    def __init__(self, root: Path, sink: int, name: str, until: float) -> None:
        self._sink, self._name, self._until = sink, name, until
        self._dice = random.Random(name)
        self._agent = Agent(Vault(root), ScriptedModel([]))
        self._mine: list[str] = []
        self._number = 0

    def go(self) -> None:
        """Write until the time is over."""
        while time.monotonic() < self._until:
            self._number += 1
            mark = word(self._number, self._name)
            act = self._dice.choices((self._block, self._note, self._new), (3, 3, 2))[0]
            try:
                act(mark)
            except MemoryFsError as error:
                tell(self._sink, {"refused": str(error)})
        self._agent.close()

    def _block(self, mark: str) -> None:
        old = self._mine[0] if len(self._mine) >= LINES else ""
        if old:
            arguments = {"label": "shared", "old_content": f"{old} is a fact", "new_content": f"{mark} is a fact"}
            self._call("core_memory_replace", arguments, mark, old)
        else:
            self._call("core_memory_append", {"label": "shared", "content": f"{mark} is a fact"}, mark, "")
        # The person may have taken the line away: then there is one less.
        value = self._agent.core.block("shared").value
        self._mine = [line for line in [*self._mine, mark] if line in value and line != old]

    def _new(self, mark: str) -> None:
        self._call("archival_memory_insert", {"content": f"{mark} is a note"}, mark, "")

    def _call(self, function: str, arguments: dict[str, str], mark: str, gone: str) -> None:
        result, change = self._agent.call(function, arguments)
        self._tell(change is not None, result.text, mark, gone if result.ok else "")

    def _note(self, mark: str) -> None:
        path = self._dice.choice(NOTES)

        def work(transaction: Transaction) -> None:
            transaction.write(path, (transaction.read(path) or "") + f"\n- {mark}")

        _, change = self._agent.vault.transact(work, f"Append {mark}", author=AGENT)
        self._tell(change is not None, "", mark, "")

    def _tell(self, made: bool, text: str, mark: str, gone: str) -> None:
        tell(self._sink, {"made": mark, "gone": gone} if made else {"refused": text})


# -- the person -----------------------------------------------------------------------------------------------------


class Person:
    """Somebody with an editor: reads a file, changes a line, looks whether it changed meanwhile, saves."""

    def __init__(self, root: Path, sink: int, until: float, pause: float) -> None:
        self._root, self._sink, self._until, self._pause = root, sink, until, pause
        self._dice = random.Random("person")
        self._number = 0

    def go(self) -> None:
        """Edit until the time is over."""
        while time.monotonic() < self._until:
            self._number += 1
            self._edit(self._root / self._dice.choice((BLOCK, *NOTES)), word(self._number, "hand"))
            time.sleep(self._dice.random() * self._pause)

    def _edit(self, place: Path, mark: str) -> None:
        while time.monotonic() < self._until:
            before = place.read_bytes()
            time.sleep(self._dice.random() * self._pause / 4)  # reads and thinks
            new, gone = self._changed(before, mark, place.suffix == ".yaml")
            if place.read_bytes() == before:  # a good editor asks before it overwrites what has changed
                way = self._dice.choice((_in_place, _by_rename))
                way(place, new)
                tell(self._sink, {"made": mark, "gone": gone, "way": way.__name__})
                return

    def _changed(self, text: bytes, mark: str, block: bool) -> tuple[bytes, str]:
        """A new line of the person's, or one of theirs replaced; nobody else's is touched."""
        mine = re.findall(rb"hand[a-j]{8}", text)
        if len(mine) >= LINES:
            old = self._dice.choice(mine)
            return text.replace(old, mark.encode()), old.decode()
        lines = text.split(b"\n")
        if not block:
            return b"\n".join([*lines[:1], f"- {mark}".encode(), *lines[1:]]), ""
        value = next(n for n, line in enumerate(lines) if line.startswith(b"value:"))
        return b"\n".join([*lines[: value + 1], f"  {mark} by hand".encode(), *lines[value + 1 :]]), ""


def _in_place(place: Path, data: bytes) -> None:
    handle = os.open(place, os.O_WRONLY)
    os.write(handle, data)
    os.ftruncate(handle, len(data))
    os.close(handle)


def _by_rename(place: Path, data: bytes) -> None:
    aside = place.with_name(f".{place.name}.swp")
    aside.write_bytes(data)
    aside.replace(place)


# -- the account ----------------------------------------------------------------------------------------------------


@dataclass
class Account:
    """Which words are where, after everything.

    Attributes:
        now: words in the files.
        first: word -> author of the first commit that has it.
        last: word -> author of the commit that took it away.
    """

    now: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)


def account(root: Path) -> Account:
    """Read the whole history, oldest first."""
    found = Account()
    with Vault(root) as vault:
        vault.adopt()
        for change in reversed(list(vault.history.log())):
            before, after = Counter[str](), Counter[str]()
            for _, old, new in vault.history.contents(change.rev):
                before += Counter(mark.decode() for mark in WORD.findall(old or b""))
                after += Counter(mark.decode() for mark in WORD.findall(new or b""))
            for mark in after - before:
                found.first.setdefault(mark, change.author)
                found.last.pop(mark, None)
            for mark in (before - after).keys() - after.keys():
                found.last[mark] = change.author
        for path in vault.files():
            found.now += Counter(mark.decode() for mark in WORD.findall(vault.disk.read(path) or b""))
    return found


def judge(tally: Tally, told: dict[str, list[Line]], found: Account) -> None:
    """Hold what everybody says they wrote against what there is."""
    who = {"one": "agent", "two": "agent", "hand": person()[0]}
    for name, lines in told.items():
        gone = {line["gone"] for line in lines if line.get("gone")}
        for line in lines:
            if "crash" in line:
                tally.fail(name, line["crash"])
            mark = line.get("made")
            if mark is None:
                continue
            tally.count("edits by hand" if name == "hand" else "acknowledged changes of programs")
            taken_by = found.last.get(mark)
            if mark not in found.first and name == "hand" and mark in gone:
                tally.count("edits that the person replaced before anybody looked")
            elif mark not in found.first:
                tally.fail(
                    f"{mark} {line.get('way', '')}", f"{'a hand edit' if name == 'hand' else 'an update'} is lost"
                )
            elif found.first[mark] != who[name]:
                tally.fail(mark, f"written by {who[name]}, in the log under {found.first[mark]}")
            elif found.now[mark] > 1:
                tally.fail(mark, "is there twice")
            elif not found.now[mark] and mark not in gone:
                if taken_by == who["hand"] and name != "hand":
                    tally.count("programs' lines that the person saved over, all in history")
                else:
                    tally.fail(mark, f"{who[name]}'s line was taken away by {taken_by}")
        tally.count("refused", sum("refused" in line for line in lines))


def run(seconds: float = 60.0, pause: float = 0.12) -> Tally:
    """Let them write for so many seconds; `pause`: the person rests as long between two edits, at most."""
    tally = Tally("two programs and a person")
    files = {
        BLOCK: new_block("shared", "What everybody writes to.", 20_000, "The first fact."),
        **dict.fromkeys(NOTES, "A list\n- of words\n"),
    }
    with workplace() as folder:
        root = folder / "vault"
        make_vault(root, files).close()
        until = time.monotonic() + seconds
        writers = {
            "one": Child(lambda sink: Program(root, sink, "one", until).go()),
            "two": Child(lambda sink: Program(root, sink, "two", until).go()),
            "hand": Child(lambda sink: Person(root, sink, until, pause).go()),
        }
        told: dict[str, list[Line]] = {name: [] for name in writers}
        while time.monotonic() < until:  # nobody may have to wait for a full pipe
            for name, child in writers.items():
                line = child.line(0.01)
                told[name] += [line] if line else []
        for name, child in writers.items():
            told[name] += child.rest(60)
        judge(tally, told, account(root))
        for problem in [*inspect(root, words=20).problems, plain_git(root)]:
            if problem:
                tally.fail("at the end", problem)
        tally.figures["changes a second"] = sum("made" in line for lines in told.values() for line in lines) / seconds
    return tally


if __name__ == "__main__":
    main(run, __doc__, seconds=60.0, pause=0.12)
