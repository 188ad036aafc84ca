"""Tokens of prompts: exact, apart, and never markup by accident."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_gguf import tiny_gguf

from memory_fs.llm import Turn, tokens
from memory_fs.llm.chat import CHATML, FAMILIES
from memory_fs.llm.llama import LlamaModel, TokenCounter
from memory_fs.llm.tokens import MUCH, Encoder

TEXTS = {
    "english": "The keeper of the light wrote a line each evening: wind, sea, and which boats had come home.\n",
    "chinese": "灯塔守护人每天晚上写一行字：风、海，还有哪些船回了家。一九九八年的冬天特别冷。\n",
    "code": "def add(a: int, b: int = 12345) -> int:\n    return a + b  # the sum\n\n\tif (x&&y) { z->w(); }\n",
    "emoji": "🐕 woof 👩‍👩‍👧 e\u0301\u200b 😀😀😀 ❤️\n",
    "spaces": "a  b   c\t\td\n\n\n   e \r\n f\u00a0g\u3000h",
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenCounter]:
    """The vocabulary of a tiny model, without its weights."""
    with TokenCounter(tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"), window=512) as counter:
        yield counter


def decoded(counter: TokenCounter, ids: tuple[int, ...] | list[int]) -> bytes:
    """The bytes that tokens stand for."""
    return b"".join(counter.vocab.piece(token) for token in ids)


def test_the_counter_and_the_model_count_the_same(tiny: TokenCounter) -> None:
    """What TokenCounter counts without weights is what the model evaluates."""
    turns = [Turn("system", ("hello", " world")), Turn("user", (TEXTS["chinese"], TEXTS["code"]))]
    with LlamaModel(tiny.path, window=1024, threads=1) as model:
        assert model.complete(turns, max_tokens=1).prompt_tokens == tiny.count(turns) == model.count(turns)


def test_parts_are_tokenized_apart(tiny: TokenCounter) -> None:
    """A part keeps its tokens whatever follows it; joined, the same text would be one token."""
    assert len(tiny.encoder.content("hello")) == 1
    assert len(tiny.encoder.content("hel")) + len(tiny.encoder.content("lo")) > 1
    alone, head = tiny.encoder.encode([Turn("system", ("hel",))])
    both, same = tiny.encoder.encode([Turn("system", ("hel", "lo"))])
    assert head == same
    assert both[:head] == alone[:head]


def test_the_head_is_all_up_to_the_end_of_the_first_part(tiny: TokenCounter) -> None:
    """The head of a prompt is the first turn's marker and its first part."""
    ids, head = tiny.encoder.encode([Turn("system", ("hello", "world")), Turn("user", ("in",))])
    assert decoded(tiny, ids[:head]) == b"system\nhello"


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.text(max_size=8),
            st.sampled_from(["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|odd|>", "<|", "|>", "</s>"]),
        ),
        max_size=8,
    ).map("".join)
)
def test_no_content_becomes_markup(tiny: TokenCounter, text: str) -> None:
    """Whatever a text holds, its tokens hold no control token and no marker, and they stand for the whole text."""
    ids = tiny.encoder.content(text)
    assert not tiny.vocab.control.intersection(ids)
    assert decoded(tiny, ids) == text.encode("utf-8", "replace")


def test_a_marker_that_a_tokenizer_sees_in_plain_text_is_broken_apart(tiny: TokenCounter) -> None:
    """Markers that the vocabulary lists as a user's own, as think tags often are, stay text in contents."""
    thinking = Encoder(tiny.vocab, next(family for family in FAMILIES if family.name == "qwen3"))
    (opened,), (closed,) = (tiny.vocab.tokenize(tag, special=True) for tag in ("<think>", "</think>"))
    assert tiny.vocab.tokenize("a<think>b</think>", special=False).count(opened) == 1
    ids = thinking.content("a<think>b</think></think>c<think>")
    assert opened not in ids
    assert closed not in ids
    assert decoded(tiny, ids) == b"a<think>b</think></think>c<think>"
    prompt = thinking.encode([Turn("user", ("<think></think>",))])[0]
    assert (prompt.count(opened), prompt.count(closed)) == (1, 1)  # the opening's own


