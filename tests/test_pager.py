"""Paging: what memory holds for a question comes in before it is answered, with what it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import MakeAgent, edit_by_hand, prompts_of, say

from memory_fs.agent import Agent, reply_of
from memory_fs.evidence import Evidence
from memory_fs.formats.settings import QueueState
from memory_fs.pager import Pager
from memory_fs.records import Paging
from memory_fs.search import Search
from memory_fs.testing import ScriptedModel, call, make_vault

MakePager = Callable[..., Pager]
CHOSEN = '{"known": "", "missing": "nothing", "function": "send_message"}'  # its message is still to be worded
QUESTION = "When was the boiler of the cottage serviced?"


def note(id: str, text: str) -> dict[str, str]:
    """A note file with an id of its own."""
    head = f"---\nid: {id}\ncreated: 2026-11-20T10:00:00+00:00\ntags: []\n---\n"
    return {f"archival/2026/11/{id}.md": head + text + "\n"}


COTTAGE = note("boiler", "The boiler of the cottage was serviced in October; the bill is [[bill]].")
COTTAGE |= note("bill", "Bill KV-20881: 140 euros, paid by card.")
COTTAGE |= note("card", "The transfer for KV-20881 went out on Friday.")
COTTAGE |= note("pasta", "Boil pasta for nine minutes.")


@pytest.fixture
def make_pager(tmp_path: Path) -> Iterator[MakePager]:
    """Makes pagers, each over a vault of its own: `make_pager(files, *without)`."""
    made: list[Search] = []

    def make(files: dict[str, str] | None = None, *without: str) -> Pager:
        settings = f"zone: UTC\nwindow: 4096\nwithout: [{', '.join(without)}]\n"
        vault = make_vault(tmp_path / f"vault{len(made)}", {**(files or COTTAGE), "memory.yaml": settings})
        made.append(Search(vault))
        made[-1].sync()
        return Pager(made[-1], Evidence(made[-1]), lambda: vault.settings, lambda text: len(text) // 4)

    yield make
    for search in made:
        search.close()
        search.vault.close()


def brought(paging: Paging) -> list[tuple[str, str]]:
    """(page, why) of all that came in."""
    return [(one.page, one.why) for one in paging.pages]


# -- what a question brings in --------------------------------------------------------------------------------------


def test_question_pages_in_its_note_and_what_the_note_leads_to(make_pager: MakePager) -> None:
    """The note that answers is a fault; what it links to and what shares a code come along as prefetch."""
    pager, paging = make_pager(), Paging(1)
    assert pager.demand(paging, QUESTION, "")
    assert brought(paging) == [
        ("archival/boiler", "fault"),
        ("archival/bill", "prefetch"),
        ("archival/card", "prefetch"),
    ]
    assert [one.cause for one in paging.pages] == [QUESTION, "archival/boiler", "archival/bill"]
    assert (pager.counters.faults, pager.counters.pages, pager.counters.prefetched) == (1, 1, 2)


def test_what_is_in_context_is_no_fault(make_pager: MakePager) -> None:
    """A note whose text stands in front of the model already need not come in."""
    pager, paging = make_pager(COTTAGE, "prefetch"), Paging(1)
    seen = "We said: The boiler of the cottage was serviced in October; the bill is [[bill]]. Yes."
    assert not pager.demand(paging, QUESTION, seen)
    assert paging.pages == []


def test_question_about_nothing_that_is_kept_brings_nothing(make_pager: MakePager) -> None:
    """No note comes in for a question that shares no topic with any."""
    pager, paging = make_pager(), Paging(1)
    assert not pager.demand(paging, "Which violin did Paganini prefer?", "")
    assert (paging.pages, pager.counters.faults) == ([], 0)


def test_code_finds_its_record_however_the_rest_reads(make_pager: MakePager) -> None:
    """A number of a bill is looked up to the letter."""
    pager, paging = make_pager(COTTAGE, "prefetch"), Paging(1)
    assert pager.demand(paging, "What about KV-20881?", "")
    assert {page for page, _ in brought(paging)} == {"archival/bill", "archival/card"}


def test_link_to_a_note_that_is_gone_leads_nowhere(make_pager: MakePager) -> None:
    """A dangling link, a link of a note to itself and two notes that link to each other do no harm."""
    files = note("one", "The cottage boiler, see [[gone]], [[one]] and [[two]].") | note("two", "Back to [[one]].")
    pager, paging = make_pager(files), Paging(1)
    assert pager.demand(paging, QUESTION, "")
    assert brought(paging) == [("archival/one", "fault"), ("archival/two", "prefetch")]


def test_chain_of_links_comes_in_as_far_as_the_budget_goes(make_pager: MakePager) -> None:
    """Links of links are followed, six pages ahead at most."""
    files = note("n0", "The boiler of the cottage: [[n1]]")
    for number in range(1, 10):
        files |= note(f"n{number}", f"Part {number}: [[n{number + 1}]]")
    pager, paging = make_pager(files), Paging(1)
    pager.demand(paging, QUESTION, "")
    assert [one.page for one in paging.pages] == [f"archival/n{number}" for number in range(7)]


# -- prefetch is held to its use ------------------------------------------------------------------------------------


def test_prefetch_is_counted_as_used_with_what_led_to_it(make_pager: MakePager) -> None:
    """A page that the answer leans on was of use, and so was the page that linked to it."""
    pager, paging = make_pager(), Paging(1)
    pager.demand(paging, QUESTION, "")
    pager.answered(paging, "The transfer for KV-20881 went out on Friday.")
    assert pager.counters.prefetch_used == 2


def test_prefetch_backs_off_while_nobody_uses_it_and_comes_back(make_pager: MakePager) -> None:
    """After two turns of useless pages it sits out three turns, then it is tried again; one use makes it eager."""
    pager = make_pager(COTTAGE, "query_cache")
    ahead = []
    for number in range(1, 8):
        paging = Paging(number)
        pager.demand(paging, QUESTION, "")
        ahead.append(sum(why == "prefetch" for _, why in brought(paging)))
        pager.answered(paging, "I do not know." if number < 6 else "It was KV-20881.")
    assert ahead == [2, 2, 0, 0, 0, 2, 2]


# -- the next part of a document ------------------------------------------------------------------------------------


def part(id: str, source: str, text: str) -> dict[str, str]:
    """A note that says which part of a document it is."""
    return {f"archival/{id}.md": f"---\nid: {id}\nsource: {source}\n---\n{text}\n"}


MANUAL = part(
    "one", "{file: manual.pdf, page: 1, chunk: 2}", "The boiler of the cottage was serviced in May, see below."
)
MANUAL |= part("two", "{file: manual.pdf, page: 2, chunk: 1}", "Drain it every second autumn, never in winter.")
MANUAL |= part("three", "{file: manual.pdf, page: 2, chunk: 2}", "Wipe the burner with a dry cloth.")
MANUAL |= part("zero", "{file: manual.pdf, page: 1, chunk: 1}", "Contents and a warning.")
MANUAL |= part("other", "{file: other.pdf, page: 1, chunk: 3}", "Something else entirely.")
MANUAL |= part("chat", "{session: 2026-11-29-a7, turn: 3}", "Saved in a talk.")
AFTER = "Drain it every second autumn, never in winter."


def test_next_part_of_a_document_comes_along(make_pager: MakePager) -> None:
    """One part, the one behind what was found: not the one before, no other document's, and not the whole rest."""
    pager, paging = make_pager(MANUAL), Paging(1)
    assert pager.demand(paging, QUESTION, "")
    assert brought(paging) == [("archival/one", "fault"), ("archival/two", "prefetch")]
    assert paging.pages[1].cause == "archival/one" and paging.pages[1].part
    pager.answered(paging, AFTER)
    assert (pager.counters.prefetched, pager.counters.prefetch_used) == (1, 1)


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("{file: a.pdf, page: 3}", "{file: a.pdf, page: 4}"),
        ("{file: a.txt, offset: 0}", "{file: a.txt, offset: 4096}"),
        ("{url: 'https://example.org/a', chunk: 9}", "{url: 'https://example.org/a', chunk: 10}"),
    ],
)
def test_whatever_counts_the_parts_gives_their_order(make_pager: MakePager, source: str, after: str) -> None:
    """Pages, chunks and offsets: the next number that there is."""
    files = part("here", source, "The boiler of the cottage.") | part("there", after, "Nothing alike.")
    files |= part("far", after.replace("4096", "99999").replace("4}", "7}").replace("10}", "11}"), "Farther.")
    pager, paging = make_pager(files), Paging(1)
    pager.demand(paging, QUESTION, "")
    assert brought(paging) == [("archival/here", "fault"), ("archival/there", "prefetch")]


