"""Sees a person's edits while they happen: takes them into history, brings the index up to date, and says so.

A watcher is a hint. Editors rename a temporary file over the target, folders move as one, queues overflow, watchers die
silently, and network folders tell nothing. So any event only means "look", a look is a scan of the vault, and without
events there is one every few seconds. The only importer of watchdog.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from memory_fs.change import Change
from memory_fs.errors import MemoryFsError
from memory_fs.mounts import remote
from memory_fs.paths import FOLDERS, is_memory_file
from memory_fs.search import Search

QUIET = 0.05  # seconds without an event before a look: editors write in several steps
PATIENCE = 0.2  # seconds after the first event when it looks in any case
AGAIN = 0.3  # seconds after a look for an event when it looks once more
EVERY = 2.0  # seconds between two looks without an event; more where a look takes long
POLL = 1.0  # the same, where there are no events to wait for
_SHARE = 20  # of the time, one part at most goes into looks without an event
_MISSES = 2  # edits in a row that it was not told of: it trusts the system no more


logging.getLogger("watchdog").addHandler(logging.NullHandler())  # what it has to say when it ends concerns nobody


class Watcher(FileSystemEventHandler):
    """Watches one vault, in a thread of its own, from `start` (or entering a `with` statement) to `close`.

    Closing what it brings up to date, the agent or its search, closes it as well.
    """

    def __init__(
        self,
        search: Search,
        announce: Callable[[Change], None] = lambda change: print(*change.announced(), sep="\n"),
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Make a watcher.

        Args:
            search: the searchable side of the vault.
            announce: called with each change that a person made, when it is in history and in the index; by default it
                is printed, as in a notebook: `with Watcher(agent.search): ...`.
            say: told in one line when it has to look by itself, and what went wrong.
        """
        self._search, self._vault = search, search.vault
        self._announce, self._say = announce, say
        self._woken, self._ending = threading.Event(), threading.Event()
        self._observer: BaseObserver | None = None
        self._watches: dict[str, tuple[int, ObservedWatch | None]] = {}  # folder -> its inode and its watch
        self._every = EVERY
        self._said = ""
        self._thread = threading.Thread(target=self._work, name="memory_fs watcher", daemon=True)

    def start(self) -> Watcher:
        """Begin to watch; what was edited before is seen first."""
        with _signals_for_others():
            self._start()
        return self

    def _start(self) -> None:
        kind = remote(self._vault.root)
        if kind:
            self._poll(f"the vault is on a network folder ({kind})")
        else:
            self._observe()
        self._woken.set()
        self._thread.start()
        self._search.closing.callback(self.close)

    def _observe(self) -> None:
        observer = Observer()
        try:
            observer.schedule(self, str(self._vault.root))
            observer.start()
            self._observer = observer
            self._watch_folders()
        except (OSError, RuntimeError) as error:  # most often the system's limit of watches
            self._give_up(f"the system lets nobody watch ({error})")

    def _watch_folders(self) -> None:
        """Watch the memory folders that there are now, each for itself: the program's own folder is never watched."""
        observer = self._observer
        if observer is None:
            return
        for name in FOLDERS:
            place = self._vault.root / name
            there = place.stat().st_ino if place.is_dir() else 0
            known, watch = self._watches.get(name, (0, None))
            if there == known:
                continue
            with contextlib.suppress(KeyError):
                if watch is not None:
                    observer.unschedule(watch)
            watch = observer.schedule(self, str(place), recursive=True) if there else None
            self._watches[name] = (there, watch)

    def _give_up(self, why: str) -> None:
        if self._observer:
            self._observer.stop()
            self._observer = None
        self._poll(why)

    def _poll(self, why: str) -> None:
        self._every = POLL
        self._say(f"{why}: looking for edits every {POLL:.0f} s")

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Something happened: look soon, if it can concern memory."""
        if event.event_type not in ("opened", "closed_no_write") and any(
            self._concerns(os.fsdecode(path), event.is_directory) for path in (event.src_path, event.dest_path) if path
        ):
            self._woken.set()

    def _concerns(self, place: str, is_folder: bool) -> bool:
        path = os.path.relpath(place, self._vault.root).replace(os.sep, "/")
        return path.partition("/")[0] in FOLDERS if is_folder else is_memory_file(path)

    # -- the thread ---------------------------------------------------------------------------------------------

    def _work(self) -> None:
        pause, missed = self._every, 0
        while not self._ending.is_set():
            woken = self._woken.wait(pause)
            self._settle()
            start = time.monotonic()
            found = self._look()
            if found and pause >= self._every:
                missed = 0 if woken else missed + 1
            dead = self._observer and not self._observer.is_alive() and not self._ending.is_set()
            if self._observer and (dead or missed >= _MISSES):
                self._give_up("the system does not tell of edits")
            # In a folder that is new a file may come before it is watched: one more look, soon after an event.
            pause = AGAIN if woken else max(self._every, _SHARE * (time.monotonic() - start))

    def _settle(self) -> None:
        """Wait until nothing happens for a moment; one save of an editor is several events."""
        deadline = time.monotonic() + PATIENCE
        while self._woken.is_set() and not self._ending.is_set():
            self._woken.clear()
            self._woken.wait(min(QUIET, max(0.0, deadline - time.monotonic())))
            if time.monotonic() > deadline:
                self._woken.clear()

    def _look(self) -> bool:
        """Take in what a person changed; returns whether there was anything."""
        try:
            self._watch_folders()
        except (OSError, RuntimeError) as error:
            if not self._ending.is_set():
                self._give_up(f"the system lets nobody watch ({error})")
        try:
            change = self._vault.adopt()
            if change is not None:
                self._search.sync()
                if self._vault.history.parent(change.rev):  # the first of all is no edit
                    self._announce(change)
            self._said = ""
        except MemoryFsError as error:
            if str(error) != self._said and not self._ending.is_set():  # once, not at every look
                self._said = str(error)
                self._say(self._said)
            return False
        return change is not None

    def close(self) -> None:
        """Stop watching; a second time does nothing."""
        self._ending.set()
        self._woken.set()
        if (
            self._thread.is_alive() and self._thread is not threading.current_thread()
        ):  # first the thread that asks the observer for more watches
            self._thread.join(timeout=5)
        if self._observer:
            self._observer.stop()
            self._observer.join(timeout=5)

    def __enter__(self) -> Watcher:
        """Start in a `with` statement."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.close()


@contextlib.contextmanager
def _signals_for_others() -> Iterator[None]:
    """Threads that start here get no signals: Ctrl-C has to reach the thread that waits for a line."""
    mask = getattr(signal, "pthread_sigmask", None)
    before = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)
