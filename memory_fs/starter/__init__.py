"""The vault that `memory-fs init` makes: settings, instructions, two blocks and three notes to look at."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from memory_fs.create import create_vault
from memory_fs.formats.note import Note, note_name, render_note
from memory_fs.vault import random_id, system_clock

NOTES = ("welcome", "biscuits", "tea")
TEXTS = ("memory.yaml", "system.md", "core/persona.yaml", "core/human.yaml")


def init_vault(root: Path | str) -> Path:
    """Make a starter vault.

    Raises:
        VaultError: there is a vault already, or the folder cannot be written.
    """
    folder = Path(root)
    data, texts = files(__package__), starter_texts()
    texts["memory.yaml"] = texts["memory.yaml"].replace("zone: UTC", f"zone: {local_zone()}")
    now = system_clock()
    for name in NOTES:
        title, tags, text = (data / f"{name}.txt").read_text(encoding="utf-8").split("\n", 2)
        note = Note(random_id(), text.strip("\n"), now, title, tuple(tags.split()), {"file": "starter vault"})
        texts[f"archival/{now:%Y/%m}/{note_name(note, now.date())}"] = render_note(note)
    create_vault(folder, texts)
    return folder


def starter_texts() -> dict[str, str]:
    """path -> text of what a vault needs: settings, instructions, the two blocks."""
    data = files(__package__)
    return {path: (data / path).read_text(encoding="utf-8") for path in TEXTS}


def local_zone() -> str:
    """The IANA name of this machine's time zone; UTC where it cannot be told."""
    name = os.environ.get("TZ", "")
    if not name and Path("/etc/localtime").is_symlink():
        name = str(Path("/etc/localtime").readlink()).partition("zoneinfo/")[2]
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name).key if name else "UTC"
    except (ValueError, OSError, KeyError):
        return "UTC"
