"""The functions that the model can call: one table, from which all else comes.

A function is a typed Python function with a docstring. Its schema, its line in the prompt, its branch of the grammar
and the checks of its arguments are made from the signature, so a person's own function needs nothing more.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from memory_fs.errors import FunctionError
from memory_fs.events import clean

KINDS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
}
TEXT_CHARS = 2000  # the longest text the grammar lets the model write in one argument, characters
ON_DEMAND = "on demand"  # Annotated[str, 200, ON_DEMAND]: an argument that the model is not asked for as a rule
_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """One argument.

    Attributes:
        kind: str, int, float, bool or list[str].
        longest: bounds a text, characters.
        on_demand: whether the model is asked for it only where a grammar says so.
    """

    name: str
    kind: Any
    default: Any = _REQUIRED
    longest: int = TEXT_CHARS
    on_demand: bool = False

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is _REQUIRED

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        if get_origin(self.kind) is list:
            return {"type": "array", "items": {"type": "string", "maxLength": 60}, "maxItems": 5}
        schema = dict(KINDS[self.kind])
        least = {"minLength": 3} if self.on_demand else {}
        return {**schema, **least, "maxLength": self.longest} if self.kind is str else schema

    def check(self, value: Any, function: str) -> Any:
        """The value, when it is of the right kind.

        Raises:
            FunctionError: it is not; says what is wanted.
        """
        if self.kind is str and isinstance(value, str):
            return clean(value)
        if get_origin(self.kind) is list and isinstance(value, list) and all(isinstance(v, str) for v in value):
            return [clean(item) for item in value]
        if self.kind is float and type(value) in (int, float):
            return float(value)
        if self.kind in (int, bool) and type(value) is self.kind:
            return value
        wanted = "a list of texts" if get_origin(self.kind) is list else KINDS[self.kind]["type"]
        raise FunctionError(f"{function}: {self.name} must be {wanted}, not {json.dumps(value)[:60]}")


@dataclass(frozen=True)
class Function:
    """One function of the table.

    Attributes:
        doc: the first paragraph of its docstring, for the model.
        run: called with the memory first where `wants_memory`, then the arguments by name; returns text.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    run: Callable[..., Any]
    wants_memory: bool = False

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Function:
        """Make a table entry of a typed Python function.

        Raises:
            FunctionError: no docstring, or a parameter without a type that JSON has.
        """
        name = function.__name__
        doc = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
        if not doc:
            raise FunctionError(f"{name} needs a docstring: the model chooses by it")
        hints = get_type_hints(function, include_extras=True)
        parameters = []
        wants_memory = False
        for position, (key, found) in enumerate(inspect.signature(function).parameters.items()):
            kind, longest, more = hints.get(key), TEXT_CHARS, list[Any]()
            if get_origin(kind) is Annotated:  # Annotated[str, 120]: at most 120 characters
                kind, longest, *more = get_args(kind)
            if position == 0 and key == "memory":
                wants_memory = True
            elif kind in KINDS or (get_origin(kind) is list and get_args(kind) == (str,)):
                parameters.append(Parameter(key, kind, found.default, longest, ON_DEMAND in more))
            else:
                raise FunctionError(f"{name}: parameter {key} must be typed str, int, float, bool or list[str]")
        return cls(name, doc, tuple(parameters), function, wants_memory)

    def signature(self) -> str:
        """`name(a, b)`: how the prompt shows it."""
        return f"{self.name}({', '.join(p.name for p in self.parameters if not p.on_demand)})"

    def schema(self, demanded: Collection[str] = ()) -> dict[str, Any]:
        """The JSON schema of its arguments, in the order of the signature; on demand only those that are named."""
        asked = [p for p in self.parameters if not p.on_demand or p.name in demanded]
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema() for parameter in asked},
            "required": [parameter.name for parameter in asked if parameter.required or parameter.on_demand],
            "additionalProperties": False,
        }

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to call it with.

        Raises:
            FunctionError: one is missing, unknown or of the wrong kind; says which are expected.
        """
        names = [parameter.name for parameter in self.parameters]
        unknown = [key for key in arguments if key not in names]
        missing = [p.name for p in self.parameters if p.required and p.name not in arguments]
        if unknown or missing:
            what = f"no argument {unknown[0][:40]!r}" if unknown else f"argument {missing[0]} is missing"
            raise FunctionError(f"{self.name}: {what}; it takes: {', '.join(names) or 'nothing'}")
        return {p.name: p.check(arguments[p.name], self.name) for p in self.parameters if p.name in arguments}


class FunctionTable:
    """Functions by name, in the order in which the model is shown them."""

    def __init__(self, functions: Iterable[Callable[..., Any]] = ()) -> None:
        """Args: functions: typed Python functions with docstrings."""
        self._functions: dict[str, Function] = {}
        for function in functions:
            self.add(function)

    def add(self, function: Callable[..., Any]) -> Function:
        """Register a function.

        Raises:
            FunctionError: the name is taken, or the function is not typed.
        """
        made = Function.of(function)
        if made.name in self._functions:
            raise FunctionError(f"a function {made.name} is registered already")
        self._functions[made.name] = made
        return made

    def get(self, name: str) -> Function:
        """A function by its name.

        Raises:
            FunctionError: there is none; names those there are.
        """
        if name not in self._functions:
            raise FunctionError(f"no function {name[:60]!r}; the functions are: {', '.join(self._functions)}")
        return self._functions[name]

    def select(self, names: Iterable[str]) -> list[Function]:
        """The named functions, in this table's order; all of them when no name is given.

        Raises:
            FunctionError: a name is unknown.
        """
        wanted = [self.get(name).name for name in names]
        return [function for name, function in self._functions.items() if not wanted or name in wanted]


def grammar(
    functions: Iterable[Function],
    *,
    heartbeat: bool = False,
    choices: Mapping[str, Sequence[Mapping[str, Sequence[str]]]] | None = None,
    bare: str = "",
    lines: Sequence[str] | None = None,
) -> str:
    """A llguidance Lark grammar for one function call with its thought.

    The call is `{"known": ..., "missing": ..., "function": ..., "arguments": {...}}`. The thought cannot contradict the
    call: `missing` is exactly "nothing" when the function is send_message and never starts so otherwise. With `lines`,
    `known` goes through them one by one and says `still true` or `no longer true` behind each; only a line that is no
    longer true can be replaced, and then nothing else can be done.

    Args:
        functions: those that may be called in this step.
        heartbeat: ask for the paper's `request_heartbeat` as well.
        choices: function -> ways to call it, each argument -> the only texts it may be, for example a block's lines;
            none leave it free, and ask for one that is asked for on demand.
        bare: a function that is only chosen here; its arguments are worded by another pass.
        lines: of core memory, to be judged; None for a free thought.
    """
    branches: list[str] = []
    rules: list[str] = []
    for function in functions:
        for way in (choices or {}).get(function.name) or [{}]:
            for old in way.get("old_content", ("",)):
                bound = {**way, "old_content": (old,)} if old else way
                opening = f', "function": "{function.name}"'
                thought = f"{_known(lines, old)} {_missing(function.name, lines)}"
                if function.name == bare:
                    branches.append(f"{thought} {json.dumps(opening + '}')}")
                    continue
                opening += ', "arguments": '
                branches.append(
                    f"""{thought} {json.dumps(opening, ensure_ascii=False)} args{len(rules)} "}}" """.strip()
                )
                rules.append(f"args{len(rules)}: %json {json.dumps(_tight(function, bound, heartbeat, lines))}")
    return "\n".join(
        [
            "start: " + "\n    | ".join(branches),
            r'FREE: /"([^"\\\x00-\x1f]){0,160}"/',
            'VERDICT: "still true" | "no longer true"',
            r'SOMETHING: /"([^"\\\x00-\x1f]){3,80}"/ & ~/"[nN](othing|one|ever|o )(.|\n)*/',
            *rules,
        ]
    )


_SAVING = {
    "core_memory_append": "saving a new fact",
    "core_memory_replace": "correcting a line",
    "archival_memory_insert": "saving a note",
}


def _known(lines: Sequence[str] | None, outdated: str) -> str:
    """The first field of the thought: free, or each line with a verdict; the outdated one's is given."""
    if lines is None:
        return """"{\\"known\\": " FREE"""
    parts = []
    for line in lines:
        # To append, all must be still true; to replace, this one must not.
        verdict = '"still true"' if not outdated else '"no longer true"' if line == outdated else "VERDICT"
        parts.append(
            json.dumps(json.dumps(line, ensure_ascii=False)[1:-1] + " -> ", ensure_ascii=False) + " " + verdict
        )
    return """"{\\"known\\": \\"" """ + ' "; " '.join(parts or ['"nothing yet"']) + ' "\\""'


