"""A progress bar on stderr for work that takes longer than two seconds; silent when piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, size: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Yields a function to call with (done, total).

    Args:
        what: the unit, for example `files indexed`.
        size: the numbers are bytes.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [BarColumn(), DownloadColumn() if size else MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn()]
    started = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=size or time.monotonic() - started > 2)

        yield report


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Something that moves on stderr while work of unknown length goes on; silent when piped."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
