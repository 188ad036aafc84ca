"""Which paths are memory: hostile ones are refused before anything is read or written."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from conftest import changes_of, edit_by_hand

from memory_fs.agent import Agent
from memory_fs.disk import Disk, check_path, is_memory_file
from memory_fs.errors import VaultError
from memory_fs.undo import undo
from memory_fs.vault import Transaction, Vault

HOSTILE = [
    "",
    ".",
    "..",
    "/etc/passwd",
    "//core/human.yaml",
    "../core/human.yaml",
    "core/../../x.yaml",
    "core/../system.md",
    "archival/../../../x.md",
    "archival/./x.md",
    "archival//x.md",
    "archival/x.md/",
    "archival/a\0b.md",
    ".memory_fs/git/HEAD",
    ".memory_fs/git/config",
    "archival/.hidden.md",
    "archival/.git/x.md",
    "core/.human.yaml",
    "core/deep/er.yaml",
    "core/human.yml",
    "archival/x.sh",
    "recall/x.txt",
    "other/x.md",
    "README.md",
    "Core/human.yaml",
    "archival/" + "x" * 253 + ".md",
    "archival/" + "狗" * 85 + ".md",
]
UNPORTABLE = [
    "archival/a\\b.md",
    "archival/C:x.md",
    "archival/what?.md",
    "archival/a|b.md",
    "archival/a\nb.md",
    "archival/a\x1b[2J.md",
    "archival/con.md",
    "archival/AUX/x.md",
    "archival/dir /x.md",
    "archival/dir./x.md",
]
GOOD = [
    "memory.yaml",
    "system.md",
    "queue.yaml",
    "core/my pets.yaml",
    "recall/2026/11/2026-11-29.md",
    "archival/x.md",
    "archival/数据/🐕 notes.md",
    "archival/a/b/c/x.txt",
    "archival/" + "x" * 252 + ".md",
    "archival/café's (2).markdown",
]


def everything(vault: Vault) -> dict[Path, bytes]:
    """Every file in and around the vault, but for git's."""
    places = (place for place in vault.root.parent.rglob("*") if place.is_file())
    return {place: place.read_bytes() for place in places if ".memory_fs" not in place.parts}


def write(transaction: Transaction, path: str) -> None:
    """A change that would lose something, and then name a path."""
    transaction.write("core/human.yaml", "value: lost\n")
    transaction.write(path, "x")


def put(transaction: Transaction, path: str) -> None:
    """The same with bytes of history."""
    transaction.put("core/human.yaml", None)
    transaction.put(path, b"x")


def read(transaction: Transaction, path: str) -> None:
    """The same for a path that is only read."""
    transaction.put("core/human.yaml", None)
    transaction.read(path)


def test_hostile_path_is_refused_before_anything_happens(vault: Vault) -> None:
    """A path that climbs, hides, names no memory or fits no file system is not written, nor read; nothing differs."""
    (vault.root.parent / "x.yaml").write_text("secret")
    before, head = everything(vault), vault.history.head
    for path in HOSTILE:
        for work in (write, put, read):
            with pytest.raises(VaultError, match="refused"):
                vault.transact(partial(work, path=path), "Break out")
        with pytest.raises(VaultError, match="refused"):
            vault.read(path)
    assert (everything(vault), vault.history.head) == (before, head)


def test_name_that_some_system_would_not_take_is_not_chosen(vault: Vault) -> None:
    """The program makes no file that could not be copied to another system."""
    before, head = everything(vault), vault.history.head
    for path in UNPORTABLE:
        with pytest.raises(VaultError, match="refused"):
            vault.transact(partial(write, path=path), "Write")
    assert (everything(vault), vault.history.head) == (before, head)


def test_error_about_a_path_shows_it_escaped_and_short() -> None:
    """The error names the path so that no control character reaches a terminal."""
    with pytest.raises(VaultError, match="refused") as caught:
        check_path("archival/a\x1b[2J" + "x" * 5000)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 300


def test_ordinary_path_is_written(vault: Vault) -> None:
    """Spaces, accents, Chinese, emoji and the longest names are no reason to refuse a memory file."""

    def work(transaction: Transaction) -> None:
        for path in GOOD:
            transaction.write(path, "zone: UTC # x\n")

    vault.transact(work, "Write")
    assert {(vault.root / path).read_text() for path in GOOD} == {"zone: UTC # x\n"}
    assert sorted(changes_of(vault)[0].paths) == sorted(GOOD)


