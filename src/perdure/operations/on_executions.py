"""Operations on executions: start, find, read, send, control, repair."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import msgspec

from perdure.code.declarations import checked_name
from perdure.code.durations import whole_number
from perdure.core import messages
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.core.views import PublicEvent, StepView
from perdure.service import bulk_requests, definition_patches, definition_views, execution_operations, history, queries, reruns
from perdure.service.bulk_requests import BulkFilter, BulkResult, BulkVerb
from perdure.service.execution_details import ExecutionDetails
from perdure.service.execution_details import execution_details as read_details
from perdure.service.execution_operations import StartRequest
from perdure.service.history import EmittedValue
from perdure.service.page_cursors import cursor_text, parse_cursor
from perdure.service.queries import ExecutionFilter, ExecutionStatus, ListedExecution
from perdure.service.reruns import RerunRequest
from perdure.service.store_access import StoreAccess
from perdure.service.wire_types import NOTHING, EncodedInput, EncodedValue, JsonDocument


class StartedExecution(msgspec.Struct, frozen=True):
    """The execution that a start has created, or found."""

    key: Key
    created: bool


class ExecutionPage(msgspec.Struct, frozen=True):
    """A page of a list of executions. `next` is the `after` of the next page; it is empty if this was the last."""

    items: list[ListedExecution]
    next: str = ""


# Start


async def start(access: StoreAccess, request: StartRequest) -> StartedExecution:
    """Starts an execution, unless one of this id exists. When this returns, the execution is durable.

    Raises:
        BadValue: an option is not valid, or does not fit the others.
        InputDiffers: the start is strict, and one exists with another input.
        TooManyActive: none exists, and the admission does not allow another one now.
    """
    return StartedExecution(*await execution_operations.start_execution(access, request))


async def rerun(access: StoreAccess, key: Key, id: str | None = None, version: int | None = None) -> Key:
    """Starts a new execution with the input of another and none of its results, and returns its key.

    `id` is that of the new one (default: a random one); `version` replaces the pinned version of the workflow.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        AlreadyExists: the id is taken.
    """
    wanted = RerunRequest(key=_anew(key, id), version=version)
    await reruns.rerun_execution(access, key, wanted)
    return wanted.key


async def fork(
    access: StoreAccess, key: Key, from_step: str | None = None, input: EncodedInput | None = None, id: str | None = None, version: int | None = None
) -> Key:
    """Starts a new execution with the results of another: all or, with `from_step`, those from before that step. Returns its key.

    Open operations are opened again in the new execution; unread messages stay with the other one. `input` replaces the arguments, `version` the pinned
    version of the workflow.

    Raises:
        NotFound: there is no such execution, or it has not begun.
        BadValue: it has not reached that step.
        AlreadyExists: the id is taken.
    """
    wanted = RerunRequest(key=_anew(key, id), input=input, version=version, from_step=from_step)
    await reruns.fork_execution(access, key, wanted)
    return wanted.key


def _anew(key: Key, id: str | None) -> Key:
    return key._replace(id=uuid4().hex if id is None else checked_name(id, "id"))


# Read


async def summary(access: StoreAccess, key: Key) -> ListedExecution:
    """The list entry of an execution, read from its head alone.

    Raises:
        NotFound: there is no such execution.
    """
    return await queries.execution_summary(access, key)


async def status(access: StoreAccess, key: Key) -> ExecutionStatus:
    """The status of an execution, and in a sentence what it waits for.

    Raises:
        NotFound: there is no such execution.
    """
    return await queries.execution_status(access, access.folds.of(key))


async def steps(access: StoreAccess, key: Key) -> list[StepView]:
    """The operations of an execution, in the order in which they were opened.

    Raises:
        NotFound: there is no such execution.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    return await definition_views.step_views(access, access.folds.of(key))


async def details(access: StoreAccess, key: Key) -> ExecutionDetails:
    """The status, operations and values of an execution, and the same of the executions that it has started.

    Raises:
        NotFound: there is no such execution.
        NotReplayable: it runs a definition, and its log does not replay over that.
    """
    return await read_details(access, key)


async def state(access: StoreAccess, key: Key, name: str | None = None) -> dict[str, EncodedValue]:
    """The values that a workflow has set for queries, by name; with `name`, only that one.

    Raises:
        NotFound: there is no such execution.
    """
    return await queries.workflow_state(access, access.folds.of(key), name)


