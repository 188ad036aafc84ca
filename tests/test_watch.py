"""A person's edits while somebody watches: announced, in history and in the index, whatever the editor did."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import MakeAgent, edit_by_hand

from memory_fs import watch as watching
from memory_fs.change import Change
from memory_fs.mounts import remote, syncs_files_alone
from memory_fs.search import Search
from memory_fs.vault import Vault
from memory_fs.watch import Watcher

HUMAN, NOTE = "core/human.yaml", "archival/pets/biscuit.md"
Seen = Callable[[], Change]


class Watched:
    """A vault that is being watched, and what was announced."""

    def __init__(self, vault: Vault) -> None:
        self.vault, self.search = vault, Search(vault)
        self.said: list[str] = []
        self.changes: queue.Queue[Change] = queue.Queue()
        self.watcher = Watcher(self.search, self.changes.put, self.said.append)

    def next(self, seconds: float = 10.0) -> Change:
        """The next change that is announced."""
        return self.changes.get(timeout=seconds)

    def until(self, line: str) -> list[str]:
        """All that is announced until a line comes; an editor's save may come in two parts on a slow machine."""
        lines: list[str] = []
        while line not in " ".join(lines):
            lines += self.next().announced()
        return lines


@pytest.fixture
def watched(vault: Vault) -> Iterator[Watched]:
    """The small vault with a note, watched."""
    edit_by_hand(vault, NOTE, "---\nid: bis\n---\nBiscuit is a retriever.\n")
    vault.adopt()
    seen = Watched(vault)
    with seen.watcher:
        time.sleep(0.1)
        yield seen
    seen.search.close()


def test_saved_edit_is_announced_and_can_be_found(watched: Watched) -> None:
    """A saved edit is said with its lines, is in history under the person, and is in the index already."""
    edit_by_hand(watched.vault, HUMAN, (watched.vault.read(HUMAN) or "").replace("label: human", "label: human  # me"))
    assert watched.until(HUMAN) == ["core/human.yaml changed by hand: +1 -1"]
    edit_by_hand(watched.vault, NOTE, "---\nid: bis\n---\nBiscuit is a zebra.\n")
    watched.until(NOTE)
    assert watched.search.index.search("archival", "zebra").total == 1  # without looking at the files again
    assert watched.vault.history.head and watched.vault.adopt() is None


def test_new_and_deleted_files_are_said_as_such(watched: Watched) -> None:
    """A file that comes or goes is not said to have changed."""
    edit_by_hand(watched.vault, "archival/new folder/neu.md", "Hallo.\nWelt.\n")
    assert watched.until("neu.md") == ["archival/new folder/neu.md added by hand: +2"]
    (watched.vault.root / NOTE).unlink()
    assert watched.until(NOTE) == [f"{NOTE} deleted by hand: -4"]


def test_what_is_no_memory_is_not_announced(watched: Watched) -> None:
    """An editor's droppings and files beside the memory say nothing, and the agent's own writes neither."""
    (watched.vault.root / "core/.human.yaml.swp").write_text("x")
    (watched.vault.root / "notes.txt").write_text("x")
    watched.vault.transact(lambda t: t.write("archival/mine.md", "By the agent.\n"), "Write")
    edit_by_hand(watched.vault, "archival/last.md", "By hand.\n")
    assert watched.until("last.md") == ["archival/last.md added by hand: +1"]


def test_folder_renamed_by_hand_is_seen_and_its_note_is_one(watched: Watched) -> None:
    """A folder's rename names none of its files; the note in it keeps its id and is one note."""
    (watched.vault.root / "archival/pets").rename(watched.vault.root / "archival/animals")
    watched.until("archival/animals/biscuit.md")
    hits = watched.search.search("archival", "retriever").hits
    assert [(hit.id, hit.path) for hit in hits] == [("bis", "archival/animals/biscuit.md")]


def test_name_changed_in_case_only_is_seen(watched: Watched) -> None:
    """Biscuit.md is another name than biscuit.md where the system tells them apart, and the note stays one."""
    (watched.vault.root / NOTE).rename(watched.vault.root / "archival/pets/Biscuit.md")
    watched.until("Biscuit.md")
    assert [hit.path for hit in watched.search.search("archival", "retriever").hits] == ["archival/pets/Biscuit.md"]


