"""What a crash, a power cut and a save at the wrong moment leave, and what the next start makes of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from memory_fs import journal as journals
from memory_fs import swap as swaps
from memory_fs.disk import Disk, digest
from memory_fs.errors import Conflict
from memory_fs.history import AGENT
from memory_fs.journal import Journal
from memory_fs.swap import swap
from memory_fs.testing import fixed_clock, make_vault
from memory_fs.vault import Vault

HUMAN, NOTE = "core/human.yaml", "archival/note.md"
OLD, NEW = b"value: old\n", b"value: new\n"


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """A small vault."""
    return make_vault(tmp_path / "vault", {HUMAN: OLD.decode()})


def begin(vault: Vault, files: dict[str, bytes | None], in_place: int = 0) -> str:
    """A change that got as far as the journal, and so many of its files; the branch has not moved."""
    rev = vault.history.prepare(files, AGENT, "Interrupted", {}, fixed_clock()())
    assert rev
    for path in files:
        if (vault.root / path).exists():  # what was there is older than the change
            os.utime(vault.root / path, ns=(1, 1))
    vault.journal.begin(rev)
    for path, data in list(files.items())[:in_place]:
        vault.root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        vault.root.joinpath(path).write_bytes(data or b"")
    return rev


def reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the machine runs anew."""
    monkeypatch.setattr(journals, "boot_id", lambda: "another-run")


def object_of(vault: Vault, data: bytes) -> Path:
    """Where the history keeps a text."""
    blob = digest(data)
    return vault.root / ".memory_fs/git/objects" / blob[:2] / blob[2:]


# -- the journal ------------------------------------------------------------------------------------------------------


def test_journal_names_what_is_not_done(tmp_path: Path) -> None:
    """A change is unfinished from its beginning to its end, and a name that is given up is none."""
    journal = Journal(tmp_path, True)
    assert journal.unfinished() == []
    first = journal.begin("a" * 40)
    assert [entry.rev[0] for entry in journal.unfinished()] == ["a"]
    journal.done(first)
    second = journal.begin("b" * 40)
    assert [entry.rev[0] for entry in journal.unfinished()] == ["b"]
    journal.cancel(second)
    assert journal.unfinished() == [] and [entry.rev[0] for entry in journal.begun()] == ["a"]


def test_marks_of_an_earlier_run_prove_nothing_unless_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut the last two changes are looked at again; what was synced before it is not."""
    journal = Journal(tmp_path, True)
    for letter in "abc":
        journal.done(journal.begin(letter * 40))
    reboot(monkeypatch)
    assert [(entry.rev[0], entry.lost_power) for entry in journal.unfinished()] == [("b", True), ("c", True)]
    monkeypatch.undo()
    journal.settle()
    reboot(monkeypatch)
    assert journal.unfinished() == []


@pytest.mark.parametrize("data", [b"", b"\0" * 768, b"begin 1", b"\xff" * 768, b"begin 1 2 3 4\n".ljust(768)])
def test_torn_journal_is_no_journal(tmp_path: Path, data: bytes) -> None:
    """Lines that are no lines of ours name nothing, and the next change writes over them."""
    (tmp_path / "journal").write_bytes(data)
    journal = Journal(tmp_path, False)
    assert journal.unfinished() == []
    journal.begin("a" * 40)
    assert [entry.rev for entry in journal.unfinished()] == ["a" * 40]


def test_machine_without_a_boot_id_is_always_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not tell its runs apart every file was synced by itself, and marks are good."""
    monkeypatch.setattr(journals, "boot_id", lambda: "-")
    journal = Journal(tmp_path, False)
    journal.done(journal.begin("a" * 40))
    assert Journal(tmp_path, False).unfinished() == []


# -- after a power cut ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_place", [0, 1, 2])
def test_change_that_was_durable_is_finished(vault: Vault, monkeypatch: pytest.MonkeyPatch, in_place: int) -> None:
    """Objects and journal were on the device: whatever became of the files, the change is whole at the next start."""
    rev = begin(vault, {HUMAN: NEW, NOTE: b"note\n"}, in_place)
    vault.close()
    reboot(monkeypatch)
    with Vault(vault.root) as again:
        assert (again.read(HUMAN), again.read(NOTE), again.history.head) == (NEW.decode(), "note\n", rev)
        assert again.adopt() is None and again.journal.unfinished() == []


@pytest.mark.parametrize("left", [None, b"", b"x\x9c\x4b"])
def test_change_that_was_not_durable_is_dropped(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, left: bytes | None
) -> None:
    """An object is missing, empty or torn: nothing was acknowledged or done, and the same text can be saved."""
    head = vault.history.head
    begin(vault, {HUMAN: NEW})
    vault.close()
    place = object_of(vault, NEW)
    place.chmod(0o644)
    place.unlink() if left is None else place.write_bytes(left)
    reboot(monkeypatch)
    with Vault(vault.root) as again:
        assert again.read(HUMAN) == OLD.decode() and again.history.head == head
        again.transact(lambda t: t.write(HUMAN, NEW.decode()), "Again")
        assert again.history.read(HUMAN) == NEW and not list(again.history.objects.broken())


def test_object_that_was_put_aside_is_not_deleted(vault: Vault) -> None:
    """What the doctor set aside among the objects has another name, and no recovery takes it for a torn one."""
    aside = object_of(vault, OLD).with_suffix(".broken")
    aside.write_bytes(b"torn")
    vault.history.objects.drop_broken(0)
    assert aside.exists() and vault.history.read(HUMAN) == OLD


