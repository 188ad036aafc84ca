"""How many threads this process may really use: the scheduler's affinity and the container's quota.

Knows Linux control groups of both versions; elsewhere it counts processors.
"""

from __future__ import annotations

import os
from pathlib import Path


def threads(root: Path = Path("/")) -> int:
    """Threads to compute with: at least one, at most the processors and the whole processors of the quota.

    Args:
        root: where `proc` and `sys` are looked for.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    processors = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = min((share for share in _quotas(root) if share > 0), default=float(processors))
    return max(1, min(processors, int(quota)))


def _quotas(root: Path) -> list[float]:
    """Processors granted by each control group around this process; unreadable and unlimited ones are left out."""
    quotas = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            top, version_2 = root / "sys/fs/cgroup", True
        elif "cpu" in controllers.split(","):
            top, version_2 = root / "sys/fs/cgroup/cpu", False
        else:
            continue
        folder = top / path.strip("/")
        for place in (folder, *folder.parents):
            quotas.append(_version_2(place) if version_2 else _version_1(place))
            if place == top:
                break
    return [quota for quota in quotas if quota is not None]


def _version_2(folder: Path) -> float | None:
    fields = _read(folder / "cpu.max").split()
    return _ratio(fields[0], fields[1]) if len(fields) == 2 else None


def _version_1(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    try:
        return int(quota) / int(period) if int(quota) > 0 and int(period) > 0 else None
    except ValueError:  # "max", or no such file
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
