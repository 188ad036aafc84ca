"""Undo and redo: memory goes back and forth in whole changes, the record of the talk never does."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import HELLO, MakeAgent, block, changes_of, edit_by_hand, memory_of, said, say, snapshot, value_of
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_fs.agent import Agent
from memory_fs.errors import VaultError
from memory_fs.history import person
from memory_fs.testing import ScriptedModel, call, make_vault
from memory_fs.undo import redo, undo
from memory_fs.vault import Vault

ME = ("tester", "tester@example.invalid")


def write(agent: Agent, value: str) -> None:
    """Rewrite the human block."""
    assert agent.call("memory_rethink", {"label": "human", "content": value})[0].ok


def settled(agent: Agent, old: str, new: str) -> None:
    """A later edit that is itself the undo of something, so that the next undo reaches behind it."""
    agent.vault.transact(
        lambda t: t.write("core/human.yaml", (t.read("core/human.yaml") or "").replace(old, new)),
        "Undo: nothing",
        author=ME,
        trailers={"Undoes": "0" * 40},
    )


def test_back_to_the_start_and_forth_to_the_end(agent: Agent) -> None:
    """Three edits are undone one by one until nothing is left to undo, and redone until nothing is left to redo."""
    for value in ("1", "2", "3"):
        write(agent, value)
    seen = []
    for step in (undo, undo, undo, redo, redo, redo):
        step(agent.vault, ME)
        seen.append(value_of(agent.vault))
        if len(seen) == 3:
            with pytest.raises(VaultError, match="nothing to undo"):
                undo(agent.vault, ME)
    assert seen == ["2", "1", "", "1", "2", "3"]
    with pytest.raises(VaultError, match="nothing to redo"):
        redo(agent.vault, ME)


def test_new_edit_ends_the_redo_chain(agent: Agent) -> None:
    """What was undone before a new edit is not redone over it."""
    write(agent, "1")
    write(agent, "2")
    undo(agent.vault, ME)
    write(agent, "new")
    with pytest.raises(VaultError, match="nothing to redo"):
        redo(agent.vault, ME)
    undo(agent.vault, ME)
    assert value_of(agent.vault) == "1"


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(st.sampled_from(["edit", "undo", "redo"]), min_size=3, max_size=9))
def test_any_sequence_is_that_of_an_editor(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    """Edits, undos and redos in any order give what a text editor with one undo list gives."""
    with Agent(make_vault(tmp_path_factory.mktemp("undo") / "vault"), ScriptedModel([])) as agent:
        values, at = [""], 0
        for number, step in enumerate(steps):
            if step == "edit":
                write(agent, f"value {number}")
                values, at = [*values[: at + 1], f"value {number}"], at + 1
                continue
            possible = at > 0 if step == "undo" else at < len(values) - 1
            run = undo if step == "undo" else redo
            if possible:
                run(agent.vault, ME)
                at += -1 if step == "undo" else 1
            else:
                with pytest.raises(VaultError, match=f"nothing to {step}"):
                    run(agent.vault, ME)
            assert value_of(agent.vault) == values[at]


def test_undo_leaves_the_record_of_the_talk(make_agent: MakeAgent) -> None:
    """Taking back what a turn saved changes memory alone: recall and queue keep what was said and done."""
    agent = make_agent(
        [
            call("core_memory_append", label="human", content="Name: Chad."),
            call("archival_memory_insert", content="A note."),
            say("Saved."),
        ]
    )
    before = memory_of(agent.vault)
    agent.send(HELLO)
    record = {p: data for p, data in snapshot(agent.vault).items() if p.startswith(("recall/", "queue.yaml"))}
    assert agent.archival.count() == 1
    undo(agent.vault, ME)
    assert agent.archival.count() == 0 and value_of(agent.vault) == "Name: Chad."
    undo(agent.vault, ME)
    assert memory_of(agent.vault) == before
    assert record.items() <= snapshot(agent.vault).items() and len(said(agent)) == 6
    with pytest.raises(VaultError, match="nothing to undo"):
        undo(agent.vault, ME)
    redo(agent.vault, ME)
    redo(agent.vault, ME)
    assert agent.archival.search("note").total == 1 and value_of(agent.vault) == "Name: Chad."


def test_undo_is_a_change_of_its_own(agent: Agent) -> None:
    """History is never rewritten: an undo is a new commit of whoever asked, naming what it takes back."""
    _, change = agent.call("core_memory_append", {"label": "human", "content": "Name: Chad."})
    assert change is not None
    made = undo(agent.vault, ME)
    assert (made.author, made.subject) == ("tester", f"Undo: {change.subject}")
    assert made.trailers == {"Undoes": change.rev}
    assert [c.rev for c in changes_of(agent.vault)][:2] == [made.rev, change.rev]
    assert redo(agent.vault, ME).trailers == {"Redoes": change.rev}


def test_hand_edit_is_undone_like_any_other(make_agent: MakeAgent) -> None:
    """A person's own edit, not yet in history, is taken in first and then taken back, comments and all."""
    agent = make_agent(files=block("human", "Name: Chad."))
    before = (agent.vault.root / "core/human.yaml").read_bytes()
    edit_by_hand(agent.vault, "core/human.yaml", b"# mine\r\nvalue: Name: Bo\r\n".replace(b"Name: Bo", b"'Name: Bo'"))
    made = undo(agent.vault, ME)
    assert (agent.vault.root / "core/human.yaml").read_bytes() == before
    assert changes_of(agent.vault)[1].author == person()[0] and made.subject.startswith("Undo: Edit core/human.yaml")
    redo(agent.vault, ME)
    assert (agent.vault.root / "core/human.yaml").read_bytes() == b"# mine\r\nvalue: 'Name: Bo'\r\n"