def test_flood_is_one_line(watched: Watched) -> None:
    """A thousand files at once end in the index, and no thousand lines are said."""
    for number in range(1000):
        (watched.vault.root / f"archival/pets/n{number}.md").write_text(f"Note flood{number}.\n")
    lines: list[str] = []
    while watched.search.index.count("archival") < 1001:
        lines += watched.next(30).announced()
    assert len(lines) < 60 and watched.search.index.search("archival", "flood999").total == 1


@pytest.mark.skipif(shutil.which("vim") is None, reason="vim is not installed")
def test_vim_is_announced(watched: Watched) -> None:
    """Vim writes a backup, moves it and writes anew; what is announced is the edit."""
    place = watched.vault.root / NOTE
    subprocess.run(["vim", "-es", "-c", "%s/retriever/spaniel/", "-c", "wq", place], check=True, capture_output=True)
    watched.until(NOTE)
    assert watched.search.index.search("archival", "spaniel").total == 1


def test_memory_folder_that_was_replaced_is_watched(watched: Watched) -> None:
    """A memory folder that is moved away, and one that takes its place, are seen, and edits in the new one as well."""
    root = watched.vault.root
    (root / "archival").rename(root / "old")
    assert watched.until(NOTE) == [f"{NOTE} deleted by hand: -4"]
    (root / "old").rename(root / "archival")
    watched.until("added")
    for text in ("One.\n", "Two.\n", "Three.\n"):
        edit_by_hand(watched.vault, NOTE, text)
        watched.until(NOTE)
    assert watched.said == []


def test_program_s_own_folder_is_not_watched(vault: Vault, recwarn: pytest.WarningsRecorder) -> None:
    """Whatever happens in `.memory_fs`, a history being made among it, wakes nobody and says nothing."""
    shutil.rmtree(vault.root / ".memory_fs")
    with Vault(vault.root) as fresh:
        seen = Watched(fresh)
        with seen.watcher:
            for _ in range(100):
                time.sleep(0.05)
                if fresh.history.head:
                    break
            assert not any(".memory_fs" in str(e.watch.path) for e in seen.watcher._observer.emitters)  # type: ignore[union-attr]
            edit_by_hand(fresh, NOTE, "Hello.\n")
            assert seen.until(NOTE) == [f"{NOTE} added by hand: +1"]  # and not that the vault was started
    assert seen.said == [] and not recwarn.list


def test_end_while_a_memory_folder_appears_says_nothing(vault: Vault) -> None:
    """A folder that is new when the watcher is closed is no trouble: nobody is asked to watch it any more."""
    for _ in range(20):
        shutil.rmtree(vault.root / "recall", ignore_errors=True)
        seen = Watched(vault)
        with seen.watcher:
            (vault.root / "recall").mkdir()
        assert seen.said == []


def test_agent_writes_while_somebody_watches(watched: Watched) -> None:
    """The thread that watches and the one that writes share a vault: no write fails, no edit is missed."""
    for number in range(30):
        watched.vault.transact(lambda t, n=number: t.write(f"archival/mine{n}.md", "By the agent.\n"), "Write")  # type: ignore[misc]
        if number % 10 == 5:
            edit_by_hand(watched.vault, f"archival/theirs{number}.md", "By hand.\n")
    lines = watched.until("theirs25.md")
    assert len(lines) == 3 and not any("mine" in line for line in lines) and watched.said == []


def test_agent_prints_hand_edits_while_it_is_watched(make_agent: MakeAgent, capsys: pytest.CaptureFixture[str]) -> None:
    """In a notebook `with Watcher(agent.search)` prints each edit as it happens."""
    agent = make_agent()
    with Watcher(agent.search):
        edit_by_hand(agent.vault, NOTE, "Hello.\n")
        for _ in range(200):
            time.sleep(0.05)
            if "added" in (out := capsys.readouterr().out):
                break
    assert out == f"{NOTE} added by hand: +1\n"


