"""How long one acknowledged write takes in a vault of some size: fsynced and committed to history."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memory_fs.agent import Agent
from memory_fs.archival import FULL
from memory_fs.bench.table import percentile
from memory_fs.formats.note import Note, render_note
from memory_fs.loading import NoModel
from memory_fs.starter import init_vault
from memory_fs.vault import Transaction, Vault

WORDS = "river stone lamp window garden letter winter bread silver road paper evening mountain glass story".split()


def run(say: Callable[[str], None], notes: int = 2600, inserts: int = 100) -> dict[str, Any]:
    """Fill a vault with notes, then time `archival_memory_insert`.

    Args:
        say: told what goes on.
        notes: how many there are before.
        inserts: how many are timed.
    """
    dice = random.Random(7)

    def text() -> str:
        return " ".join(dice.choice(WORDS) + str(dice.randrange(10**6)) for _ in range(40))

    def fill(transaction: Transaction) -> None:
        for number in range(notes):
            note = Note(f"n{number:06d}", text(), title=f"Note {number}")
            transaction.write(f"archival/2026/part-{number // FULL:04d}/{note.id}.md", render_note(note))

    with tempfile.TemporaryDirectory() as folder, Vault(init_vault(Path(folder) / "vault")) as vault:
        say(f"writing {notes} notes ...")
        vault.transact(fill, f"Fill with {notes} notes")
        with Agent(vault, NoModel(vault.settings)) as agent:
            agent.search.sync()
            seconds = []
            for _ in range(inserts):
                start = time.perf_counter()
                result, _change = agent.call("archival_memory_insert", {"content": text()})
                seconds.append(time.perf_counter() - start)
                if not result.ok:
                    raise RuntimeError(result.text)
    return {
        "notes": notes,
        "inserts": inserts,
        "median ms": percentile(seconds, 0.5) * 1000,
        "p95 ms": percentile(seconds, 0.95) * 1000,
    }
