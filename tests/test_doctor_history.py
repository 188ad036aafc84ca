"""The doctor on what is derived or hidden: history, the index, leftovers of writes; and a vault that is half lost."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import changes_of, edit_by_hand, snapshot
from shell import Shell

from memory_fs.doctor import Findings, Trouble, examine
from memory_fs.history import MAIN
from memory_fs.history_check import Checkup
from memory_fs.search import Search
from memory_fs.testing import make_vault
from memory_fs.vault import Transaction, Vault

NOTE = "archival/2026/11/biscuit.md"
GIT = ".memory_fs/git"
TEXT = "Biscuit is a golden retriever.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a vault with a few changes and an index; nothing has it open."""
    with make_vault(tmp_path / "vault") as made:
        for number in range(3):
            made.transact(lambda t, n=number: t.write(NOTE, TEXT * (n + 1)), f"Change {number}")  # type: ignore[misc]
        search = Search(made)
        search.sync()
        search.close()
    return tmp_path / "vault"


@contextlib.contextmanager
def opened(root: Path) -> Iterator[Vault]:
    """The vault, open."""
    with Vault(root) as vault:
        yield vault


def everything(root: Path) -> dict[str, bytes]:
    """path -> bytes of every file, those of history and index among them."""
    return {place.relative_to(root).as_posix(): place.read_bytes() for place in root.rglob("*") if place.is_file()}


def of_kind(found: Findings, kind: str) -> list[Trouble]:
    """The troubles of a kind."""
    return [trouble for trouble in found.troubles if trouble.kind == kind]


def place_of(root: Path, oid: str) -> Path:
    """The file of an object."""
    return root / GIT / "objects" / oid[:2] / oid[2:]


def damage(root: Path, oid: str, data: bytes | None) -> None:
    """Put other bytes in the place of an object, or take it away."""
    place = place_of(root, oid)
    place.chmod(0o644)
    place.unlink() if data is None else place.write_bytes(data)


def blob_of(root: Path, path: str = NOTE, back: int = 0) -> str:
    """The object of a file, so many changes ago."""
    with opened(root) as vault:
        return vault.history.blob_id(path, f"{MAIN}~{back}") or ""


def test_look_touches_nothing_at_all(root: Path) -> None:
    """Looking writes no file: not in history, not in the index, not in the lock."""
    (root / NOTE).write_text("By hand.\n")
    before = everything(root)
    examine(root)
    assert everything(root) == before


# -- objects --------------------------------------------------------------------------------------------------------

HARM = {"missing": None, "empty": b"", "torn": b"x\x9c\x01", "junk": b"junk", "other": zlib.compress(b"blob 1\0x")}


@pytest.mark.parametrize("harm", HARM)
def test_damaged_object_of_a_file_that_is_there_is_written_anew(root: Path, harm: str) -> None:
    """The file on disk has just the content that history lost: its object comes back, and plain git agrees."""
    blob = blob_of(root)
    damage(root, blob, HARM[harm])
    before = snapshot(Vault(root))
    (trouble,) = of_kind(examine(root), "object")
    assert NOTE in trouble.what and blob[:12] in trouble.what and trouble.fix
    found = examine(root, fix=True)
    assert of_kind(found, "object")[0].fixed and not found.left
    assert snapshot(Vault(root)) == before
    subprocess.run(["git", f"--git-dir={root / GIT}", "fsck", "--no-dangling"], check=True, capture_output=True)


@pytest.mark.parametrize("harm", ["missing", "torn", "other"])
def test_damaged_object_of_the_past_is_told_of(root: Path, harm: str) -> None:
    """What only history had cannot be made again; which change it belongs to is said, and work can go on."""
    damage(root, blob_of(root, back=1), HARM[harm])
    (trouble,) = of_kind(examine(root), "object")
    assert NOTE in trouble.what and trouble.fix is None and "good copy" in trouble.mend
    (root / "core/.0123456789abcdef.tmp").write_bytes(b"")
    found = examine(root, fix=True)
    assert [one.kind for one in found.left] == ["object"] and of_kind(found, "leftover")[0].fixed


@pytest.mark.parametrize("what", ["commit", "tree"])
def test_damaged_newest_change_stops_all_repairs_on_top_of_it(root: Path, what: str) -> None:
    """While the newest change cannot be read nothing is put on top of it, and the last resort is named."""
    with opened(root) as vault:
        head = vault.history.head or ""
    tree = Checkup(root / GIT).changes()[0][1]
    damage(root, head if what == "commit" else tree, b"")
    (root / "queue.yaml").write_text("messages: [2026-11-29/gone]\n")
    before = snapshot_of(root)
    found = examine(root, fix=True)
    assert {one.kind for one in found.left} == {"object", "queue"}
    assert "starts a new history" in of_kind(found, "object")[0].mend and snapshot_of(root) == before


