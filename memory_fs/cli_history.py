"""The history commands of `memory-fs`: what happened to memory, and how to get it back. They stand at the top level."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from memory_fs.cli_options import DEFAULT_VAULT, JsonOption, VaultOption, group, open_vault, say
from memory_fs.errors import FunctionError

if TYPE_CHECKING:
    from memory_fs.change import Change
    from memory_fs.vault import Vault

STATES = "A state is an id or its start, HEAD, HEAD~2, or a moment: 2026-11-29 (its end), 2026-11-29T14:00, yesterday."
history_app = group("What happened to memory, and how to get it back.")
RevArgument = Annotated[str, typer.Argument(metavar="REV", help="A state: an id, HEAD~2, or a moment.")]


class Then(StrEnum):
    """What of an earlier state can be seen."""

    prompt = "prompt"
    show = "show"


@history_app.command()
def log(
    path: Annotated[str | None, typer.Argument(help="Only changes of this file or folder.")] = None,
    author: Annotated[str, typer.Option("--author", help="Only by this author; a part of the name will do.")] = "",
    function: Annotated[str, typer.Option("--function", help="Only what this function wrote.")] = "",
    session: Annotated[str, typer.Option("--session", help="Only of this session.")] = "",
    turn: Annotated[int | None, typer.Option("--turn", help="Only of turns with this number.")] = None,
    since: Annotated[str, typer.Option("--since", help="From this day on: 2026-11-29, today, yesterday.")] = "",
    until: Annotated[str, typer.Option("--until", help="Up to this day, the day included.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """List changes, newest first."""
    from itertools import islice

    from memory_fs.revisions import find
    from memory_fs.show import change_json, emit_change, emit_json

    with open_vault(vault) as opened:
        opened.look()
        wanted = {"author": author, "function": function, "session": session, "since": since, "until": until}
        changes = list(islice(find(opened, path, turn=turn, **wanted), limit))
        if path and not changes:
            _known(opened, path)
        if as_json:
            return emit_json([change_json(change) for change in changes])
        for change in changes:
            emit_change(change)


def _known(vault: Vault, path: str) -> None:
    """Refuse a path that no change ever touched: it is mistyped, which is not the same as nothing found."""
    if next(vault.history.log(path.rstrip("/")), None) is None:
        raise FunctionError(f"no change touched {path}; `memory-fs log` without it lists them all")


def _not_zero(text: str) -> str:
    if text.strip("0") == "":
        raise typer.BadParameter("a number of changes must be greater than or equal to 1")
    return text


@history_app.command(epilog=STATES)
def diff(
    first: Annotated[
        str,
        typer.Argument(
            metavar="[N|REV]", callback=_not_zero, help="How many changes (up to six digits), or an earlier state."
        ),
    ] = "1",
    second: Annotated[
        str | None, typer.Argument(metavar="[REV]", help="A later state; else what is there now.")
    ] = None,
    path: Annotated[str | None, typer.Option("--path", help="Only of this file or folder.")] = None,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Show what the last N changes wrote to memory (not recall and the queue), or what differs between two states."""
    from itertools import islice

    from memory_fs.revisions import count_of
    from memory_fs.show import change_json, emit_change, emit_json
    from memory_fs.undo import MEMORY

    count = count_of(first) if second is None else None
    with open_vault(vault) as opened:
        opened.look()
        if count is None:
            return _compare(opened, first, second or "HEAD", path, as_json)
        changes = list(islice(opened.history.log_of((path.rstrip("/"),) if path else MEMORY), count))
        if path and not changes:
            _known(opened, path)
        if as_json:
            return emit_json([change_json(change) for change in changes])
        for change in changes:
            emit_change(change, diff=True)


def _compare(vault: Vault, old: str, new: str, path: str | None, as_json: bool) -> None:
    from memory_fs.revisions import resolve, under
    from memory_fs.show import emit_diff, emit_json

    revs = resolve(vault, old), resolve(vault, new)
    files = [(name, text) for name, text in vault.history.compare(*revs) if path is None or under(path, name)]
    if path and not files:
        _known(vault, path)
    if as_json:
        changes = [{"path": name, "diff": text} for name, text in files]
        return emit_json({"from": revs[0], "to": revs[1], "changes": changes})
    for _, text in files:
        emit_diff(text)


@history_app.command(epilog=STATES)
def show(rev: RevArgument, vault: VaultOption = DEFAULT_VAULT, as_json: JsonOption = False) -> None:
    """Show one change with its diff."""
    from memory_fs.revisions import resolve

    with open_vault(vault) as opened:
        opened.look()
        _print(opened.history.show(resolve(opened, rev)), as_json)


