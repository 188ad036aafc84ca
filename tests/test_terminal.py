"""The conversation in a terminal and in a pipe, and that nothing in a text can act on a terminal."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from shell import Shell

from memory_fs.starter import init_vault
from memory_fs.testing import call

HOSTILE = "Peculiar \x1b[31mred\x1b]0;owned\x07 \x1b[2Jgone\rover \x9b5m \u202eback [bold red]markup[/] :smile:"
SAVE = call("core_memory_append", missing="saving a new fact", label="human", content="Name: Chad.")
HELLO = json.dumps({"known": "", "missing": "nothing", "function": "send_message"})


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A starter vault, made once."""
    return init_vault(tmp_path_factory.mktemp("starter") / "vault")


@pytest.fixture
def shell(tmp_path: Path, starter: Path) -> Shell:
    """A shell in a folder with a starter vault."""
    made = Shell(tmp_path)
    made.copy_vault(starter)
    return made


def word(message: str) -> str:
    """The completion of the wording pass."""
    return json.dumps({"message": message}, ensure_ascii=False)


# -- piped ---------------------------------------------------------------------------------------------------------


def test_piped_lines_are_messages_and_each_turn_shows_its_diff(shell: Shell) -> None:
    """The answer, then what the turn wrote to memory, without prompts, colours or anything that moves."""
    done = shell.chat("My name is Chad.\n\n", SAVE, word("Nice to meet you, Chad."))
    assert (done.status, done.told) == (0, "")
    assert done.out.startswith("Nice to meet you, Chad.\n--- a/core/human.yaml\n+++ b/core/human.yaml\n")
    assert done.out.endswith("+  Name: Chad.\n")
    assert "\x1b" not in done.out
    assert ">" not in done.out.splitlines()[0]


def test_commands_work_in_a_pipe(shell: Shell) -> None:
    """/memory, /search, /diff, /undo and /help between messages; /quit leaves the rest unread."""
    lines = "My name is Chad.\n/memory\n/search butter\n/search chad\n/diff\n/undo\n/help\n/nonsense\n/quit\nUnread.\n"
    done = shell.chat(lines, SAVE, word("Hello Chad."))
    assert (done.status, done.told) == (0, "")
    assert "[human] What I know about the user. (11/2000 characters)\nName: Chad." in done.out
    assert "Shortbread for eight" in done.out
    assert "Hello Chad." in done.out.partition("-- recall")[2]
    assert "-  Name: Chad." in done.out
    assert "/undo             take back" in done.out
    assert "no command /nonsense; /help lists them" in done.out
    assert shell.here("status", "--json").json["messages"] == 2


def test_last_line_needs_no_line_end_and_windows_line_ends_are_fine(shell: Shell) -> None:
    """Input that was made by any editor is read to its end."""
    done = shell.chat("My name is Chad.\r\nThanks.", SAVE, word("Hello."), HELLO, word("Bye."))
    assert done.told == ""
    assert done.out.endswith("Bye.\n")
    texts = [hit["text"] for hit in shell.here("search", "recall", "thanks name", "--json").json["hits"]]
    assert sorted(texts) == ["My name is Chad.", "Thanks."]


def test_bytes_that_are_no_text_do_not_end_the_chat(shell: Shell) -> None:
    """A line in another encoding arrives with marks for what could not be read."""
    done = shell.chat(b"Ol\xe1 \xff\xfe\n/quit\n", HELLO, word("Hm?"))
    assert (done.status, done.out, done.told) == (0, "Hm?\n", "")
    assert "Ol\ufffd" in shell.here("search", "recall", "ol", "--json").out


def test_error_in_one_turn_is_told_and_the_next_line_is_read(shell: Shell) -> None:
    """What goes wrong is one line on stderr; the conversation goes on, and the message is kept."""
    done = shell.chat("Hello there.\n/undo\n/memory\n")
    assert done.status == 0
    assert done.told == "memory-fs: the script has no completion left\nmemory-fs: nothing to undo\n"
    assert "[persona]" in done.out
    assert shell.here("search", "recall", "hello", "--json").json["total"] == 1