def _missing(function: str, lines: Sequence[str] | None) -> str:
    """The second field of the thought. Its key stands apart: a longer text that begins alike would hide the others."""
    if function == "send_message":
        text = json.dumps('"nothing"')
    elif lines is None or function not in _SAVING:
        text = "SOMETHING"
    else:
        text = json.dumps(f'"{_SAVING[function]}"')
    return json.dumps(', "missing": ') + " " + text


def _tight(
    function: Function, way: Mapping[str, Sequence[str]], heartbeat: bool, lines: Sequence[str] | None
) -> dict[str, Any]:
    """The schema of a function's arguments, some of them bound to given texts, without room for white space."""
    schema = function.schema(way)
    if lines is not None and function.name in ("core_memory_append", "core_memory_replace"):
        # No list, and no copy of the verdicts that were just written. Sentences are free: a full stop that nothing may
        # follow makes the model go on without the space, "Dr.ale" for "Dr. Hale"; each becomes a line (offer.py).
        content = "content" if function.name == "core_memory_append" else "new_content"
        schema["properties"][content] = {"type": "string", "pattern": r"^[^>;；，。\n]{2,200}。?$"}
    if heartbeat and function.name != "send_message":
        schema["properties"]["request_heartbeat"] = {"type": "boolean"}
        schema["required"].append("request_heartbeat")
    schema["properties"] |= {key: {"enum": list(texts)} for key, texts in way.items() if texts}
    schema["x-guidance"] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    return schema


def parse_call(text: str) -> dict[str, Any]:
    """The JSON object in a completion.

    Raises:
        FunctionError: there is none; says what a call looks like.
    """
    try:
        call = json.loads(clean(json.dumps(json.loads(text), ensure_ascii=False)))  # no lone surrogates: "\\ud800"
    except (ValueError, RecursionError) as error:
        at = re.search(r"char (\d+)", str(error))
        place = f" at character {at.group(1)}" if at else ""
        raise FunctionError(
            f'no valid call{place}; write {{"function": "...", "arguments": {{...}}}}, complete and nothing else'
        ) from error
    if not isinstance(call, dict) or not isinstance(call.get("function"), str):
        raise FunctionError('no valid call; "function" must be the name of a function')
    if not isinstance(call.get("arguments", {}), dict):
        raise FunctionError('no valid call; "arguments" must be an object')
    return call
