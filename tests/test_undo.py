"""Undo and redo: memory goes back and forth in whole changes, the record of the talk never does."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import HELLO, MakeAgent, block, changes_of, edit_by_hand, memory_of, said, say, snapshot, value_of
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_fs.agent import Agent
from memory_fs.errors import VaultError
from memory_fs.history import Change, person
from memory_fs.merge import merge_lines
from memory_fs.testing import ScriptedModel, call, make_vault
from memory_fs.undo import redo, undo, undo_session, undo_turn
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


# -- a named change, a turn, a session ------------------------------------------------------------------------------

ANA = ("Ana", "ana@example.invalid")
HUMAN = "core/human.yaml"


def append(agent: Agent, line: str, session: str = "s1", turn: int = 1) -> Change:
    """Append a line to the human block, as the agent does in a turn."""
    trailers = {"Session": session, "Turn": str(turn), "Function": "core_memory_append"}
    _, change = agent.vault.transact(
        lambda t: agent.core.append(t, "human", line), f"core_memory_append: {line}", trailers=trailers
    )
    assert change is not None
    return change


def by_ana(agent: Agent, old: str, new: str, path: str = HUMAN) -> None:
    """An edit of a person called Ana, in history."""
    _, change = agent.vault.transact(
        lambda t: t.write(path, (t.read(path) or "").replace(old, new)), f"Edit {path} by hand", author=ANA
    )
    assert change is not None


def test_named_change_is_taken_back_and_its_neighbours_stay(agent: Agent) -> None:
    """Of three facts in three neighbouring lines the first and the middle one can each be taken back alone."""
    first, middle, _ = (append(agent, line) for line in ("Name: 陈伟.", "Dog: 饼干.", "Lives in Porto."))
    assert undo(agent.vault, ME, middle.rev[:8]).trailers == {"Undoes": middle.rev}
    assert value_of(agent.vault) == "Name: 陈伟.\nLives in Porto."
    undo(agent.vault, ME, first.rev)
    assert value_of(agent.vault) == "Lives in Porto."
    redo(agent.vault, ME)
    redo(agent.vault, ME)
    assert value_of(agent.vault) == "Name: 陈伟.\nDog: 饼干.\nLives in Porto."


def test_named_change_is_undone_once(agent: Agent) -> None:
    """What is taken back already is refused; when it is brought back it can be taken back again."""
    change = append(agent, "Dog: Biscuit.")
    append(agent, "Cat: Tom.")
    undo(agent.vault, ME, change.rev)
    with pytest.raises(VaultError, match=rf"{change.rev[:8]} is undone already"):
        undo(agent.vault, ME, change.rev)
    redo(agent.vault, ME)
    undo(agent.vault, ME, change.rev)
    assert value_of(agent.vault) == "Cat: Tom."


def test_undo_of_an_undo_is_a_redo(agent: Agent) -> None:
    """Naming an undo brings back what it took back, naming a redo takes it back again, and the record says so."""
    change = append(agent, "Dog: Biscuit.")
    back = undo(agent.vault, ME)
    forth = undo(agent.vault, ME, back.rev)
    assert (forth.subject, forth.trailers) == (f"Redo: {change.subject}", {"Redoes": change.rev})
    assert value_of(agent.vault) == "Dog: Biscuit."
    again = undo(agent.vault, ME, forth.rev)
    assert (again.subject, again.trailers) == (f"Undo: {change.subject}", {"Undoes": change.rev})
    assert value_of(agent.vault) == ""


def test_what_is_no_change_of_memory_is_not_undone(agent: Agent) -> None:
    """The first commit, a change of recall alone, and what is no change at all are each refused in one line."""
    first = changes_of(agent.vault)[-1]
    with pytest.raises(VaultError, match="is where the history begins"):
        undo(agent.vault, ME, first.rev)
    _, talk = agent.vault.transact(lambda t: t.write("recall/2026/11/2026-11-29.md", "# 2026-11-29\n\n"), "Talk")
    assert talk is not None
    with pytest.raises(VaultError, match="wrote only to recall and the queue"):
        undo(agent.vault, ME, talk.rev)
    with pytest.raises(VaultError, match="no change 'nothing' in the history"):
        undo(agent.vault, ME, "nothing")


def test_whole_turn_is_one_undo(agent: Agent) -> None:
    """All that the newest turn wrote goes with one commit that names each of its changes; redo brings all back."""
    append(agent, "Name: Chad.", turn=1)
    mine = [append(agent, "Dog: Biscuit.", turn=2), append(agent, "Cat: Tom.", turn=2)]
    _, note = agent.vault.transact(
        lambda t: agent.archival.insert(t, "Biscuit likes 饼干."), "Note", trailers={"Session": "s1", "Turn": "2"}
    )
    assert note is not None
    after = memory_of(agent.vault)
    made = undo_turn(agent.vault, ME)
    assert made.trailers == {"Undoes": " ".join(c.rev for c in (note, *reversed(mine)))}
    assert made.subject == "Undo: turn s1/2, 3 changes"
    assert value_of(agent.vault) == "Name: Chad." and agent.archival.count() == 0
    redone = redo(agent.vault, ME)
    assert redone.trailers == {"Redoes": made.trailers["Undoes"]} and redone.subject == "Redo: turn s1/2, 3 changes"
    assert memory_of(agent.vault) == after
    undo_turn(agent.vault, ME)
    undo_turn(agent.vault, ME)
    assert value_of(agent.vault) == ""
    with pytest.raises(VaultError, match="nothing to undo: no turn has changes of memory that stand"):
        undo_turn(agent.vault, ME)


def test_named_turn_goes_and_a_hand_edit_in_between_stays(make_agent: MakeAgent) -> None:
    """What a person edited between two changes of a turn is left as they wrote it."""
    agent = make_agent(files=block("human", "Line 1.\nLine 2.\nLine 3."))
    append(agent, "Dog: Biscuit.", turn=7)
    edit_by_hand(agent.vault, HUMAN, (agent.vault.root / HUMAN).read_bytes().replace(b"Line 1.", "第一行 ✓".encode()))
    agent.vault.adopt()
    append(agent, "Cat: Tom.", turn=7)
    append(agent, "Bird: Pip.", turn=8)
    undo_turn(agent.vault, ME, "s1/7")
    assert value_of(agent.vault) == "第一行 ✓\nLine 2.\nLine 3.\nBird: Pip."
    redo(agent.vault, ME)
    assert value_of(agent.vault) == "第一行 ✓\nLine 2.\nLine 3.\nDog: Biscuit.\nCat: Tom.\nBird: Pip."


def test_turn_that_was_edited_since_is_refused_whole(agent: Agent) -> None:
    """One line that Ana changed since keeps the whole turn in place; the file, her change and her name are told."""
    append(agent, "Dog: Biscuit.", turn=3)
    agent.vault.transact(lambda t: agent.archival.insert(t, "A note."), "Note", trailers={"Session": "s1", "Turn": "3"})
    by_ana(agent, "Biscuit", "Brownie")
    before, theirs = snapshot(agent.vault), changes_of(agent.vault)[0]
    told = rf"core/human\.yaml was edited on the same lines since, by Ana in {theirs.rev[:8]} \(Edit .*; nothing was un"
    with pytest.raises(VaultError, match=told):
        undo_turn(agent.vault, ME)
    assert snapshot(agent.vault) == before and changes_of(agent.vault)[0].rev == theirs.rev


def test_note_that_was_edited_or_moved_since_is_not_taken_away(agent: Agent) -> None:
    """Undo of an insert refuses when a person has worked on the note, or put it elsewhere."""
    _, note = agent.vault.transact(lambda t: agent.archival.insert(t, "Biscuit is a dog."), "Note")
    assert note is not None
    (path,) = note.paths
    by_ana(agent, "dog", "golden retriever", path)
    with pytest.raises(VaultError, match="was edited on the same lines since, by Ana"):
        undo(agent.vault, ME, note.rev)
    place = agent.vault.root / path
    place.rename(place.with_name("biscuit.md"))
    with pytest.raises(VaultError, match="would change nothing: its files are as before, or elsewhere by now"):
        undo(agent.vault, ME, note.rev)
    undo(agent.vault, ME)
    assert place.exists() and not place.with_name("biscuit.md").exists()


def test_whole_session_is_one_undo(agent: Agent) -> None:
    """All turns of a session are taken back together, other sessions stay; without a name it is the newest."""
    append(agent, "Name: Chad.", "s1", 1)
    append(agent, "Dog: Biscuit.", "s2", 1)
    append(agent, "Cat: Tom.", "s2", 2)
    append(agent, "Bird: Pip.", "s3", 1)
    assert undo_session(agent.vault, ME, "s2").subject == "Undo: session s2, 2 changes"
    assert value_of(agent.vault) == "Name: Chad.\nBird: Pip."
    assert undo_session(agent.vault, ME).subject == "Undo: session s3, 1 change"
    redo(agent.vault, ME)
    redo(agent.vault, ME)
    assert value_of(agent.vault) == "Name: Chad.\nDog: Biscuit.\nCat: Tom.\nBird: Pip."
    with pytest.raises(VaultError, match="nothing to undo: session s9 has"):
        undo_session(agent.vault, ME, "s9")


@pytest.mark.parametrize("turn", ["", "s1", "s1/", "/1", "s1/x", "s1/-1"])
def test_turn_has_a_session_and_a_number(agent: Agent, turn: str) -> None:
    """What names no turn is refused with an example of one that does."""
    with pytest.raises(VaultError, match=r"names no turn; write SESSION/N"):
        undo_turn(agent.vault, ME, turn)


def test_line_ends_and_other_encodings_come_back_byte_for_byte(agent: Agent) -> None:
    """A file with CRLF, and one that is no UTF-8, are taken back and brought back as they were."""
    windows = b"---\r\nid: w1\r\n---\r\nOne\r\nTwo\r\nThree\r\nFour\r\n"
    edit_by_hand(agent.vault, "archival/windows.md", windows)
    agent.vault.adopt()
    edit_by_hand(agent.vault, "archival/windows.md", windows.replace(b"One", "一".encode()))
    agent.vault.adopt()
    first = changes_of(agent.vault)[0]
    edit_by_hand(agent.vault, "archival/windows.md", windows.replace(b"One", "一".encode()).replace(b"Four", b"4"))
    undo(agent.vault, ME, first.rev)
    assert (agent.vault.root / "archival/windows.md").read_bytes() == windows.replace(b"Four", b"4")
    edit_by_hand(agent.vault, HUMAN, b"value: caf\xe9\n")
    undo(agent.vault, ME)
    assert value_of(agent.vault) == ""
    redo(agent.vault, ME)
    assert (agent.vault.root / HUMAN).read_bytes() == b"value: caf\xe9\n"


def test_block_is_never_merged_into_broken_yaml(make_agent: MakeAgent) -> None:
    """The first fact makes a text block of an empty value; taking it back under a second one leaves readable YAML."""
    agent = make_agent(files={"core/human.yaml": "# mine\nlabel: human\nvalue: ''\nlimit: 500\n"})
    first = append(agent, "Dog: Biscuit.")
    append(agent, "Cat: Tom.")
    undo(agent.vault, ME, first.rev)
    assert value_of(agent.vault) == "Cat: Tom."
    assert agent.core.block("human").warnings == ()
    assert (agent.vault.root / HUMAN).read_text().startswith("# mine\nlabel: human\nvalue: ")


LINES = st.lists(st.sampled_from("abcdefgh"), max_size=6)


@settings(max_examples=60, deadline=None)
@given(LINES, LINES, LINES)
def test_merged_lines_are_those_of_both_sides(base: list[str], ours: list[str], theirs: list[str]) -> None:
    """Where one side edited nothing the other's text comes out; the order of the sides makes no difference."""
    assert merge_lines(base, ours, base) == ours == merge_lines(base, base, ours)
    assert merge_lines(base, ours, ours) == ours
    assert merge_lines(base, ours, theirs) == merge_lines(base, theirs, ours)
