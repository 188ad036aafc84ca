"""The history commands as a person types them: what they print, their JSON, and what they refuse in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import edit_by_hand
from shell import Shell
from tiny_gguf import tiny_gguf

from memory_fs.history import person
from memory_fs.testing import make_vault
from memory_fs.vault import Vault

HUMAN = "core/human.yaml"
NOTE = "archival/2026/dog.md"
SESSION = {"Session": "2026-11-29-a7f3", "Function": "core_memory_append"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault in which two turns and a person have written, made once."""
    files = {"memory.yaml": "zone: UTC\nmodel: tiny.gguf\nwindow: 1024\n"}
    with make_vault(tmp_path_factory.mktemp("made") / "vault", files) as vault:
        write(vault, "Name: 陈伟.", 1)
        write(vault, "Dog: Biscuit.", 2)
        edit_by_hand(vault, NOTE, "---\nid: d1\n---\nBiscuit\x1b[31m is a dog.\n")
        vault.adopt()
    return vault.root


@pytest.fixture
def shell(tmp_path: Path, made: Path) -> Shell:
    """A shell with a copy of that vault."""
    shell = Shell(tmp_path)
    shell.copy_vault(made)
    return shell


def write(vault: Vault, line: str, turn: int) -> None:
    """A line that the agent adds to the human block in a turn."""
    from memory_fs.core import Core

    trailers = {**SESSION, "Turn": str(turn)}
    vault.transact(lambda t: Core(vault).append(t, "human", line), f"Save {line}", trailers=trailers)


def value(shell: Shell) -> str:
    """The human block's file."""
    return (shell.vault / HUMAN).read_text()


def log(shell: Shell, *arguments: str) -> list[dict[str, Any]]:
    """The changes that `log` lists."""
    found = shell.here("log", *arguments, "--json").json
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("arguments", "subjects"),
    [
        (f"--author {person()[0][-5:].upper()}", [f"Edit {NOTE} by hand"]),
        ("--turn 2", ["Save Dog: Biscuit."]),
        ("--session 2026-11-29-a7f3 --limit 1", ["Save Dog: Biscuit."]),
        ("--function core_memory_append", ["Save Dog: Biscuit.", "Save Name: 陈伟."]),
        ("core --until 2026-11-29 --author agent", ["Save Dog: Biscuit.", "Save Name: 陈伟."]),
        ("--until 2026-11-28", []),
    ],
)
def test_log_is_filtered(shell: Shell, arguments: str, subjects: list[str]) -> None:
    """By author, turn, session, function and day, alone and together, for people and for scripts."""
    assert [change["subject"] for change in log(shell, *arguments.split())] == subjects
    printed = shell.here("log", *arguments.split()).out.splitlines()
    assert len(printed) == len(subjects) and all(map(str.endswith, printed, subjects))


def test_diff_of_a_count_and_of_two_states(shell: Shell) -> None:
    """A number is the last changes; with states all files that differ are shown, of all of memory or of one path."""
    assert [change["subject"] for change in shell.here("diff", "2", "--json").json] == [
        f"Edit {NOTE} by hand", "Save Dog: Biscuit."]  # fmt: skip
    found = shell.here("diff", "HEAD~3", "HEAD", "--json").json
    assert [change["path"] for change in found["changes"]] == [NOTE, HUMAN]
    assert (found["from"], found["to"]) == (log(shell)[3]["rev"], log(shell)[0]["rev"])
    whole = shell.here("diff", log(shell)[3]["rev"][:8]).out
    assert "+  Name: 陈伟.\n+  Dog: Biscuit.\n" in whole and whole.count("+++ ") == 2
    assert shell.here("diff", "2026-11-29", "HEAD~1", "--path", "core/").out.count("+++ ") < 2
    assert (
        shell.here("diff", "HEAD", "HEAD").out == "" and shell.here("diff", "1", "--path", HUMAN).out.count("@@") == 2
    )


