"""From a vault's settings to a model that runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memory_fs.vault import INNER, Vault

if TYPE_CHECKING:
    from memory_fs.llm.llama import LlamaModel


def load_model(vault: Vault | Path | str, *, threads: int | None = None) -> LlamaModel:
    """The model that a vault's memory.yaml names, with its window, seed and temperature.

    Raises:
        ModelError: it is not installed, or damaged; says which command installs it.
    """
    from memory_fs.llm.llama import LlamaModel
    from memory_fs.llm.registry import find

    opened = vault if isinstance(vault, Vault) else Vault(vault)
    settings = opened.settings
    return LlamaModel(
        find(settings.model, opened.root.parent),
        window=settings.window,
        seed=settings.seed,
        temperature=settings.temperature,
        threads=threads,
        kv_folder=opened.root / INNER / "kv",
    )