def test_acknowledged_change_is_done_again_where_only_its_files_were_lost(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renames and the branch of the last change were not on the device yet: the journal brings them back."""
    head = vault.history.head
    vault.transact(lambda t: t.write(HUMAN, NEW.decode()), "Acknowledged")
    vault._wrote = False  # a power cut, not a close
    vault.close()
    (vault.root / HUMAN).write_bytes(OLD)
    os.utime(vault.root / HUMAN, ns=(1, 1))
    (vault.root / ".memory_fs/git/refs/heads/main").write_text(f"{head}\n")
    reboot(monkeypatch)
    with Vault(vault.root) as again:
        assert again.read(HUMAN) == NEW.decode() and again.history.read(HUMAN) == NEW and again.adopt() is None


def test_old_text_that_a_person_put_back_stays(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly the old text, saved by hand after the change, is an edit like any other: no recovery undoes it."""
    vault.transact(lambda t: t.write(HUMAN, NEW.decode()), "Change")
    vault._wrote = False
    vault.close()
    time.sleep(0.01)
    (vault.root / HUMAN).write_bytes(OLD)
    reboot(monkeypatch)
    with Vault(vault.root) as again:
        assert again.read(HUMAN) == OLD.decode()
        assert again.adopt() is not None and again.history.read(HUMAN) == OLD


@pytest.mark.parametrize("left", ["", "\0" * 41, "1" * 40 + "\n"])
def test_branch_that_was_lost_is_found_in_the_journal(vault: Vault, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    """An empty, torn or dangling branch: the newest whole change takes its place."""
    _, change = vault.transact(lambda t: t.write(HUMAN, NEW.decode()), "Change")
    vault._wrote = False
    vault.close()
    (vault.root / ".memory_fs/git/refs/heads/main").write_text(left)
    reboot(monkeypatch)
    with Vault(vault.root) as again:
        assert change and again.history.head == change.rev and again.adopt() is None


def test_note_deleted_after_a_clean_end_stays_deleted(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vault that was closed is settled: what a person deletes afterwards is not brought back after a restart."""
    vault.transact(lambda t: t.write(NOTE, "note\n"), "Change")
    vault.close()
    (vault.root / NOTE).unlink()
    reboot(monkeypatch)
    with Vault(vault.root) as again:
        assert again.read(NOTE) is None


# -- a save at the wrong moment ---------------------------------------------------------------------------------------


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return [place.name for place in folder.iterdir()]


def files(tmp_path: Path, there: bytes | None) -> tuple[Path, Path]:
    """A place, with or without a file, and a file that is to go there."""
    place, aside = tmp_path / "place", tmp_path / "aside"
    aside.write_bytes(b"new")
    if there is not None:
        place.write_bytes(there)
    return place, aside


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("before", [None, b"old"])
def test_swap_puts_a_file_in_place(
    tmp_path: Path, before: bytes | None, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known to be there is replaced, with an exchange of names or without one."""
    if plain:
        monkeypatch.setattr(swaps, "_RENAME", None)
    place, aside = files(tmp_path, before)
    assert swap(aside, place, before) and place.read_bytes() == b"new" and names(tmp_path) == ["place"]
    assert swap(None, place, b"new") and names(tmp_path) == [] and swap(None, place, None)


@pytest.mark.parametrize("before", [None, b"old"])
def test_swap_leaves_what_it_does_not_know(tmp_path: Path, before: bytes | None) -> None:
    """Another text at the place stays, and so does the file that was to replace it."""
    place, aside = files(tmp_path, b"by hand")
    assert not swap(aside, place, before) and not swap(None, place, before)
    assert (place.read_bytes(), aside.read_bytes()) == (b"by hand", b"new")


@pytest.mark.skipif(swaps._RENAME is None, reason="this system cannot exchange two names")
@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("before", [None, b"old"])
def test_save_between_the_look_and_the_rename_stays(
    tmp_path: Path, before: bytes | None, delete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person saves at the very last moment: the exchange shows it, and their text goes back to its place."""
    place, aside = files(tmp_path, before)
    if delete and before is None:
        return
    look, looks = swaps._read, []

    def saving(where: Path) -> bytes | None:
        found = look(where)
        looks.append(where)
        if len(looks) == 1:
            place.write_bytes(b"by hand")
        return found

    monkeypatch.setattr(swaps, "_read", saving)
    assert not swap(None if delete else aside, place, before)
    assert place.read_bytes() == b"by hand" and sorted(names(tmp_path)) == ["aside", "place"]


def test_disk_without_an_exchange_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows no exchange (an error of its own) gets a plain rename."""
    import ctypes
    import errno

    def refuse(*_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(swaps, "_RENAME", refuse)
    place, aside = files(tmp_path, b"old")
    assert swap(aside, place, b"old") and place.read_bytes() == b"new"


def test_conflict_of_one_file_leaves_temporary_files_of_none(vault: Vault) -> None:
    """Where one file was changed meanwhile the others that wait are removed."""
    disk = Disk(vault.root)
    with pytest.raises(Conflict), disk.staged({HUMAN: NEW, NOTE: b"x"}) as install:
        install({HUMAN: b"something else", NOTE: None})
    assert vault.read(HUMAN) == OLD.decode() and not list(vault.root.rglob("*.tmp"))
