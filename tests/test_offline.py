"""Offline: a conversation opens no connection."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys

def watch(event, arguments):
    # Everything that Python can do with a network passes here first.
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.")):
        print("opened:", event, arguments[1:], flush=True)
        os._exit(3)

sys.addaudithook(watch)

from memory_fs.agent import Agent
from memory_fs.testing import ScriptedModel, call, make_vault
from memory_fs.undo import undo

vault = make_vault(sys.argv[1])
replies = [
    call("core_memory_append", label="human", content="See https://example.invalid/x?q=1."),
    call("archival_memory_insert", content="![](https://example.invalid/pixel.png)"),
    call("archival_memory_search", query="pixel"),
    call("conversation_search", query="hello"),
    call("conversation_search_date", start_date="today", end_date="today"),
    call("send_message", missing="nothing", message="Done: https://example.invalid/"),
]
with Agent(vault, ScriptedModel(replies)) as agent:
    list(agent.run("keep the following in mind."))
    undo(vault, ("tester", "t@example.invalid"))
    agent.search.sync()
    for handle in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []:
        try:  # what native code opens passes no audit hook
            assert not os.readlink(f"/proc/self/fd/{handle}").startswith("socket:")
        except FileNotFoundError:
            pass
{extra}
print("offline")
"""


def run(folder: Path, extra: str = "") -> subprocess.CompletedProcess[str]:
    """The conversation in a program of its own, with a guard on everything that opens a connection."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT.replace("{extra}", extra), str(folder / "vault")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_conversation_opens_no_connection(tmp_path: Path) -> None:
    """Saving, searching, answering and undoing, with links in every text, never touch the network."""
    done = run(tmp_path)
    assert (done.stdout, done.returncode) == ("offline\n", 0), done.stdout + done.stderr


def test_the_guard_would_notice(tmp_path: Path) -> None:
    """The guard of the test above does see a connection."""
    done = run(tmp_path, "import socket; socket.create_connection(('127.0.0.1', 9))")
    assert done.returncode == 3 and done.stdout.startswith("opened: socket.")
