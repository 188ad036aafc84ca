"""A little of each torture run, so that no change breaks what `make torture` shows at length."""

from __future__ import annotations

from pathlib import Path

import pytest
from torture import editors, kill, power, syscalls, traced, writers

from memory_fs.bench import scale

tracing = pytest.mark.skipif(bool(traced.can_trace()), reason=traced.can_trace() or "strace works")


def test_kills_at_random_moments_lose_nothing() -> None:
    """After SIGKILL every acknowledged change is there, at most one more, and the next program just goes on."""
    assert kill.run(rounds=5, vault=5, seed=2).violations == []


@tracing
def test_killed_and_failing_system_calls_leave_no_half_change() -> None:
    """A change whose system calls fail or are its last ones is done as a whole or not at all."""
    tally = syscalls.run(every=29, only="write")
    assert tally.violations == [] and tally.figures["signal KILL"] >= 3


@tracing
def test_power_cuts_lose_nothing_that_was_acknowledged() -> None:
    """Whatever a disk keeps of what no sync covered, each acknowledged change is there and nothing is half done."""
    tally = power.run(states=12, runs=1, rounds=4, again=1, seed=4)
    assert tally.violations == [] and tally.figures["power cuts that left different disks"] > 5


@tracing
def test_power_cuts_would_be_noticed() -> None:
    """The simulation can fail: where no sync counts, acknowledged changes are lost."""
    assert power.run(states=8, runs=1, rounds=4, again=0, seed=4, deaf=1).violations != []


def test_two_programs_and_a_person_lose_nothing() -> None:
    """What three write to the same files at the same time is all there, each edit under its author."""
    tally = writers.run(seconds=1.0, pause=0.02)
    assert tally.violations == [] and tally.figures["edits by hand"] > 0


@pytest.mark.parametrize("name", editors.EDITORS)
def test_edit_is_right_at_the_next_call(name: str, tmp_path: Path) -> None:
    """Whatever a tool does to save or restore files: the next call sees it, search finds it, history has it."""
    missing = editors.EDITORS[name].missing
    if missing:
        pytest.skip(missing)
    assert editors.check(name, tmp_path) == []


def test_scale_benchmark_measures_three_sizes() -> None:
    """The benchmark grows one vault, measures each size, and compares a write with the first."""
    rows = scale.run(lambda line: None, notes=100, writes=1, looks=0)
    assert [row["notes"] for row in rows] == [1, 10, 100]
    assert all(row["write ms"] > 0 and row["peak MB"] >= 0 and row["of the first"] > 0 for row in rows)
