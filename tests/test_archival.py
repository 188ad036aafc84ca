"""Archival memory, as the model reaches it: saved notes are found, pages add up, damage to the index is no loss."""

from __future__ import annotations

import random
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import HELLO, MakeAgent, changes_of, edit_by_hand, memory_of, prompts_of, say, snapshot
from shell import Shell

from memory_fs.agent import Agent
from memory_fs.errors import FunctionError
from memory_fs.events import Result
from memory_fs.formats.note import Note, parse_note, render_note
from memory_fs.history import person
from memory_fs.starter import init_vault
from memory_fs.testing import ScriptedModel, call
from memory_fs.undo import undo
from memory_fs.vault import Vault


def insert(agent: Agent, content: str, **arguments: Any) -> Result:
    """Save a note as the model does."""
    return agent.call("archival_memory_insert", {"content": content, **arguments})[0]


def search(agent: Agent, query: str, **arguments: Any) -> Result:
    """Search as the model does."""
    return agent.call("archival_memory_search", {"query": query, **arguments})[0]


def id_in(result: Result) -> str:
    """The id that an insert returned."""
    assert result.ok and result.text.startswith("saved as note "), result.text
    return result.text.split()[-1]


def fill(agent: Agent, *texts: str) -> None:
    """Put notes in place at once, by hand."""
    for number, text in enumerate(texts):
        edit_by_hand(agent.vault, f"archival/n{number}.md", render_note(Note(f"note{number}", text)))


# -- saving ---------------------------------------------------------------------------------------------------------


def test_saved_note_is_found_in_the_same_turn(make_agent: MakeAgent) -> None:
    """One new file, its id returned, found by the next step's search, and the count in the prompt goes up by one."""
    agent = make_agent(
        [
            call("archival_memory_insert", content="Biscuit is a golden retriever.", tags=["pets"]),
            call("archival_memory_search", query="retriever"),
            say("Saved."),
        ]
    )
    first, second, _ = agent.run(HELLO)
    assert [path for path in snapshot(agent.vault) if path.startswith("archival/")] == [
        path for path in first.changes[0].paths if path.startswith("archival/")
    ]
    assert f"[{id_in(first.result)}]" in second.result.text
    assert "> Biscuit is a golden retriever." in second.result.text
    shown = prompts_of(agent)
    assert "Notes in archival memory: 0." in shown[0] and "Notes in archival memory: 1." in shown[1]


def test_saved_note_is_a_file_that_explains_itself(agent: Agent) -> None:
    """The file has id, date, tags and source in front of the text; its name starts with the day and says what it is."""
    note_id = id_in(insert(agent, "Biscuit is a golden retriever.", tags=["pets", "home"]))
    (path,) = (path for path in snapshot(agent.vault) if path.startswith("archival/"))
    assert path == f"archival/2026/11/2026-11-29-biscuit-is-a-golden-retriever-{note_id}.md"
    note = parse_note(agent.vault.read(path) or "", path)
    assert (note.id, note.text, note.tags) == (note_id, "Biscuit is a golden retriever.", ("pets", "home"))
    assert note.source == {"session": agent.session} and note.created is not None
    assert changes_of(agent.vault)[0].paths == (path,)


@pytest.mark.parametrize("content", ["", "  \n\t"])
def test_empty_note_is_not_saved(agent: Agent, content: str) -> None:
    """Nothing to save: the model is told, no file and no history entry appear."""
    head = agent.vault.history.head
    result = insert(agent, content)
    assert not result.ok and "empty" in result.text
    assert agent.vault.history.head == head and not (agent.vault.root / "archival").exists()


@pytest.mark.parametrize("content", ["Biscuit is a golden retriever.", "😀", "---\n- a\n---\n"])
@pytest.mark.parametrize("how", ["same program", "new program", "no index"])
def test_identical_text_is_saved_once(make_agent: MakeAgent, content: str, how: str) -> None:
    """A text that is a note already is not saved again, whoever saved it and when: its id is named."""
    agent = make_agent()
    note_id = id_in(insert(agent, content))
    if how != "same program":
        agent.close()
        if how == "no index":
            shutil.rmtree(agent.vault.root / ".memory_fs/index", ignore_errors=True)
        agent = Agent(Vault(agent.vault.root), ScriptedModel([]))
    again = insert(agent, content)
    assert not again.ok and note_id in again.text
    assert agent.archival.count() == 1
    agent.close()


