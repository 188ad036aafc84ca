"""The agent: one loop, used by the shell, the notebooks and the tests alike.

    event -> queue -> prompt -> model -> call -> executor -> files -> Step

`Agent.run(text)` yields one `Step` for each call that the model makes; `send_message` ends the turn. The model decides
and words in two passes: one chooses the next call and says what is known and what is missing, the other words the
message from the question and its evidence alone, because a small model does both badly at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memory_fs import edits
from memory_fs.answering import Answering
from memory_fs.archival import Archival
from memory_fs.change import Change
from memory_fs.core import Core
from memory_fs.corrections import Corrections
from memory_fs.errors import FunctionError
from memory_fs.events import Call, Event, Message, Result
from memory_fs.evidence import Evidence
from memory_fs.executor import Executor
from memory_fs.formats.settings import QueueState
from memory_fs.functions import Function, FunctionTable
from memory_fs.llm import Flag, Model
from memory_fs.memory_functions import PAPER, WRITING, Memory, default_table
from memory_fs.offer import offer, refusal, revised, verbatim
from memory_fs.pager import Pager
from memory_fs.policy import judges
from memory_fs.pressure import MemoryPressure
from memory_fs.prompt import Prompt, call_text, compile_prompt
from memory_fs.queue_manager import QueueManager
from memory_fs.recall import Recall
from memory_fs.search import Search
from memory_fs.steps import Pass, Step, Turn, reason_of, reply_of, tokens_of
from memory_fs.vault import Transaction, Vault
from memory_fs.write_back import WriteBack
from memory_fs.writer import Writer

CALL_TOKENS = 400  # the longest call the model may write, tokens
DECIDE = 0  # the model's KV cache for this prompt; the writer has another


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
        read_only: bool = False,
        on_text: Callable[[str], None] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Open an agent.

        Args:
            vault: an open vault, or its folder.
            model: any `Model`.
            functions: a person's own typed Python functions, offered next to MemGPT's.
            table: all functions, instead of the default table.
            read_only: whether core and archival memory stay as they are; what is said is still kept in recall.
            on_text: called with each piece of a message to the user while it is written.
            say: called with one line for things worth knowing, such as a rebuilt index.

        Raises:
            VaultError: the folder is no vault.
        """
        self.vault = vault if isinstance(vault, Vault) else Vault(vault)
        self.search = Search(self.vault, say)
        self.core = Core(self.vault)
        self.archival = Archival(self.search)
        self.recall = Recall(self.search)
        self.queue = QueueManager(self.vault, self.recall)
        evidence = Evidence(self.search, Corrections(self.vault).outdated)
        self.pager = Pager(
            self.search, evidence, lambda: self.vault.settings, lambda text: self._model.count_text(text)
        )
        self.table = table or default_table()
        self.executor = Executor(self.table, read_only)
        self.own = tuple(self.table.add(function).name for function in functions)
        self._write_back = WriteBack(
            self.core,
            self.archival,
            self.pager.counters,
            lambda: self.vault.settings.has("write_back") and not read_only,
        )
        self.on_text = on_text
        self._say = say
        self.cancel = Flag()
        self.model = model
        self.session = f"{self.vault.now():%Y-%m-%d}-{self.vault.new_id()[:4]}"

    @property
    def model(self) -> Model:
        """The model that decides and words; another one may take over between two turns."""
        return self._model

    @model.setter
    def model(self, model: Model) -> None:
        self._model = model
        self._writer = Writer(model, self.cancel)
        self._answering = Answering(self.vault, self.core, self.queue, self.pager, self._writer, self.cancel)
        self._pressure = MemoryPressure(
            self.vault, model, self.queue, self._writer, self._write_back, self._compile, self.executor.read_only
        )

    def warm(self) -> None:
        """Let the model read the instructions before the first message comes; quick when it has read them before."""
        self.model.complete(self.prompt().turns[:1], max_tokens=1, slot=DECIDE, cancel=self.cancel)
        self._writer.warm(self.core.blocks())

    def call(self, function: str, arguments: Mapping[str, object]) -> tuple[Result, Change | None]:
        """Run one function as the model would, outside any conversation."""

        def work(transaction: Transaction) -> Result:
            return self.executor.run(made, self._memory(transaction))

        made = Call(function, dict(arguments))
        trailers = {"Session": self.session, "Function": function[:60], **reason_of(made)}
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
            if step.final:
                self.vault.settle()
            yield step
            if step.final:
                return

    def step(self, event: str | Event) -> Step:
        """Handle an event up to its first call; iterate `run` for all of them."""
        return next(self.run(event))

    def _begin(self, event: Event) -> Turn:
        """Take hand edits into history, then write the event to recall and the queue: from here on it is safe."""
        found = self.vault.adopt()
        for line in found.announced() if found and self.vault.history.parent(found.rev) else ():
            self._say(line)
        told = edits.told(edits.edits(self.vault.history)) if self.queue.state().messages else ""
        turn = Turn(event, self.session, self.queue.state().turn + 1)

        def work(transaction: Transaction) -> None:
            now = replace(self.queue.state(), turn=turn.number)
            messages = [turn.message(self.vault, "system", told)] if told else []
            messages.append(turn.message(self.vault, event.kind, event.text))
            turn.paging.before = messages[-1].time
            self.queue.push(transaction, now, messages)

        self.vault.transact(work, f"{edits.RECEIVED} {event.kind} message", trailers=turn.trailers())
        self._pressure.check_room(self.core)
        return turn

    def _step(self, turn: Turn) -> Step:
        """One call: relieve the window, decide, word, execute, write."""
        start = time.perf_counter()
        turn.steps += 1
        passes, changes = self._pressure.relieve(turn)
        known = len(turn.paging.pages)
        if turn.steps == 1:
            turn.answerable = self._answering.page_in(turn)
        blocks, settings = self.core.blocks(), self.vault.settings
        offered, rules = offer(turn, blocks, self.functions(), settings)
        call = revised(turn, blocks, offered, settings) or self._decide(turn, offered, rules, passes)
        call = verbatim(call, turn, blocks, settings) if isinstance(call, Call) else call
        if isinstance(call, Call) and call.function == "send_message" and "message" not in call.arguments:
            text = self._answering.word(turn, self.window, self.on_text, passes)
            call = replace(call, arguments={"message": text})
        result, change = self._execute(turn, call, offered, passes)
        ended = turn.ended(call, result, self.vault.settings)
        if change:
            changes.append(change)
        seconds = time.perf_counter() - start
        proposed = call if isinstance(call, Call) else None
        pages = tuple(turn.paging.pages[known:])
        return Step(turn.event, tuple(passes), proposed, result, tuple(changes), seconds, bool(ended), ended, pages)

    # -- deciding and wording -----------------------------------------------------------------------------------

    def _decide(self, turn: Turn, offered: Sequence[Function], rules: str, passes: list[Pass]) -> Call | Result:
        """The first pass: choose the next call. Where only an answer is left, there is nothing to choose.

        What somebody tells is held against core memory alone, without the earlier talk: a small model judges better by
        it, and a block that grows by a line costs that line, not the whole queue behind it.
        """
        worded = self.vault.settings.has("wording")
        if worded and [function.name for function in offered] == ["send_message"]:
            return Call("send_message", missing="nothing")
        state = self.queue.state()
        if judges(turn.said):
            mine = [m.ref for m in self.queue.messages(state) if (m.session, m.turn) == (turn.session, turn.number)]
            state = replace(state, messages=tuple(mine), summary="")
        prompt = self._compile(state, () if worded else self._answering.evidence(turn, self.window))
        completion = self.model.complete(
            prompt.turns, grammar=rules, max_tokens=self._room(prompt, CALL_TOKENS), slot=DECIDE, cancel=self.cancel
        )
        passes.append(Pass("decide", prompt, completion))
        if completion.finish == "cancelled":
            raise KeyboardInterrupt
        return self.executor.read(completion.text)

    def functions(self) -> list[Function]:
        """The functions that memory.yaml offers, and a person's own; in a read-only session none that writes."""
        names = ["send_message", *(self.vault.settings.functions or PAPER), *self.own]
        return self.table.select([name for name in names if not (self.executor.read_only and name in WRITING)])

    def _execute(
        self, turn: Turn, call: Call | Result, offered: Sequence[Function], passes: Sequence[Pass]
    ) -> tuple[Result, Change | None]:
        """Run the call and write call and result to recall and the queue, all as one change."""
        text = next((item.completion.text for item in passes if item.kind == "decide"), "")
        name = call.function if isinstance(call, Call) else ""
        refused = refusal(turn, call, offered, self.vault.settings) if isinstance(call, Call) else None
        self.pager.counters.refused += refused is not None

        def work(transaction: Transaction) -> tuple[Result, list[Message]]:
            memory = self._memory(transaction, turn)
            result = refused or self.executor.run(call, memory) if isinstance(call, Call) else call
            messages = self._messages(turn, call, result, text)
            self.pager.searched(turn.paging, memory.pages, memory.why)
            now = self.pager.keep(self.queue.state(), turn.paging, self.window)
            # A failed attempt leaves the context with the next call: a small model copies what it sees.
            self.queue.push(transaction, self.queue.drop(transaction, now, turn.failed), messages)
            return result, messages

        def subject(done: tuple[Result, list[Message]]) -> str:
            return f"{name or 'no call'}: {done[0].text[:100]}"

        trailers = {**turn.trailers(name), **reason_of(call)}
        trailers["Tokens"] = "/".join(str(number) for number in tokens_of(passes).values())
        (result, messages), change = self.vault.transact(work, subject, trailers=trailers)
        if result.ok and name in self.own:  # what a person's function says is what the answer is worded from
            turn.evidence.append(f"{call_text(name, call.arguments if isinstance(call, Call) else {})}\n{result.text}")
        turn.failed = [] if result.ok else messages
        if isinstance(call, Call):  # what a person's function says may differ from call to call
            turn.note(call, result, once=name not in self.own)
        return result, change

    def _memory(self, transaction: Transaction, turn: Turn | None = None) -> Memory:
        settings, source = self.vault.settings, {"session": self.session, **({"turn": turn.number} if turn else {})}
        memory = Memory(self.core, self.archival, self.recall, transaction, settings.page_size, source)
        memory.clashes = settings.has("clashes")
        if turn:
            memory.before, memory.both = turn.paging.before, turn.both
        return memory

    def _messages(self, turn: Turn, call: Call | Result, result: Result, text: str) -> list[Message]:
        if isinstance(call, Call) and call.function == "send_message" and result.ok:
            return [turn.message(self.vault, "assistant", str(call.arguments["message"]))]
        shown = call_text(call.function, call.arguments) if isinstance(call, Call) else text
        return [turn.message(self.vault, "call", shown), turn.message(self.vault, "result", result.text)]

    # -- the prompt ---------------------------------------------------------------------------------------------

    @property
    def window(self) -> int:
        """The context window in use, tokens."""
        return self._pressure.window

    def prompt(self) -> Prompt:
        """What the model would see now."""
        self.vault.files()  # a note that a person added counts
        return self._compile(self.queue.state())

    def _compile(self, state: QueueState, evidence: Sequence[str] = ()) -> Prompt:
        return compile_prompt(
            self.vault.read("system.md") or "",
            self.functions(),
            self.core.blocks(),
            self.archival.count(),
            state.evicted,
            state.summary,
            self.queue.messages(state),
            self._pressure.preview,
            evidence,
        )

    def _room(self, prompt: Prompt, wanted: int) -> int:
        return max(16, min(wanted, self.model.window - self.model.count(prompt.turns) - 1))

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

    def _repr_html_(self) -> str:
        from memory_fs import notebook

        return notebook.agent(self).html()

    def _repr_markdown_(self) -> str:
        from memory_fs import notebook

        return notebook.agent(self).markdown()


__all__ = ["Agent", "Pass", "Step", "reply_of"]
