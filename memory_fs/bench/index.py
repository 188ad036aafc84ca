"""How good and how quick the search index is, next to a plain substring scan of all text.

    memory-fs bench index PASSAGES.jsonl QUESTIONS.jsonl

The passages ({"id", "title", "text"}) become notes, the questions ({"question", "gold_ids"}) are asked as they stand.
Chinese is measured on notes composed from `memory_fs.bench.prose`. All of it goes through note files in a vault: hand
edits and the look at every file before each search are in the figures.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from memory_fs.bench import prose
from memory_fs.create import create_vault
from memory_fs.disk import INNER
from memory_fs.formats.note import Note, parse_note, render_note
from memory_fs.index import Document, Page
from memory_fs.search import Search
from memory_fs.vault import Vault

TARGETS = {
    "notes indexed a second": ">= 500",
    "questions answered in the top 5": ">= 93 of 100",
    "questions answered in the top 10": ">= 96 of 100",
    "query p95, ms": "< 25",
    "changed note found, ms": "< 60",
    "`memory-fs search` from the shell, ms": "< 800",
    "Chinese words, recall": "1.00",
    "Chinese words, precision": ">= 0.95",
}


class InVault:
    """Note files in a vault, searched as the agent searches: a look at every file first, then the index."""

    def __init__(self, root: Path, documents: Iterable[Document] | None = None) -> None:
        """Args: root: the vault; documents: written as notes where they are given, else the vault is there."""
        if documents is not None:
            create_vault(root, {"memory.yaml": "zone: UTC\n", **{d.path: _note(d) for d in documents}})
        self.vault = Vault(root)
        self._search = Search(self.vault)

    def sync(self) -> int:
        """Bring the index in step with the files."""
        return self._search.sync()

    def search(self, query: str, size: int) -> Page:
        """One page of hits."""
        return self._search.search("archival", query, size=size)

    def rewrite(self, id: str, text: str) -> None:
        """Give a note another text, as an editor would."""
        place = self.vault.root / "archival" / f"{id}.md"
        note = replace(parse_note(place.read_text(encoding="utf-8"), place.name), text=text)
        place.write_text(render_note(note), encoding="utf-8")

    def size(self) -> int:
        """Bytes of the index on disk."""
        return sum(file.stat().st_size for file in (self.vault.root / INNER / "index").rglob("*") if file.is_file())

    def close(self) -> None:
        """Release the vault."""
        self._search.close()
        self.vault.close()


def _note(document: Document) -> str:
    return render_note(Note(document.id, document.text, document.date, document.title))


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    measure: str
    figure: str
    target: str = ""


def run(passages: Path, questions: Path) -> list[Row]:
    """Measure everything; takes about half a minute."""
    notes = [_document(row["id"], row["text"], row["title"]) for row in _rows(passages)]
    asked = [(row["question"], set(row["gold_ids"])) for row in _rows(questions)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "a"
        subject = InVault(root, notes)
        rows = [*_first_index(subject, notes), *_questions(subject, asked), *_scan(subject, notes)]
        rows += _change(subject, notes)
        subject.close()
        rows += _open(root)
        rows += _chinese(lambda documents: InVault(Path(folder) / "b", documents))
    return [replace(row, target=TARGETS.get(row.measure, "")) for row in rows]


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _document(id: str, text: str, title: str = "") -> Document:
    return Document(id, "archival", f"archival/{id}.md", text, datetime(2026, 11, 29, tzinfo=UTC), title)


def _milliseconds(times: Sequence[float]) -> tuple[str, str]:
    """Median and 95th percentile of seconds, in milliseconds."""
    ordered = sorted(times)
    return f"{median(ordered) * 1e3:.1f}", f"{ordered[int(len(ordered) * 0.95)] * 1e3:.1f}"


def _first_index(subject: InVault, notes: Sequence[Document]) -> list[Row]:
    start = time.perf_counter()
    subject.sync()
    rate = len(notes) / (time.perf_counter() - start)
    size, text = subject.size(), sum(len(note.text.encode()) for note in notes)
    return [
        Row("notes", str(len(notes))),
        Row("notes indexed a second", f"{rate:.0f}"),
        Row("index size, bytes a byte of text", f"{size / text:.1f}"),
    ]


def _questions(subject: InVault, asked: Sequence[tuple[str, set[str]]]) -> list[Row]:
    times, ranks = [], []
    for question, gold in asked:
        start = time.perf_counter()
        page = subject.search(question, 10)
        times.append(time.perf_counter() - start)
        ranks.append(next((rank for rank, hit in enumerate(page.hits) if hit.id in gold), 10))
    p50, p95 = _milliseconds(times)
    rows = [
        Row(f"questions answered in the top {top}", f"{sum(rank < top for rank in ranks)} of {len(ranks)}")
        for top in (1, 5, 10)
    ]
    return [*rows, Row("query p50, ms", p50), Row("query p95, ms", p95)]


def _scan(subject: InVault, notes: Sequence[Document]) -> list[Row]:
    """Single words: the index against a scan of all text for the word between word boundaries."""
    words = sorted({word for note in notes[::20] for word in re.findall(r"[a-z]{3,}", note.text)})[::40]
    looked_up, scanned, wrong = [], [], 0
    for word in words:
        start = time.perf_counter()
        page = subject.search(f'"{word}"', len(notes))  # as it stands, without its other forms
        looked_up.append(time.perf_counter() - start)
        start = time.perf_counter()
        near = [note for note in notes if word in note.text.lower() or word in note.title.lower()]
        scanned.append(time.perf_counter() - start)
        whole = re.compile(rf"\b{word}\b")
        truth = {note.id for note in near if whole.search(f"{note.title} {note.text}".lower().replace("_", " "))}
        wrong += {hit.id for hit in page.hits} != truth
    return [
        Row("words whose hits differ from a scan", f"{wrong} of {len(words)}"),
        Row("one word with all its hits, p50 ms", _milliseconds(looked_up)[0]),
        Row("substring scan of all text, p50 ms", _milliseconds(scanned)[0]),
    ]


def _change(subject: InVault, notes: Sequence[Document]) -> list[Row]:
    times = []
    for number, note in enumerate(notes[:: max(1, len(notes) // 40)]):
        word = f"changeling{number}"
        subject.rewrite(note.id, f"{note.text} {word}")
        start = time.perf_counter()
        subject.sync()
        found = subject.search(word, 5)
        times.append(time.perf_counter() - start)
        if [hit.id for hit in found.hits] != [note.id]:
            raise AssertionError(f"{note.id} was not found by its new word")
    p50, p95 = _milliseconds(times)
    return [Row("changed note found, ms", p50), Row("changed note found, p95 ms", p95)]


def _open(root: Path) -> list[Row]:
    """The time from nothing to the first hit on an index that is there already; without Python's own start."""
    start = time.perf_counter()
    subject = InVault(root)
    subject.search("what is the capital", 5)
    seconds = time.perf_counter() - start
    subject.close()
    command = [sys.executable, "-m", "memory_fs.cli", "search", "archival", "what is the capital", "--vault", str(root)]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return [
        Row("opening and one search, ms", f"{seconds * 1e3:.0f}"),
        Row("`memory-fs search` from the shell, ms", f"{(time.perf_counter() - start) * 1e3:.0f}"),
    ]


