"""What the torture runs share: a folder to work in, children that are forked, figures and violations.

A child is a fork of a program that has imported everything, so that it costs some milliseconds, not the second that a
new interpreter takes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import select
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import memory_fs
from memory_fs.bench.table import table
from memory_fs.disk import INNER, is_memory_file

Line = dict[str, Any]
State = dict[str, str]  # path -> blob id of every memory file
SHOWN = 40  # kinds of violations that are printed; the others are counted


@dataclass
class Tally:
    """Figures in the order in which they come up, and what must not happen."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    violations: list[tuple[str, str]] = field(default_factory=list)  # where, what

    def count(self, what: str, by: int = 1) -> None:
        """Add to a figure."""
        self.figures[what] = self.figures.get(what, 0) + by

    def fail(self, where: str, what: str) -> None:
        """Note a violation."""
        self.violations.append((where, what))

    def report(self) -> int:
        """Print everything, violations of one kind as one line; the exit status of the program."""
        rows = [{self.name: what, "": figure} for what, figure in self.figures.items()]
        print(table([*rows, {self.name: "violations", "": len(self.violations)}]))
        kinds: dict[str, list[str]] = {}
        for where, what in self.violations:
            kinds.setdefault(re.sub(r"/\S*/memory-fs-torture-\w+|[0-9a-f]{16,}", "*", what), []).append(where)
        for what, places in list(kinds.items())[:SHOWN]:
            print(f"  {what}\n      {len(places)} times: {'; '.join(places[:4])}")
        if len(kinds) > SHOWN:
            print(f"  ... and {len(kinds) - SHOWN} more kinds")
        print(flush=True)
        return int(bool(self.violations))


def options(description: str | None, **defaults: Any) -> argparse.Namespace:
    """The command line: one option for each default, of its type."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"default: {value}")
    return parser.parse_args()


@contextlib.contextmanager
def workplace(on_disk: bool = False) -> Iterator[Path]:
    """An empty folder that goes away: in memory where there is such a file system, which spares the disk its syncs."""
    memory = Path("/dev/shm")
    there = str(memory) if memory.is_dir() and os.access(memory, os.W_OK) and not on_disk else None
    with tempfile.TemporaryDirectory(prefix="memory-fs-torture-", dir=there) as folder:
        yield Path(folder)


# -- children -------------------------------------------------------------------------------------------------------


class Child:
    """A fork of this program that does some work and tells of it, a JSON line at a time."""

    def __init__(self, work: Callable[[int], None], *, held: bool = False) -> None:
        """Start it.

        Args:
            work: gets the file descriptor for its lines.
            held: it waits for `go` before it begins.
        """
        source, sink = os.pipe()
        gate, self._key = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns when anything has threads
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(source)
                os.close(self._key)
                if held:
                    os.write(sink, b"\n")  # from here on it may be watched
                    select.select([gate], [], [])  # not a call that anybody counts
                _be_child(work, sink)
            finally:  # whatever happens, it is not a second parent
                os._exit(70)
        os.close(sink)
        os.close(gate)
        if held:
            os.read(source, 1)
        self._source, self._unread, self.status = source, b"", -1

    def go(self) -> None:
        """Let it begin."""
        os.write(self._key, b"x")

    def line(self, seconds: float) -> Line | None:
        """Its next line; None when there is none within that time, or no more."""
        while b"\n" not in self._unread:
            if not select.select([self._source], [], [], seconds)[0]:
                return None
            piece = os.read(self._source, 1 << 20)
            if not piece:
                return None
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        found: Line = json.loads(line)
        return found

    def rest(self, seconds: float = 120) -> list[Line]:
        """All lines that are left, up to its end."""
        lines = []
        while (line := self.line(seconds)) is not None:
            lines.append(line)
        self.end()
        return lines

    def kill(self) -> None:
        """SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 9)

    def end(self) -> None:
        """Wait for it; `status` is its exit status, negative for the signal that ended it."""
        if self.pid:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            self.pid = 0
            os.close(self._source)
            os.close(self._key)


def _be_child(work: Callable[[int], None], sink: int) -> None:
    status = 1
    try:
        work(sink)
        status = 0
    except BaseException as error:
        tell(sink, {"crash": blame(error)})
    finally:
        os._exit(status)  # nothing of the parent is flushed, closed or cleaned up here


def blame(error: BaseException) -> str:
    """An exception in one line, with the innermost place in memory_fs that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(memory_fs.__file__).parent in Path(frame.filename).parents] or frames
    return f"{type(error).__name__} in {Path(own[-1].filename).name}:{own[-1].lineno} ({own[-1].name}): {error}"


def tell(sink: int, line: Line) -> None:
    """Write a line in one piece, past every buffer: it is there as a whole or not at all."""
    os.write(sink, json.dumps(line).encode() + b"\n")


def digests(files: dict[str, bytes | None]) -> dict[str, str | None]:
    """path -> blob id, None for a file that is not there."""
    return {path: None if data is None else blob_id(data) for path, data in files.items()}


def blob_id(data: bytes) -> str:
    """git's name for these bytes, worked out without the code that is tested."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def on_disk(root: Path) -> State:
    """Every memory file that is there now."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != INNER]
        for place in (Path(folder, name) for name in names):
            path = place.relative_to(root).as_posix()
            if is_memory_file(path):
                found[path] = blob_id(place.read_bytes())
    return found


def after(state: State, change: dict[str, str | None]) -> State:
    """A state with one change on top."""
    return {path: blob for path, blob in {**state, **change}.items() if blob is not None}


def differences(found: State, wanted: State) -> str:
    """What is wrong with a state, in words; empty when nothing is."""
    missing, extra = sorted(wanted.keys() - found), sorted(found.keys() - wanted)
    other = sorted(path for path in found.keys() & wanted if found[path] != wanted[path])
    parts = {"missing": missing, "unexpected": extra, "other content": other}
    return "; ".join(f"{what}: {', '.join(paths[:4])}" for what, paths in parts.items() if paths)


class Reporting(Protocol):
    """What a run ends with."""

    def report(self) -> int:
        """Print it; the exit status."""


def main(run: Callable[..., Reporting], description: str | None, **defaults: Any) -> None:
    """Run a module as a program."""
    sys.exit(run(**vars(options(description, **defaults))).report())
