"""What a person does to the files counts at once, is kept as theirs, and is never written over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import (
    HELLO,
    MakeAgent,
    block,
    changes_of,
    edit_by_hand,
    prompts_of,
    queued,
    said,
    say,
    snapshot,
    value_of,
)

from memory_fs.agent import Agent
from memory_fs.errors import FormatError
from memory_fs.formats.note import Note, parse_note, render_note
from memory_fs.history import person
from memory_fs.testing import ScriptedModel, call
from memory_fs.vault import Vault

BROKEN = "label: human\nlimit: 500\nvalue: [Lives in Rome.\n"
BLOCK = """# whom I talk to
mood: 'curious'        # nobody's key
label: human
description: >-
  What I know: about
  the person.
limit: 2000            # characters
value: |
  Name: Chad.
  Lives in Porto.

# the end
"""


def found(agent: Agent, query: str) -> list[str]:
    """The paths of the notes that a search finds."""
    return [hit.path for hit in agent.archival.search(query).hits]


def note(text: str, note_id: str = "k3f9x2ab") -> str:
    """A note file."""
    return render_note(Note(note_id, text))


# -- blocks ---------------------------------------------------------------------------------------------------------


def test_edit_between_turns_is_in_the_next_prompt(make_agent: MakeAgent) -> None:
    """A block edited by hand shows at once, and history has one entry for it, by the person."""
    agent = make_agent([say("Hi."), say("Hi again.")], files=block("human", "Lives in Lisbon."))
    agent.send(HELLO)
    edit_by_hand(agent.vault, "core/human.yaml", (agent.vault.read("core/human.yaml") or "").replace("Lisbon", "Porto"))
    agent.send(HELLO)
    shown = prompts_of(agent)[1]
    assert "Lives in Porto." in shown and "Lisbon" not in shown
    edits = [change for change in changes_of(agent.vault) if change.author == person()[0]]
    assert [change.paths for change in edits] == [("core/human.yaml",)]
    assert "-  Lives in Lisbon.\n+  Lives in Porto.\n" in edits[0].diff


def test_edit_over_the_limit_loads_and_may_only_shrink(make_agent: MakeAgent) -> None:
    """A block that a person made too long is shown with a warning; it can be shortened, not lengthened."""
    agent = make_agent(files=block("human", "x", limit=10))
    edit_by_hand(agent.vault, "core/human.yaml", "limit: 10\nvalue: Chad lives in Porto\n")
    assert "over its limit" in agent.core.block("human").warnings[0]
    assert "(19/10 characters)" in agent.prompt().text
    longer, change = agent.call("core_memory_append", {"label": "human", "content": "b"})
    assert not longer.ok and change is None
    same, _ = agent.call("core_memory_replace", {"label": "human", "old_content": "Porto", "new_content": "Paris"})
    assert not same.ok
    shorter, _ = agent.call("core_memory_replace", {"label": "human", "old_content": " lives", "new_content": ""})
    assert shorter.ok and value_of(agent.vault) == "Chad in Porto"


@pytest.mark.parametrize("fresh", [False, True])
def test_broken_block_keeps_its_last_good_value(make_agent: MakeAgent, fresh: bool) -> None:
    """Broken YAML: the last good value is shown, also by a program that never saw it; the file is not touched."""
    agent = make_agent([say("Hi.")], files=block("human", "Lives in Porto."))
    if not fresh:
        agent.prompt()
    place = edit_by_hand(agent.vault, "core/human.yaml", BROKEN)
    assert "Lives in Porto." in agent.prompt().text and "I am helpful." in agent.prompt().text
    assert agent.core.block("human").warnings[0].startswith("core/human.yaml:4:1: ")
    refused, change = agent.call("core_memory_append", {"label": "human", "content": "x"})
    assert not refused.ok and "core/human.yaml:4:1: " in refused.text and change is None
    assert agent.send(HELLO) == "Hi."
    assert agent.call("core_memory_append", {"label": "persona", "content": "x"})[0].ok
    assert place.read_text() == BROKEN


def test_block_that_was_never_good_is_empty_and_read_only(make_agent: MakeAgent) -> None:
    """A new file that cannot be read has no value yet, a warning with its line, and takes no write."""
    agent = make_agent()
    place = edit_by_hand(agent.vault, "core/pets.yaml", b"value: \xff\xfe\n")
    assert "core/pets.yaml:1: not UTF-8" in agent.core.block("pets").warnings[0]
    assert not agent.call("core_memory_append", {"label": "pets", "content": "x"})[0].ok
    assert place.read_bytes() == b"value: \xff\xfe\n"


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_function_changes_only_the_value(make_agent: MakeAgent, start: str, end: str) -> None:
    """Comments, key order, unknown keys, folded texts, byte order mark and line ends survive a function's write."""
    before = (start + BLOCK).replace("\n", end)
    agent = make_agent(files={"core/human.yaml": before})
    assert agent.core.block("human").description == "What I know: about the person."
    assert agent.core.block("human").value == "Name: Chad.\nLives in Porto."
    arguments = {"label": "human", "old_content": "Porto", "new_content": "Rome"}
    assert agent.call("core_memory_replace", arguments)[0].ok
    assert (agent.vault.root / "core/human.yaml").read_bytes() == before.replace("Porto", "Rome").encode()
    assert agent.call("core_memory_append", {"label": "human", "content": "Has a dog."})[0].ok
    after = before.replace("Lives in Porto.", f"Lives in Rome.{end}  Has a dog.")
    assert (agent.vault.root / "core/human.yaml").read_bytes() == after.encode()


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_of_another_editor_are_read_and_continued(make_agent: MakeAgent, start: str, end: str) -> None:
    """With a byte order mark and the line ends of Windows the talk goes on, and what nobody writes stays as it is."""
    agent = make_agent([say("One."), say("Two.")], files={"archival/n.md": note("zebra one\nzebra two")})
    agent.send(HELLO)
    texts = {}
    for path in ("recall/2026/11/2026-11-29.md", "queue.yaml", "archival/n.md", "system.md", "memory.yaml"):
        texts[path] = (start + (agent.vault.read(path) or "").replace("\n", end)).encode()
        edit_by_hand(agent.vault, path, texts[path])
    with Agent(Vault(agent.vault.root), agent.model) as again:
        assert again.window == 4096 and [hit.id for hit in again.archival.search("zebra two").hits] == ["k3f9x2ab"]
        assert again.send("And again.") == "Two."
        assert [content for _, content in said(again)] == [HELLO, "One.", "And again.", "Two."]
        assert [message.content for message in queued(again)][:2] == [HELLO, "One."]
        assert "\ufeff" not in prompts_of(again)[-1] and "\r" not in prompts_of(again)[-1]
    after = snapshot(agent.vault)
    assert after["recall/2026/11/2026-11-29.md"].startswith(texts["recall/2026/11/2026-11-29.md"])
    assert {path: after[path] for path in ("archival/n.md", "system.md", "memory.yaml")} == {
        path: texts[path] for path in ("archival/n.md", "system.md", "memory.yaml")
    }


