"""Which state or which changes a person means: an id, `HEAD~2`, a day, a moment; by author, function, session, day."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time

from memory_fs.change import Change
from memory_fs.errors import FunctionError, VaultError
from memory_fs.formats.day import day_named
from memory_fs.vault import Vault

_DATED = re.compile(r"\d{4}-\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?", re.IGNORECASE)
_COUNT = re.compile(r"\d{1,6}")


def resolve(vault: Vault, text: str) -> str:
    """The commit whose state a person names.

    Args:
        vault: hand edits should be in its history by now.
        text: an id or its start, `HEAD`, `HEAD~2`; or a moment in the vault's zone: `2026-11-29T14:00`, or
            `2026-11-29`, `today` and `yesterday`, which mean the end of that day.

    Raises:
        VaultError: there is no such commit, or the history begins later.
        FunctionError: a date that is none.
    """
    last = _moment(vault, text.strip())
    if last is None:
        return vault.history.show(text.strip()).rev
    first = None
    for change in vault.history.log():
        if change.time <= last:
            return change.rev
        first = change
    begins = f"; it begins at {first.time:%Y-%m-%dT%H:%M}" if first else ""
    raise VaultError(f"the history knows nothing of {text}{begins}")


def _moment(vault: Vault, text: str) -> datetime | None:
    """The last moment that a date or a time includes; None for what is neither."""
    if _MOMENT.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise FunctionError(f"{text!r} is no time; write 2026-11-29T14:00") from error
        return moment if moment.tzinfo else moment.replace(tzinfo=vault.now().tzinfo)
    if _DATED.match(text) or text.casefold() in ("today", "yesterday"):
        now = vault.now()
        return datetime.combine(day_named(text, now.date()), time.max, now.tzinfo)
    return None


def count_of(text: str) -> int | None:
    """How many changes a text asks for: a number of up to six digits; longer ones are the start of an id."""
    return int(text) if _COUNT.fullmatch(text) else None


def under(folder: str, path: str) -> bool:
    """Whether a path is that file, or in that folder."""
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")


def find(
    vault: Vault,
    path: str | None = None,
    *,
    author: str = "",
    function: str = "",
    session: str = "",
    turn: int | None = None,
    since: str = "",
    until: str = "",
) -> Iterator[Change]:
    """Changes, newest first, that are all of what is asked for; what is left empty does not matter.

    Args:
        path: a file or a folder.
        author: part of a name, in any case.
        function, session, turn: as the change's trailers have them.
        since, until: whole days of the vault's zone, both included: `2026-11-29`, `today`, `yesterday`.

    Raises:
        FunctionError: a date that is none, or the first is after the last.
    """
    in_time = _between(vault, since, until) if since or until else None  # else a broken memory.yaml is no matter
    named = {"Function": function, "Session": session, "Turn": "" if turn is None else str(turn)}
    trailers = {key: value for key, value in named.items() if value}

    def wanted(change: Change) -> bool:
        told = all(change.trailers.get(key) == value for key, value in trailers.items())
        return told and author.casefold() in change.author.casefold() and (in_time is None or in_time(change.time))

    return filter(wanted, vault.history.log(path.rstrip("/") if path else None))


def _between(vault: Vault, since: str, until: str) -> Callable[[datetime], bool]:
    now = vault.now()
    first = day_named(since, now.date()) if since else date.min
    last = day_named(until, now.date()) if until else date.max
    if first > last:
        raise FunctionError(f"--since {first} is after --until {last}; swap them")
    return lambda moment: first <= moment.astimezone(now.tzinfo).date() <= last
