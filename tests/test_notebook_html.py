"""What a notebook shows of memory is whole, plain, and never active, whatever the texts say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest
from conftest import MakeAgent, block, changes_of, memory_of, snapshot
from markdown_it import MarkdownIt

from memory_fs.agent import Agent
from memory_fs.change import Change
from memory_fs.formats.block import Block
from memory_fs.notebook import Window
from memory_fs.steps import Step
from memory_fs.testing import call
from memory_fs.undo import undo
from memory_fs.vault import Vault
from memory_fs.view import Bar, Line, Text, View

TAGS = {"div", "b", "code", "pre", "span", "details", "summary"}
ATTRIBUTES = {"class", "style", "title", "role", "aria-label"}
EVIL = (
    '</pre></code></div><script>alert(1)</script><img src=x onerror="alert(1)"><a href="https://example.org">go</a>'
    " ```` ` [go](https://example.org) ![see](https://example.org/x.png) https://example.org <style>*{}</style> &lt;"
    " $\\href{https://example.org}{go}$ **bold** | # title"
)


class Tree(HTMLParser):
    """The tags, attributes and text of a piece of HTML; fails where a tag is closed that is not open."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.code = ""  # the text within code and pre
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._open.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"code", "pre"} & set(self._open):
            self.code += data


@dataclass
class Shown:
    """Both forms of one thing."""

    html: str
    markdown: str
    tree: Tree

    @property
    def styles(self) -> list[str]:
        """Every style declaration, as `name:value`."""
        found = [value for name, value in self.tree.attributes if name == "style"]
        return [declaration for style in found for declaration in style.split(";")]


def show(thing: Any) -> Shown:
    """How a notebook shows a thing."""
    html, markdown = thing._repr_html_(), thing._repr_markdown_()
    return Shown(html, markdown, Tree(html))


@pytest.fixture
def talk(make_agent: MakeAgent) -> tuple[Agent, list[Step]]:
    """An agent whose files, messages and completions all try to break out of the page, and the steps of one turn."""
    evil_call = call("core_memory_append", known=EVIL, missing=EVIL, label="human", content=f"Says: {EVIL}")
    script = [evil_call, call("core_memory_append", label=EVIL, content=EVIL), call("send_message", message=EVIL)]
    agent = make_agent(script, files={"system.md": EVIL, **block("persona", EVIL, 2000), **block("human", "", 2000)})
    agent.model.name = EVIL  # type: ignore[misc]
    agent.call("archival_memory_insert", {"content": EVIL, "tags": [EVIL]})
    return agent, list(agent.run(f"Hello {EVIL}"))


def things(talk: tuple[Agent, list[Step]]) -> dict[str, Any]:
    """One of everything that shows itself."""
    agent, steps = talk
    return {
        "agent": agent,
        "window": Window(agent),
        "prompt": agent.prompt(),
        "block": agent.core.block("human"),
        "page": agent.archival.search("go"),
        "empty page": agent.archival.search(f"nowhere {EVIL}".replace("go", "")),
        **{f"step {number}": step for number, step in enumerate(steps)},
        **{f"change {number}": change for number, change in enumerate(changes_of(agent.vault))},
    }


def test_no_text_becomes_a_tag_or_an_attribute(talk: tuple[Agent, list[Step]]) -> None:
    """Hostile texts of files, messages and the model are shown as they are, in balanced HTML of seven harmless tags."""
    for name, thing in things(talk).items():
        shown = show(thing)
        assert shown.tree.tags <= TAGS, name
        assert {attribute for attribute, _ in shown.tree.attributes} <= ATTRIBUTES, name
        assert not any("url(" in style or "expression" in style for style in shown.styles), name
    assert EVIL in show(talk[0].core.block("human")).tree.text
    assert EVIL in show(talk[0].archival.search("go")).tree.text


def test_formulas_are_left_alone(talk: tuple[Agent, list[Step]]) -> None:
    """MathJax, for which a formula may be a link, is told to skip everything; foreign texts are in code besides."""
    for name, thing in things(talk).items():
        shown = show(thing)
        assert ("class", "memory-fs tex2jax_ignore mathjax_ignore") in shown.tree.attributes[:1], name
        if "block" in name or "page" in name or "step" in name or "change" in name:
            assert shown.tree.text.count("\\href") == shown.tree.code.count("\\href"), name


