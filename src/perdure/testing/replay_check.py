"""Replays an execution's own log over its code, which must ask for the same operations and return the same result."""

from collections.abc import Callable, Generator, Sequence
from contextvars import Context
from typing import Any, TypeVar

from perdure.code.code_program import CodeProgram as CodeInstance
from perdure.core import events as e
from perdure.core import values
from perdure.core.errors import Diverged, ProgrammingError
from perdure.core.execution import Execution, execution_facts
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.core.replay import LoadBlob, fold_events, replay_program
from perdure.core.values import Value
from perdure.runtime.workflow_programs import Workflow, WorkflowProgram, explain_divergence, program_of

T = TypeVar("T")

Payload = Callable[[Value], bytes]
"""Returns the bytes of a value, from its blob if it is large."""


def run_generator(generator: Generator[LoadBlob, bytes, T], payload: Payload) -> T:
    """Runs a generator of the core to its end, and fetches the blobs that it requests."""
    answer: Any = None
    while True:
        try:
            request = generator.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = payload(request.blob)


def replay_differences(code: Workflow, key: Key, root: Key, events: Sequence[e.Event], payload: Payload, variables: Context | None = None) -> tuple[str, ...]:
    """Replays the whole log of an execution; returns the differences, a line each. An empty tuple means that there are none."""
    execution, instance = Execution(key, root), program_of(code, key, variables)
    try:
        diverged = run_generator(replay_program(execution, events, instance, awake=True), payload)
        if isinstance(diverged, Diverged):
            return run_generator(explain_divergence(code, key, events, diverged), payload)
        if execution_facts(execution) != execution_facts(fold_events(key, events, root)):
            return ("the state after the replay differs from the fold of the log",)
        return _ends_as_it_did(execution, instance, payload)
    finally:
        instance.close()


def _ends_as_it_did(execution: Execution, instance: WorkflowProgram, payload: Payload) -> tuple[str, ...]:
    """Compares the returned value with the recorded one. Failures are not compared, because errors may mention addresses and times."""
    ended, root = execution.ended, instance._root if isinstance(instance, CodeInstance) else None
    if ended is None or execution.completed is not None or not isinstance(ended.outcome, Success) or root is None:
        return ()
    if not root.done() or root.cancelled() or root.exception() is not None:
        return ("the log has a result of the workflow, and now it does not return",)
    try:
        returned = values.encode(root.result(), "the result")
    except ProgrammingError as error:
        return (f"the log has a result of the workflow, and now it fails: {error}",)
    remembered = payload(ended.outcome.value)
    if returned == remembered:
        return ()
    before, now = (values.decode(raw, Any, "the result") for raw in (remembered, returned))
    return (f"the workflow returned {before!r}, and now returns {now!r}",)
