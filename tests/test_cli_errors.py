"""Bad input on the command line: one clear line, exit status 2, nothing lost."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from shell import PROGRAM, Shell, commands

from memory_fs.starter import init_vault

READING = ["status", "log", "diff", "reindex", "search archival tea", "search recall tea", "show HEAD"]
WRITING = ["undo", "redo", "call core_memory_append"]
ASKING = ["prompt", "send hello", "chat"]
BROKEN = "label: x\nlimit: 100\nvalue: [never closed\n"


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A starter vault with a third block, made once."""
    folder = init_vault(tmp_path_factory.mktemp("starter") / "vault")
    (folder / "core/garden.yaml").write_text("label: garden\nlimit: 100\nvalue: Tomatoes.\n")
    return folder


@pytest.fixture
def shell(tmp_path: Path, starter: Path) -> Shell:
    """A shell in a folder with a starter vault."""
    made = Shell(tmp_path)
    made.copy_vault(starter)
    return made


def append(shell: Shell, label: str = "human", content: str = "Likes tea.") -> list[str]:
    """The arguments that append a line to a block."""
    return ["call", "core_memory_append", json.dumps({"label": label, "content": content})]


# -- the command itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("bogus", "No such command 'bogus'"),
        ("--bogus", "No such option: --bogus"),
        ("search", "Missing argument 'tier'"),
        ("search attic tea", "'attic' is not one of 'archival', 'recall'"),
        ("search archival tea --page x", "--page"),
        ("search archival tea extra", "unexpected extra argument"),
        ("log --limit 0", "--limit"),
        ("log -n -3", "-n"),
        ("diff 0", "must be greater than"),
        ("log --vault", "requires an argument"),
        ("model bogus", "see `memory-fs model --help`"),
        ("call", "see `memory-fs call --help`"),
    ],
)
def test_wrong_arguments_are_one_line_that_names_the_help(shell: Shell, arguments: str, told: str) -> None:
    """A mistyped command, option or number is said on one line, with where to read more."""
    complaint = shell.here(*arguments.split()).complaint
    assert told in complaint
    assert "--help`" in complaint


def test_wrong_option_of_a_real_process(shell: Shell) -> None:
    """The exit status and the single line are those of the process, too."""
    assert "No such option" in shell.run("status", "--bogus").complaint


@pytest.mark.parametrize("arguments", ["", "model"])
def test_nothing_to_do_shows_the_help(shell: Shell, arguments: str) -> None:
    """The bare command prints what it can do."""
    done = shell.here(*arguments.split())
    assert done.status == 2
    assert done.err.startswith("Usage: memory-fs")


# -- no vault, no model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [*READING, *WRITING, *ASKING, "model use x"])
def test_no_vault_says_which_command_makes_one(tmp_path: Path, command: str) -> None:
    """Every command on a folder that is no vault names `memory-fs init`, and makes nothing."""
    shell = Shell(tmp_path)
    done = shell.here(*command.split(), "--vault", "nowhere")
    assert "no vault at nowhere; `memory-fs init nowhere`" in done.complaint
    assert [place.name for place in tmp_path.iterdir()] == ["models"]


ARGUMENTS = {  # what a command needs besides a vault
    "call": "core_memory_append", "send": "hello", "search": "archival tea", "show": "HEAD", "blame": "core/human.yaml",
    "restore": "core/human.yaml@HEAD", "at prompt": "", "gc": "--keep 90d", "model use": "x", "at": "HEAD prompt",
}  # fmt: skip


def with_a_vault() -> list[str]:
    """Every command that works on a vault, with the arguments that it needs."""
    names = [name for name, command in commands() if any("--vault" in option.opts for option in command.params)]
    return [f"{name} {ARGUMENTS.get(name, '')}".strip() for name in names if name != "init"]


