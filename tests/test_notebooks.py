"""The notebooks run from top to bottom, give the same bytes each time, and keep to the rules of a lesson."""

from __future__ import annotations

import re
import tempfile
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from notebook_runner import NOTEBOOKS, REAL, SCRIPTED, merged, run, text_of

from memory_fs.history import person

LONGEST = 12  # lines of a code cell

every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
scripted = pytest.mark.parametrize("path", SCRIPTED, ids=lambda path: path.stem)


def printed(outputs: list[NotebookNode]) -> str:
    """All that a cell shows, as text."""
    texts = [output.get("text", "") + "".join(map(str, output.get("data", {}).values())) for output in outputs]
    return "\n".join(texts)


def code_cells(text: str) -> list[NotebookNode]:
    """The code cells of a notebook file."""
    return [cell for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"]


@scripted
def test_a_scripted_notebook_gives_the_committed_bytes_each_time(path: Path, tmp_path: Path) -> None:
    """Restart and Run All in two fresh folders writes, both times, exactly the file that is committed."""
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        texts.append(run(path, tmp_path / name))
    assert texts[0] == texts[1]
    assert texts[0] == path.read_text(encoding="utf-8"), f"run `python tests/notebook_runner.py {path.stem[:2]}`"


@pytest.mark.model
def test_the_quickstart_runs_with_the_real_model(tmp_path: Path) -> None:
    """The real model answers from a line that a person added to the file, and undo takes the line back."""
    cells = code_cells(run(REAL[0], tmp_path))
    asked = next(cell for cell in cells if "When was Biscuit born?" in cell.source)
    assert "2021" in next(output.text for output in asked.outputs if output.get("text", "").startswith("agent: "))
    shown = [printed(cell.outputs) for cell in cells if cell.source.endswith('agent.core.block("human")')]
    assert "Biscuit" in shown[0] and "2021" in shown[0]
    assert "Biscuit" in shown[1] and "2021" not in shown[1]


WATCHED = [
    """
    from memory_fs import Agent
    from memory_fs.testing import ScriptedModel, make_vault
    from memory_fs.watch import Watcher
    agent = Agent(make_vault("vault"), ScriptedModel([]))
    watcher = Watcher(agent.search).start()
    """,
    """
    import subprocess, sys, time
    save = "import pathlib; pathlib.Path('vault/core/{}.yaml').write_text('value: Biscuit')"
    subprocess.run([sys.executable, "-c", save.format("pets")], check=True)
    until = time.monotonic() + 20
    while time.monotonic() < until and "core/pets.yaml" not in agent.vault.history.tree():
        time.sleep(0.05)
    time.sleep(0.5)
    """,
    """
    agent.close()
    subprocess.run([sys.executable, "-c", save.format("plants")], check=True)
    time.sleep(2.5)
    print("closed")
    """,
]


def test_a_watcher_prints_edits_in_a_kernel_until_the_agent_is_closed(tmp_path: Path) -> None:
    """Started in one cell it prints what another program edits while a later one runs, and ends with the agent."""
    path = tmp_path / "watched.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(dedent(cell)) for cell in WATCHED]), path)
    shown = [printed(cell.outputs) for cell in code_cells(run(path, tmp_path))]
    assert "".join(shown[:2]) == "core/pets.yaml added by hand: +1\n"
    assert shown[2] == "closed\n"


@every
def test_each_code_cell_is_short_and_introduced(path: Path) -> None:
    """Before each code cell stands a cell of text, and the code has a dozen lines at most."""
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].source.startswith(f"# {path.stem[:2]} · ")
    for before, cell in pairwise(cells):
        if cell.cell_type == "code":
            assert before.cell_type == "markdown", cell.source
            assert len(cell.source.split("\n")) <= LONGEST, cell.source


@every
def test_each_notebook_ends_with_three_exercises(path: Path) -> None:
    """The last cell asks the reader to do three things."""
    last = nbformat.read(path, as_version=4).cells[-1].source
    assert last.startswith("## Exercises")
    assert re.findall(r"^(\d)\. ", last, re.MULTILINE) == ["1", "2", "3"]


@every
def test_the_committed_outputs_are_whole_and_name_no_machine_or_person(path: Path) -> None:
    """Every cell has run in order without an error, and no folder and no name of who ran it is in the file."""
    text = path.read_text(encoding="utf-8")
    cells = code_cells(text)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert {output.output_type for cell in cells for output in cell.outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    assert "stderr" not in {output.get("name") for cell in cells for output in cell.outputs}
    for place in (str(Path.home()), tempfile.gettempdir(), str(Path(__file__).parents[1])):
        assert f"{place}/" not in text
    name = person()[0]
    assert name == "person" or name not in text


@every
def test_the_file_is_written_the_way_the_runner_writes(path: Path) -> None:
    """Cell ids come from file and position, and nothing tells of the Python or the time of the run."""
    text = path.read_text(encoding="utf-8")
    assert text_of(nbformat.reads(text, as_version=4), path.stem) == text


def test_printed_pieces_are_merged_only_where_they_touch() -> None:
    """Text that came in pieces is one text, but not across a picture, nor from two streams."""

    def piece(name: str, text: str) -> NotebookNode:
        return NotebookNode(output_type="stream", name=name, text=text)

    picture = NotebookNode(output_type="display_data", data={}, metadata={})
    found = merged([piece("stdout", "a"), piece("stdout", "b"), picture, piece("stdout", "c"), piece("stderr", "d")])
    assert [output.get("text") for output in found] == ["ab", None, "c", "d"]


def test_chat_shows_steps_and_the_answer_while_a_turn_runs(tmp_path: Path) -> None:
    """Each step takes the place of the waiting line, the answer is printed once, a failed turn says that it stopped."""
    setup = """
from memory_fs import Agent, MemoryFsError
from memory_fs.notebook import chat
from memory_fs.testing import ScriptedModel, call, make_vault
script = [call("core_memory_append", label="human", content="Name: Ana."), '{"message": "Hello Ana!"}']
agent = Agent(make_vault("vault"), ScriptedModel(script))"""
    fails = """
try:
    chat(agent, "I sing.")
except MemoryFsError as error:
    print(error)"""
    cells = [
        new_code_cell(text.strip()) for text in (setup, 'chat(agent, "I am Ana.");', fails, "print(agent.on_text)")
    ]
    place = tmp_path / "talk.ipynb"
    nbformat.write(new_notebook(cells=cells), place)
    _, good, bad, after = code_cells(run(place, tmp_path))
    assert [output.get("text") for output in good.outputs] == ["you: I am Ana.\n", None, None, "agent: Hello Ana!\n"]
    assert "core_memory_append" in printed(good.outputs[1:2]) and "send_message" in printed(good.outputs[2:3])
    assert "stopped" in printed(bad.outputs) and "no completion left" in printed(bad.outputs)
    assert "thinks" not in printed(good.outputs + bad.outputs)
    assert after.outputs[0].text == "None\n"
