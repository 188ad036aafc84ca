"""Blame: each line is with the change that it came with, and with whoever made that."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import changes_of, edit_by_hand

from memory_fs.agent import Agent
from memory_fs.blame import Line, blame
from memory_fs.errors import VaultError
from memory_fs.vault import Vault

HUMAN = "core/human.yaml"
NOTE = "archival/2026/11/dog.md"
TEXT = "---\nid: d1\n---\nBiscuit is a dog.\n他叫饼干。\nShe is three.\n"


def put(vault: Vault, text: str | None, subject: str, path: str = NOTE) -> None:
    """One change of one file."""
    data = None if text is None else text.encode()
    vault.transact(lambda t: t.put(path, data), subject, trailers={"Session": "s1", "Turn": "4", "Function": "f"})


def told(lines: list[Line]) -> dict[str, str]:
    """text -> the subject of the change that it came with."""
    return {line.text: line.change.subject for line in lines}


def test_line_has_its_change_turn_and_function(agent: Agent) -> None:
    """A fact of the model's and one of a person's stand beside the lines that were there from the start."""
    agent.call("core_memory_append", {"label": "human", "content": "Dog: 饼干."})
    edit_by_hand(agent.vault, HUMAN, (agent.vault.root / HUMAN).read_text() + "  Cat: Tom.\n")
    lines = blame(agent.vault, HUMAN)
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert [line.change.author for line in lines[-3:]] == ["agent", "agent", changes_of(agent.vault)[0].author]
    assert lines[-2].text == "  Dog: 饼干." and lines[-2].change.trailers["Function"] == "core_memory_append"
    assert lines[-1].change.subject == "Edit core/human.yaml by hand", "what was just saved is taken in first"
    assert lines[0].change.subject == "Start a new vault"


def test_edits_above_and_below_leave_a_line_with_its_change(vault: Vault) -> None:
    """Lines that came or went elsewhere, and a line that was rewritten, change nothing about the others."""
    put(vault, "a\nb\nc\n", "One")
    put(vault, "0\na\nb\nc\nd\n", "Two")
    put(vault, "0\nb\nC\nd\n", "Three")
    assert told(blame(vault, NOTE)) == {"0": "Two", "b": "One", "C": "Three", "d": "Two"}


def test_same_as_gits_own_blame(vault: Vault) -> None:
    """For a file that was never renamed plain git names the same commits."""
    text = [f"line {number}\n" for number in range(40)]
    for step in range(12):
        text[step * 3] = f"changed {step}\n"
        text.insert(step * 2, f"new {step}\n")
        put(vault, "".join(text), f"Step {step}")
    command = ["git", f"--git-dir={vault.root}/.memory_fs/git", "blame", "-s", "-l", "--root", "main", "--", NOTE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=vault.root)
    assert [line.split()[0] for line in done.stdout.splitlines()] == [x.change.rev for x in blame(vault, NOTE)]


@pytest.mark.parametrize("text", ["a\r\nb\r\n", "no end", "", "\n", "\ufeffbom\n", "\r\r\n\x0c\x85\u2028x\n"])
def test_every_kind_of_line(vault: Vault, text: str) -> None:
    """CRLF, no last line end, an empty file, a byte order mark: lines are those that an editor counts by line feeds."""
    put(vault, text, "One")
    lines = blame(vault, NOTE)
    assert [line.text for line in lines] == [x.removesuffix("\r") for x in text.removesuffix("\n").split("\n") if text]
    assert {line.change.subject for line in lines} <= {"One"}


def test_moved_note_keeps_the_origin_of_its_lines(vault: Vault) -> None:
    """A note that a person renamed, and changed at the same time, is followed by its id."""
    put(vault, TEXT, "Insert")
    place = vault.root / NOTE
    new = "archival/pets/饼干.md"
    edit_by_hand(vault, new, TEXT.replace("three", "four") + "She barks.\n")
    place.unlink()
    lines = blame(vault, new)
    by_hand = changes_of(vault)[0].subject
    assert told(lines) == {
        "---": "Insert", "id: d1": "Insert", "Biscuit is a dog.": "Insert", "他叫饼干。": "Insert",
        "She is four.": by_hand, "She barks.": by_hand,
    }  # fmt: skip
    assert {line.path for line in lines} == {NOTE, new}


def test_renamed_block_is_followed_by_its_text(vault: Vault) -> None:
    """What has no id is followed when nothing else was changed, through several names."""
    for old, new in (("human", "user"), ("user", "friend")):
        (vault.root / f"core/{old}.yaml").rename(vault.root / f"core/{new}.yaml")
        vault.adopt()
    assert {line.change.subject for line in blame(vault, "core/friend.yaml")} == {"Start a new vault"}


def test_two_notes_with_the_same_words_are_not_mixed_up(vault: Vault) -> None:
    """A new note does not take over the origin of one that stays, and none that went with another id."""
    put(vault, TEXT, "Insert")
    put(vault, TEXT.replace("d1", "d2"), "Insert another", "archival/b.md")
    assert {line.change.subject for line in blame(vault, "archival/b.md")} == {"Insert another"}

    def swap(transaction: object) -> None:
        transaction.put(NOTE, None)  # type: ignore[attr-defined]
        transaction.put("archival/c.md", TEXT.replace("d1", "d3").encode())  # type: ignore[attr-defined]

    vault.transact(swap, "Swap")
    assert {line.change.subject for line in blame(vault, "archival/c.md")} == {"Swap"}


@pytest.mark.parametrize("path", ["core/nobody.yaml", "", "/etc/passwd", "../x", "core", ".memory_fs/lock", "a\0b"])
def test_file_that_is_not_there_is_told(vault: Vault, path: str) -> None:
    """What is no file of memory has no lines, and is refused in one line."""
    with pytest.raises(VaultError, match="there is no file"):
        blame(vault, path)


def test_deleted_and_restored_file_begins_anew(vault: Vault, tmp_path: Path) -> None:
    """A file that was away for a while is its restorer's, line by line."""
    put(vault, TEXT, "Insert")
    put(vault, None, "Delete")
    put(vault, TEXT, "Bring back")
    assert {line.change.subject for line in blame(vault, NOTE)} == {"Bring back"}
