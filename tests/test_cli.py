"""The commands and the JSON that scripts rely on, run as a person runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from shell import PROGRAM, Shell, commands

from memory_fs.starter import init_vault
from memory_fs.testing import call

HEAVY = "llama_cpp llguidance whoosh pygit2 numpy yaml tiktoken watchdog rich asyncio memory_fs.agent memory_fs.vault"


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A starter vault, made once."""
    return init_vault(tmp_path_factory.mktemp("starter") / "vault")


@pytest.fixture
def shell(tmp_path: Path, starter: Path) -> Shell:
    """A shell in a folder with a starter vault."""
    made = Shell(tmp_path)
    made.copy_vault(starter)
    return made


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "command"), list(commands()))
def test_every_command_and_option_says_what_it_does(name: str, command: object) -> None:
    """`--help` of every command has a sentence on it, and one on each of its options."""
    assert str(command.help).endswith(".")  # type: ignore[attr-defined]
    for option in command.params:  # type: ignore[attr-defined]
        assert getattr(option, "help", "") or option.param_type_name == "argument", (name, option.name)


def test_help_lists_every_command_and_loads_nothing_heavy(tmp_path: Path) -> None:
    """`memory-fs --help` is quick because the engine, the index, git and YAML are not imported for it."""
    code = (
        "import sys; from memory_fs import cli; sys.argv = ['memory-fs', '--help']\n"
        "try: cli.main()\n"
        f"except SystemExit: sys.exit(' '.join(name for name in {HEAVY.split()} if name in sys.modules) or 0)"
    )
    done = Shell(tmp_path).run(program=[sys.executable, "-c", code])
    assert (done.status, done.err) == (0, "")
    assert all(f"  {name.split()[0]} " in done.out for name, _ in commands())


def test_version_is_the_package_version(shell: Shell) -> None:
    """`memory-fs --version` prints the version and nothing else, wherever it is called."""
    from memory_fs import __version__

    assert shell.run("--version").out == f"{__version__}\n"


# -- init --------------------------------------------------------------------------------------------------------------


def test_init_makes_a_vault_with_its_history(tmp_path: Path) -> None:
    """A new vault has settings, instructions, two blocks, three notes (one Chinese) and one commit."""
    shell = Shell(tmp_path)
    assert "vault is ready" in shell.run("init").out
    notes = [path for path in shell.files() if path.startswith("archival/")]
    assert len(notes) == 3
    assert any("龙井" in path for path in notes)
    assert {"memory.yaml", "system.md", "core/human.yaml", "core/persona.yaml"} | set(notes) == set(shell.files())
    assert [change["author"] for change in shell.run("log", "--json").json] == ["memory_fs"]


def test_init_takes_a_folder_or_the_vault_option_or_the_environment(tmp_path: Path) -> None:
    """The three ways to say which folder lead to the same vault."""
    shell = Shell(tmp_path)
    assert shell.run("init", "one").status == shell.run("init", "--vault", "two").status == 0
    assert shell.run("init", MEMORY_FS_VAULT="three").status == 0
    assert all((tmp_path / name / "memory.yaml").exists() for name in ("one", "two", "three"))


def test_init_never_touches_a_vault_that_is_there(shell: Shell) -> None:
    """A second init refuses, and every file is as it was."""
    before = shell.files()
    assert "a vault already" in shell.run("init").complaint
    assert shell.files() == before


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_call_prints_its_result_and_the_diff_of_each_file(shell: Shell) -> None:
    """`call --json` is {"ok", "result", "changes": [{"path", "diff"}]}."""
    found = shell.call("core_memory_append", as_json=True, label="human", content="Name: Chad. 饼干 🐕").json
    assert list(found) == ["ok", "result", "changes"]
    assert found["ok"] is True
    assert "human" in found["result"]
    (change,) = found["changes"]
    assert list(change) == ["path", "diff"]
    assert change["path"] == "core/human.yaml"
    assert "+  Name: Chad. 饼干 🐕\n" in change["diff"]
    assert "Name: Chad." in (shell.vault / "core/human.yaml").read_text()


