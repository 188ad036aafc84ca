"""SIGKILL at random moments of a busy run, again and again in the same vault.

    python -m tests.torture.kill --rounds 1000

After each kill the vault is opened as the next program would. Every acknowledged change has to be in history and in
the files, at most the one change that was under way may be there on top, as a whole, and search has to be right.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from .base import Child, Line, State, Tally, after, differences, main, workplace
from .busy import Busy, busy_vault
from .inspection import Seen, inspect, plain_git


class Victim:
    """One vault and the runs that are killed in it."""

    def __init__(self, root: Path, tally: Tally) -> None:
        self.root, self.tally = root, tally
        self.head = busy_vault(root)
        self.files: State = inspect(root).files
        self.verified: set[str] = set()
        self.pace = 0.02  # seconds that a change takes to be written, as measured

    def round(self, number: int, dice: random.Random) -> None:
        """Let a child be busy, kill it, look."""
        child = Child(lambda sink: Busy(self.root, sink, number + 1).go())
        acknowledged = self._until_killed(child, dice)
        seen = inspect(self.root, since=self.head, verified=self.verified)
        self._judge(f"kill {number}", acknowledged, seen)

    def _until_killed(self, child: Child, dice: random.Random) -> list[Line]:
        """Some changes are let through. Then the kill comes while the next is written, or anywhere."""
        lines: list[Line] = []
        for _ in range(dice.randrange(5)):
            lines += self._change(child)
        if dice.random() < 0.75:
            lines += self._up_to("begun", child)
        time.sleep(dice.random() * self.pace * 1.3)
        child.kill()
        return lines + child.rest()

    def _change(self, child: Child) -> list[Line]:
        """The lines up to the next acknowledged change; measures how long it takes to write."""
        lines = self._up_to("begun", child)
        start = time.monotonic()
        lines += self._up_to("rev", child)
        self.pace += 0.2 * (min(1.0, time.monotonic() - start) - self.pace)
        return lines

    @staticmethod
    def _up_to(kind: str, child: Child) -> list[Line]:
        lines: list[Line] = []
        while line := child.line(60):
            lines.append(line)
            if kind in line or "crash" in line:
                break
        return lines

    def _judge(self, where: str, acknowledged: list[Line], seen: Seen) -> None:
        tally = self.tally
        tally.count("kills")
        tally.count("index built anew", seen.rebuilt)
        tally.figures["temporary files left"] = len(seen.litter)
        for line in acknowledged:
            if "crash" in line:
                tally.fail(where, f"the run itself failed: {line['crash']}")
        promised = [line for line in acknowledged if "rev" in line]
        tally.count("acknowledged changes", len(promised))
        for line in promised:
            self.files = after(self.files, line["files"])
        revs = [change.rev for change in reversed(seen.changes)]
        if revs[: len(promised)] != [line["rev"] for line in promised]:
            tally.fail(where, "an acknowledged change is not in history")
        more = seen.changes[: max(0, len(revs) - len(promised))]
        tally.count("unacknowledged changes that are there as a whole", len(more))
        if len(more) > 1 or any(change.author != "agent" for change in more):
            tally.fail(where, f"changes that nobody made: {more}")
        touched = {path for change in more for path in change.paths}
        kept, promised_files = ({p: b for p, b in s.items() if p not in touched} for s in (seen.files, self.files))
        if kept != promised_files:
            tally.fail(where, differences(kept, promised_files))
        for problem in seen.problems:
            tally.fail(where, problem)
        self.files, self.head = seen.files, (revs or [self.head])[-1]


def run(rounds: int = 1000, vault: int = 100, seed: int = 1) -> Tally:
    """Kill so many times; a new vault after every `vault` kills."""
    tally, dice = Tally("kill -9 at random moments"), random.Random(seed)
    with workplace() as folder:
        for number in range(rounds):
            if number % vault == 0:
                victim = Victim(folder / f"vault{number}", tally)
            victim.round(number, dice)
            if number % vault == vault - 1 or number == rounds - 1:
                trouble = plain_git(victim.root)
                if trouble:
                    tally.fail(f"kill {number}", trouble)
    return tally


if __name__ == "__main__":
    main(run, __doc__, rounds=1000, vault=100, seed=1)
