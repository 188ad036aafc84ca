"""A message while it is written: shown sentence by sentence, each only when it was found to lack nothing.

As in FLARE (arXiv 2305.06983) a sentence is looked up before it counts. What was shown is never taken back: the next
draft has to begin with it. The model ends a draft within a token of being told so.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memory_fs.llm import Flag, Piece

Check = Callable[[str, list[str], str], bool]
SURE = 0.4  # a word of which a token was less likely than this is one that the model was not sure of
_END = re.compile(r"""[.!?…]["'”’)]*\s|[。！？\n]""")


class Draft:
    """One draft of a message."""

    def __init__(
        self, on_text: Callable[[str], None] | None, cancel: Flag, check: Check | None = None, shown: str = ""
    ) -> None:
        """Make a draft.

        Args:
            on_text: called with what may be shown.
            cancel: is set to end the writing.
            check: (sentence, its words that the model was not sure of, what the draft is made from) -> whether
                something is missing in context; None shows everything at once.
            shown: what was shown of the draft before; this one begins with it.
        """
        self._on_text, self._cancel, self._check = on_text, cancel, check
        self._skip, self.shown = len(shown), shown
        self._waiting: list[Piece] = []
        self._source = ""
        self.stopped = False

    @property
    def watched(self) -> bool:
        """Whether anybody wants the pieces."""
        return self._on_text is not None or self._check is not None

    def begin(self, source: str) -> None:
        """Writing starts; `source` is all that the draft is made from."""
        self._source = source

    def add(self, piece: str) -> None:
        """Take the next piece."""
        if self.stopped:
            return
        new = Piece(piece[self._skip :], getattr(piece, "likely", 1.0))
        self._skip = max(0, self._skip - len(piece))
        self._waiting += [new] if new else []
        if self._check is None or _END.search("".join(self._waiting[-2:])):
            self.end()

    def end(self) -> None:
        """What waits is a whole sentence: show it, or stop."""
        text = "".join(self._waiting)
        if self._check and text.strip() and self._check(text, _unsure(self._waiting), self._source):
            self.stopped = True
            self._cancel.set()
            return
        self._waiting = []
        self.shown += text
        if self._on_text and text:
            self._on_text(text)


def _unsure(pieces: list[Piece]) -> list[str]:
    """The words in which the model was not sure of some token."""
    words: list[tuple[str, float]] = [("", 1.0)]
    for piece in pieces:
        for number, part in enumerate(re.split(r"\s+", piece)):
            if number:
                words.append(("", 1.0))
            words[-1] = (words[-1][0] + part, min(words[-1][1], piece.likely if part else 1.0))
    return [word for word, likely in words if word and likely < SURE]
