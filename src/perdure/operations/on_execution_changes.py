"""Operations that change executions: start, send, control, repair."""

from typing import Any
from uuid import uuid4

import msgspec

from perdure.code.declarations import checked_name
from perdure.core import messages
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.service import bulk_requests, definition_patches, execution_operations, reruns
from perdure.service.bulk_requests import BulkFilter, BulkResult, BulkVerb
from perdure.service.bulk_workflow import BulkAction, BulkCount, BulkOrder, bulk_start, checked_order, count_selected, expect_same_order
from perdure.service.callers import Caller
from perdure.service.change_plans import ChangePlan, PlannedCommand, PlannedVerb, plan_command
from perdure.service.execution_operations import StartRequest
from perdure.service.queries import ExecutionFilter
from perdure.service.reruns import RerunRequest
from perdure.service.start_checks import checked_start
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import NOTHING, EncodedInput, EncodedValue, JsonDocument


class StartedExecution(msgspec.Struct, frozen=True):
    """The execution that a start has created, or found."""

    key: Key
    created: bool


# Start


async def start(access: StoreAccess, request: StartRequest, author: str = "") -> StartedExecution:
    """Starts an execution, unless one of this id exists. When this returns, the execution is durable.

    Its attribute `initiator` names who has started it through a service.

    Raises:
        BadValue, BadName: an option is not valid, or does not fit the others.
        BadDefinition: the definition is not valid.
        InputDiffers: the start is strict, and one exists with another input.
        TooManyActive: none exists, and the admission does not allow another one now.
    """
    found = checked_start(execution_operations.initiated_by(request, author))
    return StartedExecution(*await execution_operations.start_execution(access, found))


async def rerun(access: StoreAccess, key: Key, new_id: str | None = None, version: int | None = None) -> Key:
    """Starts a new execution with the input of another and none of its results, and returns its key.

    `new_id` is that of the new one (default: a random one); `version` replaces the pinned version of the workflow.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        AlreadyExists: the id is taken.
    """
    wanted = RerunRequest(key=_anew(key, new_id), version=version)
    await reruns.rerun_execution(access, key, wanted)
    return wanted.key


async def fork(
    access: StoreAccess, key: Key, from_step: str | None = None, input: EncodedInput | None = None, new_id: str | None = None, version: int | None = None
) -> Key:
    """Starts a new execution with the results of another: all or, with `from_step`, those from before that step. Returns its key.

    Open operations are opened again in the new execution; unread messages stay with the other one. `input` replaces the arguments, `version` the pinned
    version of the workflow.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        BadValue: it has not reached that step.
        AlreadyExists: the id is taken.
    """
    wanted = RerunRequest(key=_anew(key, new_id), input=input, version=version, from_step=from_step)
    await reruns.fork_execution(access, key, wanted)
    return wanted.key


def _anew(key: Key, id: str | None) -> Key:
    return key._replace(id=uuid4().hex if id is None else checked_name(id, "id"))


# Messages


async def send(access: StoreAccess, key: Key, name: str, body: EncodedValue = NOTHING, message_key: str | None = None, may_come: bool = False) -> None:
    """Sends a message, durably. Of several with the same `message_key` one is received.

    With `may_come`, the execution need not exist yet: the message waits for it, for 7 days.

    Raises:
        NotFound, HasEnded: no execution would receive it.
        BadName: the name or the key is not valid.
    """
    _ = await execution_operations.send_signal(access, key, _message(name, body, message_key), may_come)


async def ask(access: StoreAccess, key: Key, name: str, body: EncodedValue = NOTHING) -> EncodedValue:
    """Sends a message and waits for the reply of the workflow.

    Raises:
        NotFound, HasEnded: no execution would receive it.
        NoReply: the execution ended without a reply, or its mailbox was full.
        MessageRejected: a validator has rejected the message.
        BadName: the name is not valid.
    """
    return await access.payload(await execution_operations.await_reply(access, key, _message(name, body, None)))


