"""Runs notebooks as "Restart and Run All" does, in a fresh folder, and writes them so that one run is like another.

    python tests/notebook_runner.py             # run those with a scripted model and write their outputs
    python tests/notebook_runner.py 00          # run these (00 needs the real model)

The home folder of a run is its own, so neither a person's name nor their IPython settings get into the outputs.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

from memory_fs.llm.registry import models_folder

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
REAL = [path for path in NOTEBOOKS if path.name.startswith("00")]
SCRIPTED = [path for path in NOTEBOOKS if path not in REAL]
PYTHON = {"name": "python3", "display_name": "Python 3", "language": "python"}
SECONDS = 900  # the longest a cell may take


def run(path: Path, folder: Path) -> str:
    """Run a notebook and return its text with the outputs.

    Args:
        path: the notebook; it is not written.
        folder: where it runs, which is its home folder too.
    """
    home = {"HOME": str(folder), "IPYTHONDIR": str(folder / ".ipython"), "XDG_CACHE_HOME": str(folder / ".cache")}
    env = {**os.environ, **home, "MEMORY_FS_MODELS": str(models_folder())}
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as wires:  # sockets in a folder, with a short path: no port is opened
        kernel = AsyncKernelManager(
            kernel_name="python3",
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
            transport="ipc" if os.name == "posix" else "tcp",
            connection_file=f"{wires}/kernel.json",
        )
        client = NotebookClient(
            notebook,
            km=kernel,
            timeout=SECONDS,
            startup_timeout=SECONDS,
            record_timing=False,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(env=env, cleanup_kc=True)
    return text_of(notebook, path.stem)


def text_of(notebook: NotebookNode, name: str) -> str:
    """A notebook as its file holds it: ids from file and index, no times, nothing of this Python or machine."""
    notebook.metadata = NotebookNode(kernelspec=NotebookNode(PYTHON), language_info=NotebookNode(name="python"))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"{name}-{number:02d}", NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = merged(cell.outputs)
    return nbformat.writes(notebook) + "\n"


def merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs in which printed text stands in one piece, however many pieces it came in."""
    whole: list[NotebookNode] = []
    for output in outputs:
        last = whole[-1] if whole else NotebookNode()
        if output.output_type == "stream" and last.get("name") == output.name:
            last.text += output.text
        else:
            whole.append(output)
    return whole


def main(names: list[str]) -> None:
    """Run the notebooks whose names start so, and write their outputs."""
    for path in [path for path in NOTEBOOKS if path.name.startswith(tuple(names))] if names else SCRIPTED:
        with tempfile.TemporaryDirectory() as folder:
            print(f"running {path.name}", flush=True)
            path.write_text(run(path, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
