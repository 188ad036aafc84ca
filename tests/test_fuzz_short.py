"""A little of the fuzzing that `python -m tests.torture.fuzz` does at length."""

from __future__ import annotations

from torture.fuzz import run


def test_hostile_input_never_crashes_a_parser_or_a_function() -> None:
    """A few hundred mutated files, queries and calls: declared errors only, exact round trips, nothing else changed."""
    report = run(inputs=500, seed=11)
    assert report.crashes == []
    assert all(target.inputs for target in report.targets)
    assert sum(target.inputs for target in report.targets) >= 490
