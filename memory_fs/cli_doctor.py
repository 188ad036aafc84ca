"""`memory-fs doctor`: what is wrong with a vault, in words, and what mends it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from memory_fs.cli_options import DEFAULT_VAULT, JsonOption, VaultOption

if TYPE_CHECKING:
    from memory_fs.doctor import Findings

_SHOWN = 20  # troubles of one kind that are listed in a terminal


def doctor(
    vault: VaultOption = DEFAULT_VAULT,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is safe to mend, each repair one change.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare files, index and history; exit status 1 when something is wrong."""
    from memory_fs.doctor import examine
    from memory_fs.progress import progress
    from memory_fs.show import emit_json

    with progress("looked at") as report:
        found = examine(vault, fix=fix, report=report)
    if as_json:
        counts = {"files": found.files, "changes": found.changes, "records": found.records}
        emit_json({"troubles": [trouble.json() for trouble in found.troubles], **counts})
    else:
        _tell(found)
    raise typer.Exit(1 if found.left else 0)


def _tell(found: Findings) -> None:
    from memory_fs.show import emit

    shown: Counter[str] = Counter()
    for trouble in found.troubles:
        shown[trouble.kind] += 1
        if shown[trouble.kind] <= _SHOWN:
            style = "green" if trouble.fixed else None if trouble.normal else "red"
            emit(f"{trouble}{'; mended' if trouble.fixed else ''}", style=style)
            if not trouble.fixed:
                emit(f"    {trouble.mend}")
    for kind, count in shown.items():
        if count > _SHOWN:
            emit(f"and {count - _SHOWN} more of the kind {kind}; --json lists all")
    counts = f"{found.files} files, {found.changes} changes, {found.records} records"
    if not found.left:
        emit(f"no trouble found: {counts}")
        return
    safe = sum(trouble.fix is not None for trouble in found.left)
    many = "1 trouble" if len(found.left) == 1 else f"{len(found.left)} troubles"
    emit(f"{many} in {counts}" + (f"; {safe} can be mended with --fix" if safe else ""))
