"""The agent: one loop, used by the shell, the notebooks and the tests alike.

    event -> queue -> prompt -> model -> call -> executor -> files -> Step

`Agent.run(text)` yields one `Step` for each call that the model makes; `send_message` ends the turn. The model decides
and words in two passes: one chooses the next call and says what is known and what is missing, the other words the
message from the question and its evidence alone, because a small model does both badly at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memory_fs import policy
from memory_fs.archival import Archival
from memory_fs.core import Core
from memory_fs.errors import FunctionError, MemoryFsError, PromptTooLong
from memory_fs.events import Call, Event, Message, MessageRole, Result, clean
from memory_fs.executor import Executor
from memory_fs.formats.block import Block
from memory_fs.formats.settings import QueueState, Settings
from memory_fs.functions import Function, FunctionTable, grammar
from memory_fs.history import Change
from memory_fs.llm import Completion, Flag, Model
from memory_fs.memory_functions import PAPER, Memory, default_table
from memory_fs.prompt import (
    MESSAGE_GRAMMAR,
    Prompt,
    answer_prompt,
    call_text,
    compile_prompt,
    summary_prompt,
)
from memory_fs.queue_manager import ALERT, QueueManager, first_sentences
from memory_fs.recall import Recall
from memory_fs.search import Search
from memory_fs.vault import Transaction, Vault

CALL_TOKENS = 400  # the longest call the model may write, tokens
TAIL = 6  # messages before the question that the wording pass sees
DECIDE, WORD = 0, 1  # the model's slots


@dataclass(frozen=True)
class Pass:
    """One completion of the model within a step: `decide`, `word` or `summarise`."""

    kind: str
    prompt: Prompt
    completion: Completion


@dataclass(frozen=True)
class Step:
    """One turn of the loop: what the model saw, what it called, what came of it.

    Attributes:
        event: what started the turn.
        passes: every completion of the step, in order.
        call: the call; None when the completion was no call.
        result: what the model reads next.
        changes: the commits that the step made.
        seconds: wall time.
        final: whether the turn ends here; `ended` says why.
    """

    event: Event
    passes: tuple[Pass, ...]
    call: Call | None
    result: Result
    changes: tuple[Change, ...]
    seconds: float
    final: bool = False
    ended: str = ""

    @property
    def prompt(self) -> Prompt:
        """What the first pass saw that decided or worded."""
        return next(item.prompt for item in self.passes if item.kind != "summarise")

    @property
    def diff(self) -> str:
        """What the step wrote to core and archival memory, as a unified diff."""
        files = [file for change in self.changes for file in change.files]
        return "".join(text for path, text in files if not path.startswith(("recall/", "queue.yaml")))

    def tokens(self) -> dict[str, int]:
        """Tokens of all passes: `prompt`, `reused` (from the KV cache) and `generated`."""
        return _tokens(self.passes)

    def __repr__(self) -> str:
        call = call_text(self.call.function, self.call.arguments) if self.call else "no call"
        return f"Step({call} -> {self.result.text[:60]!r}, {len(self.changes)} changes, {self.seconds:.1f} s)"


def _tokens(passes: Sequence[Pass]) -> dict[str, int]:
    done = [item.completion for item in passes]
    return {
        "prompt": sum(c.prompt_tokens for c in done),
        "reused": sum(c.reused_tokens for c in done),
        "generated": sum(c.generated_tokens for c in done),
    }


@dataclass
class _Turn:
    """What one turn has come to so far."""

    event: Event
    number: int
    question: str = ""
    steps: int = 0
    evidence: list[str] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    failed: list[Message] = field(default_factory=list)


class Agent:
    """A model, a vault and the loop between them.

    Example:
        >>> agent = Agent("vault", model)                                               # doctest: +SKIP
        >>> for step in agent.run("I moved to Porto."):                                 # doctest: +SKIP
        ...     print(step.call, step.diff)
    """

    def __init__(
        self,
        vault: Vault | Path | str,
        model: Model,
        *,
        functions: Sequence[Callable[..., object]] = (),
        table: FunctionTable | None = None,
        on_text: Callable[[str], None] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Open an agent.

        Args:
            vault: an open vault, or its folder.
            model: any `Model`.
            functions: a person's own typed Python functions, offered next to MemGPT's.
            table: all functions, instead of the default table.
            on_text: called with each piece of a message to the user while it is written.
            say: called with one line for things worth knowing, such as a rebuilt index.

        Raises:
            VaultError: the folder is no vault.
        """
        self.vault = vault if isinstance(vault, Vault) else Vault(vault)
        self.model = model
        self.search = Search(self.vault, say)
        self.core = Core(self.vault)
        self.archival = Archival(self.search)
        self.recall = Recall(self.search)
        self.queue = QueueManager(self.vault, self.recall)
        self.table = table or default_table()
        self.executor = Executor(self.table)
        self.own = tuple(self.table.add(function).name for function in functions)
        self.on_text = on_text
        self.cancel = Flag()
        self.session = f"{self.vault.now():%Y-%m-%d}-{self.vault.new_id()[:4]}"

    def call(self, function: str, arguments: Mapping[str, object]) -> tuple[Result, Change | None]:
        """Run one function as the model would, outside any conversation."""
        self.vault.adopt()

        def work(transaction: Transaction) -> Result:
            size = self.vault.settings.page_size
            memory = Memory(self.core, self.archival, self.recall, transaction, size, {"session": self.session})
            return self.executor.run(Call(function, dict(arguments)), memory)

        trailers = {"Session": self.session, "Function": function[:60]}
        return self.vault.transact(work, lambda result: f"{function[:60]}: {result.text[:100]}", trailers=trailers)

    # -- the turn -----------------------------------------------------------------------------------------------

    def send(self, text: str) -> str:
        """Say something to the agent and get its answer.

        Raises:
            MemoryFsError: the message is empty, or the vault or the model failed.
        """
        last = None
        for step in self.run(text):
            last = step
        return reply_of(last)

    def run(self, event: str | Event) -> Iterator[Step]:
        """Handle one event, step by step, until the agent has answered or a limit ends the turn.

        Raises:
            FunctionError: the message is empty.
            PromptTooLong: system instructions and core memory alone do not fit the window.
        """
        event = Event(event) if isinstance(event, str) else event
        if not event.text.strip():
            raise FunctionError("the message is empty; type something")
        self.cancel.clear()
        turn = self._begin(event)
        while True:
            step = self._step(turn)
            yield step
            if step.final:
                return

    def step(self, event: str | Event) -> Step:
        """Handle an event up to its first call; iterate `run` for all of them."""
        return next(self.run(event))

    def _begin(self, event: Event) -> _Turn:
        """Take hand edits into history, then write the event to recall and the queue: from here on it is safe."""
        self.vault.adopt()
        state = self.queue.state()
        turn = _Turn(event, state.turn + 1, event.text)
        self._check_room(state)

        def work(transaction: Transaction) -> None:
            now = replace(self.queue.state(), turn=turn.number)
            self.queue.push(transaction, now, [self._message(turn, event.kind, event.text)])

        self.vault.transact(work, f"Receive a {event.kind} message", trailers=self._trailers(turn))
        return turn

    def _step(self, turn: _Turn) -> Step:
        """One call: relieve the window, decide, word, execute, write."""
        start = time.perf_counter()
        turn.steps += 1
        passes, changes = self._relieve(turn)
        offered, rules = self._offer(turn)
        call = self._decide(offered, rules, passes)
        if isinstance(call, Call) and call.function == "send_message" and "message" not in call.arguments:
            call = self._word(turn, call, passes)
        result, change = self._execute(turn, call, offered, passes)
        ended = self._ended(turn, call, result)
        if change:
            changes.append(change)
        seconds = time.perf_counter() - start
        proposed = call if isinstance(call, Call) else None
        return Step(turn.event, tuple(passes), proposed, result, tuple(changes), seconds, bool(ended), ended)

    # -- deciding and wording -----------------------------------------------------------------------------------

    def _offer(self, turn: _Turn) -> tuple[list[Function], str]:
        """The functions of this step and the grammar that lets the model call only those.

        What cannot help is not offered: a function that failed twice, a replace where there is no line to replace.
        """
        settings = self.vault.settings
        message = turn.event.text if turn.event.kind == "user" else ""
        blocks = [block for block in self.core.blocks() if not block.read_only]
        about = [block for block in blocks if block.label != "persona"]
        lines = policy.worth_judging([line for block in about for line in _lines_once(block)], message)
        # A replace can only name a line that is there: the model chooses it, code keeps it exact.
        swap = [{"label": [b.label], "old_content": [x for x in _lines_once(b) if x in lines]} for b in about]
        choices = {
            "core_memory_append": [{"label": [block.label]} for block in about],
            "core_memory_replace": [way for way in swap if way["old_content"]],
        }
        useless = {name for name, count in turn.failures.items() if count >= settings.max_failures}
        useless |= {name for name, ways in choices.items() if not ways}
        replaced = "core_memory_replace" in turn.done
        room = turn.steps < 3 and not replaced and any(block.used < 0.8 * block.limit for block in about)
        names = [f.name for f in self.functions() if f.name == "send_message" or f.name not in useless]
        memory = "\n".join(block.value for block in self.core.blocks())
        names = policy.offered(names, message, memory, first=not turn.done, must_save=room)
        if turn.steps >= settings.max_steps and "send_message" in names:
            names = ["send_message"]
        offered = [function for function in self.functions() if function.name in names]
        judged = lines if policy.judges(message) and not replaced else None
        beat = settings.heartbeat == "requested"
        return offered, grammar(offered, heartbeat=beat, choices=choices, bare="send_message", lines=judged)

    def _decide(self, offered: Sequence[Function], rules: str, passes: list[Pass]) -> Call | Result:
        """The first pass: choose the next call. Where only an answer is left, there is nothing to choose."""
        if [function.name for function in offered] == ["send_message"]:
            return Call("send_message", missing="nothing")
        prompt = self._compile(self.queue.state())
        completion = self.model.complete(
            prompt.turns, grammar=rules, max_tokens=self._room(prompt, CALL_TOKENS), slot=DECIDE, cancel=self.cancel
        )
        passes.append(Pass("decide", prompt, completion))
        self._stop_if_cancelled(completion)
        return self.executor.read(completion.text)

    def functions(self) -> list[Function]:
        """The functions that memory.yaml offers, and a person's own."""
        return self.table.select([*(self.vault.settings.functions or PAPER), *self.own])

    def _word(self, turn: _Turn, call: Call, passes: list[Pass]) -> Call:
        """The second pass: word the message from the question and its evidence, in a prompt of its own."""
        state = self.queue.state()
        messages = self.queue.messages(state)
        asked = next((n for n in range(len(messages) - 1, -1, -1) if messages[n].role == turn.event.kind), 0)
        evidence = turn.evidence[-8:]
        for tail in (TAIL, 2, 0):
            before = messages[max(0, asked - tail) : asked]
            question = turn.question[: 4000 if tail == TAIL else 1000]
            prompt = answer_prompt(self.core.blocks(), state.summary if tail else "", before, evidence, question)
            if self.model.count(prompt.turns) + 64 < self.model.window:
                break
            evidence = evidence[-2:]
        stream = _MessageStream(self.on_text) if self.on_text else None
        completion = self.model.complete(
            prompt.turns,
            grammar=MESSAGE_GRAMMAR,
            max_tokens=self._room(prompt, self.vault.settings.reply_reserve),
            slot=WORD,
            on_text=stream,
            cancel=self.cancel,
        )
        passes.append(Pass("word", prompt, completion))
        self._stop_if_cancelled(completion)
        return replace(call, arguments={"message": message_in(completion.text)})

    def _execute(
        self, turn: _Turn, call: Call | Result, offered: Sequence[Function], passes: Sequence[Pass]
    ) -> tuple[Result, Change | None]:
        """Run the call and write call and result to recall and the queue, all as one change."""

        text = next((item.completion.text for item in passes if item.kind == "decide"), "")

        def work(transaction: Transaction) -> Result:
            memory = self._memory(transaction, turn)
            if isinstance(call, Result):
                result = call
            elif call.function not in {function.name for function in offered}:
                result = Result(False, f"error: {call.function[:60]} is not offered now; call another function")
            else:
                result = self.executor.run(call, memory)
            turn.evidence += [text for text in memory.evidence if text not in turn.evidence]
            state = self.queue.drop(transaction, self.queue.state(), turn.failed)
            messages = self._messages(turn, call, result, text)
            turn.failed = [] if result.ok else messages
            if result.ok and isinstance(call, Call):
                turn.done.add(call.function)
            state = self.queue.push(transaction, state, messages)
            if result.ok and isinstance(call, Call) and call.function == "send_message":
                turn.failed = []
            return result

        def subject(result: Result) -> str:
            name = call.function if isinstance(call, Call) else "no call"
            return f"{name}: {result.text.splitlines()[0][:100] if result.text else ''}"

        trailers = self._trailers(turn, call.function if isinstance(call, Call) else "")
        trailers["Tokens"] = "/".join(str(number) for number in _tokens(passes).values())
        return self.vault.transact(work, subject, trailers=trailers)

    def _memory(self, transaction: Transaction, turn: _Turn) -> Memory:
        source = {"session": self.session, "turn": turn.number}
        size = self.vault.settings.page_size
        return Memory(self.core, self.archival, self.recall, transaction, size, source)

    def _messages(self, turn: _Turn, call: Call | Result, result: Result, text: str) -> list[Message]:
        if isinstance(call, Call) and call.function == "send_message" and result.ok:
            return [self._message(turn, "assistant", str(call.arguments["message"]))]
        shown = call_text(call.function, call.arguments) if isinstance(call, Call) else text
        return [self._message(turn, "call", shown), self._message(turn, "result", result.text)]

    def _ended(self, turn: _Turn, call: Call | Result, result: Result) -> str:
        """Why the turn ends here, or ''. Failures are counted by what was called with what."""
        settings = self.vault.settings
        if not result.ok:
            name = call.function if isinstance(call, Call) else ""
            turn.failures[name] = turn.failures.get(name, 0) + 1
            key = call_text(name, call.arguments) if isinstance(call, Call) else "no call"
            turn.failures[key] = turn.failures.get(key, 0) + 1
            if turn.failures[key] >= settings.max_failures + 1 or turn.failures.get("", 0) >= settings.max_failures:
                return f"the model made the same mistake {turn.failures[key]} times: {result.text}"
        elif isinstance(call, Call):
            if call.function == "send_message":
                return "answered"
            if settings.heartbeat == "requested" and not call.request_heartbeat:
                return "no heartbeat was requested"
        if turn.steps >= settings.max_steps:
            return f"the step limit of {settings.max_steps} is reached"
        return ""

    # -- the window ---------------------------------------------------------------------------------------------

    @property
    def window(self) -> int:
        """The context window in use, tokens."""
        return min(self.vault.settings.window, self.model.window)

    def capacity(self) -> int:
        """100 %: tokens of the window less those reserved for the reply."""
        return self.window - self.vault.settings.reply_reserve

    def prompt(self) -> Prompt:
        """What the model would see now."""
        return self._compile(self.queue.state())

    def _compile(self, state: QueueState, preview: int | None = None) -> Prompt:
        return compile_prompt(
            self.vault.read("system.md") or "",
            self.functions(),
            self.core.blocks(),
            self.archival.count(),
            state.evicted,
            state.summary,
            self.queue.messages(state),
            preview or self.capacity(),
        )

    def _measure(self, state: QueueState) -> int:
        return self.model.count(self._compile(state).turns)

    def _check_room(self, state: QueueState) -> None:
        """Refuse to start when what cannot be evicted leaves no room for a message."""
        bare = self._measure(QueueState(summary=state.summary))
        if bare + 64 > self.capacity():
            sizes = {"system.md": len(self.vault.read("system.md") or "")}
            sizes |= {f"core/{block.label}.yaml": block.used for block in self.core.blocks()}
            largest = max(sizes, key=lambda name: sizes[name])
            raise PromptTooLong(
                f"system instructions and core memory take {bare} of {self.capacity()} tokens; "
                f"shorten {largest} ({sizes[largest]} characters) or raise `window` in memory.yaml",
                path=self.vault.root / largest,
            )

    def _room(self, prompt: Prompt, wanted: int) -> int:
        return max(16, min(wanted, self.model.window - self.model.count(prompt.turns) - 1))

    def _relieve(self, turn: _Turn) -> tuple[list[Pass], list[Change]]:
        """Alert the model once above the warning share; flush above the whole (paper, section 2.2)."""
        state = self.queue.state()
        used, capacity, settings = self._measure(state), self.capacity(), self.vault.settings
        if used > capacity:
            return self._flush(turn, state, int(capacity * settings.flush_to))
        if used > capacity * settings.pressure and not state.alerted:

            def work(transaction: Transaction) -> None:
                now = replace(self.queue.state(), alerted=True)
                self.queue.push(transaction, now, [self._message(turn, "system", ALERT)])

            _, change = self.vault.transact(work, "Alert: memory pressure", trailers=self._trailers(turn))
            return [], [change] if change else []
        return [], []

    def _flush(self, turn: _Turn, state: QueueState, target: int) -> tuple[list[Pass], list[Change]]:
        passes: list[Pass] = []

        def summarise(summary: str, evicted: Sequence[Message]) -> str:
            return self._summarise(summary, evicted, passes)

        new, evicted = self.queue.flush(state, self._measure, target, summarise)
        if not evicted:
            return passes, []

        def work(transaction: Transaction) -> None:
            now = self.queue.state()
            if now != state:  # a person edited queue.yaml while the summary was being written: the edit stays
                new_now = replace(now, messages=tuple(ref for ref in now.messages if ref not in gone))
                self.queue.save(transaction, replace(new_now, evicted=new.evicted, alerted=False))
            else:
                self.queue.save(transaction, new)

        gone = {message.ref for message in evicted}
        subject = f"Flush: {len(evicted)} messages leave the context"
        _, change = self.vault.transact(work, subject, trailers=self._trailers(turn))
        return passes, [change] if change else []

    def _summarise(self, summary: str, evicted: Sequence[Message], passes: list[Pass]) -> str:
        """The model's own summary; where it gives none, the first sentence of each message."""
        budget = self.vault.settings.summary_tokens
        spoken = [message for message in evicted if message.role in ("user", "assistant")]

        def fits(text: str) -> bool:
            return self.model.count_text(text) <= budget

        fallback = first_sentences(summary, evicted, fits)
        while spoken:
            prompt = summary_prompt(summary, spoken)
            if self.model.count(prompt.turns) + budget < self.model.window:
                break
            spoken = spoken[len(spoken) // 2 + 1 :]
        if not spoken:
            return fallback
        completion = self.model.complete(prompt.turns, max_tokens=budget, slot=WORD, cancel=self.cancel)
        passes.append(Pass("summarise", prompt, completion))
        self._stop_if_cancelled(completion)
        words = completion.text.strip()
        return clean(words) if words and fits(words) and _is_about(words, summary, spoken) else fallback

    # -- small things -------------------------------------------------------------------------------------------

    def _stop_if_cancelled(self, completion: Completion) -> None:
        if completion.finish == "cancelled":
            raise KeyboardInterrupt

    def _message(self, turn: _Turn, role: MessageRole, content: str) -> Message:
        return Message(self.vault.new_id(), self.vault.now(), role, clean(content), self.session, turn.number)

    def _trailers(self, turn: _Turn, function: str = "") -> dict[str, str]:
        trailers = {"Session": self.session, "Turn": str(turn.number)}
        return {**trailers, "Function": function} if function else trailers

    def close(self) -> None:
        """Release the index and the vault; the model belongs to the caller."""
        self.search.close()
        self.vault.close()

    def __enter__(self) -> Agent:
        """Use the agent in a `with` statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        return f"Agent({self.vault.root.name}, {self.model.name}, turn {self.queue.state().turn})"


def _lines_once(block: Block) -> list[str]:
    """The lines of a block that are in it exactly once: those that a replace can name."""
    lines = block.value.split("\n")
    return [line for line in lines if line.strip() and block.value.count(line) == 1]


def reply_of(step: Step | None) -> str:
    """What the agent said in the last step of a turn; why it said nothing where it did not."""
    if step and step.call and step.call.function == "send_message" and step.result.ok:
        return str(step.call.arguments["message"])
    return f"(no answer: {step.ended})" if step else ""


def message_in(text: str) -> str:
    """The message in the wording pass's `{"message": "..."}`, also when it was cut off."""
    for end in ("", '"}', "}"):
        try:
            return str(json.loads(text + end)["message"]).strip()
        except (ValueError, KeyError, TypeError):
            continue
    return text.strip()


class _MessageStream:
    """Turns the pieces of `{"message": "..."}` into pieces of the message, as soon as they are whole characters."""

    _START = '{"message": "'

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._all = ""
        self._at = len(self._START)

    def __call__(self, piece: str) -> None:
        self._all += piece
        start, end = self._at, self._at
        while end < len(self._all) and self._all[end] != '"':
            step = 1 if self._all[end] != "\\" else 6 if self._all[end + 1 : end + 2] == "u" else 2
            if end + step > len(self._all):
                break
            end += step
        if end > start:
            self._on_text(json.loads(f'"{self._all[start:end]}"'))
        self._at = end


def _is_about(words: str, summary: str, messages: Sequence[Message]) -> bool:
    """Whether a summary shares enough with what it sums up to be one, and does not repeat itself."""
    known = (summary + " " + " ".join(message.content for message in messages)).casefold()
    mine = [word for word in words.casefold().split() if len(word) > 3]
    if not mine:
        return any(char in known for char in words if ord(char) > 0x2E80)
    shared = sum(word.strip(".,;:!?\"'()") in known for word in mine)
    return shared >= len(mine) * 0.4 and len(set(mine)) >= len(mine) * 0.3


__all__ = ["Agent", "MemoryFsError", "Pass", "Settings", "Step", "message_in", "reply_of"]