def test_refused_call_prints_json_too_and_exits_2(shell: Shell) -> None:
    """A script that asks for JSON gets it also when the call fails, with no change in it."""
    done = shell.call("core_memory_append", as_json=True, label="nobody", content="x")
    assert (done.status, done.json["ok"], done.json["changes"]) == (2, False, [])
    assert "persona, human" in done.json["result"]


def test_search_prints_a_page_of_hits_with_citations(shell: Shell) -> None:
    """`search --json` is {"query", "page", "pages", "total", "hits": [{"id", "path", "date", "text", "source"}]}."""
    found = shell.here("search", "archival", "butter sugar", "--json").json
    assert list(found) == ["query", "page", "pages", "total", "hits"]
    assert (found["query"], found["page"], found["pages"], found["total"]) == ("butter sugar", 1, 1, 1)
    (hit,) = found["hits"]
    assert list(hit) == ["id", "path", "date", "text", "source"]
    assert hit["id"] in hit["path"]
    assert (shell.vault / hit["path"]).is_file()
    assert datetime.fromisoformat(hit["date"]).tzinfo
    assert hit["text"].startswith("Shortbread for eight")
    assert hit["source"] == "starter vault"


def test_page_past_the_end_is_the_last_page(shell: Shell) -> None:
    """Page 9 of one page is page 1, and the plain output says that there is no page 9."""
    assert shell.here("search", "archival", "butter", "--page", "9", "--json").json["page"] == 1
    assert "there is no page 9" in shell.here("search", "archival", "butter", "--page", "9").out


def test_search_of_a_new_recall_finds_nothing_and_says_so(shell: Shell) -> None:
    """No message yet: no error, an empty page, a plain sentence."""
    assert shell.here("search", "recall", "hello", "--json").json["hits"] == []
    assert "nothing found" in shell.here("search", "recall", "hello").out


def test_status_prints_model_window_blocks_and_counts(shell: Shell) -> None:
    """`status --json` has {"model", "window", "blocks", "notes", "messages", "index", "history"}, without any model."""
    found = shell.here("status", "--json").json
    assert {"model", "window", "blocks", "notes", "messages", "index", "history"} <= set(found)
    assert [list(block) for block in found["blocks"]] == [["label", "used", "limit", "read_only"]] * 2
    assert [block["label"] for block in found["blocks"]] == ["persona", "human"]
    assert (found["window"], found["notes"], found["messages"]) == (4096, 3, 0)
    assert found["model"]["installed"] is False
    assert found["index"]["records"] == 3
    assert found["history"]["changes"] == 1


def test_send_prints_the_reply_and_every_step(shell: Shell) -> None:
    """`send --json` is {"reply", "steps"}; each step tells the call, its result, its changes, tokens and seconds."""
    save = call("core_memory_append", missing="saving a new fact", label="human", content="Name: Chad.")
    done = shell.scripted("send", "My name is Chad.", "--json", replies=[save, '{"message": "Hello Chad."}'])
    assert done.status == 0
    check_send(done.json, "Hello Chad.")
    first, last = done.json["steps"]
    assert (first["function"], first["arguments"]["content"]) == ("core_memory_append", "Name: Chad.")
    assert "core/human.yaml" in [change["path"] for change in first["changes"]]
    assert last["result"] == "sent"
    assert shell.here("status", "--json").json["session"]["steps"] == 2


def check_send(found: dict[str, Any], reply: str) -> None:
    """The shape of `send --json`, and that the last step is the answer."""
    assert list(found) == ["reply", "steps"]
    for step in found["steps"]:
        assert {"function", "arguments", "ok", "result", "changes", "tokens", "seconds"} <= set(step)
        assert list(step["tokens"]) == ["prompt", "reused", "generated"]
        assert all(list(change) == ["path", "diff"] for change in step["changes"])
    last = found["steps"][-1]
    assert (last["function"], last["arguments"]["message"], found["reply"]) == ("send_message", reply, reply)


def test_send_names_the_pages_that_came_in(shell: Shell) -> None:
    """Each step says which notes and messages it brought into context, why and by what."""
    shell.call("archival_memory_insert", content="The boiler of the cottage was serviced in October.")
    question = "When was the boiler of the cottage serviced?"
    done = shell.scripted("send", question, "--json", replies=['{"message": "In October."}'])
    (step,) = done.json["steps"]
    (page,) = step["pages"]
    assert page["page"].startswith("archival/") and (page["why"], page["cause"]) == ("fault", question)


