"""What a person's tools do to files, done with the tools themselves: at the very next call everything is right.

    python -m tests.torture.editors

Each changes a block and a note, from one word to another of the same length, while a program has the vault open. The
next call has to see the new block, search has to find the new word and not the old one, and history has to have the
edit as one change of the person.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from memory_fs.agent import Agent
from memory_fs.change import Change
from memory_fs.formats.block import new_block
from memory_fs.history import person
from memory_fs.testing import ScriptedModel, make_vault
from memory_fs.vault import Vault

from .base import Tally, main, workplace

OLD, NEW = "pears", "plums"
BLOCK, NOTE = "core/human.yaml", "archival/2026/fruit note.md"
Files = dict[str, bytes]  # path -> what the tool has to make of it


@dataclass(frozen=True)
class Editor:
    """A tool.

    Attributes:
        needs: the program that has to be installed; empty for none.
        edit: changes the files below a folder.
        prepare: what has to be there before a program opens the vault.
    """

    needs: str
    edit: Callable[[Path, Files], None]
    prepare: Callable[[Path, Files], None] = lambda root, files: None

    @property
    def missing(self) -> str:
        """Why it cannot be tried here; empty when it can."""
        return f"{self.needs} is not installed" if self.needs and not shutil.which(self.needs) else ""


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a tool; nobody's own settings count."""
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "TERM": "xterm"}
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {(done.stderr or done.stdout).strip()[:300]}")


def _each(*command: str) -> Callable[[Path, Files], None]:
    def edit(root: Path, files: Files) -> None:
        for path in files:
            _run(*command, root / path)

    return edit


# -- editors --------------------------------------------------------------------------------------------------------


def _vim(*settings: str) -> Callable[[Path, Files], None]:
    sets = [part for setting in settings for part in ("--cmd", f"set {setting}")]
    return _each("vim", "-N", "-u", "NONE", *sets, "-es", "-c", f"%s/{OLD}/{NEW}/g", "-c", "wq")


def _nano(root: Path, files: Files) -> None:
    """In a terminal of its own, with the keys that a person presses: replace all, save, leave."""
    for path in files:
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ["TERM"] = "xterm"
            os.execvp("nano", ["nano", "-I", str(root / path)])
        # Ctrl-\, both words, All; Ctrl-O and Enter; Ctrl-X. Each waits for what the screen then shows.
        keys = ((b"Exit", b"\x1c"), (b"to replace", OLD.encode() + b"\r"), (b"Replace with", NEW.encode() + b"\r"),
                (b"this instance", b"A"), (b"Replaced", b"\x0f"), (b"Write", b"\r"), (b"Wrote", b"\x18"))  # fmt: skip
        for wanted, key in keys:
            _screen(terminal, wanted)
            os.write(terminal, key)
        _screen(terminal, b"")
        os.close(terminal)
        os.waitpid(pid, 0)


def _screen(terminal: int, wanted: bytes, seconds: float = 20) -> None:
    """Read what a terminal shows until some text comes; up to the end when there is none."""
    shown, until = b"", time.monotonic() + seconds
    while time.monotonic() < until and not (wanted and wanted in shown):
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the program ended
            break
    if wanted and wanted not in shown:
        raise RuntimeError(f"nano never showed {wanted!r}: {shown[-200:]!r}")


def _atomic(root: Path, files: Files) -> None:
    for path, data in files.items():
        aside = (root / path).with_name(f".{Path(path).name}~new")
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(root / path)


def _backup_first(root: Path, files: Files) -> None:
    """The old file becomes a backup, the new one is written under its name."""
    for path, data in files.items():
        place = root / path
        place.rename(place.with_name(place.name + "~"))
        place.write_bytes(data)


# -- what restores files --------------------------------------------------------------------------------------------


def _git(root: Path, *arguments: str) -> None:
    _run("git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", *arguments, cwd=root.parent)


def _two_branches(root: Path, files: Files) -> None:
    """The vault in somebody's own repository, which has another version of it on a branch."""
    _git(root, "init", "-q", "-b", "main")
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", "old")
    _git(root, "checkout", "-q", "-b", "other")
    for path, data in files.items():
        (root / path).write_bytes(data)
    _git(root, "commit", "-q", "-a", "-m", "new")
    _git(root, "checkout", "-q", "main")


