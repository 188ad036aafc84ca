"""Keeps an index in step with the files it is made from, whatever happens to its folder.

`Keeper.sync` compares the files with what the index holds and commits the difference. Around that one step it decides:
an index that is missing, damaged, from another version or from elsewhere is built anew; one that another process is
writing is waited for, then searched and extended in a copy; one that cannot be written is kept in memory. None of it
is an error for the caller, each is one line to `say`.

It does not know how anything is indexed or searched: that is a `Shelf`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Generic, Protocol, TypeVar

from memory_fs import lookup
from memory_fs.errors import FormatError, VaultError
from memory_fs.lookup import Postings
from memory_fs.manifest import Change, Damaged, Entry, Manifest, SealedFolder, clear_the_way, locked
from memory_fs.records import KINDS, Document, Hit, Page, mark

_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 2_000, 4_000_000  # one commit holds about this much at most
_PATIENCE = 2.0  # seconds to wait for another process that is writing
_LONG_PATIENCE = 60.0  # the same, while there is nothing at all to search yet
_PAUSE = 0.02  # seconds between two tries

Loader = Callable[[str], Sequence[Document]]
Progress = Callable[[int, int], None]
Documents = dict[str, dict[str, Document]]  # path -> record key -> document


class Shelf(Postings, Protocol):
    """One open index."""

    manifest: Manifest

    def commit(self, change: Change, documents: Documents) -> None:
        """Make the next generation. After any exception the shelf is not used again.

        Raises:
            OSError: the folder cannot be written.
        """
        ...

    def detach(self) -> None:
        """Forget the folder; go on in memory."""
        ...


S = TypeVar("S", bound=Shelf)


class Keeper(ABC, Generic[S]):
    """An index and its folder.

    Args:
        folder: where the index may keep its files; need not exist.
        version: whatever makes an index unreadable for another program: format, library, tables.
        say: called with one line when something was rebuilt, or kept in memory only.
    """

    def __init__(self, folder: Path, version: str, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._disk = SealedFolder.of_user(folder, version)
        self._mutex = RLock()
        self._shelf: S | None = None
        self._stamp = self._disk.stamp()
        self._broken = ""  # why the index on disk is not used
        self._copy = False  # detached while another process writes
        self._private = False  # detached for good: the folder cannot be written
        self._asked: tuple[Mapping[str, str], Loader] | None = None

    def __repr__(self) -> str:
        held = ", ".join(f"{self.count(kind)} {kind}" for kind in KINDS)
        return f"{type(self).__name__}({held})"

    @abstractmethod
    def _open(self, disk: SealedFolder | None, new: bool) -> S:
        """Open the index in a folder, or make a new one there; without a folder, in memory.

        Raises:
            Exception: of any kind, when there is no index or it is damaged.
        """

    # --- the one step ------------------------------------------------------------------------------------------------

    def sync(self, files: Mapping[str, str], load: Loader, progress: Progress | None = None) -> int:
        """Bring the index in step with the files.

        Args:
            files: path -> content digest of every file that there is now. A path that is left out is gone.
            load: reads the documents of one file. One that raises FormatError has none; after a VaultError or
                OSError it has none for now, and is asked again.
            progress: called with the number of changed files that were read so far, and of all.

        Returns:
            The number of files that were new, changed or gone.
        """
        with self._mutex:
            self._asked = (files, load)
            if self._look().manifest.files == files and not (self._broken and files):
                return 0
            try:
                return self._update(files, load, progress)
            except Damaged as error:
                self._condemn(str(error))
            except OSError as error:
                self._retreat(error)
            try:
                return self._update(files, load, progress)
            except Damaged as error:
                raise VaultError(f"the search index cannot be built: {error}", path=self._folder) from error

    def _update(self, files: Mapping[str, str], load: Loader, progress: Progress | None) -> int:
        with self._writing() as shelf:
            known = shelf.manifest.files
            paths = sorted(
                {path for path, content in files.items() if known.get(path) != content} | known.keys() - files
            )
            for change, documents in _batches(paths, files, load, progress):
                self._commit(shelf, change, documents)
            return len(paths)

    def _commit(self, shelf: S, change: Change, documents: Documents) -> None:
        if all(entry is None and path not in shelf.manifest.files for path, entry in change.items()):
            return
        try:
            shelf.commit(change, documents)
        except BaseException as error:
            self._shelf = None
            if isinstance(error, OSError) or not isinstance(error, Exception):
                raise
            raise Damaged(f"{type(error).__name__}: {error}") from error
        self._stamp = self._disk.stamp()

    @contextmanager
    def _writing(self) -> Iterator[S]:
        """The shelf to write to: the one on disk, under the lock that other processes heed, or one in memory."""
        if self._private:
            yield self._look()
            return
        clear_the_way(self._folder)
        nothing = self._broken and not self._look().manifest.files
        patience = 0.0 if self._copy else _LONG_PATIENCE if nothing else _PATIENCE
        with locked(self._folder / "lock", patience) as mine:
            if mine and self._copy:
                self._shelf, self._copy = None, False
            shelf = self._look()  # again: another process may have written until now
            if mine and self._broken:
                shelf = self._build()
            if not mine and not self._copy:
                self._say("search index: another process is writing it; searching a copy in memory")
                shelf.detach()
                self._copy = True
            yield shelf

    def _build(self) -> S:
        """A new, empty index on disk, in place of a broken one."""
        self._say(f"search index: building it from the files ({self._broken})")
        self._disk.set_aside()
        self._disk.prune()
        self._shelf = shelf = self._open(self._disk, True)
        self._broken, self._stamp = "", self._disk.stamp()
        return shelf

    # --- questions ---------------------------------------------------------------------------------------------------

    def search(
        self,
        kind: str,
        query: str,
        *,
        page: int = 1,
        size: int = 5,
        any_tags: Sequence[str] = (),
        all_tags: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Page:
        """Find records, best first; equal ones newest first.

        Words are alternatives that rank, "phrases" are required, -words excluded; tag:name is required, #name and
        dates (2026-11-29, 2026-11) are alternatives. A query without words lists what the filters leave, newest
        first; one without anything finds nothing. No text is an error.

        Args:
            kind: `archival` or `recall`.
            query: what to look for.
            page: from 1; a page past the end is the last one.
            size: hits on a page, at least 1.
            any_tags: only records with at least one of these tags.
            all_tags: only records with all of these tags.
            since: only records of this moment or later; a naive one is taken as UTC.
            until: only records before this moment.

        Raises:
            ValueError: there is no such kind.
        """
        request = lookup.Request(_known(kind), query, max(size, 1), tuple(any_tags), tuple(all_tags), since, until)
        with self._mutex:
            try:
                return lookup.find(self._look(), request, page)
            except Exception as error:
                self._repair(error)
                return lookup.find(self._look(), request, page)

    def get(self, kind: str, id: str) -> Hit | None:
        """The record with an id; where several files carry it, the one whose path comes first."""
        with self._mutex:
            return lookup.get(self._look(), _known(kind), id)

    def next_part(self, kind: str, id: str) -> Hit | None:
        """The record that comes next in the document that the record with an id is a part of; None where none does."""
        with self._mutex:
            return lookup.next_part(self._look(), _known(kind), id)

    def find_text(self, kind: str, text: str) -> Hit | None:
        """The record with exactly this text."""
        with self._mutex:
            return lookup.find_text(self._look(), _known(kind), text)

    def count(self, kind: str) -> int:
        """The number of records of a kind."""
        with self._mutex:
            return self._look().count(_known(kind))

    def spread(self, kind: str, word: str) -> int:
        """How many records of a kind have a token."""
        with self._mutex:
            return len(self._look().matches(_known(kind), (word,)))

    # --- which index -------------------------------------------------------------------------------------------------

    def _look(self) -> S:
        """The newest usable index: opened again when the folder changed.

        Where the one on disk cannot be used, it is the one that is open already, or an empty one in memory.
        """
        if self._shelf and (self._private or self._copy or self._disk.stamp() == self._stamp):
            return self._shelf
        for tries_left in reversed(range(10)):
            self._stamp = self._disk.stamp()
            try:
                self._shelf = self._open(self._disk, False)
                self._broken, self._copy = "", False
                if self._private:
                    self._shelf.detach()
                return self._shelf
            except Exception as error:
                self._broken = str(error) if self._stamp else "there is none yet"
                if not tries_left or self._disk.stamp() == self._stamp:
                    break
            time.sleep(_PAUSE)  # another process is just writing: that is no damage
        if self._shelf is None:
            self._shelf = self._open(None, True)
        return self._shelf

    def _condemn(self, why: str) -> None:
        """Use the index on disk no more; the next sync builds it anew."""
        self._broken, self._copy, self._stamp = why, False, self._disk.stamp()
        self._shelf = self._open(None, True)

    def _retreat(self, error: OSError) -> None:
        """The folder cannot be written: go on in memory, from what can be read of it."""
        self._say(f"search index: kept in memory, its folder cannot be written ({error.strerror or error})")
        self._shelf, self._copy = None, False
        self._look().detach()
        self._private = True

    def _repair(self, error: Exception) -> None:
        """Build the index anew from the files of the last sync.

        Raises:
            Exception: the error itself, when there was none.
        """
        if self._asked is None:
            raise error
        self._condemn(f"{type(error).__name__}: {error}")
        self.sync(*self._asked)

    def clear(self) -> None:
        """Forget everything; the next `sync` builds the index anew."""
        with self._mutex:
            self._condemn("it was cleared")
            try:
                self._disk.set_aside()
            except OSError:
                self._private = True  # what cannot be removed is used no more
            self._stamp = self._disk.stamp()

    def close(self) -> None:
        """Let go of the index; using it again opens it again."""
        with self._mutex:
            self._shelf = None


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of record; there are {', '.join(KINDS)}")
    return kind


def _batches(
    paths: Sequence[str], files: Mapping[str, str], load: Loader, progress: Progress | None
) -> Iterator[tuple[Change, Documents]]:
    """Read the files, and hand them on in pieces that fit in memory."""
    change: Change = {}
    documents: Documents = {}
    size = count = 0
    for number, path in enumerate(paths, 1):
        change[path], documents[path] = _read(path, files[path], load) if path in files else (None, {})
        size += sum(len(document.text) for document in documents[path].values())
        count += len(documents[path])
        if progress:
            progress(number, len(paths))
        if number == len(paths) or count >= _BATCH_DOCUMENTS or size >= _BATCH_CHARACTERS:
            yield change, documents
            change, documents, size, count = {}, {}, 0, 0


def _read(path: str, content: str, load: Loader) -> tuple[Entry | None, dict[str, Document]]:
    """The entry of a file and its documents by record key; the same id twice in one file makes two records."""
    found: dict[str, Document] = {}
    try:
        loaded = load(path)
    except FormatError:
        return Entry(content, {}), {}
    except (OSError, VaultError):
        return None, {}  # gone since it was listed, or unreadable just now: look again at the next sync
    for document in loaded:
        key, again = f"{document.kind}/{document.id}", 1
        while key in found:
            again += 1
            key = f"{document.kind}/{document.id}\0{again}"
        found[key] = document
        _known(document.kind)
    return Entry(content, {key: mark(document) for key, document in found.items()}), found


__all__ = ["Change", "Damaged", "Documents", "Keeper", "Loader", "Manifest", "Progress", "SealedFolder", "Shelf"]
