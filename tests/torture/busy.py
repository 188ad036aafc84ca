"""A busy program: turns, notes, changes of blocks, flushes, and a line for each change that is acknowledged.

Every text holds a word of its own, so that whatever is lost or stale can be told by searching for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from memory_fs.agent import Agent
from memory_fs.change import Change
from memory_fs.formats.block import new_block
from memory_fs.llm import Turn
from memory_fs.prompt import ANSWER, SUMMARY
from memory_fs.testing import ScriptedModel, call, make_vault
from memory_fs.vault import Transaction, Vault

from .base import digests, tell

WINDOW = 1280  # tokens: a dozen turns fill it, so that there are flushes
LINES = 10  # of a block; from then on lines are replaced
FILLER = "plums and pears with porridge on a cold grey morning by the river"


def word(number: int, kind: str = "step") -> str:
    """A word that no other text has; letters only, so that it stays one word."""
    return kind + "".join(chr(ord("a") + int(digit)) for digit in f"{number:08d}")


class Acknowledging(Vault):
    """A vault that tells when a change is about to be written, and right after it was acknowledged what it wrote."""

    def __init__(self, root: Path, sink: int, **options: Any) -> None:
        super().__init__(root, **options)
        self._sink = sink

    def transact(self, work: Callable[[Transaction], Any], *args: Any, **options: Any) -> tuple[Any, Change | None]:
        """As `Vault.transact`."""
        staged: dict[str, bytes | None] = {}

        def watched(transaction: Transaction) -> Any:
            result = work(transaction)
            staged.clear()
            staged.update(transaction.staged)
            tell(self._sink, {"begun": True})
            return result

        result, change = super().transact(watched, *args, **options)
        if change:
            tell(self._sink, {"rev": change.rev, "files": digests(staged)})
        return result, change


def busy_vault(root: Path) -> str:
    """Make a vault for it; returns its newest change."""
    files = {
        "memory.yaml": f"zone: UTC\nwindow: {WINDOW}\nreply_reserve: 128\n",
        "core/human.yaml": new_block("human", "What I know about the user.", 2000),
    }
    with make_vault(root, files) as vault:
        return vault.history.head or ""


class Busy:
    """Goes on until it is stopped, or for so many rounds."""

    def __init__(self, root: Path, sink: int, seed: int, **options: Any) -> None:
        """Args: root: the vault; sink: where acknowledgements go; seed: another one for each run in a vault."""
        self._dice = random.Random(seed)
        self._number = seed * 10_000
        self._plan: list[str] = []
        self._vault = partial(Acknowledging, root, sink, **options)
        self._agent = self._open()

    def _open(self) -> Agent:
        return Agent(self._vault(), ScriptedModel(repeat(self._reply), window=WINDOW))

    def go(self, rounds: int = 1_000_000) -> None:
        """Be busy."""
        for _ in range(rounds):
            act = self._dice.choices((self._turn, self._insert, self._note_block, self._reopen), (4, 3, 3, 1))[0]
            act()

    def close(self) -> None:
        """Release the vault, as a program does that ends in peace."""
        self._agent.close()

    def _next(self, kind: str = "step") -> str:
        self._number += 1
        return word(self._number, kind)

    def _turn(self) -> None:
        steps = [self._plan_insert, self._plan_block]
        self._plan = [step() for step in self._dice.sample(steps, self._dice.randrange(3))]
        for _ in self._agent.run(f"Keep the following in mind {self._next('said')}."):
            pass

    def _plan_insert(self) -> str:
        return call("archival_memory_insert", content=f"{self._next()} {FILLER}", tags=["busy"])

    def _plan_block(self) -> str:
        name, arguments = self._block_call()
        return call(name, **arguments)

    def _block_call(self) -> tuple[str, dict[str, str]]:
        lines = [line for line in self._agent.core.block("human").value.split("\n") if line]
        line = f"Fact {self._next('fact')}."
        if len(lines) < LINES:
            return "core_memory_append", {"label": "human", "content": line}
        old = self._dice.choice(lines)
        return "core_memory_replace", {"label": "human", "old_content": old, "new_content": line}

    def _insert(self) -> None:
        self._agent.call("archival_memory_insert", {"content": f"{self._next('direct')} {FILLER}"})

    def _note_block(self) -> None:
        self._agent.call(*self._block_call())

    def _reopen(self) -> None:
        self._agent.archival.search(self._dice.choice(FILLER.split()))
        self._agent.close()
        self._agent = self._open()

    def _reply(self, turns: Sequence[Turn]) -> str:
        if turns[0].content.startswith(SUMMARY):
            return ""
        if turns[0].content.startswith(ANSWER):
            return f'{{"message": "I see, {self._next("answer")}."}}'
        return self._plan.pop(0) if self._plan else call("send_message", missing="nothing", message="I see.")
