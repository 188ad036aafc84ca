"""The systems that are compared: what each is shown, and what is counted of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, repeat
from pathlib import Path

import pytest
from conftest import say

from memory_fs.bench.baselines import CLOSED, searchable
from memory_fs.bench.question import Outcome, Question, Setting, holds
from memory_fs.bench.systems import AGENTS, NAMES, chosen, system
from memory_fs.bench.vaults import Vaults
from memory_fs.doctor import examine
from memory_fs.errors import MemoryFsError
from memory_fs.events import Message
from memory_fs.formats.note import Note
from memory_fs.formats.settings import MECHANISMS
from memory_fs.llm import Turn
from memory_fs.prompt import SUMMARY
from memory_fs.testing import Reply, ScriptedModel, call
from memory_fs.vault import Vault

DAY = datetime(2026, 1, 1, tzinfo=UTC)
NOTES = tuple(Note(f"n{n}", text, DAY) for n, text in enumerate(("The kayak is red.", "The oven is loud.", "Tea.")))
TALK = tuple(
    Message(f"m{n}", DAY + timedelta(days=n), "user", f"Ana: message {n} about the weather.") for n in range(200)
)
KAYAK = Setting("kayak", human=("Name: Ana.",), notes=NOTES)
Ask = Callable[..., tuple[Outcome, ScriptedModel]]


def answer(message: str) -> str:
    """The completion of the pass that words."""
    return json.dumps({"message": message})


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """Asks a system one question: `ask(name, setting, replies, **of the question)`."""

    def put(
        name: str, setting: Setting = KAYAK, replies: Iterable[Reply] = repeat(answer("Red.")), window: int = 2048,
        text: str = "What colour is the kayak?", told: str = "", times: int = 1,
    ) -> tuple[Outcome, ScriptedModel]:  # fmt: skip
        read = ["", ""] if name in AGENTS else []  # the instructions, before the first question
        model = ScriptedModel(chain(read, replies), window=window)
        question = Question("1", setting, text, ("red",), holds(["red"]), told=told)
        asked = system(name, model, Vaults(tmp_path, window))
        return [asked(question) for _ in range(times)][-1], model

    yield put


def shown(model: ScriptedModel) -> list[str]:
    """What the model was given, completion by completion."""
    return ["\n".join(turn.content for turn in turns) for turns in model.prompts]


def test_closed_is_shown_the_question_alone(ask: Ask) -> None:
    """It may answer from what it knows, and has nothing of memory."""
    outcome, model = ask("closed")
    assert outcome.reply == "Red." and len(outcome.completions) == 1
    assert shown(model) == [f"{CLOSED}\nWhat colour is the kayak?"]


def test_truncation_is_shown_the_newest_that_fits(ask: Ask) -> None:
    """The newest messages are there with their days, oldest first, and no more fit the window."""
    _, model = ask("truncation", Setting("talk", talk=TALK))
    (prompt,) = shown(model)
    assert "2026-07-19 Ana: message 199 about" in prompt and "message 0 " not in prompt
    assert prompt.index("message 198") < prompt.index("message 199")
    assert 2048 - 512 - 20 < model.count(model.prompts[0]) < 2048 - 512
    _, model = ask("truncation")
    assert all(text in shown(model)[0] for text in ("Name: Ana.", "kayak is red", "Tea."))


def test_what_is_older_is_summed_up_once(ask: Ask) -> None:
    """Half a window at a time is folded; the newest stays word for word; the next question reuses the summary."""

    def reply(turns: Sequence[Turn]) -> str:
        return "Ana told of the weather." if turns[0].content == SUMMARY else answer("Red.")

    outcome, model = ask("summary", Setting("talk", talk=TALK), repeat(reply), times=2)
    prompts = shown(model)
    folds = [prompt for prompt in prompts if prompt.startswith(SUMMARY)]
    assert len(folds) > 1 and prompts.index(folds[-1]) == len(folds) - 1 and len(prompts) == len(folds) + 2
    assert "Old summary:\nAna told of the weather." in folds[1]
    assert len(outcome.completions) == 1
    assert "Ana told of the weather." in prompts[-1] and "message 199 about" in prompts[-1]
    first = min(n for n in range(200) if f"message {n} " in prompts[-1])
    assert all(sum(f"message {n} " in fold for fold in folds) == 1 for n in range(first))


def test_without_need_nothing_is_summed_up(ask: Ask) -> None:
    """What fits the window is shown whole, without a summary."""
    outcome, model = ask("summary")
    assert len(outcome.completions) == 1 and "kayak is red" in shown(model)[0]


def test_rag_is_shown_the_best_hits_of_the_index(ask: Ask) -> None:
    """So many hits as were asked for, from the real index, without a function in the prompt."""
    _, model = ask("rag@1")
    (prompt,) = shown(model)
    assert "kayak is red" in prompt and "oven" not in prompt and "archival_memory" not in prompt


def test_rag_finds_lines_of_core_memory_and_messages(ask: Ask) -> None:
    """What is core memory for the agent is a note for rag; messages come with their day."""
    setting = Setting("both", human=("The kayak is blue.",), talk=TALK[:3])
    assert [note.text for note in searchable(setting).notes] == ["The kayak is blue."]
    _, model = ask("rag@5", setting, text="Is message 2 about the kayak?")
    assert "The kayak is blue." in shown(model)[0] and "2026-01-03 Ana: message 2" in shown(model)[0]


@pytest.mark.parametrize("name", ["truncation", "summary", "rag@3"])
def test_a_memory_that_is_empty_is_no_trouble(ask: Ask, name: str) -> None:
    """With nothing in memory the question is asked all the same."""
    assert ask(name, Setting("empty"))[0].reply == "Red."


def test_the_agent_is_asked_on_a_vault_of_its_own(ask: Ask) -> None:
    """It answers from the notes, writes nothing, leaves the vault sound, and its paging is counted."""
    outcome, model = ask("memory_fs", replies=repeat(say("Red.")), window=4096)
    assert outcome.reply == "Red." and outcome.calls == ("send_message",)
    assert outcome.human == ("Name: Ana.",) and outcome.written == () and outcome.troubles == 0
    assert outcome.counters["faults"] == 1 and "kayak is red" in shown(model)[-1]
    assert len(outcome.completions) == len(model.prompts) - 2


def test_instructions_are_read_once_before_the_first_question(ask: Ask) -> None:
    """Whichever agent is asked first, reading them is in nobody's figures."""
    outcome, model = ask("memory_fs", replies=repeat(say("Red.")), window=4096, times=2)
    assert len(model.prompts) == 2 + 2 * len(outcome.completions)


