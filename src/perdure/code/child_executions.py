"""Child executions: the operation that starts one, and the wait for its result.

A called child is awaited. If it fails, it may be started again as another execution, with a path of its own. A child that is only started continues
without its parent. The id of a child is derived from the path of the call unless one is given; if an execution with that id exists, the call joins it.
"""

from hashlib import sha256
from typing import Any

import msgspec

from perdure.code.code_program import CodeProgram
from perdure.code.declarations import CodeWorkflow
from perdure.code.results import Ok
from perdure.core import error_codes, limits
from perdure.core.errors import ChildFailed, ErrorInfo, TooDeep
from perdure.core.operations import Failure, Outcome, SleepOperation, SpawnOperation, Success
from perdure.core.paths import Path, idempotency_key, path_text

ID_CHARACTERS_MAX = 200

RESTARTED_STATUSES = ("failed", "deadline_exceeded")
"""The statuses after which a failed child may be started again. A cancelled child is not among them, as its result is no longer wanted."""


def child_operation(program: CodeProgram, path: Path, workflow: CodeWorkflow, given: tuple[tuple[Any, ...], dict[str, Any]], awaited: bool) -> SpawnOperation:
    """Returns the operation of a child at `path`, started with the arguments `given`.

    Raises:
        TooDeep: it has so many ancestors that it is taken for an endless recursion.
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
    """Returns the default id of a child: the key of the call, or its hash if the key is long, as for children of children."""
    return place if len(place) <= ID_CHARACTERS_MAX else sha256(place.encode()).hexdigest()[:32]


async def call_child(program: CodeProgram, path: Path, op: SpawnOperation, workflow: CodeWorkflow) -> Any:
    """Waits for a child and returns its result.

    Raises:
        ChildFailed: its last start failed or was cancelled.
    """
    outcome, _ = await _child_outcome(program, path, op, workflow)
    if isinstance(outcome, Failure):
        raise ChildFailed(path_text(path), outcome.kind, outcome.error)
    return program.decode(outcome.value, workflow.codec.result, path)


async def attempt_child(program: CodeProgram, path: Path, op: SpawnOperation, workflow: CodeWorkflow) -> Any:
    """Waits for a child and returns its outcome as data."""
    outcome, times = await _child_outcome(program, path, op, workflow)
    if isinstance(outcome, Failure):
        return Failure(outcome.kind, times, outcome.error)
    return Ok(program.decode(outcome.value, workflow.codec.result, path))


async def _child_outcome(program: CodeProgram, path: Path, op: SpawnOperation, workflow: CodeWorkflow) -> tuple[Outcome, int]:
    """Returns the outcome of the child, and how many times it was started."""
    outcome = (await program.settle(path, op)).outcome
    rule, times = workflow.calling.rule, 1
    while isinstance(outcome, Failure) and outcome.kind in RESTARTED_STATUSES and times < rule.max:
        wait_s = rule.delay_s(times, f"{program.execution.key}:{path}:{times}")
        await program.settle((*path, ("wait", times)), SleepOperation(wait_s))
        times += 1
        outcome = (await program.settle((*path, ("again", times)), msgspec.structs.replace(op, id=f"{op.id}#{times}"))).outcome
    nothing = Failure("failed", 1, ErrorInfo(error_codes.OUTCOME_UNKNOWN, "the log no longer holds how the child ended"))
    return (outcome if isinstance(outcome, Success | Failure) else nothing), times
