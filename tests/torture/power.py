"""Power cuts, simulated: only what was synced is sure to be there, of the rest anything may be.

    python -m tests.torture.power --states 600

A busy run is written down system call by system call. At many points of it the disk is then rebuilt as a power cut
could have left it, opened, and looked at. Two kinds of file system are simulated: one that keeps changes of names in
their order (a journal) and one that keeps any of them. In both a file's new bytes may be there, missing, cut, or zeros,
until a sync covers them. What was acknowledged is part of the recording, so no acknowledged change may be lost.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from memory_fs import journal
from memory_fs.history import AGENT
from memory_fs.vault import Transaction, Vault

from .base import Child, Line, State, Tally, after, differences, digests, main, tell, workplace
from .busy import Busy, busy_vault
from .inspection import inspect
from .recording import Recording, record
from .tree import Data, Entry, Node, Operation, Sync, Told, Tree

MODELS = ("journal", "any")
PATIENCE = 30.0  # seconds
STYLES = ("whole", "none", "mixed", "mixed")  # what becomes of bytes that no sync covers


# -- what may survive -----------------------------------------------------------------------------------------------


def survive(base: Tree, later: Sequence[Operation], model: str, dice: random.Random) -> Tree:
    """The disk after a power cut.

    Args:
        base: what a sync of the whole file system has covered.
        later: what was done since.
        model: `journal` keeps changes of names up to a moment, `any` each of them or not.
        dice: decides.
    """
    tree = base.copy()
    kept = _kept_in_order(later, dice) if model == "journal" else _kept_at_will(later, dice)
    for number in sorted(kept):
        tree.apply(later[number])
    style = dice.choice(STYLES)
    written: dict[Node, list[int]] = {}
    for number, operation in enumerate(later):
        if isinstance(operation, Data):
            written.setdefault(operation.node, []).append(number)
    for node, numbers in written.items():
        safe = max((n for n, op in enumerate(later) if isinstance(op, Sync) and op.node == node), default=-1)
        fate = dice.choice(("whole", "none", "cut", "zeros")) if style == "mixed" else style
        _bytes_of(tree, [later[n] for n in numbers if n < safe], [later[n] for n in numbers if n > safe], fate, dice)
    return tree


def _kept_in_order(later: Sequence[Operation], dice: random.Random) -> set[int]:
    """Names up to a moment; a sync of any file writes the whole journal."""
    least = max((number for number, operation in enumerate(later) if isinstance(operation, Sync)), default=0)
    most = dice.choice((least, len(later), dice.randint(least, len(later))))
    return {number for number, operation in enumerate(later[:most]) if isinstance(operation, Entry)}


def _kept_at_will(later: Sequence[Operation], dice: random.Random) -> set[int]:
    """Any of the names, and those in a folder that was synced."""
    share = dice.choice((0.2, 0.5, 0.8, 0.95))
    synced = {operation.node: number for number, operation in enumerate(later) if isinstance(operation, Sync)}
    entries = ((number, operation) for number, operation in enumerate(later) if isinstance(operation, Entry))
    return {
        number
        for number, operation in entries
        if dice.random() < share or all(number < synced.get(folder, -1) for folder, _, _ in operation.sets)
    }


def _bytes_of(tree: Tree, safe: list[Operation], loose: list[Operation], fate: str, dice: random.Random) -> None:
    """Let a file's bytes survive as fate has it."""
    for operation in safe:
        tree.apply(operation)
    if fate == "none":
        loose = []
    elif fate == "cut":
        loose = loose[: dice.randint(0, len(loose))]
        last = loose[-1] if loose else None
        if isinstance(last, Data) and last.data:
            loose[-1] = replace(last, data=last.data[: dice.randrange(len(last.data))])
    elif fate == "zeros":
        loose = [replace(o, data=bytes(len(o.data))) for o in loose if isinstance(o, Data)]
    for operation in loose:
        tree.apply(operation)


# -- what was promised ----------------------------------------------------------------------------------------------


@dataclass
class Promises:
    """The changes of a run in order, and the files after each of them."""

    revs: list[str]
    states: list[State]
    contents: list[dict[str, bytes | None]]


def promises(root: Path, before: State, revs: list[str]) -> Promises:
    """What each change of a run wrote, taken from the history of the run that nothing disturbed."""
    states, contents = [before], []
    with Vault(root) as vault:
        for rev in revs:
            contents.append({path: data for path, _, data in vault.history.contents(rev)})
            states.append(after(states[-1], digests(contents[-1])))
    return Promises(revs, states, contents)


