"""What the loop hands out: a `Step` for each call of the model, with everything that led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_fs.change import Change
from memory_fs.events import Call, Event, Message, MessageRole, Result, clean
from memory_fs.formats.settings import Settings
from memory_fs.llm import Completion
from memory_fs.prompt import Prompt, call_text
from memory_fs.records import PageIn, Paging
from memory_fs.vault import Vault


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
        pages: the notes and messages that it brought into context.
    """

    event: Event
    passes: tuple[Pass, ...]
    call: Call | None
    result: Result
    changes: tuple[Change, ...]
    seconds: float
    final: bool = False
    ended: str = ""
    pages: tuple[PageIn, ...] = ()

    @property
    def prompt(self) -> Prompt:
        """What the first pass saw that decided or worded; empty where code decided."""
        return next((item.prompt for item in self.passes if item.kind != "summarise"), Prompt((), ()))

    @property
    def diff(self) -> str:
        """What the step wrote to core and archival memory, as a unified diff."""
        files = [file for change in self.changes for file in change.files]
        return "".join(text for path, text in files if not path.startswith(("recall/", "queue.yaml")))

    def tokens(self) -> dict[str, int]:
        """Tokens of all passes: `prompt`, `reused` (from the KV cache) and `generated`."""
        return tokens_of(self.passes)

    def __repr__(self) -> str:
        call = call_text(self.call.function, self.call.arguments) if self.call else "no call"
        model = sum(item.completion.seconds for item in self.passes)  # no wall time: one script, one picture
        return f"Step({call} -> {self.result.text[:60]!r}, {len(self.changes)} changes, model {model:.1f} s)"

    def _repr_html_(self) -> str:
        from memory_fs import notebook

        return notebook.step(self).html()

    def _repr_markdown_(self) -> str:
        from memory_fs import notebook

        return notebook.step(self).markdown()


def tokens_of(passes: Sequence[Pass]) -> dict[str, int]:
    """Tokens of some passes: `prompt`, `reused` and `generated`."""
    done = [item.completion for item in passes]
    return {
        "prompt": sum(c.prompt_tokens for c in done),
        "reused": sum(c.reused_tokens for c in done),
        "generated": sum(c.generated_tokens for c in done),
    }


@dataclass
class Turn:
    """What one turn has come to so far.

    Attributes:
        evidence: what its searches brought up.
        failures: how often a function, or one call to the letter, failed.
        done: functions that were called with success.
        failed: the messages of a failed call, which leave the context with the next call.
        called: calls that were made with success, to the letter.
        repeated: the function of a call that was just made again; it is left out of the next step.
        paging: the notes and messages that it brought into context.
        answerable: whether memory was found to hold what the message asks for.
        warned: whether the memory-pressure alert came in it.
        last: what the last call came to; None before the first.
        both: what an append says next to a line that it seemed to clash with: asked once, the model decides.
    """

    event: Event
    session: str
    number: int
    steps: int = 0
    evidence: list[str] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    failed: list[Message] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    repeated: str = ""
    answerable: bool = False
    warned: bool = False
    last: Result | None = None
    both: str = ""
    paging: Paging = field(init=False)

    def __post_init__(self) -> None:
        self.paging = Paging(self.number)

    def made(self, call: Call) -> bool:
        """Whether exactly this call was made in this turn, with success."""
        return call_text(call.function, call.arguments) in self.called

    def note(self, call: Call, result: Result, once: bool) -> None:
        """Keep what a call came to.

        Args:
            call: as it was made.
            result: what came of it.
            once: whether making it again in this turn could only waste a step.
        """
        self.repeated = call.function if self.made(call) else ""
        self.last = result
        if result.ready and not result.sure:
            self.both = str(result.ready.arguments["new_content"])
        if result.ok:
            self.done.add(call.function)
            self.called |= {call_text(call.function, call.arguments)} if once else set()

    @property
    def said(self) -> str:
        """What the person said; nothing when it was an interrupt."""
        return self.event.text if self.event.kind == "user" else ""

    def ended(self, call: Call | Result, result: Result, settings: Settings) -> str:
        """Why the turn ends with this call, or ''. Failures are counted by what was called with what."""
        if not result.ok and result.ready is None:
            name = call.function if isinstance(call, Call) else ""
            key = call_text(name, call.arguments) if isinstance(call, Call) else "no call"
            for failed in (name, key):
                self.failures[failed] = self.failures.get(failed, 0) + 1
            if self.failures[key] >= settings.max_failures or self.failures.get("", 0) >= settings.max_failures:
                return f"the model made the same mistake {self.failures[key]} times: {result.text}"
        elif result.ok and isinstance(call, Call):
            if call.function == "send_message":
                return "answered"
            if settings.heartbeat == "requested" and not call.request_heartbeat:
                return "no heartbeat was requested"
        if self.steps >= settings.max_steps:
            return f"the step limit of {settings.max_steps} is reached"
        return ""

    def message(self, vault: Vault, role: MessageRole, content: str) -> Message:
        """A new message of this turn."""
        return Message(vault.new_id(), vault.now(), role, clean(content), self.session, self.number)

    def trailers(self, function: str = "") -> dict[str, str]:
        """What a commit of this turn says of where it comes from."""
        trailers = {"Session": self.session, "Turn": str(self.number)}
        return {**trailers, "Function": function} if function else trailers


def reason_of(call: Call | Result) -> dict[str, str]:
    """What a commit says of why, where the call gave a reason."""
    reason = call.arguments.get("reason") if isinstance(call, Call) else None
    return {"Reason": reason[:200]} if isinstance(reason, str) and reason.strip() else {}


def reply_of(step: Step | None) -> str:
    """What the agent said in the last step of a turn; why it said nothing where it did not."""
    if step and step.call and step.call.function == "send_message" and step.result.ok:
        return str(step.call.arguments["message"])
    return f"(no answer: {step.ended})" if step else ""
