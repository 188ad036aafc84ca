"""Questions about documents (MemGPT, section 3.2.1): the passages are notes, the answer stands in one of them.

Data: NaturalQuestions-Open as in lost-in-the-middle. Passages: {"id", "title", "text"}; questions: {"question",
"answers", "gold_ids"}.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from memory_fs.bench.data import rows, wrong
from memory_fs.bench.question import Question, Setting, Task, holds
from memory_fs.formats.note import ID, Note

_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def task(passages: Path, questions: Path, notes: int | None = None, seed: int = 0) -> Task:
    """All questions about one archive.

    Args:
        passages, questions: the data files.
        notes: how many notes the archive has. With fewer than there are passages those that answer a question stay;
            with more, passages with their words in another order are added.
        seed: decides which passages stay, and their order.
    """
    asked = rows(questions, {"question": str, "answers": object})
    gold = {str(id) for row in asked for id in _listed(row.get("gold_ids", []))}
    found = [_note(passages, row) for row in rows(passages, {"id": object, "title": str, "text": str})]
    kept = resized(found, gold, notes or len(found), seed)
    setting = Setting(f"{len(kept)} notes {seed}", notes=tuple(kept))
    return Task("doc-qa", [_question(n, row, setting) for n, row in enumerate(asked)], f"{len(kept)} notes")


def _question(number: int, row: dict[str, object], setting: Setting) -> Question:
    answers = tuple(map(str, _listed(row["answers"])))
    return Question(f"{number:04d}", setting, str(row["question"]), answers, holds(answers))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _note(path: Path, row: dict[str, object]) -> Note:
    if not ID.match(str(row["id"])):
        raise wrong(path, f"{str(row['id'])[:40]!r} is no id: up to 64 letters, digits, `-` and `_`")
    return Note(str(row["id"]), str(row["text"]), _DAY, str(row["title"]))


def resized(notes: Sequence[Note], gold: set[str], size: int, seed: int) -> list[Note]:
    """So many notes in a seeded order, those that answer a question among them."""
    dice = random.Random(seed)
    needed = [note for note in notes if note.id in gold]
    others = [note for note in notes if note.id not in gold]
    dice.shuffle(others)
    kept = [*needed, *others[: max(0, size - len(needed))]]
    kept += [_jumbled(dice.choice(notes), number, dice) for number in range(size - len(kept))]
    dice.shuffle(kept)
    return kept


def _jumbled(note: Note, number: int, dice: random.Random) -> Note:
    """A note that a search takes for another one, and that says nothing."""
    words = note.text.split()
    dice.shuffle(words)
    return Note(f"x{number:06d}", " ".join(words), note.created, note.title)
