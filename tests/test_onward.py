"""An answer that gives what the next record is known by goes on to that record."""

from __future__ import annotations

from conftest import MakeAgent, say

from memory_fs.agent import reply_of
from memory_fs.onward import Onward, denies, onward
from memory_fs.records import Hit, PageIn, Paging
from memory_fs.testing import fixed_clock

CHAIN = {
    "archival/a": "Crate KX-4471 went to shelf SH-2093.",
    "archival/b": "Shelf SH-2093 stands in hall HL-7715.",
    "archival/c": "Hall HL-7715 is opened with card CD-3350.",
}
PAGES = [
    PageIn("archival/a", "fault", "KX-4471"),
    PageIn("archival/b", "prefetch", "archival/a"),
    PageIn("archival/c", "prefetch", "archival/b"),
]
QUESTION = "Which card do I need to get to KX-4471?"


def hit(page: str) -> Hit | None:
    """The record on a page of the chain."""
    kind, _, id = page.partition("/")
    text = CHAIN.get(page)
    return Hit(id, f"{page}.md", kind, text, fixed_clock()(), "", (), 1.0) if text else None


def test_the_question_moves_on_to_what_the_answer_names() -> None:
    """An answer at the first record is asked on about the second, one at the second about the third."""
    paging = Paging(1, pages=PAGES)
    assert onward(paging, hit, QUESTION, "It is on shelf SH-2093.") == Onward(
        "Which card do I need to get to SH-2093?", "archival/b"
    )
    moved = "Which card do I need to get to SH-2093?"
    assert onward(paging, hit, moved, "In hall HL-7715.") == Onward(moved.replace("SH-2093", "HL-7715"), "archival/c")


def test_an_answer_that_skips_a_record_moves_on_from_where_it_is() -> None:
    """What was skipped need not be said."""
    found = onward(Paging(1, pages=PAGES), hit, QUESTION, "It is in hall HL-7715.")
    assert found == Onward("Which card do I need to get to HL-7715?", "archival/c")


def test_an_answer_at_the_end_of_a_chain_or_beside_it_is_whole() -> None:
    """The last record's own code ends it; so does an answer that names no record, and a question that names none."""
    paging = Paging(1, pages=PAGES)
    assert onward(paging, hit, QUESTION, "You need card CD-3350.") is None
    assert onward(paging, hit, QUESTION, "It is on SH-2093 in hall HL-7715, card CD-3350.") is None
    assert onward(paging, hit, QUESTION, "I do not know.") is None
    assert onward(paging, hit, "Where is the crate?", "On shelf SH-2093.") is None
    assert onward(Paging(1, pages=PAGES[:1]), hit, QUESTION, "It is on shelf SH-2093.") is None


def test_what_was_left_behind_is_not_shown_again() -> None:
    """Going on from a record, only it and what it led to are in sight."""
    assert Paging(1, pages=PAGES).behind("archival/b") == {"archival/b", "archival/c"}


def test_a_denial_is_told_from_an_answer() -> None:
    """With the record in context, a reply that gives nothing of it denies; one that gives a word of it does not."""
    paging = Paging(1, pages=PAGES)
    assert denies(paging, hit, "What about KX-4471?", "Nothing found.")
    assert not denies(paging, hit, "What about KX-4471?", "It is on a shelf.")
    assert not denies(paging, hit, "What about the weather?", "Nothing found.")


def test_the_agent_goes_on_sentence_by_sentence(make_agent: MakeAgent) -> None:
    """Each answer is asked on; the reply is all of them in order, and each is streamed once."""
    files = {f"{page}.md": f"---\nid: {page[-1]}\n---\n{text}\n" for page, text in CHAIN.items()}
    answers = ["It is on shelf SH-2093.", "That is in hall HL-7715.", "You need card CD-3350."]
    agent, shown = make_agent(map(say, answers), files=files), []
    agent.on_text = shown.append
    *_, last = agent.run(QUESTION)
    assert reply_of(last) == "".join(shown) == " ".join(answers)
    assert len(last.passes) == 3 and CHAIN["archival/a"] not in last.passes[-1].prompt.text


def test_a_denial_is_asked_again_in_the_other_form(make_agent: MakeAgent) -> None:
    """Notes in front of the question instead of behind it; the second answer counts, whatever it says."""
    files = {"archival/a.md": f"---\nid: a\n---\n{CHAIN['archival/a']}\n"}
    agent = make_agent([say("Nothing found."), say("It is on shelf SH-2093.")], files=files)
    *_, last = agent.run("Where is KX-4471?")
    assert reply_of(last) == "It is on shelf SH-2093."
    first, second = (done.prompt.turns[1].content for done in last.passes)
    assert first.startswith("Where is KX-4471?") and second.endswith("Where is KX-4471?")
