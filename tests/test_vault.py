"""The vault: changes are whole or not at all, hand edits are safe, and a bad disk loses nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pygit2
import pytest
from conftest import HELLO, block, changes_of, edit_by_hand, say, snapshot, value_of
from pygit2.enums import ConfigLevel

from memory_fs.agent import Agent
from memory_fs.create import create_vault
from memory_fs.disk import Disk
from memory_fs.errors import Conflict, VaultError
from memory_fs.history import AGENT, person
from memory_fs.testing import ScriptedModel, fixed_clock, make_vault
from memory_fs.vault import Transaction, Vault

HUMAN = "core/human.yaml"
NOTE = "archival/2026/note.md"


def git(vault: Vault, *arguments: str) -> str:
    """What plain git says about the vault's history."""
    command = ["git", f"--git-dir={vault.root}/.memory_fs/git", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=vault.root)
    return done.stdout + done.stderr


def append_line(transaction: Transaction, line: str, path: str = HUMAN) -> None:
    """A change that depends on what it reads."""
    transaction.write(path, (transaction.read(path) or "") + line)


# -- whole or not at all --------------------------------------------------------------------------------------------


def test_work_that_fails_writes_nothing(vault: Vault) -> None:
    """An exception in the middle of a change leaves files and history as they were, and the vault free."""
    before, head = snapshot(vault), vault.history.head

    def work(transaction: Transaction) -> None:
        transaction.write(HUMAN, "value: half\n")
        transaction.write(NOTE, "half\n")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        vault.transact(work, "Fail")
    assert (snapshot(vault), vault.history.head) == (before, head)
    with Vault(vault.root) as other:
        other.transact(lambda t: append_line(t, "# other\n"), "Write")


def test_change_without_a_difference_is_none(vault: Vault) -> None:
    """Writing what is there already makes no history entry."""
    head = vault.history.head
    result, change = vault.transact(lambda t: t.write(HUMAN, t.read(HUMAN) or ""), "Nothing")
    assert (result, change, vault.history.head) == (None, None, head)


def test_change_sees_its_own_writes(vault: Vault) -> None:
    """Within a change a file reads as it was last staged, deleted ones as gone; the disk is untouched until the end."""
    seen = []

    def work(transaction: Transaction) -> None:
        for text in ("value: 1\n", "value: 2\n"):
            transaction.write(HUMAN, text)
            seen.append(transaction.read(HUMAN))
        transaction.put("system.md", None)
        seen.append(transaction.read("system.md"))
        seen.append((vault.root / "system.md").read_text())

    vault.transact(work, "Write twice")
    assert seen == ["value: 1\n", "value: 2\n", None, "Remember what the user says.\n"]
    assert not (vault.root / "system.md").exists() and vault.read(HUMAN) == "value: 2\n"


def test_commit_says_who_and_why(vault: Vault) -> None:
    """Author, subject on one line, trailers and a unified diff: the whole story of a change."""
    _, change = vault.transact(
        lambda t: t.write(NOTE, "Hello.\n"),
        "First line\nsecond line",
        author=("Ann <x>", "ann@example.invalid"),
        trailers={"Session": "s-1", "Function": "a\nForged: b"},
    )
    assert change is not None
    assert (change.author, change.subject) == ("Ann x", "First line second line")
    assert change.trailers == {"Session": "s-1", "Function": "a Forged: b"}
    assert change.diff == f"--- /dev/null\n+++ b/{NOTE}\n@@ -0,0 +1 @@\n+Hello.\n"
    assert vault.history.show(change.rev[:8]).rev == change.rev


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 10_000, "\x1b[31m"])
def test_any_subject_makes_a_commit(vault: Vault, text: str) -> None:
    """A model's words reach the commit message, so no text may spoil it."""
    _, change = vault.transact(lambda t: t.write(NOTE, "x"), text, trailers={"Function": text})
    assert change is not None and change.trailers["Function"]
    assert "\n" not in change.subject and git(vault, "log", "-1", "--format=%s").strip()


# -- the same file at the same time ---------------------------------------------------------------------------------


