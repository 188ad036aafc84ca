"""Earlier states: what the model saw then, what a file said then, and getting files back."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import HELLO, MakeAgent, block, changes_of, edit_by_hand, say, snapshot, value_of

from memory_fs.agent import Agent
from memory_fs.errors import FormatError, VaultError
from memory_fs.past import Past
from memory_fs.restore import restore
from memory_fs.testing import call
from memory_fs.vault import Vault

ME = ("tester", "tester@example.invalid")
HUMAN = "core/human.yaml"
NOTE = "archival/2026/dog.md"
TEXT = b"---\r\nid: d1\r\n---\r\nBiscuit \xe9\xa5\xbc\xe5\xb9\xb2\r\n"


def newest(vault: Vault) -> str:
    """The newest commit, hand edits taken in."""
    vault.adopt()
    return changes_of(vault)[0].rev


# -- what the model saw ------------------------------------------------------------------------------------------------


def test_prompt_of_every_state_is_what_it_was_then(make_agent: MakeAgent) -> None:
    """After each of many changes, by the agent and by hand, the prompt is kept; later each is found as it was."""
    save = call("core_memory_append", missing="saving a new fact", label="human", content="Name: 陈伟.")
    agent = make_agent([save, say("Hello."), say("Hello.")], files=block("zebra", "Stripes."))
    seen = {newest(agent.vault): agent.prompt()}
    for _ in agent.run("My name is 陈伟."):
        seen[newest(agent.vault)] = agent.prompt()
    agent.call("archival_memory_insert", {"content": "A note.", "tags": []})
    seen[newest(agent.vault)] = agent.prompt()
    edit_by_hand(agent.vault, "system.md", "Be brief.\r\n")
    (agent.vault.root / "core/zebra.yaml").unlink()
    seen[newest(agent.vault)] = agent.prompt()
    edit_by_hand(agent.vault, "memory.yaml", "zone: UTC\nwindow: 4096\nfunctions: [core_memory_append]\n")
    seen[newest(agent.vault)] = agent.prompt()
    agent.send(HELLO)
    before, head = snapshot(agent.vault), agent.vault.history.head
    assert len(seen) >= 6 and len({prompt.text for prompt in seen.values()}) == len(seen)
    for rev, prompt in seen.items():
        assert Past(agent.vault, rev).prompt() == prompt
    assert (snapshot(agent.vault), agent.vault.history.head) == (before, head), "looking back writes nothing"


def test_broken_file_gives_its_last_good_value_then_too(make_agent: MakeAgent) -> None:
    """A state in which a block and the queue could not be read is shown as the model saw it."""
    agent = make_agent([say("Hello.")], files=block("human", "Name: Chad."))
    agent.send(HELLO)
    edit_by_hand(agent.vault, HUMAN, "value: [broken\n")
    edit_by_hand(agent.vault, "queue.yaml", b"messages: {\xff\n")
    rev, seen = newest(agent.vault), agent.prompt()
    edit_by_hand(agent.vault, HUMAN, "value: fine\n")
    agent.vault.adopt()
    assert Past(agent.vault, rev).prompt() == seen and "Name: Chad." in seen.text and HELLO in seen.text


def test_message_and_file_that_are_gone_are_passed_over(make_agent: MakeAgent) -> None:
    """Where a person had deleted recall, the queue or the settings, the prompt is what was left."""
    agent = make_agent([say("Hello.")])
    agent.send(HELLO)
    (day,) = (agent.vault.root / "recall").rglob("*.md")
    day.write_bytes(day.read_bytes().replace(HELLO.encode(), b"caf\xe9"))
    seen = Past(agent.vault, newest(agent.vault)).prompt()
    assert seen == agent.prompt() and "Hello." in seen.text and HELLO not in seen.text
    day.unlink()
    assert "Hello." not in Past(agent.vault, newest(agent.vault)).prompt().text
    for name in ("queue.yaml", "memory.yaml", "system.md"):
        (agent.vault.root / name).unlink()
    assert Past(agent.vault, newest(agent.vault)).prompt() == agent.prompt()


def test_text_of_a_file_then(vault: Vault) -> None:
    """A file is read as it was; one that was not there, or no text, is told."""
    edit_by_hand(vault, NOTE, TEXT)
    rev = newest(vault)
    edit_by_hand(vault, NOTE, b"\xff")
    assert Past(vault, rev).text(NOTE) == TEXT.decode()
    with pytest.raises(VaultError, match=r"archival/2026/dog\.md was not there at \w{8}; see `memory-fs log"):
        Past(vault, changes_of(vault)[-1].rev).text(NOTE)
    with pytest.raises(FormatError, match="not UTF-8"):
        Past(vault, newest(vault)).text(NOTE)


# -- restore -----------------------------------------------------------------------------------------------------------


def test_file_is_restored_as_a_change_of_the_persons(agent: Agent) -> None:
    """One file comes back byte for byte, others stay; the change says who, what and from where, and can be undone."""
    edit_by_hand(agent.vault, NOTE, TEXT)
    rev = newest(agent.vault)
    edit_by_hand(agent.vault, NOTE, "Changed.\n")
    agent.call("core_memory_append", {"label": "human", "content": "Dog: Biscuit."})
    done = restore(agent.vault, NOTE, rev, ME).change
    assert done is not None
    assert (done.author, done.paths, done.trailers) == ("tester", (NOTE,), {"Restores": rev})
    assert done.subject == f"Restore {NOTE} as it was at {rev[:8]}"
    assert (agent.vault.root / NOTE).read_bytes() == TEXT and value_of(agent.vault) == "Dog: Biscuit."


def test_deleted_note_block_and_folder_come_back(agent: Agent) -> None:
    """What was deleted by hand is there again, found by search; what is new in the folder stays."""
    for path in (NOTE, "archival/2026/deep/cat.md"):
        edit_by_hand(agent.vault, path, TEXT.replace(b"d1", path[-6:-3].encode()))
    rev = newest(agent.vault)
    for path in (NOTE, "archival/2026/deep/cat.md", "core/persona.yaml"):
        (agent.vault.root / path).unlink()
    edit_by_hand(agent.vault, "archival/2026/new.md", "New.\n")
    assert agent.archival.search("饼干").total == 0
    restore(agent.vault, "archival/2026/", rev, ME)
    restore(agent.vault, "core/persona.yaml", rev, ME)
    assert agent.archival.search("饼干").total == 2 and (agent.vault.root / "archival/2026/new.md").exists()
    assert value_of(agent.vault, "persona") == "I am helpful."


def test_unchanged_file_is_no_change(vault: Vault) -> None:
    """Where all is as it was then nothing is written."""
    rev = newest(vault)
    assert restore(vault, HUMAN, rev, ME).change is None and restore(vault, "core", rev, ME).change is None
    assert newest(vault) == rev


def test_hand_edit_that_is_not_yet_in_history_is_not_lost(vault: Vault) -> None:
    """What a person had just saved is a change of its own before the file is replaced."""
    rev = newest(vault)
    edit_by_hand(vault, HUMAN, "value: mine\n")
    restore(vault, HUMAN, rev, ME)
    assert "+value: mine\n" in changes_of(vault)[1].diff


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "/etc/passwd", "../x.md", "archival/../../x.md", ".memory_fs/git", "other", "core/a/b.yaml",
     "archival/.git/x.md", "a\0b", "archival//x.md", "README.md", "~", "core/..", "archival/" + "x" * 300],
)  # fmt: skip
def test_what_is_no_memory_is_refused(vault: Vault, path: str) -> None:
    """No path leads out of memory, whatever it is called."""
    with pytest.raises(VaultError, match=r"is no file or folder of memory; name one such as"):
        restore(vault, path, newest(vault), ME)


def test_file_that_was_not_there_is_told(vault: Vault) -> None:
    """A file or a folder that the state does not have is refused in words."""
    with pytest.raises(VaultError, match=r"archival/2026 was not there at \w{8}; see `memory-fs log archival/2026`"):
        restore(vault, "archival/2026", newest(vault), ME)


def test_moved_note_is_not_doubled(vault: Vault) -> None:
    """A note that a person put elsewhere stays there alone: named, it is refused; in a folder, left out and told."""
    edit_by_hand(vault, NOTE, TEXT)
    edit_by_hand(vault, "archival/2026/cat.md", "---\nid: c1\n---\nTom.\n")
    rev = newest(vault)
    moved = edit_by_hand(vault, "archival/pets/biscuit.md", TEXT + b"More.\r\n")
    (vault.root / NOTE).unlink()
    (vault.root / "archival/2026/cat.md").unlink()
    with pytest.raises(VaultError, match=r"this note is archival/pets/biscuit\.md now"):
        restore(vault, NOTE, rev, ME)
    done = restore(vault, "archival", rev, ME)
    assert done.moved == ((NOTE, "archival/pets/biscuit.md"),)
    assert done.change is not None and done.change.paths == ("archival/2026/cat.md",) and moved.exists()


def test_link_that_leads_out_is_not_written_through(vault: Vault, tmp_path: Path) -> None:
    """A folder of memory that was replaced by a link to elsewhere is not restored into."""
    edit_by_hand(vault, NOTE, TEXT)
    rev = newest(vault)
    (vault.root / NOTE).unlink()
    (vault.root / "archival/2026").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (vault.root / "archival/2026").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VaultError, match="leads out of the vault"):
        restore(vault, "archival", rev, ME)
    assert list((tmp_path / "elsewhere").iterdir()) == []