class Cutter:
    """Cuts the power of one recorded run, again and again."""

    def __init__(self, folder: Path, tally: Tally, dice: random.Random, rounds: int, deaf: bool) -> None:
        self.folder, self.tally, self.dice, self.deaf = folder, tally, dice, deaf
        root = folder / "vault"
        self.head = busy_vault(root)
        before = inspect(root).files
        seed = dice.randrange(1000)

        def work(sink: int) -> None:
            busy = Busy(root, sink, seed)
            busy.go(rounds)
            busy.close()

        self.recording, lines = record(root, work, folder / "calls")
        (folder / "calls").unlink()
        self.promises = promises(root, before, [line["rev"] for line in lines if "rev" in line])
        self.seen: set[str] = set()
        self.number = 0

    def cut(self, states: int) -> None:
        """So many different states, at moments spread over the run."""
        operations = self.recording.operations
        last = max(n for n, o in enumerate(operations) if isinstance(o, Told) and "rev" in o.line)
        for moment in sorted(self.dice.randint(0, last + 1) for _ in range(states)):
            made = sum(isinstance(o, Told) and "rev" in o.line for o in operations[:moment])
            model = self.dice.choice(MODELS)
            tree = self._survivors(self.recording, moment, model)
            self._look(tree, f"operation {moment} of {last}, {model}", made)

    def cut_again(self, states: int) -> None:
        """The same, with a second cut while the first is being recovered from."""
        operations = self.recording.operations
        for _ in range(states):
            moment = self.dice.randint(0, len(operations) - 1)
            made = min(
                sum(isinstance(o, Told) and "rev" in o.line for o in operations[:moment]), len(self.promises.revs) - 1
            )
            root = self._make(self._survivors(self.recording, moment, "journal"))
            try:
                second, _ = record(root, partial(_recover, root), self.folder / "calls")
            except RuntimeError as error:
                self.tally.fail(f"operation {moment}", f"recovery: {error}")
                continue
            finally:
                shutil.rmtree(root)
            for _ in range(3):
                again = self.dice.randint(0, len(second.operations))
                tree = self._survivors(second, again, self.dice.choice(MODELS))
                self._look(tree, f"operation {moment}, then {again} of recovery", made, cuts=2)

    def _survivors(self, recording: Recording, moment: int, model: str) -> Tree:
        done = recording.operations[:moment]
        whole = [n for n, o in enumerate(done) if isinstance(o, Sync) and o.node is None]
        synced = 0 if self.deaf or not whole else whole[-1] + 1
        base = recording.start.copy()
        for operation in done[:synced]:
            base.apply(operation)
        later = [o for o in done[synced:] if not (self.deaf and isinstance(o, Sync))]
        return survive(base, later, model, self.dice)

    def _make(self, tree: Tree) -> Path:
        self.number += 1
        root = self.folder / f"cut{self.number}"
        tree.write(root)
        return root

    def _look(self, tree: Tree, where: str, made: int, cuts: int = 1) -> None:
        """Open what survived, in a child: reading what a power cut left may hang."""
        print_of = hashlib.sha1(repr(sorted((p, tree.files.get(n)) for p, n, _ in tree.paths())).encode()).hexdigest()
        if print_of in self.seen:
            return
        self.seen.add(print_of)
        root = self._make(tree)
        self.tally.count("power cuts that left different disks")
        child = Child(lambda sink: tell(sink, self._verdict(root, made, cuts)))
        verdict = child.line(PATIENCE) or {"problems": ["opening and reading it hangs"]}
        child.kill()
        child.end()
        for problem in [*verdict.get("problems", []), *([verdict["crash"]] if "crash" in verdict else [])]:
            self.tally.fail(where, problem)
        self.tally.count("search indexes built anew", verdict.get("rebuilt", 0))
        self.tally.count("unacknowledged changes that are there as a whole", verdict.get("ahead", 0))
        shutil.rmtree(root)

    def _verdict(self, root: Path, made: int, cuts: int) -> Line:
        """All that was acknowledged is there, and at most the change that was under way."""
        restart_machine(cuts)
        seen = inspect(root, since=self.head, words=2)
        wanted = self.promises.states[made : made + 2]
        problems = list(seen.problems)
        if seen.files not in wanted:
            problems.append(differences(seen.files, wanted[0]))
        revs = {change.rev for change in seen.changes}
        if any(rev not in revs for rev in self.promises.revs[:made]):
            problems.append("an acknowledged change is not in history")
        if not problems and seen.files == wanted[0] and made < len(self.promises.revs):
            problems += self._once_more(root, made)
        return {"problems": problems, "rebuilt": seen.rebuilt, "ahead": seen.files == wanted[-1] != wanted[0]}

    def _once_more(self, root: Path, made: int) -> list[str]:
        """The change that was lost is made again: what its first attempt left behind must not get in the way."""

        def again(transaction: Transaction) -> None:
            for path, data in self.promises.contents[made].items():
                transaction.put(path, data)

        with Vault(root) as vault:
            vault.transact(again, "Again", author=AGENT)
        seen = inspect(root, since=self.head, words=1)
        wrong = differences(seen.files, self.promises.states[made + 1])
        return [f"made again: {problem}" for problem in [*seen.problems, *([wrong] if wrong else [])]]


def restart_machine(times: int = 1) -> None:
    """Let this process believe that it runs after a power cut: the vault asks the system which run of it this is."""
    setattr(journal, "boot_id", lambda: f"run-{times}")  # noqa: B010 (a cached function: mypy minds)


def _recover(root: Path, sink: int) -> None:
    restart_machine()
    Vault(root).close()


def run(states: int = 600, runs: int = 4, rounds: int = 10, again: int = 60, seed: int = 1, deaf: int = 0) -> Tally:
    """Record so many runs, cut each at moments, and some a second time.

    Args:
        states: power cuts in all.
        runs: recorded runs.
        rounds: things that each of them does.
        again: power cuts that are followed by others.
        seed: of everything that is left to chance.
        deaf: 1 lets no sync count, which has to lose something: a test of this test.
    """
    tally, dice = Tally("power cuts"), random.Random(seed)
    for _ in range(runs):
        with workplace() as folder:
            cutter = Cutter(folder, tally, dice, rounds, bool(deaf))
            tally.count("operations recorded", len(cutter.recording.operations))
            tally.count("syncs of the whole file system", sum(o == Sync(None) for o in cutter.recording.operations))
            tally.count("acknowledged changes", len(cutter.promises.revs))
            cutter.cut(states // runs)
            cutter.cut_again(again // runs)
    return tally


if __name__ == "__main__":
    main(run, __doc__, states=600, runs=4, rounds=10, again=60, seed=1, deaf=0)
