"""What grows with the number of notes and what must not: first index, a look at all files, `status`, a write, memory.

    memory-fs bench scale --notes 50000

The notes are written as a person's own files, as if copied there, and taken into history as one hand edit. The same
vault is measured at a hundredth, a tenth and all of them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memory_fs.agent import Agent
from memory_fs.archival import FULL
from memory_fs.bench.table import percentile
from memory_fs.bench.write import WORDS
from memory_fs.formats.note import Note, render_note
from memory_fs.loading import NoModel
from memory_fs.progress import progress
from memory_fs.starter import init_vault
from memory_fs.vault import Vault

_RARITY = 0.35  # exponent of the words' ranks (Zipf's law)


def run(say: Callable[[str], None], notes: int = 50_000, writes: int = 60, looks: int = 3) -> list[dict[str, Any]]:
    """Grow one vault and measure it at three sizes.

    Args:
        say: told what goes on.
        notes: how many there are at last.
        writes: inserts that are timed at each size.
        looks: how often all files are looked at and `status` is called; the median counts.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = init_vault(Path(folder) / "vault")
        there = 0
        for size in sorted({max(1, notes // 100), max(1, notes // 10), notes}):
            say(f"{size} notes ...")
            _fill(root, there, size)
            there = size
            rows.append(_measure(root, size, writes, looks))
            rows[-1]["of the first"] = rows[-1]["write ms"] / rows[0]["write ms"]
    return rows


def _fill(root: Path, first: int, end: int) -> None:
    """Note files, as a person would copy them there."""
    dice = random.Random(first)
    for number in range(first, end):
        folder = root / "archival" / "2026" / f"part-{number // FULL:04d}"
        if number % FULL == 0 or number == first:
            folder.mkdir(parents=True, exist_ok=True)
        note = Note(f"n{number:06d}", _text(dice), title=f"Note {number}")
        (folder / f"{note.id}.md").write_text(render_note(note), encoding="utf-8")


def _text(dice: random.Random) -> str:
    """Forty words, few of them common and many rare, as in real prose: some 80,000 different ones in 50,000 notes."""
    ranks = (min(10**7, int(dice.paretovariate(_RARITY))) for _ in range(40))
    return " ".join(f"{WORDS[rank % len(WORDS)]}{rank}" for rank in ranks)


def _measure(root: Path, size: int, writes: int, looks: int) -> dict[str, Any]:
    """One row: seconds, milliseconds, megabytes."""
    with Vault(root) as vault, Agent(vault, NoModel(vault.settings)) as agent:
        adopt = _seconds(vault.adopt)
        known = agent.search.index.count("archival")
        with progress("files indexed") as report:
            index = _seconds(lambda: agent.search.sync(report))
    with Vault(root) as vault, Agent(vault, NoModel(vault.settings)) as agent:
        scan = [_seconds(vault.files) for _ in range(1 + looks)]
        inserts = [_insert(agent, _text(random.Random(f"{size} {number}"))) for number in range(writes)]
    status = [_seconds(lambda: _status(root)) for _ in range(looks)]
    return {
        "notes": size,
        "into history s": adopt,
        "index s": index,
        "notes/s": (size - known) / index,
        "scan s": max(scan[0], percentile(scan, 0.5)),
        "status s": percentile(status, 0.5),
        "write ms": percentile(inserts, 0.5) * 1000,
        "p95 ms": percentile(inserts, 0.95) * 1000,
        "peak MB": peak(),
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _insert(agent: Agent, text: str) -> float:
    start = time.perf_counter()
    result, _ = agent.call("archival_memory_insert", {"content": text})
    if not result.ok:
        raise RuntimeError(result.text)
    return time.perf_counter() - start


def _status(root: Path) -> None:
    command: Sequence[str] = [sys.executable, "-m", "memory_fs.cli", "status", "--vault", str(root)]
    subprocess.run(command, check=True, capture_output=True)


def peak() -> float:
    """The most memory that this process has had in use so far, megabytes; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)
