"""Pruning history, and plain git on it: the files never change, what is kept is whole, and the vault goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import HELLO, MakeAgent, block, changes_of, edit_by_hand, memory_of, say, snapshot, value_of

from memory_fs.agent import Agent
from memory_fs.blame import blame
from memory_fs.doctor import examine
from memory_fs.errors import FunctionError, MemoryFsError, VaultError
from memory_fs.history_prune import prune_history
from memory_fs.prune import prune, span
from memory_fs.testing import ScriptedModel, make_vault
from memory_fs.undo import redo, undo
from memory_fs.vault import Vault

ME = ("tester", "tester@example.invalid")
HUMAN = "core/human.yaml"
START = datetime(2026, 12, 1, 12, tzinfo=UTC)


class Days:
    """A clock that goes on by a day when it is told to."""

    def __init__(self) -> None:
        self.day = 0

    def __call__(self) -> datetime:
        return START + timedelta(days=self.day)


def write(vault: Vault, value: str, **trailers: str) -> str:
    """Give the human block a value; returns the commit."""
    text = f"label: human\nlimit: 500\nvalue: |\n  {value}\n"
    _, change = vault.transact(lambda t: t.write(HUMAN, text), f"Write {value}", trailers=trailers)
    assert change is not None
    return change.rev


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with a change on each of ten days, some of them undone and redone; made once."""
    clock = Days()
    with make_vault(tmp_path_factory.mktemp("days") / "vault", clock=clock) as vault:
        for day in range(1, 11):
            clock.day = day
            write(vault, f"饼干 {day}", Session="s1", Turn=str(day))
            if day in (3, 8):
                undo(vault, ME)
                redo(vault, ME)
    return vault.root


@pytest.fixture
def days(tmp_path: Path, made: Path) -> Iterator[Vault]:
    """A copy of that vault, today being the tenth day."""
    shutil.copytree(made, tmp_path / "vault")
    with Vault(tmp_path / "vault", clock=lambda: START + timedelta(days=10)) as vault:
        yield vault


def git(vault: Vault, *arguments: str, fails: bool = False) -> str:
    """What plain git says, run on the vault's git directory."""
    config = ["-c", "user.name=Ana", "-c", "user.email=ana@example.invalid", "-c", "gc.auto=0"]
    command = ["git", *config, f"--git-dir={vault.root}/.memory_fs/git", *arguments]
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=vault.root, env=env)
    assert (done.returncode != 0) == fails, done.stderr
    return (done.stdout + done.stderr).strip()


def is_whole(vault: Vault) -> None:
    """Git finds nothing missing, broken or left over."""
    assert git(vault, "fsck", "--full", "--strict", "--no-dangling") == ""


def state(vault: Vault) -> list[tuple[str, str, str]]:
    """What the log says of each change, without ids."""
    return [(change.author, change.time.isoformat(), change.subject) for change in changes_of(vault)]


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_older_changes_become_one_and_newer_ones_stay(days: Vault) -> None:
    """Four days are kept with author, time and message; one first commit has the files as they were before them."""
    before, files = state(days), snapshot(days)
    old = changes_of(days)
    then = days.history.tree(next(change.rev for change in old if change.subject == "Write 饼干 6"))
    done = prune(days, span("4d"))
    assert done.changes == (15, 7) and (done.size[1] or 0) < done.size[0] and done.kept_by == ()
    assert state(days)[:-1] == before[:6] and snapshot(days) == files
    first = changes_of(days)[-1]
    assert (first.author, first.subject) == ("memory_fs", "Start of what is kept of the history")
    assert first.trailers == {"Pruned": "9"} and first.time == START + timedelta(days=6)
    assert days.history.tree(first.rev) == then
    assert days.adopt() is None
    is_whole(days)


def test_undo_and_redo_name_the_new_commits(days: Vault) -> None:
    """The undo that was kept still belongs to the change that it took back, and both ways still work."""
    prune(days, span("4d"))
    by_subject = {change.subject: change for change in changes_of(days)}
    change, back, forth = (by_subject[f"{word}Write 饼干 8"] for word in ("", "Undo: ", "Redo: "))
    assert back.trailers == {"Undoes": change.rev} and forth.trailers == {"Redoes": change.rev}
    for _ in range(4):
        undo(days, ME)
    assert value_of(days) == "饼干 6"
    with pytest.raises(VaultError, match="nothing to undo"):
        undo(days, ME)
    for _ in range(4):
        redo(days, ME)
    assert value_of(days) == "饼干 10"


