"""A folder as numbered files and names for them, and the operations that change it.

A name and what it stands for are two things, as on a real disk: each may survive a power cut without the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .base import Line

ROOT = 0  # the number of the folder itself

Node = int
Folder = dict[str, Node]


@dataclass(frozen=True)
class Entry:
    """Names that come to mean other files, at one go: ((folder, name, file or None), ...); or one new, empty folder."""

    sets: tuple[tuple[Node, str, Node | None], ...]
    new_folder: bool = False


@dataclass(frozen=True)
class Data:
    """Bytes at a place in a file; a size instead cuts or extends it."""

    node: Node
    at: int
    data: bytes
    size: int | None = None
    when: int = 0  # nanoseconds since 1970


@dataclass(frozen=True)
class Sync:
    """Everything up to here is on the disk: of one file or folder, or (None) of the whole file system."""

    node: Node | None


@dataclass(frozen=True)
class Told:
    """A line that the run wrote to whoever waits outside."""

    line: Line


Operation = Entry | Data | Sync | Told


@dataclass
class Tree:
    """Files and folders by number; `times` says when a file was last written, nanoseconds since 1970."""

    folders: dict[Node, Folder] = field(default_factory=lambda: {ROOT: {}})
    files: dict[Node, bytes] = field(default_factory=dict)
    times: dict[Node, int] = field(default_factory=dict)

    def copy(self) -> Tree:
        """A copy that changes on its own."""
        folders = {node: dict(names) for node, names in self.folders.items()}
        return Tree(folders, dict(self.files), dict(self.times))

    def apply(self, operation: Operation) -> None:
        """Do an operation."""
        if isinstance(operation, Entry):
            for folder, name, node in operation.sets:
                names = self.folders.setdefault(folder, {})
                if node is None:
                    names.pop(name, None)
                else:
                    names[name] = node
                    if operation.new_folder:
                        self.folders.setdefault(node, {})
        elif isinstance(operation, Data):
            old = self.files.get(operation.node, b"")
            self.times[operation.node] = operation.when
            if operation.size is not None:
                self.files[operation.node] = old[: operation.size].ljust(operation.size, b"\0")
            else:
                end = operation.at + len(operation.data)
                self.files[operation.node] = old[: operation.at].ljust(operation.at, b"\0") + operation.data + old[end:]

    def paths(self, node: Node = ROOT, prefix: str = "") -> Iterator[tuple[str, Node, bool]]:
        """(path, number, whether it is a folder) of all that can be reached."""
        for name, child in self.folders.get(node, {}).items():
            yield prefix + name, child, child in self.folders
            if child in self.folders:
                yield from self.paths(child, f"{prefix}{name}/")

    def write(self, root: Path) -> None:
        """Make it real."""
        root.mkdir()
        for path, node, is_folder in self.paths():
            if is_folder:
                (root / path).mkdir()
            else:
                (root / path).write_bytes(self.files.get(node, b""))
                if node in self.times:
                    os.utime(root / path, ns=(self.times[node],) * 2)


def look(root: Path) -> Tree:
    """A folder as it is."""
    tree = Tree()
    numbers = {root: ROOT}
    for place in sorted(root.rglob("*")):
        node = numbers[place] = len(numbers)
        tree.folders[numbers[place.parent]][place.name] = node
        if place.is_dir():
            tree.folders[node] = {}
        else:
            tree.files[node] = place.read_bytes()
            tree.times[node] = place.stat().st_mtime_ns
    return tree
