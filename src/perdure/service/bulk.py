"""Bulk requests: the same request to many executions, posted in batches of one commit each.

A batch is durable as a whole or not at all. Interrupted between two batches, the first have been told and the rest not; asking again tells the rest, and
counts what has ended meanwhile apart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import msgspec

from perdure.core import messages
from perdure.core.errors import HasEnded, NotFound, PerdureError
from perdure.core.paths import Key
from perdure.core.where import Where
from perdure.programs.code.durations import Duration
from perdure.service import dead_letters, queries, requests
from perdure.service.access import Access, within
from perdure.service.requests import Request
from perdure.stores.base import Filter, Head

BATCH = 500
"""How many executions are told in one commit."""

ACTIVE = ("pending", "running", "waiting", "waiting_approval", "ending", "undoing")
STUCK = ("paused", "needs_attention")
UNENDED = (*ACTIVE, *STUCK)
STATUSES: dict[str, tuple[str, ...]] = {
    "cancel": UNENDED,
    "terminate": UNENDED,
    "pause": ACTIVE,
    "resume": STUCK,
    "evict": UNENDED,
    "retry": dead_letters.DEAD,
    "undo": ("completed",),
    "requeue": dead_letters.DEAD,
    "discard": dead_letters.DEAD,
}
"""On executions in which statuses each verb has an effect."""

NEWEST_FIRST = frozenset(("retry", "requeue"))
"""The verbs that those are told first that were created last: children go on before their parents. All others end parents before their children."""


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions are meant: those of `keys`, in their order, or else those that fit all that is given. Without `status`, those on which a verb acts."""

    tenant: str
    keys: tuple[Key, ...] | None = None
    workflow: str | None = None
    status: str | tuple[str, ...] | None = None
    id_prefix: str = ""
    since: Duration | datetime | None = None
    where: Where | None = None


class Verb(msgspec.Struct, frozen=True):
    """What executions are asked to do, and how the request to one is made."""

    name: str
    request: Callable[[Access, Head], Awaitable[Request | None]]


class Told(msgspec.Struct, frozen=True):
    """The outcome of a bulk request: the executions that were `told` (and, if that was waited for, have done it), those that had `ended` before, so that there
    was nothing to do, and those that `failed`, with the error of each."""

    told: list[Key] = []
    ended: list[Key] = []
    failed: dict[Key, PerdureError] = {}


# The verbs.


def cancel(reason: str, undo: bool = True) -> Verb:
    """Unwind, undo unless that is not wanted, and end as cancelled."""
    return Verb("cancel", _made(lambda head: requests.to_cancel(head, reason, undo)))


def terminate(reason: str) -> Verb:
    """End as cancelled at once."""
    return Verb("terminate", _made(lambda head: requests.to_terminate(head, reason)))


def pause(reason: str) -> Verb:
    """Begin nothing more until resumed."""
    return Verb("pause", _made(lambda head: requests.to_tell(head, messages.Pause(reason), "pause")))


def resume(reason: str) -> Verb:
    """Go on from where it is paused or parked."""
    return Verb("resume", _made(lambda head: requests.to_tell(head, messages.Resume(reason), "resume")))


def evict(reason: str) -> Verb:
    """Leave the engine that has it."""
    return Verb("evict", _made(lambda head: requests.to_tell(head, messages.Evict(reason), "evict")))


def retry(reason: str, step: str | None = None) -> Verb:
    """Go on from what failed, or from a step on."""
    return Verb("retry", lambda access, head: requests.to_retry(access, head, reason, step))


def undo(reason: str) -> Verb:
    """Undo what was done."""
    return Verb("undo", lambda access, head: requests.to_undo(access, head, reason))


def requeue(reason: str) -> Verb:
    """Run a dead letter again, from what failed."""
    return Verb("requeue", lambda access, head: dead_letters.to_requeue(access, head, reason))


def discard(reason: str) -> Verb:
    """Cancel a dead letter as it stands."""
    return Verb("discard", _made(lambda head: dead_letters.to_discard(head, reason)))


def _made(make: Callable[[Head], Request | None]) -> Callable[[Access, Head], Awaitable[Request | None]]:
    async def made(_: Access, head: Head) -> Request | None:
        return make(head)

    return made


# Choosing and telling.


async def chosen(access: Access, which: Which, statuses: Sequence[str] | None = None) -> list[Key]:
    """The executions that are meant, newest first, or as they are given; those in one of `statuses`, if none are asked for."""
    if which.keys is not None:
        return list(which.keys)
    found: list[Key] = []
    while True:
        page = await queries.listing(
            access,
            tenant=which.tenant,
            workflow=which.workflow,
            status=statuses if which.status is None else which.status,
            id_prefix=which.id_prefix,
            since=which.since,
            limit=BATCH,
            older_than=found[-1] if found else None,
            where=which.where,
        )
        found += [one.key for one in page]
        if len(page) < BATCH:
            return found


async def tell(access: Access, which: Which, verb: Verb, wait: bool, timeout: Duration | None) -> Told:
    """Ask all that are meant, batch by batch; with `wait`, each batch is waited for, each execution for up to `timeout`.

    Raises:
        BadValue, BadName: the filter makes no sense.
    """
    keys = await chosen(access, which, STATUSES[verb.name])
    ordered = keys if which.keys is not None or verb.name in NEWEST_FIRST else keys[::-1]
    result = Told([], [], {})
    for first in range(0, len(ordered), BATCH):
        made = await _requests(access, ordered[first : first + BATCH], verb, result)
        await requests.post(access, made)
        done = await asyncio.gather(*(_effect(access, one, timeout) for one in made)) if wait else [None] * len(made)
        for one, error in zip(made, done, strict=True):
            if error is None:
                result.told.append(one.head.key)
            else:
                result.failed[one.head.key] = error
    return result


async def _requests(access: Access, keys: Sequence[Key], verb: Verb, result: Told) -> list[Request]:
    """The requests to a batch of executions; those to which none can be made are added to the result."""
    heads = {head.key: head for head in await access.store.heads(Filter(keys=tuple(keys), limit=len(keys)))}
    made: list[Request] = []
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


async def _effect(access: Access, request: Request, timeout: Duration | None) -> PerdureError | None:
    """Wait until a request has taken effect; return what went wrong."""
    try:
        async with within(timeout, f"the effect of {request.verb} on {request.head.key}"):
            await requests.has_taken_effect(access, request)
    except PerdureError as error:
        return error
    return None