def test_file_mode_survives_a_write(agent: Agent) -> None:
    """A file that a person made private stays private."""
    place = agent.vault.root / "core/human.yaml"
    place.chmod(0o600)
    agent.call("core_memory_append", {"label": "human", "content": "x"})
    assert place.stat().st_mode & 0o777 == 0o600


# -- settings and queue ---------------------------------------------------------------------------------------------


def test_broken_settings_leave_the_last_good_ones_in_use(make_agent: MakeAgent) -> None:
    """A running conversation goes on when memory.yaml is spoilt; the error has its place; the file is not touched."""
    agent = make_agent([say("Hi.")], window=2048)
    place = edit_by_hand(agent.vault, "memory.yaml", "zone: UTC\nwindow: many\n")
    assert agent.send(HELLO) == "Hi." and agent.window == 2048
    assert any("memory.yaml:2: " in warning for warning in agent.vault.settings.warnings)
    assert place.read_text() == "zone: UTC\nwindow: many\n"
    with Vault(agent.vault.root) as opened, pytest.raises(FormatError, match=r"memory\.yaml:2: "):
        opened.settings  # noqa: B018 (a new program has no earlier ones)


def test_mended_settings_count_at_once(make_agent: MakeAgent) -> None:
    """A changed setting is in force from the next message on."""
    agent = make_agent([say("Hi.")], window=2048)
    edit_by_hand(agent.vault, "memory.yaml", "zone: Asia/Tokyo\nwindow: 1024\n")
    agent.send(HELLO)
    assert agent.window == 1024
    assert queued(agent)[0].time.isoformat().endswith("+09:00")


