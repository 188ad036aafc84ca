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

import sys
import unicodedata
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping
from hashlib import blake2b
from itertools import pairwise, takewhile
from math import ceil, log
from pathlib import Path
from typing import Any

import whoosh
from whoosh import columns, fields, formats, scoring
from whoosh.filedb.filestore import RamStorage
from whoosh.index import FileIndex
from whoosh.query.compound import And, AndMaybe, AndNot, Or, Require
from whoosh.query.positional import Phrase
from whoosh.query.terms import Term
from whoosh.reading import SegmentReader
from whoosh.writing import MERGE_SMALL

from memory_fs.analysis import Part, Posting, parse
from memory_fs.keeper import Change, Damaged, Documents, Keeper, Manifest, SealedFolder
from memory_fs.records import (
    EVERY,
    Document,
    Hit,
    Page,
    Request,
    date_word,
    day_mark,
    id_mark,
    pack,
    tag_mark,
    terms,
    ticks,
    unpack,
)

_FORMAT = 1  # raise it when tokens, fields or the manifest change: older indexes are then rebuilt
_B, _K1 = 0.75, 1.2  # BM25: how much length counts, how soon repetition stops to count
_LONG_RUN = 4  # characters; a longer run without spaces is rather a sentence than a word


class _Places(formats.Positions):
    """Token positions as plain integers (Whoosh pickles a list for each posting)."""

    def decode_positions(self, valuestring: bytes) -> list[int]:
        return array("I", valuestring).tolist()

    def decode_frequency(self, valuestring: bytes) -> int:
        return len(valuestring) // array("I").itemsize


class _Words(fields.FieldType):
    """A field whose value is tokenised already. There is one for each kind, so that each has its own statistics."""

    scorable, stored, unique = True, False, False

    def __init__(self) -> None:
        self.format = _Places()

    def index(self, value: Mapping[str, Posting], **_: Any) -> Generator[tuple[bytes, int, float, bytes], Any, None]:
        for token, posting in value.items():
            places = array("I", posting.positions)
            yield self.to_bytes(token), len(places), posting.weight, places.tobytes()

    def to_bytes(self, value: str | bytes) -> bytes:
        return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


class _Ranking(scoring.WeightingModel):
    """BM25 that counts only the documents of the field's own kind; for one searcher, as it remembers its counts."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[int, float]] = {}

    def sizes(self, searcher: Any, fieldname: str) -> tuple[int, float]:
        """The number of documents of a kind, and their mean length in tokens."""
        if fieldname not in self._sizes:
            count = searcher.doc_frequency(fieldname, EVERY)
            self._sizes[fieldname] = count, searcher.field_length(fieldname) / (count or 1) or 1.0
        return self._sizes[fieldname]

    def idf(self, searcher: Any, fieldname: str, text: Any) -> float:
        count, _ = self.sizes(searcher.get_parent(), fieldname)
        return log(count / (searcher.get_parent().doc_frequency(fieldname, text) + 1)) + 1

    def scorer(self, searcher: Any, fieldname: str, text: Any, qf: int = 1) -> Any:
        top = searcher.get_parent()
        return _Scorer(searcher, fieldname, top.idf(fieldname, text), self.sizes(top, fieldname)[1])


class _Scorer(scoring.BaseScorer):
    """The score of one term; without Whoosh's bounds for skipping blocks, as every match is counted anyway."""

    def __init__(self, searcher: Any, fieldname: str, idf: float, mean: float) -> None:
        self._length, self._field = searcher.doc_field_length, fieldname
        self._top, self._flat, self._slope = idf * (_K1 + 1), _K1 * (1 - _B), _K1 * _B / mean

    def score(self, matcher: Any) -> float:
        weight, length = matcher.weight(), self._length(matcher.id(), self._field, 1)
        return float(self._top * weight / (weight + self._flat + self._slope * length))


class _Storage(RamStorage):
    """Whoosh's files: in memory, and what outlives a commit also in a sealed folder, written at the commit."""

    def __init__(self, disk: SealedFolder | None) -> None:
        super().__init__()
        self.disk = disk

    def list(self) -> list[str]:
        kept = self.disk.names() if self.disk else []
        return [*self.files, *(name for name in kept if name.endswith((".seg", ".toc")) and name not in self.files)]

    def open_file(self, name: str, **kwargs: Any) -> Any:
        if name not in self.files and self.disk:
            self.files[name] = self.disk.read(name)
        return super().open_file(name, **kwargs)

    def rename_file(self, name: str, newname: str, safe: bool = False) -> None:
        super().rename_file(name, newname, safe)  # only a table of contents is renamed: that is the commit
        if self.disk:
            there = set(self.disk.names())
            for file in [*(file for file in self.files if file.endswith(".seg") and file not in there), newname]:
                self.disk.write(file, self.files[file])

    def delete_file(self, name: str) -> None:
        self.files.pop(name, None)
        if self.disk and name.endswith((".seg", ".toc")):
            self.disk.delete(name)

    def temp_storage(self, name: str | None = None) -> RamStorage:
        return RamStorage()


