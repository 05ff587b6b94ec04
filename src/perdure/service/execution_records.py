"""Reads one execution as the service shows it: its status, input and result, what it runs, who started it, and the approvals that it waits for."""

from typing import Any

import msgspec

from perdure.core import messages, values
from perdure.core.attributes import ShownAttributes, index_attributes, indexed_attribute_values
from perdure.core.errors import NotFound
from perdure.core.execution import Execution
from perdure.core.operations import Failure, ReceiveOperation, Success
from perdure.core.paths import Key, path_text
from perdure.core.program import program_base
from perdure.core.step_attempts import StepAttempt, step_attempts
from perdure.definitions.graph.graph_workflow import HASH_ATTRIBUTE, INLINE_ATTRIBUTE, VERSION_ATTRIBUTE
from perdure.service import queries
from perdure.service.catalog import read_definition
from perdure.service.code_workflows import message_schemas_of
from perdure.service.dead_letter_groups import dead_letter_of, step_name
from perdure.service.execution_operations import INITIATOR_ATTRIBUTE
from perdure.service.execution_reasons import Attempts, ExecutionReason, reason_from_log
from perdure.service.past_states import read_past
from perdure.service.queries import ExecutionStatus
from perdure.service.resume_tokens import PendingApproval, pending_approvals
from perdure.service.seed_statuses import SeedStatus, seed_status
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_input import facts_of
from perdure.service.triggers.trigger_starts import TRIGGER_ATTRIBUTE, TRIGGER_KIND_ATTRIBUTE
from perdure.service.wire_types import EncodedInput, EncodedValue, Version, WorkflowInput, decoded_input
from perdure.stores.protocol import Head


class ExecutorState(msgspec.Struct, frozen=True, kw_only=True):
    """What has been done to have an execution performed. `dispatch_count` counts the attempts of its calls, of which each is a dispatch to an engine or worker.

    `worker_origin` is the process that holds it at present (None of a past), `last_error` the error of the last attempt that failed.
    """

    dispatch_count: int
    first_enqueued_at_s: float
    last_enqueued_at_s: float
    trigger_type: str | None
    worker_origin: str | None
    last_error: str | None
    session_id: str | None = None


class RuntimeState(msgspec.Struct, frozen=True):
    """The state of an execution outside of its log."""

    executor: ExecutorState


class RecordedFailure(msgspec.Struct, frozen=True):
    """Why an execution failed or needs attention: the error, the path of the step, and the fingerprint of failures that are alike."""

    code: str
    message: str
    path: str
    fingerprint: str


