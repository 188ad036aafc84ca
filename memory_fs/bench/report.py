"""Figures of a log: one row for each system and level of a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memory_fs.bench.harness import Row
from memory_fs.bench.scores import interval, mean
from memory_fs.bench.table import percentile

GROUP = ("task", "variant", "model", "window", "seed")


def figures(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The figures of some rows, in the order in which their tasks and systems come; levels, then all of them."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((*(row[one] for one in GROUP), row["system"]), []).append(row)
    found = [line for key, group in groups.items() for line in _levels(key, group)]
    more = dict.fromkeys(name for _, extra in found for name in extra)
    return [{**line, **{name: extra.get(name, "") for name in more}} for line, extra in found]


def _levels(key: tuple[object, ...], rows: Sequence[Row]) -> list[tuple[dict[str, Any], dict[str, float]]]:
    """Figures of each level and of all; beside them those that only this task has."""
    levels = sorted({row["level"] for row in rows})
    each = [(level, [row for row in rows if row["level"] == level]) for level in levels] if len(levels) > 1 else []
    last = "all" if each else levels[0] or "all"
    return [(_figures(key, level, group), _more(group)) for level, group in [*each, (last, rows)]]


def _more(rows: Sequence[Row]) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row["scores"] if name != "right")
    return {name: mean([float(row["scores"].get(name, 0)) for row in rows]) for name in names}


def _figures(key: tuple[object, ...], level: str, rows: Sequence[Row]) -> dict[str, Any]:
    right = [float(row["scores"]["right"]) for row in rows]
    low, high = interval(right, seed=int(str(key[GROUP.index("seed")])))
    seconds = [float(row["seconds"]) for row in rows]
    return {
        **dict(zip((*GROUP, "system"), key, strict=True)),
        "level": level,
        "questions": len(rows),
        "accuracy": mean(right),
        "low": low,
        "high": high,
        "calls": _mean(rows, "calls"),
        "prompt": _mean(rows, "prompt"),
        "reused": _mean(rows, "reused"),
        "generated": _mean(rows, "generated"),
        "p50 s": percentile(seconds, 0.5),
        "p95 s": percentile(seconds, 0.95),
        "wrong writes": sum(row["wrong writes"] for row in rows),
        "faults": _sum(rows, "faults"),
        "prefetched": _sum(rows, "prefetched"),
        "used": _sum(rows, "prefetch_used"),
        "troubles": sum(row["troubles"] for row in rows),
    }


def _mean(rows: Sequence[Row], name: str) -> float:
    return mean([float(row[name]) for row in rows])


def _sum(rows: Sequence[Row], counter: str) -> int:
    return sum(row["counters"].get(counter, 0) for row in rows)


def plain(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Figures for a Markdown table: short cells, and no column that tells nothing apart.

    Tokens and calls are means a question; writes, faults, prefetched pages and troubles are sums.
    """
    told = [name for name in GROUP[1:] if len({line[name] for line in lines}) > 1]
    return [_plain(line, told) for line in lines]


def _plain(line: dict[str, Any], told: Sequence[str]) -> dict[str, Any]:
    first = {name: line[name] for name in ("task", *told, "system", "level", "questions")}
    share = f"{line['accuracy']:.3f} ({line['low']:.3f}-{line['high']:.3f})"
    costs = {name: f"{line[name]:.1f}" for name in ("calls", "prompt", "reused", "generated", "p50 s", "p95 s")}
    sums = {"wrong writes": line["wrong writes"], "faults": line["faults"]}
    ahead = {"prefetched/used": f"{line['prefetched']}/{line['used']}", "troubles": line["troubles"]}
    rest = list(line)[list(line).index("troubles") + 1 :]
    more = {name: f"{line[name]:.3f}" if isinstance(line[name], float) else line[name] for name in rest}
    return {**first, "accuracy (95 %)": share, **costs, **sums, **ahead, **more}
