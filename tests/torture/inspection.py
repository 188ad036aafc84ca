"""Looks at a vault after something happened to it and says what is wrong with files, history or search.

It only opens and reads, as the next program would; there is no step that mends anything.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

import pygit2

from memory_fs.agent import Agent
from memory_fs.analysis import tokens
from memory_fs.change import Change
from memory_fs.disk import INNER, is_memory_file
from memory_fs.errors import MemoryFsError
from memory_fs.formats.day import day_of, parse_day
from memory_fs.formats.note import parse_note
from memory_fs.search import SPOKEN
from memory_fs.testing import ScriptedModel
from memory_fs.vault import Vault

from .base import State, on_disk

Record = tuple[str, str, str, str]  # kind, id, title, text


@dataclass
class Seen:
    """What was found.

    Attributes:
        files: path -> blob id as the files were right after the vault was opened.
        changes: newest first, down to the one that was named.
        problems: what is wrong, one line each.
        litter: files that are no memory and lie between memory files.
        rebuilt: whether the search index had to be made anew.
    """

    files: State = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    litter: list[str] = field(default_factory=list)
    rebuilt: bool = False


def inspect(
    root: Path, *, since: str = "", adopts: bool = False, words: int = 6, verified: set[str] | None = None
) -> Seen:
    """Open a vault and look at everything.

    Args:
        root: its folder.
        since: a change; those after it are handed out.
        adopts: whether a hand edit may be waiting to be taken into history.
        words: how many records of each kind are searched for.
        verified: ids of objects that were read before, and are added to.
    """
    seen = Seen()
    said: list[str] = []
    try:
        vault = Vault(root)
        with Agent(vault, ScriptedModel([]), say=said.append) as agent:
            seen.files = on_disk(vault.root)
            if not adopts:
                _agrees(vault, seen)
            vault.adopt()
            seen.changes = list(takewhile(lambda change: change.rev != since, vault.history.log()))
            seen.problems += [*_parses(agent), *_together(agent), *_finds(agent, words)]
            seen.problems += _objects(root, set() if verified is None else verified)
    except Exception as error:
        seen.problems.append(f"{type(error).__name__} while it was opened and read: {error}")
    seen.rebuilt = any("building it" in line for line in said)
    seen.litter = sorted(litter(root))
    return seen


def litter(root: Path) -> Iterator[str]:
    """Files that are no memory between the memory files."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != INNER]
        paths = (Path(folder, name).relative_to(root).as_posix() for name in names)
        yield from (path for path in paths if not is_memory_file(path))


def _agrees(vault: Vault, seen: Seen) -> None:
    if seen.files != vault.history.tree():
        paths = sorted(path for path, _ in seen.files.items() ^ vault.history.tree().items())
        seen.problems.append(f"files and history differ: {', '.join(dict.fromkeys(paths))}")


# -- what the files say ---------------------------------------------------------------------------------------------


def _parses(agent: Agent) -> Iterator[str]:
    """Nothing in any file is half there."""
    vault = agent.vault
    yield from vault.settings.warnings
    for block in agent.core.blocks():
        yield from block.warnings
    for path in sorted(path for path in vault.files() if path.startswith("recall/")):
        day = day_of(path)
        if day is not None:
            yield from (f"{path}: {warning}" for warning in parse_day(vault.read(path) or "", day)[1])
    state = agent.queue.state()
    yield from [agent.queue.trouble] if agent.queue.trouble else []
    yield from (f"{path}: {trouble}" for path, trouble in vault.disk.troubles.items())
    yield from (f"queue.yaml names {ref}, which is gone" for ref in state.messages if agent.recall.get(ref) is None)


def _together(agent: Agent) -> Iterator[str]:
    """What one step wrote is there together: a note, the call that saved it, and the result that says so."""
    messages = list(agent.recall.all())
    saved = {m.content.split()[-1] for m in messages if m.role == "result" and m.content.startswith("saved as note")}
    notes = {note for kind, note, _, text in records(agent) if kind == "archival" and text.startswith("step")}
    if saved != notes:
        yield f"recall and notes disagree about {', '.join(sorted(saved ^ notes))}"
    calls, results = (sum(m.role == role for m in messages) for role in ("call", "result"))
    if calls != results:
        yield f"{calls} calls and {results} results"


def records(agent: Agent) -> list[Record]:
    """Every record that a search may find, from the files alone."""
    found: list[Record] = []
    for path in agent.vault.files():
        if path.startswith("archival/"):
            note = parse_note(agent.vault.read(path) or "", path)
            found.append(("archival", note.id, note.title, note.text))
    return found + [("recall", m.id, "", m.content) for m in agent.recall.all() if m.role in SPOKEN]


# -- search ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=20_000)
def _words(title: str, text: str) -> frozenset[str]:
    return frozenset(tokens(f"{title} {text}"))


def _finds(agent: Agent, words: int) -> Iterator[str]:
    """Search finds what the files say and nothing else: the newest records and some others, by their rarest word."""
    dice = random.Random(agent.vault.history.head)
    there = records(agent)
    for kind in ("archival", "recall"):
        mine = [record for record in there if record[0] == kind]
        if agent.search.count(kind) != len(mine):
            yield f"{agent.search.count(kind)} {kind} records in the index, {len(mine)} in the files"
        for _, record, title, text in dice.sample(mine, min(words, len(mine))) + mine[-2:]:
            hit = agent.search.index.get(kind, record)
            if hit is None or hit.text != text:
                yield f"{kind} {record} is {'missing' if hit is None else 'stale'} in the index"
            word = max(sorted(_words(title, text)), key=len, default="")
            page = agent.search.search(kind, f'"{word}"', size=len(mine) + 1)
            wanted = {id for _, id, *other in mine if word in _words(*other)}
            if word and {hit.id for hit in page.hits} != wanted:
                yield f"{kind}: {word} finds {sorted({hit.id for hit in page.hits} ^ wanted)[:4]} wrongly"


# -- history --------------------------------------------------------------------------------------------------------


def _objects(root: Path, verified: set[str]) -> Iterator[str]:
    """Every object that the newest commit leads to can be read and is what its id says."""
    repo = pygit2.Repository(str(root / INNER / "git"))
    head = repo.references.get("refs/heads/main")
    todo = [str(head.target)] if head else []
    while todo:
        name = todo.pop()
        if name in verified:
            continue
        verified.add(name)
        try:
            found = repo[name]
            if str(pygit2.hash(found.read_raw())) != name and isinstance(found, pygit2.Blob):
                yield f"object {name} is not what its id says"
        except (KeyError, pygit2.GitError, ValueError) as error:
            yield f"object {name} cannot be read: {error}"
            continue
        if isinstance(found, pygit2.Commit):
            todo += [str(found.tree_id), *map(str, found.parent_ids)]
        elif isinstance(found, pygit2.Tree):
            todo += [str(entry.id) for entry in found]
    repo.free()


def plain_git(root: Path) -> str:
    """What `git fsck` finds, and whether git takes the vault for a work tree; empty when all is well."""
    import subprocess

    trouble = ""
    for command in (["fsck", "--full", "--no-dangling", "--strict"], ["status", "--porcelain"]):
        done = subprocess.run(
            ["git", f"--git-dir={root / INNER / 'git'}", *command], cwd=root, capture_output=True, text=True
        )
        if done.returncode:
            trouble += f"git {command[0]}: {(done.stderr or done.stdout).strip()[:200]} "
    return trouble.strip()


__all__ = ["MemoryFsError", "Seen", "inspect", "plain_git", "records"]
