"""The function executor (paper, section 2.3): a completion becomes a call, a call becomes a result.

A model's mistake is a result that says what to do next, never an exception; what the failed call staged is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from memory_fs.errors import FunctionError, MemoryFsError
from memory_fs.events import Call, Result
from memory_fs.functions import FunctionTable, parse_call
from memory_fs.memory_functions import WRITING, Memory

READ_ONLY = "error: this session is read-only: nothing is written to core or archival memory"


@dataclass
class Executor:
    """Runs calls against one table of functions.

    Attributes:
        table: the functions.
        read_only: whether what writes to core or archival memory is refused, a person's own function as well.
    """

    table: FunctionTable
    read_only: bool = False

    def read(self, completion: str) -> Call | Result:
        """The call that a completion proposes, or the result that says why it is none."""
        try:
            found = parse_call(completion)
        except FunctionError as error:
            return Result(False, str(error))
        arguments = dict(found.get("arguments", {}))
        return Call(
            function=found["function"],
            request_heartbeat=arguments.pop("request_heartbeat", False) is True,
            arguments=arguments,
            known=str(found.get("known", "")),
            missing=str(found.get("missing", "")),
        )

    def run(self, call: Call, memory: Memory) -> Result:
        """Execute a call."""
        staged = set(memory.transaction.staged)
        if self.read_only and call.function in WRITING:
            return Result(False, READ_ONLY)
        try:
            function = self.table.get(call.function)
            arguments = function.check(call.arguments)
            value = function.run(memory, **arguments) if function.wants_memory else function.run(**arguments)
        except MemoryFsError as error:
            memory.transaction.keep_only(staged)
            return Result(False, f"error: {error}", memory.ready, memory.sure)
        except Exception as error:
            # A person's own function may fail in any way: the model is told, the turn goes on.
            memory.transaction.keep_only(staged)
            return Result(False, f"error: {call.function} failed: {type(error).__name__}: {error}"[:500])
        if self.read_only and memory.transaction.staged.keys() - staged:
            memory.transaction.keep_only(staged)
            return Result(False, READ_ONLY)
        return Result(True, value if isinstance(value, str) else str(value))