def test_send_prints_the_answer_and_the_diff(shell: Shell) -> None:
    """Without --json a person reads the answer, then what was written to memory."""
    save = call("core_memory_append", missing="saving a new fact", label="human", content="Name: Chad.")
    done = shell.scripted("send", "My name is Chad.", replies=[save, '{"message": "Hello Chad."}'])
    assert done.out.startswith("Hello Chad.\n--- a/core/human.yaml\n")


def test_send_read_only_leaves_memory_as_it_is(shell: Shell) -> None:
    """`send --read-only` answers and records what was said; core and archival memory differ by nothing."""
    before = (shell.vault / "core/human.yaml").read_bytes()
    done = shell.scripted("send", "My name is Chad.", "--read-only", replies=['{"message": "Hello Chad."}'])
    assert done.out == "Hello Chad.\n"
    assert (shell.vault / "core/human.yaml").read_bytes() == before
    assert shell.here("search", "recall", "Chad", "--json").json["total"] == 2


def test_log_show_and_diff_print_the_same_change(shell: Shell) -> None:
    """A change has rev, author, time, subject, trailers and its files' diffs, wherever it is printed."""
    shell.call("core_memory_append", label="human", content="Likes tea.")
    newest = shell.here("log", "-n", "1", "--json").json[0]
    assert list(newest) == ["rev", "author", "time", "subject", "trailers", "changes"]
    assert (newest["author"], newest["trailers"]["Function"]) == ("agent", "core_memory_append")
    assert shell.here("show", newest["rev"][:8], "--json").json == newest
    assert shell.here("diff", "--json").json == [newest]
    assert len(shell.here("log", "archival", "--json").json) == 1


def test_undo_and_redo_print_the_change_they_made(shell: Shell) -> None:
    """Undo takes the newest change of memory back as a change of its own, redo brings it back."""
    before = shell.files()
    shell.call("core_memory_append", label="human", content="Likes tea.")
    after = shell.files()
    assert "Undoes" in shell.here("undo", "--json").json["trailers"]
    assert shell.files() == before
    assert "+  Likes tea." in shell.here("redo").out
    assert shell.files() == after


def test_hand_edit_is_in_the_log_as_the_persons_own(shell: Shell) -> None:
    """What a person saved with an editor is adopted, with git's name for that person."""
    (shell.folder / ".gitconfig").write_text("[user]\n\tname = Ana\n\temail = ana@example.org\n")
    human = shell.vault / "core/human.yaml"
    human.write_text(human.read_text().replace('value: ""', "value: Name is Chad."))
    newest = shell.run("log", "-n", "1", "--json").json[0]
    assert (newest["author"], newest["subject"]) == ("Ana", "Edit core/human.yaml by hand")


def test_reindex_builds_the_index_from_the_files(shell: Shell) -> None:
    """After `reindex` the same is found as before."""
    assert shell.here("reindex").out == "3 files indexed\n"
    assert shell.here("search", "archival", "龙井", "--json").json["total"] == 1


# -- models ------------------------------------------------------------------------------------------------------------


def test_model_list_knows_the_default_and_reads_nothing_from_a_network(shell: Shell) -> None:
    """The registry is a file: what could be installed is listed with size and licence, offline."""
    rows = {row["name"]: row for row in shell.here("model", "list", "--json").json}
    assert {"installed", "bytes", "licence"} <= set(rows["qwen2.5-coder-1.5b-instruct"])
    assert not any(row["installed"] for row in rows.values())
    assert "qwen2.5-coder-1.5b-instruct" in shell.here("model", "list").out


