"""The vault: a folder of memory files, changed in whole transactions, each one commit of its history.

Order of a change: the commit's objects, the new texts and the commit's name in the journal are written, one sync makes
all of it durable, then the files are replaced and the branch moves. Whoever opens the vault after a crash finishes what
the journal names (`memory_fs.recovery`). A hand edit is taken into history as a commit of the person before anything is
put on top.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from memory_fs.disk import INNER, SYNCFS, Disk
from memory_fs.errors import Conflict, FormatError, VaultError
from memory_fs.events import Clock, IdSource
from memory_fs.formats.settings import Settings, parse_settings
from memory_fs.history import AGENT, Author, Change, History, person
from memory_fs.journal import Journal
from memory_fs.recovery import recover, take_back
from memory_fs.transaction import Transaction, decode

T = TypeVar("T")
PROGRAM = ("memory_fs", "program@memory-fs.invalid")
_MANY = 64  # files; a larger change waits for a second sync
_LETTERS = "23456789abcdefghijkmnpqrstuvwxyz"


def is_vault(folder: Path) -> bool:
    """Whether a folder holds a vault."""
    return any((folder / name).exists() for name in ("memory.yaml", "core", INNER))


def create_vault(root: Path, files: Mapping[str, str], *, clock: Clock | None = None) -> None:
    """Make a vault of these files (path -> text), with its history.

    Args:
        root: the folder, new or empty.
        files: path -> text.
        clock: tells the time of its first change; the system's by default.

    Raises:
        VaultError: a vault is there already, or the folder cannot be written.
    """
    if is_vault(root):
        raise VaultError(f"{root} is a vault already; nothing was changed", path=root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        (root / INNER).mkdir()
    except OSError as error:
        raise VaultError(f"cannot make {root} ({error.strerror})", path=root) from error
    with Vault(root, clock=clock or system_clock) as vault:

        def work(transaction: Transaction) -> None:
            for path, text in files.items():
                transaction.write(path, text)

        vault.transact(work, "Start a new vault", author=PROGRAM)


def system_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


def random_id() -> str:
    """Eight letters and digits, none of them easily misread."""
    return "".join(secrets.choice(_LETTERS) for _ in range(8))


class Vault:
    """One agent's memory on disk."""

    def __init__(self, root: Path | str, *, clock: Clock = system_clock, new_id: IdSource = random_id) -> None:
        """Open a vault, finishing what a crash may have left half done.

        Args:
            root: the folder.
            clock: tells the time (aware).
            new_id: gives ids for notes and messages.

        Raises:
            VaultError: no vault is there, or it cannot be used.
        """
        folder = Path(root)
        if not is_vault(folder):
            raise VaultError(f"no vault at {folder}; `memory-fs init {folder}` makes one", path=folder)
        self.disk = Disk(folder)
        self.root = self.disk.root
        self.new_id = new_id
        self._clock = clock
        self._mutex = threading.RLock()
        self._held = False
        self._settings: tuple[bytes | None, Settings] | None = None
        self._known: dict[str, str] | None = None  # path -> blob id at `_known_rev`
        self._known_rev = ""
        self.disk.load_seen()
        git = self.root / INNER / "git"
        if (git / "HEAD").exists():  # reading alone takes no lock
            self.history = History(git, SYNCFS is not None)
        else:
            with self._locked():
                self.history = History(git, SYNCFS is not None)
        self.journal = Journal(self.root / INNER, SYNCFS is not None)
        self._wrote = False
        if self.journal.unfinished():
            with self._locked():
                recover(self.disk, self.history, self.journal)

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, path: str) -> str | None:
        """The text of a file, or None where there is none.

        Raises:
            VaultError: the path is refused or cannot be read. FormatError: the file is no UTF-8.
        """
        data = self.disk.read(path)
        return None if data is None else decode(data, path)

    @property
    def settings(self) -> Settings:
        """What memory.yaml says now; while it is broken, what it last said to this program, with a warning.

        Raises:
            FormatError: the file is broken, and this program has not read an earlier good one.
        """
        data = self.disk.read("memory.yaml")
        if self._settings is None or self._settings[0] != data:
            try:
                self._settings = (data, parse_settings(decode(data or b"", "memory.yaml"), "memory.yaml"))
            except FormatError as error:
                if self._settings is None:
                    raise
                warning = f"{error}; the last good settings stay in use"
                self._settings = (data, replace(self._settings[1], warnings=(warning,)))
        return self._settings[1]

    def now(self) -> datetime:
        """The time, whole seconds, in the vault's zone."""
        return self._clock().astimezone(ZoneInfo(self.settings.zone)).replace(microsecond=0)

    # -- changing -----------------------------------------------------------------------------------------------

    def transact(
        self,
        work: Callable[[Transaction], T],
        subject: str | Callable[[T], str],
        *,
        author: Author = AGENT,
        trailers: Mapping[str, str] | None = None,
    ) -> tuple[T, Change | None]:
        """Do some work as one change: all of it is durable and in history when this returns, or none of it.

        The work is done again when a file changed under it, so it must depend on what it reads alone.

        Args:
            work: reads and stages through the transaction; what it raises ends the change with nothing written.
            subject: what and why, one line; or made from the work's result.
            author: who did it.
            trailers: `Session`, `Turn`, `Function` and the like.

        Returns:
            The work's result, and the change; None when nothing differs.

        Raises:
            VaultError: the disk is full or read-only, or another program holds the lock.
            Conflict: somebody changed the same file again and again.
        """
        with self._locked():
            recover(self.disk, self.history, self.journal)
            for attempt in range(8):
                transaction = Transaction(self.disk)
                result = work(transaction)
                line = subject(result) if callable(subject) else subject
                try:
                    return result, self._commit(transaction, line, author, trailers or {})
                except Conflict:
                    if attempt == 7:
                        raise
        raise AssertionError("unreachable")

    def _commit(
        self, transaction: Transaction, subject: str, author: Author, trailers: Mapping[str, str]
    ) -> Change | None:
        files = {p: data for p, data in transaction.staged.items() if data != transaction.base[p]}
        if not files:
            return None
        self._adopt({path: transaction.base[path] for path in files})
        rev = self.history.prepare(files, author, subject, trailers, self._clock())
        if rev is None:
            return None

        number = 0
        try:
            with self.disk.staged(files) as install:
                number = self.journal.begin(rev)
                self.disk.sync()  # from here on the change survives a power cut, and so does the one before it
                install(transaction.base)
                self.history.finish(rev)
        except BaseException:
            with contextlib.suppress(
                VaultError, OSError
            ):  # if even that fails, the next transaction finishes the change
                take_back(self.disk, self.history, rev)
                if number:
                    self.journal.cancel(number)
            raise
        self._wrote = True
        with contextlib.suppress(OSError):  # what is not marked as done is looked at once more
            self.journal.done(number)
        if len(files) > _MANY:  # so that no later open has to look at all of them
            self.settle()
        self._note_commit(rev, files)
        return self.history.show(rev)

    def _note_commit(self, rev: str, files: Mapping[str, bytes | None]) -> None:
        if self._known is None:
            return
        self._known_rev = rev
        for path, data in files.items():
            if data is None:
                self._known.pop(path, None)
            else:
                self._known[path] = self.history.digest(data)

    # -- hand edits ---------------------------------------------------------------------------------------------

    def adopt(self) -> Change | None:
        """Take what a person changed by hand since the last commit into history, as a commit of that person.

        Returns:
            The change, or None when there was nothing.
        """
        return self._scan()[1]

    def files(self) -> dict[str, str]:
        """path -> blob id of every memory file now on disk.

        Hand edits are in history when this returns; only where that cannot be written they have to wait.
        """
        try:
            return self._scan()[0]
        except VaultError:
            return self.disk.scan(self.history.digest)

    def _scan(self) -> tuple[dict[str, str], Change | None]:
        """Look at every file. Looking needs no lock; it is taken only when something was edited."""
        found = self.disk.scan(self.history.digest)
        if not self._differing(found):
            return found, None
        with self._locked():
            recover(self.disk, self.history, self.journal)
            edited = {path: self.disk.read(path) for path in self._differing(found)}
            change = self._adopt(edited)
        # What the lock was waited for, or what was finished here, may have changed these files again.
        found |= {path: self.history.digest(data) for path, data in edited.items() if data is not None}
        return {path: blob for path, blob in found.items() if path not in edited or edited[path] is not None}, change

    def _differing(self, found: Mapping[str, str]) -> list[str]:
        head = self.history.head
        if self._known is None or self._known_rev != head:
            self._known, self._known_rev = self.history.tree(), head or ""
        known = self._known
        changed = [path for path, blob in found.items() if known.get(path) != blob]
        gone = [path for path in known if path not in found and not self.disk.is_unknown(path)]
        return sorted(changed + gone)

    def _adopt(self, on_disk: Mapping[str, bytes | None]) -> Change | None:
        """Commit those of these files that differ from history as edits of the person."""
        edited = {
            path: data
            for path, data in on_disk.items()
            if self.history.blob_id(path) != (None if data is None else self.history.digest(data))
        }
        if not edited:
            return None
        first = "Start" if self.history.head is None else "Edit"
        names = ", ".join(sorted(edited)[:3]) + (f" and {len(edited) - 3} more" if len(edited) > 3 else "")
        rev = self.history.prepare(edited, person(), f"{first} {names} by hand", {}, self._clock())
        if rev is None:
            return None
        self.history.finish(rev)
        self._note_commit(rev, edited)
        return self.history.show(rev)

    def settle(self) -> None:
        """Wait until a power cut could take nothing back any more, not even for a recovery to finish it."""
        if self._wrote:
            with contextlib.suppress(VaultError, OSError), self._locked():
                self.disk.sync()
                self.journal.settle()
                self._wrote = False

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """The vault's lock, held by one thread of one program; entering again in the same thread is free."""
        with self._mutex:
            if self._held:
                yield
                return
            with self.disk.lock():
                self._held = True
                try:
                    yield
                finally:
                    self._held = False

    def close(self) -> None:
        """Release the repository; the vault stays as it is."""
        self.settle()
        if self._known is not None:
            self.disk.save_seen()
        self.history.close()

    def __enter__(self) -> Vault:
        """Use the vault in a `with` statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        return f"Vault({str(self.root)!r})"


__all__ = ["Change", "Transaction", "Vault", "create_vault", "decode", "is_vault", "random_id", "system_clock"]
