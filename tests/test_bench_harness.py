"""Runs of experiments: the log, what a second run takes up, the table, the picture, errors on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from conftest import say
from shell import Shell

from memory_fs import cli, cli_tasks
from memory_fs.bench import core_read, core_update, plot
from memory_fs.bench.harness import Log, Row, ask, read_log
from memory_fs.bench.question import Task
from memory_fs.bench.report import figures, plain
from memory_fs.errors import MemoryFsError
from memory_fs.testing import Reply, ScriptedModel, call

ROWS = [{"question": f"What is Ana{n}?", "answer": "nurse", "facts": [f"Ana{n} is a nurse."]} for n in range(3)]
NURSE: Reply = '{"message": "A nurse."}'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three questions about core memory."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def run(task: Task, names: list[str], log: Log | None = None, reply: Reply = NURSE, **options: Any) -> list[Row]:
    """Ask everything; the model always says the same."""
    model = ScriptedModel(repeat(reply), window=2048)
    return [row for row, _ in ask(model, task, names, log or Log(), **options)]


def test_a_row_says_what_was_asked_answered_and_spent(data: Path) -> None:
    """Everything that a figure needs, and what a person wants to look up, is in the row."""
    (row,) = run(core_read.task(data), ["rag@1"], limit=1, seed=4)
    assert (row["task"], row["system"], row["seed"], row["id"]) == ("core-read", "rag@1", 4, "0000")
    assert (row["model"], row["window"], row["reply"]) == ("scripted", 2048, "A nurse.")
    assert row["scores"] == {"right": 1.0} and row["calls"] == 1
    assert row["prompt"] > 20 and row["generated"] > 3 and row["wrong writes"] == row["troubles"] == 0


def test_tokens_are_those_that_were_read_and_those_that_were_known(data: Path) -> None:
    """What the model had read for the question before is no prompt token of the next one."""
    first, second, _ = run(core_read.task(data), ["closed"])
    assert first["reused"] == 0 and second["reused"] > second["prompt"] > 0
    assert first["prompt"] == second["prompt"] + second["reused"]


def test_a_second_run_asks_only_what_is_not_in_the_log(data: Path, tmp_path: Path) -> None:
    """Rows of the same task, system, seed and window are taken as they are; another of these is asked anew."""
    path, task = tmp_path / "log.jsonl", core_read.task(data)
    first = run(task, ["closed"], Log(path), limit=2)
    model = ScriptedModel([NURSE], window=2048)
    again = list(ask(model, task, ["closed"], Log(path)))
    assert [new for _, new in again] == [False, False, True]
    assert [row for row, _ in again][:2] == read_log(path)[:2]
    assert len(first) == 2 and len(read_log(path)) == 3
    assert [new for _, new in ask(ScriptedModel(repeat(NURSE), window=2048), task, ["closed"], Log(path), seed=1)]
    assert len(read_log(path)) == 6


def test_a_row_that_was_cut_off_is_asked_again(data: Path, tmp_path: Path) -> None:
    """A kill may leave half a row at the end: it goes, the others stay."""
    path, task = tmp_path / "log.jsonl", core_read.task(data)
    run(task, ["closed"], Log(path))
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    run(task, ["closed"], Log(path))
    assert len(read_log(path)) == 3 and path.read_bytes().startswith(whole[: whole.rfind(b'{"task"')])


def test_a_file_that_is_no_log_is_left_alone(tmp_path: Path) -> None:
    """Whatever else is named as a log is refused and stays as it was."""
    path = tmp_path / "notes.txt"
    path.write_text("not a log", encoding="utf-8")
    with pytest.raises(MemoryFsError, match=":1: no JSON"):
        Log(path)
    assert path.read_text(encoding="utf-8") == "not a log"


def test_a_stop_keeps_what_is_done(data: Path, tmp_path: Path) -> None:
    """Ctrl-C in the second question leaves the first one's row."""

    def stop(_: object) -> str:
        raise KeyboardInterrupt

    path = tmp_path / "log.jsonl"
    with pytest.raises(KeyboardInterrupt):
        list(ask(ScriptedModel([NURSE, stop], window=2048), core_read.task(data), ["closed"], Log(path)))
    assert [row["id"] for row in read_log(path)] == ["0000"]