def _merge(writer: Any, segments: list[Any]) -> list[Any]:
    """Whoosh's own merge policy, which never rewrites segments for their deletions, and that as well."""
    worn = [segment for segment in segments if segment.deleted_count() * 2 > segment.doc_count_all()]
    for segment in worn:
        if segment.doc_count():
            reader = SegmentReader(writer.storage, writer.schema, segment)
            writer.add_reader(reader)
            reader.close()
    kept: list[Any] = MERGE_SMALL(writer, [segment for segment in segments if segment not in worn])
    return kept


_SCHEMA = fields.Schema(
    key=fields.ID(),
    archival=_Words(),
    recall=_Words(),
    date=fields.COLUMN(columns.NumericColumn("q")),
    id=fields.COLUMN(columns.VarBytesColumn(allow_offsets=False)),
    shown=fields.COLUMN(columns.VarBytesColumn(allow_offsets=False)),
)


class _Shelf:
    """One open generation of the index: Whoosh, its searcher and the manifest that belongs to it."""

    def __init__(self, disk: SealedFolder | None, new: bool) -> None:
        self.storage = _Storage(disk)
        if new:
            self.storage.create_index(_SCHEMA)
        self.whoosh = FileIndex(self.storage, _SCHEMA)
        generation = self.whoosh.latest_generation()
        self.manifest = Manifest() if new or not disk else Manifest.load(disk, generation)
        self._look()
        if self.searcher.doc_count() != self.manifest.kinds.total():
            raise Damaged("the index and its manifest do not agree")

    def _look(self) -> None:
        """See the last commit. Not by `Searcher.refresh`: it goes on showing what was deleted or merged."""
        self.searcher = self.whoosh.searcher(weighting=_Ranking())
        self._columns: dict[str, Any] = {}

    def column(self, name: str, number: int) -> Any:
        """The value of a document in a column."""
        if name not in self._columns:
            self._columns[name] = self.searcher.reader().column_reader(name)
        return self._columns[name][number]

    def detach(self) -> None:
        """Go on in memory; everything that is open is there already."""
        self.storage.disk = None

    def find(self, request: Request, page: int) -> Page:
        """One page of what is asked for."""
        wanted, ranked = _Lookup(self.searcher, request).query()
        found: list[tuple[float, int]] = []
        if wanted is not None:
            results = self.searcher.search(wanted, limit=None, scored=ranked)
            found = [(round(score, 6) if ranked else 0.0, number) for score, number in results.top_n]
        if request.since or request.until:
            since, until = (date and ticks(date) for date in (request.since, request.until))
            dates = ((hit, self.column("date", hit[1])) for hit in found)
            found = [hit for hit, date in dates if (since is None or date >= since) and (until is None or date < until)]
        pages = max(1, ceil(len(found) / request.size))
        shown = min(max(page, 1), pages)
        hits = self._slice(request.kind, found, (shown - 1) * request.size, shown * request.size)
        return Page(request.query, shown, pages, len(found), hits, page)

    def _slice(self, kind: str, found: list[tuple[float, int]], start: int, end: int) -> tuple[Hit, ...]:
        """The hits from start to end; only those that share a score with them need their dates and ids compared."""
        if not found[start:end]:
            return ()
        best, least = found[start][0], found[start:end][-1][0]
        skipped = sum(1 for _ in takewhile(lambda hit: hit[0] > best, found))
        near = takewhile(lambda hit: hit[0] >= least, found[skipped:])
        ordered = sorted(
            (-score, -self.column("date", number), self.column("id", number), number) for score, number in near
        )
        return tuple(
            unpack(kind, self.column("shown", number), -date, -score)
            for score, date, _, number in ordered[start - skipped : end - skipped]
        )

    def get(self, kind: str, id: str) -> Hit | None:
        """The record with an id; where several files carry it, the one whose path comes first."""
        numbers = self.searcher.docs_for_query(Term(kind, id_mark(id)))
        hits = [unpack(kind, self.column("shown", number), self.column("date", number), 0.0) for number in numbers]
        return min(hits, key=lambda hit: hit.path, default=None)

    def commit(self, change: Change, documents: Documents) -> None:
        """Replace what changed, in one generation: all deletions first, as Whoosh needs it."""
        writer = self.whoosh.writer(limitmb=256)
        fresh: list[tuple[str, Document]] = []
        for path, entry in change.items():
            before, after = self.manifest.records.get(path, {}), entry.records if entry else {}
            for record in (record for record, mark in before.items() if after.get(record) != mark):
                writer.delete_by_term("key", _key(path, record), searcher=self.searcher)
            fresh += [
                (_key(path, record), documents[path][record])
                for record, mark in after.items()
                if before.get(record) != mark
            ]
        for key, document in fresh:
            words = {document.kind: terms(document)}
            name = document.id.encode("utf-8", "surrogatepass")
            writer.add_document(key=key, id=name, date=ticks(document.date), shown=pack(document), **words)
        if self.storage.disk:
            self.manifest.save(self.storage.disk, change)
        writer.commit(mergetype=_merge)
        self.manifest.apply(change, self.whoosh.latest_generation())
        if self.storage.disk and self.manifest.generation == self.manifest.whole:
            self.manifest.sweep(self.storage.disk)
        self._look()