def test_edit_between_reading_and_writing_is_kept(vault: Vault) -> None:
    """A person saves the file while a change is being worked out: the work is done again on the person's text."""
    runs = []

    def work(transaction: Transaction) -> None:
        text = transaction.read(HUMAN) or ""
        runs.append(text)
        if len(runs) == 1:
            edit_by_hand(vault, HUMAN, text + "# by hand\n")
        assert transaction.read(HUMAN) == text  # the same however often a change looks
        transaction.write(HUMAN, text + "# by the agent\n")

    vault.transact(work, "Write")
    assert len(runs) == 2 and (vault.read(HUMAN) or "").endswith("# by hand\n# by the agent\n")
    assert [change.author for change in changes_of(vault)][:2] == ["agent", person()[0]]
    assert vault.journal.unfinished() == [] and vault.adopt() is None


def test_edit_of_one_file_holds_back_the_whole_change(vault: Vault) -> None:
    """When one of several files was edited meanwhile, none of them is written from the stale reading."""
    seen: list[dict[str, bytes]] = []

    def work(transaction: Transaction) -> None:
        append_line(transaction, "# agent\n", "core/persona.yaml")
        append_line(transaction, "# agent\n")
        transaction.write(NOTE, f"attempt {len(seen)}\n")
        seen.append(snapshot(vault))
        if len(seen) == 1:
            edit_by_hand(vault, HUMAN, (vault.read(HUMAN) or "") + "# by hand\n")

    vault.transact(work, "Write three")
    assert len(seen) == 2
    assert {p for p in seen[0] if seen[0][p] != seen[1].get(p)} == {HUMAN} and seen[1].keys() == seen[0].keys()
    assert (vault.read(HUMAN) or "").endswith("# by hand\n# agent\n") and vault.read(NOTE) == "attempt 1\n"


def test_endless_conflict_ends_in_an_error(vault: Vault) -> None:
    """Somebody who saves the file at every attempt wins: the change is given up, the last text stays."""
    runs = []

    def work(transaction: Transaction) -> None:
        runs.append(transaction.read(HUMAN))
        edit_by_hand(vault, HUMAN, f"value: edit {len(runs)}\n")
        transaction.write(HUMAN, "value: agent\n")

    with pytest.raises(Conflict, match="human"):
        vault.transact(work, "Write")
    assert vault.read(HUMAN) == f"value: edit {len(runs)}\n" and 1 < len(runs) < 20
    assert vault.journal.unfinished() == []
    vault.transact(lambda t: append_line(t, "# agent\n"), "Write again")
    assert vault.read(HUMAN) == f"value: edit {len(runs)}\n# agent\n"


def test_file_that_appears_meanwhile_is_not_written_over(vault: Vault) -> None:
    """A new file of a person at the very place of a new file of the agent is a conflict like any other."""
    runs = []

    def work(transaction: Transaction) -> None:
        runs.append(transaction.read(NOTE))
        if len(runs) == 1:
            edit_by_hand(vault, NOTE, "by hand\n")
        transaction.write(NOTE, (transaction.read(NOTE) or "") + "agent\n")

    vault.transact(work, "Write")
    assert vault.read(NOTE) == "by hand\nagent\n"


