"""The conversation in a terminal; piped lines are messages. Everything else is the agent's business."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from memory_fs.agent import Agent, reply_of
from memory_fs.change import Change
from memory_fs.errors import MemoryFsError
from memory_fs.history import person
from memory_fs.prompt import core_text
from memory_fs.show import console, emit, emit_change, emit_diff, emit_page, inert
from memory_fs.undo import MEMORY, undo

if TYPE_CHECKING:
    from rich.status import Status

HELP = """/help             this list
/memory           core memory as the model sees it
/diff [N]         what the last N changes wrote (1)
/undo             take back the last change of memory
/search WORDS     search notes and the conversation
/prompt           what the model would see now
/quit             end (also Ctrl-D)
Anything else is a message. Ctrl-C stops an answer. Edit the files in the vault at any time."""


def chat(agent: Agent) -> None:
    """Talk until the input ends.

    Args:
        agent: its `on_text` is used to show the answer while it is written.
    """
    live = sys.stdin.isatty()
    if live:
        _remember_lines(agent)
        closed = ", read-only" if agent.executor.read_only else ""
        emit(f"{agent.model.name}, memory in {agent.vault.root}{closed}. /help lists the commands.\n")
    for line in _lines(live):
        text = line.strip()
        if text in ("/quit", "/exit"):
            break
        if not text:
            continue
        try:
            if text.startswith("/"):
                _command(agent, text)
            else:
                answer(agent, text)
        except KeyboardInterrupt:
            emit("\n(stopped; your message is kept)")
        except MemoryFsError as error:
            print(f"memory-fs: {inert(str(error))}", file=sys.stderr, flush=True)


def announce(change: Change) -> None:
    """Say what a person just changed by hand, also while a line is being typed."""
    for line in change.announced():
        print(f"\r{inert(line)}", file=sys.stderr, flush=True)
    if sys.stdin.isatty() and sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            import readline

            sys.stdout.write(f"> {readline.get_line_buffer()}")
            sys.stdout.flush()


def answer(agent: Agent, text: str) -> None:
    """One turn: the answer as it is written, then the diff of what the turn wrote to memory."""
    diffs = []
    last = None
    with _interruptible(agent):
        shown = _Shown()  # from the moment that something moves, Ctrl-C is for the agent
        agent.on_text = shown.write
        try:
            for step in agent.run(text):
                last = step
                diffs.append(step.diff)
                if not step.final:
                    name = step.call.function if step.call else "no call"
                    shown.note(f"  {name}: {step.result.text.partition(chr(10))[0][:100]}")
        finally:
            shown.quiet()
    shown.end("" if shown.any else reply_of(last))
    for diff in filter(None, diffs):
        emit_diff(diff)


class _Shown:
    """Where the answer's pieces go; in a terminal something moves while the model reads and thinks."""

    def __init__(self) -> None:
        self.any = False
        self._status: Status | None = None
        if sys.stdout.isatty():
            self.wait()

    def wait(self) -> None:
        """Show that work goes on."""
        self._status = console().status("thinking")
        self._status.start()

    def write(self, piece: str) -> None:
        """Show a piece of the answer."""
        self.quiet()
        self.any = True
        sys.stdout.write(inert(piece))
        sys.stdout.flush()

    def note(self, line: str) -> None:
        """Show a call, where somebody watches."""
        if sys.stdout.isatty():
            self.quiet()
            emit(line, style="dim")
            self.wait()

    def end(self, text: str) -> None:
        """Show the rest and a line end."""
        self.quiet()
        sys.stdout.write(inert(text) + "\n")
        sys.stdout.flush()

    def quiet(self) -> None:
        """Stop what moves."""
        if self._status:
            self._status.stop()
            self._status = None


@contextlib.contextmanager
def _interruptible(agent: Agent) -> Iterator[None]:
    """The first Ctrl-C asks the model to stop, the second stops at once."""

    def stop(_signal: int, _frame: object) -> None:
        if agent.cancel.is_set():
            raise KeyboardInterrupt
        agent.cancel.set()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _lines(live: bool) -> Iterator[str]:
    while True:
        try:
            line = input("> ") if live else sys.stdin.readline()
        except EOFError:
            emit("")
            return
        except KeyboardInterrupt:
            emit("\n(type /quit to end)")
            continue
        if not live and not line:
            return
        yield line


def _remember_lines(agent: Agent) -> None:
    with contextlib.suppress(ImportError, OSError):
        import atexit
        import readline

        kept = agent.vault.disk.inner / "chat_history"
        if kept.exists():
            readline.read_history_file(kept)
        readline.set_history_length(1000)
        atexit.register(readline.write_history_file, kept)


def _command(agent: Agent, text: str) -> None:
    word, _, rest = text.partition(" ")
    run = _COMMANDS.get(word)
    if run is None:
        emit(f"no command {word}; /help lists them")
    else:
        run(agent, rest.strip())


def _diff(agent: Agent, rest: str) -> None:
    for change in islice(agent.vault.history.log_of(MEMORY), int(rest) if rest.isdecimal() else 1):
        emit_change(change, diff=True)


def _search(agent: Agent, rest: str) -> None:
    for name, tier in (("archival", agent.archival), ("recall", agent.recall)):
        emit(f"-- {name}", style="bold")
        emit_page(tier.search(rest))


_COMMANDS: dict[str, Callable[[Agent, str], None]] = {
    "/help": lambda agent, rest: emit(HELP),
    "/memory": lambda agent, rest: emit(core_text(agent.core.blocks())),
    "/diff": _diff,
    "/undo": lambda agent, rest: emit_change(undo(agent.vault, person()), diff=True),
    "/search": _search,
    "/prompt": lambda agent, rest: emit(agent.prompt().text),
}
