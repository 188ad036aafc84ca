"""Who stands behind what the model wrote: a person who edited it since, or somebody who said the same afterwards.

The message that a line was made from is no second source, so what was said before the line came does not count; nor
does anything that the model itself wrote. By form alone it can be seen that two sentences say the same, not that they
mean the same: in other words a line is not confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from memory_fs.blame import blame
from memory_fs.change import AGENT, Change
from memory_fs.policy import says
from memory_fs.records import Document, Hit
from memory_fs.search import Search

NEAR = 20  # records with a line's words that are looked at


def by_model(change: Change | None) -> bool:
    """Whether the model made a change."""
    return change is not None and change.author == AGENT[0]


def confirmed(search: Search, path: str, text: str) -> bool:
    """Whether somebody else said, later, every line of a file that the model wrote.

    Args:
        search: the searchable side of the vault.
        path: of a block or a note that the model wrote last.
        text: what it says now.
    """
    came = {line.text.strip(): line.change for line in blame(search.vault, path)}
    newest = max(came.values(), key=lambda change: change.time)
    lines = ((line, came.get(line.strip(), newest)) for line in text.split("\n") if line.strip())
    wrote = [(line, change.time) for line, change in lines if by_model(change)]
    return bool(wrote) and all(_is_said(search, line, since) for line, since in wrote)


def _is_said(search: Search, line: str, since: datetime) -> bool:
    return any(says(said, line) for said in _others(search, line, since))


def _others(search: Search, line: str, since: datetime) -> Iterator[str]:
    """What the user said and what others wrote since a moment, of what has the words of a line."""
    query = " ".join(word.lstrip("-#") for word in line.replace('"', " ").split())
    for hit in search.search("recall", query, size=NEAR, since=since).hits:
        if _document(search.load(hit.path), hit).role == "user" and hit.date > since:
            yield hit.text
    for hit in search.search("archival", query, size=NEAR).hits:
        last = next(search.vault.history.log(hit.path), None)
        if last and not by_model(last) and last.time > since:
            yield hit.text


def _document(documents: Iterable[Document], hit: Hit) -> Document:
    return next(one for one in documents if one.id == hit.id)
