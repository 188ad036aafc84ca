"""`memory-fs model`: list, install, verify, use."""

from __future__ import annotations

from typing import Annotated

import typer

from memory_fs.cli_options import DEFAULT_VAULT, JsonOption, VaultOption, group, say
from memory_fs.errors import ModelError

model_app = group("Models: list, install, verify, use.")


@model_app.command("list")
def model_list(as_json: JsonOption = False) -> None:
    """List the models of the registry and the GGUF files that are there."""
    from memory_fs.llm import registry
    from memory_fs.show import emit, emit_json

    rows = registry.listing()
    if as_json:
        return emit_json(rows)
    for row in rows:
        mark = "installed" if row["installed"] else "-"
        emit(f"{row['name']:32} {row['bytes'] / 1e6:8.0f} MB  {mark:10} {row['licence']}")


@model_app.command("install")
def model_install(name: Annotated[str, typer.Argument(help="A name from `memory-fs model list`.")] = "") -> None:
    """Download a model, check its sha256 and put it in place."""
    from memory_fs.formats.settings import DEFAULT_MODEL
    from memory_fs.llm import registry
    from memory_fs.progress import progress
    from memory_fs.show import emit

    with progress("downloaded", size=True) as report:
        place = registry.install(name or DEFAULT_MODEL, progress=report, say=say)
    emit(f"{name or DEFAULT_MODEL} is in {place}")


@model_app.command("verify")
def model_verify(name: Annotated[str, typer.Argument(help="A name from `memory-fs model list`.")] = "") -> None:
    """Check the sha256 of an installed model."""
    from memory_fs.formats.settings import DEFAULT_MODEL
    from memory_fs.llm import registry
    from memory_fs.show import emit

    if not registry.verify(name or DEFAULT_MODEL):
        raise ModelError(
            f"{name or DEFAULT_MODEL} is damaged: its sha256 differs; delete the file and run "
            f"`memory-fs model install {name or DEFAULT_MODEL}`"
        )
    emit(f"{name or DEFAULT_MODEL}: sha256 is right")


@model_app.command("use")
def model_use(
    name: Annotated[str, typer.Argument(help="A registry name or a GGUF file.")], vault: VaultOption = DEFAULT_VAULT
) -> None:
    """Make a vault use a model: writes `model:` in its memory.yaml."""
    from memory_fs.history import person
    from memory_fs.loading import use_model
    from memory_fs.show import emit, emit_change
    from memory_fs.vault import Vault

    with Vault(vault) as opened:
        change = use_model(opened, name, person())
        emit_change(change, diff=True) if change else emit(f"{name} is in use already")