@pytest.mark.parametrize(
    "source", ["{file: a.pdf}", "{page: 3}", "a.pdf", "{file: a.pdf, page: -1}", "{file: '', page: 3}"]
)
def test_note_that_says_no_part_has_none_behind_it(make_pager: MakePager, source: str) -> None:
    """A source without a number, or without a document, gives no order."""
    files = part("here", source, "The boiler of the cottage.") | part("there", "{file: a.pdf, page: 4}", "Not alike.")
    pager, paging = make_pager(files), Paging(1)
    pager.demand(paging, QUESTION, "")
    assert brought(paging) == [("archival/here", "fault")]


def test_next_parts_back_off_by_themselves(make_pager: MakePager) -> None:
    """Parts that nobody uses are left out for some turns; what is linked goes on coming."""
    files = MANUAL | part("one", "{file: manual.pdf, page: 1, chunk: 2}", "The boiler of the cottage: [[tank]].")
    files |= note("tank", "Its tank holds ninety litres of rain.")
    pager = make_pager(files, "query_cache")
    ahead = []
    for number in range(1, 8):
        paging = Paging(number)
        pager.demand(paging, QUESTION, "")
        ahead.append([one.page.partition("/")[2] for one in paging.pages if one.why == "prefetch"])
        pager.answered(paging, "Its tank holds ninety litres of rain." if number < 6 else AFTER)
    assert ahead == [["tank", "two"]] * 2 + [["tank"]] * 3 + [["tank", "two"]] * 2


