"""One look at a vault: what `memory-fs status` shows."""

from __future__ import annotations

from typing import Any

from memory_fs.agent import Agent
from memory_fs.errors import ModelError
from memory_fs.llm.registry import find


def status_of(agent: Agent) -> dict[str, Any]:
    """The state of a vault, as scripts read it."""
    vault, settings = agent.vault, agent.vault.settings
    blocks = agent.core.blocks()
    notes, messages = agent.archival.count(), agent.recall.count()
    try:
        path, installed = str(find(settings.model, vault.root.parent)), True
    except ModelError:
        path, installed = "", False
    warnings = [f"memory.yaml: {warning}" for warning in settings.warnings]
    warnings += [f"core/{block.label}.yaml: {warning}" for block in blocks for warning in block.warnings]
    warnings += [agent.queue.trouble] if agent.queue.trouble else []
    warnings += [f"{path}: {why}" for path, why in vault.disk.troubles.items()]
    return {
        "model": {"name": settings.model, "path": path, "installed": installed},
        "window": settings.window,
        "blocks": [{"label": b.label, "used": b.used, "limit": b.limit, "read_only": b.read_only} for b in blocks],
        "notes": notes,
        "messages": messages,
        "index": {"records": notes + messages},
        "history": {"changes": vault.history.count(), "head": vault.history.head},
        "session": _session(agent),
        "warnings": warnings,
    }


def _session(agent: Agent) -> dict[str, Any]:
    """Tokens of the newest session, from the trailers of its changes."""
    found: dict[str, Any] = {"name": "", "steps": 0, "prompt": 0, "reused": 0, "generated": 0}
    for change in agent.vault.history.log():
        session, tokens = change.trailers.get("Session"), change.trailers.get("Tokens", "")
        if not session:
            continue
        if found["name"] and session != found["name"]:
            break
        found["name"] = session
        if tokens.count("/") == 2:
            found["steps"] += 1
            for key, number in zip(("prompt", "reused", "generated"), tokens.split("/"), strict=True):
                found[key] += int(number)
    return found
