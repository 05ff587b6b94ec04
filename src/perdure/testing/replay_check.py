"""Replays: an execution's own log fed to its code anew, which must ask for the same operations and come to the same end."""

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
"""The bytes of a value, wherever they are kept."""


def run_generator(asking: Generator[LoadBlob, bytes, T], payload: Payload) -> T:
    """Run a generator of the core to its end, fetching the blobs that it asks for."""
    answer: Any = None
    while True:
        try:
            asked = asking.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = payload(asked.blob)


def replay_differences(code: Workflow, key: Key, root: Key, events: Sequence[e.Event], payload: Payload, variables: Context | None = None) -> tuple[str, ...]:
    """How an execution of `code`, replayed over its whole log, differs from what is remembered, a line for each difference; none is as it should be."""
    execution, instance = Execution(key, root), program_of(code, key, variables)
    try:
        diverged = run_generator(replay_program(execution, events, instance, awake=True), payload)
        if isinstance(diverged, Diverged):
            return run_generator(explain_divergence(code, key, events, diverged), payload)
        if execution_facts(execution) != execution_facts(fold_events(key, events, root)):
            return ("rebuilt, it knows something else than its log says",)
        return _ends_as_it_did(execution, instance, payload)
    finally:
        instance.close()


def _ends_as_it_did(execution: Execution, instance: WorkflowProgram, payload: Payload) -> tuple[str, ...]:
    """Whether the workflow returned what it is remembered to have returned; what made it fail is not compared, for errors may tell of addresses and times."""
    ended, root = execution.ended, instance._root if isinstance(instance, CodeInstance) else None
    if ended is None or execution.completed is not None or not isinstance(ended.outcome, Success) or root is None:
        return ()
    if not root.done() or root.cancelled() or root.exception() is not None:
        return ("the workflow is remembered to have returned, and now it does not",)
    try:
        returned = values.encode(root.result(), "the result")
    except ProgrammingError as error:
        return (f"the workflow is remembered to have returned, and now: {error}",)
    remembered = payload(ended.outcome.value)
    if returned == remembered:
        return ()
    before, now = (values.decode(raw, Any, "the result") for raw in (remembered, returned))
    return (f"the workflow returned {before!r}, and now returns {now!r}",)
