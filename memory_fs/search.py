"""What of the vault can be searched, and searches that are never stale.

Before every search the files on disk are compared with the index and only what differs is read. Notes are one record
each; of recall only what the person and the agent said to each other, so that a search finds no echo of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, date, datetime
from hashlib import sha256
from typing import Any

from memory_fs.disk import INNER
from memory_fs.events import Message
from memory_fs.formats.day import day_of, decode_day, parse_day
from memory_fs.formats.note import Note, parse_note
from memory_fs.index import Document, Hit, Index, Page
from memory_fs.vault import Vault

SPOKEN = ("user", "assistant")
_DAY = 1 << 24  # more places than a day has messages


class Search:
    """The searchable records of one vault.

    Attributes:
        closing: what has to end before the index is released, such as a watcher.
    """

    def __init__(self, vault: Vault, say: Callable[[str], None] = lambda line: None) -> None:
        """Args: vault; say: told in one line when the index had to be rebuilt."""
        self.vault = vault
        self.closing = ExitStack()
        self._say = say
        self._index: Index | None = None
        self._files: Mapping[str, str] = {}
        self._searchable: Mapping[str, str] = {}
        self._version = ""
        self._version_of: Mapping[str, str] | None = None

    @property
    def index(self) -> Index:
        """The index, opened when it is first needed."""
        if self._index is None:
            self._index = Index(self.vault.root / INNER / "index", say=self._say)
        return self._index

    def sync(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Bring the index up to date with the files; returns how many files differed."""
        files = self.vault.files()
        if files is not self._files:
            self._files = files
            self._searchable = {path: blob for path, blob in files.items() if path.startswith(("archival/", "recall/"))}
        return self.index.sync(self._searchable, self.load, progress)

    def search(self, kind: str, query: str, **options: Any) -> Page:
        """Search what is on disk now; options as for `Index.search`."""
        self.sync()
        return self.index.search(kind, query, **options)

    def get(self, kind: str, record_id: str) -> Hit | None:
        """One record by its id."""
        self.sync()
        return self.index.get(kind, record_id)

    def version(self) -> str:
        """Changes with every note that is written, edited, moved or deleted; messages leave it as it is."""
        self.sync()
        if self._version_of is not self._searchable:
            notes = sorted(item for item in self._searchable.items() if item[0].startswith("archival/"))
            self._version = sha256(repr(notes).encode("utf-8", "surrogatepass")).hexdigest()
            self._version_of = self._searchable
        return self._version

    def count(self, kind: str) -> int:
        """How many records of a kind there are."""
        self.sync()
        return self.index.count(kind)

    def load(self, path: str) -> Sequence[Document]:
        """The records of one file.

        Raises:
            VaultError: the file cannot be read.
        """
        if path.startswith("archival/"):
            text = self.vault.read(path)
            return [] if text is None else [self._note(path, parse_note(text, path))]
        day, data = day_of(path), self.vault.disk.read(path)
        if day is None or data is None:
            return []
        messages, _ = parse_day(decode_day(data), day)
        spoken = [message for message in messages if message.role in SPOKEN]
        return [
            Document(id=m.id, kind="recall", path=path, text=m.content, date=m.time, role=m.role, place=place)
            for m, place in zip(spoken, _places(day, spoken), strict=True)
        ]

    def _note(self, path: str, note: Note) -> Document:
        whole, place = note.part
        return Document(
            id=note.id,
            kind="archival",
            path=path,
            text=note.text,
            date=note.created or self._file_time(path),
            title=note.title,
            tags=note.tags,
            source=note.citation,
            place=place,
            pinned=note.pinned,
            whole=whole,
        )

    def _file_time(self, path: str) -> datetime:
        try:
            return datetime.fromtimestamp((self.vault.root / path).stat().st_mtime, UTC)
        except OSError:
            return datetime(1970, 1, 1, tzinfo=UTC)

    def close(self) -> None:
        """Release the index; who uses it in a thread ends first."""
        self.closing.close()
        if self._index is not None:
            self._index.close()
            self._index = None


def _places(day: date, messages: Sequence[Message]) -> Iterator[int]:
    """A number for each message of a day: one more than the last, two more where another session begins."""
    place, session = day.toordinal() * _DAY, ""
    for message in messages:
        place += 1 if message.session == session else 2
        session = message.session
        yield place


__all__ = ["SPOKEN", "Hit", "Page", "Search"]