def test_turn_without_an_answer_says_why(shell: Shell) -> None:
    """When the model only makes mistakes the user reads the reason in place of an answer."""
    done = shell.chat("Hello there.\n", *["no call at all"] * 6)
    assert done.out.startswith("(no answer: the model made the same mistake")


# -- in a terminal -------------------------------------------------------------------------------------------------


def test_text_of_a_note_is_inert_in_a_terminal(shell: Shell) -> None:
    """Escapes, bells, carriage returns, C1 controls, overrides and markup of a note are shown, not acted on."""
    (shell.vault / "archival/odd.md").write_text(HOSTILE)
    with shell.terminal("search", "archival", "peculiar") as screen:
        shown = screen.rest()
    assert "Peculiar ␛[31mred␛]0;owned␇ ␛[2Jgone␍over" in shown
    assert "[bold red]markup[/] :smile:" in shown
    for active in ("\x1b[31m", "\x1b]", "\x07", "\x1b[2J", "\rover", "\x9b", "\u202e"):
        assert active not in shown, repr(active)


def test_error_about_a_hostile_name_is_inert_in_a_terminal(shell: Shell) -> None:
    """What a person or a script passes as an argument comes back as pictures, too."""
    with shell.terminal("call", "\x1b[2J\x07") as screen:
        shown = screen.rest()
    assert "memory-fs: no function" in shown
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown


def test_diff_has_colours_in_a_terminal(shell: Shell) -> None:
    """Added lines are green where somebody looks, and plain in a pipe."""
    shell.call("core_memory_append", label="human", content="Likes tea.")
    with shell.terminal("diff") as screen:
        assert "\x1b[32m+  Likes tea." in screen.rest()
    assert "\n+  Likes tea.\n" in shell.run("diff").out


def test_chat_in_a_terminal(shell: Shell) -> None:
    """Prompt, answer, diff, commands, Ctrl-C at the prompt; the lines are remembered for the next chat."""
    with shell.terminal("chat", replies=[SAVE, word("Hello \x1b[35mChad.")]) as screen:
        assert "/help lists the commands" in screen.until("\n> ")
        screen.type("My name is Chad.\n")
        shown = screen.until("\n> ")
        assert "core_memory_append: human saved" in shown
        assert "Hello ␛[35mChad." in shown
        assert "\x1b[35m" not in shown
        assert "\x1b[32m+  Name: Chad." in shown
        time.sleep(0.5)  # Python misses a Ctrl-C that comes between the prompt and the first wait for a key
        screen.type("\x03")
        assert "(type /quit to end)" in screen.until("\n> ")
        screen.type("/memory\n")
        assert "(11/2000 characters)" in screen.until("\n> ")
        screen.type("/quit\n")
        screen.rest()
    assert "My name is Chad." in (shell.vault / ".memory_fs/chat_history").read_text()


def test_ctrl_c_stops_an_answer_and_keeps_the_message(shell: Shell) -> None:
    """While the model thinks, Ctrl-C ends the turn; the message stays, no half call is stored, the next turn works."""
    with shell.terminal("chat", replies=["WAIT", HELLO, word("Here I am.")]) as screen:
        screen.until("\n> ")
        screen.type("Rain again.\n")
        screen.until("thinking")
        until_kept(shell)
        screen.type("\x03")
        assert "(stopped; your message is kept)" in screen.until("\n> ")
        screen.type("Hello there.\n")
        assert "Here I am." in screen.until("\n> ")
        screen.type("\x04")
        screen.rest()
    found = shell.here("search", "recall", "rain hello", "--json").json
    assert sorted(hit["text"] for hit in found["hits"]) == ["Hello there.", "Rain again."]
    assert shell.here("status", "--json").json["messages"] == 3


def until_kept(shell: Shell) -> None:
    """Wait until the message is in recall: the model is at work now."""
    while not any("Rain again." in data.decode() for path, data in shell.files().items() if path.startswith("recall")):
        time.sleep(0.05)