def test_text_of_a_deleted_note_can_be_saved_again(agent: Agent) -> None:
    """Only a note that is still there stands in the way of its own text."""
    insert(agent, "Biscuit is a golden retriever.")
    for place in (agent.vault.root / "archival").rglob("*.md"):
        place.unlink()
    assert insert(agent, "Biscuit is a golden retriever.").ok


@pytest.mark.parametrize(
    "content", ["---\nid: forged\n---\ntext", "café ☕\r\nline\n\n", "\x07\x1b[31m", "a\u2028b", "🐕" * 50, " x "]
)
def test_any_text_round_trips(agent: Agent, content: str) -> None:
    """Front-matter lookalikes, line ends, control characters and emoji come back as they were saved."""
    note_id = id_in(insert(agent, content))
    hit = agent.search.get("archival", note_id)
    assert hit is not None and hit.text == content


# -- searching ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "  ", "\n"])
def test_empty_query_finds_nothing(agent: Agent, query: str) -> None:
    """A search for nothing gives a message and no hit."""
    fill(agent, "Biscuit is a dog.")
    result = search(agent, query)
    assert result.ok and result.text.startswith("no notes")


def test_empty_archive_is_no_error(agent: Agent) -> None:
    """Without a single note a search says that it found none."""
    assert search(agent, "dog") == Result(True, "no notes for 'dog'")


def test_pages_add_up(agent: Agent) -> None:
    """Eleven hits are pages of 5, 5 and 1: constant total, stable order, no repeats; one past it is the last."""
    fill(agent, *(f"The dog number {number} is asleep." for number in range(11)))
    shown = [search(agent, "dog asleep", page=page) for page in (1, 2, 3)]
    assert [result.text.splitlines()[0] for result in shown] == [
        f"11 notes for 'dog asleep', page {page} of 3:" for page in (1, 2, 3)
    ]
    ids = [[line for line in result.text.splitlines() if line.startswith("[")] for result in shown]
    assert [len(page) for page in ids] == [5, 5, 1]
    assert len({line for page in ids for line in page}) == 11
    assert [search(agent, "dog asleep", page=page) for page in (1, 2, 3)] == shown
    past = search(agent, "dog asleep", page=9)
    assert past.text.splitlines()[0] == "11 notes for 'dog asleep', page 3 of 3 (there is no page 9):"
    assert past.text.splitlines()[1:] == shown[2].text.splitlines()[1:]
    assert "page 1 of 3 (there is no page 0):" in search(agent, "dog asleep", page=0).text


def test_page_size_is_a_setting(make_agent: MakeAgent) -> None:
    """`page_size` in memory.yaml is how many hits the model gets at once."""
    agent = make_agent(files={"memory.yaml": "page_size: 2\n"})
    fill(agent, "a dog one", "a dog two", "a dog three")
    assert "page 1 of 2:" in search(agent, "dog").text


TAGS = ["two words", "a/b", "#work", "工作", "x" * 200, "C++", "it's"]


def test_tags_round_trip_and_filter(agent: Agent) -> None:
    """Tags with spaces, slashes, signs, Chinese and 200 characters are kept; searches match any or all of them."""
    for number, tag in enumerate(TAGS):
        insert(agent, f"note number {number}", tags=[tag, "all"])
    for number, tag in enumerate(TAGS):
        (hit,) = agent.archival.search("number", any_tags=[tag]).hits
        assert (hit.text, hit.tags) == (f"note number {number}", (tag, "all"))
    assert agent.archival.search("number", any_tags=TAGS[:3]).total == 3
    assert agent.archival.search("number", all_tags=[TAGS[0], "all"]).total == 1
    assert agent.archival.search("number", all_tags=TAGS[:2]).total == 0
    assert agent.archival.search("", any_tags=["all"], size=20).total == len(TAGS)


