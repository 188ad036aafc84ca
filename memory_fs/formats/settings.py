"""memory.yaml (settings a person may change) and queue.yaml (what is in context)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any
from zoneinfo import ZoneInfo

from memory_fs.errors import FormatError
from memory_fs.formats.block import BOM, replace_value, text_of
from memory_fs.formats.strict_yaml import Mapping, load_mapping, scalar

DEFAULT_MODEL = "qwen2.5-coder-1.5b-instruct"
MECHANISMS = ("guard", "verdicts", "wording", "faults", "prefetch", "clock", "query_cache", "write_back", "clashes")
"""The parts of the control plane that `without` can switch off, so that each can be measured alone."""


@dataclass(frozen=True)
class Settings:
    """What memory.yaml says.

    Attributes:
        model: a name of the registry, or a GGUF file.
        window: the context window, tokens.
        reply_reserve: tokens of the window kept free for the model's reply.
        pressure: the share of the window (less the reserve) at which the model is warned.
        flush_to: the share that a flush leaves in the window.
        summary_tokens: the longest recursive summary, tokens.
        max_steps: steps a turn may take.
        max_failures: identical failures that end a turn; one less takes the function out of the next step.
        page_size: hits a page.
        heartbeat: `auto` (every call but send_message continues the turn) or `requested` (the paper's flag).
        functions: names offered to the model; empty: all.
        without: mechanisms of the control plane that are switched off.
        working_set: the share of the window that paged-in notes and messages may take.
        max_faults: how often a draft of an answer is taken back in one turn because memory holds what it lacks.
        zone: the IANA time zone of dates and day files.
        temperature: 0 is greedy; `seed` makes other values repeatable.
    """

    model: str = DEFAULT_MODEL
    window: int = 4096
    reply_reserve: int = 512
    pressure: float = 0.7
    flush_to: float = 0.5
    summary_tokens: int = 200
    max_steps: int = 6
    max_failures: int = 3
    page_size: int = 5
    heartbeat: str = "auto"
    functions: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    working_set: float = 0.25
    max_faults: int = 5
    zone: str = "UTC"
    temperature: float = 0.0
    seed: int = 0
    warnings: tuple[str, ...] = ()

    def has(self, mechanism: str) -> bool:
        """Whether a part of the control plane is on."""
        return mechanism not in self.without


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "window": (lambda v: 512 <= v <= 1_048_576, "512 tokens or more"),
    "reply_reserve": (lambda v: v >= 64, "64 tokens or more"),
    "pressure": (lambda v: 0.1 <= v < 1, "a share from 0.1 to 0.99"),
    "flush_to": (lambda v: 0.1 <= v < 1, "a share from 0.1 to 0.99"),
    "summary_tokens": (lambda v: v >= 32, "32 tokens or more"),
    "max_steps": (lambda v: 1 <= v <= 100, "a number from 1 to 100"),
    "max_failures": (lambda v: 1 <= v <= 100, "a number from 1 to 100"),
    "page_size": (lambda v: 1 <= v <= 100, "a number from 1 to 100"),
    "heartbeat": (lambda v: v in ("auto", "requested"), "`auto` or `requested`"),
    "without": (lambda v: set(v) <= set(MECHANISMS), f"a list with some of: {', '.join(MECHANISMS)}"),
    "working_set": (lambda v: 0.05 <= v <= 0.5, "a share from 0.05 to 0.5"),
    "max_faults": (lambda v: 0 <= v <= 20, "a number from 0 to 20"),
    "zone": (lambda v: _is_zone(v), "a zone such as Europe/Lisbon"),
    "temperature": (lambda v: 0 <= v <= 2, "a number from 0 to 2"),
}


def parse_settings(text: str, path: str | None = None) -> Settings:
    """Read memory.yaml; a missing key keeps its default, an unknown one is reported.

    Raises:
        FormatError: broken YAML or a value out of range, with its line.
    """
    found = load_mapping(text.removeprefix(BOM), path)
    known = {field.name: field.default for field in fields(Settings) if field.name != "warnings"}
    values: dict[str, Any] = {}
    warnings = list(found.warnings)
    for key, value in found.data.items():
        if key not in known:
            warnings.append(f"line {found.lines[key]}: unknown setting `{key}` ignored")
        elif value is not None:
            values[key] = _checked(key, value, type(known[key]), found, path)
    settings = Settings(**values, warnings=tuple(warnings))
    if settings.reply_reserve > settings.window // 2:
        raise FormatError(
            f"`reply_reserve` ({settings.reply_reserve}) is more than half of `window` ({settings.window})",
            path=path,
            line=found.lines.get("reply_reserve") or found.lines.get("window", 0),
        )
    return settings


def _checked(key: str, value: Any, kind: type, found: Mapping, path: str | None) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if kind is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = tuple(value)
    plain = "a list of names" if kind is tuple else "text" if kind is str else "a whole number"
    test, wanted = _CHECKS.get(key, (lambda v: True, plain))
    if type(value) is not kind or not test(value):
        raise FormatError(f"`{key}` must be {wanted}, not {value!r}", path=path, line=found.lines[key])
    return value


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


@dataclass(frozen=True)
class Frame:
    """A place of the working set and the page in it.

    Attributes:
        page: `archival/k3f9x2` or `recall/k3f9x2`: the kind and the id of a note or a message.
        why: what brought it in: `search`, `fault`, `prefetch` or `read`.
        turn: the last turn that used it.
        referenced: whether it was used since the hand of the clock last passed.
    """

    page: str
    why: str = "search"
    turn: int = 0
    referenced: bool = True


@dataclass(frozen=True)
class QueueState:
    """What is in context (paper, section 2.2): the recursive summary, then the messages, oldest first.

    Attributes:
        summary: words of everything that was evicted; a person may edit it.
        messages: references such as `2026-11-29/k3f9x2`.
        alerted: whether the memory-pressure alert of this period has been given.
        turn: the number of the last turn.
        evicted: how many messages have left the context so far.
        frames: the working set, as a circle.
        hand: where in the circle the clock's hand stands.
    """

    summary: str = ""
    messages: tuple[str, ...] = ()
    alerted: bool = False
    turn: int = 0
    evicted: int = 0
    frames: tuple[Frame, ...] = ()
    hand: int = 0


_QUEUE_HEAD = "# What is in context. The summary may be edited; the messages are in recall/ by day and id.\n"


def parse_queue(text: str, path: str | None = None) -> QueueState:
    """Read queue.yaml.

    Raises:
        FormatError: broken YAML or a key of the wrong type.
    """
    text = text.removeprefix(BOM)
    found = load_mapping(text, path)
    messages = found.data.get("messages") or []
    if not isinstance(messages, list):
        raise FormatError("`messages` must be a list", path=path, line=found.lines["messages"])
    numbers = {}
    for key in ("turn", "evicted", "hand"):
        numbers[key] = found.data.get(key) or 0
        if type(numbers[key]) is not int or numbers[key] < 0:
            raise FormatError(f"`{key}` must be a whole number", path=path, line=found.lines[key])
    return QueueState(
        summary=text_of(found, "summary", text, path),
        messages=tuple(str(item) for item in messages),
        alerted=found.data.get("alerted") is True,
        frames=_frames(found, path),
        **numbers,
    )


def _frames(found: Mapping, path: str | None) -> tuple[Frame, ...]:
    listed = found.data.get("frames") or []
    if not isinstance(listed, list) or not all(isinstance(item, dict) and item.get("page") for item in listed):
        raise FormatError("`frames` must be a list of {page: ...}", path=path, line=found.lines["frames"])
    frames = {}
    for item in listed:
        turn = item.get("turn")
        frames[str(item["page"])] = Frame(
            str(item["page"]),
            str(item.get("why") or "search"),
            turn if type(turn) is int and turn >= 0 else 0,
            item.get("referenced") is True,
        )
    return tuple(frames.values())


def render_queue(state: QueueState) -> str:
    """The text of queue.yaml."""
    lines = [f"turn: {state.turn}", f"evicted: {state.evicted}", f"alerted: {'true' if state.alerted else 'false'}"]
    listed = "".join(f"\n  - {scalar(ref)}" for ref in state.messages) or " []"
    held = "".join(f"\n  - {scalar(asdict(frame))}" for frame in state.frames)
    pages = f"hand: {state.hand}\nframes:{held}\n" if held else ""
    text = _QUEUE_HEAD + "\n".join(lines) + f"\nvalue:\nmessages:{listed}\n{pages}"
    written = replace_value(text, state.summary)
    return written.replace("\nvalue:", "\nsummary:", 1)
