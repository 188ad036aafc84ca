"""What the search index finds, in which order, and what it makes of queries."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_fs.analysis import MAX_TOKEN, tokens
from memory_fs.errors import FormatError, VaultError
from memory_fs.index import Document, Hit, Index, Page

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


class Notes:
    """Files in memory, and an index over them."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.index = Index(folder / "index", self.said.append)
        self.files: dict[str, list[Document]] = {}
        self.broken: dict[str, Exception] = {}
        self.loaded: list[str] = []

    def put(self, path: str, *documents: Document) -> None:
        self.files[path] = list(documents)

    def note(self, id: str, text: str, **fields: Any) -> None:
        path = fields.pop("path", f"archival/{id}.md")
        document = Document(id, "archival", path, text, fields.pop("date", NOON), **fields)
        self.put(path, document)

    def load(self, path: str) -> Sequence[Document]:
        self.loaded.append(path)
        if path in self.broken:
            raise self.broken[path]
        return self.files[path]

    def sync(self) -> int:
        digests = {path: repr((documents, self.broken.get(path))) for path, documents in self.files.items()}
        return self.index.sync(digests, self.load)

    def page(self, query: str, kind: str = "archival", **options: Any) -> Page:
        self.sync()
        return self.index.search(kind, query, **options)

    def find(self, query: str, kind: str = "archival", **options: Any) -> list[str]:
        return [hit.id for hit in self.page(query, kind, size=options.pop("size", 1000), **options).hits]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """No files yet, and an index over them."""
    return Notes(tmp_path)


@pytest.fixture
def pets(notes: Notes) -> Notes:
    """A few notes to search in."""
    notes.note("dog", "Chad's golden retriever is called Biscuit.", tags=("pets", "Big Dogs"))
    notes.note("cat", "The black cat Miso sleeps on the golden sofa.", tags=("pets",), date=NOON + timedelta(days=1))
    notes.note("boat", "Biscuit fell off the boat in 2019.", title="Summer by the sea", date=NOON - timedelta(days=40))
    return notes


# --- words -----------------------------------------------------------------------------------------------------------


def test_a_question_finds_what_it_is_about(pets: Notes) -> None:
    """Natural questions work as they stand: any word may match, the best match comes first."""
    assert pets.find("What is the name of Chad's dog, the retriever?")[0] == "dog"
    assert pets.find("is there a black sofa?") == ["cat"]