class AwaitedMessage(msgspec.Struct, frozen=True):
    """A message that an execution waits for: any of these names, at the path of an operation, until a time (None: without end).

    `schemas` are the JSON Schemas of the bodies, by name, as far as the code of the workflow names their types and an engine that runs it tells them.
    """

    names: list[str]
    step: str
    until_at_s: float | None
    schemas: dict[str, Any] = {}


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One execution, now or after event `version` of its log.

    `why` says in a sentence what it waits for or how it ended, and `reason` also what to do about it, and the facts of the sentence.
    `status` is in our words, `seed_status` one of the six that other systems know. `workflow_version` and `workflow_hash` are those with which it began: of a
    definition its number and hash, of code its number. `workflow_id` is the id of the definition in the catalog: None for code, for a document that was given
    with the start (`is_inline_execution`), and after its deletion. `variables` is the input. `current_step_slug` is the step that has been open longest. An
    execution that was started by a person or a key has their subject as `initiator_user_id`. One that a trigger has started has what is known of that, with
    its kind as `initiator_type`; `trigger_metadata` is what the kind adds, such as the tick of a schedule or the delivery of a webhook.
    `awaits` are the messages that it waits for; of a past, without schemas. `resume_token` is that of the only approval that waits, for callers who may
    decide.
    """

    key: Key
    status: str
    why: str
    reason: ExecutionReason
    seed_status: SeedStatus
    version: Version
    workflow_version: str
    workflow_hash: str
    is_inline_execution: bool
    definition: str
    created_at_s: float
    started_at_s: float | None
    ended_at_s: float | None
    deadline_at_s: float | None
    due_at_s: float | None
    open: int
    settled: int
    emitted: int
    current_step_slug: str | None
    error: RecordedFailure | None
    attributes: ShownAttributes
    unread: dict[str, int]
    decided: bool
    parent: Key | None
    idempotency_key: str
    attempt_count: int
    runtime_state: RuntimeState
    initiator_type: str | None
    initiator_user_id: str | None
    workflow_id: str | None = None
    workflow_name: str = ""
    variables: EncodedInput | None = None
    outputs: EncodedValue | None = None
    approvals: list[PendingApproval] = []
    awaits: list[AwaitedMessage] = []
    resume_token: str | None = None
    trigger_id: str | None = None
    trigger_name: str | None = None
    trigger_type: str | None = None
    trigger_metadata: dict[str, Any] | None = None
    session_id: str | None = None

    def decoded_input(self) -> WorkflowInput | None:
        """The `variables` as arguments; None once they were removed with the log."""
        return None if self.variables is None else decoded_input(self.variables, f"the input of {self.key}")

    def decoded_result(self) -> Any:
        """The `outputs` as a value; None before the end, and of an execution that has not completed."""
        return None if self.outputs is None else values.decode(self.outputs, Any, f"the result of {self.key}")


async def read_record(access: StoreAccess, key: Key, at: int | None, secret: bytes) -> ExecutionRecord:
    """One execution, now or after event `at` of its log. With a `secret`, approvals that wait have their resume tokens.

    Raises:
        NotFound: there is no such execution.
        BadValue: its log has no such event.
    """
    if at is None:
        async with access.tails.use(key) as tail:
            now = await queries.status_and_reason(access, tail)
            return await _read(access, tail.head, tail.execution, tail.attempts, now, secret)
    past = await read_past(access.store, key, at)
    execution = Execution(key, past.head.root)
    attempts = step_attempts(execution, past.seen)
    return await _read(access, past.head, execution, attempts, reason_from_log(execution, attempts, await queries.past_approval(access, execution)), secret)


async def _read(
    access: StoreAccess, head: Head, execution: Execution, by_path: Attempts, known: tuple[ExecutionStatus, ExecutionReason] | ExecutionReason, secret: bytes
) -> ExecutionRecord:
    """The record of an execution: of the present its status and its reason are `known`, of a past its reason."""
    now, reason = (None, known) if isinstance(known, ExecutionReason) else known
    attempts = [one for of_path in by_path.values() for one in of_path]
    is_past = now is None and execution.started is not None
    attributes = indexed_attribute_values(index_attributes(execution.attributes) if is_past else head.attributes)
    approvals = pending_approvals(execution, secret)
    workflow_id, workflow_name = await catalogued(access, head.key, attributes)
    return msgspec.structs.replace(
        _record_of(head, execution, attributes, attempts, now, reason),
        workflow_id=workflow_id,
        workflow_name=workflow_name,
        variables=await _input(access, head, execution),
        outputs=await _outputs(access, execution),
        approvals=approvals,
        awaits=await _awaits(access, execution, None if now is None else program_base(head.program)),
        resume_token=approvals[0].resume_token if len(approvals) == 1 else None,
    )


def _record_of(
    head: Head, execution: Execution, attributes: ShownAttributes, attempts: list[StepAttempt], now: ExecutionStatus | None, reason: ExecutionReason
) -> ExecutionRecord:
    """The record as far as it follows from the log, and from the status unless it is one of the past."""
    started, ended, key = execution.started, execution.ended, head.key
    status = head.status if now is not None and started is None else execution.status
    initiator = attributes.get(INITIATOR_ATTRIBUTE)
    trigger = _trigger_fields(execution, attributes)
    by = trigger.get("trigger_type", None if initiator is None else "manual")
    return ExecutionRecord(
        key=key,
        status=status,
        why=reason.text,
        reason=reason,
        seed_status=seed_status(status),
        version=execution.version,
        workflow_version=str(attributes.get(VERSION_ATTRIBUTE) or ("" if started is None else started.version)),
        workflow_hash=str(attributes.get(HASH_ATTRIBUTE, "")),
        is_inline_execution=attributes.get(INLINE_ATTRIBUTE) is True,
        definition="" if execution.definition is None else f"sha256:{execution.definition.sha256}",
        created_at_s=head.created_at_s,
        started_at_s=None if started is None else started.at_s,
        ended_at_s=None if ended is None else ended.at_s,
        deadline_at_s=execution.deadline_at_s,
        due_at_s=execution.wake_at() if now is None else now.due_at_s,
        open=len(execution.open),
        settled=len(execution.settled),
        emitted=execution.emitted,
        current_step_slug=next((step_name(path_text(path)) for path in execution.open), None),
        error=_failure(execution),
        attributes=attributes,
        unread=queries.unread_messages(execution),
        decided=now is not None and now.decided,
        parent=None if started is None else started.origin,
        idempotency_key=key.id,
        attempt_count=len(attempts),
        runtime_state=RuntimeState(_executor(head, attempts, by, None if now is None else head.holder)),
        initiator_type=by,
        initiator_user_id=None if initiator is None else str(initiator),
        **{"trigger_type": by, **trigger},
    )


def _trigger_fields(execution: Execution, attributes: ShownAttributes) -> dict[str, Any]:
    """What is known of the trigger that has started an execution; nothing of one that none has started. Children carry it, and are not started by it."""
    if TRIGGER_ATTRIBUTE not in attributes:
        return {}
    found = {"trigger_id": str(attributes[TRIGGER_ATTRIBUTE]), "trigger_type": str(attributes.get(TRIGGER_KIND_ATTRIBUTE, ""))}
    if (facts := facts_of(execution.carried)) is None:
        return found  # it has not begun, or its log was removed
    return found | {"trigger_name": facts.name, "trigger_metadata": {"key": facts.key, "at_s": facts.at_s, **facts.about}}


async def read_input(access: StoreAccess, key: Key) -> bytes | None:
    """The encoded input of an execution, also before it has begun; None once its log was removed.

    Raises:
        NotFound: there is no such execution.
    """
    past = await read_past(access.store, key)
    return await _input(access, past.head, past.fold())


async def _input(access: StoreAccess, head: Head, execution: Execution) -> bytes | None:
    if execution.removed is not None:
        return None
    if execution.started is not None:
        return await access.payload(execution.started.input)
    begins = (messages.decode_execution_message(queued.body) for queued in await access.store.messages(head.key))
    start = next((one for one in begins if isinstance(one, messages.StartMessage)), None)
    return None if start is None else await access.payload(start.input)


async def _awaits(access: StoreAccess, execution: Execution, program: str | None) -> list[AwaitedMessage]:
    waits = [(path, one.op.names, one.due_at_s) for path, one in execution.open.items() if isinstance(one.op, ReceiveOperation)]
    known = await message_schemas_of(access.store, program) if waits and program is not None and execution.definition is None else {}
    return [AwaitedMessage([*names], path_text(path), at_s, {name: known[name] for name in names if name in known}) for path, names, at_s in waits]


async def _outputs(access: StoreAccess, execution: Execution) -> bytes | None:
    outcome = None if execution.ended is None else execution.ended.outcome
    return await access.payload(outcome.value) if isinstance(outcome, Success) else None


def _failure(execution: Execution) -> RecordedFailure | None:
    if (dead := dead_letter_of(execution)) is not None:
        return RecordedFailure(dead.type, dead.message, dead.path, dead.fingerprint)
    outcome = None if execution.ended is None else execution.ended.outcome
    return RecordedFailure(outcome.error.type, outcome.error.message, "", "") if isinstance(outcome, Failure) else None


async def catalogued(access: StoreAccess, key: Key, attributes: ShownAttributes) -> tuple[str | None, str]:
    """The id and the name of the definition in the catalog that an execution was started from, if it is still there."""
    if VERSION_ATTRIBUTE not in attributes or attributes.get(INLINE_ATTRIBUTE) is True:
        return None, key.workflow
    try:
        found = await read_definition(access, key.tenant, key.workflow)
    except NotFound:
        return None, key.workflow
    return found.id, found.name


def _executor(head: Head, attempts: list[StepAttempt], trigger_type: str | None, holder: str | None) -> ExecutorState:
    failed = [one for one in attempts if one.error is not None]
    return ExecutorState(
        dispatch_count=len(attempts),
        first_enqueued_at_s=head.created_at_s,
        last_enqueued_at_s=max((one.started_at_s for one in attempts), default=head.created_at_s),
        trigger_type=trigger_type,
        worker_origin=holder,
        last_error=None if not failed or (error := failed[-1].error) is None else error.line,
    )
