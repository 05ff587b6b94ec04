"""Says in a sentence why an execution does not go on, or how it ended, what to do about it, and the facts of the sentence as data.

What follows from the log, and from the approval that it waits for, is also known of an execution as it was earlier. Of the present, the sentence has in
addition what processes say: whether an engine or a worker is there, and whether a queue is full.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from perdure.code.approval_requests import ApprovalState
from perdure.code.branches import branch_count
from perdure.core import views
from perdure.core.errors import Ambiguous, BadValue, ErrorInfo, NotFound
from perdure.core.execution import Execution
from perdure.core.failure_causes import failure_cause
from perdure.core.operation_state import PendingOperation
from perdure.core.operations import APPROVAL_WORKFLOW, CallOperation, KeepOperation, ReceiveOperation, SleepOperation, SpawnOperation, operation_target
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.program import is_hosted
from perdure.core.step_attempts import StepAttempt
from perdure.runtime.holder import ProcessInfo
from perdure.service.catalog_references import resolve_reference
from perdure.service.missing_parts import START_ENGINE, live_processes, missing_engine, missing_worker
from perdure.stores.protocol import Head, Store

ReasonCode = Literal[
    "completed",
    "failed",
    "cancelled",
    "not_started",
    "paused",
    "needs_attention",
    "ending",
    "undoing",
    "deciding",
    "performing",
    "queue",
    "queue_full",
    "retry",
    "interrupted",
    "sleep",
    "message",
    "approval",
    "child",
    "engine",
    "worker",
]

PEOPLE_SHOWN = 3
"""How many people a sentence names."""


class ExecutionReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why an execution does not go on, or how it ended: a sentence without capital and full stop, what to do about it (empty: nothing), and its facts.

    `code` says which facts there are. `step` is the path of the operation that it is about, `target` what that calls, waits for or starts, and `key` the child
    or approval. It goes on at `at_s`, or at the latest then (`is_deadline`). `attempt` numbers the attempt of a call that runs or comes next, after the
    `error` of the one before. `people` may decide (empty: anybody). Of `queue`, `in_flight` of `limit` tasks run. Of `branches`, `open_branches` are still
    open. `others` counts the other operations that are open.
    """

    code: ReasonCode
    text: str
    remedy: str = ""
    step: str = ""
    target: str = ""
    key: Key | None = None
    at_s: float | None = None
    is_deadline: bool = False
    attempt: int = 0
    error: ErrorInfo | None = None
    people: list[str] = []
    queue: str = ""
    in_flight: int = 0
    limit: int | None = None
    branches: int = 0
    open_branches: int = 0
    others: int = 0


Attempts = Mapping[Path, Sequence[StepAttempt]]


# From the log


def reason_from_log(execution: Execution, attempts: Attempts, approval: ApprovalState | None = None) -> ExecutionReason:
    """The reason as far as it follows from the log, and from the state of the approval that the execution waits for first, if that is known."""
    if execution.ended is not None:
        return _end(execution)
    if execution.parked is not None:
        return _parked(execution)
    if execution.started is None:
        return ExecutionReason(code="not_started", text="it has not started")
    if execution.opened.cancelled():
        return ExecutionReason(code="ending", text=views.status_reason(execution))
    first = _first(execution)
    if first is None:
        return ExecutionReason(code="deciding", text="it is being decided")
    found = _of_operation(first, attempts.get(first.path, ()))
    others, (branches, opened, is_race) = len(execution.open) - 1, _branches(execution)
    if branches:
        of = f"the first of {branches} branches" if is_race else f"{opened} of {branches} branches"
        found = msgspec.structs.replace(found, text=f"waits for {of}: {found.text}", branches=branches, open_branches=opened)
    more = f", and {others} more" if others else ""
    found = msgspec.structs.replace(found, text=f"{found.text}{more}", others=others)
    if found.code == "approval" and approval is not None:
        found = _with_approval(found, approval)
    return msgspec.structs.replace(found, key=_child(execution, found.step)) if found.code in ("approval", "child") else found


def _end(execution: Execution) -> ExecutionReason:
    text = views.status_reason(execution)
    if execution.status == "completed":
        return ExecutionReason(code="completed", text=text)
    cause = failure_cause(execution)
    if cause is None:
        return ExecutionReason(code="cancelled" if execution.status == "cancelled" else "failed", text=text)
    where = path_text(cause.path)
    said = f"failed at {where}: {cause.error.line}" if where else text
    return ExecutionReason(code="failed", text=said, remedy="Retry it once the cause is mended, or fork it from an earlier step", step=where, error=cause.error)


