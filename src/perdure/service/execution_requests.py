"""Builds the messages that command executions, checks each against the head of its execution, and posts them together.

A request that could have no effect is refused. Any number of requests are posted in one commit, each whole or not at all, so that one execution and a
hundred thousand follow the same rules.
"""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import uuid4

import msgspec

from perdure.core import events as e
from perdure.core import messages
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import BadValue, HasEnded, NeedsAttention
from perdure.core.messages import ExecutionMessage
from perdure.core.paths import Path
from perdure.core.undo_plan import failed_undos
from perdure.runtime.execution_results import ENDED_STATUSES, last_lifecycle_event
from perdure.service import unstarted_executions
from perdure.service.reruns import read_execution, step_path
from perdure.service.store_access import StoreAccess
from perdure.stores.protocol import Commit, Committed, Head, Post

HANDLED_MIN_S, HANDLED_MAX_S = 0.01, 0.5
"""The shortest and the longest interval between checks whether a message was handled."""


REQUESTS_AT_A_TIME = 20
"""After this many requests, building them yields to the event loop."""


class ExecutionRequest(msgspec.Struct, frozen=True):
    """A message to the execution of `head`. Its idempotency key `message_key` begins with `verb`; a message that is sent twice under one key arrives once.

    `blobs` has the payloads that the message refers to and that the store may not have, by hash.
    """

    head: Head
    verb: str
    message: ExecutionMessage
    message_key: str = ""
    blobs: Mapping[str, bytes] = {}

    def __post_init__(self) -> None:
        if not self.message_key:  # pause, resume and pause again must be three messages, even while no engine reads them
            msgspec.structs.force_setattr(self, "message_key", f"{self.verb}:{uuid4().hex}")

    @property
    def post(self) -> Post:
        """The post that sends the message."""
        return Post(messages=(OutgoingMessage(self.head.key, self.message_key, messages.encode_message(self.message)),), blobs=tuple(self.blobs.items()))


def cancel_request(head: Head, reason: str, undo: bool = True) -> ExecutionRequest | None:
    """A request to unwind, undo completed steps unless `undo` is false, and end as cancelled; None if it is cancelled already.

    Raises:
        HasEnded: there is nothing to cancel.
    """
    return _end_request(head, messages.CancelMessage(reason, undo), "cancel")


def terminate_request(head: Head, reason: str) -> ExecutionRequest | None:
    """A request to end as cancelled at once; None if it is cancelled already.

    Raises:
        HasEnded: there is nothing to terminate.
    """
    return _end_request(head, messages.TerminateMessage(reason), "terminate")


def _end_request(head: Head, message: messages.CancelMessage | messages.TerminateMessage, verb: str) -> ExecutionRequest | None:
    if head.status == "cancelled":
        return None
    if head.status in ENDED_STATUSES:
        raise HasEnded(head.key, head.status, verb)
    return ExecutionRequest(head, verb, message, verb)


def message_request(head: Head, message: ExecutionMessage, verb: str) -> ExecutionRequest:
    """A request that sends any other message.

    Raises:
        HasEnded: it would have no effect.
    """
    if head.status in ENDED_STATUSES and not (head.status == "failed" and isinstance(message, messages.RetryMessage)):
        raise HasEnded(head.key, head.status, verb)
    return ExecutionRequest(head, verb, message)


async def retry_request(access: StoreAccess, head: Head, reason: str, step: str | None = None) -> ExecutionRequest:
    """A request to continue from what failed, or from `step`; a parked execution continues where it is.

    Raises:
        HasEnded, Removed: there is nothing to retry.
        BadValue: it has not reached that step, or is parked and cannot go back.
    """
    before: Path = ()
    execution = await read_execution(access, head.key)
    if step is not None:
        before = step_path(execution, step)
        if execution.ended is None:
            raise BadValue("retry from a step", str(head.key), f"a failed execution; it is {execution.status}: fork it from that step")
    return message_request(head, messages.RetryMessage(reason, before), "retry")


async def undo_request(access: StoreAccess, head: Head, reason: str) -> ExecutionRequest:
    """A request to undo the steps of a completed execution; of one that failed or was cancelled, the steps whose undo failed then.

    Raises:
        HasEnded, Removed, BadValue: there is nothing to undo, or it has not ended and should be cancelled.
    """
    if head.status in ("failed", "cancelled") and not failed_undos((await read_execution(access, head.key)).settled):
        raise HasEnded(head.key, head.status, "undo")
    if head.status not in ("completed", "failed", "cancelled", "undoing"):
        raise BadValue("undo", f"{head.key}, which is {head.status},", "a completed execution; cancel one that has not ended, and it is undone")
    _ = await read_execution(access, head.key)  # raises Removed if the steps are no longer known
    return ExecutionRequest(head, "undo", messages.UndoMessage(reason))


def discard_request(head: Head, reason: str) -> ExecutionRequest:
    """A request to cancel an execution if, when it is handled, it has failed or needs attention."""
    return ExecutionRequest(head, "discard", messages.DiscardMessage(reason))


async def post_requests(access: StoreAccess, requests: Sequence[ExecutionRequest]) -> None:
    """Posts requests in one commit.

    An execution that is to end, has not begun and has no holder is ended by that commit itself. If an engine claims it at the same time, the commit conflicts,
    and a second one posts the message instead.
    """
    changes: list[Commit | Post] = []
    for number, request in enumerate(requests, 1):
        changes.append(await _change_of(access, request))
        if number % REQUESTS_AT_A_TIME == 0:
            await asyncio.sleep(0)
    answers = await access.store.commit(changes)
    missed = [
        one.post for one, change, answer in zip(requests, changes, answers, strict=True) if isinstance(change, Commit) and not isinstance(answer, Committed)
    ]
    if missed:
        _ = await access.store.commit(missed)


async def _change_of(access: StoreAccess, request: ExecutionRequest) -> Commit | Post:
    match request.message:
        case messages.CancelMessage() | messages.TerminateMessage() as message:
            return await unstarted_executions.withdrawal_commit(access, request.head, message) or request.post
        case _:
            return request.post


async def wait_for_effect(access: StoreAccess, request: ExecutionRequest) -> None:
    """Waits until a request has taken effect: for a request to end, the end; for any other, until an engine has handled it.

    Raises:
        NeedsAttention: the execution continued and is parked again, or an undo failed.
    """
    key, before = request.head.key, request.head.version
    match request.message:
        case messages.CancelMessage() | messages.TerminateMessage():
            _ = await access.watch.until(key, lambda head: head is None or head.status in ENDED_STATUSES)
        case messages.UndoMessage():
            await _handled(access, request)
            await _must_not_be_parked(
                access, await access.watch.until(key, lambda head: head is None or head.status in ENDED_STATUSES | {"needs_attention"}), before
            )
        case messages.ResumeMessage() | messages.RetryMessage():
            await _handled(access, request)
            head = await access.head(key)
            await _must_not_be_parked(access, head if head.status == "needs_attention" else None, before)
        case _:
            await _handled(access, request)


async def _handled(access: StoreAccess, request: ExecutionRequest) -> None:
    wait_s = HANDLED_MIN_S
    while any(queued.key == request.message_key for queued in await access.store.messages(request.head.key)):
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, HANDLED_MAX_S)


async def _must_not_be_parked(access: StoreAccess, head: Head | None, after: int) -> None:
    turn = None if head is None else await last_lifecycle_event(access.store, head, after)
    if head is not None and isinstance(turn, e.ParkedEvent):
        raise NeedsAttention(head.key, turn.reason, "; ".join(turn.detail))