def test_undo_whose_change_was_pruned_can_be_redone(tmp_path: Path) -> None:
    """The commit of an undo is enough to take it back, also when what it took back is history no more."""
    clock = Days()
    vault = make_vault(tmp_path / "vault", clock=clock)
    write(vault, "one")
    clock.day = 5
    undo(vault, ME)
    prune(vault, span("1d"))
    redo(vault, ME)
    assert value_of(vault) == "one"


def test_what_is_pruned_is_gone_from_the_disk(days: Vault) -> None:
    """No object of the old states is left: not for git, not among the files, and a second pruning does nothing more."""
    old = [change.rev for change in changes_of(days)]
    blob = days.history.blob_id(HUMAN, old[-2])
    assert blob
    prune(days, span("4d"))
    for oid in (*old[6:], blob):
        git(days, "cat-file", "-e", oid, fails=True)
    assert git(days, "count-objects").startswith("0 objects")
    assert len(list((days.root / ".memory_fs/git/objects/pack").iterdir())) == 2
    revs = [change.rev for change in changes_of(days)]
    assert prune(days, span("4d")).changes == (7, 7)
    assert [change.rev for change in changes_of(days)] == revs
    is_whole(days)


def test_nothing_to_squash_keeps_every_id(days: Vault) -> None:
    """A history that is younger than what is kept is packed, and no commit gets another id."""
    revs = [change.rev for change in changes_of(days)]
    done = prune(days, span("1y"))
    assert done.changes == (15, 15) and (done.size[1] or 0) < done.size[0]
    assert [change.rev for change in changes_of(days)] == revs
    is_whole(days)


def test_keep_nothing_leaves_one_change(days: Vault) -> None:
    """`0d` leaves the files as they are now in one commit, and all goes on from there."""
    files = snapshot(days)
    assert prune(days, span("0d")).changes == (15, 1)
    assert snapshot(days) == files and {line.change.author for line in blame(days, HUMAN)} == {"memory_fs"}
    write(days, "after")
    undo(days, ME)
    assert value_of(days) == "饼干 10" and len(changes_of(days)) == 3
    is_whole(days)
    assert examine(days.root).left == ()


def test_dry_run_says_what_would_be_done_and_does_nothing(days: Vault) -> None:
    """The numbers of changes are those of the real run; not one file of the history is touched."""
    folder = days.root / ".memory_fs/git"
    before = {place: place.stat().st_mtime_ns for place in folder.rglob("*")}
    planned = prune(days, span("4d"), dry_run=True)
    assert planned.size[1] is None
    assert {place: place.stat().st_mtime_ns for place in folder.rglob("*")} == before
    assert prune(days, span("4d")).changes == planned.changes == (15, 7)


def test_hand_edit_comes_into_history_before_it_is_pruned(days: Vault) -> None:
    """What a person saved and no program has seen yet is neither lost nor changed."""
    edit_by_hand(days, "archival/new.md", "新的\r\n")
    prune(days, span("0d"))
    assert (days.root / "archival/new.md").read_bytes() == "新的\r\n".encode()
    assert days.history.read("archival/new.md") == "新的\r\n".encode() and days.adopt() is None


def test_clock_that_was_wrong_prunes_nothing_young(tmp_path: Path) -> None:
    """A change with an old date among young ones is kept with them: only what is older throughout is squashed."""
    clock = Days()
    vault = make_vault(tmp_path / "vault", clock=clock)
    for day in (1, 20, 2, 21):
        clock.day = day
        write(vault, f"day {day}")
    assert prune(vault, span("5d")).changes == (5, 4)
    assert [change.subject for change in changes_of(vault)][:3] == ["Write day 21", "Write day 2", "Write day 20"]


@pytest.mark.parametrize(
    ("text", "days"), [("90d", 90), ("12w", 84), ("1y", 365), ("0d", 0), (" 2W ", 14), ("99999y", 99999 * 365)]
)
def test_span_is_days_weeks_or_years(text: str, days: int) -> None:
    """A number and a letter."""
    assert span(text) == timedelta(days=days)


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1m", "1.5d", "90 d", "１d", "9999999d"])
def test_span_that_is_none_is_refused(text: str) -> None:
    """Anything else is refused with an example; months are of no certain length."""
    with pytest.raises(FunctionError, match="write days, weeks or years: 90d, 12w, 1y"):
        span(text)


