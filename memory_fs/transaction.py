"""What one change reads and writes, before any of it is on disk.

It checks paths and remembers what it read; whether that still holds, and how the change becomes durable, is for
`memory_fs.vault`.
"""

from __future__ import annotations

from memory_fs.disk import Disk, check_path
from memory_fs.errors import FormatError


class Transaction:
    """What one change reads and writes. Nothing reaches the disk before the work is done."""

    def __init__(self, disk: Disk) -> None:
        """Made by `Vault.transact` only."""
        self._disk = disk
        self.base: dict[str, bytes | None] = {}
        self.staged: dict[str, bytes | None] = {}

    def read(self, path: str) -> str | None:
        """The text of a file as this change sees it, or None where there is none.

        Raises:
            VaultError: the path is refused. FormatError: the file is no UTF-8.
        """
        data = self.data(path)
        return None if data is None else decode(data, path)

    def data(self, path: str) -> bytes | None:
        """The bytes of a file as this change sees it, or None where there is none.

        Raises:
            VaultError: the path is refused, or the file cannot be read.
        """
        return self.staged[path] if path in self.staged else self._before(path)

    def write(self, path: str, text: str) -> None:
        """Stage a file's new text.

        Raises:
            VaultError: the path is refused.
        """
        if self._before(path) is None:
            check_path(path, new=True)
        self.staged[path] = text.encode()

    def put(self, path: str, data: bytes | None) -> None:
        """Stage bytes that history had for a file, or its deletion (None).

        Raises:
            VaultError: the path is refused.
        """
        self._before(path)
        self.staged[path] = data

    def _before(self, path: str) -> bytes | None:
        """What the file held when this change first looked at it: the same however often it looks."""
        if path not in self.base:
            self.base[path] = self._disk.read(path)
        return self.base[path]

    def keep_only(self, paths: set[str]) -> None:
        """Drop what was staged since `paths` was all that was staged: a function failed half-way."""
        for path in set(self.staged) - paths:
            del self.staged[path]


def decode(data: bytes, path: str) -> str:
    """Bytes of a memory file as text; line ends and a byte order mark stay.

    Raises:
        FormatError: no UTF-8, with the line.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FormatError("not UTF-8; save the file with that encoding", path=path, line=line) from error