@pytest.mark.parametrize("command", with_a_vault())
def test_every_command_without_its_vault_is_one_line(tmp_path: Path, command: str) -> None:
    """Also what is added later: no vault is one line that names the command which makes one, never a traceback."""
    shell = Shell(tmp_path)
    assert "`memory-fs init nowhere`" in shell.here(*command.split(), "--vault", "nowhere").complaint
    assert [place.name for place in tmp_path.iterdir()] == ["models"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("blame core/nobody.yaml", "core/nobody.yaml"),
        ("restore core/nobody.yaml@HEAD", "core/nobody.yaml"),
        ("restore core/human.yaml@1999-01-01", "1999-01-01"),
        ("at HEAD show core/nobody.yaml", "core/nobody.yaml"),
        ("at 1999-01-01 prompt", "1999-01-01"),
        ("log core/nobody.yaml", "core/nobody.yaml"),
        ("diff HEAD --path core/nobody.yaml", "core/nobody.yaml"),
        ("model verify nobody.gguf", "nobody.gguf"),
        ("model use nobody.gguf", "nobody.gguf"),
        ("undo --session nobody", "nobody"),
        ("undo --turn nobody/7", "nobody/7"),
    ],
)
def test_file_or_state_that_is_not_there_is_one_line(shell: Shell, command: str, told: str) -> None:
    """Each command that is given a name which nothing has says so, with the name, and changes nothing."""
    before = shell.files()
    assert told in shell.here(*command.split()).complaint
    assert shell.files() == before


def test_no_vault_in_a_real_process(tmp_path: Path) -> None:
    """The default vault is ./vault, and its absence is told the same way."""
    assert "`memory-fs init vault`" in Shell(tmp_path).run("status").complaint


@pytest.mark.parametrize("command", [*READING, *ASKING])
def test_file_in_place_of_a_vault_is_no_vault(tmp_path: Path, command: str) -> None:
    """A path to a file is told like a missing folder."""
    shell = Shell(tmp_path)
    (tmp_path / "file").write_text("text")
    assert "no vault at file" in shell.here(*command.split(), "--vault", "file").complaint


def test_vault_that_cannot_be_made_says_why(shell: Shell) -> None:
    """A file in the way of a new vault is named with the system's reason."""
    assert "Not a directory" in shell.here("init", "vault/system.md/new").complaint


@pytest.mark.parametrize("command", ASKING)
def test_no_model_says_which_command_installs_it(shell: Shell, command: str) -> None:
    """What needs a model names `memory-fs model install`, and writes nothing."""
    before = shell.files()
    complaint = shell.here(*command.split()).complaint
    assert "`memory-fs model install qwen2.5-coder-1.5b-instruct`" in complaint
    assert shell.files() == before


def test_no_model_in_a_real_process(shell: Shell) -> None:
    """The same from a piped chat: the process ends at once."""
    assert "memory-fs model install" in shell.run("chat", stdin="Hello\n").complaint


def test_unknown_model_names_the_ways_to_get_one(shell: Shell) -> None:
    """A model that is in no list and no folder: how to list, install or drop one in."""
    before = shell.files()
    assert "memory-fs model list" in shell.here("model", "use", "none-such").complaint
    assert "its names are" in shell.here("model", "install", "none-such").complaint
    assert "its names are" in shell.here("model", "verify", "none-such").complaint
    assert "not installed" in shell.here("model", "verify").complaint
    assert shell.files() == before


def test_damaged_model_file_is_named(shell: Shell) -> None:
    """A GGUF file that is none ends in one line, not in the engine's own log."""
    (shell.folder / "models/own.gguf").write_bytes(b"GGUF" + bytes(range(256)) * 20)
    assert "model: own.gguf" in shell.here("model", "use", "own.gguf").out
    assert "own.gguf" in shell.run("prompt").complaint


