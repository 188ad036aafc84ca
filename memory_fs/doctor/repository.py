"""Checks of history: its repository, its branch, its objects, and what differs between it and the files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial

from memory_fs.disk import INNER
from memory_fs.doctor.case import MEND, Case, Trouble

GIT = f"{INNER}/git"
FIRST = ("repository", "branch", "object", "interrupted", "edited")
"""Kinds that are mended before all others, in this order: every other fix puts a change on top of history."""
SOUND = FIRST[:3]
"""Kinds that can be mended while the newest change cannot be read."""


def repository(case: Case) -> Iterator[Trouble]:
    """The git directory is there, opens, and is the one that this program made."""
    if not case.reachable:  # which the check of permissions says
        case.sound = False
        return
    if not case.git.exists():
        what = "there is no history yet; the next command that writes starts one"
        yield Trouble(GIT, "repository", what, MEND, normal=True, fix=start)
        return
    if case.history is None:
        case.sound = False
        whole = case.git.is_dir() and not (case.git / "HEAD").exists()
        what = "its file HEAD is missing" if whole else "no repository that can be opened"
        yield Trouble(GIT, "repository", what, MEND if whole else _aside(case), fix=start if whole else None)
        return
    if case.git.is_symlink():
        yield Trouble(GIT, "repository", "a link to another place; a copy of the vault leaves its history behind",
                      "put the repository itself there", normal=True)  # fmt: skip
    for what, arguments in case.history.oddities():
        yield Trouble(GIT, "repository", what, f"git --git-dir={shlex.quote(str(case.git))} {arguments}")


def _aside(case: Case) -> str:
    """The last resort: the files are the whole state, so a new history can start from them."""
    place = shlex.quote(str(case.git))
    return f"put a good copy there; without one, mv {place} {place}.broken, and the next change starts a new history"


def start(case: Case) -> None:
    """Open the vault, which makes what is missing of the repository, and take in the files."""
    if case.history is None and not any(case.git.glob("objects/[0-9a-f][0-9a-f]/*")):
        case.vault.adopt()
    _ = case.vault.history


def branch(case: Case) -> Iterator[Trouble]:
    """The branch names the newest change."""
    history = case.history
    if history is None or history.head is not None:
        return
    tips = history.tips()
    if not tips:
        return
    case.sound = False
    (newest, length), *others = tips
    what = "the branch main is missing or damaged, and with it the way to every change"
    if not others or others[0][1] < length:
        what += f"; the newest is {newest[:8]}, after {length - 1} others"
        yield Trouble(GIT, "branch", what, MEND, fix=partial(name_branch, rev=newest))
        return
    names = " or ".join(tip[:8] for tip, _ in tips[:5])
    mend = f"choose the newest: git --git-dir={shlex.quote(str(case.git))} branch main REV, where REV is {names}"
    yield Trouble(GIT, "branch", what, mend)


def name_branch(case: Case, rev: str) -> None:
    """Let the branch name the end of the longest line of changes."""
    if case.history:
        case.history.name_branch(rev)


def objects(case: Case) -> Iterator[Trouble]:
    """Every object of every change can be read and is what its name says."""
    if case.history is None:
        return
    here = {blob: path for path, blob in case.blobs.items()}
    for damage in case.history.damages(case.report):
        where = f"{damage.path} in change {damage.rev[:8]}" if damage.path else f"change {damage.rev[:8]}"
        what = f"object {damage.id[:12]} is damaged ({where}): {damage.why}"
        path = here.get(damage.id)
        fix = partial(put_back, path=path) if path and not damage.closed else None
        last = f"chmod -R u+r {shlex.quote(str(case.git))}" if damage.closed else _aside(case)
        yield Trouble(GIT, "object", what, MEND if fix else last, fix=fix)
    if case.history.head and case.history.files() is None:
        case.sound = False


def put_back(case: Case, path: str) -> None:
    """Write an object anew from a file that has just its content."""
    data = case.disk.read(path)
    if data is not None and case.history:
        case.history.put_back(data)


def interrupted(case: Case) -> Iterator[Trouble]:
    """A change that a crash left half done is finished or dropped by whoever opens the vault next."""
    if case.history and case.unfinished and not case.busy:
        what = "a change was interrupted; the next command finishes it or takes it back"
        yield Trouble(GIT, "interrupted", what, MEND, normal=True, fix=adopt)


def edited(case: Case) -> Iterator[Trouble]:
    """What a person changed since the last commit: normal, and taken into history by the next command."""
    known = case.history.files() if case.history else None
    if known is None:
        return
    for path in sorted(case.blobs.keys() | known.keys()):
        if case.blobs.get(path) == known.get(path) or (path not in case.blobs and case.is_unknown(path)):
            continue
        what = "made" if path not in known else "deleted" if path not in case.blobs else "changed"
        told = f"{what} by hand since the last change; the next command takes that into history"
        yield Trouble(path, "edited", told, MEND, normal=True, fix=adopt)


def adopt(case: Case) -> None:
    """Open the vault, which finishes an interrupted change, and take hand edits into history."""
    case.vault.adopt()
