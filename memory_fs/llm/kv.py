"""Checkpoints of a KV cache on disk, so that the head of a prompt is evaluated once and not at every start.

A file holds the state of one sequence of tokens for one model; its name is a hash of both. Everything here is derived
and safe to delete: a file that is missing, damaged, stale or unwritable only costs time. This module knows files and
hashes, and no engine.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

KEEP = 4
"""Files kept in the folder; the ones used longest ago go first."""

_MAGIC = b"memory_fs kv 1\n"
_DIGEST = 32


def identity(path: Path, *details: object) -> bytes:
    """What makes two model files the same for a checkpoint: size, both ends, and the details of the engine."""
    size, end = path.stat().st_size, 1 << 16
    digest = blake2b(repr((size, details)).encode(), digest_size=_DIGEST)
    with path.open("rb") as file:
        digest.update(file.read(end))
        file.seek(max(0, size - end))
        digest.update(file.read(end))
    return digest.digest()


class Checkpoints:
    """The checkpoints of one model in one folder."""

    def __init__(self, folder: Path, model: bytes) -> None:
        self.folder = folder
        self._model = model

    def path(self, tokens: Sequence[int]) -> Path:
        """Where the state after these tokens is kept."""
        digest = blake2b(self._model + array("q", tokens).tobytes(), digest_size=16)
        return self.folder / f"{digest.hexdigest()}.kv"

    def load(self, tokens: Sequence[int]) -> bytes | None:
        """The state after these tokens; None when there is no whole file of it."""
        path = self.path(tokens)
        try:
            data = path.read_bytes()
            state = data[len(_MAGIC) + _DIGEST :]
            if data[: len(_MAGIC) + _DIGEST] != _MAGIC + blake2b(state, digest_size=_DIGEST).digest():
                path.unlink()
                return None
            os.utime(path)
        except OSError:
            return None
        return state

    def save(self, tokens: Sequence[int], state: bytes) -> bool:
        """Keep the state after these tokens; whether that worked."""
        path = self.path(tokens)
        part = path.with_name(f"{path.name}.{uuid4().hex}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with part.open("xb") as file:
                file.write(_MAGIC + blake2b(state, digest_size=_DIGEST).digest())
                file.write(state)
            part.replace(path)
            self._prune()
        except OSError:  # a full disk or a read-only folder: go on without
            return False
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        return True

    def forget(self, tokens: Sequence[int]) -> None:
        """Drop a checkpoint that the engine refused."""
        with contextlib.suppress(OSError):
            self.path(tokens).unlink(missing_ok=True)

    def _prune(self) -> None:
        files = sorted(self.folder.glob("*.kv"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in files[KEEP:]:
            path.unlink(missing_ok=True)