def test_a_hit_shows_where_it_comes_from(notes: Notes) -> None:
    """A hit carries text, path, citation, tags and the date in UTC."""
    date = datetime(2026, 11, 29, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    notes.note("a1", "x  y\nz", source="notes.pdf, page 3", tags=("b", "a"), date=date, path="archival/2026/n.md")
    (hit,) = notes.page("y").hits
    assert hit == Hit(
        "a1",
        "archival/2026/n.md",
        "archival",
        "x  y\nz",
        datetime(2026, 11, 28, 23, 30, tzinfo=UTC),
        "notes.pdf, page 3",
        ("b", "a"),
        hit.score,
    )
    assert hit.date.utcoffset() == timedelta(0)
    assert hit.score > 0


def test_the_title_is_searched_and_weighs_more(notes: Notes) -> None:
    """A word in the title counts for more than one in the text."""
    notes.note("text", "A note about ships and cargo.", title="Trade")
    notes.note("title", "A note about trade and cargo.", title="Ships")
    assert notes.find("ships") == ["title", "text"]


def test_tags_are_searched_as_words(pets: Notes) -> None:
    """A tag's words find the note."""
    assert set(pets.find("pets")) == {"dog", "cat"}


def test_citations_are_not_searched(notes: Notes) -> None:
    """Where a note comes from is shown, not found."""
    notes.note("a", "plain", source="session seven")
    assert notes.find("session seven") == []


def test_rare_words_rank_before_common_ones_and_short_notes_before_long(notes: Notes) -> None:
    """BM25: rarity and length count."""
    for number in range(5):
        notes.note(f"common{number}", "river water")
    notes.note("rare", "heron water")
    notes.note("long", "heron " + "reeds " * 50)
    assert notes.find("river heron")[0] == "rare"
    assert notes.find("heron") == ["rare", "long"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("a café in town", "CAFE\u0301"),
        ("so naïve", "naive"),
        ("Straße", "STRASSE"),
        ("STRASSE", "straße"),
        ("Ünïcode", "unicode"),
        ("run 550e8400-e29b-41d4-a716-446655440000 now", "550e8400-e29b-41d4-a716-446655440000"),
        ("mail chad.smith+x@example.org", "chad.smith+x@example.org"),
        ("see /var/log/nginx/access.log", "/var/log/nginx/access.log"),
        ("since 1.2.10", "1.2.10"),
        ("C# and .NET", "C#"),
        ("written in C++.", "C++"),
        ("written in C++.", "C"),
        ("party 🎉 time", "🎉"),
        ("ok 👍🏽", "👍"),
        ("the who", "the who"),
        ("I", "I"),
        ("to be or not to be", "to be or not to be"),
        ("plan B", "b"),
        ("7 seas", "7"),
        ("100 € only", "€"),
        ("日本語のテキスト", "テキスト"),
        ("서울에서 만나요", "서울"),
        ("ผมชอบแมวมาก", "แมว"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("x" * 300, "x" * 300),
    ],
)
def test_found_literally(notes: Notes, text: str, query: str) -> None:
    """Spelling variants, identifiers, symbols, single characters and stop words are found."""
    notes.note("it", text)
    notes.note("other", "something else entirely 1.2.1 550e8400 example.org")
    notes.note("nfd", unicodedata.normalize("NFD", text))
    assert set(notes.find(query)) == {"it", "nfd"}


def test_joined_words_are_looked_up_whole_and_only_else_in_pieces(notes: Notes) -> None:
    """`well-known` finds itself; where nothing holds it, its words."""
    notes.note("whole", "a well-known fact")
    notes.note("known", "known by name")
    assert notes.find("well-known") == ["whole"]
    assert notes.find("known-good") == ["known", "whole"]


# --- phrases, exclusions, tags, dates --------------------------------------------------------------------------------


def test_a_phrase_is_required_in_a_row(pets: Notes) -> None:
    """Quoted words must stand next to each other, in order; other words then only rank."""
    assert pets.find('"golden retriever"') == ["dog"]
    assert pets.find('"retriever golden"') == []
    assert pets.find('"biscuit" boat') == ["boat", "dog"]


def test_a_phrase_does_not_reach_from_the_text_into_the_title(notes: Notes) -> None:
    """Text, title and tags are apart from each other."""
    notes.note("a", "the end", title="of days", tags=("gone", "by"))
    assert notes.find('"end of"') == notes.find('"days gone"') == notes.find('"gone by"') == []


def test_a_phrase_of_one_repeated_word_needs_the_repetition(notes: Notes) -> None:
    """`"ha ha"` is not `ha`."""
    notes.note("once", "ha")
    notes.note("twice", "ha ha")
    notes.note("thrice", "ha ha ha")
    assert set(notes.find('"ha ha"')) == {"twice", "thrice"}
    assert notes.find('"ha ha ha"') == ["thrice"]


def test_excluded_words_and_phrases_are_not_found(pets: Notes) -> None:
    """A minus takes away; alone it finds nothing."""
    assert pets.find("biscuit -boat") == ["dog"]
    assert pets.find('golden -"golden sofa"') == ["dog"]
    assert pets.find("-boat") == []


def test_tags_in_the_query(pets: Notes) -> None:
    """`tag:` is a filter, also alone; `#` is one more way to match."""
    assert pets.find("golden tag:PETS") == pets.find("golden")
    assert pets.find("biscuit tag:pets") == ["dog"]
    assert pets.find("tag:pets") == ["cat", "dog"]  # newest first
    assert set(pets.find("#pets boat")) == {"dog", "cat", "boat"}
    assert pets.find("golden -tag:pets") == []
    assert pets.find("tag:none") == []


def test_any_and_all_tags(pets: Notes) -> None:
    """Filters by tag: at least one, or every one."""
    assert pets.find("golden", any_tags=["big dogs", "fish"]) == ["dog"]
    assert pets.find("", any_tags=["pets", "fish"]) == ["cat", "dog"]
    assert pets.find("", all_tags=["pets", "Big  Dogs"]) == ["dog"]
    assert pets.find("", all_tags=["pets", "fish"]) == []


@pytest.mark.parametrize(
    "tag", ["two words", "a/b", "c#", "#hash", "标签", "长" * 200, "Ünï", "a,b;c", "tag:x", "\ud800"]
)
def test_odd_tags_round_trip(notes: Notes, tag: str) -> None:
    """Tags with spaces, slashes, signs, Chinese, 200 characters."""
    notes.note("it", "text", tags=(tag,))
    notes.note("other", "text", tags=("two", "a", "c", "标"))
    assert notes.find("", any_tags=[tag]) == ["it"]
    assert notes.page("", all_tags=[tag]).hits[0].tags == (tag,)


def test_a_date_finds_the_notes_of_that_date(pets: Notes) -> None:
    """A day or a month matches the note's own date as well as its text."""
    pets.note("text", "moved on 2026-11-30", date=NOON - timedelta(days=400))
    assert set(pets.find("2026-11-30")) == {"text", "cat"}
    assert set(pets.find("2026-11")) == {"dog", "cat", "text"}
    assert pets.find("2026-10-20") == ["boat"]


def test_a_note_belongs_to_the_day_of_its_own_zone(notes: Notes) -> None:
    """Half past midnight in Lisbon's summer is that day, though UTC says the day before."""
    notes.note("a", "late", date=datetime(2026, 7, 2, 0, 30, tzinfo=timezone(timedelta(hours=1))))
    assert notes.find("2026-07-02") == ["a"]
    assert notes.find("2026-07-01") == []


def test_words_of_a_date_rank_but_do_not_find(notes: Notes) -> None:
    """`november` prefers notes of November, and finds no note for its date alone."""
    notes.note("may", "the concert", date=datetime(2026, 5, 8, tzinfo=UTC))
    notes.note("november", "the concert", date=datetime(2026, 11, 8, tzinfo=UTC))
    assert notes.find("which concert was in November?") == ["november", "may"]
    assert notes.find("concert in May 2026") == ["may", "november"]
    assert notes.find("november") == []


def test_since_and_until(pets: Notes) -> None:
    """From a moment on, and up to but without another."""
    assert pets.find("golden", since=NOON + timedelta(days=1)) == ["cat"]
    assert pets.find("golden", until=NOON + timedelta(days=1)) == ["dog"]
    assert pets.find("", since=NOON, until=NOON + timedelta(days=1)) == ["dog"]
    assert pets.find("", since=datetime(2026, 11, 30)) == ["cat"]  # a naive moment is UTC


# --- Chinese, Japanese, Korean ---------------------------------------------------------------------------------------


def test_words_inside_running_text_are_found_exactly(notes: Notes) -> None:
    """A word of up to four characters finds all notes that hold it, and no others."""
    notes.note("a", "我养了一只金毛犬，名叫旺财。")
    notes.note("b", "犬毛是金色的，财运旺。")
    notes.note("c", "한국어를 배우고 있어요. 東京タワーに行きました。")
    assert notes.find("金毛犬") == notes.find("旺财") == notes.find("只金毛犬") == ["a"]
    assert set(notes.find("毛")) == {"a", "b"}
    assert notes.find("타워") == []
    for word in ("한국어", "배우", "東京タワー", "タワー", "行きました", "東"):
        assert notes.find(word) == ["c"], word


def test_a_sentence_without_spaces_finds_by_its_parts(notes: Notes) -> None:
    """A question in one run of characters finds the note that shares words with it, an exact match first."""
    notes.note("dog", "我养了一只狗，名字叫旺财。")
    notes.note("home", "我们住在杭州。")
    notes.note("echo", "她问：我的狗叫什么名字？")
    assert notes.find("我的狗叫什么名字")[:2] == ["echo", "dog"]
    assert notes.find("你的狗有名字吗？")[0] in ("dog", "echo")


def test_a_short_run_that_nothing_holds_falls_back_to_pairs(notes: Notes) -> None:
    """Three or four characters are looked up whole, and else by their pairs; two stay two."""
    notes.note("a", "金毛很可爱")
    notes.note("b", "毛衣")
    assert notes.find("金毛犬") == ["a"]
    assert notes.find("毛犬") == []


def test_mixed_scripts(notes: Notes) -> None:
    """Latin words inside Chinese text, and the other way round."""
    notes.note("a", "我用Python写代码")
    notes.note("b", "我用Rust写代码")
    assert notes.find("python") == ["a"]
    assert notes.find("Python代码") == ["a", "b"]
    assert notes.find('"用Python写"') == ["a"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text("金毛犬狗", min_size=1, max_size=12), min_size=1, max_size=8),
    st.text("金毛犬狗", min_size=1, max_size=4),
)
def test_words_without_spaces_agree_with_a_substring_scan(texts: list[str], word: str) -> None:
    """Recall and precision are those of a scan; only what is nowhere may be found in pieces."""
    with TemporaryDirectory() as folder:
        notes = Notes(Path(folder))
        for number, text in enumerate(texts):
            notes.note(str(number), text)
        truth = {str(number) for number, text in enumerate(texts) if word in text}
        found = set(notes.find(word))
        assert found == truth if truth or len(word) < 3 else not truth
        assert set(notes.find(f'"{word}"')) == truth