def test_show_takes_every_name_of_a_state(shell: Shell) -> None:
    """HEAD~1 is the change before the newest."""
    assert shell.here("show", "HEAD~1", "--json").json == log(shell)[1]


def test_blame_prints_who_when_where_and_what(shell: Shell) -> None:
    """Each line stands behind its change, function and turn; the JSON has them apart."""
    lines = shell.here("blame", HUMAN, "--json").json
    assert list(lines[-1]) == [
        "line", "text", "rev", "author", "time", "subject", "function", "session", "turn", "path"]  # fmt: skip
    assert (lines[-1]["text"], lines[-1]["author"], lines[-1]["turn"]) == ("  Dog: Biscuit.", "agent", 2)
    assert lines[0]["turn"] is None and lines[0]["author"] == "memory_fs"
    printed = shell.here("blame", HUMAN).out.splitlines()
    assert len(printed) == len(lines)
    assert printed[-1].startswith(lines[-1]["rev"][:8]) and printed[-1].endswith("  Dog: Biscuit.")
    assert "agent" in printed[-1] and "core_memory_append 2026-11-29-a7f3/2" in printed[-1]
    assert person()[0] in shell.here("blame", NOTE).out and "\x1b" not in shell.here("blame", NOTE).out


def test_undo_of_a_change_a_turn_and_a_session(shell: Shell) -> None:
    """What is named goes in one change, and redo brings it back."""
    first = log(shell, "--turn", "1")[0]["rev"]
    assert shell.here("undo", first[:8], "--json").json["trailers"] == {"Undoes": first}
    assert "陈伟" not in value(shell) and "Biscuit" in value(shell)
    assert "+  Name: 陈伟." in shell.here("redo").out
    assert "Undo: turn 2026-11-29-a7f3/2, 1 change" in shell.here("undo", "--turn").out
    assert shell.here("redo").status == 0
    assert shell.here("undo", "--turn", "2026-11-29-a7f3/1").status == shell.here("redo").status == 0
    assert "Undo: session 2026-11-29-a7f3, 2 changes" in shell.here("undo", "--session", "2026-11-29-a7f3").out
    assert "Biscuit" not in value(shell) and shell.here("redo").status == 0
    assert shell.here("undo", "--session").status == 0 and "陈伟" not in value(shell)
    assert (shell.vault / NOTE).exists(), "what the person wrote is of no session"


def test_restore_brings_back_and_says_when_there_is_nothing_to_do(shell: Shell) -> None:
    """A deleted note comes back as the person's change; the same again changes nothing."""
    (shell.vault / NOTE).unlink()
    assert "was not there at" in shell.here("restore", f"{NOTE}@HEAD").complaint, "it is deleted in the newest state"
    made = shell.here("restore", f"{NOTE}@HEAD~1", "--json").json
    assert (made["author"], [change["path"] for change in made["changes"]]) == (person()[0], [NOTE])
    assert (shell.vault / NOTE).exists()
    assert shell.here("restore", "archival@HEAD").out == "archival is as it was then; nothing was changed\n"
    (shell.vault / NOTE).rename(shell.vault / "archival/other.md")
    done = shell.here("restore", "archival@HEAD~1")
    assert done.status == 0 and f"{NOTE} is archival/other.md now and was left alone" in done.told


def test_earlier_file_and_prompt_are_shown(shell: Shell) -> None:
    """`at REV show` prints a file, `at REV prompt` the prompt with its tokens, as `prompt` does now."""
    tiny_gguf(shell.folder / "models/tiny.gguf", trained=2048)
    assert shell.here("at", "HEAD", "show", NOTE).out == "---\nid: d1\n---\nBiscuit\u241b[31m is a dog.\n"
    found = shell.here("at", "HEAD~1", "show", HUMAN, "--json").json
    assert list(found) == ["rev", "path", "text"] and found["text"] == value(shell)
    assert shell.here("at", "HEAD", "prompt", "--json").json == shell.here("prompt", "--json").json
    assert shell.here("at", "HEAD", "prompt").out == shell.here("prompt").out
    then = shell.here("at", "HEAD~2", "prompt").out
    assert "Name: 陈伟." in then and "Biscuit" not in then and " of 1024 tokens" in then


