"""What git trees hold and how two of them differ, as paths and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pygit2


def touches(commit: pygit2.Commit, paths: Iterable[str]) -> bool:
    """Whether a commit changed any of these files or folders."""
    now, before = commit.tree, commit.parents[0].tree if commit.parents else None
    return any(_entry(now, path) != (_entry(before, path) if before is not None else None) for path in paths)


def _entry(tree: pygit2.Tree, path: str) -> str | None:
    try:
        return str(tree[path].id)
    except KeyError:
        return None


def walk(tree: pygit2.Tree, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(path, blob id) of every file of a tree."""
    for entry in tree:
        name = f"{prefix}{entry.name}"
        if isinstance(entry, pygit2.Tree):
            yield from walk(entry, name + "/")
        else:
            yield name, str(entry.id)


def patches_of(diff: pygit2.Diff) -> Iterator[tuple[str, str]]:
    """(path, unified diff) of every file of a diff."""
    for patch in diff:
        if patch is not None:
            yield (patch.delta.new_file.path or patch.delta.old_file.path), _patch_text(patch)


def _patch_text(patch: pygit2.Patch) -> str:
    """The patch as text: `---`, `+++` and the hunks; bytes that are no UTF-8 are shown as U+FFFD."""
    lines = patch.data.decode("utf-8", "replace").split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith("--- ")), 0)
    return "\n".join(lines[start:])