ALPHABETS = [
    st.characters(categories=["L", "Nd"]),
    st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF),
    st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3),
    st.characters(min_codepoint=0x3041, max_codepoint=0x30FA, categories=["L"]),
    st.sampled_from("😀🎉👍🏽❤️🇵🇹👩‍👧🐕"),
]


@settings(max_examples=60, deadline=None)
@given(
    st.one_of([st.lists(st.text(alphabet, min_size=1, max_size=8), min_size=1, max_size=8) for alphabet in ALPHABETS])
)
def test_every_word_of_a_note_finds_it(words: list[str]) -> None:
    """Letters, Chinese, Korean, kana or emoji: each word and any two in a row, composed or not."""
    with TemporaryDirectory() as folder:
        notes = Notes(Path(folder))
        notes.note("it", " ".join(words))
        notes.note("other", "nothing to see here")
        notes.sync()
        row = f'"{" ".join(words[:2])}"'
        for query in (text for text in (*words, row) if tokens(text)):
            for form in ("NFC", "NFD"):
                found = notes.index.search("archival", unicodedata.normalize(form, query))
                assert "it" in [hit.id for hit in found.hits]
        assert notes.said[1:] == []


# --- queries are data ------------------------------------------------------------------------------------------------


FOREIGN = ["NOT OR x", "*:*", "*", "a:b", "x AND", "NOT", "[1 TO 2]", "b*", "?", "archival:dog", "id:dog"]
MARKS = ["\x1f*", "\x1f=otter", "\x1f~november", "\x1f~29"]
SCRAPS = ["", "   ", "\n", "?!", '"', '"a', '("', "\0", "\ud800"]
HUGE = ["x" * 100_000, "我" * 100_000, '"a ' * 30_000, "a-" * 50_000]


