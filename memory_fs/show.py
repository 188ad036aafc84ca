"""How things look in a terminal: plain text when piped, colour when not, and nothing from a file or a model is active.

Control characters of content are shown as pictures, so that an escape sequence in a note cannot move the cursor, and
rich's own markup is never read from content.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from memory_fs.agent import Step
    from memory_fs.blame import Line
    from memory_fs.change import Change
    from memory_fs.history_prune import Pruned
    from memory_fs.index import Page
    from memory_fs.loading import NoModel
    from memory_fs.prompt import Prompt

_PICTURES = {code: chr(0x2400 + code) for code in range(32) if code not in (9, 10)}
_PICTURES |= {127: "\u2421", **dict.fromkeys(range(0x80, 0xA0), "\ufffd")}
_PICTURES |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
_ACTIVE = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def inert(text: str) -> str:
    """Text that a terminal only shows: no escapes, no carriage returns, no bidirectional overrides."""
    return text.translate(_PICTURES)


def console(stderr: bool = False) -> Console:
    """A rich console that leaves text alone: no markup, no highlighting, no wrapping when piped."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def emit(text: str, style: str | None = None) -> None:
    """Print text from anywhere."""
    if sys.stdout.isatty():
        console().print(inert(text), style=style)
    else:
        print(inert(text), flush=True)


def emit_json(value: Any, indent: int | None = 2) -> None:
    """Print one JSON document; what a terminal would act on, or the stream cannot encode, stands as \\u escapes."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not plain, indent=indent)
    print(_ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text), flush=True)


def emit_diff(diff: str) -> None:
    """Print a unified diff."""
    for line in diff.removesuffix("\n").split("\n"):
        emit(line, style=_STYLES.get(line[:1]))


def changes_json(changes: Sequence[Change]) -> list[dict[str, str]]:
    """Every file of these changes as {"path", "diff"}."""
    return [{"path": path, "diff": diff} for change in changes for path, diff in change.files]


def step_json(step: Step) -> dict[str, Any]:
    """A step as scripts read it."""
    return {
        "function": step.call.function if step.call else None,
        "arguments": step.call.arguments if step.call else {},
        "known": step.call.known if step.call else "",
        "missing": step.call.missing if step.call else "",
        "ok": step.result.ok,
        "result": step.result.text,
        "changes": changes_json(step.changes),
        "pages": [{"page": one.page, "why": one.why, "cause": one.cause} for one in step.pages],
        "tokens": step.tokens(),
        "seconds": round(step.seconds, 3),
        "ended": step.ended,
    }


def page_json(page: Page) -> dict[str, Any]:
    """A page of hits as scripts read it."""
    hits = [
        {
            "id": hit.id,
            "path": hit.path,
            "date": hit.date.isoformat(),
            "text": hit.text,
            "source": hit.source,
            **({"pinned": True} if hit.pinned else {}),
        }
        for hit in page.hits
    ]
    return {"query": page.query, "page": page.page, "pages": page.pages, "total": page.total, "hits": hits}


def emit_page(page: Page) -> None:
    """Print a page of hits, each with its citation."""
    past = f" (there is no page {page.asked})" if page.asked != page.page else ""
    emit(
        f"{page.total} found for {page.query!r}, page {page.page} of {page.pages}{past}"
        if page.total
        else "nothing found"
    )
    for hit in page.hits:
        pin = "pinned" if hit.pinned else ""
        cited = ", ".join(part for part in (f"{hit.date:%Y-%m-%d}", pin, hit.source, hit.path) if part)
        emit(f"\n[{hit.id}] {cited}", style="bold")
        emit(hit.text)


def change_json(change: Change) -> dict[str, Any]:
    """A change as scripts read it."""
    return {
        "rev": change.rev,
        "author": change.author,
        "time": change.time.isoformat(),
        "subject": change.subject,
        "trailers": dict(change.trailers),
        "changes": changes_json([change]),
    }


def emit_change(change: Change, diff: bool = False) -> None:
    """Print a change on one line, and its diff where asked."""
    emit(
        f"{change.rev[:8]}  {change.time:%Y-%m-%d %H:%M}  {change.author}: {change.subject}",
        style="yellow" if diff else None,
    )
    if diff:
        if "Reason" in change.trailers:
            emit(f"reason: {change.trailers['Reason']}")
        emit_diff(change.diff)


def emit_lines(lines: Sequence[Line]) -> None:
    """Print the lines of a file, each behind the change that it came with."""
    who = max((len(line.change.author) for line in lines), default=0)
    for line in lines:
        change = line.change
        head = f"{change.rev[:8]}  {change.time:%Y-%m-%d %H:%M}  {change.author:{who}}"
        emit(f"{head}  {_made_by(change):40}  {line.number:4}  {line.text}")


def _made_by(change: Change) -> str:
    """Which function wrote it in which turn; by hand it has neither."""
    session, turn = change.trailers.get("Session", ""), change.trailers.get("Turn", "")
    return " ".join(filter(None, (change.trailers.get("Function"), f"{session}/{turn}" if turn else session)))[:40]


def line_json(line: Line) -> dict[str, Any]:
    """A line of a file and where it came from, as scripts read it."""
    change = line.change
    return {
        "line": line.number,
        "text": line.text,
        "rev": change.rev,
        "author": change.author,
        "time": change.time.isoformat(),
        "subject": change.subject,
        "function": change.trailers.get("Function"),
        "session": change.trailers.get("Session"),
        "turn": int(change.trailers["Turn"]) if change.trailers.get("Turn", "").isdecimal() else None,
        "path": line.path,
    }


def prompt_json(prompt: Prompt, counter: NoModel, window: int) -> dict[str, Any]:
    """A prompt with the tokens of each region, as scripts read it."""
    regions = [
        {"name": region.name, "tokens": counter.count_text(region.text), "text": region.text}
        for region in prompt.regions
        if region.text
    ]
    return {"window": window, "tokens": counter.count(prompt.turns), "regions": regions}


def emit_prompt(found: Mapping[str, Any]) -> None:
    """Print what `prompt_json` made, and how the window is filled."""
    shares: dict[str, int] = {}
    for region in found["regions"]:
        emit(f"--- {region['name']}, {region['tokens']} tokens", style="bold")
        emit(region["text"])
        name = region["name"].split(":")[0]
        shares[name] = shares.get(name, 0) + region["tokens"]
    emit(f"\n{bar(shares, found['window'])} {found['tokens']} of {found['window']} tokens")
    emit("  ".join(f"{name[:1].upper()} {name} {count}" for name, count in shares.items()))


def pruned_text(done: Pruned) -> str:
    """What pruning did, or would do, on one line."""
    (before, after), (size, left) = done.changes, done.size
    sizes = _size(size) if left is None else f"{_size(size)} -> {_size(left)}"
    return f"{before:,} changes -> {after:,}, {sizes}" + (" now; nothing was done" if left is None else "")


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def bar(parts: Mapping[str, int], whole: int, width: int = 60) -> str:
    """The window as a bar: each region its letter for its share, dots for what is free."""
    picture = ""
    done = 0
    for name, tokens in parts.items():
        done += tokens
        picture += name[:1].upper() * (round(width * done / whole) - len(picture))
    return "[" + picture[:width].ljust(width, ".") + "]"
