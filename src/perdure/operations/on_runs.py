"""Operations on executions in the terms of systems that dispatch runs to a runner: run, approve, and report what the runner has done.

Their clients know an execution by its id, pass variables, and show a resume token with a decision. What they do is what the other operations do.
"""

from typing import Any, Literal

import msgspec

from perdure.code.results import Vote
from perdure.core import values
from perdure.core.errors import DecisionRefused, ErrorInfo
from perdure.core.operations import APPROVAL_WORKFLOW
from perdure.core.paths import Key
from perdure.operations.on_approvals import vote_of
from perdure.service import approvals, execution_operations, execution_records, external_runs, manual_runs
from perdure.service.callers import LOCAL, Caller
from perdure.service.definition_views import nodes_after_decision
from perdure.service.execution_records import RuntimeState
from perdure.service.external_runs import ReportedOutcome, ReportedStatus
from perdure.service.resume_tokens import approval_of_token
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import NO_ARGUMENTS, NOTHING, EncodedInput, EncodedValue


class ManualRun(msgspec.Struct, frozen=True):
    """The execution that a run has started, or found: `execution_id` is its id."""

    key: Key
    execution_id: str
    created: bool


class DecidedApproval(msgspec.Struct, frozen=True):
    """An approval that was decided. Its execution goes on, by the steps `next_nodes` of its definition.

    They are empty if it runs code, if rules choose among them, and while the decision is not taken: after a vote that others must join, and without `wait`.
    """

    approval_id: str
    status: Literal["resumed"] = "resumed"
    next_nodes: list[str] = []


async def run_workflow(
    access: StoreAccess,
    tenant: str,
    author: str,
    workflow_id: str,
    variables: EncodedInput = NO_ARGUMENTS,
    client_request_id: str = "",
    *,
    deadline_s: float | None = None,
) -> ManualRun:
    """Runs a workflow: a definition of the catalog by its slug, id or a reference, or code of a living engine by its name.

    With a `client_request_id`, its repetition by the same caller finds the execution that the first has started. After `deadline_s`, it is cancelled.

    Raises:
        NotFound, Ambiguous: there is no such workflow, or the reference names several versions.
        BadDefinition: the definition calls something that is not there; the error has all findings.
        BadName, BadValue: a name is not valid, or the definition does not take the variables.
        DefinitionDisabled: the definition is disabled.
    """
    start = await manual_runs.manual_start(access, tenant, workflow_id, variables, client_request_id, author, deadline_s=deadline_s)
    key, created = await execution_operations.start_execution(access, *start)
    return ManualRun(key, key.id, created)


async def approve(
    access: StoreAccess,
    key: Key,
    approve: bool,
    resume_token: str,
    caller: Caller = LOCAL,
    secret: bytes = b"",
    *,
    by: str = "",
    comment: str = "",
    value: EncodedValue = NOTHING,
    wait: bool = True,
) -> None:
    """Decides on an approval that an execution waits for, named by its resume token.

    The decision is the caller's, or that of the person for whom a program or an admin gives it.

    An engine accepts it; without `wait`, it is stored until one does.

    Raises:
        NotFound: there is no such execution.
        DecisionRefused: the token is not that of an approval that waits, or the caller may not decide, or has decided already.
        AlreadyDecided, HasEnded: it was decided in the meantime, or was cancelled.
        BadValue: the value does not fit the form.
        Forbidden: the caller is a person, and gives the decision of another one without being an admin.
    """
    execution = await access.folds.of(key).refresh()
    found = approval_of_token(execution, secret, resume_token) if secret else None
    if found is None:
        raise DecisionRefused(key, "the resume token is not that of an approval that the execution waits for. Read the execution again")
    vote = _vote(caller, Vote(by, approve, comment, values.decode(value, Any, "what was filled in")))
    await approvals.vote(access, key._replace(workflow=APPROVAL_WORKFLOW, id=found.id), vote, wait)


async def decide(
    access: StoreAccess,
    key: Key,
    decision: Literal["approve", "approved", "reject", "rejected"],
    caller: Caller = LOCAL,
    *,
    decided_by: str = "",
    comments: str = "",
    value: EncodedValue = NOTHING,
    wait: bool = True,
) -> DecidedApproval:
    """Decides on an approval. The decision is the caller's, or that of the person for whom a program or an admin gives it.

    An engine accepts it; without `wait`, it is stored until one does. In JSON, `decided_by` may also be written with an underscore.

    Raises:
        NotFound: there is no such approval.
        AlreadyDecided, HasEnded: it was decided before, or was cancelled.
        DecisionRefused: the caller may not decide, or has decided already.
        BadValue: the value does not fit the form.
        Forbidden: the caller is a person, and gives the decision of another one without being an admin.
    """
    vote = Vote(decided_by, decision in ("approve", "approved"), comments, values.decode(value, Any, "what was filled in"))
    if not await approvals.vote(access, key, _vote(caller, vote), wait):
        return DecidedApproval(key.id)
    started = (await access.folds.of(key).refresh()).started  # before the vote, the approval may not have begun
    asked_by = None if started is None else started.parent
    return DecidedApproval(key.id, next_nodes=[] if asked_by is None else await nodes_after_decision(access, asked_by.key, asked_by.path, vote.approve))


def _vote(caller: Caller, vote: Vote) -> Vote:
    return msgspec.structs.replace(vote_of(caller, msgspec.structs.replace(vote, groups=caller.groups)), means="api")


async def complete(
    access: StoreAccess,
    key: Key,
    status: ReportedOutcome,
    outputs: EncodedValue = NOTHING,
    *,
    steps: Any = None,
    error: ErrorInfo | None = None,
    token: str = "",
) -> None:
    """Reports the end of an external run: completes the step that waits for it with the `outputs`, or fails its attempt with the `error`.

    With `steps`, the result of the step is an object of both. If several steps wait, `token` is that of one.

    Raises:
        NotFound: there is no such execution.
        BadValue: the token is that of another execution, or of none.
        CompletionRefused, AlreadyCompleted: the execution is not run externally, or nothing waits for this report.
        HasEnded: the execution has ended.
    """
    await external_runs.report_outcome(access, key, token, status, external_runs.reported_value(outputs, steps), error)


async def report_status(access: StoreAccess, key: Key, status: ReportedStatus, error: ErrorInfo | None = None, token: str = "") -> None:
    """Reports how an external run stands: that it is running, which shows that it is alive, or that it has completed or failed.

    Raises:
        NotFound: there is no such execution.
        BadValue: the token is that of another execution, or of none.
        CompletionRefused, AlreadyCompleted: the execution is not run externally, or nothing waits for this report. The work can be stopped.
        HasEnded: the execution has ended.
    """
    if status == "running":
        await external_runs.report_alive(access, key, token)
    else:
        await external_runs.report_outcome(access, key, token, status, NOTHING, error)


async def enqueue(access: StoreAccess, key: Key) -> RuntimeState:
    """Has an execution dispatched again: one that is paused or needs attention continues. Has no effect on any other, which engines dispatch by themselves.

    Raises:
        NotFound, HasEnded: there is nothing to dispatch.
    """
    _ = await execution_operations.resume_execution(access, key, "enqueued", wait=False, verb="enqueue")
    return (await execution_records.read_record(access, key, None, b"")).runtime_state
