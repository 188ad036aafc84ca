"""A child whose system calls strace watches, and can fail, cut short or kill.

strace is attached to a fork that waits, so that a run costs neither the start of an interpreter nor its system calls.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .base import Child, Line

STRACE = shutil.which("strace")
PATIENCE = 120.0  # seconds that a child may take


@dataclass(frozen=True)
class Outcome:
    """How it ended: exit status (negative for a signal) and the lines that it told."""

    status: int
    lines: list[Line]


def traced(work: Callable[[int], None], strace: Sequence[str], log: Path | None = None) -> Outcome:
    """Do some work in a child under strace.

    Args:
        work: as for `Child`.
        strace: its options.
        log: where it writes the calls.

    Raises:
        RuntimeError: strace is not there, or may not watch.
    """
    if STRACE is None:
        raise RuntimeError("strace is not installed (Debian: apt install strace)")
    child = Child(work, held=True)
    command = [STRACE, "-f", "-p", str(child.pid), "-o", str(log or os.devnull), *strace]
    watcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert watcher.stderr is not None
    first = watcher.stderr.readline()
    if "attached" not in first:
        child.kill()
        child.end()
        watcher.wait()
        raise RuntimeError(f"strace cannot watch: {first.strip()}")
    child.go()
    lines = child.rest(PATIENCE)
    watcher.wait()
    watcher.stderr.close()
    return Outcome(child.status, lines)


def can_trace() -> str:
    """Why no child can be watched here; empty when one can."""
    try:
        traced(lambda sink: None, ["-e", "trace=fsync"])
    except (RuntimeError, OSError) as error:
        return str(error)
    return ""