# -- calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nope", "{}"], "no function 'nope'; the functions are: send_message, core_memory_append"),
        (["core_memory_append", '{"label": "attic", "content": "x"}'], "no block 'attic'; the blocks are: persona"),
        (["core_memory_append", '{"label": "human"}'], "content is missing"),
        (["core_memory_append", '{"label": "human", "content": "x", "more": 1}'], "no argument 'more'"),
        (["core_memory_append", '{"label": "human", "content": 7}'], "content must be string"),
        (["core_memory_append", '{"label": "human", "content": ""}'], "content is empty"),
        (["core_memory_append", '{"label": "human", "content": "%s"}' % ("x" * 3000)], "its limit is 2000"),
        (["core_memory_append", '{"label": "../human", "content": "x"}'], "no block"),
        (["core_memory_append", "{broken"], "no valid JSON"),
        (["core_memory_append", ""], "no valid JSON"),
        (["core_memory_append", "[" * 50_000], "no valid JSON"),
        (["core_memory_append", '["human"]'], "must be a JSON object"),
        (["core_memory_append", "null"], "must be a JSON object"),
        (["core_memory_append"], "label is missing"),
        (["conversation_search_date", '{"start_date": "Monday", "end_date": "today"}'], "is no date"),
        (["send_message", '{"message": "  "}'], "message is empty"),
    ],
)
def test_wrong_call_says_what_is_wrong_and_changes_nothing(shell: Shell, arguments: list[str], told: str) -> None:
    """A call that the model or a person got wrong leaves every file as it was."""
    before = shell.files()
    assert told in shell.here("call", *arguments).complaint
    assert shell.files() == before


def test_wrong_call_of_a_real_process(shell: Shell) -> None:
    """Invalid JSON ends the process with status 2 and one line."""
    assert "no valid JSON" in shell.run("call", "core_memory_append", "{'single': 'quotes'}").complaint


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_empty_message_is_refused_before_a_model_is_loaded(shell: Shell, text: str) -> None:
    """Nothing to say: one line, and no need to have a model for it."""
    assert "the message is empty" in shell.here("send", text).complaint


@pytest.mark.parametrize("rev", ["", "zzz", "HEAD~99", "HEAD:core", "--all", "a b", "7" * 40, "\x1b[31m"])
def test_unknown_revision_points_to_the_log(shell: Shell, rev: str) -> None:
    """Whatever is no change of this vault is refused, control characters shown as pictures."""
    complaint = shell.here("show", "--", rev).complaint
    assert "see `memory-fs log`" in complaint
    assert "\x1b" not in complaint


def test_nothing_to_undo_or_redo_is_said(shell: Shell) -> None:
    """Undo stops at the start of a vault."""
    assert "nothing to redo" in shell.here("redo").complaint
    shell.here("undo")  # the third block, which a person put there by hand
    assert "nothing to undo" in shell.here("undo").complaint


# -- broken files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["persona", "human", "garden"])
def test_broken_block_is_named_with_its_line_and_left_alone(shell: Shell, label: str) -> None:
    """Broken YAML in any block: a write to it is refused with file, line and column, all else works."""
    place = shell.vault / f"core/{label}.yaml"
    place.write_text(BROKEN)
    other = "human" if label == "persona" else "persona"
    assert f"core/{label}.yaml:4:1" in shell.here(*append(shell, label)).complaint
    assert place.read_text() == BROKEN
    assert shell.here(*append(shell, other)).status == 0
    assert shell.here("search", "archival", "butter", "--json").json["total"] == 1
    assert any(f"core/{label}.yaml:4:1" in warning for warning in shell.here("status", "--json").json["warnings"])
    assert place.read_text() == BROKEN


def test_block_that_is_no_utf_8_is_named(shell: Shell) -> None:
    """A block saved in another encoding is refused for writing, and stays as it is."""
    place = shell.vault / "core/human.yaml"
    place.write_bytes(b"value: caf\xe9\n")
    assert "core/human.yaml:1: not UTF-8" in shell.here(*append(shell)).complaint
    assert place.read_bytes() == b"value: caf\xe9\n"


