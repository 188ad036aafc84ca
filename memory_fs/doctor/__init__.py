"""The doctor: compares files, index and history, names each trouble in words, and mends what is safe to mend.

    found = examine("vault")               # looks, changes nothing
    found = examine("vault", fix=True)     # mends what is safe, and looks again

A check is a function that yields `Trouble`s. `EACH` holds those of one file's text, `WHOLE` those of the whole vault.
A new one is a function of a few lines and its line in one of the two. Where a check knows a safe repair, its trouble
carries the function that does it (`memory_fs.doctor.mend`); each repair is one change in history, and what is taken out
of a file lies beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from memory_fs.doctor import days, derived, notes, places, repository, texts
from memory_fs.doctor.case import Case, Report, Trouble
from memory_fs.errors import VaultError
from memory_fs.formats.day import decode_day
from memory_fs.vault import is_vault

Check = Callable[[Case], Iterator[Trouble]]
TextCheck = Callable[[Case, str, str], Iterator[Trouble]]

EACH: tuple[tuple[str, TextCheck], ...] = (  # what a path begins with, and what is held against its text
    ("memory.yaml", texts.settings),
    ("core/", texts.block),
    ("archival/", texts.note),
    ("recall/", days.day),
    ("", texts.conflict_markers),
    ("", texts.hidden),
    ("", texts.nul),
)
WHOLE: tuple[Check, ...] = (
    places.unreadable,
    places.kinds_of_file,
    places.links,
    places.permissions,
    places.names,
    places.collisions,
    places.leftovers,
    places.lock,
    repository.repository,
    repository.branch,
    repository.interrupted,
    repository.objects,
    repository.edited,
    days.queue,
    days.repeated_messages,
    notes.repeated_notes,
    derived.index,
)
_ROUNDS = 4  # a repair can bring another trouble to light: a broken section, then the queue that named it


@dataclass(frozen=True)
class Findings:
    """What was found.

    Attributes:
        files: how many memory files were read.
        changes: how many changes history has.
        records: how many notes and messages there are.
    """

    troubles: tuple[Trouble, ...]
    files: int
    changes: int
    records: int

    @property
    def left(self) -> tuple[Trouble, ...]:
        """What is wrong now."""
        return tuple(trouble for trouble in self.troubles if not trouble.normal and not trouble.fixed)


def examine(
    root: Path | str, *, fix: bool = False, report: Report = lambda done, total: None, patience: float = 10.0
) -> Findings:
    """Look at a vault, and mend what is safe to mend if that is asked for.

    Args:
        root: the vault's folder.
        fix: mend; else nothing at all is written.
        report: called with (done, of how many), anew for files, changes and records.
        patience: seconds to wait, with `fix`, for another program that is writing.

    Raises:
        VaultError: no vault is there; or, with `fix`, another program goes on writing.
    """
    folder = Path(root)
    try:
        there = is_vault(folder)
    except OSError as error:
        raise VaultError(f"{folder} cannot be read ({error.strerror})", path=folder) from error
    if not there:
        raise VaultError(f"no vault at {folder}; `memory-fs init {folder}` makes one", path=folder)
    case = Case(folder, report)
    try:
        findings = _look(case)
        tried: dict[tuple[str, str, str], Trouble] = {}
        for _ in range(_ROUNDS if fix else 0):
            todo = [one for one in findings.troubles if one.fix and one.key not in tried and _can_be(case, one)]
            if not todo:
                break
            with case.disk.lock(patience):  # whoever is writing finishes first
                pass
            tried |= {trouble.key: trouble for trouble in _mend(case, todo)}
            case.close()
            case = Case(folder, report)
            findings = _look(case)
    finally:
        case.close()
    return _accounted(findings, tried)


def _look(case: Case) -> Findings:
    troubles = [*_each(case)]
    for check in WHOLE:
        troubles += check(case)
    records = sum(map(len, case.notes.values())) + sum(map(len, case.messages.values()))
    return Findings(tuple(troubles), len(case.blobs), case.changes, records)


def _each(case: Case) -> Iterator[Trouble]:
    """Read every file once and hold all checks of its kind against its text."""
    for path, data in case.files():
        if isinstance(data, str):
            yield places.closed(case, path, data)
            continue
        odd = None if path.startswith("recall/") else texts.no_utf8(path, data)
        if odd:
            yield odd
            continue
        text = decode_day(data)  # of a day only one section may be broken
        for prefix, check in EACH:
            if path.startswith(prefix):
                yield from check(case, path, text)


def _mend(case: Case, todo: list[Trouble]) -> Iterator[Trouble]:
    """Do each repair once, those of history first; yields what was tried, with the reason where it failed."""
    first = repository.FIRST
    done: dict[object, str] = {}
    for trouble in sorted(todo, key=lambda one: first.index(one.kind) if one.kind in first else len(first)):
        assert trouble.fix is not None
        mark = _mark(trouble.fix)
        if mark not in done:
            try:
                trouble.fix(case)
                done[mark] = ""
            except VaultError as error:
                done[mark] = str(error)
        yield replace(trouble, mend=f"{trouble.mend} could not: {done[mark]}" if done[mark] else trouble.mend)


def _can_be(case: Case, trouble: Trouble) -> bool:
    """Whether it can be mended now: while history is not sound, only history is."""
    return case.sound or trouble.kind in repository.SOUND


def _mark(fix: object) -> object:
    """What tells one repair from another: its function and what it is given."""
    return getattr(fix, "func", fix), str(getattr(fix, "keywords", {}))


def _accounted(findings: Findings, tried: dict[tuple[str, str, str], Trouble]) -> Findings:
    """The troubles that are there, and those that were there and are mended."""
    left = {trouble.key for trouble in findings.troubles}
    fixed = [replace(trouble, fixed=True) for key, trouble in tried.items() if key not in left]
    there = [replace(trouble, mend=tried.get(trouble.key, trouble).mend) for trouble in findings.troubles]
    return replace(findings, troubles=(*fixed, *there))


__all__ = ["Findings", "Trouble", "examine"]