def test_memory_that_does_not_fit_is_a_wrong_answer(tmp_path: Path) -> None:
    """A system that cannot take a question in its window has not answered it; the run goes on."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "What?", "answer": "x", "facts": ["word " * 1500]}), encoding="utf-8")
    (row,) = run(core_read.task(path), ["memory_fs"])
    assert row["scores"] == {"right": 0.0} and row["reply"].startswith("(no answer: ")


def test_what_was_not_told_is_a_wrong_write(tmp_path: Path) -> None:
    """A line of mostly the user's words may be saved, another one counts."""
    row = {
        "answer": "teacher",
        "facts": ["Ana is a nurse."],
        "new_fact": "Ana is a teacher.",
        "stale_fact_indices": [0],
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row), encoding="utf-8")
    swap = call("core_memory_replace", label="human", old_content="Ana is a nurse.", new_content="Ana is a teacher.")
    invented = call("core_memory_append", label="human", content="Olga sold her boat.")
    model = ScriptedModel(["", "", swap, invented, say("Noted.")])
    ((found, _),) = ask(model, core_update.task(path), ["memgpt"], Log())
    assert found["scores"]["right"] == 1 and found["wrong writes"] == 1
    assert found["written"] == ("Ana is a teacher.", "Olga sold her boat.")


def row_of(system: str, right: float, level: str = "", **changed: Any) -> Row:
    """A row of a log."""
    base = {"task": "t", "variant": "", "model": "m", "window": 2048, "seed": 0, "id": "1", "calls": 2, "prompt": 10}
    more = {"reused": 5, "generated": 3, "seconds": 1.5, "wrong writes": 1, "troubles": 0, "counters": {"faults": 2}}
    return {**base, **more, "system": system, "scores": {"right": right}, "level": level, **changed}


def test_figures_are_those_of_each_system_and_level() -> None:
    """Shares and costs are means, writes and faults are sums; several levels have a line each, then one for all."""
    rows = [row_of("a", 1, "0"), row_of("a", 0, "0", seconds=3.0), row_of("a", 1, "1"), row_of("b", 0)]
    found = figures(rows)
    assert [(line["system"], line["level"], line["questions"]) for line in found] == [
        ("a", "0", 2), ("a", "1", 1), ("a", "all", 3), ("b", "all", 1),
    ]  # fmt: skip
    assert found[0]["accuracy"] == 0.5 and (found[0]["p50 s"], found[0]["p95 s"]) == (3.0, 3.0)
    assert found[2]["wrong writes"] == 3 and found[2]["faults"] == 6 and found[2]["prompt"] == 10
    assert found[1]["low"] == found[1]["high"] == 1


def test_a_table_has_what_tells_its_rows_apart() -> None:
    """A model or a window is a column where there are two; further scores come last, empty where a task has none."""
    rows = [row_of("a", 1, window=4096), row_of("a", 1, task="u", scores={"right": 0.5, "exact": 1.0})]
    first, second = plain(figures(rows))
    assert list(first)[:6] == ["task", "window", "system", "level", "questions", "accuracy (95 %)"]
    assert (first["exact"], second["exact"], second["accuracy (95 %)"]) == ("", "1.000", "0.500 (0.500-0.500)")
    assert "model" not in first and first["prefetched/used"] == "0/0"


def test_a_picture_without_matplotlib_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed one line says what to install; a strange ending is refused before that."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MemoryFsError, match=r"pip install memgpt-fs\[lab\]"):
        plot.plot(figures([row_of("a", 1)]), tmp_path / "a.png")
    with pytest.raises(MemoryFsError, match=r"must end in .png or .svg"):
        plot.plot(figures([row_of("a", 1)]), tmp_path / "a.txt")


