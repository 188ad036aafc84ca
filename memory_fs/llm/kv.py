"""Checkpoints of a KV cache on disk, so that the head of a prompt is evaluated once and not at every start.

A file holds the state of one sequence of tokens for one model; its name is a hash of both. Everything here is derived
and safe to delete: a file that is missing, damaged, stale or unwritable only costs time.

A state is what the model has read, so a planted one would be a prompt that nobody can see. Each file therefore ends
with a checksum under a key that lies in the user's cache folder, not beside the files: a vault from somebody else may
bring checkpoints, they are not used. This module knows files and hashes, and no engine.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from secrets import token_bytes
from uuid import uuid4

from memory_fs.llm.places import cache_folder

KEEP = 4
"""Files kept in the folder; the ones used longest ago go first."""

_SEAL = 32
_SPARE_KEY = token_bytes(_SEAL)


def user_key() -> bytes:
    """The key of this user on this machine, made when there is none; where it cannot be kept, one for this process."""
    try:
        path = cache_folder() / "kv.key"
        if path.is_file() and len(key := path.read_bytes()) == _SEAL:
            return key
        path.parent.mkdir(parents=True, exist_ok=True)
        _put(path, token_bytes(_SEAL))
        return path.read_bytes()
    except (OSError, RuntimeError):
        return _SPARE_KEY


def identity(path: Path, *details: object) -> bytes:
    """What makes two model files the same for a checkpoint: size, both ends, and the details of the engine."""
    size, end = path.stat().st_size, 1 << 16
    digest = blake2b(repr((size, details)).encode(), digest_size=_SEAL)
    with path.open("rb") as file:
        digest.update(file.read(end))
        file.seek(max(0, size - end))
        digest.update(file.read(end))
    return digest.digest()


class Checkpoints:
    """The checkpoints of one model in one folder.

    Args:
        folder: where they are; made when it is needed.
        model: the `identity` of the model.
        key: what seals them, 32 bytes.
    """

    def __init__(self, folder: Path, model: bytes, key: bytes) -> None:
        self.folder = folder
        self._model, self._key = model, key

    def path(self, tokens: Sequence[int]) -> Path:
        """Where the state after these tokens is kept."""
        digest = blake2b(self._model + array("q", tokens).tobytes(), digest_size=16)
        return self.folder / f"{digest.hexdigest()}.kv"

    def load(self, tokens: Sequence[int]) -> bytes | None:
        """The state after these tokens; None when there is no whole file of it, sealed by this user."""
        path = self.path(tokens)
        try:
            if not path.is_file():  # a pipe would wait for ever
                return None
            data = memoryview(path.read_bytes())
            if not compare_digest(self._seal(path, data[:-_SEAL]), data[-_SEAL:]):
                path.unlink()
                return None
            os.utime(path)
        except OSError:
            return None
        return bytes(data[:-_SEAL])

    def save(self, tokens: Sequence[int], state: bytes) -> bool:
        """Keep the state after these tokens; whether that worked."""
        path = self.path(tokens)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            _put(path, state, self._seal(path, state))
            files = sorted(self.folder.glob("*.kv"), key=lambda found: found.stat().st_mtime_ns, reverse=True)
            for old in files[KEEP:]:
                old.unlink(missing_ok=True)
        except OSError:  # a full disk or a read-only folder: go on without
            return False
        return True

    def forget(self, tokens: Sequence[int]) -> None:
        """Drop a checkpoint that the engine refused."""
        with contextlib.suppress(OSError):
            self.path(tokens).unlink(missing_ok=True)

    def _seal(self, path: Path, state: bytes | memoryview) -> bytes:
        seal = blake2b(path.name.encode(), key=self._key, digest_size=_SEAL)
        seal.update(state)
        return seal.digest()


def _put(path: Path, *pieces: bytes) -> None:
    """Put a whole file, readable by this user only, in place, or leave what was there."""
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            for piece in pieces:
                file.write(piece)
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
