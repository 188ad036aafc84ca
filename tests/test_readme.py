"""The README says what is there: its tree, commands, JSON, code and quoted messages are held against the real ones."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell import Shell
from typer.main import get_command

import memory_fs
from memory_fs import Agent, init_vault
from memory_fs.archival import Archival
from memory_fs.cli import app
from memory_fs.formats.settings import Settings
from memory_fs.starter import TEXTS
from memory_fs.testing import ScriptedModel, call

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
IGNORED = {".git", ".gitignore", "README.md", "build", "dist"}


def blocks(language: str) -> list[str]:
    """The code blocks of a language."""
    return [text for kind, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.M) if kind == language]


def command_names(group: object, prefix: str = "") -> Iterator[str]:
    """Every command, as it is typed after `memory-fs`."""
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        yield from command_names(command, f"{prefix}{name} ") if hasattr(command, "commands") else [f"{prefix}{name}"]


def tree() -> set[str]:
    """The paths of the README's tree; folders end with a slash."""
    (text,) = [block for block in blocks("") if block.startswith("Makefile")]
    paths, folder = set(), ""
    for line in text.splitlines():
        indent, name, purpose = re.fullmatch(r"( *)(\S+) *(.*)", line).groups()  # type: ignore[union-attr]
        path = folder + name if indent else name
        folder = folder if indent else name
        assert purpose or (name.endswith("/") and not indent), f"{path} has no purpose"
        paths.add(path)
    return paths


def test_tree_names_what_is_there_and_nothing_else() -> None:
    """Every top-level entry and every module of the package has a line, and every line has a file."""
    listed = tree()
    assert [path for path in sorted(listed) if not (ROOT / path).exists()] == []
    hidden = re.compile(r"\..*|.*\.egg-info")  # made by tools
    top = {f"{p.name}{'/' * p.is_dir()}" for p in ROOT.iterdir() if p.name not in IGNORED and not hidden.match(p.name)}
    assert {name for name in top if not any(path.startswith(name) for path in listed)} == set()
    modules = {f"memory_fs/{p.name}{'/' * p.is_dir()}" for p in (ROOT / "memory_fs").iterdir() if p.name[0] not in "._"}
    assert modules - listed - {"memory_fs/py.typed"} == set()


def test_every_command_is_in_the_readme() -> None:
    """A command without a word in the README fails."""
    names = list(command_names(get_command(app)))
    assert len(names) > 15
    assert [name for name in names if not re.search(rf"`(memory-fs )?{name}\b", README)] == []


def test_every_command_in_the_readme_exists() -> None:
    """Each `memory-fs WORD` of the README is a command, and each `make WORD` a target."""
    first = {name.split()[0] for name in command_names(get_command(app))}
    assert set(re.findall(r"`memory-fs ([a-z]+)", README)) - first == set()
    assert set(re.findall(r"\.venv/bin/memory-fs ([a-z]+)", README)) - first == set()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE)) - targets == set()


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("call", ("core_memory_append", '{"label": "human", "content": "x"}')),
        ("search", ("archival", "butter")),
        ("status", ()),
    ],
)
def test_json_of_the_readme_is_the_json_that_is_printed(
    tmp_path: Path, command: str, arguments: tuple[str, ...]
) -> None:
    """The keys that the README promises are there, in that order."""
    promised = re.search(rf"^\| `{command}` \| `(.*)` \|$", README, re.MULTILINE)
    assert promised
    shell = Shell(tmp_path)
    init_vault(shell.vault)
    printed = shell.here(command, *arguments, "--json").out
    keys = re.findall(r'"(\w+)"', promised[1])
    assert keys
    place = 0
    for key in keys:
        found = printed.find(f'"{key}":', place)
        assert found >= 0, f"{key} is missing, or not where the README has it"
        place = found


def test_example_with_a_function_of_ones_own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's function is called by the model, and its result stands in what the model answers from."""
    (code,) = [block for block in blocks("python") if "def days_until" in block]
    count = call("days_until", missing="the days", day="9999-12-31")
    answer = json.dumps({"known": "", "missing": "nothing", "function": "send_message"})
    model = run_example(code, tmp_path, monkeypatch, [count, answer, '{"message": "Many."}'])
    assert "days_until(day): Count the days from today" in model.prompts[0][0].content
    deciding, wording = ("\n".join(turn.content for turn in prompt) for prompt in model.prompts[1:])
    assert re.search(r"\[result\] \d{7}", deciding)
    assert re.search(r"\d{7}", wording)