@pytest.mark.parametrize("name", ["a.png", "a.svg"])
def test_a_picture_is_drawn(tmp_path: Path, name: str) -> None:
    """Tasks with levels and without are drawn side by side."""
    pytest.importorskip("matplotlib")
    rows = [row_of("a", 1, "0"), row_of("a", 0, "1"), row_of("b", 0, task="u")]
    plot.plot(figures(rows), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 1000


# -- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """`memory-fs bench ...` in this process, its model saying the same always: returns (status, stdout, stderr)."""

    @contextmanager
    def load(name: str, window: int) -> Iterator[ScriptedModel]:
        yield ScriptedModel(repeat(NURSE), window=window, name=name)

    monkeypatch.setattr(cli_tasks, "load", load)

    def call(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["memory-fs", "bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code, *capsys.readouterr())

    yield call


def test_a_command_prints_lines_while_it_works_and_a_table_at_the_end(command: Any, data: Path) -> None:
    """Each answer is a line on stderr with the time left; the table is Markdown on stdout."""
    status, out, err = command("core-read", data, "--system", "rag", "--system", "closed", "--k", 1, "--limit", 2)
    assert status == 0 and err.count("\n") == 4
    assert err.startswith("memory-fs: 1/4 rag@1: 1, so far 100.0%; ") and " s left" in err
    lines = out.splitlines()
    assert lines[0].startswith("| task ") and [line.split("|")[2].strip() for line in lines[2:]] == ["rag@1", "closed"]


def test_a_command_takes_up_its_log_and_reports_it(command: Any, data: Path, tmp_path: Path) -> None:
    """A second run asks nothing and prints the same; `report` makes the same figures of the log."""
    log, prompts = tmp_path / "log.jsonl", tmp_path / "prompts.jsonl"
    asked = ("core-read", data, "--system", "closed", "--log", log, "--json")
    _, first, _ = command(*asked)
    status, second, err = command(*asked, "--judge-prompt", prompts)
    assert (status, err, second) == (0, "", first)
    assert command("report", log, "--json")[1] == first
    assert json.loads(first)[0]["accuracy"] == 1
    judged = [json.loads(line) for line in prompts.read_text(encoding="utf-8").splitlines()]
    assert [item["id"] for item in judged] == ["0000", "0001", "0002"]
    assert "Right answer: nurse\nAnswer to check: A nurse." in judged[0]["prompt"]


def test_a_mechanism_is_named_with_its_dash(command: Any) -> None:
    """`--system -guard` is a system, and generated questions need no file."""
    status, out, _ = command("nested-kv", "--system", "-guard", "--orderings", 1, "--pairs", 30, "--level", 0, "--json")
    assert status == 0
    assert [(line["system"], line["questions"]) for line in json.loads(out)] == [("-guard", 1)]


def test_ctrl_c_ends_a_run_with_its_log(
    command: Any, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is that of an interrupt, no traceback is shown, and what was answered is in the log."""

    def stop(_: object) -> str:
        raise KeyboardInterrupt

    log, replies = tmp_path / "log.jsonl", [NURSE, NURSE, stop]
    monkeypatch.setattr(cli_tasks, "load", lambda *_: nullcontext(ScriptedModel(replies, window=2048)))
    status, out, err = command("core-read", data, "--system", "closed", "--log", log)
    assert (status, out) == (130, "") and "Traceback" not in err
    assert f"2 answers are in {log}" in err and len(read_log(log)) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("core-read", "nothing.jsonl"), "nothing.jsonl cannot be read (No such file or directory)"),
        (("core-update", "empty"), "empty is empty"),
        (("doc-qa", "broken", "broken"), "broken:1: no JSON"),
        (("dmr", "broken"), "broken: no JSON"),
        (("dmr", "none"), "there is nothing to ask"),
        (("opener", "good"), "row 1 has no list"),
        (("core-read", "rows", "--system", "gpt"), "there is no system 'gpt'"),
        (("core-read", "rows", "--log", "no/folder"), "no/folder cannot be written"),
        (("core-read", "rows", "--model", "nothing"), "nothing"),
        (("report", "good"), "good:1: `task` is missing"),
        (("report", "nothing"), "nothing cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    """Wrong paths, broken data and wrong names end with status 2 and one line."""
    shell = Shell(tmp_path)
    texts = {"empty": "", "broken": "{", "none": "[]", "good": "{}", "rows": json.dumps(ROWS[0])}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert told in shell.run("bench", *arguments).complaint
