"""Every system call of one change, killed and failed one after the other.

    python -m tests.torture.syscalls --every 1

A write of one step, an undo, the adoption of a hand edit, a search after it, the first opening of a folder, the start
of a new vault and the recovery from a kill each run once undisturbed, to count their calls. Then each of them runs
again in a fresh copy for every call: with SIGKILL on entering it, with an error as its result, with a write that is cut
short. What is found afterwards has to be the state before or the one after, nothing in between; what was acknowledged
has to be there; what failed has to be an error of the vault in one line.
"""

from __future__ import annotations

import re
import resource
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memory_fs.agent import Agent
from memory_fs.archival import Archival
from memory_fs.create import create_vault
from memory_fs.errors import MemoryFsError
from memory_fs.events import Message
from memory_fs.history import AGENT
from memory_fs.testing import ScriptedModel, counting_ids, fixed_clock, make_vault
from memory_fs.undo import undo
from memory_fs.vault import Transaction, Vault

from .base import Child, State, Tally, differences, main, tell, workplace
from .inspection import Seen, inspect, plain_git
from .traced import Outcome, traced

CHANGING = """openat open creat write pwrite64 writev rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir link
    linkat symlink symlinkat truncate ftruncate fallocate fsync fdatasync syncfs flock chmod fchmod utimensat sendfile
    copy_file_range""".split()
READING = "read pread64 getdents64 newfstatat fstat lseek mmap readlink access faccessat2 close".split()
NO_ROOM = {"openat", "write", "pwrite64", "rename", "renameat", "renameat2", "mkdir", "link", "ftruncate", "syncfs"}
RARER = 10  # of calls that only read, one in so many is failed
EDITED = b"label: human\nlimit: 500\nvalue: |\n  Written by hand.\n"
NOTE = b"A note that was put there by hand, about quinces.\n"
SMALLEST = (0, 1, 100, 400)  # bytes: files may grow to that size and no further


@dataclass
class Operation:
    """Something that is done to a vault.

    Attributes:
        name: for the table.
        prepare: makes the folder as it is before.
        act: does it.
        adopts: a hand edit may be waiting before and after.
        states: what the files may be afterwards: as before, as after.
        calls: (system call, its number, whether it changes anything, whether it is git's) for those in the folder.
    """

    name: str
    prepare: Callable[[Path], None]
    act: Callable[[Path], None]
    adopts: bool = False
    states: list[State] = field(default_factory=list)
    calls: list[tuple[str, int, bool, bool]] = field(default_factory=list)


# -- what is done ---------------------------------------------------------------------------------------------------


def _open(root: Path) -> Agent:
    vault = Vault(root, clock=fixed_clock("2026-12-24T10:00:00+00:00"), new_id=counting_ids("made"))
    return Agent(vault, ScriptedModel([]))


def _standing(root: Path) -> None:
    """A vault in use: some notes, a block, messages, an index, a scan that is remembered."""
    with make_vault(root) as vault, Agent(vault, ScriptedModel([])) as agent:
        for number in range(3):
            agent.call("archival_memory_insert", {"content": f"directnote{'abc'[number]} about plums"})
        _step(agent, "stepfirst")
        agent.call("core_memory_append", {"label": "human", "content": "Likes plums."})
        agent.archival.search("plums")


def _step(agent: Agent, word: str) -> None:
    """One step of the loop: a note, its messages and the queue, as one change."""
    vault = agent.vault
    archival = Archival(agent.search)

    def work(transaction: Transaction) -> None:
        note = archival.insert(transaction, f"{word} is in this note", ["made"], {"session": "s", "turn": 1})
        texts = {"call": f"archival_memory_insert({word})", "result": f"saved as note {note}"}
        messages = [Message(vault.new_id(), vault.now(), role, text) for role, text in texts.items()]  # type: ignore[arg-type]
        agent.queue.push(transaction, agent.queue.state(), messages)

    vault.transact(work, "Save a note", author=AGENT)


def _write(root: Path) -> None:
    with _open(root) as agent:
        _step(agent, "stepsecond")


def _undo(root: Path) -> None:
    with _open(root) as agent:
        undo(agent.vault, AGENT)


