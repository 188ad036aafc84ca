"""A vault on a real network folder: sshfs, with a real SFTP server at the other end of a pipe, so without a network."""

from __future__ import annotations

import queue
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import changes_of, edit_by_hand, value_of

from memory_fs.agent import Agent
from memory_fs.change import Change
from memory_fs.history import person
from memory_fs.testing import ScriptedModel, make_vault
from memory_fs.undo import undo
from memory_fs.vault import Vault
from memory_fs.watch import Watcher

SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")
HUMAN = "core/human.yaml"


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Path]:
    """A folder as the machine sees that holds it; it is mounted beside it as `near`."""
    server = next((place for place in SERVERS if Path(place).exists()), None)
    if not shutil.which("sshfs") or not shutil.which("fusermount3") or server is None:
        pytest.skip("sshfs or its server is not installed")
    far, near, pipe = tmp_path / "far", tmp_path / "near", tmp_path / "ssh"
    far.mkdir()
    near.mkdir()
    pipe.write_text(f"#!/bin/sh\nexec {server}\n")
    pipe.chmod(0o755)
    options = f"ssh_command={pipe},dcache_timeout=1"
    done = subprocess.run(["sshfs", "-o", options, f"box:{far}", near], capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"this machine lets nobody mount a folder ({done.stderr.strip()})")
    yield far
    subprocess.run(["fusermount3", "-u", "-z", near], check=True)


@pytest.fixture
def agent(far: Path) -> Iterator[Agent]:
    """An agent whose vault is on the network folder."""
    with Agent(make_vault(far.parent / "near/vault"), ScriptedModel([])) as made:
        yield made


def test_vault_on_a_network_folder_works(agent: Agent, far: Path) -> None:
    """Without an exchange of names and a sync of the whole system, what is written, undone and found is right."""
    assert not agent.vault.disk.whole_sync
    for text in ("Name: Chad.", "Lives in Porto."):
        assert agent.call("core_memory_append", {"label": "human", "content": text})[0].ok
    assert agent.call("archival_memory_insert", {"content": "Biscuit is a retriever."})[0].ok
    assert agent.archival.search("retriever").total == 1
    undo(agent.vault, person())
    undo(agent.vault, person())
    assert value_of(agent.vault) == "Name: Chad." and agent.archival.search("retriever").total == 0
    agent.close()
    with Vault(far / "vault") as there:  # the other machine has the same files, and nothing is left of the writing
        assert value_of(there) == "Name: Chad." and len(changes_of(there)) == 6
        assert there.disk.whole_sync and there.journal.unfinished() == []
    assert not list(far.rglob("*.tmp"))


def test_edit_on_the_other_machine_is_announced_and_never_written_over(agent: Agent, far: Path) -> None:
    """The watcher says that it looks by itself, an edit made at the far end shows, and a write keeps it."""
    changes: queue.Queue[Change] = queue.Queue()
    said: list[str] = []
    theirs = far / "vault"
    with Watcher(agent.search, changes.put, said.append):
        assert said == ["the vault is on a network folder (fuse.sshfs): looking for edits every 1 s"]
        for number in range(2):
            edit_by_hand(agent.vault, f"archival/near{number}.md", "Here.\n")
            assert changes.get(timeout=20).paths == (f"archival/near{number}.md",)
            start = time.monotonic()
            (theirs / f"archival/far{number}.md").write_text("There, a zebra.\n")
            assert changes.get(timeout=20).paths == (f"archival/far{number}.md",)
            assert time.monotonic() - start < 10  # about two seconds, on a machine with nothing else to do
    assert agent.archival.search("zebra").total == 2
    for number in range(4):
        place = theirs / HUMAN
        assert agent.call("core_memory_append", {"label": "human", "content": f"near {number}"})[0].ok
        place.write_text(place.read_text().replace("value: |\n", f"value: |\n  far {number}\n"))
        assert agent.call("core_memory_append", {"label": "human", "content": f"again {number}"})[0].ok
        assert f"far {number}" in value_of(agent.vault).splitlines()