def test_undo_merges_with_what_was_edited_elsewhere(make_agent: MakeAgent) -> None:
    """An older change of another line is taken back without losing what came after it."""
    lines = "\n".join(f"Line {number}: text." for number in range(12))
    agent = make_agent(files=block("human", lines))
    assert agent.call(
        "core_memory_replace", {"label": "human", "old_content": "Line 1: text.", "new_content": "Line 1: new."}
    )[0].ok
    settled(agent, "Line 10: text.", "Line 10: mine.")
    undo(agent.vault, ME)
    assert value_of(agent.vault) == lines.replace("Line 10: text.", "Line 10: mine.")


def test_undo_never_loses_a_later_edit_of_the_same_line(make_agent: MakeAgent) -> None:
    """Where the same line was changed since, nothing is undone and the file is named."""
    agent = make_agent(files=block("human", "Lives in Lisbon."))
    write(agent, "Lives in Porto.")
    settled(agent, "Porto", "Rome")
    before = snapshot(agent.vault)
    with pytest.raises(VaultError, match=r"core/human\.yaml was edited on the same lines"):
        undo(agent.vault, ME)
    assert snapshot(agent.vault) == before


def test_first_commit_is_where_undo_ends(vault: Vault) -> None:
    """A new vault has nothing to undo: nobody can take back the vault itself."""
    with pytest.raises(VaultError, match="nothing to undo"):
        undo(vault, ME)
    assert (vault.root / "core/human.yaml").exists()


def test_undo_in_a_new_program(tmp_path: Path) -> None:
    """Undo needs nothing but the files: another program can take back what this one did."""
    with Agent(make_vault(tmp_path / "vault"), ScriptedModel([])) as agent:
        write(agent, "1")
        write(agent, "2")
        undo(agent.vault, ME)
    with Vault(tmp_path / "vault") as again:
        undo(again, ME)
        assert value_of(again) == ""
        redo(again, ME)
        redo(again, ME)
        assert value_of(again) == "2"
