"""How things look in a notebook: steps, changes, blocks, pages, prompts, the window and the agent.

Each function makes the `View` of one thing; the things call them lazily from `_repr_html_` and `_repr_markdown_`.
`Window` draws the context window as a map, and `chat` is one turn in a cell.

It knows the shapes of what it shows, and imports none of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memory_fs.show import bar, inert
from memory_fs.view import Bar, Fold, Line, Part, Text, View, shortened

if TYPE_CHECKING:
    from memory_fs.agent import Agent
    from memory_fs.change import Change
    from memory_fs.formats.block import Block
    from memory_fs.llm import Completion
    from memory_fs.prompt import Prompt
    from memory_fs.records import Page
    from memory_fs.steps import Step

NEWEST = 5  # changes that the agent's picture shows
HIT_CHARS = 2000  # of each hit on a page, characters


def change(shown: Change) -> View:
    """A commit: who, when, why, and its coloured diff."""
    return View((Line(f"{shown.time:%Y-%m-%d %H:%M}", f"{shown.author}: {shown.subject}"), Text(shown.diff, diff=True)))


def block(shown: Block) -> View:
    """A block: what it says, and how much of its limit that takes."""
    locked = " (read-only)" if shown.read_only else ""
    parts: list[Part] = [Line(f"{shown.label}{locked}", shown.description, strong=True)]
    parts.append(Bar("used", (("used", shown.used),), shown.limit, "characters"))
    parts.append(Text(shown.value or "(empty)"))
    return View((*parts, *(Line("warning:", warning) for warning in shown.warnings)))


def page(shown: Page) -> View:
    """A page of hits, each with its citation: id, day, source and file."""
    if not shown.total:
        return View((Line("nothing found for", shown.query, strong=True),))
    past = f" (there is no page {shown.asked})" if shown.asked != shown.page else ""
    parts: list[Part] = [
        Line(f"{shown.total} found, page {shown.page} of {shown.pages}{past}, for", shown.query, strong=True)
    ]
    for hit in shown.hits:
        pin, tags = "pinned" if hit.pinned else "", " ".join(f"#{tag}" for tag in hit.tags)
        cited = (f"[{hit.id}]", f"{hit.date:%Y-%m-%d}", pin, hit.source, hit.path, tags)
        parts += [Line("", ", ".join(part for part in cited if part)), Text(shortened(hit.text, HIT_CHARS))]
    return View(tuple(parts))


def prompt(shown: Prompt) -> View:
    """A compiled prompt, region by region. It has no tokenizer: `Window` counts tokens."""
    regions = [region for region in shown.regions if region.text]
    sizes = _grouped((region.name, len(region.text)) for region in regions)
    whole = sum(size for _, size in sizes)
    return View((Bar("prompt", sizes, whole, "characters"), *_regions(shown)))


def _regions(shown: Prompt) -> tuple[Part, ...]:
    return tuple(
        Fold(f"{region.name}, {len(region.text)} characters", (Text(region.text),))
        for region in shown.regions
        if region.text
    )


def _grouped(sizes: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Sizes by the part of the name before the colon: all of the queue is one."""
    found: dict[str, int] = {}
    for name, size in sizes:
        group = name.partition(":")[0]
        found[group] = found.get(group, 0) + size
    return tuple(found.items())


def step(shown: Step) -> View:
    """A step: the call and its thought, what came of it, the diff, and folded away what the model saw."""
    parts: list[Part] = [Line("no call", strong=True)]
    if shown.call:
        given = ", ".join(f"{name}={_json(value)}" for name, value in shown.call.arguments.items())
        parts = [Line(shown.call.function, f"({given})", strong=True)]
        thought = (("known:", shown.call.known), ("missing:", shown.call.missing))
        parts += [Line(label, text) for label, text in thought if text]
    label = "result:" if shown.result.ok else "refused:"
    parts += [Line(label), Text(shown.result.text)] if "\n" in shown.result.text else [Line(label, shown.result.text)]
    if shown.diff:
        parts.append(Text(shown.diff, diff=True))
    for made in shown.changes:
        parts.append(Line("changed:" if "Function" in made.trailers else f"{made.subject}:", made.counts()))
    parts += [_pass(done.kind, done.prompt, done.completion) for done in shown.passes]
    return View((*parts, Line("the turn ends:", shown.ended) if shown.final else Line("the turn goes on")))


