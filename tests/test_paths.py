"""Which paths are memory: hostile ones are refused before anything is read or written."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import changes_of, edit_by_hand
from shell import Shell

from memory_fs.agent import Agent
from memory_fs.disk import Disk, check_path, is_memory_file
from memory_fs.doctor import examine
from memory_fs.errors import FormatError, FunctionError, ModelError, VaultError
from memory_fs.events import Call
from memory_fs.formats.settings import parse_settings
from memory_fs.formats.strict_yaml import quoted
from memory_fs.functions import Function
from memory_fs.llm.registry import find
from memory_fs.memory_functions import Memory, default_table
from memory_fs.testing import make_vault
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
    "archival/" + "deep/" * 2000 + "x.sh",
    "C:/core/human.yaml",
    "C:core/human.yaml",
    "\\\\server\\core\\human.yaml",
    "..\\core\\human.yaml",
    "~/core/human.yaml",
    "~root/x.md",
    "%2e%2e/core/human.yaml",
    "..%2fcore%2fhuman.yaml",
    "file:///etc/passwd",
    "$HOME/x.md",
    "．．/x.md",
    "con",
    "archival/git~1/x.md",
    "archival/GIT~1. :x.md",
    "archival",
    "archival/",
    "memory.yaml/x",
    "system.md/../x.md",
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
    "archival/~root/$HOME/%2e%2e/x.md",  # only names: nothing expands or decodes them
    "archival/git~2/．．/x.md",
    "archival/-rf.md",
]

# Texts that mean a place somewhere, to somebody.
ATTACKS = [
    "..",
    "../core/human",
    "../../../../etc/passwd",
    "a/../../system",
    "/etc/passwd",
    "//etc/passwd",
    "~",
    "~/x",
    "~root/x",
    "~nobody-of-this-name/x",
    "$HOME/x",
    "$(touch pwned)",
    "`touch pwned`",
    "%2e%2e%2fsystem",
    "..%252fsystem",
    "..\\..\\system",
    "C:\\Windows\\x",
    "C:x",
    "\\\\server\\share\\x",
    "file:///etc/passwd",
    "．．／system",
    "..\u2215..\u2215system",
    "\u202eold.exe",
    "a\0b",
    "\0",
    "\ud800",
    "a\nb",
    "a\x1b[2Jb",
    "con",
    "NUL",
    "com1.yaml",
    ".git/config",
    ".memory_fs/git/HEAD",
    "human.yaml",
    "human/",
    ".",
    "x" * 300,
    "狗" * 100,
    "x/" * 3000,
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


# -- the same through every function, field and argument --------------------------------------------------------------

ARGUMENTS: dict[str, Any] = {
    "message": "Hello.",
    "label": "human",
    "content": "Likes tea.",
    "old_content": "Dog: Biscuit.",
    "new_content": "Dog: none.",
    "reason": "It ran away.",
    "query": "tea",
    "start_date": "2026-11-29",
    "end_date": "2026-11-29",
    "description": "About tea.",
    "tags": ["tea"],
    "page": 1,
    "line": 0,
    "id": "k3f9x2",
}
PLACES = ("label", "start_date", "end_date", "id")  # arguments that name something: nothing hostile is taken for one
FUNCTIONS = {function.name: function for function in default_table().select(())}


def attacks_on(function: Function) -> Iterator[tuple[str, Call]]:
    """(argument, call) for every text argument of a function and every attack."""
    fine = {parameter.name: ARGUMENTS[parameter.name] for parameter in function.parameters}
    for parameter in function.parameters:
        if isinstance(fine[parameter.name], (str, list)):
            for attack in ATTACKS:
                value = attack if isinstance(fine[parameter.name], str) else [attack]
                yield parameter.name, Call(function.name, {**fine, parameter.name: value})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_argument_of_a_function_leaves_the_vault(agent: Agent, name: str) -> None:
    """Where an argument names something, hostile text is refused and stages nothing; elsewhere it is only text."""
    around = everything(agent.vault)
    taken: set[str] = set()

    def work(transaction: Transaction) -> None:
        memory = Memory(agent.core, agent.archival, agent.recall, transaction)
        for argument, call in attacks_on(FUNCTIONS[name]):
            before = dict(transaction.staged)
            result = agent.executor.run(call, memory)
            assert result.ok or transaction.staged == before, call
            assert not (result.ok and argument in PLACES), call
            assert "failed:" not in result.text, call  # an exception that nobody had thought of
        taken.update(check_path(path, new=True) for path in transaction.staged)

    agent.vault.transact(work, "Attacks")
    changed = {place for place, data in everything(agent.vault).items() if around.get(place) != data}
    assert changed <= {agent.vault.root / path for path in taken} and around.keys() <= everything(agent.vault).keys()


def test_function_of_a_hostile_name_is_refused(agent: Agent) -> None:
    """The name of a function is looked up in a table and nowhere else; the answer is one clean line."""
    before = everything(agent.vault)
    for attack in ATTACKS:
        result, change = agent.call(attack, {"label": "human"})
        assert not result.ok and change is None and "no function" in result.text
    assert everything(agent.vault) == before


def test_hostile_front_matter_is_only_text(agent: Agent) -> None:
    """An id, a tag, a title or a source of a note names no file: the note is found, and nothing else is touched."""
    for number, attack in enumerate(ATTACKS):
        text = attack.replace("\0", "").encode("utf-8", "replace").decode()
        head = "\n".join(f"{key}: {quoted(text)}" for key in ("id", "title", "tags", "created"))
        note = f"---\n{head}\nsource: {{file: {quoted(text)}, url: {quoted(text)}}}\n---\nzebra {number}\n"
        edit_by_hand(agent.vault, f"archival/{number}.md", note)
    before = everything(agent.vault)
    assert agent.archival.search("zebra", size=100).total == len(ATTACKS)
    for attack in ATTACKS:
        agent.archival.search(f"tag:{attack}")
        assert agent.search.get("archival", attack) is None or attack in ("con", "NUL")
    ids = [hit.id for hit in agent.archival.search("zebra", size=100).hits]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one) for one in ids)
    examine(agent.vault.root, fix=True)
    assert everything(agent.vault) == before


def test_hostile_reference_in_the_queue_names_no_message(agent: Agent) -> None:
    """What the queue names is a day and an id; a day file elsewhere is not read through it."""
    day = "# 2026-11-29\n\n## 10:00:00+00:00 user m1\n\nsecret\n\n"
    (agent.vault.root.parent / "2026-11-29.md").write_text(day)
    edit_by_hand(agent.vault, "recall/2026/11/2026-11-29.md", day.replace("secret", "mine"))
    refs = [f"{attack}/m1" for attack in ATTACKS] + [f"2026-11-29/{attack}" for attack in ATTACKS]
    refs += ["../2026-11-29/m1", "2026-11-29/../m1", "../../../2026-11-29.md", "20261129/../m1"]
    assert [ref for ref in refs if agent.recall.get(ref)] == []
    found = agent.recall.get("2026-11-29/m1")
    assert found is not None and found.content == "mine"


COMMANDS = [
    "show X",
    "call X",
    "search archival X",
    "search X tea",
    "model use X",
    "model verify X",
    "model install X",
    "diff X",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_hostile_argument_of_a_command_is_refused_or_only_text(tmp_path: Path, command: str) -> None:
    """Whatever stands where a name belongs, a command ends with a line, not a traceback, and writes nothing."""
    shell = Shell(tmp_path)
    with make_vault(shell.vault):
        pass
    before = shell.files()
    for attack in ATTACKS[COMMANDS.index(command) % 3 :: 3]:
        if command == "model use X" and attack.endswith("/etc/passwd"):
            continue  # a file anywhere may be somebody's model
        done = shell.here(*(attack if word == "X" else word for word in command.split()))
        assert done.status == 2 or command == "search archival X", attack
        assert not set(done.out + done.err) & set("\x1b\u202e\0"), attack
    assert shell.files() == before
    assert {place.name for place in tmp_path.iterdir()} - {".cache"} == {"models", "vault"}


def test_hostile_settings_are_refused_or_only_text(tmp_path: Path) -> None:
    """A model or a function of a hostile name is there or not, as any other; a zone that is a path is refused."""
    for attack in ATTACKS:
        text = quoted(attack.replace("\0", "").encode("utf-8", "replace").decode())
        name = parse_settings(f"model: {text}\nfunctions: [{text}]\n").model
        with contextlib.suppress(ModelError):
            assert find(name, tmp_path).is_file()
        with pytest.raises(FormatError, match="zone"):
            parse_settings(f"zone: {text}\n")
        with pytest.raises(FunctionError, match="no function"):
            default_table().select([attack])


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
    vault.adopt()
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
    vault.adopt()
    assert changes_of(vault)[0].paths == ("archival/good.md",)


def test_name_that_git_refuses_blocks_nothing(vault: Vault) -> None:
    """A folder that some system takes for git's own is left out, and all else is taken into history."""
    for path in ("archival/git~1/x.md", "archival/GIT~1. :x.md", "archival/good.md"):
        edit_by_hand(vault, path, "x")
    vault.adopt()
    assert changes_of(vault)[0].paths == ("archival/good.md",)
    assert {path for path in vault.files() if path.startswith("archival/")} == {"archival/good.md"}


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
