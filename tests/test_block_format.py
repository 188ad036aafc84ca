"""The block format keeps what a person wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_fs.errors import FormatError
from memory_fs.formats.block import BOM, new_block, parse_block, replace_value

TEMPLATE = """# who I talk to
label: human
description: >-
  What I know: about
  the person.
limit: 2000            # characters
colour: 'blue'         # nobody's key
read_only: false
value: |
  Name: Chad.
  Lives in Porto.

# the end
mood: "fine"
"""
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=80)
LAYOUTS = [
    TEMPLATE,
    TEMPLATE.replace("\n", "\r\n"),
    BOM + TEMPLATE,
    "value: Chad\nlimit: 50\n",
    "value: 'Chad' # a remark\nlimit: 50\n",
    "{label: human, value: Chad, limit: 5}\n",
    "label: human\nvalue:\nlimit: 5\n",
    "label: human\nvalue:",
    "label: human\n",
    "label: human",
    "value: |+\n  Chad\n\n\nlimit: 5\n",
    "value: |2-\n     Chad\nlimit: 5\n",
    "value: > # folded\n    Chad and\n    Biscuit\nlimit: 5\n",
    "value: |   # a remark\n      Chad\nlimit: 5",
    "value: |\n  Chad",
    "",
    "{label: human, limit: 5}\n",
    "{}",
    "  label: human\n  limit: 5\n",
    "limit: 5\nmood: |\n  fine",
    "limit: 5\nmood: |+\n  fine\n\n",
]


@given(TEXT, st.sampled_from(LAYOUTS))
def test_any_value_survives_in_any_layout(value: str, layout: str) -> None:
    """Whatever the file looks like, a value that is written is the value that is read, and other keys stay."""
    written = replace_value(layout, value)
    assert parse_block(written, "human").value == value
    assert parse_block(written, "human").limit == parse_block(layout, "human").limit
    assert written.startswith(BOM) == layout.startswith(BOM)


@given(TEXT)
def test_new_block_holds_its_value(value: str) -> None:
    """A new block file reads back as it was made."""
    block = parse_block(new_block("pets", "Animals: cats & dogs # all", 10**6, value), "pets")
    assert (block.value, block.description, block.limit) == (value, "Animals: cats & dogs # all", 10**6)


def test_all_other_bytes_stay() -> None:
    """A write changes the lines of the value and nothing else: comments, order, quotes, blank lines, line ends."""
    for layout in (TEMPLATE, TEMPLATE.replace("\n", "\r\n"), BOM + TEMPLATE):
        expected = layout.replace("Lives in Porto.", "Lives in Rome.")
        assert replace_value(layout, "Name: Chad.\nLives in Rome.") == expected


def test_writing_the_same_value_changes_nothing() -> None:
    """Replacing a value with itself gives the same bytes, also with a remark behind the bar and a deep indent."""
    for layout in (TEMPLATE, "value: |   # a remark\n      Chad\nlimit: 5\n", "value: |+\n  Chad\n\n\nlimit: 5\n"):
        assert replace_value(layout, parse_block(layout, "human").value) == layout


def test_remark_behind_a_one_line_value_is_kept() -> None:
    """A remark on the line of a plain value does not become part of the value and is not lost."""
    written = replace_value("value: Chad # a remark\nlimit: 50\n", "Name: Chad.\nLives in Rome.")
    assert "# a remark" in written
    assert parse_block(written, "human").value == "Name: Chad.\nLives in Rome."


@pytest.mark.parametrize("scalar", ["42", "yes", "2026-11-29", "1.20", "~x"])
def test_value_that_looks_like_a_number_stays_text(scalar: str) -> None:
    """`value: 42` and `value: 1.20` are the characters that the person typed."""
    assert parse_block(f"value: {scalar}\n", "human").value == scalar


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("label: human\nvalue: [a\nlimit: 5\n", 3),
        ("a: &x 1\n", 1),
        ("a: 1\nb: *x\n", 2),
        ("a: 1\nb: !!python/object/apply:os.system ['true']\n", 2),
        ("limit: many\n", 1),
        ("limit: true\n", 1),
        ("limit: 0\n", 1),
        ("label: a\nread_only: 1\n", 2),
        ("- a\n", 1),
        ("|+", 1),
        ("''", 1),
        ("value: [a, b]\n", 1),
        ("label: a\nvalue: \x07\n", 2),
        ("a: " + "[" * 5000 + "]" * 5000, 1),
    ],
)
def test_broken_file_names_its_line(text: str, line: int) -> None:
    """Broken, active or mistyped YAML is refused with file and line, before anything is built from it."""
    with pytest.raises(FormatError) as caught:
        parse_block(text, "human", "core/human.yaml")
    assert caught.value.line == line
    assert str(caught.value).startswith(f"core/human.yaml:{line}")


def test_over_the_limit_loads_with_a_warning() -> None:
    """A value that a person made longer than the limit is read, and said to be too long."""
    block = parse_block("limit: 3\nvalue: abcd\n", "human")
    assert block.value == "abcd"
    assert "1 over its limit of 3" in block.warnings[0]


def test_lone_surrogate_is_refused() -> None:
    """A text that no file can hold is refused instead of written half."""
    with pytest.raises(FormatError):
        replace_value(TEMPLATE, "\ud800")