def snapshot_of(root: Path) -> dict[str, bytes]:
    """The memory files, of a vault that may not open."""
    return {path: data for path, data in everything(root).items() if not path.startswith(".memory_fs")}


def test_history_that_was_pruned_is_whole(root: Path) -> None:
    """Where history was cut off on purpose, what lies before is not missed."""
    with opened(root) as vault:
        revs = [change.rev for change in changes_of(vault)]
    (root / GIT / "shallow").write_text(revs[1] + "\n")
    damage(root, revs[2], None)
    found = examine(root)
    assert not found.troubles and found.changes == 2


# -- the branch and the repository ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, b"", b"torn"])
def test_lost_branch_is_the_end_of_the_longest_line(root: Path, data: bytes | None) -> None:
    """A branch that is missing or damaged is named again, so that no second history starts beside the first."""
    place = root / GIT / MAIN
    head = place.read_text().strip()
    place.unlink() if data is None else place.write_bytes(data)
    (trouble,) = of_kind(examine(root), "branch")
    assert head[:8] in trouble.what
    found = examine(root, fix=True)
    assert of_kind(found, "branch")[0].fixed and not found.left
    with opened(root) as vault:
        assert vault.history.head == head


def test_branch_that_could_be_either_is_not_guessed(root: Path) -> None:
    """Two lines of the same length: both are named, neither is chosen."""
    with opened(root) as vault:
        head = vault.history.head or ""
        before = vault.history.parent(head) or ""
        vault.history.reset(before)
        vault.history.prepare({NOTE: b"other"}, ("a", "b"), "Other", {}, vault.now())
    (root / GIT / MAIN).unlink()
    (trouble,) = of_kind(examine(root), "branch")
    assert trouble.fix is None and head[:8] in trouble.mend and "branch main REV" in trouble.mend
    assert of_kind(examine(root, fix=True), "branch") == [trouble] and not (root / GIT / MAIN).exists()


def git(root: Path, *arguments: str) -> None:
    """Somebody uses plain git on the history."""
    subprocess.run(["git", f"--git-dir={root / GIT}", *arguments], check=True, capture_output=True)


STRANGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "other work tree": (lambda root: git(root, "config", "core.worktree", "/somewhere"), "core.worktree"),
    "other branch": (lambda root: git(root, "symbolic-ref", "HEAD", "refs/heads/mine"), "HEAD is mine"),
    "no repository": (lambda root: [shutil.rmtree(root / GIT), (root / GIT).write_text("gitdir: x")], "no repository"),
    "half a repository": (lambda root: shutil.rmtree(root / GIT / "objects"), "no repository"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_repository_that_is_not_ours_is_left_alone(root: Path, name: str) -> None:
    """What is not as this program makes it is said, with the command that puts it right, and not touched."""
    make, words = STRANGE[name]
    make(root)
    before = everything(root)
    found = examine(root, fix=True)
    (trouble,) = of_kind(found, "repository")
    assert words in trouble.what and trouble.fix is None and trouble.mend
    assert everything(root) == before


def test_missing_head_is_written_again(root: Path) -> None:
    """A repository without its HEAD opens again, with all its changes."""
    (root / GIT / "HEAD").unlink()
    (trouble,) = of_kind(examine(root), "repository")
    assert "HEAD" in trouble.what
    found = examine(root, fix=True)
    assert not found.left and found.changes == 4


def test_vault_without_history_gets_one(root: Path) -> None:
    """Files that were copied without their history are fine, and a fix starts a new one."""
    shutil.rmtree(root / ".memory_fs")
    found = examine(root)
    assert not found.left and of_kind(found, "repository")[0].normal and not (root / ".memory_fs").exists()
    assert not examine(root, fix=True).left
    assert (examine(root).troubles, examine(root).changes) == ((), 1)


# -- what differs, what was interrupted -----------------------------------------------------------------------------


def test_hand_edits_are_normal_and_adopted_by_a_fix(root: Path) -> None:
    """Files that were changed, made and deleted since the last change are listed; --fix takes them into history."""
    with opened(root) as vault:
        edit_by_hand(vault, NOTE, "Mine.\n")
        edit_by_hand(vault, "archival/new.md", "New.\n")
        (vault.root / "system.md").unlink()
        found = examine(root)
        words = {one.path: one.what.split()[0] for one in of_kind(found, "edited")}
        assert words == {NOTE: "changed", "archival/new.md": "made", "system.md": "deleted"} and not found.left
        assert all(one.fixed for one in of_kind(examine(root, fix=True), "edited"))
        assert changes_of(vault)[0].subject.endswith("by hand") and not examine(root).troubles


def test_interrupted_change_is_told_and_finished(root: Path) -> None:
    """A change whose files are not all in place is normal after a crash; a fix opens the vault, which finishes it."""
    with opened(root) as vault:
        rev = vault.history.prepare({NOTE: b"after\n"}, ("a", "b"), "Interrupted", {}, vault.now()) or ""
        vault.journal.begin(rev)
    found = examine(root)
    assert of_kind(found, "interrupted")[0].normal and not found.left
    assert (root / NOTE).read_bytes() != b"after\n"
    assert of_kind(examine(root, fix=True), "interrupted")[0].fixed
    assert (root / NOTE).read_bytes() == b"after\n" and not examine(root).troubles


def test_leftover_that_holds_what_nothing_else_has_is_kept(root: Path) -> None:
    """A killed write can leave a person's text under a temporary name: that is set aside, known texts are removed."""
    (root / "core/.00000000000000aa.tmp").write_text("A person's words.\n")
    (root / "core/.00000000000000bb.tmp").write_text(TEXT)
    assert not examine(root, fix=True).left
    assert not list(root.rglob("*.tmp"))
    (kept,) = (root / "core").glob("*.broken-1")
    assert kept.read_text() == "A person's words.\n"


def test_young_leftover_inside_is_not_looked_at(root: Path) -> None:
    """Files that are written without the lock have an hour before anybody calls them left behind."""
    (root / ".memory_fs/.00000000000000aa.tmp").write_text("{}")
    assert not examine(root, fix=True).troubles and list(root.rglob("*.tmp"))


@pytest.mark.parametrize("closed", [".memory_fs", f"{GIT}/objects", "core"])
def test_what_may_not_be_read_is_not_called_damaged(tmp_path: Path, root: Path, closed: str) -> None:
    """Folders without permission are told with the command that opens them, and nothing is given up for lost."""
    shell = Shell(tmp_path)
    (root / closed).chmod(0)
    done = shell.powerless("doctor", "--fix", "--json")
    (root / closed).chmod(0o755)
    assert done.status == 1 and not done.err
    found = [one for one in done.json["troubles"] if not one["normal"]]
    assert found and all(one["kind"] in ("permissions", "unreadable") and "chmod u+rw" in one["mend"] for one in found)
    assert not examine(root).troubles


# -- the index ------------------------------------------------------------------------------------------------------


def index_files(root: Path) -> list[Path]:
    """The files of the search index."""
    return [place for place in (root / ".memory_fs/index").rglob("*") if place.is_file() and place.name != "lock"]


def test_missing_or_foreign_index_is_normal(root: Path) -> None:
    """An index that is not there, or of another version, is built by the next search, or by a fix."""
    folder = root / ".memory_fs/index"
    (own,) = (place for place in folder.iterdir() if place.is_dir())
    own.rename(own.with_name("000000000000"))
    (trouble,) = examine(root).troubles
    assert (trouble.kind, trouble.normal) == ("index", True) and "another version" in trouble.what
    shutil.rmtree(folder)
    (trouble,) = examine(root).troubles
    assert trouble.normal and "not there yet" in trouble.what
    assert of_kind(examine(root, fix=True), "index")[0].fixed and index_files(root)
    assert not examine(root).troubles


def test_damaged_index_is_rebuilt(root: Path) -> None:
    """A part that was cut short is a trouble, and a fix builds the index anew."""
    for place in index_files(root):
        place.write_bytes(place.read_bytes()[:-1])
    (trouble,) = examine(root).troubles
    assert trouble.kind == "index" and not trouble.normal and trouble.fix
    assert examine(root, fix=True).troubles[0].fixed and not examine(root).troubles


def test_index_that_says_something_else_is_rebuilt(root: Path) -> None:
    """Each record of the index is held against its file: a wrong one is found although the index looks whole."""
    with opened(root) as vault:
        search = Search(vault)
        files = {path: blob for path, blob in vault.files().items() if path.startswith("archival/")}
        search.index.clear()
        load = search.load
        search.index.sync(files, lambda path: [])  # as if it had read nothing
        search.close()
        (trouble,) = examine(root).troubles
        assert (trouble.path, trouble.kind) == (NOTE, "index") and "something else" in trouble.what
        assert examine(root, fix=True).troubles[0].fixed and not examine(root).troubles
        assert load(NOTE)


def test_index_that_is_behind_is_no_trouble(root: Path) -> None:
    """A note that no search has seen yet is read by the next one."""

    def work(transaction: Transaction) -> None:
        transaction.write("archival/new.md", "New.\n")

    with opened(root) as vault:
        vault.transact(work, "New")
    assert not examine(root).troubles