def test_gc_says_what_it_freed(shell: Shell) -> None:
    """A trial run tells the number of changes, the real one the sizes as well; `log` goes on from what is kept."""
    files = shell.files()
    planned = shell.here("gc", "--keep", "0d", "--dry-run", "--json").json
    assert planned["changes"] == [4, 1] and planned["bytes"][1] is None and planned["dry_run"] is True
    assert "nothing was done" in shell.here("gc", "--keep", "0d", "--dry-run").out
    out = shell.here("gc", "--keep", "0d").out
    assert out.startswith("4 changes -> 1, ") and "B -> " in out
    assert shell.here("gc", "--keep", "90d", "--json").json["changes"] == [1, 1]
    assert len(log(shell)) == 1 and shell.files() == files and shell.here("status").status == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("log --since monday", "'monday' is no date; write 2026-11-29, today or yesterday"),
        ("log --since 2026-12-01 --until 2026-11-01", "is after --until 2026-11-01; swap them"),
        ("log --turn x", "'x' is not a valid"),
        ("diff bogus", "no change 'bogus' in the history"),
        ("diff 1 bogus", "no change '1' in the history"),
        ("diff 2025-01-01", "the history knows nothing of 2025-01-01; it begins at 2026-11-29T14:24"),
        ("show 2026-02-30", "is no date"),
        ("blame core/nobody.yaml", "there is no file core/nobody.yaml in memory"),
        ("undo bogus", "no change 'bogus'"),
        ("undo HEAD~3", "is where the history begins"),
        ("undo --turn --session", "do not go together"),
        ("undo --turn nine", "names no turn; write SESSION/N"),
        ("undo --turn 2026-11-29-a7f3/9", "nothing to undo"),
        ("undo --session nobody", "nothing to undo"),
        ("restore core/human.yaml", "names no state; write PATH@REV"),
        ("restore @HEAD", "names no state"),
        ("restore core/human.yaml@", "names no state"),
        ("restore core/human.yaml@bogus", "no change 'bogus'"),
        ("restore ../../etc@HEAD", "is no file or folder of memory"),
        ("restore core/nobody.yaml@HEAD", "was not there at"),
        ("at HEAD prompt core/human.yaml", "write `at REV prompt`, or `at REV show PATH`"),
        ("at HEAD show", "write `at REV prompt`, or `at REV show PATH`"),
        ("at HEAD show ../../etc/passwd", "was not there at"),
        ("at HEAD dance", "'dance' is not one of 'prompt', 'show'"),
        ("at HEAD prompt", "there is no model tiny.gguf"),
        ("gc", "Missing option '--keep'"),
        ("gc --keep forever", "write days, weeks or years: 90d, 12w, 1y"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(shell: Shell, arguments: str, told: str) -> None:
    """Bad dates, states, paths and numbers: exit status 2, one line, nothing written."""
    files, head = shell.files(), (shell.vault / ".memory_fs/git/refs/heads/main").read_bytes()
    assert told in shell.here(*arguments.split()).complaint
    assert (shell.files(), (shell.vault / ".memory_fs/git/refs/heads/main").read_bytes()) == (files, head)


def test_help_says_how_a_count_is_told_from_a_state(shell: Shell) -> None:
    """What may be written for a state stands in the help of each command that takes one."""
    assert "up to six digits" in " ".join(shell.here("diff", "--help").out.split())
    for command in ("diff", "show", "undo", "restore", "at"):
        assert "HEAD~2, or a moment" in " ".join(shell.here(command, "--help").out.split()), command


def test_chat_still_undoes_and_shows(shell: Shell) -> None:
    """Inside a conversation `/undo` takes back the newest change and `/diff` shows it."""
    done = shell.chat("/undo\n/diff\n")
    assert done.status == 0 and done.out.count(f"Undo: Edit {NOTE} by hand") == 2
    assert json.dumps(list(shell.files())).count("dog.md") == 0