def test_without_prefetch_no_part_comes_along(make_pager: MakePager) -> None:
    """`without: [prefetch]` brings what was found alone."""
    pager, paging = make_pager(MANUAL, "prefetch"), Paging(1)
    pager.demand(paging, QUESTION, "")
    assert brought(paging) == [("archival/one", "fault")]


# -- questions that were asked before -------------------------------------------------------------------------------


def test_same_question_needs_no_second_search_until_a_note_changes(make_pager: MakePager) -> None:
    """The pages of a question are known, however it is put; a note that a person edits or adds ends that."""
    pager = make_pager()
    pager.demand(Paging(1), QUESTION, "")
    paging = Paging(2)
    assert pager.demand(paging, "the cottage boiler: serviced WHEN?", "")
    assert pager.counters.cache_hits == 1 and brought(paging)[0] == ("archival/boiler", "fault")
    search = pager._search
    path = "archival/2026/11/boiler.md"
    edit_by_hand(search.vault, path, (search.vault.read(path) or "").replace("October", "March"))
    edit_by_hand(search.vault, *note("new", "The cottage boiler was serviced again.").popitem())
    paging = Paging(3)
    assert pager.demand(paging, QUESTION, "")
    assert pager.counters.cache_hits == 1
    assert {page for page, _ in brought(paging)} >= {"archival/boiler", "archival/new"}


def test_page_of_a_note_that_was_deleted_does_not_come_in(make_pager: MakePager) -> None:
    """A known question whose note is gone brings nothing."""
    pager = make_pager(note("boiler", "The boiler of the cottage was serviced in October."))
    pager.demand(Paging(1), QUESTION, "")
    (pager._search.vault.root / "archival/2026/11/boiler.md").unlink()
    paging = Paging(2)
    assert not pager.demand(paging, QUESTION, "")
    assert paging.pages == []


# -- a draft is held against memory ---------------------------------------------------------------------------------


def test_draft_that_names_what_memory_holds_is_a_fault(make_pager: MakePager) -> None:
    """A name that nothing in context has but a note does brings the note in, once."""
    pager, paging = make_pager(note("dog", "The vet of the dog is Doctor Petrarca.")), Paging(1)
    assert pager.check(paging, "You could ask Petrarca about it.", "Talk about a dog.")
    assert brought(paging) == [("archival/dog", "fault")]
    assert not pager.check(paging, "You could ask Petrarca about it.", "Talk about a dog.")
    assert pager.counters.drafts == 1


def test_draft_whose_names_are_in_context_or_unknown_is_let_through(make_pager: MakePager) -> None:
    """A name that is in front of the model, or that memory does not hold either, takes nothing back."""
    pager, paging = make_pager(note("dog", "The vet of the dog is Doctor Petrarca.")), Paging(1)
    assert not pager.check(paging, "You could ask Petrarca.", "The vet is Petrarca.")
    assert not pager.check(paging, "You could ask Boccaccio.", "")
    assert (paging.pages, pager.counters.drafts) == ([], 0)


def test_word_of_which_the_model_was_unsure_is_not_looked_up(make_pager: MakePager) -> None:
    """A guess is no reason to look: only words that the model was sure of count."""
    pager, paging = make_pager(note("dog", "The vet of the dog is Doctor Petrarca.")), Paging(1)
    assert not pager.check(paging, "You could ask Petrarca today.", "", ["Petrarca"])


def agent_with_vet(make_agent: MakeAgent, replies: list[str], *without: str) -> Agent:
    """An agent whose notes hold who the vet is, and a model that words drafts."""
    settings = {"memory.yaml": f"zone: UTC\nwindow: 4096\nwithout: [{', '.join(without)}]\n"}
    files = note("dog", "Doctor Petrarca works in Porto, phone 555-0199.") | settings
    return make_agent([CHOSEN, *(say(reply) for reply in replies)], files=files)


