"""Which change is under way: what the next open looks at to finish or drop what a crash left half done.

Three lines of fixed width in `.memory_fs/journal`. Two are taken in turn, so that naming a change never touches the
name of the one before it, whose files a power cut may still take back. The third says which change is in place. It
counts for the run of the machine that wrote it: after a power cut it may have outlived the files that it speaks of.
Only a mark that was made after everything was on the device is good for ever.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from memory_fs.errors import VaultError

_WIDTH = 256  # bytes a line; below a disk's sector, which is written whole or not at all
_BEGUN = re.compile(rb"begin (\d{1,18}) (\d{1,20}) ([0-9a-f]{40}) (\S{1,64}) *\n")
_DONE = re.compile(rb"(done|settled) (\d{1,18}) (\d{1,20}) (\S{1,64}) *\n")


@dataclass(frozen=True)
class Entry:
    """A change that may not be wholly in place.

    Attributes:
        number: counts the changes.
        began: when its files were about to be replaced, nanoseconds since 1970.
        rev: its commit.
        boot: the run of the machine that it was made in.
        lost_power: whether the machine was started anew since.
    """

    number: int
    began: int
    rev: str
    boot: str
    lost_power: bool


@dataclass(frozen=True)
class _Done:
    """The last change that is in place, when and in which run of the machine; `settled`: it is on the device."""

    settled: bool = False
    number: int = 0
    time: int = 0
    boot: str = ""


class Journal:
    """The journal of one vault. Its writer holds the vault's lock."""

    def __init__(self, inner: Path, whole_sync: bool) -> None:
        """Args: inner: the folder `.memory_fs`; whole_sync: the caller syncs the file system, else each line is."""
        self._place = inner / "journal"
        self._whole_sync = whole_sync

    def unfinished(self) -> list[Entry]:
        """The changes that may not be wholly in place, oldest first; none when all is well."""
        begun, done = self._lines()
        sure = done.number if done.settled or done.boot == boot_id() else -1
        return [entry for entry in begun if entry.number > sure]

    def suspect_since(self) -> int | None:
        """Since when a power cut may have torn what was written, nanoseconds since 1970; None if there was none."""
        begun, done = self._lines()
        if done.boot in (boot_id(), "") and not any(entry.lost_power for entry in begun if entry.number > done.number):
            return None
        return done.time if done.settled else begun[0].began if len(begun) > 1 else 0

    def begun(self) -> list[Entry]:
        """The last two changes, oldest first, finished or not."""
        return self._lines()[0]

    def begin(self, rev: str) -> int:
        """Name a change whose files are about to be replaced; durable with the next sync. Returns its number."""
        begun, done = self._lines()
        number = max([done.number, *(entry.number for entry in begun)]) + 1
        self._write(number % 2, f"begin {number} {time.time_ns()} {rev} {boot_id()}")
        return number

    def done(self, number: int) -> None:
        """All files of a change are in place."""
        self._mark("done", number)

    def cancel(self, number: int) -> None:
        """A change was given up, and what there was of it was taken back."""
        self._write(number % 2, "")
        self.done(number)

    def settle(self) -> None:
        """All that is in place is on the device, too."""
        self._mark("settled", self._lines()[1].number)

    def _mark(self, word: str, number: int) -> None:
        self._write(2, f"{word} {number} {time.time_ns()} {boot_id()}")

    def _lines(self) -> tuple[list[Entry], _Done]:
        """The changes that were named, oldest first, and the last that is in place.

        Raises:
            VaultError: there is a journal and it cannot be read: then nobody may write.
        """
        try:
            data = self._place.read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise VaultError(f"{self._place} cannot be read ({error.strerror})", path=self._place) from error
        lines = [data[start : start + _WIDTH] for start in range(0, 3 * _WIDTH, _WIDTH)]
        begun = [found for line in lines[:2] if (found := _BEGUN.fullmatch(line))]
        entries = [Entry(int(m[1]), int(m[2]), m[3].decode(), m[4].decode(), m[4].decode() != boot_id()) for m in begun]
        last = _DONE.fullmatch(lines[2])
        done = _Done(last[1] == b"settled", int(last[2]), int(last[3]), last[4].decode()) if last else _Done()
        return sorted(entries, key=lambda entry: entry.number), done

    def _write(self, line: int, text: str) -> None:
        try:
            handle = os.open(self._place, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                if os.pwrite(handle, text.encode().ljust(_WIDTH - 1) + b"\n", line * _WIDTH) != _WIDTH:
                    raise OSError(errno.EIO, "short write")
                if not self._whole_sync:
                    os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise VaultError(f"cannot write {self._place} ({error.strerror}); nothing is lost") from error


@cache
def boot_id() -> str:
    """What tells this run of the machine from others; the same always where the system does not say."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return "-"
