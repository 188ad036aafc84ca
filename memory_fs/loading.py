"""From a vault's settings to a model that runs, or to one that only counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from memory_fs.change import Author, Change
from memory_fs.disk import INNER
from memory_fs.errors import ModelError
from memory_fs.formats.settings import Settings
from memory_fs.formats.strict_yaml import scalar
from memory_fs.llm import Turn
from memory_fs.vault import Transaction, Vault

if TYPE_CHECKING:
    from memory_fs.llm.llama import LlamaModel, TokenCounter


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


class NoModel:
    """Stands where nothing is generated: it counts tokens and refuses to write."""

    def __init__(self, settings: Settings, counter: TokenCounter | None = None) -> None:
        """Args: settings: gives name and window; counter: the model's tokenizer, else counts are a rough guess."""
        self.name, self.window = settings.model, counter.window if counter else settings.window
        self._counter = counter

    @classmethod
    def counting(cls, vault: Vault) -> NoModel:
        """With the exact tokenizer of a vault's model, without its weights.

        Raises:
            ModelError: the model is not installed, or damaged.
        """
        from memory_fs.llm.llama import TokenCounter
        from memory_fs.llm.registry import find

        settings = vault.settings
        return cls(settings, TokenCounter(find(settings.model, vault.root.parent), window=settings.window))

    def count(self, turns: Sequence[Turn]) -> int:
        """Tokens of a prompt; about four characters each where there is no tokenizer."""
        return self._counter.count(turns) if self._counter else sum(len(turn.content) for turn in turns) // 4

    def count_text(self, text: str) -> int:
        """Tokens of a text."""
        return self._counter.count_text(text) if self._counter else len(text) // 4

    def complete(self, turns: Sequence[Turn], **options: Any) -> NoReturn:
        """Never.

        Raises:
            ModelError: always.
        """
        raise ModelError("no model is loaded here")


def use_model(vault: Vault, name: str, author: Author) -> Change | None:
    """Write `model:` in memory.yaml, all else as it was.

    Raises:
        ModelError: no model of that name is installed and no such file is there.
    """
    from memory_fs.llm.registry import find

    find(name, vault.root.parent)

    def work(transaction: Transaction) -> None:
        text = transaction.read("memory.yaml") or ""
        line = f"model: {scalar(name)}"
        new, found = re.subn(r"(?m)^model:[^\S\n]*[^\s#]*", lambda _: line, text, count=1)
        transaction.write("memory.yaml", new if found else f"{line}\n{text}")

    return vault.transact(work, f"Use the model {name}", author=author)[1]
