"""The functions of one step, and the grammar that lets the model call only those.

What cannot help is not offered: a function that keeps failing, a replace where there is no line to replace, one that
was just called again to the letter, and what `memory_fs.policy` takes out for what was said. What is called all the
same is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memory_fs import policy
from memory_fs.events import Call, Result
from memory_fs.formats.block import Block
from memory_fs.formats.settings import Settings
from memory_fs.functions import Function, grammar
from memory_fs.revision import revision
from memory_fs.steps import Turn

Ways = dict[str, Sequence[Mapping[str, Sequence[str]]]]  # function -> ways to call it: argument -> the texts it may be


def offer(
    turn: Turn, blocks: Sequence[Block], functions: Sequence[Function], settings: Settings
) -> tuple[list[Function], str]:
    """What the model may call in this step of a turn, and its grammar.

    Args:
        turn: what was said, done and failed so far.
        blocks: core memory.
        functions: all that could be offered.
        settings: limits, and whether heartbeats are requested.
    """
    message = turn.said
    about = [block for block in blocks if not block.read_only and block.label != "persona"]
    lines = policy.worth_judging([line for block in about for line in block.lines], message)
    # A replace can only name a line that is there: the model chooses it, code keeps it exact.
    swap = [_swap(block, [line for line in block.lines if line in lines]) for block in about]
    choices: Ways = {
        "core_memory_append": [{"label": [block.label]} for block in about],
        "core_memory_replace": [way for way in swap if way["old_content"]],
    }
    useless = {name for name, count in turn.failures.items() if count >= max(1, settings.max_failures - 1)}
    useless |= {name for name, ways in choices.items() if not ways}
    replaced = "core_memory_replace" in turn.done
    can_save = any(function.name in policy.WRITES for function in functions)
    room = can_save and turn.steps < 3 and not replaced and any(block.used < 0.8 * block.limit for block in about)
    names = [f.name for f in functions if f.name == "send_message" or f.name not in useless]
    memory = "\n".join(block.value for block in blocks)
    if settings.has("guard"):
        names = [name for name in names if name != turn.repeated]
        names = policy.offered(names, message, memory, not turn.done, room, turn.answerable, turn.warned)
        if replaced and not policy.tells(message) and "send_message" in names:
            names = ["send_message"]  # what was said stands in memory
    asked = _asked(turn, [function.name for function in functions])
    if turn.steps >= settings.max_steps and any(function.name == "send_message" for function in functions):
        names = ["send_message"]
    elif asked and turn.last and turn.last.ready:
        choices, names, lines = asked, list(asked), [turn.last.ready.arguments["old_content"]]
    offered = [function for function in functions if function.name in names]
    judged = lines if settings.has("verdicts") and policy.judges(message) and not replaced else None
    beat = settings.heartbeat == "requested"
    bare = "send_message" if settings.has("wording") else ""
    return offered, grammar(offered, heartbeat=beat, choices=choices, bare=bare, lines=judged)


def _swap(block: Block, lines: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The way to replace one of some lines of a block; in a pinned one a reason is asked for."""
    return {"label": [block.label], "old_content": lines, **({"reason": []} if block.pinned else {})}


def _asked(turn: Turn, names: Sequence[str]) -> Ways:
    """The ways that are left after an append clashed with a line: that line is no longer true, or both are."""
    if turn.last is None or turn.last.ready is None:
        return {}
    found = turn.last.ready.arguments
    ways: Ways = {"core_memory_replace": [{key: [text] if text else [] for key, text in found.items()}]}
    if not turn.last.sure:
        ways["core_memory_append"] = [{"label": [found["label"]], "content": [found["new_content"]]}]
    return {name: way for name, way in ways.items() if name in names}


def revised(turn: Turn, blocks: Sequence[Block], offered: Sequence[Function], settings: Settings) -> Call | None:
    """The call that puts a statement in the place of the line that it says anew; None where the model decides."""
    if "core_memory_replace" not in {one.name for one in offered}:
        return None
    if turn.last and turn.last.ready and turn.last.sure:
        return turn.last.ready
    if not settings.has("verdicts") or turn.done:
        return None
    for block in blocks:
        found = None if block.read_only or block.pinned else revision(block.lines, turn.said)
        if found and block.label != "persona":
            ways = {"label": block.label, "old_content": found.old, "new_content": found.new}
            return Call("core_memory_replace", ways, known=f"{found.old} - no longer true", missing="the new line")
    return None


def verbatim(call: Call, turn: Turn, blocks: Sequence[Block], settings: Settings) -> Call:
    """A write to core memory, one fact a line, in the words of the person where the model would lose some of them."""
    key = {"core_memory_append": "content", "core_memory_replace": "new_content"}.get(call.function)
    if not settings.has("guard") or not isinstance(call.arguments.get(key or ""), str) or key is None:
        return call
    memory = "\n".join(block.value for block in blocks)
    told = [fact for fact in policy.facts(turn.said) if policy.is_news(fact, memory)] if key == "content" else []
    lines = told or policy.one_a_line(call.arguments[key])
    return replace(call, arguments={**call.arguments, key: "\n".join(lines)})


def refusal(turn: Turn, call: Call, offered: Sequence[Function], settings: Settings) -> Result | None:
    """Why a call is not run: it is not offered, or it was made in this turn to the letter. None where it is run.

    What the call brought is in context already, so made again it could only waste steps until the limit.
    """
    name = " ".join(call.function.split())[:60]
    if call.function not in {function.name for function in offered}:
        return Result(False, f"error: {name} is not offered now; call another function")
    if settings.has("guard") and turn.made(call):
        done = f"{name} was called with exactly these arguments in this turn, and it worked"
        return Result(False, f"error: {done}; answer with send_message, or call something else")
    return None
