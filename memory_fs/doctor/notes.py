"""Notes that carry the same id: history knows which had it first, the other one is the copy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from memory_fs.doctor.case import MEND, Case, Trouble
from memory_fs.doctor.mend import rewrite
from memory_fs.errors import FormatError
from memory_fs.formats.note import parse_note, with_id
from memory_fs.vault import decode


def repeated_notes(case: Case) -> Iterator[Trouble]:
    """Two files with one id: searches and citations cannot tell them apart."""
    shared = {note_id: paths for note_id, paths in case.notes.items() if len(paths) > 1}
    if not shared:
        return
    tests = {path: partial(_carries, path=path, note_id=one) for one, paths in shared.items() for path in paths}
    ages = case.history.first(tests) if case.history else {}
    for note_id, paths in shared.items():
        first, *copies = sorted(
            paths, key=lambda path: (ages.get(path, len(ages) + case.changes), _time(case, path), path)
        )
        for path in copies:
            what = f"its id {note_id} is that of {first}, which had it first"
            yield Trouble(
                path, "duplicate-id", what, MEND, _line(case, path), fix=partial(renew, path=path, note_id=note_id)
            )


def _carries(data: bytes, path: str, note_id: str) -> bool:
    try:
        return parse_note(decode(data, path), path).id == note_id
    except FormatError:
        return False


def _time(case: Case, path: str) -> int:
    try:
        return (case.root / path).stat().st_mtime_ns
    except OSError:
        return 0


def _line(case: Case, path: str) -> int:
    lines = (case.disk.read(path) or b"").split(b"\n")
    return next((number for number, line in enumerate(lines, 1) if line.lstrip(b"\xef\xbb\xbf").startswith(b"id:")), 0)


def renew(case: Case, path: str, note_id: str) -> None:
    """Give a copied note an id of its own; the rest of the file stays byte for byte."""

    def change(data: bytes) -> bytes:
        text = decode(data, path)
        return (with_id(text, case.vault.new_id()) if parse_note(text, path).id == note_id else text).encode()

    rewrite(case, path, f"{path}: a fresh id in place of {note_id}, which another note has", change)