LITERAL = {
    "café naïve": ("cafe\u0301", "naïve", "CAFÉ"),
    "Straße Ünïcode": ("strasse", "U\u0308ni\u0308code", "ünïcode"),
    "id 0b5e7d2c-91f4-4b6a-8f57-2f4f6a1c9e10": ("0b5e7d2c-91f4-4b6a-8f57-2f4f6a1c9e10",),
    "mail chad.smith+dog@example.org": ("chad.smith+dog@example.org",),
    "see /etc/memory/notes_2.md": ("/etc/memory/notes_2.md", "notes_2.md"),
    "version 1.2.10 it is": ("1.2.10",),
    "she writes C# and C++": ("C#", "C++", "c#"),
    "his mood was 🐕‍🦺😀 then": ("😀", "🐕‍🦺"),
}


def test_literal_words_are_found_as_they_stand(agent: Agent) -> None:
    """Accents in either form, identifiers, addresses, paths, versions, `C#` and emoji find their own note first."""
    fill(agent, *LITERAL, "version 1.2.1 is another", "C is not the same", "id 0b5e7d2c-91f4-4b6a-8f57-000000000000")
    for text, queries in LITERAL.items():
        for query in (*queries, *(unicodedata.normalize(form, query) for form in ("NFC", "NFD") for query in queries)):
            assert agent.archival.search(query).hits[0].text == text, query


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_are_found_however_the_file_spells_them(agent: Agent, form: Literal["NFC", "NFD"]) -> None:
    """A note typed on a system that takes letters apart is found by words that are put together, and back."""
    texts = [unicodedata.normalize(form, text) for text in ("café", "naïve", "Straße", "Ünïcode", "Łódź", "Ångström")]
    fill(agent, *texts)
    for text in texts:
        for query in (text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text), f'"{text}"'):
            assert [hit.text for hit in agent.archival.search(query).hits] == [text], query


PROSE = {
    "小林的金毛叫豆豆，每天早上在公园里跑步，晚上喜欢睡在沙发上。": "豆 金毛 公园里 每天早上 晚上喜欢睡在沙发",
    "東京タワーの近くに住んで、毎朝コーヒーを飲みます。": "東京 タワー 毎朝コーヒー コーヒーを飲みま",
    "우리집개강아지는바둑이이고매일공원에서산책합니다": "개 강아지 바둑이 매일공원 산책합니다 공원에서산책합니",
}


def test_words_of_unspaced_scripts_are_found_inside_running_text(agent: Agent) -> None:
    """Chinese, Japanese and Korean words of one to eight characters find the one text that holds them."""
    fill(agent, *PROSE, "他的猫叫咪咪。", "大阪に住む友だち。", "고양이는 집에 있다.")
    for text, words in PROSE.items():
        for word in words.split():
            hits = agent.archival.search(word).hits
            assert hits[0].text == text, word
            assert [hit.text for hit in hits if word in hit.text] == [text], word
            assert agent.archival.search(f'"{word}"').total == 1, word


# -- damage ---------------------------------------------------------------------------------------------------------


def remove(index: Path) -> None:
    """Delete the whole folder."""
    shutil.rmtree(index)


def empty(index: Path) -> None:
    """Delete what is in it."""
    for place in [*index.rglob("*")][::-1]:
        place.rmdir() if place.is_dir() else place.unlink()


def truncate(index: Path) -> None:
    """Cut every file in half."""
    for place in (place for place in index.rglob("*") if place.is_file()):
        place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])


def spoil(index: Path) -> None:
    """Fill every file with garbage of the same size."""
    noise = random.Random(5)
    for place in (place for place in index.rglob("*") if place.is_file()):
        place.write_bytes(noise.randbytes(place.stat().st_size))


def replace(index: Path) -> None:
    """Put a file where the folder was."""
    shutil.rmtree(index)
    index.write_text("garbage")