def test_droppings_of_editors_are_no_memory() -> None:
    """Back-ups, swap files and the like are never notes."""
    for name in ("x.md~", "4913", ".x.md.swp", "#x.md#", ".#x.md", "x.md.tmp", "x.md.orig", ".DS_Store", "Thumbs.db"):
        assert not is_memory_file(f"archival/{name}")


# -- links ----------------------------------------------------------------------------------------------------------


def test_link_out_of_the_vault_is_not_followed(vault: Vault, tmp_path: Path) -> None:
    """A symbolic link to a file elsewhere gives nothing away and is never written through."""
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    (vault.root / "archival").mkdir()
    (vault.root / "archival/link.md").symlink_to(secret)
    with pytest.raises(VaultError, match="out of the vault"):
        vault.read("archival/link.md")
    with pytest.raises(VaultError, match="out of the vault"):
        vault.transact(lambda transaction: transaction.write("archival/link.md", "x"), "Write through")
    assert vault.files().keys().isdisjoint({"archival/link.md"})
    assert "archival/link.md" in vault.disk.troubles
    assert secret.read_text() == "secret"


def test_link_to_the_history_is_not_followed(vault: Vault) -> None:
    """A link into `.memory_fs` is a way out, too."""
    (vault.root / "archival").mkdir()
    (vault.root / "archival/link.md").symlink_to("../.memory_fs/git/HEAD")
    with pytest.raises(VaultError, match="out of the vault"):
        vault.read("archival/link.md")


def test_loop_of_links_is_an_error_of_one_line(vault: Vault) -> None:
    """Links that lead to each other end in an error, not in a loop."""
    (vault.root / "archival").mkdir()
    (vault.root / "archival/a.md").symlink_to("b.md")
    (vault.root / "archival/b.md").symlink_to("a.md")
    with pytest.raises(VaultError):
        vault.read("archival/a.md")
    assert vault.files()  # and it hides no neighbour


def test_linked_block_does_not_hide_its_neighbours(agent: Agent, tmp_path: Path) -> None:
    """A block that is a link out of the vault has a warning and no value; other blocks are shown as ever."""
    (tmp_path / "secret.yaml").write_text("value: secret\n")
    (agent.vault.root / "core/link.yaml").symlink_to(tmp_path / "secret.yaml")
    text = agent.prompt().text
    assert "secret" not in text and "I am helpful." in text
    assert agent.core.block("link").warnings


# -- names that only a person would choose --------------------------------------------------------------------------


def test_file_with_an_unportable_name_is_memory_like_any_other(vault: Vault) -> None:
    """A name that this system took from a person is read, kept in history, brought back, and blocks nothing."""
    for path in UNPORTABLE:
        edit_by_hand(vault, path, "Biscuit\n")
        assert vault.read(path) == "Biscuit\n"
    assert vault.files().keys() >= set(UNPORTABLE)
    assert sorted(changes_of(vault)[0].paths) == sorted(UNPORTABLE)
    for path in UNPORTABLE:
        (vault.root / path).unlink()
    undo(vault, ("tester", "t@example.invalid"))
    assert {vault.read(path) for path in UNPORTABLE} == {"Biscuit\n"}


def test_file_name_that_is_no_text_is_reported_and_blocks_nothing(vault: Vault) -> None:
    """Bytes that are no UTF-8 in a file's name: the scan says so, all else is taken into history."""
    for folder in ("archival", "core"):
        (vault.root / folder).mkdir(exist_ok=True)
        name = os.fsdecode(b"bad\xff") + (".yaml" if folder == "core" else ".md")
        (vault.root / folder / name).write_text("value: x\n")
    edit_by_hand(vault, "archival/good.md", "Biscuit\n")
    assert "archival/good.md" in vault.files()
    assert [path for path in vault.disk.troubles if "bad" in path]
    assert changes_of(vault)[0].paths == ("archival/good.md",)


def test_disk_refuses_hostile_paths_by_itself(vault: Vault) -> None:
    """The lowest layer checks too, so that no caller can forget to."""
    disk = Disk(vault.root)
    for path in HOSTILE:
        with pytest.raises(VaultError):
            disk.place(path)
        with pytest.raises(VaultError), disk.staged({"core/human.yaml": b"lost", path: b"x"}):
            raise AssertionError("staged")
    assert b"lost" not in (vault.root / "core/human.yaml").read_bytes()
    assert not list(vault.root.rglob("*.tmp"))
