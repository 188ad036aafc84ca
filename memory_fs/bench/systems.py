"""The systems that are compared, by name: the agent, the agent without some mechanism, and the baselines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from memory_fs.agent import Agent
from memory_fs.bench import baselines
from memory_fs.bench.question import Outcome, Question, Setting
from memory_fs.bench.vaults import Vaults
from memory_fs.doctor import examine
from memory_fs.errors import MemoryFsError
from memory_fs.events import Event
from memory_fs.formats.note import parse_note
from memory_fs.formats.settings import MECHANISMS
from memory_fs.llm import Model
from memory_fs.steps import Step, reply_of
from memory_fs.vault import Vault

Ask = Callable[[Question], Outcome]
AGENTS = {"memory_fs": (), **{f"-{one}": (one,) for one in MECHANISMS}, "memgpt": MECHANISMS}
BASELINES = ("truncation", "summary", "rag", "closed")
NAMES = (*AGENTS, *BASELINES)


def chosen(names: Sequence[str], every: bool, ks: Sequence[int], writes: bool) -> list[str]:
    """The systems that were asked for, in a fixed order; `rag` once for each number of hits, as `rag@5`.

    Args:
        names: of systems; none are `memory_fs` alone.
        every: all that can do the task.
        ks: how many hits `rag` takes.
        writes: the task needs a system that writes memory.

    Raises:
        MemoryFsError: there is no such system, or it cannot do the task.
    """
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise MemoryFsError(f"there is no system {unknown[0]!r}; choose from: {', '.join(NAMES)}")
    unfit = [name for name in names if writes and name in BASELINES]
    if unfit:
        raise MemoryFsError(f"{unfit[0]} writes no memory and cannot do this task; choose from: {', '.join(AGENTS)}")
    wanted = set(names) or {"memory_fs"}
    if every:
        wanted = set(AGENTS) if writes else set(NAMES)
    found = [name for name in NAMES if name in wanted]
    return [one for name in found for one in ([f"rag@{k}" for k in sorted(set(ks))] if name == "rag" else [name])]


def system(name: str, model: Model, vaults: Vaults) -> Ask:
    """How a system is asked.

    Args:
        name: one of `chosen`.
        model: answers; its window is everybody's.
        vaults: where memory is set up.
    """
    if name in AGENTS:
        return Agents(model, vaults, AGENTS[name]).ask
    if name.startswith("rag@"):
        return partial(baselines.rag, model, vaults=vaults, k=int(name[4:]))
    if name == "summary":
        return baselines.Summaries(model).answer
    return partial({"closed": baselines.closed, "truncation": baselines.truncation}[name], model)


@dataclass
class Agents:
    """The agent: a fresh one on a fresh vault for each question.

    Attributes:
        without: mechanisms that are switched off.
    """

    model: Model
    vaults: Vaults
    without: Collection[str]
    _warm: bool = False

    def ask(self, question: Question) -> Outcome:
        """Ask, and look at what that did to the vault."""
        if not self._warm:
            self._read_instructions()
        with self.vaults.fresh(question.setting, self.without) as root:
            with Agent(root, self.model) as agent:
                outcome = _asked(agent, question)
            return replace(outcome, troubles=len(examine(root).left))

    def _read_instructions(self) -> None:
        """As `memory-fs chat` does before the first message; else the first system of a run would pay for all."""
        with self.vaults.fresh(Setting("nothing"), self.without) as root, Agent(root, self.model) as agent:
            agent.warm()
        self._warm = True


def _asked(agent: Agent, question: Question) -> Outcome:
    vault = agent.vault
    lines, before = _lines(agent), notes(vault)
    start = time.perf_counter()
    steps = list(agent.run(Event(question.text, question.kind)))
    seconds = time.perf_counter() - start
    added = [parse_note(vault.read(path) or "", path).text for path in sorted(notes(vault) - before)]
    added += (_lines(agent) - lines).elements()
    return Outcome(
        reply_of(steps[-1]),
        tuple(one.completion for step in steps for one in step.passes),
        seconds,
        human=tuple(agent.core.block("human").value.split("\n")),
        written=tuple(added),
        calls=tuple(_called(step) for step in steps),
        counters=asdict(agent.pager.counters),
    )


def _called(step: Step) -> str:
    """A step's call, and why it failed where it did."""
    name = step.call.function if step.call else "no call"
    return name if step.result.ok else f"{name}: {step.result.text[:120]}"


def _lines(agent: Agent) -> Counter[str]:
    """The lines of core memory, each with how often it is there."""
    return Counter(line for block in agent.core.blocks() for line in block.value.split("\n") if line.strip())


def notes(vault: Vault) -> set[str]:
    """The files of archival memory."""
    return {path for path in vault.files() if path.startswith("archival/")}