def test_no_text_becomes_markup_in_markdown(talk: tuple[Agent, list[Step]]) -> None:
    """As Markdown there is no link, picture, title or HTML, and no address stands outside code."""
    for name, thing in things(talk).items():
        tokens = MarkdownIt("commonmark").parse(show(thing).markdown)
        pieces = [*tokens, *(child for token in tokens for child in token.children or [])]
        kinds = {piece.type for piece in pieces}
        assert not kinds & {"link_open", "image", "html_inline", "html_block", "heading_open", "table_open"}, name
        plain = "".join(piece.content for piece in pieces if piece.type == "text")
        assert "http" not in plain or name == "agent" or name == "window", name
    assert EVIL in "".join(token.content for token in MarkdownIt().parse(show(talk[0].core.block("human")).markdown))


def test_no_text_ends_its_fence() -> None:
    """A text with fences of its own stays inside the one that holds it."""
    text = "a\n```\n# title\n````\n[go](https://example.org)"
    tokens = MarkdownIt("commonmark").parse(show(View((Text(text), Text(text, diff=True)))).markdown)
    assert [(token.type, token.content) for token in tokens] == [("fence", text + "\n")] * 2


def test_control_characters_are_pictures() -> None:
    """Escapes, text that runs backwards and lone surrogates neither act nor break the output."""
    shown = show(View((Text("a\x1b[31mb\u202ec\ud800"), Line("\x07", "d\x00"))))
    for form in (shown.html, shown.markdown):
        form.encode()
        assert "a␛[31mb\ufffdc\ufffd" in form
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", form)


def test_colours_follow_the_theme(talk: tuple[Agent, list[Step]]) -> None:
    """No text colour is set and no background covers the page's own: JupyterLab's variables, or a see-through tint."""
    for name, thing in things(talk).items():
        for style in show(thing).styles:
            key, _, value = style.partition(":")
            assert key != "color", name
            if key == "background":
                assert value.startswith("var(--jp-") or re.fullmatch(r"rgba\([\d,]+,\.\d+\)", value), (name, style)


def test_a_block_shows_its_value_and_how_full_it_is(vault: Vault) -> None:
    """Label, description, value, used and limit are there, and the bar is as long as the used share."""
    shown = show(Block("human", "Who I talk to.", 200, True, "Name: Ana.\nSings.", ("over there",)))
    for text in ("human (read-only)", "Who I talk to.", "Name: Ana.\nSings.", "17 of 200 characters", "over there"):
        assert text in shown.tree.text
        assert text in shown.markdown
    assert "width:8.5%" in shown.styles


def test_a_bar_never_leaves_its_frame() -> None:
    """A value over its limit fills the bar and no more."""
    shown = show(Block("human", "", 10, False, "x" * 25))
    assert "width:100.0%" in shown.styles
    assert "25 of 10 characters" in shown.tree.text


def test_a_change_shows_who_why_and_a_coloured_diff(make_agent: MakeAgent) -> None:
    """Lines that came are green, lines that went are red, even where they look like the head of a diff."""
    agent = make_agent(files=block("human", "-- old\n+ same"))
    _, change = agent.call("core_memory_replace", {"label": "human", "old_content": "-- old", "new_content": "++ new"})
    assert change is not None
    shown = show(change)
    assert f"{change.author}: {change.subject}" in shown.tree.text
    assert change.diff.strip() in shown.tree.text
    assert tint_of("-  -- old", shown.html) == "background:rgba(248,81,73,.22)"
    assert tint_of("+  ++ new", shown.html) == "background:rgba(46,160,67,.22)"
    assert tint_of("--- a/core/human.yaml", shown.html) == tint_of("+++ b/core/human.yaml", shown.html)
    assert "```diff\n--- a/core/human.yaml\n" in shown.markdown