@pytest.mark.parametrize("query", [*FOREIGN, *MARKS, *SCRAPS, *HUGE])
def test_no_text_is_an_error_or_an_operator(pets: Notes, query: str) -> None:
    """Syntax of other query languages, our own marks, huge and broken texts find nothing that they do not name."""
    pets.note("otter", "It swims.")
    assert pets.find(query) == []
    assert len(pets.said) == 1


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters()) | st.text("\"-#:tag 我狗ab1'", max_size=40))
def test_any_text_can_be_searched(query: str) -> None:
    """No text raises or makes the index rebuild itself."""
    page = SHARED.page(query)
    assert page.query == query
    assert page.total >= len(page.hits)
    assert SHARED.said[1:] == []


@pytest.fixture(scope="module", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    global SHARED
    SHARED = Notes(tmp_path_factory.mktemp("shared"))
    for number, text in enumerate(["a dog", "我的狗", "b 1.2 #tag", "a-b a:b", "'\""]):
        SHARED.note(str(number), text, tags=("a", "我"))
    yield


SHARED: Notes


@pytest.mark.parametrize(
    "text", ["\0", "\ud800 lone", "a\r\nb", "\x1f*", "\u202e", "", "x" * 200_000, "我" * 20_000, "word " * 50_000]
)
def test_any_text_can_be_indexed(notes: Notes, text: str) -> None:
    """Whatever a note holds, it comes back as it is, and its neighbours are found."""
    notes.note("it\ud800\0", text, path="archival/\udcff.md", title="marker")
    notes.note("other", "neighbour")
    assert notes.page("marker").hits[0].text == text
    assert notes.find("neighbour") == ["other"]
    assert notes.index.get("archival", "it\ud800\0") is not None
    assert notes.said[1:] == []


def test_an_unknown_kind_is_an_error(notes: Notes) -> None:
    """There are two kinds of records."""
    for call in (
        notes.index.count,
        lambda kind: notes.index.get(kind, "x"),
        lambda kind: notes.index.search(kind, "x"),
    ):
        with pytest.raises(ValueError, match="no kind of record"):
            call("core")


# --- pages -----------------------------------------------------------------------------------------------------------


def test_eleven_hits_make_pages_of_five_five_and_one(notes: Notes) -> None:
    """Totals are constant, nothing repeats, equals come newest first and then by id."""
    for number in range(11):
        notes.note(f"n{number:02}", "the same words", date=NOON + timedelta(days=number // 2))
    pages = [notes.page("same words", page=page) for page in (1, 2, 3)]
    assert [len(page.hits) for page in pages] == [5, 5, 1]
    assert {(page.total, page.pages) for page in pages} == {(11, 3)}
    order = [hit.id for page in pages for hit in page.hits]
    assert order == ["n10", "n08", "n09", "n06", "n07", "n04", "n05", "n02", "n03", "n00", "n01"]
    assert order == notes.find("same words") == notes.find("same words")


@pytest.mark.parametrize(("asked", "shown"), [(9, 3), (3, 3), (0, 1), (-4, 1), (10**9, 3)])
def test_a_page_that_does_not_exist(notes: Notes, asked: int, shown: int) -> None:
    """Past the end comes the last page, before the start the first; the page says what was asked."""
    for number in range(11):
        notes.note(str(number), "word")
    page = notes.page("word", page=asked)
    assert (page.asked, page.page, page.pages) == (asked, shown, 3)
    assert page.hits


def test_nothing_found_is_an_empty_page(notes: Notes) -> None:
    """On an empty index, for an empty query, or for an unknown word."""
    assert notes.page("x") == Page("x", 1, 1, 0, (), 1)
    notes.note("a", "b")
    assert notes.page("") == Page("", 1, 1, 0, (), 1)
    assert notes.page("zzz", page=7) == Page("zzz", 1, 1, 0, (), 7)


def test_order_does_not_depend_on_how_the_notes_came(tmp_path: Path) -> None:
    """One by one or all at once, the same query gives the same list."""
    one, other = Notes(tmp_path / "a"), Notes(tmp_path / "b")
    for number in range(60):
        for notes in (one, other):
            path = f"archival/{number * 37 % 60}.md"
            notes.note(f"n{number % 40:02}", f"word {'filler ' * (number % 4)}", path=path)
        one.note("passing", "gone " * number, path=f"archival/x{number % 3}.md")
        one.sync()
    for number in range(3):
        del one.files[f"archival/x{number}.md"]
    assert one.page("word filler", size=99) == other.page("word filler", size=99)


# --- kinds -----------------------------------------------------------------------------------------------------------


def message(id: str, text: str, role: str = "user") -> Document:
    """One message of a day."""
    return Document(id, "recall", "recall/2026/11/2026-11-29.md", text, NOON, role=role)


def test_kinds_are_apart(notes: Notes) -> None:
    """A search of one kind sees, counts and ranks by that kind only."""
    notes.note("n", "heron")
    notes.put("recall/2026/11/2026-11-29.md", *(message(str(number), "heron") for number in range(9)))
    assert notes.find("heron") == ["n"]
    assert len(notes.find("heron", "recall")) == 9
    assert (notes.index.count("archival"), notes.index.count("recall")) == (1, 9)
    alone = Notes(notes.index._folder.parent / "alone")
    alone.note("n", "heron")
    assert alone.page("heron").hits[0].score == notes.page("heron").hits[0].score


def test_the_speaker_is_searched_the_envelope_is_not(notes: Notes) -> None:
    """A name finds what was said under it; user, assistant and the time of day find nothing."""
    notes.put(
        "recall/2026/11/2026-11-29.md",
        message("1", "hello", "Caroline"),
        message("2", "hi"),
        message("3", "ho", "assistant"),
    )
    assert notes.find("caroline", "recall") == ["1"]
    for word in ("user", "assistant", "recall", "12:00", "role", "time"):
        assert notes.find(word, "recall") == []


def test_only_new_and_changed_messages_of_a_day_are_written(notes: Notes) -> None:
    """One more message and one edit in a day of hundreds write two records, not hundreds."""
    day = [message(str(number), f"message {number}") for number in range(300)]
    notes.put("recall/2026/11/2026-11-29.md", *day)
    notes.sync()
    before = written(notes.index)
    day[7] = replace(day[7], text="changed seven")
    notes.put("recall/2026/11/2026-11-29.md", *day, message("new", "message new"))
    assert notes.sync() == 1
    assert written(notes.index) == before + 2
    assert notes.find("seven", "recall") == ["7"]
    assert notes.index.count("recall") == 301


def written(index: Index) -> int:
    """Records in all segments, deleted ones included."""
    shelf = index._shelf
    assert shelf is not None
    return int(shelf.searcher.reader().doc_count_all())


# --- never stale -----------------------------------------------------------------------------------------------------


def test_a_changed_note_is_found_by_its_new_text_only(pets: Notes) -> None:
    """Insert, edit and delete count at the next sync; nothing else is read again."""
    pets.sync()
    pets.loaded.clear()
    pets.note("dog", "The poodle is called Crumb.")
    assert pets.find("poodle") == ["dog"]
    assert pets.find("retriever") == []
    assert pets.loaded == ["archival/dog.md"]
    del pets.files["archival/dog.md"]
    assert pets.sync() == 1
    assert pets.find("poodle") == []
    assert pets.index.get("archival", "dog") is None
    assert pets.sync() == 0


def test_metadata_counts_as_a_change(pets: Notes) -> None:
    """Tags, date, title and source are part of a note."""
    pets.sync()
    pets.note(
        "dog", "Chad's golden retriever is called Biscuit.", tags=("fish",), source="s", date=NOON + timedelta(days=9)
    )
    assert pets.find("tag:fish") == ["dog"]
    assert pets.find("tag:pets") == ["cat"]
    assert pets.page("retriever").hits[0].source == "s"


def test_a_moved_note_is_one_note(pets: Notes) -> None:
    """Another path, the same id: found once, under the new path."""
    pets.sync()
    (document,) = pets.files.pop("archival/dog.md")
    pets.put("archival/old/dog.md", replace(document, path="archival/old/dog.md"))
    assert pets.sync() == 2
    assert [hit.path for hit in pets.page("retriever").hits] == ["archival/old/dog.md"]
    assert pets.index.count("archival") == 3


def test_a_whole_folder_renamed(notes: Notes) -> None:
    """Many moves at once leave as many notes, each once."""
    for number in range(40):
        notes.note(str(number), f"word w{number}", path=f"archival/a/{number}.md")
    notes.sync()
    notes.files = {
        path.replace("/a/", "/b/"): [replace(d, path=d.path.replace("/a/", "/b/")) for d in ds]
        for path, ds in notes.files.items()
    }
    assert notes.sync() == 80
    assert len(notes.find("word")) == 40
    assert {hit.path.split("/")[1] for hit in notes.page("word", size=99).hits} == {"b"}


def test_two_files_with_one_id_are_both_found(notes: Notes) -> None:
    """A copied note hides neither copy; either can change alone."""
    notes.note("same", "first copy", path="archival/a.md")
    notes.note("same", "second copy", path="archival/b.md")
    assert len(notes.find("copy")) == 2
    notes.note("same", "third", path="archival/b.md")
    assert notes.find("copy") == ["same"]
    assert notes.index.get("archival", "same") == replace(notes.page("first").hits[0], score=0.0)
    notes.put("archival/c.md", *(Document("twin", "archival", "archival/c.md", text, NOON) for text in ("one", "two")))
    assert notes.find("one") == notes.find("two") == ["twin"]
    notes.put("archival/c.md", Document("twin", "archival", "archival/c.md", "two", NOON))
    assert (notes.find("one"), notes.find("two")) == ([], ["twin"])


def test_many_edits_leave_one_of_each_note(notes: Notes) -> None:
    """After hundreds of single edits, in many segments, every note is found once, by its newest text."""
    for number in range(20):
        notes.note(str(number), f"start s{number}")
    for step in range(150):
        notes.note(str(step % 20), f"word v{step}")
        notes.sync()
    assert notes.find("start") == []
    assert len(notes.find("word")) == 20
    for step in range(150):
        assert notes.find(f"v{step}") == ([str(step % 20)] if step >= 130 else [])
    assert notes.index.count("archival") == 20


def test_a_broken_file_hides_no_neighbour(pets: Notes) -> None:
    """A file that cannot be parsed loses its old record, is not asked again until it changes, and stops nothing."""
    pets.sync()
    pets.broken["archival/dog.md"] = FormatError("tab in front matter", line=3)
    pets.note("new", "fresh note")
    assert pets.sync() == 2
    assert pets.find("retriever") == []
    assert pets.find("fresh") == ["new"]
    pets.loaded.clear()
    assert pets.sync() == 0 and pets.loaded == []
    pets.broken.clear()
    assert pets.find("retriever") == ["dog"]


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), PermissionError("no"), VaultError("no")])
def test_a_file_that_cannot_be_read_is_asked_again(pets: Notes, error: Exception) -> None:
    """Gone between listing and reading, or locked just now: no record, no failure, another try."""
    pets.broken["archival/dog.md"] = error
    assert set(pets.find("golden")) == {"cat"}
    pets.broken.clear()
    assert set(pets.find("golden")) == {"cat", "dog"}
    assert len(pets.said) == 1