@pytest.mark.parametrize("fresh", [False, True])
def test_broken_queue_is_not_written_over(make_agent: MakeAgent, fresh: bool) -> None:
    """A person's slip in queue.yaml is theirs to mend: the talk goes on from the last good state, the file stays."""
    agent = make_agent([say("One."), say("Two.")])
    agent.send(HELLO)
    text = (agent.vault.read("queue.yaml") or "").replace("summary:", "summary: [")
    edit_by_hand(agent.vault, "queue.yaml", text)
    if fresh:
        agent = Agent(Vault(agent.vault.root), ScriptedModel([say("Two.")]))
    assert agent.send("And again.") == "Two."
    assert agent.vault.read("queue.yaml") == text
    assert [message.content for message in queued(agent)] == [HELLO, "One.", "And again.", "Two."]
    assert [content for role, content in said(agent)] == [HELLO, "One.", "And again.", "Two."]
    assert agent.queue.trouble.startswith("queue.yaml:")
    edit_by_hand(agent.vault, "queue.yaml", text.replace("summary: [", "summary: They met. # "))
    assert agent.queue.state().summary == "They met." and not agent.queue.trouble
    if fresh:
        agent.close()


# -- notes ----------------------------------------------------------------------------------------------------------


def test_deleted_note_is_not_found(agent: Agent) -> None:
    """A note that a person removed is gone from the next search and from the count."""
    place = edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit is a golden retriever."))
    assert found(agent, "retriever") == ["archival/dog.md"] and agent.archival.count() == 1
    place.unlink()
    assert found(agent, "retriever") == [] and agent.archival.count() == 0


def test_edited_note_is_found_by_its_new_text_only(agent: Agent) -> None:
    """Old words no longer find an edited note, new ones do, at the next call."""
    edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit is a golden retriever."))
    assert found(agent, "retriever")
    edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit is a spaniel dog, yes."))
    assert found(agent, "retriever") == [] and found(agent, "spaniel") == ["archival/dog.md"]