def _message(name: str, body: EncodedValue, message_key: str | None) -> messages.SignalMessage:
    key = uuid4().hex if message_key is None else checked_name(message_key, "key")
    return messages.SignalMessage(checked_name(name, "signal"), body, key)


# Many at once


async def bulk(
    access: StoreAccess,
    verb: BulkVerb,
    which: BulkFilter,
    *,
    reason: str = "",
    undo: bool = True,
    from_step: str | None = None,
    wait: bool = False,
    timeout_s: float | None = None,
) -> BulkResult:
    """Does to all executions that a filter selects what the operation `verb` does to one, 500 in a commit.

    With `wait`, each batch takes effect before the next is posted, with up to `timeout_s` for each execution. If this is interrupted, the first batches are
    posted and the rest are not; calling it again posts the rest.

    Raises:
        BadValue, BadName: the filter or the operation is invalid.
    """
    return await bulk_requests.post_bulk(access, which, bulk_requests.bulk_operation(verb, reason, undo, from_step), wait, timeout_s)


# Control


async def cancel(access: StoreAccess, key: Key, reason: str = "", undo: bool = True, wait: bool = False) -> None:
    """Cancels an execution: it unwinds, is undone unless `undo` is false, and ends as cancelled. Has no effect on one that is cancelled already.

    Raises:
        NotFound, HasEnded: there is nothing to cancel.
    """
    await execution_operations.cancel_execution(access, key, reason, wait, undo)


async def terminate(access: StoreAccess, key: Key, reason: str = "", wait: bool = False) -> None:
    """Ends an execution as cancelled at once, without undoing anything. Has no effect on one that is cancelled already.

    Raises:
        NotFound, HasEnded: there is nothing to terminate.
    """
    await execution_operations.terminate_execution(access, key, reason, wait)


async def pause(access: StoreAccess, key: Key, reason: str = "", wait: bool = False) -> None:
    """Pauses an execution: it begins nothing more until it is resumed.

    Raises:
        NotFound, HasEnded: there is nothing to pause.
    """
    await execution_operations.pause_execution(access, key, reason, wait)


async def resume(access: StoreAccess, key: Key, reason: str = "", wait: bool = False) -> int:
    """Continues an execution that is paused or needs attention. Returns the version of its log before that.

    Raises:
        NotFound, HasEnded: there is nothing to resume.
        NeedsAttention: with `wait`, it continued and is parked again.
    """
    return await execution_operations.resume_execution(access, key, reason, wait)


async def evict(access: StoreAccess, key: Key, reason: str = "", wait: bool = False) -> None:
    """Has the engine that holds an execution drop it from memory; it continues from its log.

    Raises:
        NotFound, HasEnded: there is nothing to evict.
    """
    await execution_operations.evict_execution(access, key, reason, wait)


async def undo(access: StoreAccess, key: Key, reason: str = "", wait: bool = False) -> None:
    """Undoes the completed steps of a completed execution, the last first, once; its status is completed again then.

    The steps of one that failed or was cancelled were undone when it ended: of it, the steps are undone whose undo failed then.

    Raises:
        HasEnded: it failed or was cancelled, and no undo failed then.
        BadValue: it has not ended. Cancelling it undoes its steps.
        NotFound: there is no such execution.
    """
    await execution_operations.undo_execution(access, key, reason, wait)


async def retry(access: StoreAccess, key: Key, reason: str = "", from_step: str | None = None, wait: bool = False) -> int:
    """Continues an execution that failed or is parked, from what failed or, with `from_step`, from that step. Returns the version of its log before that.

    Raises:
        NotFound, HasEnded, BadValue: there is nothing to retry, or no such step.
        NeedsAttention: with `wait`, it continued and is parked again.
    """
    return await execution_operations.retry_execution(access, key, reason, wait, from_step)


async def preset(access: StoreAccess, key: Key, step: str, value: EncodedValue = NOTHING) -> None:
    """Supplies the result of a step that is open, is still to come, or failed with its execution.

    Raises:
        NotFound, HasEnded: the execution takes no results.
        BadValue: the step has its result already, or is no step.
    """
    await reruns.preset_outcome(access, key, step, Success(value))