def test_a_mistake_in_the_loader_is_not_swallowed(pets: Notes) -> None:
    """An unexpected error reaches the caller; what was indexed before stays."""
    pets.sync()
    pets.broken["archival/bad.md"] = RuntimeError("bug")
    pets.note("bad", "x")
    with pytest.raises(RuntimeError, match="bug"):
        pets.sync()
    assert pets.index.search("archival", "retriever").total == 1


def test_progress_counts_the_changed_files(pets: Notes) -> None:
    """A caller can show how far a first index is."""
    seen: list[tuple[int, int]] = []
    pets.index.sync(dict.fromkeys(pets.files, "1"), pets.load, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_look_up_by_id_and_by_text(pets: Notes) -> None:
    """One record by its exact id, or by its exact text."""
    pets.sync()
    assert pets.index.get("archival", "dog") == replace(pets.page("retriever").hits[0], score=0.0)
    assert pets.index.get("archival", "do") is None and pets.index.get("recall", "dog") is None
    found = pets.index.find_text("archival", "Biscuit fell off the boat in 2019.")
    assert found is not None and found.id == "boat"
    assert pets.index.find_text("archival", "Biscuit fell off the boat in 2019") is None
    assert pets.index.find_text("archival", "?") is None


def test_dates_at_the_ends_of_the_calendar(notes: Notes) -> None:
    """Years 1 and 9999, naive dates and odd zones are no trouble."""
    far = timezone(timedelta(hours=14))
    for number, date in enumerate(
        [
            datetime.min,
            datetime.max,
            datetime.min.replace(tzinfo=far),
            datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
        ]
    ):
        notes.note(str(number), "word", date=date)
    assert len(notes.page("word").hits) == 4
    for _ in range(12):  # until they are written again, together
        notes.note(f"more{_}", "other")
        notes.sync()
    assert len(notes.page("word").hits) == 4
    assert notes.said[1:] == []


def test_a_record_longer_than_any_token_limit(notes: Notes) -> None:
    """Every piece of a very long word stays findable in place."""
    word = "".join(chr(97 + number % 26) for number in range(MAX_TOKEN * 3 + 5))
    notes.note("it", f"before {word} after")
    notes.note("other", word[:MAX_TOKEN])
    assert notes.find(word) == ["it"]
    assert notes.find(f'"{word} after"') == ["it"]


def test_the_index_shows_what_it_holds(pets: Notes) -> None:
    """Its repr counts the records."""
    pets.sync()
    assert repr(pets.index) == "Index(3 archival, 0 recall)"


# --- word forms and neighbours ---------------------------------------------------------------------------------------


def test_forms_of_a_word_find_each_other_and_the_word_itself_comes_first(notes: Notes) -> None:
    """Plural, -ed, -ing and irregular forms meet, whichever is asked for; the form that was asked for ranks above."""
    for word in ("living", "lives", "lived", "live"):
        notes.note(word, f"Chad {word} there", date=NOON)
    for word in ("live", "lives", "lived", "living"):
        found = notes.find(word)
        assert found[0] == word and len(found) == 4
    notes.note("went", "She went home.")
    assert notes.find("where did she go?") == ["went"]


def test_quoted_and_excluded_words_stay_as_they_are(notes: Notes) -> None:
    """A phrase finds, and an exclusion drops, the very words alone."""
    notes.note("one", "a dog")
    notes.note("many", "some dogs")
    assert notes.find('"dogs"') == ["many"]
    assert notes.find("dog -dogs") == ["one"]


def talk(notes: Notes, *said: str, first: int = 100) -> None:
    """Messages of one day that follow each other; the ids are their numbers."""
    path = f"recall/{first}.md"
    messages = (Document(str(n), "recall", path, text, NOON, place=first + n) for n, text in enumerate(said))
    notes.put(path, *messages)


def test_a_message_takes_a_share_of_its_neighbours(notes: Notes) -> None:
    """Of two equal messages the one beside a better match comes first; what has no word of the query is not found."""
    talk(notes, "Porto is far", "rain", "rain", "rain", "a ferry to the island?", "Porto is far", "rain")
    assert notes.find("ferry island Porto", "recall") == ["4", "5", "0"]


def test_what_is_left_out_lends_nothing(notes: Notes) -> None:
    """A message that filters or exclusions leave out does not lift its neighbours."""
    talk(notes, "Porto is far", "a ferry, blue", "rain", "rain", "rain", "Porto is far")
    scores = {hit.id: hit.score for hit in notes.page("Porto ferry -blue", "recall").hits}
    assert set(scores) == {"0", "5"} and scores["0"] == scores["5"]
