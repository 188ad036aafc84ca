"""The search index against the files: it may be missing or behind at any time, but what it holds has to be right."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from memory_fs.disk import INNER
from memory_fs.doctor.case import MEND, Case, Trouble
from memory_fs.index import Index
from memory_fs.records import KINDS
from memory_fs.search import Search

INDEX = f"{INNER}/index"


def index(case: Case) -> Iterator[Trouble]:
    """Each record of the index says what its file says, and each file that it has read is wholly in it."""
    if not case.reachable:
        return
    held = Index(case.root / INDEX)
    if held.broken:
        yield _unusable(case, held)
        return
    try:
        known = dict(held.files)
        found = _records(case, held)
    except Exception as error:  # whatever a damaged index makes of itself
        what = f"the search index is damaged ({type(error).__name__}: {error})"
        yield Trouble(INDEX, "index", what, MEND, fix=rebuild)
        return
    finally:
        held.close()
    current = {path for path, blob in known.items() if case.blobs.get(path) == blob}
    for path in sorted(current & case.texts.keys()):
        if found.get(path, frozenset()) != case.texts[path]:
            yield Trouble(path, "index", "the search index says something else than this file", MEND, fix=rebuild)
    for path in sorted(found.keys() - known.keys()):
        yield Trouble(path, "index", "the search index holds a file that it does not list", MEND, fix=rebuild)


def _unusable(case: Case, held: Index) -> Trouble:
    folder = case.root / INDEX
    others = [place for place in folder.iterdir() if place.is_dir()] if folder.is_dir() else []
    if held.broken != "there is none yet":
        return Trouble(INDEX, "index", f"the search index cannot be used ({held.broken})", MEND, fix=rebuild)
    what = "from another version or another machine" if others else "not there yet"
    told = f"the search index is {what}; the next search builds it"
    return Trouble(INDEX, "index", told, MEND, normal=True, fix=rebuild)


def _records(case: Case, held: Index) -> dict[str, frozenset[int]]:
    """path -> what the index says of it, as `Case.texts` has it."""
    found: dict[str, set[int]] = {}
    total = sum(held.count(kind) for kind in KINDS)
    for number, document in enumerate(chain.from_iterable(map(held.documents, KINDS)), 1):
        found.setdefault(document.path, set()).add(hash((document.id, document.text)))
        if not number % 500 or number == total:
            case.report(number, total)
    return {path: frozenset(texts) for path, texts in found.items()}


def rebuild(case: Case) -> None:
    """Build the index anew from the files."""
    search = Search(case.vault)
    search.index.clear()
    search.sync(case.report)
    search.close()