def test_many_markers_in_one_text_are_broken_apart(tiny: TokenCounter) -> None:
    """A long message that is nothing but markers stays text."""
    thinking = Encoder(tiny.vocab, next(family for family in FAMILIES if family.name == "qwen3"))
    text = "<think></think><|im_end|>" * 1_000
    ids = thinking.content(text)
    assert not thinking.reserved.intersection(ids)
    assert decoded(tiny, ids) == text.encode()


@pytest.mark.parametrize(("wanted", "family"), [(False, "chatml"), (True, "lfm2")])
def test_a_prompt_has_one_bos_or_none(tmp_path: Path, wanted: bool, family: str) -> None:
    """BOS comes once where the vocabulary or the family wants it, else not at all."""
    chosen = CHATML if family == "chatml" else next(f for f in FAMILIES if f.name == family)
    for add in (False, True):
        with TokenCounter(tiny_gguf(tmp_path / f"{add}.gguf", add_bos=add)) as counter:
            ids = Encoder(counter.vocab, chosen).encode([Turn("user", ("<|endoftext|>hello",))])[0]
            assert counter.vocab.bos is not None
            assert ids.count(counter.vocab.bos) == int(wanted or add)
            assert (ids[0] == counter.vocab.bos) is (wanted or add)


def test_much_text_is_counted_by_the_faster_encoding(tiny: TokenCounter) -> None:
    """After many characters tiktoken takes over, and gives the same tokens; control tokens stay text."""
    encoder = Encoder(tiny.vocab, CHATML)
    texts = [*TEXTS.values(), "hello<|im_end|>world"]
    before = [encoder.content(text) for text in texts]
    assert encoder._ordinary.__name__ == "_by_llama"
    encoder.content("hello world " * (MUCH // 12 + 1))
    assert encoder._ordinary.__qualname__.startswith("_faster")
    encoder.content.cache_clear()
    assert [encoder.content(text) for text in texts] == before


def test_an_encoding_that_differs_is_not_used(tiny: TokenCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where tiktoken's tokens are not llama.cpp's, or the vocabulary is of another kind, llama.cpp goes on."""
    monkeypatch.setitem(tokens.PATTERNS, "qwen2", r"\p{L}|\s|[^\p{L}\s]")
    assert tokens._faster(tiny.vocab) is None
    monkeypatch.delitem(tokens.PATTERNS, "qwen2")
    assert tokens._faster(tiny.vocab) is None
    encoder = Encoder(tiny.vocab, CHATML)
    encoder.content("hello " * (MUCH // 6 + 1))
    assert encoder.content("hello") == tuple(tiny.vocab.tokenize("hello", special=False))


@pytest.mark.parametrize("text", ["a" * 100_000, " " * 100_000, "\n" * 100_000, "金毛" * 50_000, "!" * 100_000])
def test_a_very_long_word_is_counted(tiny: TokenCounter, text: str) -> None:
    """100,000 characters without a break are tokenized, before and after the faster encoding takes over."""
    encoder = Encoder(tiny.vocab, CHATML)
    slow = encoder.content(text)
    encoder._left = 0
    encoder.content("x")
    encoder.content.cache_clear()
    assert encoder.content(text) == slow


# -- the default model's vocabulary -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(default_model_path: Path) -> Iterator[TokenCounter]:
    """The default model's vocabulary, without its weights."""
    with TokenCounter(default_model_path) as counter:
        yield counter


@pytest.mark.model
@pytest.mark.parametrize("kind", TEXTS)
def test_the_default_models_tokens_are_llama_cpps(real: TokenCounter, kind: str) -> None:
    """The faster encoding of the default model gives llama.cpp's tokens on texts of every kind."""
    faster = tokens._faster(real.vocab)
    assert faster is not None
    text = TEXTS[kind] * 50
    assert faster(text) == real.vocab.tokenize(text, special=False)


@pytest.mark.model
def test_the_default_model_is_known(real: TokenCounter) -> None:
    """The default model is a Qwen2.5 with a trained window of 32,768 tokens, and takes no BOS."""
    assert (real.encoder.family.name, real.trained) == ("qwen2.5", 32768)
    ids, head = real.encoder.encode([Turn("system", ("Hello",)), Turn("user", ("Hi",))])
    assert real.vocab.text(ids[0]) == "<|im_start|>"
    assert decoded(real, ids[:head]) == b"system\nHello"
