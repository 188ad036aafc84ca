"""The doctor on files: each trouble made for real in a small vault, named with its line, mended where that is safe."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from conftest import changes_of, edit_by_hand, snapshot
from shell import Shell

from memory_fs.doctor import Findings, Trouble, examine
from memory_fs.errors import VaultError
from memory_fs.formats.day import parse_day
from memory_fs.formats.note import Note, parse_note, render_note
from memory_fs.formats.settings import parse_queue
from memory_fs.search import Search
from memory_fs.testing import make_vault
from memory_fs.vault import Vault

DAY = "recall/2026/11/2026-11-29.md"
NEXT = "recall/2026/11/2026-11-30.md"
NOTE = "archival/2026/11/biscuit.md"
HUMAN = "core/human.yaml"
BISCUIT = render_note(Note("bisc1", "Biscuit is a golden retriever."))


def message(message_id: str, text: str, second: int = 0) -> str:
    """One section of a day file."""
    return f"## 10:00:{second:02d}+00:00 user {message_id} (s-1, turn 1)\n\n{text}\n\n"


FIRST, SECOND, THIRD = (message(f"m{n}", f"Message {n}.", n) for n in (1, 2, 3))
FILES = {
    DAY: "# 2026-11-29\n\n" + FIRST + SECOND + THIRD,
    NEXT: "# 2026-11-30\n\n" + message("m4", "Message 4."),
    NOTE: BISCUIT,
    "queue.yaml": "turn: 4\nsummary: We met.\nmessages:\n  - 2026-11-29/m2\n  - 2026-11-29/m3\n  - 2026-11-30/m4\n",
}


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    """A vault with a note, two days, a queue and an index."""
    with make_vault(tmp_path / "vault", FILES) as made:
        search = Search(made)
        search.sync()
        search.close()
        yield made


@dataclass(frozen=True)
class Sick:
    """A trouble, and what the doctor should say of it.

    Attributes:
        make: does it to a vault.
        path, kind, line: of the finding.
        words: are in what is said.
        fixable: whether `--fix` mends it.
        normal: whether it is only worth knowing.
    """

    make: Callable[[Vault], object]
    path: str
    kind: str
    line: int = 0
    words: str = ""
    fixable: bool = False
    normal: bool = False


def put(path: str, text: str | bytes) -> Callable[[Vault], object]:
    """A person saves a file."""
    return lambda vault: edit_by_hand(vault, path, text)


def link(path: str, target: str) -> Callable[[Vault], object]:
    """A person makes a symbolic link."""

    def make(vault: Vault) -> None:
        (vault.root / path).parent.mkdir(exist_ok=True, parents=True)
        (vault.root / path).symlink_to(target)

    return make


def name_of_bytes(vault: Vault) -> None:
    """A file whose name is no text."""
    (vault.root / "archival" / os.fsdecode(b"caf\xe9.md")).write_text("x")


def folder_in_place(vault: Vault) -> None:
    """A folder where a block belongs."""
    (vault.root / "core/pets.yaml").mkdir()


def pipe(vault: Vault) -> None:
    """What would be read for ever."""
    (vault.root / "archival").mkdir(exist_ok=True)
    os.mkfifo(vault.root / "archival/x.md")


def two_forms(vault: Vault) -> None:
    """Two names that look the same."""
    for form in ("NFC", "NFD"):
        edit_by_hand(vault, f"archival/{unicodedata.normalize(form, 'café')}.md", "x")  # type: ignore[arg-type]


def leftover(vault: Vault) -> None:
    """What a write that was killed leaves."""
    (vault.root / "core/.0123456789abcdef.tmp").write_bytes(b"")


def chmod(path: str, mode: int) -> Callable[[Vault], object]:
    """Permission bits are lost."""
    return lambda vault: (vault.root / path).chmod(mode)


SPLIT = "{\n<<<<<<< ours\nLives in Porto.\n=======\nLives in Rome.\n>>>>>>> theirs\n"
TAGS = "".join(chr(0xE0000 + ord(char)) for char in "obey")
SICK = {
    # settings and blocks
    "broken settings": Sick(put("memory.yaml", "zone: UTC\nwindow: [\n"), "memory.yaml", "broken", 3),
    "setting out of range": Sick(put("memory.yaml", "window: 3\n"), "memory.yaml", "broken", 1, "512 tokens"),
    "unknown setting": Sick(put("memory.yaml", "zone: UTC\nwindw: 9\n"), "memory.yaml", "settings", 2, "`windw`"),
    "broken block": Sick(put(HUMAN, "limit: 9\nvalue: [x\n"), HUMAN, "broken", 3),
    "active block": Sick(put(HUMAN, "value: &a x\n"), HUMAN, "broken", 1, "anchors"),
    "repeated key": Sick(put(HUMAN, "value: x\nvalue: y\n"), HUMAN, "block", 2, "twice"),
    "oversize block": Sick(put(HUMAN, "limit: 3\nvalue: abcde\n"), HUMAN, "oversize", 2, "2 over its limit of 3"),
    "label of another": Sick(put(HUMAN, "value: x\nlabel: humans\n"), HUMAN, "label", 2, "`label: humans`"),
    # notes
    "unclosed front matter": Sick(put(NOTE, "---\nid: a\nHello.\n"), NOTE, "front-matter", 1, "no closing ---"),
    "unopened front matter": Sick(put(NOTE, "id: a\ntags: [x]\n---\nHi.\n"), NOTE, "front-matter", 1, "no opening ---"),
    "tab": Sick(put(NOTE, "---\nid: a\n\ttags: x\n---\nHi.\n"), NOTE, "front-matter", 3, "front matter ignored"),
    "repeated key of a note": Sick(put(NOTE, "---\nid: a\nid: b\n---\nHi.\n"), NOTE, "front-matter", 3, "twice"),
    "no mapping": Sick(put(NOTE, "---\n- a\n---\nHi.\n"), NOTE, "front-matter", 2, "key: value"),
    "no date": Sick(put(NOTE, "---\nid: a\ncreated: soon\n---\nHi.\n"), NOTE, "front-matter", 3, "'soon' ignored"),
    "no tags": Sick(put(NOTE, "---\nid: a\ntags: {a: b}\n---\nHi.\n"), NOTE, "front-matter", 3, "tags ignored"),
    "hostile id": Sick(put(NOTE, "---\nid: ../x\n---\nHi.\n"), NOTE, "front-matter", 2, "'../x' ignored"),
    "empty note": Sick(put(NOTE, "---\nid: a\n---\n"), NOTE, "front-matter", 0, "without text", normal=True),
    "copied note": Sick(put("archival/a copy.md", BISCUIT), "archival/a copy.md", "duplicate-id", 2, NOTE, True),
    # recall
    "broken heading": Sick(put(DAY, FILES[DAY].replace("10:00:02", "99:00:02")), DAY, "section", 7, "lost", True),
    "torn section": Sick(
        put(DAY, FILES[DAY].replace("Message 2", "Mess\udcff").encode(errors="surrogateescape")),
        DAY, "section", 9, "not UTF-8", True,
    ),
    "text above": Sick(put(DAY, "Dear diary\n\n" + FILES[DAY]), DAY, "section", 1, "above the first message"),
    "same message twice": Sick(put(DAY, FILES[DAY] + SECOND), DAY, "message-id", 15, f"first in {DAY}:7", True),
    "message of another day": Sick(put(NEXT, FILES[NEXT] + FIRST), NEXT, "message-id", 7, f"first in {DAY}:3", True),
    "title of another day": Sick(
        put(DAY, FILES[DAY].replace("# 2026-11-29", "# 2026-11-28")), DAY, "day", 1, "2026-11-28"
    ),
    "day in another month": Sick(put("recall/2026/10/2026-11-28.md", ""), "recall/2026/10/2026-11-28.md", "day"),
    "no day": Sick(put("recall/2026/11/x.md", "x"), "recall/2026/11/x.md", "day", 0, "no day"),
    # the queue
    "message that is gone": Sick(put(DAY, "# 2026-11-29\n\n" + FIRST + SECOND), "queue.yaml", "queue", 5, "m3", True),
    "no reference": Sick(put("queue.yaml", "messages:\n  - hello\n"), "queue.yaml", "queue", 2, "hello", True),
    "named twice": Sick(
        put("queue.yaml", "messages: [2026-11-29/m2, 2026-11-29/m2]\n"), "queue.yaml", "queue", 1, "twice", True
    ),
    "broken queue": Sick(put("queue.yaml", "turn: x\n"), "queue.yaml", "broken", 1, "whole number", True),
    # any text
    "no text": Sick(put(NOTE, b"---\nid: a\n---\ncaf\xe9\n"), NOTE, "encoding", 4, "not UTF-8"),
    "block that is no text": Sick(put(HUMAN, b"# \xff\n"), HUMAN, "encoding", 1, "not UTF-8"),
    "NUL": Sick(put(NOTE, BISCUIT + "\0\0"), NOTE, "encoding", 6, "2 NUL"),
    "conflict": Sick(put(NOTE, BISCUIT + SPLIT), NOTE, "conflict", 7, "both sides"),
    "conflict in instructions": Sick(put("system.md", SPLIT.replace("\n", "\r\n")), "system.md", "conflict", 2),
    "hidden order": Sick(put(NOTE, BISCUIT + TAGS), NOTE, "hidden", 6, "4 characters", normal=True),
    "turned words": Sick(put("system.md", "a\n\u202eevil"), "system.md", "hidden", 2, normal=True),
    "zero-width letters": Sick(put(NOTE, BISCUIT + "a\u200b\u200c\u200b"), NOTE, "hidden", 6, normal=True),
    # places
    "link to nothing": Sick(link("archival/x.md", "gone.md"), "archival/x.md", "link", 0, "nothing"),
    "link in a circle": Sick(link("archival/x.md", "x.md"), "archival/x.md", "link", 0, "circle"),
    "link out": Sick(link("archival/x.md", "/etc/hostname"), "archival/x.md", "link", 0, "out of the vault"),
    "folder that is a link": Sick(link("archival/all", "/etc"), "archival/all", "link", 0, "out of the vault"),
    "link inside": Sick(link("archival/x.md", "../system.md"), "archival/x.md", "link", 0, "not followed"),
    "name of bytes": Sick(name_of_bytes, "archival/caf\ufffd.md", "name", 0, "not UTF-8"),
    "name that git refuses": Sick(put("archival/git~1/x.md", "x"), "archival/git~1", "name", 0, "git keeps nothing"),
    "case only": Sick(put("archival/2026/11/Biscuit.md", "x"), NOTE, "name", 0, "'Biscuit.md'"),
    "accents only": Sick(two_forms, "archival/caf\u00e9.md", "name", 0, "same name"),
    "folder for a file": Sick(folder_in_place, "core/pets.yaml", "unreadable", 0, "a folder stands"),
    "pipe": Sick(pipe, "archival/x.md", "unreadable", 0, "no ordinary"),
    "closed file": Sick(chmod(NOTE, 0o400), NOTE, "permissions", 0, "-r--------"),
    "closed folder": Sick(chmod("core", 0o500), "core", "permissions", 0, "dr-x------"),
    "leftover": Sick(leftover, "core/.0123456789abcdef.tmp", "leftover", 0, "interrupted", True),
}  # fmt: skip


def told(found: Findings, path: str, kind: str) -> list[Trouble]:
    """What was said of a file."""
    return [trouble for trouble in found.troubles if (trouble.path, trouble.kind) == (path, kind)]


@pytest.mark.parametrize("name", SICK)
def test_trouble_is_named_and_mended_where_that_is_safe(vault: Vault, name: str) -> None:
    """A look names file, line and remedy and writes nothing; a fix mends what is safe, once, and nothing else."""
    sick = SICK[name]
    sick.make(vault)
    before, head = snapshot(vault), vault.history.head
    found = examine(vault.root)
    assert (snapshot(vault), vault.history.head) == (before, head)
    (trouble, *_) = told(found, sick.path, sick.kind)
    assert (trouble.line, trouble.fix is not None, trouble.normal) == (sick.line, sick.fixable, sick.normal)
    assert sick.words in trouble.what and trouble.mend and "\n" not in str(trouble)
    assert bool(found.left) == (not sick.normal)

    mended = examine(vault.root, fix=True)
    assert told(mended, sick.path, sick.kind)[0].fixed == sick.fixable
    assert bool(mended.left) == (not sick.normal and not sick.fixable)
    after = snapshot(vault)
    assert sick.fixable or after == before
    if sick.fixable:
        again = examine(vault.root, fix=True)
        assert not [one for one in again.troubles if one.fix] and snapshot(vault) == after


def test_whole_vault_is_fine(vault: Vault) -> None:
    """Nothing is found in a vault that is as the program made it, also with an edit by hand and a picture beside."""
    found = examine(vault.root)
    assert (found.troubles, found.files, found.changes, found.records) == ((), 8, 1, 5)
    edit_by_hand(vault, "archival/mine.md", "A note of my own, without front matter. 👨‍❤️‍👨 می‌خواهم 🏴󠁧󠁢󠁥󠁮󠁧󠁿\n")
    (vault.root / "archival/picture.png").write_bytes(b"\xff\0")
    found = examine(vault.root)
    assert [(one.kind, one.path) for one in found.troubles] == [("edited", "archival/mine.md")]
    assert not found.left


# -- what a fix does ------------------------------------------------------------------------------------------------


def test_broken_section_lies_beside_the_day_and_its_neighbours_stay(vault: Vault) -> None:
    """What is taken out of a day is kept byte for byte under a name that is no memory; all other bytes stay."""
    bad = "## 99:00:02+00:00 user m2\r\n\r\nlost \udcff\n\n"
    torn = ("\ufeff" + FILES[DAY].replace(SECOND, bad)).encode(errors="surrogateescape")
    edit_by_hand(vault, DAY, torn)
    examine(vault.root, fix=True)
    aside = vault.root / f"{DAY}.broken-1"
    assert aside.read_bytes() == bad.encode(errors="surrogateescape")
    assert (vault.root / DAY).read_bytes() == torn.replace(aside.read_bytes(), b"")
    assert f"{DAY}.broken-1" not in vault.files()
    messages, warnings = parse_day(vault.read(DAY) or "", date(2026, 11, 29))
    assert [one.id for one in messages] == ["m1", "m3"] and not warnings
    assert parse_queue(vault.read("queue.yaml") or "").messages == ("2026-11-29/m3", "2026-11-30/m4")
    subjects = [(change.author, change.subject) for change in changes_of(vault)][:2]
    assert subjects == [
        ("memory_fs", "Mend queue.yaml: names of messages that are gone"),
        ("memory_fs", f"Mend {DAY}: broken sections set aside"),
    ]
    edit_by_hand(vault, DAY, torn)  # once more, with other bytes: nothing that lies there is written over
    edit_by_hand(vault, DAY, torn.replace(b"lost", b"gone"))
    examine(vault.root, fix=True)
    assert b"gone" in (vault.root / f"{DAY}.broken-2").read_bytes() and b"lost" in aside.read_bytes()


def test_message_in_a_broken_section_stays_in_the_queue_until_it_is_mended(vault: Vault) -> None:
    """While a day is not wholly readable nothing that the queue names in it is called gone."""
    edit_by_hand(vault, DAY, FILES[DAY].replace("10:00:02", "99:00:02"))
    (trouble,) = told(examine(vault.root), "queue.yaml", "queue")
    assert trouble.fix is None and DAY in trouble.mend


def test_copy_is_what_came_later(vault: Vault) -> None:
    """The path that had an id first keeps it, whatever the names and times; the copy differs in its id alone."""
    vault.adopt()
    edit_by_hand(vault, "archival/2026/11/a.md", "\ufeff" + BISCUIT.replace("\n", "\r\n"))
    vault.adopt()
    os.utime(vault.root / "archival/2026/11/a.md", (1, 1))
    examine(vault.root, fix=True)
    assert vault.read(NOTE) == BISCUIT
    text = vault.read("archival/2026/11/a.md") or ""
    fresh = parse_note(text, "x").id
    assert fresh != "bisc1" and text == "\ufeff" + BISCUIT.replace("bisc1", fresh).replace("\n", "\r\n")


def test_moved_note_keeps_its_id(vault: Vault) -> None:
    """A note that was moved and then copied back: the place where it stood first counts."""
    edit_by_hand(vault, "archival/moved.md", (vault.root / NOTE).read_bytes())
    (vault.root / NOTE).unlink()
    vault.adopt()
    edit_by_hand(vault, "archival/copy.md", BISCUIT)
    (trouble,) = [one for one in examine(vault.root).troubles if one.kind == "duplicate-id"]
    assert trouble.path == "archival/copy.md"


def test_renumbered_message_is_still_the_one_in_the_queue(vault: Vault) -> None:
    """Where the queue named the message that gets a fresh id, it names it still."""
    edit_by_hand(vault, NEXT, FILES[NEXT].replace("m4", "m2"))
    edit_by_hand(vault, "queue.yaml", "messages: [2026-11-29/m2, 2026-11-30/m2]\n")
    examine(vault.root, fix=True)
    first, second = parse_queue(vault.read("queue.yaml") or "").messages
    assert first == "2026-11-29/m2" and second != "2026-11-30/m2"
    assert second.partition("/")[2] in (vault.read(NEXT) or "")


def test_broken_queue_is_set_aside_for_the_last_good_one(vault: Vault) -> None:
    """A queue that cannot be read is kept beside, and the newest of history that can be is in use again."""
    edit_by_hand(vault, "queue.yaml", "messages: 5\nsummary: mine\n")
    vault.adopt()
    edit_by_hand(vault, "queue.yaml", "messages: 6\nsummary: mine\n")
    examine(vault.root, fix=True)
    assert vault.read("queue.yaml") == FILES["queue.yaml"]
    assert (vault.root / "queue.yaml.broken-1").read_text() == "messages: 6\nsummary: mine\n"


def test_leftover_of_a_writer_at_work_is_left_alone(vault: Vault) -> None:
    """While another program holds the lock its temporary files are no trouble, and nothing is mended."""
    leftover(vault)
    with vault.disk.lock():
        found = examine(vault.root)
        assert [one.kind for one in found.troubles] == ["lock"] and not found.left
    assert told(examine(vault.root, fix=True), "core/.0123456789abcdef.tmp", "leftover")[0].fixed


def test_quarantine_never_follows_a_link(vault: Vault, tmp_path: Path) -> None:
    """A link that waits under the name of a quarantine file is not written through."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (vault.root / f"{DAY}.broken-1").symlink_to(victim)
    edit_by_hand(vault, DAY, FILES[DAY].replace("10:00:02", "99:00:02"))
    examine(vault.root, fix=True)
    assert victim.read_text() == "mine" and (vault.root / f"{DAY}.broken-2").is_file()