@pytest.mark.model
def test_send_and_prompt_with_the_default_model(shell: Shell, default_model_path: Path) -> None:
    """`send --json` and `prompt --json` have the shape that scripts rely on, and `status` counts the tokens."""
    env = {"MEMORY_FS_MODELS": str(default_model_path.parent)}
    found = shell.run("send", "Hi! My name is Chad and I live in Lisbon.", "--json", **env).json
    assert found["reply"]
    check_send(found, found["reply"])
    prompt = shell.run("prompt", "--json", **env).json
    assert list(prompt) == ["window", "tokens", "regions"]
    assert all(list(region) == ["name", "tokens", "text"] for region in prompt["regions"])
    assert prompt["window"] == 4096
    assert 0 < prompt["tokens"] < 4096
    assert any("Lisbon" in region["text"] for region in prompt["regions"] if region["name"].startswith("queue"))
    assert shell.run("status", "--json", **env).json["session"]["prompt"] > 0


# -- pipes -------------------------------------------------------------------------------------------------------------


def test_piped_output_has_no_colour_codes_and_no_progress_bar(shell: Shell) -> None:
    """Text for another program is plain, even where a library is told to force colours."""
    shell.call("core_memory_append", label="human", content="Likes tea.")
    for arguments in (("diff",), ("status",), ("reindex",), ("search", "archival", "tea")):
        done = shell.run(*arguments, TERM="xterm-256color", FORCE_COLOR="1")
        assert done.status == 0
        assert "\x1b" not in done.out + done.err, arguments


AS_JSON = {  # what a command needs to print something
    "call": 'core_memory_append {"label":"human","content":"x"}', "search": "archival tea", "show": "HEAD",
    "blame": "core/human.yaml", "restore": "core/human.yaml@HEAD~2", "at": "HEAD show core/human.yaml",
    "gc": "--keep 0d --dry-run", "send": "Hello",
}  # fmt: skip
LATER = {"watch": "a document for each edit, as it happens", "prompt": "needs a model", "send": "needs a model"}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, command in commands()
        if {"--json", "--vault"} <= {flag for option in command.params for flag in option.opts} and name not in LATER  # type: ignore[attr-defined]
    ],
)
def test_every_command_prints_one_json_document_into_a_pipe(shell: Shell, name: str) -> None:
    """All of a command's output is one JSON document, without colour codes, even where they are forced."""
    for content in ("Likes tea.", "Likes rain."):
        shell.call("core_memory_append", label="human", content=content)
    if name == "redo":
        shell.here("undo")
    done = shell.run(*name.split(), *AS_JSON.get(name, "").split(), "--json", TERM="xterm-256color", FORCE_COLOR="1")
    assert done.status == 0 and "\x1b" not in done.out + done.err, done
    assert isinstance(json.loads(done.out), dict | list)


def test_reader_that_stops_early_is_no_error(shell: Shell) -> None:
    """`memory-fs log --json | head -1` ends without a traceback."""
    with subprocess.Popen(
        [*PROGRAM, "log", "--json"], cwd=shell.folder, env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""


def test_stream_that_cannot_encode_a_character_still_gets_valid_json(shell: Shell) -> None:
    """On a Latin-1 stream the JSON says it in escapes, and plain text does as well, instead of failing."""
    done = shell.run("search", "archival", "龙井", "--json", PYTHONIOENCODING="latin-1")
    assert done.json["hits"][0]["text"].startswith("龙井是绿茶")
    assert "\\u9f99" in shell.run("search", "archival", "龙井", PYTHONIOENCODING="latin-1").out


def test_json_holds_no_character_that_a_terminal_acts_on(shell: Shell) -> None:
    """Escapes, C1 controls and bidirectional overrides of a note stand as JSON escapes, and read back unchanged."""
    odd = "a\x1b[31m b\x9b31m c\u202e d\x7f"
    (shell.vault / "archival/odd.md").write_text(f"Peculiar {odd}")
    done = shell.run("search", "archival", "peculiar", "--json")
    assert done.json["hits"][0]["text"] == f"Peculiar {odd}"
    assert not any(char in done.out for char in "\x1b\x9b\u202e\x7f")


def test_pages_lists_the_page_table(shell: Shell) -> None:
    """A table for people, and JSON with how many more are on disk."""
    assert "core/human" in shell.run("pages").out
    found = shell.run("pages", "--json").json
    assert {"core/persona", "core/human"} <= {page["page"] for page in found["pages"]}
    assert found["on_disk"] == 3
    listed = shell.run("pages", "--on-disk", "2", "--json").json
    assert listed["on_disk"] == 1 and listed["pages"][-1]["where"] == "on disk"
