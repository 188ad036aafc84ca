"""Texts that nobody would write: real files with pieces cut, doubled, moved and replaced by what means something."""

from __future__ import annotations

import random
from collections.abc import Sequence

LONGEST = 6000  # characters of one input

TOKENS = [
    # line ends and characters that look like nothing
    "\n", "\r", "\r\n", "\n\n", "\u2028", "\x85", "\x0b", "\x0c", "\t", " ", "\0", "\x1b[2J", "\x7f", "\x07",
    "\ufeff", "\u200b", "\u202e", "\u2066", "\U000e0041", "\ud800", "\udfff", "\udcff", "\ufffe", "\U0010ffff",
    "e\u0301", "ﬁ", "狗", "🐕", "👨\u200d👩\u200d👧", "\u0661\u0662", "İ", "ß",
    # YAML
    "---\n", "\n---\n", "...\n", "- ", ": ", ":", "? ", "|", "|+", "|2-", "|9", ">", ">-", "&a ", "*a",
    "!!python/none ", "! ", "!<x> ", "#", " # ", "'", '"', "''", '\\"', "{", "}", "[", "]", ", ", "{a: 1}", "<<: ",
    "%YAML 1.2\n", "%TAG ! x\n", "@", "`", "null", "~", "yes", "Off", "=", "012", "0x1F", "0b1", "0o7", "1_000",
    "190:20:30", ".nan", "-.inf", "1e999", "1.", "9" * 400, "9" * 5000, "-0", "+1", "2026-11-29",
    "2026-11-29T14:24:07+00:00", "0000-00-00", "9999-12-31T23:59:59-12:00", "id: ", "tags: ", "created: ", "title: ",
    "source: ", "date: ", "label: ", "limit: ", "value: ", "value:", "read_only: ", "description: ", "messages: ",
    "summary: ", "turn: ", "evicted: ", "window: ", "zone: ", "functions: ", "pressure: ",
    # recall days
    "## ", "\n## 14:24:07+00:00 user k3f9x2 (2026-11-29-a7, turn 3)\n\n", "\n## 10:00:00+00:00 system a\n",
    "\\## 10:00:00", "## 99:99:99+99:99 user x", "## ١٢:٣٠:٤٥+00:00 user x", "# 2026-11-29\n", "(s, turn 999999999)",
    "+23:59", "-00:00",
    # queries
    "tag:", "-tag:", "#", "-", "-\"", "“", "C++", "#a/b", "2026-11", "OR", "AND NOT", "(", ")", "*", "?", "~2", "^3",
    "[a TO b]", "text:", "\\", "/", "//", "don't", "a.b@c", "5'10\"",
    # calls
    "{", "}", "\"function\": ", "\"arguments\": ", "\\u0000", "\\ud800", "\\", "true", "NaN", "Infinity", "-1", "1.0",
    "[[", "{}", "core_memory_append", "core_memory_replace", "human", "persona", "../system", "request_heartbeat",
    "known", "page", "line",
    # marks of models and merges, and what programs act on
    "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<start_of_turn>", "</think>", "[INST]", "<<<<<<< a\n", "=======\n",
    ">>>>>>> b\n", "$(x)", "`x`", "%s", "%00", "{0}", "../", "/etc/passwd", "C:\\", "~root", "<script>",
]  # fmt: skip


class Mutator:
    """Makes one text after the other; the same seed makes the same ones."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self._ways = (self._cut, self._double, self._put, self._put, self._put, self._turn, self._swap, self._many)

    def text(self, seeds: Sequence[str]) -> str:
        """A real text, changed in one to eight places."""
        text = self.dice.choice(seeds)
        if self.dice.random() < 0.1:
            text = self._splice(text, self.dice.choice(seeds))
        for _ in range(self.dice.choice((1, 1, 2, 3, 5, 8))):
            text = self.dice.choice(self._ways)(text)[:LONGEST]
        return text

    def word(self) -> str:
        """A few tokens in a row."""
        return "".join(self.dice.choice(TOKENS) for _ in range(self.dice.choice((0, 1, 1, 2, 4))))

    def _place(self, text: str) -> int:
        """Anywhere, but rather where a line starts."""
        at = self.dice.randint(0, len(text))
        return text.rfind("\n", 0, at) + 1 if self.dice.random() < 0.4 else at

    def _span(self, text: str) -> tuple[int, int]:
        start = self._place(text)
        return start, min(len(text), start + self.dice.choice((1, 1, 2, 5, 20, 200)))

    def _cut(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + text[end:]

    def _double(self, text: str) -> str:
        start, end = self._span(text)
        return text[:end] + text[start:end] + text[end:]

    def _put(self, text: str) -> str:
        start, end = self._span(text)
        return text[:start] + self.dice.choice(TOKENS) + text[self.dice.choice((start, end)) :]

    def _turn(self, text: str) -> str:
        at = self._place(text)
        return (
            text[:at] + chr(self.dice.choice((self.dice.randrange(128), self.dice.randrange(0x3000)))) + text[at + 1 :]
        )

    def _swap(self, text: str) -> str:
        start, end = self._span(text)
        at = self._place(text)
        return text[:at] + text[start:end] + text[at:]

    def _many(self, text: str) -> str:
        at = self._place(text)
        return text[:at] + self.dice.choice(TOKENS) * self.dice.choice((2, 10, 100)) + text[at:]

    def _splice(self, text: str, other: str) -> str:
        return text[: self._place(text)] + other[self._place(other) :]
