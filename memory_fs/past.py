"""What the model saw at an earlier state: the prompt, compiled from the files as history has them. Writes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from memory_fs.core import in_order
from memory_fs.errors import FormatError, VaultError
from memory_fs.events import Message
from memory_fs.formats.block import Block, parse_block
from memory_fs.formats.day import day_of, day_path, decode_day, parse_day
from memory_fs.formats.settings import QueueState, Settings, parse_queue, parse_settings
from memory_fs.memory_functions import PAPER, default_table
from memory_fs.prompt import Prompt, compile_prompt
from memory_fs.vault import Vault, decode

T = TypeVar("T")
_BLOCK = re.compile(r"core/([^./][^/]*)\.yaml")


@dataclass(frozen=True)
class Past:
    """A vault as it was at a commit, for reading.

    Attributes:
        vault: whose history it is.
        rev: the commit.
    """

    vault: Vault
    rev: str

    def read(self, path: str) -> str | None:
        """The text of a file then, or None where there was none.

        Raises:
            FormatError: the file was no UTF-8.
        """
        data = self.vault.history.read(path, self.rev)
        return None if data is None else decode(data, path)

    def text(self, path: str) -> str:
        """The text of a file then.

        Raises:
            VaultError: there was none. FormatError: it was no UTF-8.
        """
        found = self.read(path)
        if found is None:
            raise VaultError(f"{path} was not there at {self.rev[:8]}; see `memory-fs log {path}`", path=path)
        return found

    @property
    def settings(self) -> Settings:
        """What memory.yaml said."""
        return self._good("memory.yaml", parse_settings) or Settings()

    def prompt(self) -> Prompt:
        """What the model saw. A file that was broken then gives its last good value, as it did then.

        Functions of a person's own are not in the files, so they are not in this prompt.

        Raises:
            FormatError: system.md was no UTF-8. FunctionError: memory.yaml named a function that is not MemGPT's.
        """
        state = self._good("queue.yaml", parse_queue) or QueueState()
        paths = self.vault.history.tree(self.rev)
        settings = self.settings
        return compile_prompt(
            self.read("system.md") or "",
            default_table().select(["send_message", *(settings.functions or PAPER)]),
            [self._block(label) for label in in_order(found[1] for found in map(_BLOCK.fullmatch, paths) if found)],
            sum(path.startswith("archival/") for path in paths),
            state.evicted,
            state.summary,
            list(self._messages(state)),
            settings.window // 2,
        )

    def _block(self, label: str) -> Block:
        found = self._good(f"core/{label}.yaml", lambda text: parse_block(text, label))
        return found or Block(label, "", 1, True, "")

    def _messages(self, state: QueueState) -> Iterator[Message]:
        days: dict[str, dict[str, Message]] = {}
        for ref in state.messages:
            day, _, message_id = ref.partition("/")
            if day not in days:
                days[day] = {message.id: message for message in self._day(day)}
            if message_id in days[day]:
                yield days[day][message_id]

    def _day(self, text: str) -> list[Message]:
        day = day_of(text)
        data = self.vault.history.read(day_path(day), self.rev) if day else None
        return parse_day(decode_day(data), day)[0] if day and data else []

    def _good(self, path: str, parse: Callable[[str], T]) -> T | None:
        """What a file said then, or when it could last be read before; None where it never could."""
        for change in self.vault.history.log(path, self.rev):
            try:
                return parse(decode(self.vault.history.read(path, change.rev) or b"", path))
            except FormatError:
                continue
        return None
