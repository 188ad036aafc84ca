"""`memory-fs bench`: each benchmark prints a table; its data comes by path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory_fs.cli_options import JsonOption, group, say
from memory_fs.errors import MemoryFsError

if TYPE_CHECKING:
    from memory_fs.llm.llama import LlamaModel

bench_app = group("Benchmarks: what parts cost, conversations, and the experiments of the paper. Each prints a table.")
ModelOption = Annotated[str, typer.Option("--model", help="A registry name or a GGUF file.")]
DEFAULT = "qwen2.5-coder-1.5b-instruct"


def print_rows(rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Print figures as a table, or as one JSON document."""
    from memory_fs.bench.table import table
    from memory_fs.show import emit_json

    emit_json(list(rows)) if as_json else print(table(rows))


def load(name: str, window: int) -> LlamaModel:
    """A model by its name or file, with a window of so many tokens."""
    from memory_fs.llm.llama import LlamaModel
    from memory_fs.llm.registry import find, models_folder

    return LlamaModel(find(name), window=window, kv_folder=models_folder() / "kv")


@bench_app.command("index")
def index(
    passages: Annotated[Path, typer.Argument(help='JSON lines: {"id", "title", "text"}')],
    questions: Annotated[Path, typer.Argument(help='JSON lines: {"question", "gold_ids"}')],
    as_json: JsonOption = False,
) -> None:
    """Index passages as notes and ask questions as they stand: rates, ranks, milliseconds, Chinese words."""
    from dataclasses import asdict

    from memory_fs.bench.index import run

    print_rows([asdict(row) for row in run(passages, questions)], as_json)


@bench_app.command("retrieval")
def retrieval(
    locomo: Annotated[Path, typer.Argument(help="A LoCoMo file.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many conversations.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the questions of long conversations: the share of their evidence among the first hits, milliseconds."""
    from memory_fs.bench.retrieval import run

    print_rows(run(locomo, limit), as_json)


@bench_app.command("write")
def write(
    notes: Annotated[int, typer.Option(help="Notes that are there before.")] = 2600,
    inserts: Annotated[int, typer.Option(help="Inserts that are timed.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Time one archival_memory_insert, acknowledged when it is on disk and in history."""
    from memory_fs.bench.write import run

    print_rows([run(say, notes, inserts)], as_json)


@bench_app.command("scale")
def scale(
    notes: Annotated[int, typer.Option(min=100, help="Notes at last; a hundredth and a tenth come before.")] = 50_000,
    writes: Annotated[int, typer.Option(min=1, help="Inserts that are timed at each size.")] = 60,
    as_json: JsonOption = False,
) -> None:
    """Time what may grow with the number of notes: first index, a look at all files, status, a write; and memory."""
    from memory_fs.bench.scale import run

    print_rows(run(say, notes, writes), as_json)


@bench_app.command("decode")
def decode(model: ModelOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Time one function call: masks with forced tokens, llama-cpp-python's GBNF, and no grammar."""
    from memory_fs.bench.decode import run
    from memory_fs.llm.registry import find

    found = run(find(model))
    base = found["ways"]["gbnf"]["rate"]
    ways = found["ways"].items()
    print_rows(
        [
            {
                "way": name,
                "tokens": w["tokens"],
                "seconds": w["seconds"],
                "tokens/s": w["rate"],
                "of gbnf": w["rate"] / base,
            }
            for name, w in ways
        ],
        as_json,
    )


@bench_app.command("six")
def six(
    language: Annotated[Literal["en", "zh"], typer.Option(help="What is spoken.")] = "en",
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Have the six-message conversation and check what is remembered."""
    from memory_fs.bench.conversation import six as run

    with load(model, 4096) as loaded:
        print_rows([run(loaded, say, language)], as_json)


@bench_app.command("everyday")
def everyday(
    conversations: Annotated[Path, typer.Argument(help='JSON lines: {"id", "messages", "answers"}')],
    only: Annotated[str, typer.Option(help="Only conversations whose id begins so.")] = "",
    log: Annotated[Path | None, typer.Option(help="Append what was said and saved here, as JSON lines.")] = None,
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Have short conversations: facts told, changed, asked for in other words; judge answers and what is saved."""
    from memory_fs.bench.everyday import figures, read, run

    asked = [one for one in read(conversations) if one["id"].startswith(only)]
    if not asked:
        raise MemoryFsError(f"{conversations} has no conversation whose id begins with {only!r}")
    with load(model, 4096) as loaded:
        print_rows([figures(run(loaded, asked, say, log))], as_json)


@bench_app.command("long")
def long(
    locomo: Annotated[Path, typer.Argument(help="A LoCoMo file.")],
    messages: Annotated[int, typer.Option(help="User messages.")] = 60,
    window: Annotated[int, typer.Option(help="Context window, tokens.")] = 2048,
    model: ModelOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Have a long conversation in a small window: flushes, and whether all of it can be found again."""
    from memory_fs.bench.conversation import long as run

    with load(model, window) as loaded:
        print_rows([run(loaded, locomo, say, messages, window)], as_json)
