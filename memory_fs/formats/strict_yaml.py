"""YAML as a person writes it, read without the parts that execute or explode.

Tags, anchors and aliases are refused while events stream by, before anything is built: 308 bytes of aliases can expand
to 269 MB, and a tag can name a Python object. Dates stay text. A repeated key keeps its first value and is reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from memory_fs.errors import FormatError

DEEPEST = 16
LONGEST_KEY = 1000  # characters; YAML wants a longer one to be marked as a key
# Characters that may stand as they are in a `|` scalar; line ends other than \n would be changed by YAML.
PRINTABLE = re.compile(r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*\Z")
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """A safe loader for which a date is a string, as it is for the person who wrote it."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True)
class Scalar:
    """Where a value stands in the text: `text[start:end]`, characters; `style` is None, ', ", | or >."""

    start: int
    end: int
    style: str | None


@dataclass
class Mapping:
    """A top-level mapping: its data, where each scalar value stands, and what was odd about it.

    `flow` is for braces; `start` is where it starts and `indent` how far its keys are indented, both in characters.
    """

    data: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Scalar] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    flow: bool = False
    start: int = 0
    indent: int = 0


def load_mapping(text: str, path: str | None = None, first_line: int = 1) -> Mapping:
    """Read a YAML document whose top is a mapping (or nothing at all).

    Args:
        text: the document, without a byte order mark.
        path: named in errors.
        first_line: the line of the file at which the text starts.

    Raises:
        FormatError: no YAML, a tag, an anchor, an alias, more than 16 levels, or no mapping.
    """
    try:
        _refuse_active_parts(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return _mapping(node, loader, first_line)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _at(error.problem or "not valid YAML", error.problem_mark, path, first_line) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        line = before.count("\n") + first_line
        raise FormatError("a character that YAML does not allow", path=path, line=line) from error
    except _Refused as error:
        raise _at(str(error), error.mark, path, first_line) from error
    except (ValueError, RecursionError) as error:  # an impossible number, a surrogate
        raise FormatError(f"a value that cannot be read ({error})", path=path, line=first_line) from error


class _Refused(Exception):
    """Valid YAML that a memory file must not hold."""

    def __init__(self, problem: str, mark: Any) -> None:
        super().__init__(problem)
        self.mark = mark


def _refuse_active_parts(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("aliases (*name) are not allowed here", event.start_mark)
        if getattr(event, "anchor", None):
            raise _Refused("anchors (&name) are not allowed here", event.start_mark)
        if getattr(event, "tag", None):
            raise _Refused("tags (!name) are not allowed here", event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _Refused(f"more than {DEEPEST} levels", event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _mapping(node: Any, loader: Any, first_line: int) -> Mapping:
    found = Mapping()
    if node is None or (isinstance(node, yaml.ScalarNode) and not node.value and not node.style):
        return found
    if not isinstance(node, yaml.MappingNode):
        raise _Refused("expected `key: value` lines", node.start_mark)
    found.flow, found.start, found.indent = bool(node.flow_style), node.start_mark.index, node.start_mark.column
    for key_node, value_node in node.value:
        key, line = str(getattr(key_node, "value", "")), key_node.start_mark.line + first_line
        if key in found.data:
            found.warnings.append(f"line {line}: `{key}` is there twice, the first one counts")
            continue
        found.data[key] = loader.construct_object(value_node, deep=True)
        found.lines[key] = line
        if isinstance(value_node, yaml.ScalarNode):
            place = Scalar(value_node.start_mark.index, value_node.end_mark.index, value_node.style)
            found.places[key] = place
    return found


def _at(problem: str, mark: Any, path: str | None, first_line: int) -> FormatError:
    if mark is None:
        return FormatError(problem, path=path, line=first_line)
    return FormatError(problem, path=path, line=mark.line + first_line, column=mark.column + 1)


def quoted(value: str) -> str:
    """A double-quoted scalar on one line."""
    out = []
    for char in value:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif char != "\t" and PRINTABLE.match(char):
            out.append(char)
        else:
            out.append(f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def scalar(value: Any) -> str:
    """A value on one line, quoted only where it must be."""
    if isinstance(value, dict):
        return "{" + ", ".join(_pair(scalar(str(key)), scalar(item)) for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(scalar(item) for item in value) + "]"
    if isinstance(value, str) and (not PRINTABLE.match(value) or set(value) & set("\t\n")):
        return quoted(value)  # PyYAML's emitter loses some of these (U+0085, a tab at the end)
    # As an item of a list: a text that is safe there is safe everywhere on the line.
    text = yaml.safe_dump([value], default_flow_style=True, allow_unicode=True, width=2**31)
    return text.strip()[1:-1]


def _pair(key: str, value: str) -> str:
    return f"{key}: {value}" if len(key) < LONGEST_KEY else f"? {key} : {value}"
