"""What counts as a word, and how a query is read."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_fs.analysis import (
    MAX_PARTS,
    MAX_PHRASE,
    MAX_TOKEN,
    STOP_WORDS,
    Part,
    Query,
    normalise,
    parse,
    postings,
    tag_form,
    tokens,
)

ANY_TEXT = st.text(st.characters())  # lone surrogates, NUL and unassigned characters included


def words(query: str) -> list[tuple[str, ...]]:
    """The tokens of the parts that rank."""
    return [part.tokens for part in parse(query).any]


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "CAFE"),
        ("naïve", "naive"),
        ("Straße", "STRASSE"),
        ("Ünïcode", "unicode"),
        ("ﬁne", "fine"),
        ("ＡＢＣ１２", "abc12"),
        ("Łódź", "lodz"),
        ("Øresund", "oresund"),
        ("Ёлка", "елка"),
        ("ΌΣΟΣ", "οσος"),
        ("İstanbul", "istanbul"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("мой", "мои"),
        ("סֵפֶר", "ספר"),
        ("كِتَاب", "كتاب"),
        ("می‌خواهم", "میخواهم"),
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_spelling_variants_are_the_same_word(one: str, other: str) -> None:
    """Case, accents, width, ligatures, vowel points and invisible joiners make no difference."""
    assert tokens(one) == tokens(other)
    assert tokens(one)


@pytest.mark.parametrize(("one", "other"), [("が", "か"), ("パン", "ハン"), ("कि", "क"), ("ไม้", "ไม")])
def test_marks_that_make_another_letter_are_kept(one: str, other: str) -> None:
    """Kana voicing marks, Indic vowel signs and Thai tones are no accents."""
    assert tokens(one) != tokens(other)


@given(ANY_TEXT)
def test_composed_and_decomposed_text_have_the_same_tokens(text: str) -> None:
    """NFC and NFD of any text match each other."""
    assert tokens(unicodedata.normalize("NFC", text)) == tokens(unicodedata.normalize("NFD", text))


@given(ANY_TEXT)
def test_tokens_are_whole_words_of_bounded_length(text: str) -> None:
    """Whatever the text, tokens hold no space, no control character and no surrogate, and are not too long."""
    for token in tokens(text):
        assert 0 < len(token) <= MAX_TOKEN
        assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zs") for char in token)


@given(ANY_TEXT)
def test_tokens_are_stable(text: str) -> None:
    """Tokens are their own tokens, so an index and a query cannot drift apart."""
    assert tokens(" ".join(tokens(text))) == tokens(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我用Python写代码。", ["我", "用", "python", "写", "代", "码"]),
        ("パソコン", ["パ", "ソ", "コ", "ン"]),
        ("한국어를", ["한", "국", "어", "를"]),
        ("C++, C# and F#.", ["c++", "c#", "and", "f#"]),
        ("a+b c++11 ## #pets", ["a", "b", "c", "11", "pets"]),
        ("1.2.10", ["1", "2", "10"]),
        ("a.b@c.org", ["a", "b", "c", "org"]),
        ("/etc/host_name", ["etc", "host", "name"]),
        ("👍🏽 ❤️ 👩‍👧", ["👍", "❤", "👩", "👧"]),
        ("**bold** | `code`", ["bold", "code"]),
        ("a\0b\ud800c", ["a", "b", "c"]),
        ("?! ... —", []),
    ],
)
def test_tokens_of_mixed_text(text: str, expected: list[str]) -> None:
    """Words, characters of scripts without spaces, symbols and programming languages come apart as they should."""
    assert tokens(text) == expected


def test_a_word_longer_than_a_token_is_cut_into_pieces() -> None:
    """Nothing of a very long word is lost."""
    assert "".join(tokens("x" * 1000 + "y")) == "x" * 1000 + "y"


@given(ANY_TEXT)
def test_normalised_text_is_stable(text: str) -> None:
    """Folding twice changes nothing more than folding once."""
    assert normalise(normalise(text)) == normalise(text)


def test_tags_compare_without_case_accents_and_extra_spaces() -> None:
    """A tag is found however it is typed."""
    assert tag_form("  Café  au lait ") == tag_form("CAFE\u0301 au  LAIT") == "cafe au lait"


# --- queries ---------------------------------------------------------------------------------------------------------


def test_a_question_is_read_as_its_topical_words() -> None:
    """Stop words do not rank when there are others; the possessive s is no word."""
    assert words("What is my dog's name?") == [("dog",), ("name",)]


def test_a_query_of_stop_words_is_looked_up_as_it_is() -> None:
    """Nothing is dropped when nothing else would be left."""
    assert words("the who") == [("the",), ("who",)]
    assert words("I") == [("i",)]


def test_quoted_words_are_required_in_a_row() -> None:
    """Straight and curly quotes make a phrase; a minus before it excludes it."""
    assert parse('"golden retriever" cat').required == (Part(("golden", "retriever")),)
    assert parse("“golden retriever”").required == (Part(("golden", "retriever")),)
    assert parse('-"black dog" cat') == Query((Part(("cat",)),), (), (Part(("black", "dog")),))


def test_a_minus_before_a_word_excludes_it() -> None:
    """Only a single minus at the start of a word counts."""
    assert parse("cat -dog").excluded == (Part(("dog",)),)
    assert parse("cat --dog - well-known").excluded == ()


@pytest.mark.parametrize("query", ['"open end', 'the 12" and the 7" disc', 'say"hi"now', '"', '""', '" "'])
def test_unbalanced_quotes_are_no_phrase(query: str) -> None:
    """A quote without its twin, and inch marks, are punctuation."""
    assert parse(query).required == ()


@pytest.mark.parametrize("query", ["NOT OR x", "*:*", "a:b AND c", "x~2 y^3 [a TO b]", "(((", "te?t*", "title:x"])
def test_no_query_syntax_but_our_own(query: str) -> None:
    """Operators, wildcards and fields of other query languages are plain words."""
    read = parse(query)
    assert read.required == () and read.excluded == ()
    asked = [token for part in read.any for token in part.tokens]
    assert [token for token in asked if token not in STOP_WORDS] == [
        token for token in tokens(query) if token not in STOP_WORDS
    ]


def test_tags_are_required_or_wanted() -> None:
    """`tag:x` is a filter, `#x` an alternative to the word, and a minus excludes either."""
    assert parse("tag:Pets").required == (Part((), tag="pets"),)
    assert parse("#Pets").any == (Part(("pets",), tag="pets"),)
    assert parse("x -tag:a -#b").excluded == (Part((), tag="a"), Part((), tag="b"))
    assert words("#1 C# # tag:") == [("1",), ("c#",), ("tag",)]


def test_dates_are_recognised() -> None:
    """A day or a month, with or without punctuation around it."""
    assert parse("(2026-11-29), 2026-11").any == (
        Part(("2026", "11", "29"), day="2026-11-29"),
        Part(("2026", "11"), day="2026-11"),
    )
    assert parse("1-2026-11-29").any[0].day == ""


@pytest.mark.parametrize(
    "text",
    ["550e8400-e29b-41d4-a716-446655440000", "a.b@example.org", "1.2.10", "/var/log/app2.log", "+351-912-345-678"],
)
def test_joined_words_with_digits_or_an_at_sign_are_literal(text: str) -> None:
    """Identifiers, addresses, versions and paths are looked up as they stand."""
    assert parse(text).any == (Part(tuple(tokens(text)), "exact"),)


def test_joined_words_and_characters_may_come_apart() -> None:
    """A compound is loose, characters without spaces are a run, and scripts are told apart."""
    assert parse("well-known").any == (Part(("well", "known"), "loose"),)
    assert parse("我的狗Rex叫什么").any == (
        Part(("我", "的", "狗"), "run"),
        Part(("rex",)),
        Part(("叫", "什", "么"), "run"),
    )
    assert words("l'homme O'Brien") == [("homme",), ("brien",)]


@given(ANY_TEXT)
def test_any_text_can_be_asked(text: str) -> None:
    """No text raises, and what it asks for is bounded."""
    read = parse(text)
    for part in (*read.any, *read.required, *read.excluded):
        assert part.tokens or part.tag
        assert len(part.tokens) <= MAX_PHRASE


@pytest.mark.parametrize(
    "piece", ["a", "我", '"', "'", "-", "#", "tag:", "1", '"a ', "(-", "\u0301", "a b1 ", "\ud800"]
)
def test_a_huge_query_is_cut(piece: str) -> None:
    """A query of 100,000 characters asks for no more than a long one."""
    read = parse(piece * 100_000)
    assert len(read.any) + len(read.required) + len(read.excluded) <= MAX_PARTS


def test_an_empty_query_asks_for_nothing() -> None:
    """Nothing, spaces, punctuation and exclusions alone are no query."""
    assert not any(map(parse, ("", "  \n", "?!", "-cat")))


# --- postings --------------------------------------------------------------------------------------------------------


def test_postings_keep_places_and_weights() -> None:
    """A word's places are counted over all sections, with a gap between them, and weights add up."""
    found = postings([("dog bites dog", 1.0), ("Dog", 2.0)], ["\x1fmark"])
    assert found["dog"].positions == [0, 2, 5]
    assert found["dog"].weight == 4.0
    assert found["\x1fmark"].weight == 1.0


def test_a_language_is_indexed_with_and_without_its_ending() -> None:
    """`C` finds `C++`, at the same place."""
    found = postings([("use C++ today", 1.0)])
    assert found["c"].positions == found["c++"].positions == [1]


@pytest.mark.parametrize("text", ["o'brien", "o\u2019brien", "o\u02bcbrien", "o`brien"])
def test_every_apostrophe_separates(text: str) -> None:
    """A text and a query are cut at the same places, also at the apostrophe that Unicode calls a letter."""
    assert tokens(text) == ["o", "brien"] and tokens("00\u0149") == ["00", "n"]
    assert [part.tokens for part in parse(text).any] == [("brien",)]
