"""A vault against a dictionary: calls, hand edits, kills, undo, searches and reopening in any order that comes up.

The dictionary holds the files as they have to be. Whatever happened, the files are as it says, history agrees with
them, search finds what it says and nothing else, and undo goes back through its earlier states one by one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torture.base import Child, on_disk, tell, workplace
from torture.inspection import inspect, plain_git

from memory_fs.agent import Agent
from memory_fs.analysis import tokens
from memory_fs.errors import VaultError
from memory_fs.formats.block import parse_block
from memory_fs.formats.note import parse_note
from memory_fs.history import AGENT
from memory_fs.testing import ScriptedModel, call, counting_ids, fixed_clock, make_vault
from memory_fs.undo import MEMORY, redo, undo
from memory_fs.vault import Vault

EXAMPLES = int(os.environ.get("TORTURE_EXAMPLES", "15"))  # `make torture` asks for more
STEPS = int(os.environ.get("TORTURE_STEPS", "20"))
BLOCK = "core/human.yaml"
WORDS = ("plum", "pear", "fig", "quince", "medlar", "sloe")
PLACES = ("", "fruit/", "fruit/autumn 2026/", "日记/")
Files = dict[str, bytes]

words = st.sampled_from(WORDS)
places = st.sampled_from(PLACES)
picks = st.integers(0, 1000)
CALLS = set("open write pwrite rename replace unlink mkdir rmdir link fsync ftruncate utime".split())


def killed_at(number: int, work: Callable[[], object], sink: int) -> None:
    """Do some work, and be killed on entering the n-th call that can change something on disk."""
    left = number

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event != "c_call":
            return
        owner = getattr(argument, "__module__", None) or type(getattr(argument, "__self__", None)).__module__
        if (owner == "posix" and argument.__name__ in CALLS) or "pygit2" in owner:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    work()
    sys.setprofile(None)
    tell(sink, {"done": True})


class VaultMachine(RuleBasedStateMachine):
    """The rules: what programs, people and accidents do to a vault."""

    def __init__(self) -> None:
        super().__init__()
        self.place = workplace()
        self.root = self.place.__enter__() / "vault"
        self.ids = counting_ids("k")
        self.clock = fixed_clock()
        self.number = 0
        self.said: list[str] = []

    @initialize()
    def begin(self) -> None:
        """A small vault with two notes."""
        notes = {f"archival/{word}.md": f"---\nid: {word}\n---\n{word} and porridge\n" for word in WORDS[:2]}
        make_vault(self.root, notes).close()
        self.files = self._memory()
        self.states: list[Files] = [self.files]  # one for each change of memory, the newest last
        self.undone: list[Files] = []
        self._open()

    def teardown(self) -> None:
        """Look at everything once more, as the next program would."""
        try:
            if hasattr(self, "agent"):
                self.agent.close()
                assert inspect(self.root, adopts=True).problems == []
                assert plain_git(self.root) == ""
        finally:
            self.place.__exit__(None, None, None)

    # -- the model ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        vault = Vault(self.root, clock=self.clock, new_id=self.ids)
        self.agent = Agent(vault, ScriptedModel([]))

    def _memory(self) -> Files:
        """The files on disk that undo is about."""
        return {path: (self.root / path).read_bytes() for path in on_disk(self.root) if path.startswith(MEMORY)}

    def _unique(self, word: str) -> str:
        self.number += 1
        return f"{word} number{self.number}"

    def _settle(self) -> None:
        """A program looks: what was edited by hand since becomes one change of the person."""
        change = self.agent.vault.adopt()
        assert (change is None) == (self.files == self.states[-1]), change
        if change is not None:
            before, after = self.states[-1], self.files
            differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
            assert set(change.paths) == differing
            self._changed()

    def _changed(self) -> None:
        self.states.append(self.files)
        self.undone.clear()

    def _notes(self) -> list[str]:
        return sorted(path for path in self.files if path.startswith("archival/"))

    def _pick(self, number: int) -> str:
        notes = self._notes()
        return notes[number % len(notes)]

    def _value(self) -> list[str]:
        return parse_block(self.files[BLOCK].decode(), "human").value.split("\n")

    def _did(self, function: str, **arguments: str) -> bool:
        """Call a function; the model takes over what it wrote."""
        self._settle()
        result, change = self.agent.call(function, arguments)
        self.files = self._memory()
        if change is not None:
            self._changed()
        return result.ok

    # -- programs -----------------------------------------------------------------------------------------------

    @rule(word=words)
    def insert(self, word: str) -> None:
        """A function saves a note: one more file, with that text."""
        before, text = set(self._notes()), self._unique(word)
        assert self._did("archival_memory_insert", content=text)
        (new,) = set(self._notes()) - before
        assert parse_note(self.files[new].decode(), new).text == text

    @rule(word=words)
    def append(self, word: str) -> None:
        """A function adds a line to the block and touches no other."""
        lines, new = [line for line in self._value() if line], self._unique(word)
        if self._did("core_memory_append", label="human", content=new):
            assert [line for line in self._value() if line] == [*lines, new]

    @rule(word=words, number=picks)
    def replace(self, word: str, number: int) -> None:
        """A function replaces one line of the block."""
        lines = [line for line in self._value() if line.strip()]
        if lines:
            old, new = lines[number % len(lines)], self._unique(word)
            if self._did("core_memory_replace", label="human", old_content=old, new_content=new):
                assert new in self._value() and old not in self._value()

    @rule(word=words)
    def append_without_looking(self, word: str) -> None:
        """A function writes while hand edits wait: they stay, also in the same file, and come under the person."""
        edited = {path for path in self.files if self.files[path] != self.states[-1].get(path)}
        new = self._unique(word)
        result, _ = self.agent.call("core_memory_append", {"label": "human", "content": new})
        others = {path: data for path, data in self.files.items() if path != BLOCK}
        assert {path: data for path, data in self._memory().items() if path != BLOCK} == others
        lines = [line for line in self._value() if line]
        self.files = self._memory()
        if result.ok:
            assert [line for line in self._value() if line] == [*lines, new]
        self.agent.vault.adopt()
        if edited:
            assert any(set(change.paths) & edited for change in self._by_hand())
        self.states, self.undone = [self.files], []  # how many changes that were is not modelled

    def _by_hand(self) -> list[Any]:
        return [change for change in self.agent.vault.history.log() if change.subject.endswith("by hand")]

    @rule(word=words)
    def say(self, word: str) -> None:
        """A turn of a conversation: the message is in recall and found by its words."""
        text = f"Hello there too, {self._unique(word)}."  # says that it adds: it replaces no line
        self.agent.model = self.agent._writer._model = ScriptedModel(  # the next reply
            [call("send_message", missing="nothing", message="I see."), '{"message": "I see."}']
        )
        before = self.files != self.states[-1]
        self.agent.send(text)
        self.said.append(text)
        assert self._memory() == self.files
        if before:
            self._changed()
        assert self.agent.recall.search(text.split()[-1].rstrip(".")).hits[0].text == text

    @rule()
    def reopen(self) -> None:
        """Another program takes over."""
        self.agent.close()
        self._open()

    @rule(word=words)
    def search(self, word: str) -> None:
        """Search finds the notes that have a word, wherever they are now, and no other."""
        self._settle()
        found = {hit.path for hit in self.agent.archival.search(word, size=500).hits}
        texts = {path: parse_note(self.files[path].decode(), path) for path in self._notes()}
        assert found == {path for path, note in texts.items() if word in tokens(f"{note.title} {note.text}")}
        assert self.agent.archival.count() == len(texts)

    @rule()
    def undo(self) -> None:
        """Undo goes back to the state before the newest change of memory."""
        self._settle()
        if len(self.states) > 1:
            undo(self.agent.vault, AGENT)
            self.undone.append(self.states.pop())
            self.files = self.states[-1]

    @rule()
    def redo(self) -> None:
        """Redo brings back what the newest undo took, and refuses where there is nothing."""
        self._settle()
        if self.undone:
            redo(self.agent.vault, AGENT)
            self.files = self.undone.pop()
            self.states.append(self.files)
        elif len(self.states) > 1:
            with pytest.raises(VaultError, match="nothing to redo"):
                redo(self.agent.vault, AGENT)

    # -- a person -----------------------------------------------------------------------------------------------

    def _save(self, path: str, data: bytes, in_place: bool) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        target = place if in_place else place.with_name(f".{place.name}.new")
        target.write_bytes(data)
        if not in_place:
            target.replace(place)
        self.files = {**self.files, path: data}

    @rule(word=words, in_place=st.booleans())
    def edit_block(self, word: str, in_place: bool) -> None:
        """A person rewrites the block, with a comment and other quotes."""
        text = f"# mine\nlabel: human\nlimit: 2000\nvalue: |\n  {self._unique(word)}\n  second line\n"
        self._save(BLOCK, text.encode(), in_place)

    @precondition(lambda self: self._notes())
    @rule(word=words, number=picks, in_place=st.booleans(), old=st.booleans())
    def edit_note(self, word: str, number: int, in_place: bool, old: bool) -> None:
        """A person changes a note; a restored one has a time in the past."""
        path = self._pick(number)
        self._save(path, self.files[path] + f"{self._unique(word)}\n".encode(), in_place)
        if old:
            moment = 1_500_000_000 + self.number
            os.utime(self.root / path, (moment, moment))

    @rule(word=words, place=places)
    def new_note(self, word: str, place: str) -> None:
        """A person puts a file without front matter into archival memory."""
        text = self._unique(word)
        self._save(f"archival/{place}{text}.md", f"{text}\r\nby hand\r\n".encode(), True)

    @precondition(lambda self: self._notes())
    @rule(number=picks, place=places)
    def move_note(self, number: int, place: str) -> None:
        """A person moves or renames a note."""
        old = self._pick(number)
        self.number += 1
        new = f"archival/{place}moved {self.number}.md"
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)
        self.files = {**{path: data for path, data in self.files.items() if path != old}, new: self.files[old]}

    @precondition(lambda self: self._notes())
    @rule(number=picks)
    def delete_note(self, number: int) -> None:
        """A person deletes a note."""
        path = self._pick(number)
        (self.root / path).unlink()
        self.files = {other: data for other, data in self.files.items() if other != path}

    # -- accidents ----------------------------------------------------------------------------------------------

    @rule(word=words, number=st.integers(1, 80), what=st.sampled_from(("insert", "append", "undo")))
    def kill(self, word: str, number: int, what: str) -> None:
        """A program is killed in the middle of a change: all of it is there, or nothing."""
        self._settle()
        self.agent.close()
        before, text = self.files, self._unique(word)
        acts: dict[str, Callable[[Agent], object]] = {
            "insert": lambda agent: agent.call("archival_memory_insert", {"content": text}),
            "append": lambda agent: agent.call("core_memory_append", {"label": "human", "content": text}),
            "undo": lambda agent: undo(agent.vault, AGENT),
        }
        if what == "undo" and len(self.states) == 1:
            what = "append"
        child = Child(partial(killed_at, number, lambda: self._act(acts[what])))
        lines = child.rest()
        assert lines in ([], [{"done": True}]), lines
        for _ in range(8):  # the child's ids are taken
            self.ids()
        self._open()
        self.files = self._memory()
        if self.files == before:
            assert not lines or what == "append", "it was acknowledged and is gone"  # a block may be full
        elif what == "undo":
            assert self.files == self.states[-2]
            self.undone.append(self.states.pop())
        else:
            (path,) = {p for p in self.files if self.files[p] != before.get(p)}
            assert before.keys() <= self.files.keys() and text in self.files[path].decode()
            self._changed()

    def _act(self, act: Callable[[Agent], object]) -> None:
        self._open()
        act(self.agent)

    # -- always -------------------------------------------------------------------------------------------------

    @invariant()
    def files_are_as_they_should_be(self) -> None:
        """No file changes but by what is done to it."""
        if hasattr(self, "agent"):
            assert self._memory() == self.files


VaultMachine.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


class TestVault(VaultMachine.TestCase):  # type: ignore[misc]
    """Whatever is done to a vault, it is what the dictionary says."""
