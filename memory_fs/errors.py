"""Every error that memory_fs raises on purpose, in one small tree.

    MemoryFsError                 one line for a person; the shell prints it and exits with status 2
    ├── VaultError                a vault folder that is missing, read-only, locked, or a path that leaves it
    │   ├── FormatError           a file whose text cannot be read as its format: path, line, column
    │   └── Conflict              a file changed between reading and writing it; reading again helps
    ├── FunctionError             a call that the model (or `memory-fs call`) got wrong; the text says what to do next
    ├── ModelError                a model file that is missing, damaged or unfit
    │   └── PromptTooLong         what must be in the prompt does not fit the window
    └── DownloadError             a model that could not be fetched whole

Each carries the path it is about, where there is one, and keeps its cause as ``__cause__``.
"""

from __future__ import annotations

from pathlib import Path


class MemoryFsError(Exception):
    """The root of the tree.

    Args:
        message: one line, for a person, that says what to do next.
        path: the file or folder it is about.
    """

    def __init__(self, message: str, *, path: Path | str | None = None) -> None:
        super().__init__(message)
        self.path = path


class VaultError(MemoryFsError):
    """A vault that cannot be used, or a path that is not allowed in it."""


class FormatError(VaultError):
    """A file whose text does not follow its format.

    Args:
        message: what is wrong, without the place.
        path: the file.
        line: counted from 1; 0 where there is none.
        column: counted from 1; 0 where there is none.
    """

    def __init__(self, message: str, *, path: Path | str | None = None, line: int = 0, column: int = 0) -> None:
        place = ":".join(str(part) for part in (path, line, column) if part)
        super().__init__(f"{place}: {message}" if place else message, path=path)
        self.problem, self.line, self.column = message, line, column


class Conflict(VaultError):
    """A file changed while a change to it was being prepared; nothing was written."""


class FunctionError(MemoryFsError):
    """A function call that was refused; the model reads the text as the function's result."""


class ModelError(MemoryFsError):
    """A model that cannot be loaded or run."""


class PromptTooLong(ModelError):
    """System instructions, core memory and the newest event do not fit the context window."""


class DownloadError(MemoryFsError):
    """A model that could not be fetched whole and right."""
