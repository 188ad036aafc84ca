"""What the command groups share: options, and a word on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from memory_fs.vault import Vault

VaultOption = Annotated[
    Path, typer.Option("--vault", envvar="MEMORY_FS_VAULT", help="The vault's folder.", show_default=True)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON document a line.")]
ReadOnlyOption = Annotated[
    bool,
    typer.Option("--read-only", help="Core and archival memory stay as they are; the conversation is still recorded."),
]
PageOption = Annotated[int, typer.Option("--page", help="Page of the result, from 1.")]
DEFAULT_VAULT = Path("vault")


def group(help_text: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


@contextmanager
def open_vault(folder: Path) -> Iterator[Vault]:
    """The vault that a command works on."""
    from memory_fs.vault import Vault

    with Vault(folder) as vault:
        yield vault


def say(line: str) -> None:
    """Tell a person something that is not the command's result."""
    print(f"memory-fs: {line}", file=sys.stderr, flush=True)