def _edited(root: Path) -> None:
    _standing(root)
    (root / "core/human.yaml").write_bytes(EDITED)
    (root / "archival/by-hand.md").write_bytes(NOTE)
    (root / "system.md").unlink()


def _adopt(root: Path) -> None:
    with _open(root) as agent:
        agent.vault.adopt()


def _search(root: Path) -> None:
    with _open(root) as agent:
        agent.archival.search("quinces")  # a file that cannot be read now is found the next time


def _adopt_and_search(root: Path) -> None:
    with _open(root) as agent:
        agent.vault.adopt()
        agent.archival.search("quinces")


def _folder(root: Path) -> None:
    """Files without a history: somebody's copy of a vault without its `.memory_fs`."""
    _edited(root)
    shutil.rmtree(root / ".memory_fs")


def _start(root: Path) -> None:
    create_vault(root, {"memory.yaml": "zone: UTC\n", "system.md": "Remember.\n"}, clock=fixed_clock())


def _nothing(root: Path) -> None:
    root.mkdir()


def _halfway(root: Path) -> None:
    """A write that was killed when one of its files was in place."""
    found = root.with_name(f"{root.name}-found")
    _standing(found)
    before = inspect(found).files
    for number in range(1, 60):
        shutil.copytree(found, root)
        traced(lambda sink: _write(root), _inject(MOVES, "signal=KILL", number))
        disk = {
            p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.*") if ".memory_fs" not in p.parts
        }
        if any(
            "stepsecond" in data.decode(errors="replace") for path, data in disk.items() if not path.endswith("tmp")
        ):
            return
        shutil.rmtree(root)
    raise AssertionError(f"no kill left a file in place: {sorted(before)}")


MOVES = "rename,renameat,renameat2"


def operations() -> list[Operation]:
    """What is tried."""
    return [
        Operation("write", _standing, _write),
        Operation("undo", _standing, _undo),
        Operation("adopt", _edited, _adopt, adopts=True),
        Operation("search", _edited, _search, adopts=True),
        Operation("first open", _folder, _adopt_and_search, adopts=True),
        Operation("new vault", _nothing, _start),
        Operation("recover", _halfway, lambda root: _open(root).close()),
    ]


# -- how it is disturbed --------------------------------------------------------------------------------------------


def _inject(call: str, what: str, number: int) -> list[str]:
    return ["-e", f"trace={call}", "-e", f"inject={call}:{what}:when={number}"]


def _told(act: Callable[[Path], None], root: Path) -> Callable[[int], None]:
    """The work of a child: act, then say how it went."""

    def work(sink: int) -> None:
        try:
            act(root)
        except MemoryFsError as error:
            tell(sink, {"refused": str(error)})
        else:
            tell(sink, {"done": True})

    return work


