"""What a notebook shows, as parts (a line, a text, a bar, a fold) that are drawn as HTML and as Markdown.

A text from a file, a message or the model is text and nothing else: escaped in HTML, between code marks in Markdown, so
that none is a tag, a link, a picture or a formula. Colours are inherited, or JupyterLab's own with a tint, so that the
light and the dark theme both work; without style sheets the words are still all there.

It does not know what the parts are about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from memory_fs.events import clean
from memory_fs.show import bar, inert

LONGEST = 20_000  # of one text, characters: a notebook keeps what it has shown
# MathJax leaves these classes alone: a `$` in a note is no formula, and a formula can hold a link.
_ROOT = '<div class="memory-fs tex2jax_ignore mathjax_ignore" style="line-height:1.4">'
_FRAME = "border:1px solid var(--jp-border-color1, currentColor)"
_PRE = "white-space:pre-wrap;overflow-wrap:anywhere;margin:.2em 0;padding:.3em .6em"
_TINTS = {"+": "background:rgba(46,160,67,.22)", "-": "background:rgba(248,81,73,.22)", "@": "opacity:.65"}
_COLOURS = ("brand-color1", "success-color1", "warn-color1", "info-color1", "ui-font-color3")


@dataclass(frozen=True)
class Line:
    """A label of the program, and a text from anywhere; `strong` for what comes first."""

    label: str
    text: str = ""
    strong: bool = False

    def html(self) -> str:
        """As one paragraph."""
        name = f"<b>{_safe(self.label)}</b>" if self.strong else _safe(self.label)
        code = f' <code style="white-space:pre-wrap;overflow-wrap:anywhere">{_safe(self.text)}</code>'
        return f"<div>{name}{code if self.text else ''}</div>\n"

    def markdown(self) -> str:
        """As one paragraph."""
        label = _plain(self.label)
        return f"**{label}** {_code(self.text)}".rstrip() if self.strong else f"{label} {_code(self.text)}".rstrip()


@dataclass(frozen=True)
class Text:
    """A text of several lines; a unified diff is coloured."""

    text: str
    diff: bool = False

    def html(self) -> str:
        """As it stands, line by line."""
        text = shortened(self.text, LONGEST)
        shown = _coloured(text) if self.diff else _safe(text)
        return f'<pre style="{_PRE};{_FRAME}">{shown}</pre>\n'

    def markdown(self) -> str:
        """As a fenced block."""
        text = _inert(shortened(self.text, LONGEST)).removesuffix("\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return f"{fence}{'diff' if self.diff else 'text'}\n{text}\n{fence}"


@dataclass(frozen=True)
class Bar:
    """How much of a whole is used, and by what; `marks` are lines across it, in the same unit."""

    name: str
    parts: tuple[tuple[str, int], ...]
    whole: int
    unit: str
    marks: tuple[tuple[str, int], ...] = ()

    @property
    def said(self) -> str:
        """The bar in words."""
        used = sum(amount for _, amount in self.parts)
        shares = used == self.whole and len(self.parts) > 1
        return f"{used} {self.unit}" if shares else f"{used} of {self.whole} {self.unit}"

    def html(self) -> str:
        """As coloured pieces in a frame; the words stand beside it, so no colour has to be seen."""
        pieces, legend, left = "", "", 100.0
        for number, (name, amount) in enumerate(self.parts):
            width = max(0.0, min(left, 100 * amount / max(self.whole, 1)))
            left -= width
            colour = f"var(--jp-{_COLOURS[number % len(_COLOURS)]}, currentColor)"
            pieces += (
                f'<div title="{escape(f"{name}: {amount} {self.unit}")}" '
                f'style="width:{width:.1f}%;background:{colour};opacity:.8"></div>'
            )
            swatch = f"border-left:.8em solid {colour};padding-left:.3em;margin-right:1em"
            legend += f'<span style="{swatch}">{_safe(name)} {amount}</span>\n'
        frame = f"display:flex;height:.8em;max-width:44em;{_FRAME}"
        label = escape(f"{self.name}: {self.said}")
        return (
            f"<div>{_safe(self.name)} {self.said}</div>\n"
            f'<div role="img" aria-label="{label}" style="{frame}">{pieces}</div>\n{self._ruler()}'
            + (f"<div>{legend}</div>\n" if len(self.parts) > 1 else "")
        )

    def _ruler(self) -> str:
        """Below the bar: the marks, each at the right end of its own box."""
        boxes, done = "", 0.0
        for name, place in sorted(self.marks, key=lambda mark: mark[1]):
            width = max(0.0, min(100.0, 100 * place / max(self.whole, 1)) - done)
            done += width
            style = f"width:{width:.1f}%;text-align:right;white-space:nowrap;border-right:2px solid;padding-right:.3em"
            boxes += f'<div style="{style};box-sizing:border-box">{_safe(name)} {place}</div>\n'
        return f'<div style="display:flex;max-width:44em;font-size:85%">{boxes}</div>\n' if boxes else ""

    def markdown(self) -> str:
        """As letters in brackets."""
        words = ", ".join(f"{_plain(name)} {amount}" for name, amount in (*self.parts, *self.marks))
        drawn = bar(dict(self.parts), max(self.whole, 1), 40)
        return f"{_plain(self.name)} `{drawn}` {self.said}" + (f" ({words})" if len(self.parts) > 1 else "")


@dataclass(frozen=True)
class Fold:
    """Parts that are opened by a click; Markdown has the title alone."""

    title: str
    parts: tuple[Part, ...]

    def html(self) -> str:
        """As a details element, which needs no script."""
        inside = "".join(part.html() for part in self.parts)
        return f"<details><summary>{_safe(self.title)}</summary>\n{inside}</details>\n"

    def markdown(self) -> str:
        """As one line."""
        return _plain(self.title)


Part = Line | Text | Bar | Fold


@dataclass(frozen=True)
class View:
    """What an object shows, part by part."""

    parts: tuple[Part, ...]

    def html(self) -> str:
        """As HTML without scripts, links and style sheets."""
        return f"{_ROOT}\n{''.join(part.html() for part in self.parts)}</div>"

    def markdown(self) -> str:
        """As Markdown in which every text from outside is code."""
        return "\n\n".join(part.markdown() for part in self.parts) + "\n"

    _repr_html_, _repr_markdown_ = html, markdown


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters, and how many there are in all."""
    return text if len(text) <= most else f"{text[:most]}\n... ({len(text)} characters in all)"


def _inert(text: str) -> str:
    return inert(clean(text))


def _safe(text: str) -> str:
    return escape(_inert(text))


def _plain(text: str) -> str:
    """A short text of the program in Markdown; what could be markup is escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~&!])", r"\\\1", " ".join(_inert(text).split()))


def _code(text: str) -> str:
    """One line of Markdown code that nothing in it can end."""
    line = " ".join(_inert(text).split())
    if not line:
        return ""
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _coloured(diff: str) -> str:
    lines = diff.removesuffix("\n").split("\n")
    names = {n for n, pair in enumerate(pairwise(lines)) if pair[0].startswith("--- ") and pair[1].startswith("+++ ")}
    drawn = []
    for number, line in enumerate(lines):
        tint = "font-weight:bold" if {number, number - 1} & names else _TINTS.get(line[:1])
        drawn.append(f'<span style="{tint}">{_safe(line)}</span>' if tint else _safe(line))
    return "\n".join(drawn)
