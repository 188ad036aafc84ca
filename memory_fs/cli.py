"""The `memory-fs` command: each command a few lines over the library. Heavy imports happen where they are used."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from memory_fs.cli_bench import bench_app
from memory_fs.cli_doctor import doctor
from memory_fs.cli_history import history_app
from memory_fs.cli_model import model_app
from memory_fs.cli_options import (
    DEFAULT_VAULT,
    JsonLinesOption,
    JsonOption,
    PageOption,
    ReadOnlyOption,
    VaultOption,
    open_vault,
    say,
)
from memory_fs.cli_pages import pages_app
from memory_fs.cli_tasks import tasks_app
from memory_fs.errors import FunctionError, MemoryFsError

if TYPE_CHECKING:
    from memory_fs.agent import Agent
    from memory_fs.change import Change
    from memory_fs.llm import Model

app = typer.Typer(
    name="memory-fs",
    help="A MemGPT whose memory is a folder. Start with `memory-fs init`, then `memory-fs chat`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(history_app)  # no name: its commands are top-level ones
app.add_typer(pages_app)
app.add_typer(model_app, name="model")
bench_app.add_typer(tasks_app)
app.add_typer(bench_app, name="bench")
app.command()(doctor)

_USAGE = typer.BadParameter.__bases__[0]  # all errors in how a command is called; typer does not export their parent


class Tier(StrEnum):
    """What can be searched."""

    archival = "archival"
    recall = "recall"


def main() -> None:
    """Run the command; a known error is one line on stderr and exit status 2."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what an encoding cannot say is no reason to stop
            stream.reconfigure(errors="backslashreplace" if stream.writable() else "replace")
    try:
        status = app(prog_name="memory-fs", standalone_mode=False)
    except MemoryFsError as error:
        _fail(str(error))
    except typer.Abort:
        raise SystemExit(130) from None
    except Exception as error:
        if not isinstance(error, _USAGE):
            raise
        _misused(error)
    raise SystemExit(status or 0)


def _misused(error: Exception) -> NoReturn:
    """What the arguments got wrong, on one line; the help where there were none at all."""
    context, told = getattr(error, "ctx", None), getattr(error, "format_message", error.__str__)()
    if told.startswith("Usage:"):
        print(told, file=sys.stderr)
        raise SystemExit(2)
    command = context.command_path if context else "memory-fs"
    _fail(f"{told.strip().rstrip('.').replace('Value error, ', '')}; see `{command} --help`")


def _fail(message: str) -> NoReturn:
    from memory_fs.show import inert

    print("memory-fs: " + inert(" ".join(message.split())), file=sys.stderr)
    raise SystemExit(2)


@contextmanager
def _agent(folder: Path, read_only: bool) -> Iterator[Agent]:
    """An agent on a vault with its real model."""
    from memory_fs.agent import Agent
    from memory_fs.loading import load_model

    with open_vault(folder) as vault, load_model(vault) as model:
        for note in model.notes:
            say(note)
        with Agent(vault, model, read_only=read_only, say=say) as agent:
            yield agent


@contextmanager
def _reader(folder: Path, counter: Model | None = None) -> Iterator[Agent]:
    """An agent that never asks a model: for searches, calls and pictures of the prompt."""
    from memory_fs.agent import Agent
    from memory_fs.loading import NoModel

    with open_vault(folder) as vault, Agent(vault, counter or NoModel(vault.settings), say=say) as agent:
        yield agent


@app.command()
def init(
    folder: Annotated[Path | None, typer.Argument(help="The new vault's folder, in place of --vault.")] = None,
    vault: VaultOption = DEFAULT_VAULT,
) -> None:
    """Make a starter vault: settings, instructions, two blocks and three notes."""
    from memory_fs.show import emit
    from memory_fs.starter import init_vault

    folder = init_vault(folder or vault)
    emit(f"{folder} is ready; talk with `memory-fs chat --vault {folder}`")


@app.command()
def chat(vault: VaultOption = DEFAULT_VAULT, read_only: ReadOnlyOption = False) -> None:
    """Talk to the model; piped lines are messages. /help inside lists the commands."""
    from memory_fs.chat import announce
    from memory_fs.chat import chat as talk
    from memory_fs.progress import progress, waiting
    from memory_fs.watch import Watcher

    with _agent(vault, read_only) as agent:
        with progress("files indexed") as report:
            agent.search.sync(report)
        with waiting("reading the instructions"):
            agent.warm()
        with Watcher(agent.search, announce, say):
            talk(agent)


