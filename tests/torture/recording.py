"""What a run did to a folder, system call by system call, libgit2's calls and Python's alike.

strace writes the calls down with all their data; here they become operations on numbered files and folders, in the
order in which they were made.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .base import Line
from .traced import traced
from .tree import ROOT, Data, Entry, Node, Operation, Sync, Told, Tree, look

TRACED = """openat open creat close write pwrite64 writev pwritev lseek rename renameat renameat2 unlink unlinkat mkdir
    mkdirat rmdir link linkat symlink symlinkat truncate ftruncate fallocate fsync fdatasync syncfs sync dup dup2 dup3
    fcntl mmap sendfile copy_file_range""".split()


@dataclass
class Recording:
    """How a folder was, and what was done to it."""

    start: Tree
    operations: list[Operation]


def record(root: Path, work: Callable[[int], None], log: Path) -> tuple[Recording, list[Line]]:
    """Run some work in a child and write down what it does below a folder.

    Raises:
        RuntimeError: strace cannot be used, the run failed, or it did something that this module does not know.
    """
    start = look(root)
    options = ["-y", "-ttt", "-xx", "-s", "100000000", "-e", f"trace={','.join(TRACED)}"]
    outcome = traced(work, options, log)
    if outcome.status != 0:
        raise RuntimeError(f"the recorded run failed: {outcome.lines[-1:]}")
    reader = _Reader(root, start.copy())
    with log.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            reader.read(line)
    return Recording(start, reader.operations), outcome.lines


# -- reading what strace wrote ---------------------------------------------------------------------------------------

_CALL = re.compile(r"\d+ +(\d+)\.(\d{6}) (\w+)\((.*)\) += (-?\d+|\?)")
_BYTES = re.compile(r'^"((?:\\x[0-9a-f]{2})*)"$')
_HANDLE = re.compile(r"^(-?\d+|AT_FDCWD)(?:<(.*)>)?$")


def _bytes(text: str) -> bytes:
    found = _BYTES.match(text)
    if not found:
        raise RuntimeError(f"strace wrote {text[:80]!r} where data should be")
    return bytes.fromhex(found[1].replace("\\x", ""))


@dataclass
class _Open:
    node: Node
    at: int = 0
    appends: bool = False


class _Reader:
    """Follows the calls on a tree of its own, so that each name means what it meant then."""

    def __init__(self, root: Path, tree: Tree) -> None:
        self._root, self._tree = os.fsencode(root), tree
        self._next = max([*tree.folders, *tree.files]) + 1
        self._handles: dict[int, _Open] = {}
        self._now = 0  # nanoseconds since 1970
        self.operations: list[Operation] = []

    def read(self, line: str) -> None:
        """Take the next line of the log."""
        if "unfinished ..." in line or "resumed>" in line:
            raise RuntimeError("two threads at once: their order cannot be told")
        found = _CALL.match(line)
        if not found or found[5].startswith(("-", "?")):
            return  # a signal, an exit, a call that failed
        self._now = int(found[1] + found[2]) * 1000
        getattr(self, f"_{found[3]}", self._unknown(found[3]))(found[4].split(", "), int(found[5]))

    def _unknown(self, name: str) -> Callable[[list[str], int], None]:
        def refuse(arguments: list[str], result: int) -> None:
            if self._handle(arguments[0]) or any(self._root.hex() in a.replace("\\x", "") for a in arguments):
                raise RuntimeError(f"the run used {name}, which is not simulated")

        return refuse

    def _do(self, operation: Operation) -> None:
        self._tree.apply(operation)
        self.operations.append(operation)

    # where things are

    def _place(self, handle: str, text: str) -> tuple[Node, str] | None:
        """(folder, name) of a path below the root; None for any other."""
        path = _bytes(text)
        if not path.startswith(b"/"):
            base = _HANDLE.match(handle)
            path = _bytes(f'"{base[2]}"' if base and base[2] else '""') + b"/" + path
        path = os.path.normpath(path)
        if not path.startswith(self._root + b"/"):
            return None
        *parents, name = os.fsdecode(path[len(self._root) + 1 :]).split("/")
        node = ROOT
        for parent in parents:
            node = self._tree.folders[node][parent]
        return node, name

    def _handle(self, text: str) -> _Open | None:
        found = _HANDLE.match(text)
        return self._handles.get(int(found[1])) if found and found[1] != "AT_FDCWD" else None

    # calls, each with its arguments and its result

    def _openat(self, a: list[str], result: int) -> None:
        self._handles.pop(result, None)
        path = os.path.normpath(_bytes(a[1])) if a[1] != '""' else b""
        if path == self._root:
            self._handles[result] = _Open(ROOT)
            return
        place = self._place(a[0], a[1])
        node = self._tree.folders[place[0]].get(place[1]) if place else None
        if node is None:
            node = self._new_file(place)
        elif "O_TRUNC" in a[2]:
            self._do(Data(node, 0, b"", 0, self._now))
        if node is not None:
            self._handles[result] = _Open(node, 0, "O_APPEND" in a[2])

    def _close(self, a: list[str], result: int) -> None:
        found = _HANDLE.match(a[0])
        if found:
            self._handles.pop(int(found[1]), None)

    def _write(self, a: list[str], result: int) -> None:
        data = _bytes(a[1])[:result]
        handle = self._handle(a[0])
        if handle is not None:
            at = len(self._tree.files[handle.node]) if handle.appends else handle.at
            self._do(Data(handle.node, at, data, None, self._now))
            handle.at = at + len(data)
        elif "\\x70\\x69\\x70\\x65" in a[0] and data.startswith(b"{"):  # a pipe
            self._do(Told(json.loads(data)))

    def _pwrite64(self, a: list[str], result: int) -> None:
        handle = self._handle(a[0])
        if handle is not None:
            self._do(Data(handle.node, int(a[3]), _bytes(a[1])[:result], None, self._now))

    def _lseek(self, a: list[str], result: int) -> None:
        handle = self._handle(a[0])
        if handle is not None:
            handle.at = result

    def _ftruncate(self, a: list[str], result: int) -> None:
        handle = self._handle(a[0])
        if handle is not None:
            self._do(Data(handle.node, 0, b"", int(a[1]), self._now))

    def _mmap(self, a: list[str], result: int) -> None:
        if len(a) > 4 and "PROT_WRITE" in a[2] and "MAP_SHARED" in a[3] and self._handle(a[4]):
            raise RuntimeError("the run wrote through a mapping, which is not simulated")

    def _fcntl(self, a: list[str], result: int) -> None:
        if a[1].startswith("F_DUPFD") and (handle := self._handle(a[0])):
            self._handles[result] = handle

    def _dup(self, a: list[str], result: int) -> None:
        if handle := self._handle(a[0]):
            self._handles[result] = handle

    def _move(self, source: tuple[Node, str] | None, target: tuple[Node, str] | None, swap: bool) -> None:
        if source is None and target is None:
            return
        if source is None or target is None:
            raise RuntimeError("a file was moved into the folder or out of it, which is not simulated")
        node, other = (self._tree.folders[folder].get(name) for folder, name in (source, target))
        self._do(Entry(((*source, other if swap else None), (*target, node))))

    def _rename(self, a: list[str], result: int) -> None:
        self._move(self._place("", a[0]), self._place("", a[1]), False)

    def _renameat(self, a: list[str], result: int) -> None:
        self._move(self._place(a[0], a[1]), self._place(a[2], a[3]), False)

    def _renameat2(self, a: list[str], result: int) -> None:
        self._move(self._place(a[0], a[1]), self._place(a[2], a[3]), "RENAME_EXCHANGE" in a[4])

    def _link(self, a: list[str], result: int) -> None:
        self._hard(self._place("", a[0]), self._place("", a[1]))

    def _linkat(self, a: list[str], result: int) -> None:
        self._hard(self._place(a[0], a[1]), self._place(a[2], a[3]))

    def _hard(self, source: tuple[Node, str] | None, target: tuple[Node, str] | None) -> None:
        if source and target:
            self._do(Entry(((*target, self._tree.folders[source[0]][source[1]]),)))

    def _unlink(self, a: list[str], result: int) -> None:
        self._gone(self._place("", a[0]))

    def _rmdir(self, a: list[str], result: int) -> None:
        self._gone(self._place("", a[0]))

    def _unlinkat(self, a: list[str], result: int) -> None:
        self._gone(self._place(a[0], a[1]))

    def _gone(self, place: tuple[Node, str] | None) -> None:
        if place:
            self._do(Entry(((*place, None),)))

    def _mkdir(self, a: list[str], result: int) -> None:
        self._new_folder(self._place("", a[0]))

    def _mkdirat(self, a: list[str], result: int) -> None:
        self._new_folder(self._place(a[0], a[1]))

    def _new_folder(self, place: tuple[Node, str] | None) -> None:
        if place:
            node, self._next = self._next, self._next + 1
            self._do(Entry(((*place, node),), new_folder=True))

    def _symlink(self, a: list[str], result: int) -> None:
        self._new_file(self._place("", a[1]))

    def _new_file(self, place: tuple[Node, str] | None) -> Node | None:
        if place is None:
            return None
        node, self._next = self._next, self._next + 1
        self._do(Entry(((*place, node),)))
        self._do(Data(node, 0, b"", None, self._now))
        return node

    def _fsync(self, a: list[str], result: int) -> None:
        if handle := self._handle(a[0]):
            self._do(Sync(handle.node))

    _fdatasync = _fsync

    def _syncfs(self, a: list[str], result: int) -> None:
        if self._handle(a[0]):
            self._do(Sync(None))

    def _sync(self, a: list[str], result: int) -> None:
        self._do(Sync(None))