WAIT_MAX_S = 60.0
"""How long one call may wait for a result."""


READ_S = 10.0
"""How long reading a result may take that is there."""


class ResultSoFar(msgspec.Struct, frozen=True):
    """The result of an execution, if it has one: `value`. Otherwise `why` says what it waits for."""

    is_there: bool
    value: EncodedValue = NOTHING
    why: str = ""


async def result(access: StoreAccess, key: Key, after: int = 0, wait_s: float = 0.0) -> ResultSoFar:
    """The result of an execution. It waits for up to `wait_s` (60 at most) until there is one. Ends up to the version `after` of the log do not count.

    Raises:
        NotFound: there is no such execution.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled: it ended without a result.
        NeedsAttention: it is parked until a person acts on it.
    """
    has_ended = (await access.head(key)).ended_at_s is not None
    try:
        async with asyncio.timeout(max(min(wait_s, WAIT_MAX_S), READ_S if has_ended else 0.0)):
            return ResultSoFar(True, await access.result(key, after))
    except TimeoutError:
        return ResultSoFar(False, why=(await status(access, key)).why)


def stream(access: StoreAccess, key: Key, after: int = 0, follow: bool = True) -> AsyncGenerator[EmittedValue, None]:
    """Yields the values that an execution emits after number `after`; with `follow`, until it ends.

    Raises:
        NotFound: there is no such execution.
    """
    return history.stream_values(access, key, after, follow)


def events(access: StoreAccess, key: Key, after: int = 0, follow: bool = False) -> AsyncGenerator[PublicEvent, None]:
    """Yields the public events of an execution after the number `after`; with `follow`, until it ends.

    Raises:
        NotFound: there is no such execution.
    """
    return history.stream_history(access, key, after, follow)


# Find

PAGE_MAX = 1_000
"""The most executions in a page."""


async def page(access: StoreAccess, which: ExecutionFilter, limit: int = 100, after: str = "") -> ExecutionPage:
    """Lists executions, in pages of up to `limit`. The next page begins behind `after`, which is the `next` of the page before.

    Raises:
        BadValue, BadName: a condition is invalid.
    """
    found = await queries.list_executions(access, which, whole_number(limit, "limit"), parse_cursor(after))
    return ExecutionPage(found, cursor_text(queries.position_behind(found[-1], which)) if len(found) == limit else "")


async def find(access: StoreAccess, tenant: str, text: str) -> Key:
    """Finds an execution by its id, a prefix of it, ``workflow/id``, ``@latest``, or ``@failed`` (the latest that failed).

    Raises:
        NotFound, Ambiguous: no execution matches, or several do.
    """
    return await queries.find_execution(access, text, tenant)


async def by_id(access: StoreAccess, tenant: str, id: str) -> Key:
    """Finds the only execution of this id.

    Raises:
        NotFound, Ambiguous: there is none, or several workflows have one.
    """
    return await queries.execution_by_id(access, tenant, id)


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


async def selected(access: StoreAccess, which: BulkFilter) -> list[Key]:
    """The executions that a filter selects, newest first, or in the order of its keys.

    Raises:
        BadValue, BadName: the filter is invalid.
    """
    return await bulk_requests.choose_executions(access, which)


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
    """Undoes the completed steps of an execution that has ended, the last first.

    Raises:
        NotFound, BadValue: there is nothing to undo.
    """
    await execution_operations.undo_execution(access, key, reason, wait)


async def retry(access: StoreAccess, key: Key, reason: str = "", from_step: str | None = None, wait: bool = False) -> int:
    """Continues an execution that failed or is parked, from what failed or, with `from_step`, from that step. Returns the version of its log before that.

    Raises:
        NotFound, BadValue: there is nothing to retry, or no such step.
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
    """
    sha256 = base.removeprefix("sha256:")
    if definition is None:
        message = await definition_patches.patch_message(access, key, change, sha256, reason)
    else:
        message = messages.PatchMessage(definition, sha256, reason)
    return await definition_patches.apply_patch(access, key, message, wait)


async def withdraw_patches(access: StoreAccess, key: Key) -> int:
    """Removes the patches that no engine has decided on yet; returns how many.

    Raises:
        NotFound: there is no such execution.
        PatchRefused: an engine has decided on them, or may be about to.
    """
    return await definition_patches.withdraw_patches(access, key)