@app.command()
def watch(vault: VaultOption = DEFAULT_VAULT, as_json: JsonLinesOption = False) -> None:
    """Say what is edited by hand, as it happens, and keep history and index up to date; Ctrl-C ends it."""
    import threading

    from memory_fs.search import Search
    from memory_fs.show import change_json, emit, emit_json
    from memory_fs.watch import Watcher

    def announce(change: Change) -> None:
        if as_json:
            return emit_json(change_json(change), indent=None)
        for line in change.announced():
            emit(line)

    with open_vault(vault) as opened, Watcher(Search(opened, say), announce, say):
        say(f"watching {opened.root}; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


@app.command()
def send(
    text: str, vault: VaultOption = DEFAULT_VAULT, read_only: ReadOnlyOption = False, as_json: JsonOption = False
) -> None:
    """Send one message and print the answer."""
    from memory_fs.agent import reply_of
    from memory_fs.chat import answer
    from memory_fs.show import emit_json, step_json

    if not text.strip():
        raise FunctionError("the message is empty; type something")
    with _agent(vault, read_only) as agent:
        if not as_json:
            return answer(agent, text)
        steps = list(agent.run(text))
    emit_json({"reply": reply_of(steps[-1]), "steps": [step_json(step) for step in steps]})


@app.command()
def call(
    function: str,
    arguments: Annotated[str, typer.Argument(help='JSON, such as {"label": "human", "content": "..."}')] = "{}",
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Run one function as the model would."""
    from memory_fs.show import changes_json, emit, emit_diff, emit_json

    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise FunctionError(f"the arguments are no valid JSON ({error})") from error
    if not isinstance(given, dict):
        raise FunctionError('the arguments must be a JSON object, such as {"query": "dog"}')
    with _reader(vault) as agent:
        result, change = agent.call(function, given)
        changes = [change] if change else []
        if as_json:
            emit_json({"ok": result.ok, "result": result.text, "changes": changes_json(changes)})
        elif result.ok:
            emit(result.text)
            for item in changes:
                emit_diff(item.diff)
    if not result.ok:
        _fail(result.text.removeprefix("error: "))


@app.command()
def prompt(vault: VaultOption = DEFAULT_VAULT, as_json: JsonOption = False) -> None:
    """Show what the model would see now, with tokens for each region."""
    from memory_fs.loading import NoModel
    from memory_fs.show import emit_json, emit_prompt, prompt_json

    with open_vault(vault) as opened:
        counter = NoModel.counting(opened)
    with _reader(vault, counter) as agent:
        found = prompt_json(agent.prompt(), counter, agent.window)
    emit_json(found) if as_json else emit_prompt(found)


@app.command()
def search(
    tier: Tier,
    query: str,
    page: PageOption = 1,
    vault: VaultOption = DEFAULT_VAULT,
    as_json: JsonOption = False,
) -> None:
    """Search notes (archival) or the conversation (recall): words, "phrases", -without, tag:x, 2026-11."""
    from memory_fs.progress import progress
    from memory_fs.search import Search
    from memory_fs.show import emit_json, emit_page, page_json

    with open_vault(vault) as opened:
        records = Search(opened, say)
        with progress("files indexed") as report:
            records.sync(report)
        found = records.search(tier.value, query, page=page, size=opened.settings.page_size)
        records.close()
    emit_json(page_json(found)) if as_json else emit_page(found)


@app.command()
def status(vault: VaultOption = DEFAULT_VAULT, as_json: JsonOption = False) -> None:
    """Show the model, the blocks, how much is stored and how the last session went."""
    from memory_fs.show import emit, emit_json
    from memory_fs.status import status_of

    with _reader(vault) as agent:
        state = status_of(agent)
    if as_json:
        return emit_json(state)
    installed = "" if state["model"]["installed"] else " (not installed: `memory-fs model install`)"
    emit(f"model    {state['model']['name']}{installed}, window {state['window']} tokens")
    for block in state["blocks"]:
        closed = ", read-only" if block["read_only"] else ""
        emit(f"block    {block['label']}: {block['used']} of {block['limit']} characters{closed}")
    emit(f"notes    {state['notes']}\nmessages {state['messages']}")
    emit(f"index    {state['index']['records']} records\nhistory  {state['history']['changes']} changes")
    session = state["session"]
    if session["prompt"]:
        emit(
            f"session  {session['steps']} steps, {session['prompt']} prompt tokens, "
            f"{session['reused'] / session['prompt']:.0%} of them from the KV cache"
        )
    for warning in state["warnings"]:
        emit(f"warning  {warning}")


@app.command()
def reindex(vault: VaultOption = DEFAULT_VAULT) -> None:
    """Build the search index anew from the files."""
    from memory_fs.progress import progress
    from memory_fs.search import Search
    from memory_fs.show import emit

    with open_vault(vault) as opened:
        records = Search(opened, say)
        records.index.clear()
        with progress("files indexed") as report:
            files = records.sync(report)
        emit(f"{files} files indexed")
        records.close()


def _version(wanted: bool) -> None:
    if wanted:
        from memory_fs import __version__

        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """A MemGPT whose memory is a folder. Start with `memory-fs init`, then `memory-fs chat`."""


if __name__ == "__main__":
    main()