@history_app.command()
def blame(
    path: Annotated[str, typer.Argument(help="A file of memory, such as core/human.yaml.")],
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Show which change, whose, and of which turn, each line of a file came with."""
    from memory_fs.blame import blame as lines_of
    from memory_fs.progress import waiting
    from memory_fs.show import emit_json, emit_lines, line_json

    with open_vault(vault) as opened:
        with waiting("reading history"):
            lines = lines_of(opened, path)
        emit_json([line_json(line) for line in lines]) if as_json else emit_lines(lines)


@history_app.command(epilog=STATES)
def undo(
    what: Annotated[
        str | None, typer.Argument(metavar="[WHAT]", help="A change; with --turn SESSION/N; with --session its name.")
    ] = None,
    turn: Annotated[bool, typer.Option("--turn", help="A whole turn, by default the newest.")] = False,
    session: Annotated[bool, typer.Option("--session", help="A whole session, by default the newest.")] = False,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Take back the last change of memory, or what is named, as one new change."""
    from memory_fs import undo as revisions
    from memory_fs.history import person
    from memory_fs.revisions import resolve

    if turn and session:
        raise FunctionError("--turn and --session do not go together; a turn is part of a session")
    with open_vault(vault) as opened:
        if turn:
            change = revisions.undo_turn(opened, person(), what)
        elif session:
            change = revisions.undo_session(opened, person(), what)
        else:
            opened.adopt()
            change = revisions.undo(opened, person(), None if what is None else resolve(opened, what))
        _print(change, as_json)


@history_app.command()
def redo(vault: VaultOption = DEFAULT_VAULT, as_json: JsonOption = False) -> None:
    """Bring back what the last undo took back."""
    from memory_fs.history import person
    from memory_fs.undo import redo as bring_back

    with open_vault(vault) as opened:
        _print(bring_back(opened, person()), as_json)


@history_app.command(epilog=STATES)
def restore(
    place: Annotated[str, typer.Argument(metavar="PATH@REV", help="A file or a folder, and the state it was in.")],
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Bring back a file or a folder as it was, as a new change; what came into the folder since stays."""
    from memory_fs.history import person
    from memory_fs.restore import restore as bring_back
    from memory_fs.revisions import resolve
    from memory_fs.show import emit, emit_json

    path, found, rev = place.rpartition("@")
    if not found or not path or not rev:
        raise FunctionError(f"{place[:80]!r} names no state; write PATH@REV, such as core/human.yaml@yesterday")
    with open_vault(vault) as opened:
        opened.adopt()
        done = bring_back(opened, path, resolve(opened, rev), person())
        for old, now in done.moved:
            say(f"{old} is {now} now and was left alone")
        if done.change is not None:
            return _print(done.change, as_json)
    emit_json(None) if as_json else emit(f"{path} is as it was then; nothing was changed")


@history_app.command(epilog=STATES)
def at(
    rev: RevArgument,
    what: Then,
    path: Annotated[str | None, typer.Argument(help="The file, for show.")] = None,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Look at an earlier state: `prompt`, what the model saw then, or `show PATH`, what was in a file."""
    from memory_fs.loading import NoModel
    from memory_fs.past import Past
    from memory_fs.revisions import resolve
    from memory_fs.show import emit, emit_json, emit_prompt, prompt_json

    if (path is None) == (what is Then.show):
        raise FunctionError("write `at REV prompt`, or `at REV show PATH`")
    with open_vault(vault) as opened:
        opened.look()
        past = Past(opened, resolve(opened, rev))
        if path is not None:
            text = past.text(path)
            emit_json({"rev": past.rev, "path": path, "text": text}) if as_json else emit(text.removesuffix("\n"))
            return
        counter = NoModel.counting(opened)
        found = prompt_json(past.prompt(), counter, min(past.settings.window, counter.window))
    emit_json(found) if as_json else emit_prompt(found)


@history_app.command()
def gc(
    keep: Annotated[str, typer.Option("--keep", help="How much of history stays: 90d, 12w, 1y; 0d for none.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Prune history: older changes become one, what only they had leaves the disk. Files never change."""
    from memory_fs.progress import waiting
    from memory_fs.prune import prune, span
    from memory_fs.show import emit, emit_json, pruned_text

    with open_vault(vault) as opened, waiting("pruning history"):
        done = prune(opened, span(keep), dry_run=dry_run)
    for name in done.kept_by:
        say(f"{name} keeps older history; git can delete it")
    if as_json:
        return emit_json({"changes": done.changes, "bytes": done.size, "kept_by": done.kept_by, "dry_run": dry_run})
    emit(pruned_text(done))


def _print(change: Change, as_json: bool) -> None:
    from memory_fs.show import change_json, emit_change, emit_json

    emit_json(change_json(change)) if as_json else emit_change(change, diff=True)