def test_a_line_that_looks_like_the_head_of_a_diff_is_coloured_as_what_it_is() -> None:
    """`-- x` taken away reads `--- x` in a diff; it is still a line that went."""
    html = View((Text("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n--- x\n y\n", diff=True),)).html()
    assert tint_of("--- a/f", html) == "font-weight:bold"
    assert tint_of("--- x", html) == "background:rgba(248,81,73,.22)"


def tint_of(line: str, html: str) -> str:
    """The style of a diff line."""
    return re.findall(rf'<span style="([^"]*)">{re.escape(line)}</span>', html)[0]


def test_a_page_cites_each_hit(make_agent: MakeAgent) -> None:
    """Id, day, source, file, tags and text of every hit are there, and a page past the end says so."""
    agent = make_agent()
    for animal in ("dog", "cat", "owl"):
        agent.call("archival_memory_insert", {"content": f"The {animal} sleeps.", "tags": ["pets"]})
    page = agent.archival.search("sleeps", page=7, size=2)
    shown = show(page)
    for form in (shown.tree.text, shown.markdown):
        assert "3 found, page 2 of 2 (there is no page 7), for" in form
        (hit,) = page.hits
        assert f"[{hit.id}], {hit.date:%Y-%m-%d}, {hit.source}, {hit.path}, #pets" in form
        assert hit.text in form
    assert "nothing found for" in show(agent.archival.search("zebra")).tree.text


def test_a_long_text_is_cut_and_says_how_long_it_is(make_agent: MakeAgent) -> None:
    """A notebook keeps what it shows, so a huge note does not go into it whole."""
    agent = make_agent()
    agent.call("archival_memory_insert", {"content": "sleep " * 20_000})
    for thing in (agent.archival.search("sleep"), changes_of(agent.vault)[0]):
        shown = show(thing)
        assert len(shown.html) < 25_000 and len(shown.markdown) < 25_000
        assert re.search(r"\.\.\. \(12\d{4} characters in all\)", shown.tree.text)


def test_a_step_shows_call_thought_result_diff_and_what_the_model_saw(make_agent: MakeAgent) -> None:
    """All that a step holds can be read in one place; the prompts are folded away."""
    thought = {"known": "Nothing yet.", "missing": "saving a fact"}
    agent = make_agent([call("core_memory_append", **thought, label="human", content="Ana sings.")])
    step = agent.step("My name is Ana and I sing.")
    shown = show(step)
    tokens = step.tokens()
    for form in (shown.tree.text, shown.markdown.replace("\\", "")):
        assert 'core_memory_append (label="human", content="Ana sings.")' in form.replace("** `", " ").replace("`", "")
        assert "Nothing yet." in form and "saving a fact" in form and "human saved" in form
        assert "+  Ana sings." in form and "core/human.yaml +2 -1" in form
        assert (
            f"{tokens['prompt']} prompt tokens, {tokens['reused']} of them reused, {tokens['generated']} written"
            in form
        )
        assert "the turn goes on" in form
    assert step.prompt.regions[0].text in shown.tree.text
    assert shown.html.index("<details>") < shown.html.index("# Functions")


def test_a_refused_call_and_the_end_of_a_turn_say_so(make_agent: MakeAgent) -> None:
    """A step that failed shows what the model was told; the last one shows why the turn ends."""
    agent = make_agent(["no call at all"] * 9)
    first, *_, last = agent.run("Hello there.")
    assert "no call" in show(first).tree.text
    assert f"refused: {first.result.text}" in show(first).tree.text
    assert f"the turn ends: {last.ended}" in show(last).tree.text


def test_the_same_script_gives_the_same_picture(make_agent: MakeAgent) -> None:
    """No wall time, random id or folder gets into what a step shows, or into the history behind it."""
    pictures = []
    for _ in range(2):
        agent = make_agent([call("core_memory_append", label="human", content="Name: Ana."), '{"message": "Hello!"}'])
        steps = list(agent.run("My name is Ana."))
        pictures.append([[step._repr_html_(), repr(step)] for step in steps] + [agent.vault.history.head])
    assert pictures[0] == pictures[1]