def test_fix_that_cannot_be_written_says_why(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair that fails leaves its trouble in the list with the reason, and the others are done."""
    edit_by_hand(vault, DAY, FILES[DAY].replace("10:00:02", "99:00:02"))
    leftover(vault)
    (vault.root / f"{DAY}.broken-1").mkdir()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memory_fs.doctor.mend._write_new", full)
    found = examine(vault.root, fix=True)
    (trouble,) = told(found, DAY, "section")
    assert not trouble.fixed and "No space left on device" in trouble.mend
    assert told(found, "core/.0123456789abcdef.tmp", "leftover")[0].fixed
    assert "99:00:02" in (vault.read(DAY) or "")


# -- the command ----------------------------------------------------------------------------------------------------


def test_command_tells_and_exits_by_what_is_left(tmp_path: Path) -> None:
    """Status 0 and one line when all is fine, 1 while something is wrong, 2 without a vault; --json has every field."""
    shell = Shell(tmp_path)
    assert "memory-fs init" in shell.here("doctor").complaint
    with make_vault(shell.vault, FILES):
        pass
    done = shell.here("doctor", "--fix")
    assert (done.status, done.out.splitlines()[-1]) == (0, "no trouble found: 8 files, 1 changes, 5 records")
    assert shell.here("doctor").out == "no trouble found: 8 files, 1 changes, 5 records\n"
    (shell.vault / HUMAN).write_text("limit: 1\nvalue: a\x1b[2Jb\n")
    (shell.vault / DAY).write_text(FILES[DAY].replace("10:00:02", "99:00:02"))
    done = shell.here("doctor")
    assert done.status == 1 and f"{DAY}:7: a heading" in done.out and "can be mended with --fix" in done.out
    assert "\x1b" not in done.out
    done = shell.here("doctor", "--json")
    assert done.status == 1 and set(done.json) == {"troubles", "files", "changes", "records"}
    assert set(done.json["troubles"][0]) == {
        "path", "line", "column", "kind", "what", "mend", "normal", "fixable", "fixed"
    }  # fmt: skip
    (shell.vault / HUMAN).write_text("value: ab\n")
    done = shell.here("doctor", "--fix")
    assert done.status == 0 and "; mended" in done.out and "no trouble found" in done.out


def test_fix_waits_for_the_program_that_is_writing(vault: Vault) -> None:
    """With --fix another program that goes on writing is waited for, then told of; nothing was mended."""
    edit_by_hand(vault, DAY, FILES[DAY].replace("10:00:02", "99:00:02"))
    before = snapshot(vault)
    with vault.disk.lock(), pytest.raises(VaultError, match="another program"):
        examine(vault.root, fix=True, patience=0)
    assert snapshot(vault) == before


def test_example_of_the_readme_is_what_is_printed(tmp_path: Path) -> None:
    """The two troubles that the README shows look just so; only the counts are of another vault."""
    shell = Shell(tmp_path)
    block = f"label: human\nlimit: 2000\nread_only: false\nvalue: {'x' * 2104}\n"
    with make_vault(shell.vault, {HUMAN: block, DAY: FILES[DAY].replace("10:00:02", "99:00:02")}):
        pass
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    _, _, shown = readme.partition("$ memory-fs doctor\n")
    printed = shell.here("doctor").out.splitlines()
    assert printed[:4] == shown.splitlines()[:4]
    assert printed[-1].startswith("2 troubles in ") and printed[-1].endswith("; 1 can be mended with --fix")