def test_what_the_agent_writes_is_seen(ask: Ask) -> None:
    """Lines of core memory and notes that were not there before are handed out."""
    save = call("core_memory_append", label="human", content="Has a kayak.")
    note = call("archival_memory_insert", content="A kayak story.")
    outcome, _ = ask("memgpt", replies=[save, note, say("Noted.")], text="I have a kayak.", window=4096)
    assert outcome.written == ("A kayak story.", "Has a kayak.")
    assert outcome.human == ("Name: Ana.", "Has a kayak.")
    assert outcome.calls == ("core_memory_append", "archival_memory_insert", "send_message")


def test_a_call_that_failed_says_why(ask: Ask) -> None:
    """Who looks into a log sees what the function answered."""
    outcome, _ = ask("memgpt", replies=[call("core_memory_append", label="no", content="x"), say("Red.")], window=4096)
    assert outcome.calls[0].startswith("core_memory_append: error: ") and outcome.calls[1] == "send_message"


def test_mechanisms_are_off_as_the_name_says(tmp_path: Path) -> None:
    """A vault made for a system has them in its memory.yaml, and the starter's other settings."""
    assert AGENTS["-guard"] == ("guard",) and AGENTS["memgpt"] == MECHANISMS and AGENTS["memory_fs"] == ()
    vaults = Vaults(tmp_path, 2048)
    for without in AGENTS.values():
        with vaults.fresh(KAYAK, without) as root, Vault(root) as vault:
            assert vault.settings.without == without and vault.settings.window == 2048
            assert vault.settings.warnings == ()


def test_a_vault_is_made_once_and_copied(tmp_path: Path) -> None:
    """A question never sees what an earlier one did to its vault, and what is not used any more is deleted."""
    vaults = Vaults(tmp_path, 2048)
    with vaults.fresh(KAYAK) as root:
        (root / "core" / "human.yaml").unlink()
        (root / "archival" / "more.md").write_text("More.", encoding="utf-8")
    with vaults.fresh(KAYAK) as root:
        assert (root / "core" / "human.yaml").exists() and not (root / "archival" / "more.md").exists()
        assert examine(root).left == ()
    with vaults.fresh(Setting("other", talk=TALK[:2])) as root:
        assert sorted(p.name for p in root.glob("recall/*/*/*.md")) == ["2026-01-01.md", "2026-01-02.md"]
        assert examine(root).left == ()
    assert len(list(tmp_path.iterdir())) == 1


def test_systems_are_chosen_by_name() -> None:
    """None are the agent alone, all are all that can do the task, rag comes once for each number of hits."""
    assert chosen([], False, [5], False) == ["memory_fs"]
    assert chosen(["rag", "memory_fs"], False, [10, 1], False) == ["memory_fs", "rag@1", "rag@10"]
    assert chosen([], True, [5], False) == [name.replace("rag", "rag@5") for name in NAMES]
    assert chosen([], True, [5], True) == list(AGENTS)


@pytest.mark.parametrize(("name", "told"), [("gpt", "there is no system 'gpt'"), ("closed", "closed writes no memory")])
def test_a_system_that_cannot_do_it_is_refused(name: str, told: str) -> None:
    """A wrong name, and a baseline where memory has to be written, are told in one line."""
    with pytest.raises(MemoryFsError, match=told):
        chosen([name], False, [5], True)