def test_broken_settings_are_named_with_their_line_and_can_be_undone(shell: Shell) -> None:
    """Broken YAML in memory.yaml stops what needs it with file, line and column; the history still helps."""
    place = shell.vault / "memory.yaml"
    good = place.read_text()
    place.write_text("zone: UTC\nwindow: {4096\n")
    for command in ("status", "search archival tea", *ASKING):
        assert "memory.yaml:3:1" in shell.here(*command.split()).complaint
    assert "memory.yaml:3:1" in shell.here(*append(shell)).complaint
    assert place.read_text() == "zone: UTC\nwindow: {4096\n"
    assert "Edit" in shell.here("log", "-n", "1").out
    assert shell.here("undo").status == 0
    assert place.read_text() == good


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("window: 100", "memory.yaml:2: `window` must be 512 tokens or more"),
        ("window: wide", "memory.yaml:2: `window` must be 512 tokens or more, not 'wide'"),
        ("zone: Atlantis", "memory.yaml:2: `zone` must be a zone"),
        ("heartbeat: never", "memory.yaml:2: `heartbeat` must be"),
        ("reply_reserve: 4000", "more than half of `window`"),
        ("window: !!python/object/apply:os.getcwd []", "memory.yaml:2:"),
        ("window: &all [*all]", "memory.yaml:2:"),
    ],
)
def test_setting_out_of_range_is_named_with_its_line(shell: Shell, line: str, told: str) -> None:
    """A value that cannot be says what could be, and YAML that executes or explodes is refused."""
    (shell.vault / "memory.yaml").write_text(f"# mine\n{line}\n")
    assert told in shell.here("status").complaint


def test_unknown_setting_is_a_warning(shell: Shell) -> None:
    """A key that nobody knows stops nothing; `status` names it."""
    (shell.vault / "memory.yaml").write_text("zone: UTC\nwindwo: 9\n")
    assert shell.here("search", "archival", "butter").status == 0
    assert "memory.yaml: line 2: unknown setting `windwo`" in shell.here("status").out


# -- the disk ------------------------------------------------------------------------------------------------------


def test_read_only_folder_can_be_read_and_loses_nothing(shell: Shell) -> None:
    """Searches and the history work; what would write says that it cannot, on one line."""
    shell.here("reindex")
    before = shell.files()
    for place in (shell.vault, *shell.vault.rglob("*")):
        if not place.is_symlink():
            place.chmod(0o555 if place.is_dir() else 0o444)
    assert "Shortbread" in shell.powerless("search", "archival", "butter").out
    assert "Start a new vault" in shell.powerless("log").out
    for arguments in (append(shell), ["undo"]):
        complaint = shell.powerless(*arguments).complaint
        assert "cannot be written (Permission denied)" in complaint
    assert shell.files() == before
    for place in (shell.vault, *shell.vault.rglob("*")):
        place.chmod(0o755)


FULL = """
mount -t tmpfs -o size=4m tmpfs full && cp -r vault full/vault && cd full || exit 99
head -c 100M /dev/zero >filling 2>/dev/null
"$@"; status=$?
rm filling
cat vault/core/human.yaml
exit $status
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs Linux")
def test_full_disk_is_said_and_the_file_is_whole(shell: Shell) -> None:
    """No space left for a write: one line, exit status 2, and the block is byte for byte as it was."""
    (shell.folder / "full").mkdir()
    command = ["unshare", "--mount", "--map-root-user", "bash", "-c", FULL, "bash", *PROGRAM, *append(shell)]
    done = subprocess.run(command, cwd=shell.folder, env=shell.env, capture_output=True, text=True, timeout=300)
    if done.returncode == 99 or "unshare" in done.stderr:
        pytest.skip("this machine lets nobody mount a small disk")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done
    assert "No space left on device" in done.stderr
    assert done.stdout == (shell.vault / "core/human.yaml").read_text()
