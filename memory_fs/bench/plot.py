"""A picture of figures: accuracy with its interval by level, a line a system. The only importer of matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memory_fs.errors import MemoryFsError

SUFFIXES = (".png", ".svg")


def plot(lines: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the figures of `report.figures`, one picture in a row for each task.

    Raises:
        MemoryFsError: matplotlib is not installed, the name has another ending, or the file cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise MemoryFsError(f"{path} must end in {' or '.join(SUFFIXES)}", path=path)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MemoryFsError("matplotlib is not installed: `pip install memgpt-fs[lab]`") from error
    tasks = list(dict.fromkeys((line["task"], line["variant"]) for line in lines))
    picture = Figure(figsize=(6 * len(tasks), 4.5), layout="constrained")
    for place, task in enumerate(tasks, 1):
        _draw(picture.add_subplot(1, len(tasks), place), [x for x in lines if (x["task"], x["variant"]) == task])
    try:
        picture.savefig(path)
    except OSError as error:
        raise MemoryFsError(f"{path} cannot be written ({error.strerror})", path=path) from error


def _draw(axes: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    """Lines over the levels where there are levels, else bars."""
    levels = list(dict.fromkeys(line["level"] for line in lines if line["level"] != "all"))
    series: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if (line["level"] in levels) == bool(levels):
            series.setdefault(_name(line, lines), []).append(line)
    for name, points in series.items():
        values = [point["accuracy"] for point in points]
        ends = [[p["accuracy"] - p["low"] for p in points], [p["high"] - p["accuracy"] for p in points]]
        if levels:
            axes.errorbar([p["level"] for p in points], values, yerr=ends, marker="o", capsize=3, label=name)
        else:
            axes.bar(name, values[0], yerr=[[end[0]] for end in ends], capsize=3)
    axes.set(title=lines[0]["task"], ylabel="accuracy, 95 % interval", ylim=(0, 1.05))
    axes.tick_params(axis="x", rotation=0 if levels else 30)
    if levels:
        axes.set_xlabel("level")
        axes.legend()


def _name(line: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """The system, with what else tells it from the others of its picture."""
    more = [name for name in ("model", "window", "seed") if len({other[name] for other in lines}) > 1]
    return ", ".join([str(line["system"]), *(f"{name} {line[name]}" for name in more)])