def _chinese(make: Callable[[Sequence[Document]], InVault]) -> list[Row]:
    """Words against a substring scan, questions against the note that answers them."""
    count = len(prose.NOTES)
    single = [_document(f"zh{number:03d}", text) for number, text in enumerate(prose.NOTES)]
    mixed = [
        _document(f"zh{number:03d}", "".join(prose.NOTES[(number * step + step) % count] for step in (1, 7, 11)))
        for number in range(count, 10 * count)
    ]
    subject = make([*single, *mixed])
    subject.sync()
    hits = misses = false = 0
    for word in prose.WORDS:
        found = {hit.id for hit in subject.search(word, 11 * count).hits}
        truth = {note.id for note in (*single, *mixed) if word in note.text}
        hits, misses, false = hits + len(found & truth), misses + len(truth - found), false + len(found - truth)
    times, answered = [], 0
    for question, gold in prose.QUESTIONS:
        start = time.perf_counter()
        page = subject.search(question, 5)
        times.append(time.perf_counter() - start)
        answered += any(prose.NOTES[gold] in hit.text for hit in page.hits)
    return [
        Row("Chinese words, recall", f"{hits / (hits + misses):.2f}"),
        Row("Chinese words, precision", f"{hits / (hits + false):.2f}"),
        Row("Chinese questions answered in the top 5", f"{answered} of {len(prose.QUESTIONS)}"),
        Row("Chinese question p95, ms", _milliseconds(times)[1]),
    ]
