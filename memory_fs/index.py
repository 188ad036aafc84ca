"""The search index: full text of notes and messages, never staler than the last `sync`. The only importer of whoosh.

    index = Index(vault / ".memory_fs/index")
    index.sync(files, load)                      # files: path -> content digest; load: path -> documents
    index.search("archival", "what is my dog's name?")

The index is derived: it may be deleted, damaged or read-only at any time, and answers the same (`memory_fs.keeper`).
Whoosh works on files in memory; segments and tables of contents are copied to the folder, sealed, and read back only
when the seal holds, because Whoosh unpickles what it reads (`memory_fs.sealed`).

It does not know how files are found, hashed or parsed; a caller who wants fresh results calls `sync` before `search`.
"""

# mypy: allow-untyped-calls
# (Whoosh is annotated in part)

from __future__ import annotations

import json
import sys
import unicodedata
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import whoosh
from whoosh import columns, fields, formats
from whoosh.codec.whoosh3 import W3Codec
from whoosh.filedb.filestore import RamStorage
from whoosh.filedb.structfile import BufferFile
from whoosh.index import FileIndex
from whoosh.query.positional import Phrase

from memory_fs import lookup
from memory_fs.keeper import Change, Damaged, Documents, Keeper, Manifest, SealedFolder
from memory_fs.records import Document, Hit, Page, id_mark, pack, size, terms, ticks, unpack

_TIERS, _FULL_TIER = ((64, 512), (8, 64), (0, 8)), 8  # live documents of a segment; so many segments are a tier
_FORMAT = 5  # raise it when tokens, fields or the manifest change: older indexes are then rebuilt


class _Places(formats.Positions):
    """Token positions as plain integers (Whoosh pickles a list for each posting)."""

    def decode_positions(self, valuestring: bytes) -> list[int]:
        return array("I", valuestring).tolist()

    def decode_frequency(self, valuestring: bytes) -> int:
        return len(valuestring) // array("I").itemsize


class _Words(fields.FieldType):
    """A field whose value is tokenised already. There is one for each kind, so that each has its own statistics."""

    scorable, stored, unique = False, False, False

    def __init__(self) -> None:
        self.format = _Places()

    def index(self, value: Mapping[str, Any], **_: Any) -> Generator[tuple[bytes, int, float, bytes], Any, None]:
        for token, posting in value.items():
            places = posting.positions
            yield token.encode("utf-8", "surrogatepass"), len(places), posting.weight, array("I", places).tobytes()

    def to_bytes(self, value: str | bytes) -> bytes:
        return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


class _Codec(W3Codec):
    """Whoosh's codec without what only its own ranking reads; uncompressed, it writes a quarter more in a second."""

    length_stats = False


class _Storage(RamStorage):
    """Whoosh's files: in memory, and what outlives a commit also in a sealed folder, written at the commit.

    On disk are the tables of contents and one file for each segment, which holds all of the segment's files.
    """

    def __init__(self, disk: SealedFolder | None) -> None:
        super().__init__()
        self.disk = disk
        self._on_disk: set[str] = set()  # files that were read or written

    def _fetch(self, name: str) -> None:
        stored = name if name.endswith(".toc") else f"{name.partition('.')[0]}.seg"
        if self.disk and name not in self.files and stored not in self._on_disk:
            data = self.disk.read(stored)
            self.files.update({name: data} if name == stored else _unbundle(data))
            self._on_disk.add(stored)

    def list(self) -> list[str]:
        kept = self.disk.names() if self.disk else []
        return [*self.files, *(name for name in kept if name.endswith((".seg", ".toc")) and name not in self.files)]

    def open_file(self, name: str, **kwargs: Any) -> Any:
        self._fetch(name)
        return BufferFile(self.files[name], name=name, **kwargs)  # bytes are shared, a view of them would be copied

    def file_exists(self, name: str) -> bool:
        self._fetch(name)
        return name in self.files

    def file_length(self, name: str) -> int:
        self._fetch(name)
        return len(self.files[name])

    def rename_file(self, name: str, newname: str, safe: bool = False) -> None:
        super().rename_file(name, newname, safe)  # only a table of contents is renamed: that is the commit
        if self.disk:
            parts = [file for file in self.files if not file.endswith(".toc")]
            for segment in {file.partition(".")[0] for file in parts}:
                if f"{segment}.seg" not in self._on_disk:
                    own = {file: self.files[file] for file in parts if file.startswith(f"{segment}.")}
                    self.disk.write(f"{segment}.seg", *_bundle(own))
                    self._on_disk.add(f"{segment}.seg")
            self.disk.write(newname, self.files[newname])

    def delete_file(self, name: str) -> None:
        self.files.pop(name, None)
        if self.disk and name.endswith((".seg", ".toc")):
            self.disk.delete(name)

    def temp_storage(self, name: str | None = None) -> RamStorage:
        return RamStorage()


