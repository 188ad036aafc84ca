"""The working set: notes and messages that were paged in, in a part of the window of their own.

When the part is full, the second-chance rule (CLOCK; Corbató 1968) chooses what leaves: a hand goes round the frames,
a page that was used since the hand last passed loses its mark and stays, one without a mark goes. Pinned pages are
passed over. What leaves the window stays on disk. Pure: frames in, frames out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from memory_fs.formats.settings import Frame, QueueState

Size = Callable[[str], int]


def admit(
    state: QueueState, page: str, why: str, turn: int, size: Size, budget: int, pinned: Collection[str] = ()
) -> QueueState:
    """Put a page into the working set, or mark it as used where it is there already.

    Args:
        state: what is in context.
        page: which page.
        why: what brought it: `search`, `fault`, `prefetch` or `read`.
        turn: the number of this turn; pages of this turn stay as long as others can go.
        size: the tokens of a page.
        budget: tokens that all pages may take together.
        pinned: pages that never leave.

    Returns:
        The new state; unchanged where the page is too large for what can be made free.
    """
    if any(frame.page == page for frame in state.frames):
        return touch(state, page, turn)
    need = size(page)
    room = _make_room(state, budget - need, turn, size, pinned)
    if room is None:
        return state
    # The new page stands behind the hand: it is the last that the hand comes to.
    new = Frame(page, why, turn, referenced=why != "prefetch")
    frames = (*room.frames[: room.hand], new, *room.frames[room.hand :])
    return replace(room, frames=frames, hand=(room.hand + 1) % len(frames))


def touch(state: QueueState, page: str, turn: int) -> QueueState:
    """Mark a page as used."""
    frames = tuple(
        replace(frame, referenced=True, turn=max(turn, frame.turn)) if frame.page == page else frame
        for frame in state.frames
    )
    return replace(state, frames=frames)


def used(state: QueueState, size: Size) -> int:
    """The tokens of all pages."""
    return sum(size(frame.page) for frame in state.frames)


def _make_room(state: QueueState, most: int, turn: int, size: Size, pinned: Collection[str]) -> QueueState | None:
    """Evict until the pages take so many tokens at most; None where they cannot."""
    frames, hand = list(state.frames), state.hand
    taken = used(state, size)
    patience = 3 * len(frames)  # once round to take the marks away, once to evict, once for pages of this turn
    for step in range(patience):
        if taken <= most or not frames:
            break
        hand %= len(frames)
        frame = frames[hand]
        if frame.page in pinned or (frame.turn == turn and step < 2 * len(state.frames)):
            hand += 1
        elif frame.referenced and step < 2 * len(state.frames):
            frames[hand] = replace(frame, referenced=False)
            hand += 1
        else:
            taken -= size(frame.page)
            del frames[hand]
    if taken > most:
        return None
    return replace(state, frames=tuple(frames), hand=hand % max(1, len(frames)))
