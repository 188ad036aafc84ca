"""Which state a person means, which changes a person asks for, and what differs between two states."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from conftest import changes_of, edit_by_hand

from memory_fs.errors import FunctionError, MemoryFsError, VaultError
from memory_fs.revisions import count_of, find, resolve
from memory_fs.testing import make_vault
from memory_fs.vault import Vault

NOTE = "archival/a.md"


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 29, 14, 24, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """A vault in Porto's zone, only read here: three days' writing, half an hour before midnight there."""
    clock = Clock()
    vault = make_vault(tmp_path_factory.mktemp("week") / "vault", {"memory.yaml": "zone: Europe/Lisbon\n"}, clock=clock)
    trailers = {"Session": "s1", "Turn": "1", "Function": "archival_memory_insert"}
    for days, text in enumerate("one two three".split(), 1):
        clock.moment = datetime(2026, 11, 29, 23, 30, tzinfo=UTC) + timedelta(days=days)
        vault.transact(lambda t, text=text: t.write(NOTE, text), text, trailers={**trailers, "Turn": str(days)})
    edit_by_hand(vault, "core/human.yaml", "value: 饼干\n")
    vault.adopt()
    return vault


def subject_at(vault: Vault, text: str) -> str:
    """The change whose state a text names."""
    return vault.history.show(resolve(vault, text)).subject


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("HEAD", "Edit core/human.yaml by hand"),
        ("HEAD~1", "three"),
        ("HEAD~2", "two"),
        ("2026-11-30", "one"),
        ("2026-12-01", "two"),
        ("2026-11-29", "Start a new vault"),
        ("9999-12-31", "Edit core/human.yaml by hand"),
        ("today", "Edit core/human.yaml by hand"),
        ("Yesterday", "two"),
        ("2026-12-01T23:29", "one"),
        ("2026-12-01T23:30", "two"),
        ("2026-12-01 23:30:00", "two"),
        ("2026-12-02T00:30+01:00", "two"),
        ("2026-12-01T23:29:59Z", "one"),
    ],
)
def test_a_state_is_named_in_many_ways(week: Vault, text: str, subject: str) -> None:
    """An id, HEAD and its parents, a day (its end, in the vault's zone) and a moment."""
    assert subject_at(week, text) == subject


def test_ids_may_be_short(week: Vault) -> None:
    """Eight digits of an id, as they are printed, are enough."""
    change = changes_of(week)[1]
    assert resolve(week, change.rev) == resolve(week, change.rev[:8]) == change.rev


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-13-01", "is no date; write 2026-11-29, today or yesterday"),
        ("2026-11-29T25:00", "is no time; write 2026-11-29T14:00"),
        ("2026-11", "is no date"),
        ("2026-11-28", r"knows nothing of 2026-11-28; it begins at 2026-11-29T14:24"),
        ("2020-01-01T00:00", "knows nothing of"),
        ("HEAD~99", "no change 'HEAD~99' in the history; see `memory-fs log`"),
        ("nothing", "no change 'nothing'"),
        ("", "no change ''"),
        ("HEAD:core/human.yaml", "no change"),
        ("a\0b", "no change"),
        ("\ud800", "no change"),
        ("../../etc", "no change"),
        ("--all", "no change"),
    ],
)
def test_what_names_no_state_is_refused_in_one_line(week: Vault, text: str, told: str) -> None:
    """No such day, no such change, and git's other notations are each told plainly."""
    with pytest.raises(MemoryFsError, match=told) as failed:
        resolve(week, text)
    assert "\n" not in str(failed.value)


def test_a_branch_that_is_checked_out_beside_does_not_move_head(week: Vault) -> None:
    """HEAD is the vault's newest change, also after a person has looked at an older one with git."""
    head = week.root / ".memory_fs/git/HEAD"
    main = head.read_text()
    head.write_text(changes_of(week)[-1].rev + "\n")
    assert subject_at(week, "HEAD") == "Edit core/human.yaml by hand"
    head.write_text(main)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"author": "AGE"}, ["three", "two", "one"]),
        ({"author": "nobody"}, []),
        ({"function": "archival_memory_insert"}, ["three", "two", "one"]),
        ({"session": "s1", "turn": 2}, ["two"]),
        ({"session": "s"}, []),
        ({"turn": 3}, ["three"]),
        ({"since": "2026-12-01", "until": "2026-12-01"}, ["two"]),
        ({"until": "2026-11-30"}, ["one", "Start a new vault"]),
        ({"since": "today"}, ["Edit core/human.yaml by hand", "three"]),
        ({"since": "yesterday", "until": "yesterday"}, ["two"]),
        ({"path": "archival/"}, ["three", "two", "one"]),
        ({"path": "core/human.yaml"}, ["Edit core/human.yaml by hand", "Start a new vault"]),
        ({"path": "archival", "since": "2026-12-02"}, ["three"]),
        ({"path": "/etc"}, []),
        ({"path": "../x"}, []),
    ],
)
def test_changes_are_found_by_what_is_known_of_them(week: Vault, asked: dict[str, object], found: list[str]) -> None:
    """Path, author, function, session, turn and whole days in the vault's zone, alone and together."""
    assert [change.subject for change in find(week, **asked)] == found  # type: ignore[arg-type]


def test_days_that_are_none_are_told(week: Vault) -> None:
    """A bad date, and a first day after the last one, are one clear line."""
    with pytest.raises(FunctionError, match="'Monday' is no date; write 2026-11-29, today or yesterday"):
        find(week, since="Monday")
    with pytest.raises(FunctionError, match="--since 2026-12-02 is after --until 2026-12-01; swap them"):
        find(week, since="2026-12-02", until="2026-12-01")


@pytest.mark.parametrize(
    ("text", "count"), [("1", 1), ("250000", 250000), ("1234567", None), ("1e5", None), ("", None)]
)
def test_number_of_changes_is_told_from_an_id(text: str, count: int | None) -> None:
    """Up to six digits are a count, more are the start of an id."""
    assert count_of(text) == count


def test_two_states_are_compared_file_by_file(week: Vault) -> None:
    """Every memory file that differs has one unified diff, whatever happened in between; backwards as well."""
    old, new = resolve(week, "2026-11-30"), resolve(week, "HEAD")
    there = dict(week.history.compare(old, new))
    assert list(there) == [NOTE, "core/human.yaml"]
    assert "-one\n" in there[NOTE] and "+three\n" in there[NOTE] and "two" not in there[NOTE]
    assert "+value: 饼干\n" in there["core/human.yaml"]
    assert "+one\n" in dict(week.history.compare(new, old))[NOTE]
    assert list(week.history.compare(new, new)) == []


def test_history_before_its_first_change_is_an_error(tmp_path: Path) -> None:
    """A folder whose history has not begun has no state to name."""
    (tmp_path / "vault/core").mkdir(parents=True)
    with Vault(tmp_path / "vault") as vault, pytest.raises(VaultError, match="the history knows nothing of today"):
        resolve(vault, "today")