def _parked(execution: Execution) -> ExecutionReason:
    parked, text = execution.parked, views.status_reason(execution)
    assert parked is not None, "the caller has looked"
    if parked.reason == "paused":
        return ExecutionReason(code="paused", text=text, remedy="Resume it")
    error = ErrorInfo(parked.reason, "; ".join(parked.detail))
    return ExecutionReason(code="needs_attention", text=text, remedy=_REMEDIES[parked.reason], step=path_text(parked.path), error=error)


_REMEDIES = {
    "diverged": "Resume it on the code that it was started with, or retry it from a step",
    "interrupted": "Find out whether the step has had its effect, then resume it to perform the step again, or set the result of the step",
    "undo": "Undo the step by hand, then resume it",
}


def _first(execution: Execution) -> PendingOperation | None:
    """The open operation that the sentence is about: one that people or workers have to act on before one that goes on by itself."""
    return min(execution.open.values(), key=lambda pending: (_rank(pending), pending.number), default=None)


def _rank(pending: PendingOperation) -> int:
    if pending.state == "performing":
        return 0
    if pending.state in ("parked", "interrupted", "retrying"):
        return 1
    match pending.op:
        case SpawnOperation(workflow=workflow):
            return 2 if workflow == APPROVAL_WORKFLOW else 4
        case CallOperation():
            return 3
        case ReceiveOperation():
            return 5
    return 6


def _of_operation(pending: PendingOperation, attempts: Sequence[StepAttempt]) -> ExecutionReason:
    """What one open operation waits for, or does."""
    path, op, shown = pending.path, pending.op, path_text(pending.path)
    if path[0] == UNDO and pending.state == "performing":
        return ExecutionReason(code="undoing", text=f"undoes {path_text(path[1:])}", step=shown)
    match pending.state:
        case "performing":
            nth = f", attempt {pending.attempt}" if pending.attempt > 1 else ""
            return ExecutionReason(code="performing", text=f"runs {shown}{nth}", step=shown, target=operation_target(op), attempt=pending.attempt)
        case "retrying" | "interrupted":
            return _next_attempt(pending, attempts)
    match op:
        case CallOperation():
            text = f"waits for {shown} in queue {op.queue}" if op.queue else f"waits to run {shown}"  # the log does not say when a worker takes it
            return ExecutionReason(code="queue", text=text, step=shown, target=operation_target(op), queue=op.queue, attempt=pending.attempt)
        case SleepOperation():
            until = "" if pending.due_at_s is None else f" until {time_text(pending.due_at_s)}"
            return ExecutionReason(code="sleep", text=f"sleeps{until} ({shown})", step=shown, at_s=pending.due_at_s)
        case ReceiveOperation(names=names):
            due = "" if pending.due_at_s is None else f", until {time_text(pending.due_at_s)}"
            text = f"waits for the message {' or '.join(names)} ({shown}){due}"
            return ExecutionReason(
                code="message", text=text, step=shown, target=", ".join(names), at_s=pending.due_at_s, is_deadline=pending.due_at_s is not None
            )
        case SpawnOperation(workflow=workflow, id=id):
            is_approval = workflow == APPROVAL_WORKFLOW
            text = f"waits for the approval {shown}" if is_approval else f"waits for its child {workflow}/{id} ({shown})"
            return ExecutionReason(code="approval" if is_approval else "child", text=text, step=shown, target="" if is_approval else workflow)
    return ExecutionReason(code="deciding", text=f"waits for {shown}", step=shown)


def _next_attempt(pending: PendingOperation, attempts: Sequence[StepAttempt]) -> ExecutionReason:
    shown, is_interrupted = path_text(pending.path), pending.state == "interrupted"
    error = next((one.error for one in reversed(attempts) if one.error is not None), None)
    following = len(attempts) + 1 if attempts else pending.attempt + 1
    at = "" if pending.due_at_s is None else f" at {time_text(pending.due_at_s)}"
    after = ", after its process was lost" if is_interrupted else "" if error is None else f", after {error.line}"
    return ExecutionReason(
        code="interrupted" if is_interrupted else "retry",
        text=f"tries {shown} again (attempt {following}){at}{after}",
        step=shown,
        target=operation_target(pending.op),
        at_s=pending.due_at_s,
        attempt=following,
        error=None if is_interrupted else error,
    )


def _branches(execution: Execution) -> tuple[int, int, bool]:
    """How many branches the innermost join or race of code has that contains all open operations, in how many of these something is open, and whether it is a
    race. Nothing is open beside it. (0, 0, False): there is none.
    """
    opened = list(execution.open)
    for depth in range(min(map(len, opened), default=0) - 1, 0, -1):
        around = opened[0][:depth]
        known = execution.settled.get(around)
        if known is None or not isinstance(known.op, KeepOperation) or known.op.role != "branches" or any(path[:depth] != around for path in opened):
            continue
        count = branch_count(known.op.label)
        return (count, len({path[depth] for path in opened}), known.op.label.startswith("race ")) if count > 1 else (0, 0, False)
    return 0, 0, False


