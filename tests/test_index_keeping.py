"""The index keeps its promises whatever happens to its folder: damage, crashes, other processes, no room."""

from __future__ import annotations

import hashlib
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_fs.index import Document, Index
from memory_fs.manifest import Entry, Manifest
from memory_fs.sealed import Damaged, SealedFolder, locked, user_key

TEXTS = {
    f"archival/{number}.md": f"note number{number} about {'cats' if number % 2 else 'dogs'}" for number in range(12)
}
QUERIES = ("cats", "dogs", "number7", "tag:odd", "note -dogs", "nothing")


def load(path: str) -> list[Document]:
    """The document of one of the texts."""
    number = int(path.removeprefix("archival/").removesuffix(".md"))
    tags = ("odd",) if number % 2 else ()
    return [Document(f"id{number}", "archival", path, TEXTS[path], datetime(2026, 11, 29, tzinfo=UTC), tags=tags)]


def digests() -> dict[str, str]:
    """What the files contain, as the index compares it."""
    return {path: hashlib.sha256(text.encode()).hexdigest() for path, text in TEXTS.items()}


def answers(index: Index) -> list[object]:
    """What the index says to a few queries, after a sync."""
    index.sync(digests(), load)
    return [index.search("archival", query, size=50) for query in QUERIES]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an index lies that was made in several commits."""
    index = Index(tmp_path / "index")
    some = dict(list(digests().items())[:5])
    index.sync(some, load)
    index.sync(some | {"archival/5.md": "older"}, load)
    answers(index)
    return tmp_path / "index"


@pytest.fixture
def expected(tmp_path: Path) -> list[object]:
    """What an undamaged index answers."""
    return answers(Index(tmp_path / "another"))


def data(folder: Path) -> Path:
    """The folder with the files of the index."""
    (inner,) = (path for path in folder.iterdir() if path.is_dir())
    return inner


def files(folder: Path, ending: str) -> list[Path]:
    """Its files of one sort."""
    return sorted(data(folder).glob(f"*{ending}"))


# --- damage ----------------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    """Leave the first half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replace_by_file(folder: Path) -> None:
    """A file where the folder was."""
    shutil.rmtree(folder)
    folder.write_text("garbage")


def replace_by_dead_link(folder: Path) -> None:
    """A link to nowhere where the folder was."""
    shutil.rmtree(folder)
    folder.symlink_to(folder.parent / "nowhere")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "folder deleted": shutil.rmtree,
    "inner folder deleted": lambda folder: shutil.rmtree(data(folder)),
    "folder emptied": lambda folder: [path.unlink() for path in data(folder).iterdir()],
    "folder replaced by a file": replace_by_file,
    "folder replaced by a dead link": replace_by_dead_link,
    "inner folder replaced by a file": lambda folder: (
        inner := data(folder),
        shutil.rmtree(inner),
        inner.write_text("garbage"),
    ),
    "table of contents cut": lambda folder: cut(files(folder, ".toc")[-1]),
    "table of contents emptied": lambda folder: files(folder, ".toc")[-1].write_bytes(b""),
    "table of contents deleted": lambda folder: files(folder, ".toc")[-1].unlink(),
    "a newer table of contents of garbage": lambda folder: (data(folder) / "_MAIN_99.toc").write_bytes(b"\x80garbage"),
    "segment cut": lambda folder: cut(files(folder, ".seg")[0]),
    "segment emptied": lambda folder: files(folder, ".seg")[0].write_bytes(b""),
    "one bit of a segment flipped": lambda folder: flip(files(folder, ".seg")[0]),
    "segment deleted": lambda folder: files(folder, ".seg")[0].unlink(),
    "segment replaced by a folder": lambda folder: (
        path := files(folder, ".seg")[0],
        path.unlink(),
        path.mkdir(),
    ),
    "segment replaced by a pipe": lambda folder: (path := files(folder, ".seg")[0], path.unlink(), os.mkfifo(path)),
    "segments exchanged": lambda folder: (
        one := files(folder, ".seg")[0],
        other := files(folder, ".seg")[1],
        both := (one.read_bytes(), other.read_bytes()),
        one.write_bytes(both[1]),
        other.write_bytes(both[0]),
    ),
    "manifest cut": lambda folder: cut(files(folder, ".json")[-1]),
    "manifest part deleted": lambda folder: files(folder, ".json")[0].unlink(),
    "everything garbage": lambda folder: [path.write_bytes(b"\0" * 99) for path in data(folder).iterdir()],
    "from another program": lambda folder: [
        path.write_bytes(path.read_bytes()[:-32]) for path in data(folder).iterdir()
    ],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_index_is_rebuilt(folder: Path, expected: list[object], damage: Callable[[Path], object]) -> None:
    """Whatever was done to the folder: the same answers, one line about it, and the next start is quiet."""
    damage(folder)
    said: list[str] = []
    index = Index(folder, said.append)
    assert answers(index) == expected
    assert len(said) == 1 and said[0].startswith("search index: building it from the files")
    assert answers(Index(folder, said.append)) == expected
    assert len(said) == 1


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damage_under_an_open_index(folder: Path, expected: list[object], damage: Callable[[Path], object]) -> None:
    """The same while the index is open: searches go on, the next sync repairs the folder, with one line."""
    said: list[str] = []
    index = Index(folder, said.append)
    answers(index)
    damage(folder)
    assert [index.search("archival", query, size=50) for query in QUERIES] == expected
    assert answers(index) == expected
    assert len(said) == 1
    assert answers(Index(folder, said.append)) == expected
    assert len(said) == 1


