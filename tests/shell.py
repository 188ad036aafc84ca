"""The `memory-fs` command as a person runs it: real processes, piped or in a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from typer.main import get_command

from memory_fs import cli

PROGRAM = [sys.executable, "-m", "memory_fs.cli"]
# Without these two powers even root obeys a file's permission bits.
POWERLESS = """
import ctypes, os, sys
for power in (1, 2):
    ctypes.CDLL(None).prctl(24, power, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
# The terminal of this process becomes its controlling one, so that Ctrl-C reaches it.
LEADER = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
# The command with a model that replays the completions in $SCRIPT; at "WAIT" it thinks until it is told to stop.
SCRIPTED = """
import json, os, sys, time
import memory_fs.loading
from memory_fs import cli
from memory_fs.llm import Completion
from memory_fs.testing import ScriptedModel

class Loaded(ScriptedModel):
    notes = ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def complete(self, turns, *, cancel=None, **options):
        if options["max_tokens"] == 1:  # it only reads
            return Completion("")

        def wait(turns):
            while not cancel.is_set():
                time.sleep(0.01)
            return ""
        replies = self._replies
        self._replies = (wait(turns) if reply == "WAIT" else reply for reply in replies)
        try:
            return super().complete(turns, cancel=cancel, **options)
        finally:
            self._replies = replies

memory_fs.loading.load_model = lambda opened: Loaded(json.loads(os.environ["SCRIPT"]))
cli.main()
"""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def told(self) -> str:
        """stderr, but for the line that says that the search index is new."""
        return "".join(line for line in self.err.splitlines(True) if not line.startswith("memory-fs: search index: "))

    @property
    def complaint(self) -> str:
        """The one line of a command that refused: exit status 2, nothing on stdout, no traceback."""
        lines = self.told.splitlines()
        assert (self.status, self.out, len(lines)) == (2, "", 1), self
        assert lines[0].startswith("memory-fs: "), self
        return lines[0]


class Shell:
    """Runs commands in a folder of their own, with no model and nobody's settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vault = folder / "vault"
        (folder / "models").mkdir()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MEMORY_FS_", "GIT_"))}
        self.env = {**kept, "HOME": str(folder), "MEMORY_FS_MODELS": str(folder / "models"), "COLUMNS": "100"}

    def run(self, *arguments: str, stdin: bytes | str = b"", program: Sequence[str] = PROGRAM, **env: str) -> Done:
        """`memory-fs ARGUMENTS`, piped."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        found = subprocess.run(
            [*program, *arguments],
            cwd=self.folder,
            env={**self.env, **env},
            input=data,
            capture_output=True,
            timeout=1800,
        )
        return Done(found.returncode, found.stdout.decode(), found.stderr.decode())

    def here(self, *arguments: str, **env: str) -> Done:
        """The same inside this process: quicker, for what is tried many times."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.chdir(self.folder))
            stack.enter_context(mock.patch.dict(os.environ, {**self.env, **env}, clear=True))
            stack.enter_context(mock.patch.object(sys, "argv", ["memory-fs", *arguments]))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            try:
                cli.main()
            except SystemExit as end:
                status = end.code
        texts = (stream.buffer.getvalue().decode() for stream in (out, err) if stream.flush() is None)
        return Done(int(status or 0), *texts)

    def call(self, function: str, *, as_json: bool = False, **arguments: Any) -> Done:
        """`memory-fs call`."""
        return self.here("call", function, json.dumps(arguments), *(["--json"] if as_json else []))

    def powerless(self, *arguments: str) -> Done:
        """The same, by a user for whom permission bits count."""
        return self.run(*PROGRAM[1:], *arguments, program=[sys.executable, "-c", POWERLESS])

    def scripted(self, *arguments: str, stdin: bytes | str = b"", replies: Sequence[str] = ()) -> Done:
        """`memory-fs ARGUMENTS` with a model that replays completions."""
        program = [sys.executable, "-c", SCRIPTED]
        return self.run(*arguments, stdin=stdin, program=program, SCRIPT=json.dumps(replies))

    def chat(self, lines: bytes | str, *replies: str) -> Done:
        """A piped chat with such a model."""
        return self.scripted("chat", stdin=lines, replies=replies)

    @contextlib.contextmanager
    def terminal(self, *arguments: str, replies: Sequence[str] = ()) -> Iterator[Terminal]:
        """`memory-fs ARGUMENTS` in a terminal of its own, with a model that replays completions."""
        handle, end = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", LEADER, "-c", SCRIPTED, *arguments],
            cwd=self.folder, env={**self.env, "TERM": "xterm-256color", "SCRIPT": json.dumps(replies)},
            stdin=end, stdout=end, stderr=end, start_new_session=True,
        )  # fmt: skip
        os.close(end)
        try:
            yield Terminal(handle)
        finally:
            process.kill()
            process.wait()
            os.close(handle)

    def files(self) -> dict[str, bytes]:
        """path -> bytes of all that is in the vault, `.memory_fs` left out."""
        places = (place for place in self.vault.rglob("*") if place.is_file() and ".memory_fs" not in place.parts)
        return {place.relative_to(self.vault).as_posix(): place.read_bytes() for place in places}

    def copy_vault(self, made: Path) -> None:
        """Put a vault that was made before in place."""
        shutil.copytree(made, self.vault, symlinks=True)


class Terminal:
    """What a terminal shows, byte for byte, and a keyboard."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._unread = b""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._handle, text.encode())

    def until(self, text: str, seconds: float = 60) -> str:
        """What is shown from the last call on until a text is shown, that text included."""
        wanted = text.encode()
        while wanted not in self._unread:
            ready, _, _ = select.select([self._handle], [], [], seconds)
            piece = self._read() if ready else b""
            assert piece, f"{text!r} was never shown, but: {self._unread!r}"
            self._unread += piece
        found, _, self._unread = self._unread.partition(wanted)
        return (found + wanted).decode()

    def rest(self) -> str:
        """All that is shown until the program ends."""
        while piece := self._read():
            self._unread += piece
        return self._unread.decode()

    def _read(self) -> bytes:
        try:
            return os.read(self._handle, 65536)
        except OSError:  # Linux's way to say that nobody is at the other end
            return b""


def commands(group: object = None, prefix: str = "") -> Iterator[tuple[str, object]]:
    """(name, command) of every command there is."""
    for name, command in (group or get_command(cli.app)).commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command
