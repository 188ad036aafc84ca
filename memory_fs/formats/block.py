"""core/<label>.yaml: read with PyYAML, written by replacing only the span of the `value` scalar.

Comments, key order, quoting, unknown keys, a byte order mark and the line ends of the file stay as they are. Every
write is read back before it is returned, so a text that YAML cannot hold one way is written another way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from memory_fs.errors import FormatError
from memory_fs.formats.strict_yaml import PRINTABLE, Mapping, Scalar, load_mapping, quoted, scalar

BOM = "\ufeff"
DEFAULT_LIMIT = 2000
PINNED = "pinned"  # the `priority` of what stays in context


@dataclass(frozen=True)
class Block:
    """One core memory block.

    Attributes:
        label: its name, which is the file's stem.
        value: what the model sees and edits; the line end that closes a YAML `|` scalar is not part of it.
        limit: characters that `value` may hold.
        pinned: whether a person wrote `priority: pinned`.
        warnings: what a person should know, for example a value over its limit.
    """

    label: str
    description: str
    limit: int
    read_only: bool
    value: str
    warnings: tuple[str, ...] = ()
    pinned: bool = False

    @property
    def used(self) -> int:
        """Characters in use."""
        return len(self.value)

    @property
    def lines(self) -> list[str]:
        """The lines that are in it exactly once: those that a replace can name."""
        return [line for line in self.value.split("\n") if line.strip() and self.value.count(line) == 1]

    def _repr_html_(self) -> str:
        from memory_fs import notebook

        return notebook.block(self).html()

    def _repr_markdown_(self) -> str:
        from memory_fs import notebook

        return notebook.block(self).markdown()


def parse_block(text: str, label: str, path: str | None = None) -> Block:
    """Read a block file.

    Raises:
        FormatError: broken YAML, or a key of the wrong type; with file, line and column.
    """
    found = load_mapping(text.removeprefix(BOM), path)
    data, warnings = found.data, list(found.warnings)
    named = data.get("label", label)
    if str(named) != label:
        warnings.append(f"`label: {named}` differs from the file's name; the file's name counts")
    limit = _typed(found, "limit", int, DEFAULT_LIMIT, path)
    if limit < 1:
        raise FormatError("`limit` must be 1 or more", path=path, line=found.lines["limit"])
    value = text_of(found, "value", text.removeprefix(BOM), path)
    if len(value) > limit:
        warnings.append(f"the value has {len(value)} characters, {len(value) - limit} over its limit of {limit}")
    return Block(
        label=label,
        description=str(data.get("description") or "").strip(),
        limit=limit,
        read_only=_typed(found, "read_only", bool, False, path),
        value=value,
        warnings=tuple(warnings),
        pinned=data.get("priority") == PINNED,
    )


_T = TypeVar("_T", int, bool)


def _typed(found: Mapping, key: str, kind: type[_T], default: _T, path: str | None) -> _T:
    value = found.data.get(key)
    if value is None:
        return default
    if type(value) is not kind:
        wanted = "a whole number" if kind is int else "true or false"
        raise FormatError(f"`{key}` must be {wanted}, not {value!r}", path=path, line=found.lines[key])
    return value


def text_of(found: Mapping, key: str, text: str, path: str | None = None) -> str:
    """The text that a key holds, as the person typed it; '' where there is none.

    Args:
        found: what was read from `text`.
        key: of the mapping.
        text: the document, without a byte order mark.
        path: named in errors.

    Raises:
        FormatError: the key holds a list or a mapping.
    """
    value = found.data.get(key)
    if isinstance(value, (dict, list)):
        raise FormatError(f"`{key}` must be text (start it with `|`)", path=path, line=found.lines[key])
    place = found.places.get(key)
    if place is None or value is None:
        return ""
    if not isinstance(value, str):  # `value: 42`, `value: yes`: the person's own characters
        return text[place.start : place.end]
    return value.removesuffix("\n") if _is_clipped(text, place) else value


def _is_clipped(text: str, place: Scalar) -> bool:
    """Whether the scalar is `|` or `>` without + or -: then YAML adds one line end that nobody typed as content."""
    if place.style not in ("|", ">"):
        return False
    header = text[place.start : place.end].split("\n", 1)[0].split("#", 1)[0]
    return not set(header) & set("+-")


def replace_value(text: str, value: str, path: str | None = None) -> str:
    """The file's text with another value, all else byte for byte as it was.

    Raises:
        FormatError: the file cannot be read, or no YAML scalar can hold the value (a lone surrogate, NUL).
    """
    bom, body = (BOM, text[1:]) if text.startswith(BOM) else ("", text)
    found = load_mapping(body, path)
    newline = "\r\n" if "\r\n" in body else "\n"
    for rendered in _candidates(body, found, value, newline):
        try:
            again = load_mapping(rendered, path)
            if text_of(again, "value", rendered, path) == value and _others(again) == _others(found):
                return bom + rendered
        except FormatError:
            continue
    raise FormatError("this text cannot be stored in a YAML file", path=path)


def _others(found: Mapping) -> dict[str, object]:
    return {key: value for key, value in found.data.items() if key != "value"}


def _candidates(body: str, found: Mapping, value: str, newline: str) -> list[str]:
    place = found.places.get("value")
    if place is None:
        return _added(body, found, value, newline)
    in_quotes = quoted(value)
    literal = None if found.flow or not PRINTABLE.match(value) or not value.strip() else value
    old = body[place.start : place.end]
    block = place.style in ("|", ">")
    # Blank lines below a block scalar belong to it for YAML, but to the layout of the file for its reader.
    tail = re.search(r"(?:[ \t]*\r?\n)*\Z", old) if block and _is_clipped(body, place) else None
    rest = (tail.group() if tail else "")[_first_line_end(tail.group() if tail else "") :] + body[place.end :]
    start = body[: place.start] + (" " if not old and body[: place.start].endswith(":") else "")
    out = []
    if literal is not None:
        header, indent = _header(old) if block else ("|", 2)
        out.append(start + _literal(header, indent, literal, newline) + (rest if block else _after_line(rest)))
    end = newline if block else ""
    return [*out, start + in_quotes + end + rest]


def _added(body: str, found: Mapping, value: str, newline: str) -> list[str]:
    """The ways to add the key to a file that has none: below the others, or above where that would change the last."""
    line, indent = f"value: {quoted(value)}", " " * found.indent
    before, after = body[: found.start], body[found.start :]
    if found.flow:
        return [f"{before}{{{line}{', ' if found.data else ''}{after[1:]}"]
    end = body + ("" if not body or body.endswith("\n") else newline) + indent
    literal = [end + "value: " + _literal("|", 2 + found.indent, value, newline)] if value.strip() else []
    return [*literal, end + line, before + line + newline + indent + after]


def _first_line_end(text: str) -> int:
    return text.find("\n") + 1


def _after_line(rest: str) -> str:
    """What follows a scalar that stood on one line: a comment on that line would become text, so it moves below."""
    line, end, more = rest.partition("\n")
    comment = line.strip()
    return (comment + end if comment else "") + more


def _header(old: str) -> tuple[str, int]:
    """The first line of a block scalar without its indicators, as (`|` and comment, indent in characters)."""
    first, _, lines = old.partition("\n")
    comment = re.search(r"\s+#.*", first.rstrip("\r"))
    indent = re.search(r"^( +)\S", lines, re.MULTILINE)
    return "|" + (comment.group() if comment else ""), len(indent.group(1)) if indent else 2


def _literal(header: str, indent: int, value: str, newline: str) -> str:
    lines = value.split("\n")
    first = next((line for line in lines if line), "")
    indicators = str(indent) if first.startswith((" ", "\t")) or not lines[0] else ""
    if indent > 9:
        indent = 2
    if value.endswith("\n"):
        indicators += "+"
        lines.pop()
    head = header[0] + indicators + header[1:]
    return newline.join([head, *((" " * indent + line) if line else "" for line in lines)]) + newline


def new_block(label: str, description: str, limit: int = DEFAULT_LIMIT, value: str = "") -> str:
    """The text of a new block file."""
    head = f"label: {scalar(label)}\ndescription: {scalar(description)}\nlimit: {limit}       # characters\n"
    return replace_value(head + "read_only: false\nvalue:\n", value)