def _key(path: str, record: str) -> str:
    return blake2b(f"{path}\0{record}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Lookup:
    """Turns a request into a Whoosh query. Whoosh's own parser never sees a text, so no text can be an operator."""

    def __init__(self, searcher: Any, request: Request) -> None:
        self._searcher, self._request, self._field = searcher, request, request.kind

    def query(self) -> tuple[Any | None, bool]:
        """The query, and whether its scores mean anything; None when nothing is asked for."""
        asked = parse(self._request.query)
        needed = [self._part(part) for part in asked.required if part.tokens]
        filters = [self._any(map(tag_mark, self._request.any_tags))] if self._request.any_tags else []
        filters += [self._term(tag_mark(tag)) for tag in self._request.all_tags]
        filters += [self._term(tag_mark(part.tag)) for part in asked.required if part.tag]
        wanted = [self._part(part) for part in asked.any]
        if not (wanted or needed or filters or self._request.since or self._request.until):
            return None, False
        found = And(needed) if needed else Or(wanted) if wanted else self._term(EVERY)
        if needed and wanted:
            found = AndMaybe(found, Or(wanted))
        if hints := [mark for part in asked.any for mark in map(date_word, part.tokens) if self._known(mark)]:
            found = AndMaybe(found, self._any(hints))
        if filters:
            found = Require(found, And(filters))
        if barred := [self._part(part) for part in asked.excluded]:
            found = AndNot(found, Or(barred))
        return found, bool(wanted or needed)

    def _part(self, part: Part) -> Any:
        """Anything that satisfies one part of the query."""
        ways = [self._term(tag_mark(part.tag))] if part.tag else []
        ways += [self._term(day_mark(part.day))] if part.day else []
        if part.tokens:
            ways.append(self._whole_or_pieces(part) if part.kind != "exact" else self._row(part.tokens))
        return ways[0] if len(ways) == 1 else Or(ways)

    def _whole_or_pieces(self, part: Part) -> Any:
        """The tokens in a row where that is found; else, and always in a sentence without spaces, shorter rows."""
        whole, sentence = self._row(part.tokens), part.kind == "run" and len(part.tokens) > _LONG_RUN
        if not sentence and (self._found(whole) or (part.kind == "run" and len(part.tokens) == 2)):
            return whole
        pairs = [self._row(pair) for pair in dict.fromkeys(pairwise(part.tokens))] if part.kind == "run" else []
        pairs = [pair for pair in pairs if self._found(pair)]
        return Or([whole, *(pairs or [self._term(token) for token in dict.fromkeys(part.tokens)])])

    def _row(self, tokens: tuple[str, ...]) -> Any:
        return self._term(tokens[0]) if len(tokens) == 1 else Phrase(self._field, list(tokens))

    def _term(self, token: str) -> Any:
        return Term(self._field, token)

    def _any(self, tokens: Iterable[str]) -> Any:
        return Or([self._term(token) for token in tokens])

    def _known(self, token: str) -> bool:
        return (self._field, token) in self._searcher.reader()

    def _found(self, wanted: Any) -> bool:
        return next(iter(self._searcher.docs_for_query(wanted)), None) is not None


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


__all__ = ["Document", "Hit", "Index", "Page"]
