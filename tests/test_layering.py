"""Who may import whom, and who may write files: the shape of the package, asserted on its source.

Imports point down only, along `ORDER`. A module takes what it builds on from at most three others of the package,
besides the vocabulary that all share: `errors`, `events`, `formats`, the protocol in `llm`, and `records` between the
parts of the index. `EXCEPTIONS` are the places where things are put together, each with its reason; the command line
and the terminal layer above the agent put everything together and are not counted. Imports for type hints alone count
like any others; imports inside functions (a start of the shell stays quick that way) do, too. One kind is left out:
when a notebook asks an object for its picture, the object asks `notebook`, which stands above it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import memory_fs

ROOT = Path(memory_fs.__file__).parent

# From the top down; what stands in one line does not know each other unless a later line of its own says so.
ORDER = """
cli
cli_tasks
cli_bench cli_doctor cli_history cli_model cli_pages
bench cli_options
chat status
notebook
view
show
testing loading starter progress
doctor page_table
vouch
agent past
offer pressure answering
write_back
writer
draft
steps
queue_manager executor
pager
corrections
onward
evidence working_set
memory_functions
clash
revision
policy
prompt
functions
core recall archival undo restore edits
watch
search
index
keeper
lookup manifest
records sealed
analysis
english create merge revisions blame prune
vault history_prune
recovery history_check
transaction history journal
history_trees
disk change objects
scan
swap paths
mounts
llm
formats
events
errors
"""
RANK = {name: number for number, line in enumerate(ORDER.split("\n")) for name in line.split()}
VOCABULARY = {"errors", "events", "formats", "llm", "records"}
TERMINAL = {
    "cli",
    "cli_bench",
    "cli_doctor",
    "cli_history",
    "cli_model",
    "cli_pages",
    "cli_options",
    "cli_tasks",
    "chat",
    "status",
    "show",
    "notebook",
    "view",
    "bench",
}
EXCEPTIONS = {
    "agent": "the loop is where everything meets",
    "memory_functions": "the paper's functions are where the three tiers, the table and the transaction meet",
    "vault": "a change is where disk, transaction, history, journal and recovery meet",
    "watch": "a vault, its search and what the system tells of edits are put together",
    "answering": "an answer is where core memory, the talk, pages and the model's words meet",
    "offer": "what a step may call is where the rules, a revision, the table and the turn meet",
    "write_back": "what was said is held against both tiers in which it may stand, and goes into one",
    "page_table": "a view of the agent's memory needs history, the prompt's wording and who stands behind a page",
    "vouch": "what the model wrote is held against who else said it, in history and in both archives",
    "past": "what a prompt is made of meets once more",
    "pressure": "an alert and a flush touch queue, prompt, summary and vault",
}
OUTSIDE = {
    "whoosh": {"index"},
    "pygit2": {"history", "history_check", "history_prune", "history_trees", "objects"},
    "watchdog": {"watch"},
    "llama_cpp": {"llm"},
    "llguidance": {"llm"},
    "tiktoken": {"llm/tokens"},
    "typer": {"cli", "cli_bench", "cli_doctor", "cli_history", "cli_model", "cli_options", "cli_pages", "cli_tasks"},
    "matplotlib": {"bench/plot"},
}
WRITERS = {
    "disk": "memory files, on the one write path",
    "objects": "object files that a power cut tore",
    "swap": "whole files aside and into their place",
    "scan": "the memory of the last scan, which is derived",
    "journal": "the names of the last changes, beside the history",
    "history": "two small files beside a new repository when it is made; and a branch that a power cut tore",
    "history_prune": "objects of the history that nothing names any more, deleted",
    "history_check": "an object or a branch that was lost, on request of the doctor",
    "doctor/mend": "what was taken out of a broken file, beside it under a new name; leftovers of interrupted writes",
    "sealed": "the index, which is derived and may be deleted",
    "llm/kv": "checkpoints of the KV cache, derived as well",
    "llm/fetch": "model files, outside the vault",
    "llm/registry": "model files, outside the vault",
    "bench/retrieval": "vaults of its own, in temporary folders",
    "bench/index": "vaults of its own, in temporary folders",
    "bench/conversation": "vaults of its own, in temporary folders",
    "bench/vaults": "vaults of its own, in temporary folders",
    "bench/harness": "the log of a run, where it was asked for",
    "bench/everyday": "the log of a run, where it was asked for",
    "bench/judge": "prompts for another model, where they were asked for",
    "bench/plot": "a picture, where it was asked for",
    "bench/write": "vaults of its own, in temporary folders",
    "bench/scale": "vaults of its own, in temporary folders",
    "bench/decode": "its report",
}


@cache
def sources() -> dict[str, ast.Module]:
    """name (`core`, `llm/kv`) -> syntax tree of every module of the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def pictures(tree: ast.Module) -> set[ast.AST]:
    """What stands inside `_repr_html_` and `_repr_markdown_`."""
    methods = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("_repr_"))
    return {node for method in methods for node in ast.walk(method)}


