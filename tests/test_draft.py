"""A message while it is written: what was shown stays, what is checked is a sentence, what was unsure is named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_fs.draft import Draft
from memory_fs.llm import Flag, Piece


def lacks(word: str) -> tuple[list[str], Draft, Flag]:
    """A draft in which a sentence with a word lacks something; what it shows, and its flag."""
    shown: list[str] = []
    cancel = Flag()
    return shown, Draft(shown.append, cancel, lambda sentence, unsure, source: word in sentence), cancel


def test_each_sentence_is_shown_when_it_was_checked() -> None:
    """Nothing of a sentence is shown before its end; the last one ends with the draft."""
    shown, draft, _ = lacks("nothing like this")
    for piece in ("It is ", "Biscuit. ", "He is", " old."):
        draft.add(Piece(piece))
    assert shown == ["It is Biscuit. "]
    draft.end()
    assert "".join(shown) == "It is Biscuit. He is old." == draft.shown


def test_draft_stops_at_the_sentence_that_lacks_something() -> None:
    """The model is told to end, that sentence and all that follows is not shown, what was shown before it stays."""
    shown, draft, cancel = lacks("Rex")
    for piece in ("A dog. ", "It is Rex. ", "Rex is old. "):
        draft.add(Piece(piece))
    assert shown == ["A dog. "] and draft.shown == "A dog. "
    assert draft.stopped and cancel.is_set()


def test_next_draft_goes_on_where_the_one_before_stopped() -> None:
    """What was shown of the draft before is not shown again, also where the pieces are cut elsewhere."""
    shown: list[str] = []
    draft = Draft(shown.append, Flag(), lambda sentence, unsure, source: False, "A dog. ")
    for piece in ("A d", "og. It is", " Biscuit. "):
        draft.add(Piece(piece))
    draft.end()
    assert "".join(shown) == "It is Biscuit. "


def test_without_a_check_each_piece_is_shown_at_once() -> None:
    """An answer that needs no look-up comes as it is written."""
    shown: list[str] = []
    draft = Draft(shown.append, Flag())
    draft.add(Piece("Hel"))
    draft.add(Piece("lo"))
    assert shown == ["Hel", "lo"] and draft.watched
    assert not Draft(None, Flag()).watched


def test_check_sees_the_sentence_its_unsure_words_and_its_source() -> None:
    """A word counts as unsure when one of its tokens was unlikely, and only that word."""
    asked: list[tuple[str, list[str], str]] = []

    def check(sentence: str, unsure: list[str], source: str) -> bool:
        asked.append((sentence, unsure, source))
        return False

    draft = Draft(None, Flag(), check)
    draft.begin("all that there is")
    for text, likely in (("It is ", 1.0), ("Bis", 0.9), ("cuit", 0.2), (" there. ", 0.95), ("Bye", 0.1)):
        draft.add(Piece(text, likely))
    draft.end()
    assert asked == [("It is Biscuit there. ", ["Biscuit"], "all that there is"), ("Bye", ["Bye"], "all that there is")]


@given(st.lists(st.text("ab .!\n。", min_size=1, max_size=6), max_size=12), st.data())
def test_what_was_shown_is_never_taken_back(pieces: list[str], data: st.DataObject) -> None:
    """Whatever is taken back, and however often: all that was shown is the beginning of the last draft."""
    text = "".join(pieces)
    shown: list[str] = []
    before = ""
    for _ in range(data.draw(st.integers(1, 4))):
        refused = data.draw(st.integers(0, 4))
        seen = iter(range(100))
        draft = Draft(shown.append, Flag(), lambda *_, seen=seen, refused=refused: next(seen) == refused, before)
        for piece in pieces:
            draft.add(Piece(piece))
        if not draft.stopped:
            draft.end()
        assert draft.shown == "".join(shown)
        assert text.startswith(draft.shown)
        before = draft.shown
        if not draft.stopped:
            assert before == text
            break