class Rack:
    """One operation, disturbed in every way."""

    def __init__(self, operation: Operation, folder: Path, tally: Tally) -> None:
        self.operation, self.folder, self.tally = operation, folder, tally
        self.template = folder / "template"
        self.log = folder / "calls"
        operation.prepare(self.template)
        self._undisturbed()

    def _copy(self, name: str) -> Path:
        root = self.folder / name
        shutil.copytree(self.template, root, symlinks=True)
        return root

    def _undisturbed(self) -> None:
        """Count the calls, and learn the states before and after."""
        operation = self.operation
        new = operation.name == "new vault"
        operation.states.append({} if new else inspect(self._copy("before"), adopts=True).files)
        root = self._copy("after")
        every = ["-y", "-e", f"trace={','.join(CHANGING + READING)}"]
        outcome = traced(_told(operation.act, root), every, self.log)
        if outcome.lines != [{"done": True}]:
            raise AssertionError(f"{operation.name} fails undisturbed: {outcome}")
        seen = inspect(root, adopts=operation.adopts)
        operation.states.append(seen.files)
        for problem in seen.problems:
            self.tally.fail(f"{operation.name}, undisturbed", problem)
        self._read_log(str(root))

    def _read_log(self, root: str) -> None:
        """Those of the calls that are about the folder."""
        counts: Counter[str] = Counter()
        for line in self.log.read_text(errors="replace").splitlines():
            found = re.match(r"\d+ +(\w+)\(", line)
            if found:
                name = found[1]
                counts[name] += 1
                writes = name in CHANGING and (
                    name != "openat" or re.search(r"O_(CREAT|WRONLY|RDWR)", line) is not None
                )
                if root in line:
                    self.operation.calls.append(
                        (name, counts[name], writes, re.search(r"/git(\.new)?/", line) is not None)
                    )

    def runs(self, every: int) -> Iterator[tuple[str, str, int]]:
        """(system call, what happens to it, which one of them)."""
        found = []
        for turn, (call, number, writes, git) in enumerate(self.operation.calls):
            ways = ["error=EIO"] if writes or turn % RARER == 0 else []
            if writes:
                ways += ["signal=KILL", *(["error=ENOSPC"] if call in NO_ROOM else [])]
            if (
                call in ("write", "pwrite64") and not git
            ):  # strace lies about what it wrote: libgit2 believes the system
                ways.append("retval=3")
            found += [(call, way, number) for way in ways]
        yield from found[::every]

    def disturb(self, call: str, way: str, number: int) -> None:
        """One run in a copy of its own, and a look at what it left."""
        root = self._copy("run")
        outcome = traced(_told(self.operation.act, root), _inject(call, way, number))
        self.tally.count(way.replace("=", " "))
        self._judge(f"{self.operation.name}, {call} {number}, {way}", way, root, outcome)
        shutil.rmtree(root)

    def choke(self, size: int) -> None:
        """A disk that takes files up to a size: the write that reaches it is cut short, the next one fails."""
        root = self._copy("run")

        def work(sink: int) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            _told(self.operation.act, root)(sink)

        child = Child(work)
        lines = child.rest()
        self.tally.count("files cut at a size")
        where = f"{self.operation.name}, files of {size} bytes at most"
        self._judge(where, "limit", root, Outcome(child.status, lines))
        shutil.rmtree(root)

    def _judge(self, where: str, way: str, root: Path, outcome: Outcome) -> None:
        said = outcome.lines[-1] if outcome.lines else {}
        if way != "signal=KILL" and not {"done", "refused"} & said.keys():
            self.tally.fail(where, f"no clear error but {said.get('crash', outcome)}")
        if said.get("refused", "x").count("\n"):
            self.tally.fail(where, f"an error of more than one line: {said['refused']}")
        if self.operation.name == "new vault":
            _start_again(root)
        seen = inspect(root, adopts=self.operation.adopts, words=2)
        self._judge_state(where, "done" in said, root, seen)

    def _judge_state(self, where: str, acknowledged: bool, root: Path, seen: Seen) -> None:
        before, done = self.operation.states
        wanted = [done] if acknowledged or self.operation.name == "new vault" else [before, done]
        if seen.files not in wanted:
            self.tally.fail(
                where, f"{'acknowledged, but ' if acknowledged else ''}{differences(seen.files, wanted[-1])}"
            )
        for problem in seen.problems:
            self.tally.fail(where, problem)
        by_person = sum("by hand" in change.subject for change in seen.changes)
        if bool(by_person) != self.operation.adopts or by_person > 1 + ("error" in where):
            self.tally.fail(where, f"{by_person} changes by hand in history")
        self.tally.figures["temporary files left"] = self.tally.figures.get("temporary files left", 0) + len(
            seen.litter
        )
        trouble = plain_git(root) if self.operation.name in ("first open", "new vault") else ""
        if trouble:
            self.tally.fail(where, trouble)


def _start_again(root: Path) -> None:
    """What a person does when `memory-fs init` was interrupted: the same command once more."""
    try:
        _start(root)
    except MemoryFsError:
        return  # it is whole: the look that follows tells


def run(every: int = 1, only: str = "") -> Tally:
    """Disturb every n-th call of each operation (1: each of them)."""
    tally = Tally("system calls killed and failed")
    for operation in operations():
        if only and operation.name != only:
            continue
        with workplace() as folder:
            rack = Rack(operation, folder, tally)
            tally.figures[f"calls of {operation.name}"] = len(rack.operation.calls)
            for call, way, number in rack.runs(every):
                rack.disturb(call, way, number)
            for size in SMALLEST if every == 1 else ():
                rack.choke(size)
    return tally


if __name__ == "__main__":
    main(run, __doc__, every=1, only="")