@cache
def imported(name: str) -> frozenset[str]:
    """Every module that a module names in an import, wherever it stands but in a picture."""
    return frozenset(_imported(sources()[name]))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in set(ast.walk(tree)) - pictures(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def siblings(name: str) -> set[str]:
    """The top-level modules of the package that a module imports, itself left out."""
    parts = (module.split(".") for module in imported(name))
    known = {top.split("/")[0] for top in sources()}
    used = {path[1] for path in parts if path[0] == "memory_fs" and len(path) > 1 and path[1] in known}
    return used - {name.split("/")[0]}


def test_every_module_has_its_place() -> None:
    """No module is missing from the order, and none is left in it that is gone."""
    there = {name.split("/")[0] for name in sources()} - {"__init__", "."}
    assert there == set(RANK)


def test_imports_point_down() -> None:
    """A module imports only what stands below it."""
    upward = [
        f"{name} -> {used}"
        for name in sources()
        for used in siblings(name)
        if name not in ("__init__", ".") and RANK[used] <= RANK[name.split("/")[0]]
    ]
    assert upward == []


def test_nothing_below_the_agent_knows_the_command_line() -> None:
    """The library never imports what prints, and the testing doubles import no command."""
    for name in sources():
        if name.split("/")[0] not in TERMINAL and name not in ("__init__", "."):
            assert not siblings(name) & TERMINAL, name
    assert all(used != "cli" for used in siblings("testing"))


def test_a_module_builds_on_three_others_at_most() -> None:
    """Whoever needs more is a place where things are put together, and says why."""
    counts = {name: siblings(name) - VOCABULARY for name in sources() if "/" not in name and name not in TERMINAL}
    too_many = {name: used for name, used in counts.items() if len(used) > 3 and name not in ("__init__", ".")}
    assert too_many.keys() == EXCEPTIONS.keys(), too_many


def test_formats_and_vocabulary_stand_alone() -> None:
    """Pure modules know nothing of files, models or each other's users."""
    assert siblings("errors") == set() and siblings("events") == set()
    for name in sources():
        if name.startswith("formats"):
            assert siblings(name) <= {"errors", "events"}, name
    assert siblings("llm") == set()
    for name in ("prompt", "policy", "functions", "analysis", "records", "lookup"):
        assert not {module.split(".")[0] for module in imported(name)} & {
            "os",
            "pathlib",
            "shutil",
            "socket",
        }


def test_each_dependency_has_one_importer() -> None:
    """Whoosh, pygit2, watchdog, llama.cpp, llguidance and tiktoken are each known to one place."""
    for outside, places in OUTSIDE.items():
        users = {name for name in sources() if outside in {m.split(".")[0] for m in imported(name)}}
        assert {user for user in users if user not in places and user.split("/")[0] not in places} == set(), outside


def test_nothing_imports_a_way_to_the_network() -> None:
    """Only the part that fetches models may open a connection."""
    ways = {
        "socket",
        "ssl",
        "http",
        "urllib",
        "requests",
        "httpx",
        "ftplib",
        "smtplib",
        "aiohttp",
        "asyncio",
        "webbrowser",
    }
    users = {name for name in sources() if {m.split(".")[0] for m in imported(name)} & ways}
    assert users <= {"llm/fetch", "llm/registry"}


def writes(tree: ast.Module) -> Iterator[str]:
    """Every call that can write, move or delete a file."""
    verbs = {
        "write_text",
        "write_bytes",
        "replace",
        "rename",
        "unlink",
        "rmtree",
        "symlink_to",
        "rmdir",
        "copyfile",
        "copy2",
        "move",
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = function.value if isinstance(function, ast.Attribute) else None
        if name in ("open", "fdopen"):
            flags = {n.value for argument in [*node.args, *(k.value for k in node.keywords)] for n in ast.walk(argument)
                     if isinstance(n, ast.Constant) and isinstance(n.value, str)}  # fmt: skip
            attributes = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
            if any(set(flag) & set("wax+") and len(flag) <= 3 for flag in flags) or attributes & {
                "O_WRONLY",
                "O_RDWR",
                "O_CREAT",
            }:
                yield f"line {node.lineno}: {name}"
        elif name == "replace" and getattr(owner, "id", "") != "os" and (len(node.args) != 1 or node.keywords):
            continue  # of texts and dataclasses; a path's takes one argument
        elif name in verbs and owner is not None:
            yield f"line {node.lineno}: {name}"


def test_files_are_written_in_one_place() -> None:
    """Memory files are written by `disk` alone; every other module that writes anything is listed with its reason."""
    found = {name: list(writes(tree)) for name, tree in sources().items()}
    assert {name: lines for name, lines in found.items() if lines and name not in WRITERS} == {}
    assert list(writes(ast.parse("Path('x').write_text('y')"))) and list(writes(ast.parse("open('x', 'w')")))
    assert list(writes(ast.parse("aside.replace(place)"))) and list(writes(ast.parse("os.replace(a, b)")))


@pytest.mark.parametrize("name", sources())
def test_module_and_its_functions_keep_their_size(name: str) -> None:
    """No module is over 350 lines, no function over 60: what outgrows that is split by idea."""
    path = ROOT / f"{name}.py" if (ROOT / f"{name}.py").exists() else ROOT / name / "__init__.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 350
    for node in ast.walk(sources()[name]):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


def test_every_module_says_what_it_is() -> None:
    """Each module begins with a docstring."""
    assert [name for name, tree in sources().items() if not ast.get_docstring(tree)] == []


def test_order_is_written_from_the_top_down() -> None:
    """The order names each module once."""
    names = ORDER.split()
    assert len(names) == len(set(names)) and all(a < b for a, b in pairwise(sorted(set(RANK.values()))))