def test_an_index_of_another_version_is_left_alone(
    folder: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version builds its own beside it, with one line; of many such, the newest few are kept."""
    said: list[str] = []
    for version in range(100, 105):
        monkeypatch.setattr("memory_fs.index._FORMAT", version)
        assert answers(Index(folder, said.append)) == expected
    assert len(said) == 5
    assert sum(path.is_dir() for path in folder.iterdir()) == 3


def test_an_index_from_another_machine_is_not_opened(
    folder: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copied vault brings its index; without the key that sealed it, it is built anew."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "other cache"))
    said: list[str] = []
    copied = folder.parent / "copied"
    shutil.copytree(folder, copied)
    index = Index(copied, said.append)
    data(copied).rename(index._disk.path)  # even if it lies where ours would
    assert answers(index) == expected
    assert len(said) == 1


class Bomb:
    """An object that runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_no_pickle_of_somebody_else_is_opened(folder: Path, expected: list[object], tmp_path: Path) -> None:
    """Planted files are not interpreted: nothing in them can run."""
    bomb = pickle.dumps(Bomb(tmp_path / "boom"))
    real = files(folder, ".toc")[-1].read_bytes()
    at = real.rindex(b"\x80")  # the pickled segments, at the end of a table of contents
    (data(folder) / "_MAIN_77.toc").write_bytes(real[:at] + bomb)
    for segment in files(folder, ".seg"):
        segment.write_bytes(bomb)
    assert answers(Index(folder)) == expected
    assert not (tmp_path / "boom").exists()
    pickle.loads(bomb)
    assert (tmp_path / "boom").exists()  # it would have run


def test_links_in_the_folder_lead_nowhere(folder: Path, expected: list[object], tmp_path: Path) -> None:
    """Rebuilding deletes no file outside the folder, wherever links in it point."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    for name in ("MAIN.tmp", "link"):
        (data(folder) / name).symlink_to(precious)
    cut(files(folder, ".toc")[-1])
    assert answers(Index(folder)) == expected
    assert (precious / "file").read_text() == "keep"


# --- crashes ---------------------------------------------------------------------------------------------------------

CHILD = textwrap.dedent("""
    import sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from test_index_keeping import TEXTS, digests, load
    from memory_fs.index import Index
    index = Index(Path({folder!r}), print)
    files = digests()
""")


def child(folder: Path, code: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a piece of code in another process, with an index over the same folder."""
    script = CHILD.format(tests=str(Path(__file__).parent), folder=str(folder)) + textwrap.dedent(code)
    command = [sys.executable, "-W", "error", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


KILL = """
    import os, memory_fs.sealed as sealed
    put, left = sealed._put, [{writes}]
    def dying(path, *parts):
        if not left[0]:
            os._exit(9)
        left[0] -= 1
        put(path, *parts)
    sealed._put = dying
    files["archival/3.md"] = TEXTS["archival/3.md"] = "changed"
    del files["archival/4.md"]
    index.sync(files, load)
"""


@pytest.mark.parametrize("writes", range(3))
def test_a_death_between_any_two_writes_loses_nothing(folder: Path, expected: list[object], writes: int) -> None:
    """Killed before the manifest, the segment or the table of contents was written: the old state, no rebuild."""
    assert child(folder, KILL.format(writes=writes)).returncode == 9
    said: list[str] = []
    index = Index(folder, said.append)
    assert index.count("archival") == 12
    assert answers(index) == expected
    assert said == []


def test_a_death_right_after_the_commit_loses_nothing(folder: Path, expected: list[object]) -> None:
    """The table of contents is the commit: what follows is only cleaning up."""
    assert child(folder, KILL.format(writes=3) + "    os._exit(9)").returncode == 9
    said: list[str] = []
    index = Index(folder, said.append)
    assert index.count("archival") == 11
    assert answers(index) == expected
    assert said == []


def test_an_interrupt_during_a_commit_leaves_a_usable_index(
    folder: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the middle of writing: the next call simply works."""
    index = Index(folder)
    answers(index)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("memory_fs.index.pack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.sync(digests() | {"archival/3.md": "changed"}, lambda path: [*load(path), *load("archival/1.md")])
    assert answers(index) == expected


def test_a_failing_search_rebuilds_the_index(
    folder: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception while searching: built anew from the files of the last sync, the answer comes all the same."""
    said: list[str] = []
    index = Index(folder, said.append)
    answers(index)
    broken = index._shelf
    assert broken is not None
    monkeypatch.setattr(broken.searcher, "leaf_searchers", None)
    assert [index.search("archival", query, size=50) for query in QUERIES] == expected
    assert len(said) == 1


# --- no room, no permission ------------------------------------------------------------------------------------------


@contextmanager
def no_room() -> Iterator[None]:
    """Every write to a file fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_the_index_in_memory(folder: Path, expected: list[object]) -> None:
    """Nothing can be written: the same answers, one line; with room again, the next start goes on from the disk."""
    said: list[str] = []
    index = Index(folder, said.append)
    index.sync(digests(), load)
    with no_room():
        index.sync(digests() | {"archival/3.md": "changed", "archival/4.md": "changed"}, load)
        assert answers(index) == expected
        del index
        fresh = Index(folder.parent / "fresh", said.append)
        assert answers(fresh) == expected
    assert ["kept in memory" in line for line in said] == [True, False, True] or len(said) == 2
    assert answers(Index(folder)) == expected


READ_ONLY = """
    import encodings.latin_1, os
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    print(index.sync(files, load), index.search("archival", "cats").total)
    files["archival/3.md"] = TEXTS["archival/3.md"] = "all about zebras"
    print(index.sync(files, load), index.search("archival", "zebras").total, index.search("archival", "cats").total)
    print(index.sync(files, load))
"""


def test_a_read_only_folder_keeps_the_index_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not allowed to write: what is there is used, changes live in memory, with one line."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # root is allowed everything, so the test becomes somebody else
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        folder = Path(place) / "index"
        answers(Index(folder))
        (Path(place) / "memory_fs/index.key").chmod(0o444)
        everything = [folder, *folder.rglob("*")]
        for path in everything:
            path.chmod(0o555 if path.is_dir() else 0o444)
        done = child(folder, READ_ONLY)
        for path in everything:
            path.chmod(0o755)
    lines = done.stdout.splitlines()
    assert lines[0] == "0 6", done.stderr
    assert "kept in memory" in lines[1]
    assert lines[2:] == ["1 1 5", "0"], done.stderr


def test_a_folder_that_can_never_exist(tmp_path: Path, expected: list[object]) -> None:
    """Below a file there is no folder: the index lives in memory."""
    (tmp_path / "file").write_text("")
    said: list[str] = []
    index = Index(tmp_path / "file" / "index", said.append)
    assert answers(index) == expected
    assert answers(index) == expected
    assert len(said) == 1 and "kept in memory" in said[0]


def test_without_a_home_the_index_works(folder: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the key cannot be kept, it lasts as long as the process."""
    (folder.parent / "taken").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "taken"))
    said: list[str] = []
    assert answers(Index(folder, said.append)) == expected
    assert answers(Index(folder, said.append)) == expected
    assert len(said) == 1


# --- other processes -------------------------------------------------------------------------------------------------


def test_two_processes_see_each_others_changes(folder: Path) -> None:
    """What another process indexed is not indexed again; what it removed is gone."""
    index = Index(folder)
    answers(index)
    done = child(folder, 'files.pop("archival/1.md"); files["archival/2.md"] = "x"; print(index.sync(files, load))')
    assert done.stdout == "2\n", done.stderr
    assert index.count("archival") == 11
    left = digests()
    left.pop("archival/1.md")
    left["archival/2.md"] = "x"
    assert index.sync(left, load) == 0


def test_a_second_writer_waits_or_works_on_a_copy(
    folder: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process holds the lock: searches are fresh all the same; afterwards the disk is used again."""
    monkeypatch.setattr("memory_fs.keeper._PATIENCE", 0.05)
    said: list[str] = []
    index = Index(folder, said.append)
    index.sync(dict(list(digests().items())[:9]), load)
    index.sync(digests() | {"archival/3.md": "changed"}, load)
    with locked(folder / "lock", 0) as mine:
        assert mine
        assert answers(index) == expected
        index.sync(dict(list(digests().items())[:4]), load)
        assert index.count("archival") == 4
        assert answers(index) == expected
    assert len(said) == 1 and "another process" in said[0]
    index.sync(dict(list(digests().items())[:4]), load)
    assert Index(folder, said.append).count("archival") == 4
    assert len(said) == 1


def test_a_first_index_elsewhere_is_not_disturbed(
    tmp_path: Path, expected: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process makes the first index: ours is in memory and writes nothing; later it is on disk."""
    monkeypatch.setattr("memory_fs.keeper._LONG_PATIENCE", 0.05)
    folder, said = tmp_path / "index", list[str]()
    index = Index(folder, said.append)
    with locked(folder / "lock", 0):
        for count in (4, 9, 12):
            index.sync(dict(list(digests().items())[:count]), load)
            assert index.count("archival") == count
        assert answers(index) == expected
        assert [path.name for path in folder.iterdir()] == ["lock"]
        assert len(said) == 1
    index.sync(dict(list(digests().items())[:4]), load)
    assert answers(index) == expected
    assert Index(folder, said.append).count("archival") == 12
    assert len(said) == 2


def test_writers_in_many_threads_and_processes_agree(tmp_path: Path) -> None:
    """Everyone indexes at once; everyone is right, and the index is whole afterwards."""
    folder, said, found = tmp_path / "index", list[str](), list[int]()
    code = """
        for step in range(8):
            some = dict(list(files.items())[: 5 + step])
            index.sync(some, load)
            assert index.count("archival") == 5 + step or index.sync(some, load) >= 0
        index.sync(files, load)
        print(index.search("archival", "note").total)
    """
    threads = [
        threading.Thread(target=lambda: found.append(int(child(folder, code).stdout.split()[-1]))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12, 12, 12]
    index = Index(folder, said.append)
    index.sync(digests(), load)
    assert index.search("archival", "note").total == 12
    assert said == []


def test_one_index_in_many_threads(folder: Path, expected: list[object]) -> None:
    """Calls from several threads take turns."""
    index, seen = Index(folder), list[list[object]]()
    threads = [threading.Thread(target=lambda: seen.append(answers(index))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [expected] * 6


# --- upkeep ----------------------------------------------------------------------------------------------------------


def test_hundreds_of_commits_leave_few_files(tmp_path: Path) -> None:
    """Old segments, tables and manifest parts are cleared away, and the state survives a restart at any point."""
    index, said = Index(tmp_path / "index", print), list[str]()
    texts: dict[str, str] = {}
    for step in range(80):
        texts[f"archival/{step % 40}.md"] = f"v{step}"
        index.sync(
            texts, lambda path: [Document(path, "archival", path, texts[path], datetime(2026, 11, 29, tzinfo=UTC))]
        )
        if step % 9 == 0:
            assert Index(tmp_path / "index", said.append).sync(texts, load) == 0
    assert said == []
    assert len(list(data(tmp_path / "index").iterdir())) < 64 + 20 + 3
    assert len(files(tmp_path / "index", ".toc")) == 1


def test_clear_forgets_everything(folder: Path, expected: list[object]) -> None:
    """Afterwards nothing is found, here or by others, until the next sync."""
    said: list[str] = []
    index = Index(folder, said.append)
    index.clear()
    assert index.count("archival") == 0
    assert Index(folder).count("archival") == 0
    assert answers(index) == expected
    assert len(said) == 1


def test_a_closed_index_opens_again(folder: Path, expected: list[object]) -> None:
    """Closing lets go; a later call opens it again."""
    index = Index(folder)
    index.close()
    index.close()
    assert answers(index) == expected


def test_an_empty_vault_leaves_no_index_behind(tmp_path: Path) -> None:
    """Without files nothing is written and nothing is said."""
    said: list[str] = []
    index = Index(tmp_path / "index", said.append)
    assert index.sync({}, load) == 0
    assert index.search("archival", "x").total == 0
    assert said == [] and not (tmp_path / "index").exists()


def test_a_large_first_index_is_committed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was indexed before an interruption need not be indexed again."""
    monkeypatch.setattr("memory_fs.keeper._BATCH_DOCUMENTS", 5)

    def failing(path: str) -> list[Document]:
        if path == "archival/9.md":  # the last in order
            raise RuntimeError("interrupted")
        return load(path)

    with pytest.raises(RuntimeError):
        Index(tmp_path / "index").sync(digests(), failing)
    index = Index(tmp_path / "index")
    assert index.count("archival") == 10
    assert index.sync(digests(), load) == 2


def test_the_manifest_survives_its_own_gaps_only_whole(tmp_path: Path) -> None:
    """Parts are read up to the generation asked for; a missing part is damage, a later one is not there yet."""
    disk = SealedFolder(tmp_path / "m", b"k" * 32)
    manifest = Manifest()
    for number in range(1, 200):
        change = {
            f"p{number % 50}": Entry(str(number), {f"archival/{number}": f"d:{number}"}),
            f"p{(number * 7) % 50}": None,
        }
        manifest.save(disk, change)
        manifest.apply(change, number)
        manifest.sweep(disk)
    manifest.save(disk, {"later": Entry("x", {})})
    read = Manifest.load(disk, 199)
    assert (read.files, read.records, read.kinds, read.generation) == (
        manifest.files,
        manifest.records,
        manifest.kinds,
        199,
    )
    assert read.kinds["archival"] == len(read.files)
    assert read.sizes["archival"] == sum(map(int, read.files.values()))
    disk.delete("change-197.json")
    with pytest.raises(Damaged):
        Manifest.load(disk, 199)


def test_a_seal_holds_for_one_name_and_one_key(tmp_path: Path) -> None:
    """Content is believed only under the name and the key that it was written with."""
    disk = SealedFolder(tmp_path, b"k" * 32)
    disk.write("a", b"content")
    assert disk.read("a") == b"content"
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
    for name, reader in (("b", disk), ("a", SealedFolder(tmp_path, b"j" * 32)), ("none", disk)):
        with pytest.raises(Damaged):
            reader.read(name)


def test_the_key_is_kept_private(tmp_path: Path) -> None:
    """It is made once, is readable by its owner only, and replaced when it is damaged."""
    key = user_key()
    path = tmp_path / "cache/memory_fs/index.key"
    assert user_key() == key == path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"short")
    assert len(user_key()) == 32 and user_key() != key
