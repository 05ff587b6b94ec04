"""Posts one request to many executions, in batches of one commit each.

Each batch is durable as a whole or not at all. If the process dies between two batches, the first executions have the request and the rest do not. Running
it again posts the rest; executions that have ended in the meantime are counted separately.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, get_args

import msgspec

from perdure.code.durations import Duration
from perdure.core import messages
from perdure.core.errors import BadValue, HasEnded, NotFound, PerdureError
from perdure.core.failure_causes import DEAD_STATUSES
from perdure.core.paths import Key
from perdure.service import dead_letter_groups, execution_requests, queries
from perdure.service.execution_requests import ExecutionRequest
from perdure.service.queries import ExecutionFilter
from perdure.service.store_access import StoreAccess, with_timeout
from perdure.stores.protocol import Head, HeadFilter

BULK_BATCH = 500
"""The number of requests in one commit."""

ACTIVE = ("pending", "running", "waiting", "waiting_approval", "ending", "undoing")
STUCK = ("paused", "needs_attention")
UNENDED = (*ACTIVE, *STUCK)
STATUSES_BY_OPERATION: dict[str, tuple[str, ...]] = {
    "cancel": UNENDED,
    "terminate": UNENDED,
    "pause": ACTIVE,
    "resume": STUCK,
    "evict": UNENDED,
    "retry": DEAD_STATUSES,
    "undo": ("completed",),
    "requeue": DEAD_STATUSES,
    "discard": DEAD_STATUSES,
}
"""The statuses in which each operation has an effect."""

NEWEST_FIRST = frozenset(("retry", "requeue"))
"""The operations that are posted to the newest executions first, so that children continue before their parents. All others end parents first."""


class BulkFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects executions: those of `keys`, in their order, or else those that `which` selects. If that names no status, those on which the operation acts."""

    which: ExecutionFilter
    keys: tuple[Key, ...] | None = None


class BulkOperation(msgspec.Struct, frozen=True):
    """An operation by name, and the function that makes its request for one execution."""

    name: str
    request: Callable[[StoreAccess, Head], Awaitable[ExecutionRequest | None]]


class BulkResult(msgspec.Struct, frozen=True):
    """The outcome of a bulk request.

    `accepted` lists the executions that have the request (with `wait`: in which it has taken effect), `ended` those that had ended before, and `failed` those
    for which it failed, each with its error.
    """

    accepted: list[Key] = []
    ended: list[Key] = []
    failed: dict[Key, PerdureError] = {}


# Operations

BulkVerb = Literal["cancel", "terminate", "pause", "resume", "evict", "retry", "undo", "requeue", "discard"]
"""What can be done to many executions; each does to all what the operation of that name does to one."""


def bulk_operation(verb: BulkVerb, reason: str = "", undo: bool = True, from_step: str | None = None) -> BulkOperation:
    """Returns an operation. `undo` is for ``cancel``, `from_step` for ``retry``.

    Raises:
        BadValue: there is no such operation.
    """
    if verb not in (known := get_args(BulkVerb)):
        raise BadValue("verb", verb, f"one of {', '.join(known)}")
    return BulkOperation(verb, _request_function(verb, reason, undo, from_step))


_RequestFunction = Callable[[StoreAccess, Head], Awaitable[ExecutionRequest | None]]


def _request_function(verb: BulkVerb, reason: str, undo: bool, from_step: str | None) -> _RequestFunction:
    match verb:
        case "cancel":
            return _request_maker(lambda head: execution_requests.cancel_request(head, reason, undo))
        case "terminate":
            return _request_maker(lambda head: execution_requests.terminate_request(head, reason))
        case "pause":
            return _request_maker(lambda head: execution_requests.message_request(head, messages.PauseMessage(reason), verb))
        case "resume":
            return _request_maker(lambda head: execution_requests.message_request(head, messages.ResumeMessage(reason), verb))
        case "evict":
            return _request_maker(lambda head: execution_requests.message_request(head, messages.EvictMessage(reason), verb))
        case "retry":
            return lambda access, head: execution_requests.retry_request(access, head, reason, from_step)
        case "undo":
            return lambda access, head: execution_requests.undo_request(access, head, reason)
        case "requeue":
            return lambda access, head: dead_letter_groups.requeue_request(access, head, reason)
        case "discard":
            return _request_maker(lambda head: dead_letter_groups.discard_dead_letter_request(head, reason))


def _request_maker(make: Callable[[Head], ExecutionRequest | None]) -> _RequestFunction:
    async def made(_: StoreAccess, head: Head) -> ExecutionRequest | None:
        return make(head)

    return made


# Selecting executions and posting requests


async def choose_executions(access: StoreAccess, which: BulkFilter, statuses: Sequence[str] | None = None) -> list[Key]:
    """Lists the executions that the filter selects, newest first, or in the order of its keys. `statuses` applies if the filter names none."""
    if which.keys is not None:
        return list(which.keys)
    found, last = list[Key](), None
    listed = which.which if which.which.status is not None or statuses is None else msgspec.structs.replace(which.which, status=tuple(statuses))
    while True:
        page = await queries.list_executions(access, listed, BULK_BATCH, queries.position_behind(last, listed))
        found += [one.key for one in page]
        if len(page) < BULK_BATCH:
            return found
        last = page[-1]


async def post_bulk(access: StoreAccess, which: BulkFilter, verb: BulkOperation, wait: bool, timeout: Duration | None) -> BulkResult:
    """Posts the operation to all selected executions, batch by batch; with `wait`, waits for each batch, up to `timeout` for each execution.

    Raises:
        BadValue, BadName: the filter is invalid.
    """
    keys = await choose_executions(access, which, STATUSES_BY_OPERATION[verb.name])
    ordered = keys if which.keys is not None or verb.name in NEWEST_FIRST else keys[::-1]
    result = BulkResult([], [], {})
    for first in range(0, len(ordered), BULK_BATCH):
        made = await make_requests(access, ordered[first : first + BULK_BATCH], verb, result)
        await execution_requests.post_requests(access, made)
        done = await asyncio.gather(*(_effect(access, one, timeout) for one in made)) if wait else [None] * len(made)
        for one, error in zip(made, done, strict=True):
            if error is None:
                result.accepted.append(one.head.key)
            else:
                result.failed[one.head.key] = error
    return result


async def make_requests(access: StoreAccess, keys: Sequence[Key], verb: BulkOperation, result: BulkResult) -> list[ExecutionRequest]:
    """Makes the requests for a batch. Executions for which none can be made are recorded in the result."""
    heads = {head.key: head for head in await access.store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))}
    made: list[ExecutionRequest] = []
    for key in dict.fromkeys(keys):
        try:
            if key not in heads:
                raise NotFound(key)
            request = await verb.request(access, heads[key])
        except HasEnded:
            request = None
        except PerdureError as error:
            result.failed[key] = error
            continue
        if request is None:
            result.ended.append(key)
        else:
            made.append(request)
    return made


async def _effect(access: StoreAccess, request: ExecutionRequest, timeout: Duration | None) -> PerdureError | None:
    """Waits until a request has taken effect; returns the error if it does not."""
    try:
        async with with_timeout(timeout, f"the effect of {request.verb} on {request.head.key}"):
            await execution_requests.wait_for_effect(access, request)
    except PerdureError as error:
        return error
    return None