def test_longest_span_keeps_everything(days: Vault) -> None:
    """A time that reaches behind the calendar is no error."""
    assert prune(days, span("99999y"), dry_run=True).changes == (15, 15)


# -- others at work ----------------------------------------------------------------------------------------------------


def test_program_that_has_the_vault_open_goes_on(days: Vault) -> None:
    """One vault object prunes, another that has read and written before writes, undoes and reads on right after."""
    other = Vault(days.root)
    seen = changes_of(other)
    assert other.adopt() is None
    write(other, "by the other")
    prune(days, span("0d"))
    assert other.history.head == days.history.head and other.adopt() is None
    write(other, "饼干 3")  # a text whose object was just deleted
    assert value_of(days) == "饼干 3" and days.history.read(HUMAN) == (days.root / HUMAN).read_bytes()
    undo(days, ME)
    assert value_of(other) == "by the other" and len(changes_of(other)) == 3
    with pytest.raises(VaultError, match=r"no change '[0-9a-f]{40}' in the history"):
        _ = seen[0].files
    is_whole(days)


def test_agent_that_is_talking_goes_on(make_agent: MakeAgent) -> None:
    """A conversation is pruned from another program between two messages, and nothing of it is lost."""
    agent = make_agent([say("One."), say("Two.")], files=block("human", "Name: Chad."))
    agent.send(HELLO)
    with Vault(agent.vault.root) as other:
        prune(other, span("0d"))
    assert agent.send(HELLO) == "Two."
    assert agent.archival.count() == 0 and agent.vault.adopt() is None
    is_whole(agent.vault)


def test_reader_in_the_middle_of_the_log_is_told(days: Vault) -> None:
    """Whoever is half way through the log when it is pruned reads on, or gets one clear line."""
    with Vault(days.root) as other:
        changes = other.history.log()
        next(changes)
        prune(days, span("0d"))
        try:
            subjects = [change.subject for change in changes]
        except VaultError as error:
            assert "was pruned meanwhile or is damaged; try again, else see" in str(error)
        else:
            assert subjects[-1] == "Start a new vault"


def test_pruning_waits_for_the_lock(days: Vault) -> None:
    """While another program is writing nothing is pruned."""
    head = days.history.head
    with days.disk.lock(), Vault(days.root) as other:
        other.disk.lock = lambda: days.disk.lock(timeout=0.01)  # type: ignore[method-assign, assignment, misc]
        with pytest.raises(VaultError, match="another program has been writing"):
            prune(other, span("0d"))
    assert days.history.head == head


# -- kill -9 -----------------------------------------------------------------------------------------------------------


def killed(root: Path, when: Callable[[], None]) -> None:
    """Prune in a child process that calls `when` to arrange for its own death."""
    child = os.fork()
    if child == 0:
        try:
            when()
            vault = Vault(root, clock=lambda: START + timedelta(days=10))
            calls = iter(range(9))
            with vault.hold():
                prune_history(vault.history, (START + timedelta(days=6)).timestamp(), ME, lambda: STAGES[next(calls)]())
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def die() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


STAGES: list[Callable[[], None]] = []


@pytest.mark.parametrize("moment", ["packed", "branch moved", "1st deleted", "3rd deleted", "last deleted"])
def test_kill_at_any_stage_leaves_a_usable_history(days: Vault, moment: str) -> None:
    """With the new pack there, the branch moved, some old objects gone: all is whole, and pruning again ends it."""
    before, files = state(days), snapshot(days)
    nothing: Callable[[], None] = lambda: None  # noqa: E731
    STAGES[:] = [die] if moment == "packed" else [nothing, die if moment == "branch moved" else nothing]

    def when() -> None:
        if "deleted" in moment:
            count = {"1st": 1, "3rd": 3, "last": 40}[moment.split()[0]]
            left = iter(range(count, -1, -1))
            sys.addaudithook(lambda event, _: die() if event == "os.remove" and next(left) == 0 else None)

    killed(days.root, when)
    with Vault(days.root, clock=lambda: START + timedelta(days=10)) as again:
        assert [entry[2] for entry in state(again)][:6] == [entry[2] for entry in before][:6]
        assert snapshot(again) == files and again.adopt() is None
        git(again, "fsck", "--full")
        assert examine(again.root).left == ()
        write(again, "after the kill")
        undo(again, ME)
        prune(again, timedelta(days=4))
        assert git(again, "count-objects").startswith("0 objects") and len(changes_of(again)) == 9
        is_whole(again)