def _child(execution: Execution, step: str) -> Key | None:
    ops = (pending.op for path, pending in execution.open.items() if path_text(path) == step)
    return next((Key(execution.key.tenant, op.workflow, op.id) for op in ops if isinstance(op, SpawnOperation)), None)


def _with_approval(found: ExecutionReason, shown: ApprovalState) -> ExecutionReason:
    """The reason with what is asked, who may decide, and until when."""
    people = list(shown.assignees)
    named = ", ".join(people[:PEOPLE_SHOWN]) + (f" or {len(people) - PEOPLE_SHOWN} more" if len(people) > PEOPLE_SHOWN else "")
    subject = shown.request.subject
    due_at_s = None if subject is None else subject.due_at_s
    due_at_s = shown.due_at_s if due_at_s is None else due_at_s
    until = "" if due_at_s is None else f", due {time_text(due_at_s)}"
    votes = f" ({len(shown.votes)} of {shown.request.quorum} votes)" if shown.request.quorum > 1 else ""
    text = f"waits for approval by {named or 'anybody'}{votes}: {shown.request.title}{until}"
    return msgspec.structs.replace(found, text=text, people=people, at_s=due_at_s, is_deadline=due_at_s is not None, target=shown.request.title)


def time_text(at_s: float) -> str:
    """A time as sentences have it."""
    try:
        return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return "a time beyond any calendar"


# Of the present


async def present_reason(store: Store, head: Head, execution: Execution, attempts: Attempts, approval: ApprovalState | None) -> ExecutionReason:
    """The reason why an execution does not go on now, whose log was folded up to its head. `approval` is the state of the approval that it waits for first."""
    due_at_s = min((at_s for at_s in (head.wake_at_s, head.message_at_s) if at_s is not None), default=None)
    found = reason_from_log(execution, attempts, approval)
    if execution.ended is not None or execution.parked is not None:
        return found
    if execution.started is None and due_at_s is not None and due_at_s > (await store.store_time()).now_s:
        return ExecutionReason(code="not_started", text=f"it starts at {time_text(due_at_s)}", at_s=due_at_s)
    holders = await live_processes(store)
    if holders is not None:
        found = _with_processes(found, head, execution, holders)
    if found.code == "engine" and execution.started is None and not is_hosted(head.program):
        found = await _with_definition(found, store, head.key)
    return await _with_queue(found, store, head.key.tenant) if found.code == "queue" and found.queue else found


def _with_processes(found: ExecutionReason, head: Head, execution: Execution, holders: Sequence[ProcessInfo]) -> ExecutionReason:
    """The reason with the engine or worker that is missing."""
    if engine := missing_engine(head, holders):
        return msgspec.structs.replace(found, code="engine", text=f"{engine}; {found.text}", remedy=START_ENGINE)
    if worker := missing_worker(head, execution, holders):
        return msgspec.structs.replace(found, code="worker", text=f"{found.text}; {worker}", remedy=f"Start a worker of queue {found.queue}")
    return found


async def _with_definition(found: ExecutionReason, store: Store, key: Key) -> ExecutionReason:
    """The reason with the definition that the name of the workflow means in the catalog: a start by a name alone means code, or a definition of an engine."""
    try:
        slug = (await resolve_reference(store, key.tenant, key.workflow)).definition.slug
    except (NotFound, Ambiguous, BadValue):
        return found
    by = f"POST /api/workflow-versions/{key.workflow}/executions, perdure start, or client.definition({key.workflow!r})"
    remedy = f"To run the definition {slug} of the catalog, start it by {by}, and cancel this execution. {found.remedy}"
    return msgspec.structs.replace(found, text=f"{found.text}; the catalog has {slug}, which is started by reference", remedy=remedy)


async def _with_queue(found: ExecutionReason, store: Store, tenant: str) -> ExecutionReason:
    """The reason with the limit of the queue, if that is reached."""
    statuses = {one.tenant: one for one in await store.queues() if one.name == found.queue}
    known = statuses.get(tenant) or statuses.get(None)
    if known is None or known.limits.concurrency is None or known.work < known.limits.concurrency or not known.work_waiting:
        return found
    text = f"{found.text}; queue {found.queue} is full: {known.work} of {known.limits.concurrency} in flight"
    return msgspec.structs.replace(found, code="queue_full", text=text, in_flight=known.work, limit=known.limits.concurrency)
