"""The working set: which page leaves when the part of the window for paged-in records is full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_fs.formats.settings import Frame, QueueState, parse_queue, render_queue
from memory_fs.working_set import admit, touch, used


def one(page: str) -> int:
    """Every page takes one token."""
    return 1


def state_of(*frames: Frame, hand: int = 0) -> QueueState:
    """A queue with these frames and nothing else."""
    return QueueState(frames=frames, hand=hand)


def pages(state: QueueState) -> list[str]:
    """The pages in the working set, as the circle has them."""
    return [frame.page for frame in state.frames]


def old(page: str, referenced: bool = False) -> Frame:
    """A page that an earlier turn brought in."""
    return Frame(page, turn=1, referenced=referenced)


def test_page_that_nobody_used_goes_first() -> None:
    """The hand passes a page that was used and takes the first one that was not."""
    full = state_of(old("a", True), old("b"), old("c", True))
    after = admit(full, "new", "fault", 2, one, 3)
    assert sorted(pages(after)) == ["a", "c", "new"]


def test_used_page_gets_a_second_chance_and_only_one() -> None:
    """When all were used the first loses its mark and goes once the hand is round; a use in between saves it."""
    full = state_of(old("a", True), old("b", True))
    assert "a" not in pages(admit(full, "new", "fault", 2, one, 2))
    passed = admit(state_of(old("a", True), old("b"), old("c")), "x", "prefetch", 2, one, 3)
    assert next(frame for frame in passed.frames if frame.page == "a").referenced is False
    assert "a" in pages(passed)
    assert "a" not in pages(admit(admit(passed, "y", "fault", 3, one, 3), "z", "fault", 3, one, 3))
    again = touch(passed, "a", 2)
    assert "a" in pages(admit(admit(again, "y", "fault", 3, one, 3), "z", "fault", 3, one, 3))


def test_prefetched_page_comes_without_a_mark() -> None:
    """What nobody asked for is the first to go: it has to be used before it counts as used."""
    held = admit(admit(QueueState(), "ahead", "prefetch", 1, one, 2), "asked", "fault", 1, one, 2)
    assert {frame.page: frame.referenced for frame in held.frames} == {"ahead": False, "asked": True}
    assert sorted(pages(admit(held, "new", "fault", 2, one, 2))) == ["asked", "new"]


def test_page_that_is_there_is_marked_and_not_doubled() -> None:
    """Bringing a page in again is a use of it, in this turn."""
    held = state_of(old("a"), old("b"))
    after = admit(held, "a", "search", 5, one, 2)
    assert after.frames == (Frame("a", turn=5, referenced=True), old("b"))


def test_pinned_page_never_leaves() -> None:
    """The hand passes a pinned page, however full it is; where only pinned pages are left, the new one is refused."""
    full = state_of(old("a"), old("b"))
    assert sorted(pages(admit(full, "new", "fault", 2, one, 2, pinned={"a"}))) == ["a", "new"]
    assert admit(full, "new", "fault", 2, one, 2, pinned={"a", "b"}) == full


def test_pages_of_this_turn_stay_as_long_as_others_can_go() -> None:
    """What this turn brought in outlives used pages of earlier turns, and goes only when nothing else is left."""
    full = state_of(Frame("mine", turn=2, referenced=False), old("a", True))
    held = admit(full, "b", "fault", 2, one, 2)
    assert sorted(pages(held)) == ["b", "mine"]
    assert len(pages(admit(held, "c", "fault", 2, one, 2))) == 2


def test_page_that_is_too_large_is_refused() -> None:
    """A page that cannot fit costs no other page its place."""
    sizes = {"a": 3, "b": 3, "huge": 11}
    full = state_of(old("a"), old("b"))
    assert admit(full, "huge", "fault", 2, sizes.__getitem__, 10) == full
    assert admit(QueueState(), "huge", "fault", 2, sizes.__getitem__, 10) == QueueState()


SIZES = {f"p{number}": number for number in range(1, 9)}
MOVES = st.lists(
    st.tuples(st.sampled_from(sorted(SIZES)), st.booleans(), st.sampled_from(["fault", "prefetch", "read", "search"])),
    max_size=30,
)


@given(MOVES, st.integers(0, 20), st.sets(st.sampled_from(sorted(SIZES)), max_size=3))
def test_working_set_keeps_its_rules_whatever_comes(
    moves: list[tuple[str, bool, str]], budget: int, pinned: set[str]
) -> None:
    """The budget holds, no page is doubled, no pinned one leaves, and what goes is what has to go first."""
    state, turn = QueueState(), 1
    for page, next_turn, why in moves:
        turn += next_turn
        before = {frame.page: frame for frame in state.frames}
        state = admit(state, page, why, turn, SIZES.__getitem__, budget, pinned)
        left = {frame.page: frame for frame in state.frames}
        assert used(state, SIZES.__getitem__) <= budget
        assert len(left) == len(state.frames) and 0 <= state.hand < max(1, len(left))
        gone = before.keys() - left.keys()
        assert not gone & pinned
        assert not gone or page in left
        others = [name for name in left if name not in pinned and left[name].turn < turn]
        if any(before[name].turn == turn for name in gone):
            assert others == []
        if any(before[name].referenced and before[name].turn < turn for name in gone):
            assert all(before[name].referenced for name in others)


FRAMES = st.builds(
    Frame,
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).map("archival/".__add__),
    st.sampled_from(["fault", "prefetch", "read", "search"]),
    st.integers(0, 1000),
    st.booleans(),
)


@given(st.lists(FRAMES, max_size=6, unique_by=lambda frame: frame.page), st.integers(0, 5))
def test_working_set_survives_its_file(frames: list[Frame], hand: int) -> None:
    """What queue.yaml says of the frames is what was written to it."""
    state = QueueState(frames=tuple(frames), hand=hand if frames else 0)
    assert parse_queue(render_queue(state)) == state
