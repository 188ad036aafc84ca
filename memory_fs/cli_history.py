"""The history commands of `memory-fs`: log, diff, show, undo, redo. They stand at the top level, not in a group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memory_fs.cli_options import DEFAULT_VAULT, JsonOption, VaultOption, group, open_vault

history_app = group("What happened to memory, and how to take it back.")


@history_app.command()
def log(
    path: Annotated[str | None, typer.Argument(help="Only changes of this file or folder.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """List changes, newest first."""
    from itertools import islice

    from memory_fs.show import change_json, emit_change, emit_json

    with open_vault(vault) as opened:
        opened.look()
        changes = list(islice(opened.history.log(path), limit))
        if as_json:
            return emit_json([change_json(change) for change in changes])
        for change in changes:
            emit_change(change)


@history_app.command()
def diff(
    count: Annotated[int, typer.Argument(min=1, help="How many changes of memory, newest first.")] = 1,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Show what the last changes wrote to memory (not recall and the queue)."""
    from itertools import islice

    from memory_fs.show import change_json, emit_change, emit_json
    from memory_fs.undo import MEMORY

    with open_vault(vault) as opened:
        opened.look()
        changes = list(islice(opened.history.log_of(MEMORY), count))
        if as_json:
            return emit_json([change_json(change) for change in changes])
        for change in changes:
            emit_change(change, diff=True)


@history_app.command()
def show(rev: str, vault: VaultOption = DEFAULT_VAULT, as_json: JsonOption = False) -> None:
    """Show one change with its diff."""
    from memory_fs.show import change_json, emit_change, emit_json

    with open_vault(vault) as opened:
        change = opened.history.show(rev)
        emit_json(change_json(change)) if as_json else emit_change(change, diff=True)


@history_app.command()
def undo(vault: VaultOption = DEFAULT_VAULT, as_json: JsonOption = False) -> None:
    """Take back the last change of memory, as a new change."""
    _revert(vault, as_json, "undo")


@history_app.command()
def redo(vault: VaultOption = DEFAULT_VAULT, as_json: JsonOption = False) -> None:
    """Bring back what the last undo took back."""
    _revert(vault, as_json, "redo")


def _revert(vault: Path, as_json: bool, verb: str) -> None:
    from memory_fs import undo as revisions
    from memory_fs.history import person
    from memory_fs.show import change_json, emit_change, emit_json

    with open_vault(vault) as opened:
        change = getattr(revisions, verb)(opened, person())
        emit_json(change_json(change)) if as_json else emit_change(change, diff=True)