def test_example_of_the_python_interface_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The README's example prints steps, a diff, an answer and a count."""
    (code,) = [block for block in blocks("python") if "Biscuit" in block]
    save = call("core_memory_append", missing="saving a new fact", label="human", content="Dog: Biscuit.")
    hello, dog = call("send_message", message="Nice!"), call("send_message", message="Biscuit.")
    run_example(code, tmp_path, monkeypatch, [save, hello, dog, dog])
    printed = capsys.readouterr().out
    assert "+  Dog: Biscuit." in printed
    assert "Biscuit.\n1 notes found" in printed


class Scripted(ScriptedModel):
    """A scripted model that can be used in a `with` statement, as the real one."""

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def run_example(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch, replies: list[str]) -> Scripted:
    """Run an example in a folder with a starter vault, its model being one that replays lines."""
    init_vault(folder / "vault")
    monkeypatch.chdir(folder)
    model = Scripted(replies)
    monkeypatch.setattr(memory_fs, "load_model", lambda vault: model, raising=False)
    exec(compile(code, "README.md", "exec"), {"__name__": "example"})
    return model


def test_git_reads_the_history_as_the_readme_says(tmp_path: Path) -> None:
    """Plain git shows the vault's changes, and a repository around the vault takes its files as its own."""
    shell = Shell(tmp_path)
    init_vault(shell.vault)
    shell.here("call", "core_memory_append", json.dumps({"label": "human", "content": "Likes tea."}))
    log, push = [line.split()[1:] for block in blocks("sh") for line in block.splitlines() if line.startswith("git ")]
    assert "+  Likes tea." in git(shell, *log)
    git(shell, "init", "--quiet", "--bare", "remote")
    git(shell, *(str(shell.folder / "remote") if "@" in word else word for word in push))
    assert "core_memory_append" in git(shell, "--git-dir=remote", "log", "--format=%s", "main")
    git(shell, "init", "--quiet")
    git(shell, "add", "vault")
    assert "vault/core/human.yaml" in git(shell, "ls-files").splitlines()


def git(shell: Shell, *arguments: str) -> str:
    """What git prints."""
    done = subprocess.run(["git", *arguments], cwd=shell.folder, env=shell.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_messages_in_the_troubleshooting_are_real() -> None:
    """What the README says you see can be found in the source; `...` stands for what differs."""
    section = README.partition("## When something goes wrong")[2].partition("\n## ")[0]
    source = "".join(p.read_text() for p in [*ROOT.glob("memory_fs/**/*.py"), ROOT / "Makefile"])
    quoted = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(quoted) > 3
    for message in quoted:
        for part in re.split(r"\.\.\.|core/human\.yaml:4:1:", message):
            assert part.strip() in source, message


def test_figures_are_those_of_the_settings() -> None:
    """The window's marks in the README are the defaults in the code."""
    assert f"an alert at {Settings().pressure:.0%}".replace("%", " %") in README


def test_links_lead_to_files() -> None:
    """Every relative link has a file at its end."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_starter_vault_of_the_repository_is_what_init_makes(tmp_path: Path) -> None:
    """`vault/` is a starter vault in UTC; once somebody has talked there it is theirs, and nothing is compared."""
    if (ROOT / "vault/.memory_fs").exists():
        pytest.skip("the vault is in use")
    fresh = init_vault(tmp_path / "vault")
    for path in TEXTS:
        text = (fresh / path).read_text(encoding="utf-8")
        assert (ROOT / "vault" / path).read_text(encoding="utf-8") == re.sub(r"zone: \S+", "zone: UTC", text), path
    kept, made = (sorted(map(body, folder.glob("archival/*/*/*.md"))) for folder in (ROOT / "vault", fresh))
    assert kept == made
    with Agent(fresh, ScriptedModel([])) as agent:
        assert isinstance(agent.archival, Archival)
        assert agent.archival.count() == len(kept) == 3


def body(note: Path) -> str:
    """A note without its front matter."""
    return note.read_text(encoding="utf-8").split("---\n", 2)[2]