def _pass(kind: str, seen: Prompt, done: Completion) -> Fold:
    took = f", {done.seconds:.1f} s" if done.seconds else ""
    tokens = f"{done.prompt_tokens} prompt tokens, {done.reused_tokens} of them reused, {done.generated_tokens} written"
    return Fold(f"model pass: {kind}, {tokens}{took}", (*_regions(seen), Line("it wrote"), Text(done.text)))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def agent(shown: Agent) -> View:
    """An agent on one screen: its window, its blocks, what is in the other tiers, the newest changes."""
    state = shown.queue.state()
    parts: list[Part] = [Line(f"{shown.model.name}, turn {state.turn}, vault", shown.vault.root.name, strong=True)]
    parts.append(Window(shown).bar)
    blocks = shown.core.blocks()
    parts += [Bar(f"core/{b.label}", (("used", b.used),), b.limit, "characters") for b in blocks]
    notes, said = shown.archival.count(), shown.recall.count()
    parts.append(Line(f"archival memory: {notes} notes; recall memory: {said} messages of the person and the agent"))
    parts.append(Line(f"queue: {len(state.messages)} messages in context, {state.evicted} evicted"))
    if state.summary:
        parts += [Line("summary:"), Text(state.summary)]
    shown.vault.look()
    changes = [made for made, _ in zip(shown.vault.history.log(), range(NEWEST), strict=False)]
    parts += [Line(f"{made.time:%Y-%m-%d %H:%M}", f"{made.author}: {made.subject}") for made in changes]
    troubles = [shown.queue.trouble, *shown.vault.settings.warnings, *(w for b in blocks for w in b.warnings)]
    return View((*parts, *(Line("warning:", trouble) for trouble in troubles if trouble)))


class Window:
    """The context window as a map: what each region of the prompt takes now, in the model's own tokens.

    Attributes:
        regions: (name, tokens); `markup` is what the turn markers take.
        used, size: tokens of the prompt, and of the whole window.
        alert, full: where the memory-pressure alert and the flush come, tokens.
    """

    def __init__(self, agent: Agent) -> None:
        """Args: agent: whose prompt is compiled and counted, as of now."""
        settings, seen = agent.vault.settings, agent.prompt()
        texts = [(region.name, agent.model.count_text(region.text), region.text) for region in seen.regions]
        counted = _grouped((name, tokens) for name, tokens, text in texts if text)
        folds = tuple(Fold(f"{name}, {tokens} tokens", (Text(text),)) for name, tokens, text in texts if text)
        self._inside = Fold("what is in it", folds)
        self.size, self.used = agent.window, agent.model.count(seen.turns)
        self.full = self.size - settings.reply_reserve
        self.alert = int(self.full * settings.pressure)
        self.regions = (*counted, ("markup", max(0, self.used - sum(tokens for _, tokens in counted))))

    @property
    def bar(self) -> Bar:
        """The map as one bar with the two lines."""
        return Bar("window", self.regions, self.size, "tokens", (("alert", self.alert), ("flush", self.full)))

    def __repr__(self) -> str:
        words = ", ".join(f"{name} {tokens}" for name, tokens in self.regions)
        return f"{bar(dict(self.regions), self.size)} {self.used} of {self.size} tokens: {words}"

    def _repr_html_(self) -> str:
        return View((self.bar, self._inside)).html()

    def _repr_markdown_(self) -> str:
        return View((self.bar,)).markdown()


def chat(agent: Agent, text: str) -> list[Step]:
    """Say something to the agent in a notebook: each step is shown when it is done, the answer while it is written.

    Raises:
        MemoryFsError: as `Agent.run`.
    """
    from IPython.display import display

    steps: list[Step] = []
    before, agent.on_text = agent.on_text, _Answer()
    print(f"you: {inert(text)}", flush=True)
    turn, place = agent.run(text), None
    try:
        while not (steps and steps[-1].final):
            place = display(View((Line("the model reads and thinks ..."),)), display_id=True)  # type: ignore[no-untyped-call]
            steps.append(next(turn))
            place.update(steps[-1])
            place = None
    finally:
        agent.on_text = before
        if place:
            place.update(View((Line("stopped"),)))
        print(flush=True)
    return steps


class _Answer:
    """Prints an answer piece by piece."""

    def __init__(self) -> None:
        self._begun = False

    def __call__(self, piece: str) -> None:
        """Print the next piece."""
        print(("" if self._begun else "agent: ") + inert(piece), end="", flush=True)
        self._begun = True
