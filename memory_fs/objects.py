"""Whether the objects of the history hold what their names say: a power cut leaves empty and torn ones."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

import pygit2


def loose(place: Path) -> tuple[bytes | None, str]:
    """The content of a loose object file, or why it has none. Not asked of libgit2: it hangs on a torn one.

    Raises:
        OSError: it cannot be read.
    """
    packed = place.read_bytes()
    try:
        whole = zlib.decompress(packed)
    except zlib.error:
        return None, "it is torn" if packed else "it is empty"
    if hashlib.sha1(whole).hexdigest() != place.parent.name + place.name:
        return None, "it holds something else"
    return whole[whole.index(b"\0") + 1 :], ""


class Objects:
    """The objects of one repository."""

    def __init__(self, repo: pygit2.Repository) -> None:
        """Args: repo: an open repository."""
        self._repo = repo

    def whole(self, rev: str, known: Collection[str] = ()) -> bool:
        """Whether a commit and all that it adds can be read, and so its parents down to one of the known.

        libgit2 checks each object's hash; torn loose ones have to be gone first (`broken`).
        """
        try:
            while True:
                commit = self._repo[rev].peel(pygit2.Commit)
                self._read(commit.tree, commit.parents[0].tree if commit.parents else None)
                rev = str(commit.parent_ids[0]) if commit.parent_ids else ""
                if not rev or rev in known:
                    return True
        except (KeyError, OSError, ValueError, pygit2.GitError):
            return False

    def _read(self, tree: pygit2.Tree, before: pygit2.Tree | None) -> None:
        known = {entry.id for entry in before} if before is not None else set()
        for entry in tree:
            if entry.id in known:
                continue
            if isinstance(entry, pygit2.Tree):
                name = entry.name or ""
                old = before[name] if before is not None and name in before else None
                self._read(entry, old if isinstance(old, pygit2.Tree) else None)
            else:
                self._repo[entry.id].read_raw()

    def broken(self, since: int = 0) -> Iterator[Path]:
        """Loose object files that do not hold what their name says; what was put aside there has another name.

        Args:
            since: only files written then or later, nanoseconds since 1970.
        """
        for place in (Path(self._repo.path) / "objects").glob(f"[0-9a-f][0-9a-f]/{'[0-9a-f]' * 38}"):
            if place.stat().st_mtime_ns >= since and loose(place)[0] is None:
                yield place

    def drop_broken(self, since: int) -> None:
        """Delete the torn ones: git would take them for the objects of their names, and never write those again."""
        for place in list(self.broken(since)):
            place.unlink(missing_ok=True)