def test_draft_is_taken_back_and_worded_again(make_agent: MakeAgent) -> None:
    """The second draft sees the note that the first one lacked, and begins with what was shown of the first."""
    drafts = ["Sure thing! You should ask Petrarca.", "Sure thing! You should call 555-0199."]
    agent, shown = agent_with_vet(make_agent, drafts), []
    agent.on_text = shown.append
    *_, last = agent.run("Whom could I call?")
    assert reply_of(last) == "".join(shown) == drafts[1]
    first, second = prompts_of(agent)[-2:]
    assert "555-0199" not in first and "555-0199" in second
    assert [(one.page, one.why, one.cause) for one in last.pages] == [("archival/dog", "fault", "Petrarca")]


def test_drafts_are_taken_back_only_so_often(make_agent: MakeAgent) -> None:
    """`max_faults: 0` lets the first draft stand."""
    agent = agent_with_vet(make_agent, ["You should ask Petrarca."])
    edit_by_hand(agent.vault, "memory.yaml", "zone: UTC\nwindow: 4096\nmax_faults: 0\n")
    assert agent.send("Whom could I call?") == "You should ask Petrarca."


# -- each part can be switched off ----------------------------------------------------------------------------------


def test_without_faults_a_draft_stands_and_no_question_is_looked_up(make_agent: MakeAgent) -> None:
    """`without: [faults]`: nothing comes in but what the model itself searches for."""
    agent = agent_with_vet(make_agent, ["You should ask Petrarca."], "faults")
    *_, last = agent.run("Where does Doctor Petrarca work?")
    assert (reply_of(last), last.pages) == ("You should ask Petrarca.", ())
    assert agent.pager.counters.faults == 0


def test_without_prefetch_a_link_is_followed_when_a_draft_leans_on_its_note(make_pager: MakePager) -> None:
    """`without: [prefetch]`: a linked note is left out until the draft needs the page that links to it."""
    pager, paging = make_pager(COTTAGE, "prefetch"), Paging(1)
    pager.demand(paging, QUESTION, "")
    assert brought(paging) == [("archival/boiler", "fault")]
    assert pager.check(paging, "the boiler of the cottage was serviced", "boiler cottage")
    assert brought(paging)[1:] == [("archival/bill", "fault")]


def test_without_query_cache_each_question_is_searched_for(make_pager: MakePager) -> None:
    """`without: [query_cache]`: no question is known, and the same pages come in."""
    pager = make_pager(COTTAGE, "query_cache")
    first, second = Paging(1), Paging(2)
    assert pager.demand(first, QUESTION, "") and pager.demand(second, QUESTION, "")
    assert pager.counters.cache_hits == 0 and brought(first) == brought(second)


def test_without_clock_all_pages_are_shown_and_none_is_held(make_agent: MakeAgent) -> None:
    """`without: [clock]`: what came in is shown in its turn, whatever it takes, and queue.yaml names no frames."""
    agent = agent_with_vet(make_agent, [], "clock", "wording")
    agent.model = ScriptedModel([call("send_message", message="In Porto.")])
    assert agent.send("Where does Doctor Petrarca work?") == "In Porto."
    assert "555-0199" in prompts_of(agent)[-1]
    assert agent.queue.state().frames == ()


def test_working_set_takes_its_share_of_the_window(make_pager: MakePager) -> None:
    """Four pages of a size fit; of six only the newest are kept, what left is counted once and stays on disk."""
    files = {}
    for name in ("one", "two", "three", "four", "five", "six"):
        files |= note(name, f"The boiler of the cottage, {name}: " + "serviced well " * 30)
    pager, state = make_pager(files, "prefetch"), QueueState()
    for number, names in enumerate((["one", "two", "three", "four"], ["five", "six"]), 1):
        paging = Paging(number)
        pager.searched(paging, [f"archival/{name}" for name in names])
        assert len(pager.texts(pager.hold(state, paging, 2048), paging)) == len(names)
        state = pager.keep(state, paging, 2048)
    held = {frame.page.partition("/")[2] for frame in state.frames}
    assert held >= {"five", "six"} and len(held) == 4
    assert pager.counters.evictions == 2
    assert all(pager.hit(f"archival/{name}") for name in ("one", "two", "three", "four"))


def test_prefetched_page_counts_as_used_only_when_an_answer_leaned_on_it(make_pager: MakePager) -> None:
    """However many steps a turn has, what only came along stays the first to go; what was of use does not."""
    pager, paging, state = make_pager(), Paging(1), QueueState()
    pager.demand(paging, QUESTION, "")
    for _ in range(2):
        state = pager.keep(state, paging, 4096)
    assert {frame.page: frame.referenced for frame in state.frames} == {
        "archival/boiler": True,
        "archival/bill": False,
        "archival/card": False,
    }
    pager.answered(paging, "It was paid with KV-20881.")
    assert all(frame.referenced for frame in pager.keep(state, paging, 4096).frames)