def test_closed_agent_is_not_watched(make_agent: MakeAgent, capsys: pytest.CaptureFixture[str]) -> None:
    """Who closes an agent need not think of its watcher: no thread goes on, no edit is taken in any more."""
    agent = make_agent()
    watcher = Watcher(agent.search).start()
    agent.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "memory_fs watcher"]
    edit_by_hand(agent.vault, NOTE, "Hello.\n")
    time.sleep(0.5)
    assert capsys.readouterr().out == ""
    watcher.close()


def test_edit_before_the_start_is_announced(vault: Vault) -> None:
    """What was edited while nobody watched is seen when somebody begins to."""
    edit_by_hand(vault, HUMAN, (vault.read(HUMAN) or "") + "# by hand\n")
    seen = Watched(vault)
    with seen.watcher:
        assert seen.until(HUMAN) == ["core/human.yaml changed by hand: +1 -0"]


def test_watcher_that_is_told_nothing_looks_by_itself(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that never come (a dead watcher) cost seconds, not edits, and it says so."""
    monkeypatch.setattr(watching, "EVERY", 0.2)
    seen = Watched(vault)
    with seen.watcher:
        assert seen.watcher._observer is not None
        time.sleep(0.2)
        seen.watcher._observer.unschedule_all()
        for text in ("late", "later", "still later"):
            edit_by_hand(vault, HUMAN, (vault.read(HUMAN) or "") + f"# {text}\n")
            assert seen.until(HUMAN) == [f"{HUMAN} changed by hand: +1 -0"]
    assert any("looking for edits every 1 s" in line for line in seen.said)


def test_system_that_lets_nobody_watch_is_polled(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit of watches the watcher says so and looks by itself."""

    def refuse(self: object, *_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(watching.Observer, "schedule", refuse)
    monkeypatch.setattr(watching, "POLL", 0.1)
    seen = Watched(vault)
    with seen.watcher:
        edit_by_hand(vault, NOTE, "Polled.\n")
        seen.until(NOTE)
    assert "the system lets nobody watch" in seen.said[0]


def test_network_folders_are_known(tmp_path: Path) -> None:
    """The longest mount above the vault decides whether events can be expected, and how files are made durable."""
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "dev / ext4 rw\nbox:/x /srv nfs4 rw\ndev /srv/local ext4 rw\nme@x /home/a\\040b fuse.sshfs rw\n"
        "d /enc fuse.gocryptfs rw\n"
    )
    kinds = {place: remote(Path(place), mounts) for place in ("/data", "/srv/v", "/srv/local/v", "/home/a b/v", "/enc")}
    assert kinds == {"/data": "", "/srv/v": "nfs4", "/srv/local/v": "", "/home/a b/v": "fuse.sshfs", "/enc": ""}
    assert [place for place in kinds if syncs_files_alone(Path(place), mounts)] == ["/srv/v", "/home/a b/v", "/enc"]
    assert remote(tmp_path, tmp_path / "none") == ""


def test_vault_that_cannot_be_written_is_said_once(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history that cannot be written now is one line, and the edit is announced when it can be again."""
    from memory_fs.errors import VaultError

    adopt = watched.vault.adopt
    tries: list[int] = []

    def failing() -> Change | None:
        tries.append(1)
        if len(tries) < 3:
            raise VaultError("the disk is full")
        return adopt()

    monkeypatch.setattr(watched.vault, "adopt", failing)
    edit_by_hand(watched.vault, NOTE, "Again.\n")
    while len(tries) < 3:
        watched.watcher._woken.set()
        time.sleep(0.05)
    watched.until(NOTE)
    assert watched.said == ["the disk is full"]


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_watch_command_prints_lines_and_ends_with_ctrl_c(vault: Vault) -> None:
    """`memory-fs watch --json` prints a document for each edit, as it happens, and Ctrl-C ends it without a trace."""
    command = [sys.executable, "-c", "from memory_fs.cli import main; main()", "watch", "--json", "--vault"]
    with subprocess.Popen(
        [*command, str(vault.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout and running.stderr and "watching" in running.stderr.readline()
        edit_by_hand(vault, NOTE, "Hello.\n")
        found = json.loads(running.stdout.readline())
        assert [item["path"] for item in found["changes"]] == [NOTE] and found["author"]
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == 0 and "Traceback" not in running.stderr.read()