def _bundle(files: Mapping[str, bytes]) -> list[bytes]:
    """Several files as one: their names and lengths in a line, then their contents."""
    return [json.dumps({name: len(data) for name, data in files.items()}).encode() + b"\n", *files.values()]


def _unbundle(data: bytes) -> dict[str, bytes]:
    head = data.index(b"\n")
    lengths = json.loads(data[:head])
    starts = accumulate(lengths.values(), initial=head + 1)
    return {name: data[start : start + length] for (name, length), start in zip(lengths.items(), starts, strict=False)}


_SCHEMA = fields.Schema(
    archival=_Words(),
    recall=_Words(),
    date=fields.COLUMN(columns.NumericColumn("q")),
    size=fields.COLUMN(columns.NumericColumn("I")),
    place=fields.COLUMN(columns.NumericColumn("q")),
    order=fields.COLUMN(columns.VarBytesColumn(write_offsets_cutoff=0)),
    packed=fields.COLUMN(columns.VarBytesColumn(write_offsets_cutoff=0)),
)


class _Shelf:
    """One open generation of the index: Whoosh, its searcher and the manifest that belongs to it."""

    def __init__(self, disk: SealedFolder | None, new: bool) -> None:
        self.storage = _Storage(disk)
        if new:
            self.storage.create_index(_SCHEMA)
        elif not any(name.endswith(".toc") for name in self.storage.list()):
            raise Damaged("its table of contents is missing")
        self.whoosh = FileIndex(self.storage, _SCHEMA)
        generation = self.whoosh.latest_generation()
        self.manifest = Manifest() if new or not disk else Manifest.load(disk, generation)
        self._look()
        if self.whoosh.latest_generation() != generation:
            raise Damaged("it changed while it was read")
        if self.searcher.doc_count() != self.manifest.kinds.total():
            raise Damaged("the index and its manifest do not agree")

    def _look(self) -> None:
        """See the last commit. Not by `Searcher.refresh`: it goes on showing what was deleted or merged."""
        self.searcher = self.whoosh.searcher()
        self._columns: dict[str, Any] = {}
        self._sizes: dict[int, int] = {}

    def _column(self, name: str, number: int) -> Any:
        """The value of a document in a column."""
        if name not in self._columns:
            self._columns[name] = self.searcher.reader().column_reader(name)
        return self._columns[name][number]

    def _packed(self, number: int) -> tuple[str, Document]:
        return unpack(self._column("packed", number), self.date(number))

    def document(self, number: int) -> Document:
        """The document itself."""
        return self._packed(number)[1]

    def date(self, number: int) -> int:
        """The `ticks` of its date."""
        return int(self._column("date", number))

    def order(self, number: int) -> bytes:
        """Its id and path, as bytes that compare."""
        return bytes(self._column("order", number))

    def count(self, kind: str) -> int:
        """The number of documents of a kind."""
        return self.manifest.kinds[kind]

    def size(self, number: int) -> int:
        """How long it is, characters."""
        if number not in self._sizes:
            self._sizes[number] = self._column("size", number)
        return self._sizes[number]

    def place(self, number: int) -> int:
        """Where it stands in a talk or in its document; 0 for what stands alone."""
        return int(self._column("place", number))

    def mean_size(self, kind: str) -> float:
        """How long the documents of a kind are on average."""
        return self.manifest.sizes[kind] / (self.manifest.kinds[kind] or 1) or 1.0

    def matches(self, kind: str, tokens: tuple[str, ...]) -> dict[int, float]:
        """The documents of a kind that have a token, or several in a row; and how much of it, title words weighted."""
        found: dict[int, float] = {}
        for searcher, offset in self.searcher.leaf_searchers():
            if len(tokens) > 1:
                matcher = Phrase(kind, list(tokens)).matcher(searcher, searcher.boolean_context())
            elif (kind, tokens[0]) in searcher.reader():
                matcher = searcher.reader().postings(kind, tokens[0])
            else:
                continue
            while matcher.is_active():
                found[matcher.id() + offset] = len(matcher.spans()) if len(tokens) > 1 else matcher.weight()
                matcher.next()
        return found

    def detach(self) -> None:
        """Go on in memory; everything that is open is there already."""
        self.storage.disk = None

    def commit(self, change: Change, documents: Documents) -> None:
        """Replace what changed, in one generation: all deletions first, as Whoosh needs it."""
        writer = self.whoosh.writer(limitmb=256, codec=_Codec(compression=0), compound=False)
        fresh: list[tuple[str, Document]] = []
        for path, entry in change.items():
            before, after = self.manifest.records.get(path, {}), entry.records if entry else {}
            for record in (record for record, mark in before.items() if after.get(record) != mark):
                writer.delete_document(self._number(path, record))
            news = (record for record, mark in after.items() if before.get(record) != mark)
            fresh += [(f"{path}\0{record}", documents[path][record]) for record in news]
        fresh += self._pour(writer)
        for ref, document in fresh:
            writer.add_document(
                order=f"{document.id}\0{ref}".encode("utf-8", "surrogatepass"),
                date=ticks(document.date),
                size=size(document),
                place=document.place,
                packed=pack(ref, document),
                **{document.kind: terms(document)},
            )
        if self.storage.disk:
            self.manifest.save(self.storage.disk, change)
        writer.commit(mergetype=lambda _, segments: [segment for segment in segments if segment.doc_count()])
        self.manifest.apply(change, self.whoosh.latest_generation())
        if self.storage.disk and self.manifest.generation == self.manifest.whole:
            self.manifest.sweep(self.storage.disk)
        self._look()

    def _number(self, path: str, record: str) -> int:
        """The document number of a record."""
        kind, _, id = record.partition("/")
        for number in self.matches(kind, (id_mark(id.partition("\0")[0]),)):
            if self._packed(number)[0] == f"{path}\0{record}":
                return number
        raise Damaged("the index and its manifest do not agree")

    def _pour(self, writer: Any) -> list[tuple[str, Document]]:
        """Empty small and worn segments: their documents are to be written again, together with the new ones.

        Each document that came alone is thus written again once a tier, and a search meets few segments. Whoosh would
        merge them posting by posting, which takes several times as long, and never on account of deletions.
        """
        live = {segment: segment.doc_count() for segment in writer.segments}
        full = (high for low, high in _TIERS if sum(low < count <= high for count in live.values()) >= _FULL_TIER)
        limit = next(full, 0)
        poured: list[tuple[str, Document]] = []
        for segment, first in zip(live, accumulate((s.doc_count_all() for s in live), initial=0), strict=False):
            if live[segment] <= limit or segment.deleted_count() > live[segment]:
                places = (at for at in range(segment.doc_count_all()) if not segment.is_deleted(at))
                for number in [first + at for at in places]:
                    poured.append(self._packed(number))
                    writer.delete_document(number)
        return poured


class Index(Keeper[_Shelf]):
    """Full-text search over the notes and messages of one vault: `sync`, then `search`.

    Args:
        folder: where it keeps its files; need not exist, and may be deleted at any time.
        say: called with one line when the index was rebuilt, or is kept in memory only.
    """

    def __init__(self, folder: Path, say: Callable[[str], None] = lambda line: None) -> None:
        tables = (_FORMAT, whoosh.__version__, unicodedata.unidata_version, sys.byteorder, sys.maxsize)
        super().__init__(folder, repr(tables), say)

    def _open(self, disk: SealedFolder | None, new: bool) -> _Shelf:
        return _Shelf(disk, new)

    # --- what is in it, for whoever holds it against the files -------------------------------------------------------

    @property
    def broken(self) -> str:
        """Why the index on disk cannot be used; '' where it can."""
        self._look()
        return self._broken

    @property
    def files(self) -> Mapping[str, str]:
        """path -> content digest of every file that it holds."""
        return self._look().manifest.files

    def documents(self, kind: str) -> Iterator[Document]:
        """Every record of a kind, as the index itself has it."""
        return lookup.every(self._look(), kind)


__all__ = ["Document", "Hit", "Index", "Page"]