def _zip(root: Path, files: Files) -> None:
    with zipfile.ZipFile(root.parent / "backup.zip", "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 2, 2, 2, 2, 2)), data)


def _mirror(root: Path, files: Files) -> None:
    for path, data in files.items():
        place = root.parent / "mirror" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def _rsync(*arguments: str) -> Callable[[Path, Files], None]:
    return lambda root, files: _run("rsync", *arguments, f"{root.parent / 'mirror'}/", f"{root}/")


EDITORS = {
    "vim": Editor("vim", _vim()),
    "vim, in place": Editor("vim", _vim("backupcopy=yes")),
    "vim, with a backup": Editor("vim", _vim("backup", "backupcopy=no")),
    "nano": Editor("nano", _nano),
    "sed -i": Editor("sed", _each("sed", "-i", f"s/{OLD}/{NEW}/g")),
    "atomic save": Editor("", _atomic),
    "backup first": Editor("", _backup_first),
    "git checkout": Editor("git", lambda root, files: _git(root, "checkout", "-q", "other"), _two_branches),
    "unzip -o": Editor("unzip", lambda root, files: _run("unzip", "-qo", root.parent / "backup.zip", "-d", root), _zip),
    "rsync": Editor("rsync", _rsync("-a", "--ignore-times"), _mirror),
    "rsync --inplace": Editor("rsync", _rsync("-a", "--ignore-times", "--inplace"), _mirror),
}


# -- what has to be true --------------------------------------------------------------------------------------------


def check(name: str, folder: Path, watched: bool = False) -> list[str]:
    """Let a tool edit a vault that is in use; returns what is wrong at the next call.

    Args:
        name: of the tool.
        folder: empty.
        watched: somebody watches the vault; then both files have to be announced before the next call.
    """
    editor, root = EDITORS[name], folder / "vault"
    files = {
        BLOCK: new_block("human", "What I know about the user.", 500, f"Likes {OLD}."),
        NOTE: f"---\nid: fruit\ntags: [fruit]\n---\nA cake with {OLD}.\n",
    }
    make_vault(root, files).close()
    wanted = {path: text.replace(OLD, NEW).encode() for path, text in files.items()}
    editor.prepare(root, wanted)
    announced: list[Change] = []
    with Agent(Vault(root), ScriptedModel([])) as agent, _watcher(agent, announced, watched):
        agent.vault.adopt()
        if agent.archival.search(OLD).total != 1 or agent.core.block("human").value.strip() != f"Likes {OLD}.":
            return ["the vault was not right before"]
        head = agent.vault.history.head or ""
        editor.edit(root, wanted)
        silent = list(_silent(announced, wanted)) if watched else []
        return [*silent, *_wrong(agent, head, wanted, watched)]


def _watcher(agent: Agent, announced: list[Change], watched: bool) -> AbstractContextManager[object]:
    if not watched:
        return nullcontext()
    from memory_fs.watch import Watcher

    return Watcher(agent.search, announced.append)


def _silent(announced: list[Change], wanted: Files, seconds: float = 10) -> Iterator[str]:
    """The files that nobody announced."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and wanted.keys() - _paths(announced):
        time.sleep(0.02)
    yield from (f"{path} was not announced" for path in wanted.keys() - _paths(announced))


def _paths(changes: Iterable[Change]) -> set[str]:
    return {path for change in changes for path in change.paths}


def _wrong(agent: Agent, head: str, wanted: Files, watched: bool) -> Iterator[str]:
    value = agent.core.block("human").value
    if value.strip() != f"Likes {NEW}.":
        yield f"the block says {value!r}"
    for word, total in ((NEW, 1), (OLD, 0)):
        found = agent.archival.search(word).total
        if found != total:
            yield f"{found} notes are found for {word!r}, not {total}"
    agent.vault.adopt()
    changes = list(takewhile(lambda change: change.rev != head, agent.vault.history.log()))
    if len(changes) != 1 and not watched:  # who watches may see the first of two files before the second
        yield f"history has {len(changes)} changes more, not one"
    if _paths(changes) != set(wanted) or any(change.author != person()[0] for change in changes):
        yield f"history has {[(change.author, change.paths) for change in changes]}"
    for path, data in wanted.items():
        if agent.vault.disk.read(path) != data:
            yield f"{path} is not as the tool left it"


def run() -> Tally:
    """Try every tool that is installed, with nobody watching and with somebody."""
    tally = Tally("editors and restores")
    ways = (False, True) if find_spec("memory_fs.watch") else (False,)
    for name, editor in EDITORS.items():
        for watched in ways if not editor.missing else ():
            with workplace(on_disk=watched) as folder:
                for problem in check(name, folder, watched):
                    tally.fail(f"{name}, watched" if watched else name, problem)
        tally.figures[name] = editor.missing or ", ".join("watched" if way else "alone" for way in ways)
    return tally


if __name__ == "__main__":
    main(run, __doc__)