def test_same_size_edit_within_the_same_tick_is_seen(agent: Agent) -> None:
    """An edit that leaves size and time stamp as they were is noticed while the file is young."""
    place = edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit likes beef."))
    stamp = place.stat()
    assert found(agent, "beef")
    place.write_text(note("Biscuit likes tofu."))
    os.utime(place, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert found(agent, "tofu") and not found(agent, "beef")


def test_restored_older_file_is_a_change(agent: Agent) -> None:
    """A file with an older time stamp than before counts as much as a newer one."""
    place = edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit likes beef."))
    os.utime(place, (10**9, 10**9))
    assert found(agent, "beef")
    edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit likes pears."))
    os.utime(place, (10**9 - 10**6, 10**9 - 10**6))
    assert found(agent, "pears") and not found(agent, "beef")


@pytest.mark.parametrize("new", ["archival/Biscuit (2).md", "archival/pets/dogs/a.md", "archival/狗.md"])
def test_moved_note_keeps_its_id_and_is_one_note(agent: Agent, new: str) -> None:
    """A note renamed or moved by hand is the same note at another place."""
    _, change = agent.call("archival_memory_insert", {"content": "Biscuit is a golden retriever."})
    assert change is not None
    hit = agent.archival.search("retriever").hits[0]
    (agent.vault.root / new).parent.mkdir(parents=True, exist_ok=True)
    (agent.vault.root / change.paths[0]).rename(agent.vault.root / new)
    again = agent.archival.search("retriever")
    assert again.total == 1 and agent.archival.count() == 1
    assert (again.hits[0].id, again.hits[0].path) == (hit.id, new)


def vim(place: Path, text: str) -> None:
    """As vim saves: probe with 4913, rename the old file to name~, write a new one, remove the old."""
    probe, old = place.with_name("4913"), place.with_name(place.name + "~")
    probe.write_text("")
    probe.unlink()
    place.rename(old)
    place.write_text(text)
    old.unlink()


def vscode(place: Path, text: str) -> None:
    """As VS Code saves: write into the same file."""
    place.write_text(text)


def sed(place: Path, text: str) -> None:
    """As `sed -i` saves: a temporary file takes the old one's place."""
    aside = place.with_name("sedA1b2C3")
    aside.write_text(text)
    aside.rename(place)


@pytest.mark.parametrize("save", [vim, vscode, sed])
def test_search_is_right_after_every_way_of_saving(agent: Agent, save: Callable[[Path, str], None]) -> None:
    """However an editor saves, the next search knows the new text and nothing else."""
    place = edit_by_hand(agent.vault, "archival/2026/dog.md", note("Biscuit likes beef."))
    assert found(agent, "beef")
    save(place, note("Biscuit likes carrots."))
    assert found(agent, "carrots") == ["archival/2026/dog.md"] and not found(agent, "beef")
    assert agent.archival.count() == 1


def test_renamed_folder_takes_its_notes_along(agent: Agent) -> None:
    """A whole folder renamed by hand: the same notes, by the same ids, at new paths."""
    for name in ("dog", "cat"):
        edit_by_hand(agent.vault, f"archival/pets/{name}.md", note(f"The {name} is an animal.", name))
    assert len(found(agent, "animal")) == 2
    (agent.vault.root / "archival/pets").rename(agent.vault.root / "archival/animals")
    hits = agent.archival.search("animal").hits
    assert {(hit.id, hit.path) for hit in hits} == {
        ("dog", "archival/animals/dog.md"),
        ("cat", "archival/animals/cat.md"),
    }


def test_git_checkout_of_an_older_version_is_seen(agent: Agent) -> None:
    """An older version brought back with plain git is what the next search and prompt use, as the person's edit."""
    edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit likes beef."))
    first = agent.vault.adopt()
    edit_by_hand(agent.vault, "archival/dog.md", note("Biscuit likes carrots."))
    assert found(agent, "carrots") and first is not None
    git = ["git", f"--git-dir={agent.vault.root}/.memory_fs/git", f"--work-tree={agent.vault.root}"]
    subprocess.run([*git, "checkout", "-q", first.rev, "--", "archival"], check=True, cwd=agent.vault.root)
    assert found(agent, "beef") and not found(agent, "carrots")
    assert changes_of(agent.vault)[0].author == person()[0]


ODD = {
    "none": "zebra one\n",
    "empty": "---\n---\nzebra two\n",
    "tab": "---\n\tid: x\n---\nzebra three\n",
    "twice": "---\nid: a1\nid: b1\n---\nzebra four\n",
    "colon": "---\ntitle: a: b\n---\nzebra five\n",
    "date": "---\ntitle: 2026-11-29\ntags: 2026-11-29\n---\nzebra six\n",
    "number": "---\ntitle: 5\ntags: [1, 2.5]\nid: 77\n---\nzebra seven\n",
    "null": "---\nid: null\ntitle:\ntags: ~\ncreated: null\n---\nzebra eight\n",
    "open": "---\nid: a9\nzebra nine\n",
}


def test_note_with_odd_front_matter_is_readable_and_searchable(agent: Agent) -> None:
    """Front matter that is missing, empty, broken or strange never hides a note nor its neighbours."""
    for name, text in ODD.items():
        edit_by_hand(agent.vault, f"archival/{name}.md", text)
    page = agent.archival.search("zebra", size=20)
    assert {hit.path for hit in page.hits} == {f"archival/{name}.md" for name in ODD}
    for word, name in zip("one two three four five six seven eight nine".split(), ODD, strict=True):
        assert found(agent, word) == [f"archival/{name}.md"]
        shown, _ = agent.call("archival_memory_search", {"query": word})
        assert shown.ok and f"> zebra {word}" in shown.text
    ignored = {name for name, text in ODD.items() if parse_note(text, name).warnings}
    assert ignored == {"none", "tab", "twice", "colon", "open"}
    assert snapshot(agent.vault, "core", "memory", "system") == {
        f"archival/{name}.md": text.encode() for name, text in ODD.items()
    }


def test_file_that_is_no_text_hides_no_neighbour(agent: Agent) -> None:
    """A note in another encoding is left out of search, as it is, and the others are found."""
    place = edit_by_hand(agent.vault, "archival/latin.md", "Straße zebra".encode("latin-1"))
    edit_by_hand(agent.vault, "archival/good.md", "Another zebra.")
    assert found(agent, "zebra") == ["archival/good.md"]
    assert place.read_bytes() == "Straße zebra".encode("latin-1")


# -- the same file at the same time ---------------------------------------------------------------------------------


def test_edit_before_a_call_comes_first_in_history(make_agent: MakeAgent) -> None:
    """A hand edit is a commit of the person, and the function's write is a commit of its own on top."""
    agent = make_agent(files=block("human", "Name: Chad."))
    edit_by_hand(agent.vault, "core/human.yaml", "value: 'Name: Bo.'\n")
    assert agent.call("core_memory_append", {"label": "human", "content": "Has a dog."})[0].ok
    assert value_of(agent.vault) == "Name: Bo.\nHas a dog."
    assert [change.author for change in changes_of(agent.vault, "core/human.yaml")][:2] == ["agent", person()[0]]


def test_edit_while_the_model_thinks_is_kept(make_agent: MakeAgent) -> None:
    """The model decided on an older text: the person's line stays, and the call works on what is there now."""

    def think(turns: object) -> str:
        edit_by_hand(agent.vault, "core/human.yaml", "value: Lives in Rome.\n")
        return call("core_memory_replace", label="human", old_content="Lives in Lisbon.", new_content="Lives in Porto.")

    agent = make_agent([think, say("I see.")], files=block("human", "Lives in Lisbon."))
    first, last = agent.run(HELLO)
    assert not first.result.ok and "Lives in Rome." in first.result.text
    assert value_of(agent.vault) == "Lives in Rome."
    assert last.final
