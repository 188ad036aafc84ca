"""Vaults for questions: a setting is written and indexed once, every question gets a copy that nobody has talked in."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_fs.archival import FULL
from memory_fs.bench.question import Setting
from memory_fs.create import create_vault
from memory_fs.formats.block import DEFAULT_LIMIT, new_block
from memory_fs.formats.note import render_note
from memory_fs.formats.settings import Settings
from memory_fs.recall import Recall
from memory_fs.search import Search
from memory_fs.starter import starter_texts
from memory_fs.vault import Vault


class Vaults:
    """Makes vaults below one folder, all with the same window."""

    def __init__(self, folder: Path, window: int) -> None:
        """Args: folder: an empty one; window: tokens."""
        self._folder, self._window = folder, window
        self._made: tuple[str, Path] | None = None

    @contextmanager
    def fresh(self, setting: Setting, without: Collection[str] = ()) -> Iterator[Path]:
        """A vault with a setting's memory, its index ready; it is gone afterwards.

        Args:
            setting: what memory holds.
            without: mechanisms that are switched off.
        """
        template = self._template(setting)
        with tempfile.TemporaryDirectory(dir=self._folder) as place:
            root = Path(place) / "vault"
            shutil.copytree(template, root)
            if without:
                file = root / "memory.yaml"
                text = with_value(file.read_text(encoding="utf-8"), "without", f"[{', '.join(without)}]")
                file.write_text(text, encoding="utf-8")
            yield root

    def _template(self, setting: Setting) -> Path:
        """The vault to copy: the last one is kept, as questions come setting by setting."""
        if self._made and self._made[0] == setting.key:
            return self._made[1]
        if self._made:
            shutil.rmtree(self._made[1].parent)
        root = Path(tempfile.mkdtemp(dir=self._folder)) / "vault"
        build(setting, root, self._window)
        self._made = (setting.key, root)
        return root


def build(setting: Setting, root: Path, window: int) -> None:
    """Write a setting as a vault: the starter's instructions, the setting's memory, a ready index."""
    texts = dict(starter_texts())
    for key, size in (("window", window), ("reply_reserve", min(Settings.reply_reserve, window // 4))):
        texts["memory.yaml"] = with_value(texts["memory.yaml"], key, str(size))
    value = "\n".join(setting.human)
    limit = max(DEFAULT_LIMIT, 2 * len(value))
    texts["core/human.yaml"] = new_block("human", "What I know about the user.", limit, value)
    for number, note in enumerate(setting.notes):
        texts[f"archival/part-{number // FULL:04d}/{note.id}.md"] = render_note(note)
    create_vault(root, texts)
    with Vault(root) as vault:
        search = Search(vault)
        if setting.talk:
            vault.transact(lambda change: Recall(search).append(change, setting.talk), "Earlier sessions")
        search.sync()
        search.close()


def with_value(settings: str, key: str, value: str) -> str:
    """The text of memory.yaml with another value for a key that it has."""
    return re.sub(rf"(?m)^{key}:[^#\n]*", lambda _: f"{key}: {value} ", settings, count=1)