# -- plain git ---------------------------------------------------------------------------------------------------------


def test_git_reads_pushes_packs_and_the_vault_goes_on(days: Vault, tmp_path: Path) -> None:
    """`git log`, a push to a bare remote, `git gc` with packed refs, `git fsck`; then changes, undo, search, prune."""
    assert "+  饼干 10" in git(days, "log", "-p", "-1")
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote")], check=True)
    git(days, "remote", "add", "backup", str(tmp_path / "remote"))
    git(days, "push", "-q", "backup", "main")
    git(days, "gc", "-q", "--prune=now")
    git(days, "pack-refs", "--all")
    assert not (days.root / ".memory_fs/git/refs/heads/main").exists()
    with Agent(Vault(days.root), ScriptedModel([])) as agent:
        assert len(changes_of(agent.vault)) == 15
        write(agent.vault, "after gc")
        undo(agent.vault, ME)
        agent.call("archival_memory_insert", {"content": "A note about 饼干.", "tags": []})
        assert agent.archival.search("饼干").total == 1 and agent.vault.adopt() is None
    assert len(changes_of(days)) == 18 and value_of(days) == "饼干 10"
    is_whole(days)
    git(days, "push", "-q", "backup", "main")
    assert prune(days, span("0d")).changes == (18, 1)
    is_whole(days)
    git(days, "push", "-q", "backup", "main", fails=True)
    git(days, "push", "-q", "--force", "backup", "main")
    git(days, "fetch", "-q", "backup")
    is_whole(days)


def test_tag_of_a_persons_own_is_kept_whole(days: Vault) -> None:
    """A tag is somebody's wish to keep a state: its history stays readable, and the result names it."""
    tagged = changes_of(days)[-2].rev
    git(days, "tag", "-a", "-m", "Keep this.", "first", tagged)
    git(days, "branch", "mine", tagged)
    done = prune(days, span("0d"))
    assert set(done.kept_by) == {"refs/heads/mine", "refs/tags/first"} and done.changes == (15, 1)
    assert git(days, "log", "--format=%s", "first") == "Write 饼干 1\nStart a new vault"
    is_whole(days)
    git(days, "tag", "-d", "first")
    git(days, "branch", "-D", "mine")
    assert prune(days, span("0d")).kept_by == ()
    git(days, "cat-file", "-e", tagged, fails=True)


def test_index_log_and_graph_of_git_hold_no_old_state(days: Vault) -> None:
    """After `git checkout`, reflogs, a commit graph and a bundle of packs nothing of them refers to what is gone."""
    old = changes_of(days)[-2].rev
    git(days, "config", "core.logAllRefUpdates", "true")
    git(days, "reset", "-q")
    git(days, "checkout", "-q", old, "--", HUMAN)
    git(days, "update-ref", "refs/heads/other", old)
    git(days, "update-ref", "-d", "refs/heads/other")
    git(days, "gc", "-q")
    git(days, "commit-graph", "write", "--reachable")
    git(days, "multi-pack-index", "write")
    assert value_of(days) == "饼干 1" and prune(days, span("0d")).changes == (16, 1)
    is_whole(days)
    assert git(days, "status", "--porcelain") == ""
    git(days, "cat-file", "-e", old, fails=True)


def test_damaged_history_is_told_and_left(days: Vault) -> None:
    """Where an object is missing nothing is deleted, and one line says what to do."""
    blob = days.history.blob_id(HUMAN, changes_of(days)[0].rev)
    assert blob
    place = days.root / ".memory_fs/git/objects" / blob[:2] / blob[2:]
    place.unlink()
    head, files = days.history.head, snapshot(days)
    with Vault(days.root) as again, pytest.raises(MemoryFsError, match=r"the history .*"):
        prune(again, span("4d"))
    assert (days.root / ".memory_fs/git/refs/heads/main").read_text().strip() == head and snapshot(days) == files
    assert len(changes_of(days)) == 15 and memory_of(days)