def test_programs_take_turns(vault: Vault) -> None:
    """Two programs and several threads that write to one vault lose none of each other's changes."""

    def write(mine: Vault, name: str) -> None:
        for number in range(4):
            mine.transact(lambda t, n=number: append_line(t, f"# {name} {n}\n"), "Write")  # type: ignore[misc]

    with Vault(vault.root) as other:
        threads = [threading.Thread(target=write, args=(v, f"{n}")) for n, v in enumerate((vault, vault, other))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = (vault.read(HUMAN) or "").splitlines()
    assert sorted(line for line in lines if line.startswith("# ")) == [f"# {n} {k}" for n in range(3) for k in range(4)]
    assert len(changes_of(vault)) == 13 and vault.adopt() is None


def test_waiting_for_another_program_ends(vault: Vault) -> None:
    """A vault that another program never lets go of is an error of one line, not a hang."""
    with vault.disk.lock(), pytest.raises(VaultError, match="another program"), Disk(vault.root).lock(timeout=0.05):
        raise AssertionError("both hold the lock")


# -- after a crash --------------------------------------------------------------------------------------------------


def crash(vault: Vault, files: dict[str, bytes | None], done: int) -> str:
    """Leave a change as a kill leaves it: prepared and pending, with so many of its files in place."""
    rev = vault.history.prepare(files, AGENT, "Interrupted", {}, fixed_clock()())
    assert rev is not None
    vault.journal.begin(rev)
    for path, data in list(files.items())[:done]:
        if data is None:
            (vault.root / path).unlink()
        else:
            edit_by_hand(vault, path, data)
    vault.close()
    return rev


FILES: dict[str, bytes | None] = {HUMAN: b"value: new\n", NOTE: b"new note\n", "core/persona.yaml": None}


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_pending_change_is_finished_when_the_vault_is_opened(vault: Vault, done: int) -> None:
    """However many of its files were in place, the next start finishes the change, deletions included."""
    rev = crash(vault, FILES, done)
    with Vault(vault.root) as again:
        assert (again.read(HUMAN), again.read(NOTE)) == ("value: new\n", "new note\n")
        assert again.read("core/persona.yaml") is None
        assert again.journal.unfinished() == [] and again.history.head == rev
        assert again.adopt() is None and not list(vault.root.rglob("*.tmp"))


@pytest.mark.parametrize("done", [0, 1, 3])
@pytest.mark.parametrize("path", [HUMAN, NOTE, "core/persona.yaml"])
def test_edit_after_a_crash_stays(vault: Vault, path: str, done: int) -> None:
    """What a person wrote between the crash and the next start is never undone by the recovery."""
    crash(vault, FILES, done)
    edit_by_hand(vault, path, "value: by hand\n")
    with Vault(vault.root) as again:
        again.adopt()
        assert again.read(path) == "value: by hand\n"
        others = {p: data for p, data in FILES.items() if p != path}
        assert all(again.disk.read(p) == data for p, data in others.items())
        assert [change.author for change in changes_of(again)][:2] == [person()[0], "agent"]


def test_pending_change_of_another_program_is_finished_before_a_write(vault: Vault) -> None:
    """A vault that is open already finishes what another program left before it writes on top."""
    with Vault(vault.root) as other:
        crash(other, FILES, 1)
    vault.transact(lambda t: append_line(t, "# mine\n"), "Write")
    assert vault.read(HUMAN) == "value: new\n# mine\n" and vault.read(NOTE) == "new note\n"


def test_crash_after_the_branch_moved_is_nothing(vault: Vault) -> None:
    """A change that was finished, but still named as pending, is not done twice."""
    rev = crash(vault, FILES, 3)
    with Vault(vault.root) as opened:
        opened.journal.begin(rev)
        edit_by_hand(opened, HUMAN, "value: later\n")
    with Vault(vault.root) as again:
        assert again.read(HUMAN) == "value: later\n" and again.journal.unfinished() == []


def test_spoilt_scan_cache_costs_time_only(vault: Vault) -> None:
    """The memory of the last scan may be lost or garbage at any time."""
    files = vault.files()
    for text in ("", "[1]", '{"a": 1}', '{"core/human.yaml": [1, 2, 3, 4]}', "\xff"):
        (vault.root / ".memory_fs/scan.json").write_text(text, encoding="latin-1")
        with Vault(vault.root) as again:
            assert again.files() == files and again.adopt() is None


# -- bad disks ------------------------------------------------------------------------------------------------------


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A small file system of its own, in memory."""
    folder.mkdir()
    if os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting a tmpfs takes root")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(folder: Path, free: int) -> Path:
    """Fill a file system but for so many bytes."""
    ballast = folder / "ballast"
    left = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    ballast.write_bytes(b"x" * max(0, left - free))
    return ballast


def test_full_disk_loses_nothing(tmp_path: Path) -> None:
    """However little room is left, a change is whole or refused with one line, and the vault works afterwards."""
    text = "Biscuit is a golden retriever. " * 200
    with mounted(tmp_path / "disk", "2m") as disk:
        agent = Agent(make_vault(disk / "vault", block("human", "Name: Chad.")), ScriptedModel([say("Hi.")] * 9))
        agent.archival.count()
        refused = 0
        for free in range(0, 80_000, 8192):
            before, head = snapshot(agent.vault), agent.vault.history.head
            ballast = fill(disk, free)
            try:
                agent.call("archival_memory_insert", {"content": f"{free} {text}"})
            except VaultError as error:
                refused += 1
                assert "\n" not in str(error) and "nothing is lost" in str(error)
                assert (snapshot(agent.vault), agent.vault.history.head) == (before, head)
            else:
                assert agent.archival.search(f'"{free}"').total == 1
            assert not list(agent.vault.root.glob("**/*.tmp"))
            ballast.unlink()
        assert refused >= 2
        ballast = fill(disk, 0)
        with pytest.raises(VaultError):
            agent.send(HELLO)
        assert value_of(agent.vault) == "Name: Chad."
        ballast.unlink()
        assert agent.send(HELLO) == "Hi."
        assert agent.vault.adopt() is None and agent.vault.journal.unfinished() == []
        assert "error" not in git(agent.vault, "fsck", "--strict")
        agent.close()


def test_read_only_folder_can_be_read(tmp_path: Path) -> None:
    """A vault on a read-only disk is searched and shown; a write is one clear line; nothing is lost."""
    with mounted(tmp_path / "disk", "8m") as disk:
        make_vault(disk / "vault", {NOTE: "Biscuit is a golden retriever.\n", **block("human", "Name: Chad.")}).close()
        with Vault(disk / "vault") as vault:
            edit_by_hand(vault, "archival/later.md", "Another retriever.\n")  # not in history yet
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        said: list[str] = []
        agent = Agent(Vault(disk / "vault"), ScriptedModel([say("Hi.")]), say=said.append)
        before = snapshot(agent.vault)
        assert agent.archival.search("retriever").total == 2 and agent.archival.count() == 2
        assert "Name: Chad." in agent.prompt().text
        assert [change.subject for change in agent.vault.history.log()] == ["Start a new vault"]
        for write in (
            lambda: agent.send(HELLO),
            lambda: agent.call("core_memory_append", {"label": "human", "content": "x"}),
        ):
            with pytest.raises(VaultError, match="Read-only") as caught:
                write()
            assert "\n" not in str(caught.value)
        assert snapshot(agent.vault) == before
        agent.close()
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        with Agent(Vault(disk / "vault"), ScriptedModel([say("Hi.")])) as again:
            assert again.send(HELLO) == "Hi."


@contextmanager
def ordinary_user(folder: Path) -> Iterator[None]:
    """Permissions count: root gives up its own for a while."""
    if os.geteuid() != 0:
        yield
        return
    for place in (folder, *folder.rglob("*")):
        os.chown(place, 65534, 65534)
    home = pygit2.settings.search_path[ConfigLevel.GLOBAL]
    pygit2.settings.search_path[ConfigLevel.GLOBAL] = str(folder)  # that of root is closed, too
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        pygit2.settings.search_path[ConfigLevel.GLOBAL] = home


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_folder_that_cannot_be_listed_is_unknown_not_deleted() -> None:
    """Notes behind a closed door are not taken for deleted: they stay in history, and the scan says why."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        files = {"archival/open/a.md": "Biscuit\n", "archival/shut/b.md": "Rex\n", "archival/shut2.md": "Tom\n"}
        make_vault(folder / "vault", files).close()
        with ordinary_user(folder), Vault(folder / "vault") as vault:
            known = vault.files()
            (vault.root / "archival/shut").chmod(0)
            (vault.root / "archival/shut2.md").chmod(0)
            (vault.root / "archival/shut2.md").touch()
            edit_by_hand(vault, "archival/open/a.md", "Biscuit sleeps\n")
            now = vault.files()
            assert now.keys() == known.keys() and now["archival/shut/b.md"] == known["archival/shut/b.md"]
            assert vault.disk.troubles.keys() == {"archival/shut/", "archival/shut2.md"}
            vault.adopt()
            assert changes_of(vault)[0].paths == ("archival/open/a.md",)
            (vault.root / "archival/shut").chmod(0o755)
            (vault.root / "archival/shut2.md").chmod(0o644)
            assert vault.files().keys() == known.keys() and not vault.disk.troubles
            assert vault.read("archival/shut/b.md") == "Rex\n"
    finally:
        shutil.rmtree(folder)


# -- folders --------------------------------------------------------------------------------------------------------


def test_missing_vault_says_what_to_run(tmp_path: Path) -> None:
    """A folder that is no vault is an error with the command that makes one; nothing is created."""
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(VaultError, match="memory-fs init"):
            Vault(folder)
    assert list(tmp_path.iterdir()) == []


def test_vault_is_not_made_over_another(vault: Vault) -> None:
    """Making a vault where one is changes nothing."""
    before = snapshot(vault)
    with pytest.raises(VaultError, match="already"):
        create_vault(vault.root, {"system.md": "other\n"})
    assert snapshot(vault) == before


def test_vault_is_not_made_where_a_file_is(tmp_path: Path) -> None:
    """A file in the way is an error of one line, and stays."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(VaultError, match="cannot make"):
        create_vault(tmp_path / "file", {})
    assert (tmp_path / "file").read_text() == "mine"


def test_copied_folder_is_the_same_vault(vault: Vault, tmp_path: Path) -> None:
    """Copy the folder: memory and history move with it, and neither knows of the old place."""
    edit_by_hand(vault, NOTE, "Biscuit\n")
    vault.adopt()
    shutil.copytree(vault.root, tmp_path / "copy")
    head = vault.history.head
    with Vault(tmp_path / "copy") as copy:
        assert copy.history.head == head and copy.adopt() is None
        copy.transact(lambda t: t.put(NOTE, None), "Delete")
        git(copy, "checkout", "-q", "-f", str(head), "--", NOTE)
        assert copy.read(NOTE) == "Biscuit\n"
    assert vault.history.head == head and vault.read(NOTE) == "Biscuit\n"
    assert str(vault.root) not in (tmp_path / "copy/.memory_fs/git/config").read_text()


def test_history_that_was_deleted_begins_anew(vault: Vault) -> None:
    """Without its history a vault still opens: what is there becomes the first commit."""
    before = snapshot(vault)
    vault.close()
    shutil.rmtree(vault.root / ".memory_fs")
    with Vault(vault.root) as again:
        again.transact(lambda t: t.write(NOTE, "Biscuit\n"), "Write")
        again.adopt()
        assert before.items() <= snapshot(again).items()
        assert again.history.tree().keys() == snapshot(again).keys()


# -- plain git ------------------------------------------------------------------------------------------------------


def test_plain_git_reads_the_history(vault: Vault) -> None:
    """`git log -p` shows every change with author, subject and trailers, and `git fsck` finds nothing wrong."""
    vault.transact(lambda t: t.write("archival/小林 🐕.md", "金毛\n"), "Save a note", trailers={"Function": "insert"})
    edit_by_hand(vault, HUMAN, "value: Name\n")
    vault.adopt()
    vault.transact(lambda t: t.put("archival/小林 🐕.md", None), "Delete it")
    assert git(vault, "log", "--format=%an: %s").splitlines() == [
        "agent: Delete it",
        f"{person()[0]}: Edit core/human.yaml by hand",
        "agent: Save a note",
        "memory_fs: Start a new vault",
    ]
    shown = git(vault, "-c", "core.quotePath=false", "log", "-p")
    assert "+++ b/archival/小林 🐕.md" in shown and "+金毛" in shown and "    Function: insert" in shown
    assert git(vault, "fsck", "--strict", "--full") == "" or "dangling" in git(vault, "fsck", "--strict", "--full")
    assert git(vault, "config", "core.worktree").strip() == "../.."


def test_vault_lives_in_its_owners_repository(tmp_path: Path) -> None:
    """A repository around the vault keeps the memory files like any others, and none of the machinery."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    make_vault(tmp_path / "vault").close()
    subprocess.run(["git", "add", "-A"], check=True, cwd=tmp_path)
    done = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == [
        "vault/core/human.yaml", "vault/core/persona.yaml", "vault/memory.yaml", "vault/system.md"
    ]  # fmt: skip


def test_history_tells_which_changes_touched_a_file(vault: Vault) -> None:
    """The log of a file or folder holds its changes alone, newest first; an unknown revision is one clear line."""
    vault.transact(lambda t: t.write(NOTE, "1\n"), "One")
    vault.transact(lambda t: append_line(t, "# x\n"), "Two")
    vault.transact(lambda t: t.write(NOTE, "3\n"), "Three")
    assert [change.subject for change in vault.history.log(NOTE)] == ["Three", "One"]
    assert [change.subject for change in vault.history.log("archival")] == ["Three", "One"]
    for rev in ("ffffffff", "", "..", "no such thing", "HEAD~99"):
        with pytest.raises(VaultError, match="memory-fs log"):
            vault.history.show(rev)