def test_a_prompt_shows_its_regions_in_order(talk: tuple[Agent, list[Step]]) -> None:
    """Every region that has a text is a fold with its name, its size and the text; the bar adds them up."""
    prompt = talk[0].prompt()
    regions = [region for region in prompt.regions if region.text]
    shown = show(prompt)
    found = re.findall(r"<summary>(.*?)</summary>", shown.html)
    assert found == [f"{region.name}, {len(region.text)} characters" for region in regions]
    assert all(region.text.replace("\r", "") in shown.tree.text for region in regions)
    assert f"prompt {sum(len(region.text) for region in regions)} characters" in shown.tree.text


def test_the_window_adds_up_and_marks_alert_and_flush(make_agent: MakeAgent) -> None:
    """The regions are as many tokens as the prompt, and the marks stand where the queue manager acts."""
    agent = make_agent(window=1000)  # 250 of them reserved for the reply
    window = Window(agent)
    assert sum(tokens for _, tokens in window.regions) == window.used == agent.model.count(agent.prompt().turns)
    assert (window.size, window.full, window.alert) == (1000, 750, 525)
    shown = show(window)
    for form in (shown.tree.text, shown.markdown):
        assert f"{window.used} of 1000 tokens" in form and "alert 525" in form and "flush 750" in form
    assert "width:52.5%" in shown.styles and "width:22.5%" in shown.styles
    assert f"{window.used} of 1000 tokens: system " in repr(window)


def test_a_bar_can_be_read_without_seeing_it() -> None:
    """A bar is an image with a name and a value in words, and each piece has a title."""
    shown = show(View((Bar("window", (("core", 30), ("queue", 20)), 100, "tokens"),)))
    assert ("role", "img") in shown.tree.attributes
    assert ("aria-label", "window: 50 of 100 tokens") in shown.tree.attributes
    assert ("title", "core: 30 tokens") in shown.tree.attributes
    assert "`[CCCCCCCCCCCCQQQQQQQQ....................]` 50 of 100 tokens (core 30, queue 20)" in shown.markdown


def test_an_agent_shows_its_state_on_one_screen(make_agent: MakeAgent) -> None:
    """Model, turn, window, blocks, counts, summary, newest changes and warnings, and no absolute path."""
    agent = make_agent([call("send_message", message="Hello!")], files={"queue.yaml": "summary: Ana sings.\n"})
    agent.call("archival_memory_insert", {"content": "The dog sleeps."})
    agent.send("Hello there.")
    (agent.vault.root / "core" / "human.yaml").write_text("value: [broken")
    shown = show(agent)
    newest = changes_of(agent.vault)[0]
    for text in (
        "scripted, turn 1, vault vault0",
        "core/persona 13 of 500 characters",
        "archival memory: 1 notes; recall memory: 2 messages",
        "queue: 2 messages in context, 0 evicted",
        "Ana sings.",
        "by hand",
        "warning: core/human.yaml:2:1: ",
    ):
        assert text in shown.tree.text, text
    assert f"{newest.author}: {newest.subject}" in shown.tree.text
    assert str(agent.vault.root) not in shown.html + shown.markdown


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a.prompt(), lambda a: a.core.block("human"), Window])
def test_looking_changes_nothing(make_agent: MakeAgent, view: Callable[[Agent], Any]) -> None:
    """Showing a thing writes no file of memory, no commit and no message."""
    agent = make_agent([call("send_message", message="Hello!")])
    agent.send("Hello there.")
    before, commits = snapshot(agent.vault), len(changes_of(agent.vault))
    show(view(agent))
    assert (snapshot(agent.vault), len(changes_of(agent.vault))) == (before, commits)


def test_an_undo_shows_itself(make_agent: MakeAgent) -> None:
    """What undo returns is a change like any other."""
    agent = make_agent()
    agent.call("core_memory_append", {"label": "human", "content": "Ana."})
    before = memory_of(agent.vault)
    change: Change = undo(agent.vault, ("Ana", "ana@example.org"))
    assert "-  Ana." in show(change).tree.text and "Ana: Undo:" in show(change).tree.text
    assert memory_of(agent.vault) != before
