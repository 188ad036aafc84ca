"""Archival memory: notes, one Markdown file each, found through search (paper, section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_fs.errors import FunctionError
from memory_fs.events import clean
from memory_fs.formats.note import Note, note_name, render_note
from memory_fs.search import Hit, Page, Search
from memory_fs.vault import Transaction

FULL = 512  # files in one folder; people and git trees like small folders


class Archival:
    """The notes of one vault."""

    def __init__(self, records: Search) -> None:
        """Args: records: the searchable side of the vault."""
        self._records = records
        self._new: dict[str, tuple[str, str]] = {}  # text -> path and id of notes made here, perhaps not indexed yet
        self._synced = False

    def insert(
        self,
        transaction: Transaction,
        content: str,
        tags: Sequence[str] = (),
        source: Mapping[str, Any] | None = None,
        title: str = "",
    ) -> str:
        """Write a new note; returns its id.

        Raises:
            FunctionError: the content is empty, or a note says exactly this already (its id is named).
        """
        content = clean(content)
        if not content.strip():
            raise FunctionError("content is empty; nothing was saved")
        known = self._known(content)
        if known:
            raise FunctionError(f"this is saved already, as note {known}")
        vault = self._records.vault
        now = vault.now()
        labels = tuple(dict.fromkeys(clean(tag).strip() for tag in tags if tag.strip()))
        note = Note(vault.new_id(), content, now, clean(title), labels, dict(source or {}))
        path = f"{self._folder(f'archival/{now:%Y/%m}')}/{note_name(note, now.date())}"
        transaction.write(path, render_note(note))
        self._new[content] = (path, note.id)
        return note.id

    def _known(self, content: str) -> str | None:
        """The id of the note with exactly this text.

        The files are compared with the index once; from then on it is asked as it is, as a sync would cost each insert.
        """
        if not self._synced:
            self._records.sync()
            self._synced = True
        known = self._records.index.find_text("archival", content)
        if known and self._there(known.path):
            return known.id
        path, note_id = self._new.get(content, ("", ""))
        return note_id if path and self._there(path) else None

    def _there(self, path: str) -> bool:
        return (self._records.vault.root / path).exists()

    def _folder(self, month: str) -> str:
        """The month's folder, or its newest part once the month is full."""
        place = self._records.vault.root / month
        parts = sorted(child.name for child in place.glob("part-*") if child.is_dir())
        current = f"{month}/{parts[-1]}" if parts else month
        files = len(list((self._records.vault.root / current).glob("*.md")))
        return current if files < FULL else f"{month}/part-{len(parts) + 2:04d}"

    def search(self, query: str, page: int = 1, size: int = 5, **filters: Any) -> Page:
        """Notes for a query, best first; filters as for `Index.search`."""
        return self._records.search("archival", query, page=page, size=size, **filters)

    def get(self, name: str) -> Hit | None:
        """The note with an id, which may be written as `archival/k3f9x2`; None where there is none."""
        return self._records.get("archival", name.removeprefix("archival/"))

    def count(self) -> int:
        """How many notes there are: files, so that no prompt has to wait for the index."""
        return self._records.vault.disk.count("archival/")
