"""The vault: a folder of memory files, changed in whole transactions, each one commit of its history.

Order of a change: the commit's objects, the new texts and the commit's name in the journal are written, one sync makes
all of it durable, then the files are replaced and the branch moves. Whoever opens the vault after a crash finishes what
the journal names (`memory_fs.recovery`). A hand edit is taken into history as a commit of the person before anything is
put on top.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zoneinfo import ZoneInfo

from memory_fs.change import AGENT, Author, Change
from memory_fs.disk import INNER, Disk, digest
from memory_fs.errors import Conflict, FormatError, VaultError
from memory_fs.events import Clock, IdSource, random_id, system_clock
from memory_fs.formats.settings import Settings, parse_settings
from memory_fs.journal import Journal
from memory_fs.transaction import Transaction, decode

if TYPE_CHECKING:
    from memory_fs.history import History

T = TypeVar("T")
_MANY = 64  # files; a larger change waits for a second sync


def is_vault(folder: Path) -> bool:
    """Whether a folder holds a vault.

    Raises:
        VaultError: it cannot be looked at.
    """
    try:
        return any((folder / name).exists() for name in ("memory.yaml", "core", INNER))
    except OSError as error:
        raise VaultError(f"{folder} cannot be looked at ({error.strerror})", path=folder) from error


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
        self._history: History | None = None
        self._same: Mapping[str, str] | None = None  # the last scan that was as history has it
        self.disk.load_seen()
        self.journal = Journal(self.root / INNER, self.disk.whole_sync)
        self._wrote = False
        unfinished = self.journal.unfinished()
        if unfinished or self.journal.suspect_since() is not None:
            try:
                with self._locked():
                    self._recover()
            except VaultError:
                if unfinished:  # else reading goes on, as on a disk that is read-only
                    raise

    @property
    def history(self) -> History:
        """Every change as a git commit; opened when it is first needed, since reading and searching need none."""
        if self._history is None:
            with self._mutex:  # before any other lock, as everywhere: a watcher's thread may ask at the same time
                self._history = self._history or self._open_history()
        return self._history

    def _open_history(self) -> History:
        from memory_fs.history import History

        git = self.root / INNER / "git"
        # Reading alone takes no lock. What cannot be looked at is an error that the history itself gives.
        with contextlib.nullcontext() if os.path.exists(git / "HEAD") else self._locked():  # noqa: PTH110
            return History(git, self.disk.whole_sync)

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
            self._recover()
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
            # If even that fails, the next transaction finishes the change.
            with contextlib.suppress(VaultError, OSError):
                from memory_fs.recovery import take_back

                take_back(self.disk, self.history, rev)
                if number:
                    self.journal.cancel(number)
            raise
        self._wrote = True
        with contextlib.suppress(VaultError):  # what is not marked as done is looked at once more
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
                self._known[path] = digest(data)

    # -- hand edits ---------------------------------------------------------------------------------------------

    def adopt(self) -> Change | None:
        """Take what a person changed by hand since the last commit into history, as a commit of that person.

        Returns:
            The change, or None when there was nothing.
        """
        with self._mutex:  # a watcher asks this from a thread of its own
            found = self.disk.scan()
            if not self._differing(found):
                return None
            with self._locked():
                self._recover()
                return self._adopt({path: self.disk.read(path) for path in self._differing(found)})

    def look(self) -> None:
        """Take hand edits into history where that can be; a history that cannot be written can still be read."""
        with contextlib.suppress(VaultError):
            self.adopt()

    def files(self) -> Mapping[str, str]:
        """path -> digest of every memory file now on disk, hand edits included; the same object where nothing changed.

        A reader asks this: it takes no lock, and leaves hand edits for the next write, turn or `adopt`.
        """
        return self.disk.scan()

    def _differing(self, found: Mapping[str, str]) -> list[str]:
        """The files that are not as history has them."""
        head = self.history.head
        if found is self._same and head == self._known_rev:
            return []
        if self._known is None or self._known_rev != head:
            self._known, self._known_rev = self.history.tree(), head or ""
        known = self._known
        changed = [path for path, blob in found.items() if known.get(path) != blob]
        gone = [path for path in known if path not in found and not self.disk.is_unknown(path)]
        self._same = None if changed or gone else found
        return sorted(changed + gone)

    def _adopt(self, on_disk: Mapping[str, bytes | None]) -> Change | None:
        """Commit those of these files that differ from history as edits of the person."""
        edited = {
            path: data
            for path, data in on_disk.items()
            if self.history.blob_id(path) != (None if data is None else digest(data))
        }
        if not edited:
            return None
        first = "Start" if self.history.head is None else "Edit"
        names = ", ".join(sorted(edited)[:3]) + (f" and {len(edited) - 3} more" if len(edited) > 3 else "")
        from memory_fs.history import person

        rev = self.history.prepare(edited, person(), f"{first} {names} by hand", {}, self._clock())
        if rev is None:
            return None
        self.history.finish(rev)
        self._note_commit(rev, edited)
        return self.history.show(rev)

    def _recover(self) -> None:
        """Finish or drop what a crash left; the lock is held."""
        if self.journal.unfinished() or self.journal.suspect_since() is not None:
            from memory_fs.recovery import recover

            recover(self.disk, self.history, self.journal)

    def settle(self) -> None:
        """Wait until a power cut could take nothing back any more, not even for a recovery to finish it."""
        if self._wrote:
            with contextlib.suppress(VaultError, OSError), self._locked():
                self.disk.sync()
                self.journal.settle()
                self._wrote = False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every other writer waiting, hand edits in history and all on the device; raises as `transact` does."""
        with self._locked():
            self._recover()
            self.adopt()
            self.disk.sync()
            self.journal.settle()
            yield

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
        self.disk.save_seen()
        if self._history is not None:
            self._history.close()

    def __enter__(self) -> Vault:
        """Use the vault in a `with` statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        return f"Vault({str(self.root)!r})"


__all__ = ["Change", "Transaction", "Vault", "decode", "is_vault", "random_id", "system_clock"]