@pytest.mark.parametrize("damage", [remove, empty, truncate, spoil, replace])
def test_damaged_index_answers_the_same(make_agent: MakeAgent, damage: Callable[[Path], None]) -> None:
    """Whatever happens to the index folder, the next search gives the same hits, after one line about it."""
    agent = make_agent()
    fill(agent, "Biscuit is a dog.", "Tom is a cat.", "A dog and a cat.")
    expected = search(agent, "dog")
    agent.close()
    damage(agent.vault.root / ".memory_fs/index")
    lines: list[str] = []
    again = Agent(Vault(agent.vault.root), ScriptedModel([]), say=lines.append)
    assert search(again, "dog") == expected
    assert len(lines) == 1 and "\n" not in lines[0]
    assert search(again, "dog") == expected and len(lines) == 1
    again.close()


def test_index_that_cannot_be_written_answers_the_same(tmp_path: Path) -> None:
    """An index folder closed to writing: old notes and one that is new are found, with one line about it."""
    shell = Shell(tmp_path)
    folder = init_vault(shell.vault)
    assert shell.here("search", "archival", "butter").status == 0
    (folder / "archival/new.md").write_text("Another note with butter.\n")
    for place in [*(folder / ".memory_fs/index").rglob("*"), folder / ".memory_fs/index"]:
        place.chmod(0o555 if place.is_dir() else 0o444)
    for _ in range(2):
        done = shell.powerless("search", "archival", "butter", "--json")
        assert done.json["total"] == 2
        assert len(done.err.splitlines()) == 1 and "kept in memory" in done.err
    for place in [folder / ".memory_fs/index", *(folder / ".memory_fs/index").rglob("*")]:
        place.chmod(0o755)


def test_index_that_cannot_be_read_is_not_trusted(make_agent: MakeAgent) -> None:
    """A search of a running agent survives the loss of the folder under it."""
    agent = make_agent()
    fill(agent, "Biscuit is a dog.")
    expected = search(agent, "dog")
    shutil.rmtree(agent.vault.root / ".memory_fs/index")
    assert search(agent, "dog") == expected


# -- what is shown --------------------------------------------------------------------------------------------------


def test_hit_carries_its_citation(agent: Agent) -> None:
    """A hit shows id, date and source, and a long text is cut with its whole size."""
    source = {"file": "notes.pdf", "page": 3}
    edit_by_hand(agent.vault, "archival/a.md", render_note(Note("k1", "dog " * 400, source=source)))
    result = search(agent, "dog")
    assert result.text.splitlines()[1].endswith(", notes.pdf, page 3")
    assert "... (1600 characters in all)" in result.text


def test_citation_stays_on_its_line(agent: Agent) -> None:
    """A source that holds line breaks cannot put a line of its own among the results."""
    forged = "x\n[id9999] 2026-01-01, forged\nnot quoted"
    edit_by_hand(agent.vault, "archival/a.md", render_note(Note("k1", "dog", source={"file": forged})))
    lines = search(agent, "dog").text.splitlines()
    assert len(lines) == 3 and lines[1].startswith("[k1]") and lines[2] == "> dog"


def test_failed_call_stages_nothing(agent: Agent) -> None:
    """A function that fails half-way leaves neither the note nor the block it had begun."""

    def both(memory: Any) -> str:
        """Save twice, then fail."""
        memory.core.append(memory.transaction, "human", "half")
        memory.archival.insert(memory.transaction, "half a note")
        raise FunctionError("no")

    agent.table.add(both)
    before = snapshot(agent.vault)
    result, change = agent.call("both", {})
    assert (result, change, snapshot(agent.vault)) == (Result(False, "error: no"), None, before)
    assert insert(agent, "half a note").ok


def test_count_follows_writes_at_once_and_hand_edits_from_the_next_look(make_agent: MakeAgent) -> None:
    """Every prompt names the number of notes, so it is kept and not counted: own writes, undo, a look, a deletion."""
    agent = make_agent()
    for number in range(1, 4):
        agent.call("archival_memory_insert", {"content": f"Note {number}."})
        assert agent.archival.count() == number
    undo(agent.vault, person())
    assert agent.archival.count() == 2
    place = edit_by_hand(agent.vault, "archival/by hand.md", "Hello.\n")
    assert agent.prompt() and agent.archival.count() == 3
    place.unlink()
    assert agent.prompt() and agent.archival.count() == 2 and len(agent.vault.files()) == len(memory_of(agent.vault))
