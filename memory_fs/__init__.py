"""memory_fs: a MemGPT whose memory is a folder.

from memory_fs import Agent, load_model
agent = Agent("vault", load_model("vault"))
for step in agent.run("Hi! My name is Chad."):
    print(step, step.diff)

cli                        the `memory-fs` command
agent                      the loop
queue_manager, executor    what is in context; running calls
functions, prompt          the table of functions; what the model sees
core, recall, archival     the three tiers
search, index              what can be found, never stale
watch                      hand edits, seen while they happen
vault, history, disk       transactions, git commits, files
formats                    text to data and back
llm                        the model
errors, events             words that all share
testing                    doubles: ScriptedModel, fixed clock, make_vault
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_fs.agent import Agent, Step
    from memory_fs.change import Change
    from memory_fs.errors import MemoryFsError
    from memory_fs.events import Event
    from memory_fs.starter import init_vault
    from memory_fs.vault import Vault
    from memory_fs.watch import Watcher

_HOME = {
    "Agent": "agent",
    "Change": "change",
    "Event": "events",
    "MemoryFsError": "errors",
    "Step": "agent",
    "Vault": "vault",
    "Watcher": "watch",
    "init_vault": "starter",
    "load_model": "loading",
}
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `memory-fs --help` does not load an engine."""
    if name not in _HOME:
        raise AttributeError(f"memory_fs has no {name!r}")
    return getattr(import_module(f"memory_fs.{_HOME[name]}"), name)


__all__ = ["Agent", "Change", "Event", "MemoryFsError", "Step", "Vault", "Watcher", "init_vault", "load_model"]
