"""Children: executions that a workflow starts, and how it takes what comes of them.

A child that is called is awaited; should it fail, it may be started anew as another execution, at a path of its own. One that is
started goes on by itself. Its id follows from where it is called, unless one is given; a child that exists already is joined.
"""

from hashlib import sha256
from typing import Any

import msgspec

from perdure.code.code_program import CodeProgram
from perdure.code.declarations import CodeWorkflow
from perdure.code.results import Ok
from perdure.core import limits
from perdure.core.errors import ChildFailed, ErrorInfo, TooDeep
from perdure.core.operations import Failure, Outcome, SleepOperation, SpawnOperation, Success
from perdure.core.paths import Path, idempotency_key, path_text

ID_CHARACTERS_MAX = 200

RESTARTED_STATUSES = ("failed", "deadline_exceeded")
"""How a child must have ended to be started anew; one that was cancelled is not wanted any more."""


def child_operation(program: CodeProgram, path: Path, workflow: CodeWorkflow, given: tuple[tuple[Any, ...], dict[str, Any]], awaited: bool) -> SpawnOperation:
    """The operation of a child at `path`, started with the arguments `given`.

    Raises:
        TooDeep: so many executions stand above it that it is taken for a recursion without end.
    """
    execution, calling = program.execution, workflow.calling
    if execution.depth >= limits.DEPTH_MAX:
        raise TooDeep(path_text(path), limits.DEPTH_MAX)
    queue, lane, priority = workflow.place(execution.key.tenant, *given)
    return SpawnOperation(
        workflow.name,
        calling.id or child_id(idempotency_key(execution.key, path)),
        workflow.version,
        workflow.codec.encode_args(*given, "the input of", path),
        awaited,
        workflow.deadline_s,
        undo=calling.undo and awaited,
        on_cancel=calling.on_cancel if awaited else "detach",
        queue=queue,
        lane=lane,
        priority=priority,
        attributes=calling.attributes,
        grace_s=workflow.grace_s,
    )


def child_id(place: str) -> str:
    """The id of a child that was given none: where it was started, or a hash of that if it is long, as it is with children of children."""
    return place if len(place) <= ID_CHARACTERS_MAX else sha256(place.encode()).hexdigest()[:32]


async def call_child(program: CodeProgram, path: Path, op: SpawnOperation, workflow: CodeWorkflow) -> Any:
    """Wait for a child; return its result.

    Raises:
        ChildFailed: it failed or was cancelled, the last time that it was started.
    """
    outcome, _ = await _child_outcome(program, path, op, workflow)
    if isinstance(outcome, Failure):
        raise ChildFailed(path_text(path), outcome.kind, outcome.error)
    return program.decode(outcome.value, workflow.codec.result, path)


async def attempt_child(program: CodeProgram, path: Path, op: SpawnOperation, workflow: CodeWorkflow) -> Any:
    """Wait for a child; return how it ended, as data."""
    outcome, times = await _child_outcome(program, path, op, workflow)
    if isinstance(outcome, Failure):
        return Failure(outcome.kind, times, outcome.error)
    return Ok(program.decode(outcome.value, workflow.codec.result, path))


async def _child_outcome(program: CodeProgram, path: Path, op: SpawnOperation, workflow: CodeWorkflow) -> tuple[Outcome, int]:
    """How the child ended, and how many times it was started for that."""
    outcome = (await program.settle(path, op)).outcome
    rule, times = workflow.calling.rule, 1
    while isinstance(outcome, Failure) and outcome.kind in RESTARTED_STATUSES and times < rule.max:
        wait_s = rule.delay_s(times, f"{program.execution.key}:{path}:{times}")
        await program.settle((*path, ("wait", times)), SleepOperation(wait_s))
        times += 1
        outcome = (await program.settle((*path, ("again", times)), msgspec.structs.replace(op, id=f"{op.id}#{times}"))).outcome
    nothing = Failure("failed", 1, ErrorInfo("Unknown", "it is not remembered how it ended"))
    return (outcome if isinstance(outcome, Success | Failure) else nothing), times
