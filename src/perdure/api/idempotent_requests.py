"""The header ``Idempotency-Key``: a request that repeats one with the same key is given the answer of the first (see `perdure.service.idempotency`).

It is honoured on every POST that changes something. On a start it is the id of the execution, so there is no record of it.
"""

from hashlib import sha256
from typing import Any

import msgspec

from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.core.errors import IdempotencyKeyReused, InputDiffers
from perdure.operations import wire_codec
from perdure.operations.operation_table import Operation
from perdure.service.callers import Caller
from perdure.service.idempotency import KeptAnswer, KeyedRequest, checked_key
from perdure.service.store_access import StoreAccess

HEADER = "idempotency-key"
GONE = 499
"""The status of an answer whose client has gone."""

REPLAYED = (b"idempotent-replayed", b"true")
"""The header of an answer that was given before."""


async def keyed_request(operation: Operation, request: ApiRequest, caller: Caller) -> KeyedRequest | None:
    """Returns the key of a request, with what it belongs to; None if it has none, or starts or changes nothing.

    Raises:
        BadValue: the key is not valid.
    """
    text = request.header(HEADER)
    if not text or request.method != "POST" or not operation.takes_idempotency_key:
        return None
    said = (request.path, request.scope["query_string"].decode("latin-1"), request.header("accept"), request.header("content-type"))
    digest = sha256("\0".join(said).encode() + b"\0" + await request.body()).digest()
    return KeyedRequest(caller.tenant, caller.subject, operation.name, checked_key(text), digest)


def kept_answer(one: KeyedRequest, operation: Operation, answer: ApiAnswer) -> KeptAnswer:
    """Returns an answer as it is kept. One with a secret is kept without it."""
    if answer.status == GONE:
        return KeptAnswer(one.request, answer.status, why="its client went away while it waited")
    if operation.shows_secret and answer.status < 400:
        return KeptAnswer(one.request, answer.status, why="its answer held a secret, which is shown once")
    return KeptAnswer(one.request, answer.status, answer.body, answer.media_type, answer.headers)


def replayed_answer(kept: KeptAnswer) -> ApiAnswer:
    """Returns a kept answer."""
    return ApiAnswer(kept.status, kept.body, kept.media_type or wire_codec.MEDIA_TYPE, (*kept.headers, REPLAYED))


async def expect_same_start(access: StoreAccess, operation: Operation, request: ApiRequest, arguments: dict[str, Any]) -> None:
    """Checks that an execution which a start has found by its idempotency key began with the same input and definition.

    Raises:
        IdempotencyKeyReused: it began with another one.
    """
    wanted, key = arguments["request"], request.header(HEADER)
    if not key or wanted.key.id != key or wanted.singleton or wanted.debounce_s is not None:  # the id of a series is not that of its executions
        return
    try:
        _ = await access.call(operation.function, **{**arguments, "request": msgspec.structs.replace(wanted, strict=True)})
    except InputDiffers:
        raise IdempotencyKeyReused(key) from None