async def patch(
    access: StoreAccess, key: Key, change: Any = None, definition: JsonDocument | None = None, *, base: str = "", reason: str = "", wait: bool = True
) -> int | None:
    """Changes the definition of an execution that runs. Returns the number of the event from which the new one applies; None without `wait`.

    `definition` is the new one; or `change` changes the present one: a JSON Patch of its canonical form or of its nodes and edges, operations by id,
    ``{operations, description}`` or ``{workflow_tag, patch_spec}``. With `base`, it applies only while that is the hash of the present definition.

    Raises:
        NotFound, HasEnded: there is nothing to patch.
        PatchRefused: the new definition does not fit what has begun, and nothing was changed.
        BadDefinition: the change does not apply, or its result is not valid.
        BadValue: the execution runs code.
    """
    message = await definition_patches.wanted_patch(access, key, change, definition, base, reason)
    return await definition_patches.apply_patch(access, key, message, wait)


async def withdraw_patches(access: StoreAccess, key: Key) -> int:
    """Removes the patches that no engine has decided on yet; returns how many.

    Raises:
        NotFound: there is no such execution.
        PatchRefused: an engine has decided on them, or may be about to.
    """
    return await definition_patches.withdraw_patches(access, key)


# Dry runs


async def plan(
    access: StoreAccess,
    key: Key,
    verb: PlannedVerb,
    *,
    undo: bool = True,
    from_step: str | None = None,
    step: str = "",
    change: Any = None,
    definition: JsonDocument | None = None,
    base: str = "",
) -> ChangePlan:
    """Says what a command would do to an execution, and changes nothing. The other arguments are those of the command.

    Raises:
        NotFound, Removed: there is no such execution, or only its tombstone is left.
        HasEnded, BadValue, BadDefinition: the command would be refused for the same reason.
        NotReplayable: it is a patch, and the log does not replay over the present definition.
    """
    given = PlannedCommand(verb=verb, undo=undo, from_step=from_step, step=step, change=change, definition=definition, base=base)
    return await plan_command(access, key, given)


class StartedBulk(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk execution that was started, or found; in a dry run none (`key` is None), and `count` says on how many executions it would act now."""

    key: Key | None = None
    created: bool = False
    count: BulkCount | None = None


async def start_bulk(
    access: StoreAccess,
    caller: Caller,
    which: ExecutionFilter,
    action: BulkAction,
    *,
    reason: str = "",
    undo: bool = True,
    from_step: str | None = None,
    signal: str = "",
    body: EncodedValue = NOTHING,
    edits: dict[str, EncodedValue] | None = None,
    version: int | None = None,
    bulk_id: str | None = None,
    dry_run: bool = False,
) -> StartedBulk:
    """Starts an execution of ``perdure.bulk`` that does something to all executions of a filter, in pieces, and across crashes. An engine has to run.

    Its state ``progress`` counts what is done, failed and left; its stream has the failures; cancelling it stops it between two pieces. With `dry_run`, nothing
    is started, and the executions are counted. With `edits` of the input, or another `version` of the code, ``requeue`` starts new executions as it does for
    one. `bulk_id` is the id of the bulk execution (default: a random one); one that exists with the same order is found.

    Raises:
        BadValue, BadName: the filter or the action is invalid.
        InputDiffers: the bulk execution exists with another order.
        Forbidden: the action is ``prune``, and the caller is no admin.
    """
    if action == "prune":
        caller.expect("admin", "executions.start_bulk with prune")
    given: dict[str, Any] = {"reason": reason, "undo": undo, "from_step": from_step, "signal": signal, "body": body, "edits": edits or {}, "version": version}
    order = await checked_order(access, BulkOrder(action=action, which=which, **given))
    if dry_run:
        return StartedBulk(count=await count_selected(access, order))
    request = bulk_start(which.tenant, bulk_id or uuid4().hex, order)
    key, created = await execution_operations.start_execution(access, request)
    if not created:
        await expect_same_order(access, key, which, order)
    return StartedBulk(key=key, created=created)
