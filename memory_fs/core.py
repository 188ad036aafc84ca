"""Core memory: the blocks that are always in the prompt (paper, section 2.1, "working context").

Every write is checked before anything is staged: the label, `read_only`, the limit, and that the text to replace is
there exactly once. What is refused says what to do next; the model reads it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace as with_fields

from memory_fs.errors import FormatError, FunctionError, VaultError
from memory_fs.events import clean
from memory_fs.formats.block import DEFAULT_LIMIT, Block, new_block, parse_block, replace_value
from memory_fs.vault import Transaction, Vault, decode

FIRST = ("persona", "human")
_LABEL = re.compile(r"[\w-]{1,60}\Z")
_NUMBERED = re.compile(r"\s*\d{1,3}: ")


class Core:
    """The blocks of one vault."""

    def __init__(self, vault: Vault) -> None:
        """Args: vault: where `core/*.yaml` are."""
        self._vault = vault
        self._good: dict[str, Block] = {}

    def labels(self) -> list[str]:
        """The blocks there are: persona and human first, then by name."""
        folder = self._vault.root / "core"
        names = [place.stem for place in folder.glob("*.yaml") if not place.name.startswith(".")]
        names = [name for name in names if clean(name) == name]  # others are no text; the scan reports them
        return in_order(names)

    def blocks(self) -> list[Block]:
        """Every block as its file says now; a broken file gives its last good value and a warning."""
        return [self._load(label) for label in self.labels()]

    def block(self, label: str) -> Block:
        """One block, read from its file.

        Raises:
            FunctionError: there is no such block.
        """
        if label not in self.labels():
            raise FunctionError(self._unknown(label))
        return self._load(label)

    def _load(self, label: str) -> Block:
        try:
            self._good[label] = parse_block(self._vault.read(_path(label)) or "", label, _path(label))
        except VaultError as error:
            return with_fields(self._last_good(label), warnings=(f"{error}; its last good value stays in use",))
        return self._good[label]

    def _last_good(self, label: str) -> Block:
        """The newest value that could be read: in this program, else in history."""
        if label in self._good:
            return self._good[label]
        for change in self._vault.history.log(_path(label)):
            data = self._vault.history.read(_path(label), change.rev)
            try:
                if data is not None:
                    return parse_block(decode(data, _path(label)), label)
            except FormatError:
                continue
        return Block(label, "", 1, True, "")

    def append(self, transaction: Transaction, label: str, content: str) -> str:
        """Add content as new lines at the end of a block.

        Raises:
            FunctionError: empty content, no such block, read-only, or over the limit.
        """
        if not content.strip():
            raise FunctionError("content is empty; nothing was appended")
        block = self._writable(transaction, label, content)
        if content.strip() in _stripped(block.value):
            return f"{label} is unchanged: it says this already: {content.strip()}"
        value = f"{block.value}\n{content}" if block.value else content
        return self._write(transaction, block, value)

    def replace(
        self, transaction: Transaction, label: str, old_content: str, new_content: str, reason: str = ""
    ) -> str:
        """Replace a text that is in a block exactly once; an empty new text deletes it.

        What is so already counts as done: the same text again, or one that stands there in place of the old.

        Raises:
            FunctionError: no such block, read-only, over the limit, no match or more than one, pinned and no reason.
        """
        if not old_content:
            raise FunctionError("old_content is empty; give the exact text to replace")
        block = self._writable(transaction, label, old_content, new_content)
        places = _places(block.value, old_content)
        if (places and old_content == new_content) or (not places and new_content.strip() in _stripped(block.value)):
            return f"{label} is unchanged: it says this already: {new_content.strip()}"
        if not places:
            raise FunctionError(self._no_match(block, old_content))
        if len(places) > 1:
            lines = " and ".join(str(block.value.count("\n", 0, place) + 1) for place in places[:5])
            raise FunctionError(f"old_content is in {label} {len(places)} times, on lines {lines}; give a longer text")
        _check_reason(block, reason)
        before, after = block.value[: places[0]], block.value[places[0] + len(old_content) :]
        if not new_content and (not before or before.endswith("\n")) and (not after or after.startswith("\n")):
            before, after = (before, after[1:]) if after else (before[:-1], after)  # no empty line stays behind
        return self._write(transaction, block, before + new_content + after)

    def insert(self, transaction: Transaction, label: str, content: str, line: int) -> str:
        """Put content behind a line of a block: 0 is the start, -1 the end.

        Raises:
            FunctionError: as for append, or no such line.
        """
        if not content.strip():
            raise FunctionError("content is empty; nothing was inserted")
        block = self._writable(transaction, label, content)
        lines = block.value.split("\n") if block.value else []
        if not -1 <= line <= len(lines):
            raise FunctionError(f"{label} has {len(lines)} lines; line must be from -1 to {len(lines)}")
        at = len(lines) if line == -1 else line
        return self._write(transaction, block, "\n".join([*lines[:at], content, *lines[at:]]))

    def rethink(self, transaction: Transaction, label: str, content: str, reason: str = "") -> str:
        """Replace the whole value of a block.

        Raises:
            FunctionError: no such block, read-only, over the limit, or pinned and no reason.
        """
        block = self._writable(transaction, label, content)
        _check_reason(block, reason)
        return self._write(transaction, block, content)

    def create(self, transaction: Transaction, label: str, description: str, content: str = "") -> str:
        """Make a new block.

        Raises:
            FunctionError: the label is taken, no file could have that name, or the content is too long.
        """
        if not _LABEL.match(label):
            raise FunctionError("label must be 1 to 60 letters, digits, - and _")
        if transaction.read(_path(label)) is not None:
            raise FunctionError(f"block {label} is there already; append to it, or take another label")
        _check_length(label, content, DEFAULT_LIMIT)
        transaction.write(_path(label), new_block(label, description, value=clean(content)))
        return f"block {label} created"

    def _writable(self, transaction: Transaction, label: str, *texts: str) -> Block:
        """The block as this change sees it, after all checks that do not depend on the new value."""
        if label not in self.labels() and _path(label) not in transaction.staged:
            raise FunctionError(self._unknown(label))
        try:
            block = parse_block(transaction.read(_path(label)) or "", label, _path(label))
        except FormatError as error:
            raise FunctionError(f"{error}; a person has to mend the file before it can be written") from error
        if block.read_only:
            raise FunctionError(f"block {label} is read-only")
        if any(_NUMBERED.match(text) for text in texts):
            raise FunctionError("leave the line number out; give the text alone")
        return block

    def _write(self, transaction: Transaction, block: Block, value: str) -> str:
        value = clean(value)
        if len(value) >= block.used:  # what a person made too long may be shortened step by step
            _check_length(block.label, value, block.limit)
        text = transaction.read(_path(block.label)) or ""
        if value == block.value:
            return f"{block.label} is unchanged"
        transaction.write(_path(block.label), replace_value(text, value, _path(block.label)))
        return f"{block.label} saved, {len(value)} of {block.limit} characters used"

    def _no_match(self, block: Block, old: str) -> str:
        lines = [line for line in block.value.split("\n") if line.strip()]
        near = difflib.get_close_matches(old, lines, n=1, cutoff=0.0)
        hint = f"; the nearest line is: {near[0]}" if near else f"; {block.label} is empty, use core_memory_append"
        return f"old_content is not in {block.label}{hint}"

    def _unknown(self, label: str) -> str:
        return f"no block {label[:60]!r}; the blocks are: {', '.join(self.labels()) or 'none'}"


def in_order(labels: Iterable[str]) -> list[str]:
    """Labels as the prompt has the blocks: persona and human first, then by name."""
    return sorted(labels, key=lambda label: (FIRST.index(label) if label in FIRST else len(FIRST), label))


def _path(label: str) -> str:
    return f"core/{label}.yaml"


def _check_reason(block: Block, reason: str) -> None:
    if block.pinned and not reason.strip():
        raise FunctionError(
            f"block {block.label} is pinned: what it says is not replaced without a reason; "
            "call it again with one more argument, reason: why this is no longer right"
        )


def _check_length(label: str, value: str, limit: int) -> None:
    if len(value) > limit:
        raise FunctionError(
            f"{label} would have {len(value)} characters, its limit is {limit}; "
            "shorten it with core_memory_replace, or save the text with archival_memory_insert"
        )


def _stripped(text: str) -> list[str]:
    """The lines of a text that say something, without what stands around them."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def _places(text: str, part: str) -> list[int]:
    """Where a part starts in a text, overlapping ones included."""
    return [match.start() for match in re.finditer(f"(?={re.escape(part)})", text)]
