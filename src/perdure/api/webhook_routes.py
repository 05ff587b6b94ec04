"""Receives webhooks: ``/webhooks/{path}`` for the default tenant, ``/webhooks/~{tenant}/{path}`` for others.

No key is asked for: what proves the sender is the signature of the request, by the scheme of the trigger. What is checked, in this order, and what is answered:

    a path without an active trigger    404, before the body is read
    a body that is too large            413, before all of it is read
    the signature                       401
    the method                          405
    headers, body and query             400
    what the workflow takes             422
    as many executions as are allowed   429
    accepted                            202, or 200 if it was accepted before
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.api import problems, webhook_document
from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.json_forms import writable
from perdure.api.problems import Refusal
from perdure.code.call_options import DEFAULT_TENANT
from perdure.core import values
from perdure.core.error_text import SHOWN_CHARACTERS_MAX, shorten_text
from perdure.core.errors import NotFound, PerdureError, Removed, StoreError, TooManyActive, WorkflowError
from perdure.service.record_kinds import KeptValue
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.trigger_records import TriggerRecord, WebhookConfig
from perdure.service.triggers.webhook_deliveries import RejectedDelivery
from perdure.service.triggers.webhook_payloads import RawWebhook, shown_headers
from perdure.service.triggers.webhook_receiver import AcceptedDelivery, AnsweredWebhook, WebhookReceiver, WebhookRejected

ROOT = "webhooks"
BODY_BYTES_MAX = 4 * 1024 * 1024
"""The largest body of a webhook. It is held in memory before its sender is known, so it is less than the API takes from those who have a key."""

RETRY_AFTER_S = 30
"""When a sender may try again after its delivery was refused because too many executions have not ended."""

STATUSES = {"not_verified": 401, "method_not_allowed": 405, "header_missing": 400, "unreadable": 400}
"""The status of the answer to a delivery that was rejected."""

_encode_json = msgspec.json.Encoder().encode


class RejectedBy(NamedTuple):
    """Why a delivery was rejected: the status of the answer, the code, what the operator is told, and how many bytes of the body were read."""

    status: int
    code: str
    message: str
    body_bytes: int


class WebhookRoutes:
    """Answers the requests of webhooks to a store, until stopped. `clock` is the time of day, for what is shown of rejected deliveries."""

    def __init__(self, access: StoreAccess, receiver: WebhookReceiver | None = None, clock: Callable[[], float] = time.time) -> None:
        self._access, self._receiver, self._clock = access, receiver or WebhookReceiver(access), clock
        self._stopping: asyncio.Event | None = None
        self._has_stopped = False

    @property
    def documented(self) -> Mapping[str, Any]:
        """The routes, as the OpenAPI document has them."""
        return webhook_document.PATHS

    def stop(self) -> None:
        """Answers requests that wait for a result, with the execution in its place."""
        self._has_stopped = True
        if self._stopping is not None:
            self._stopping.set()

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers a request; returns None if it is for no webhook."""
        if request.segments[0] != ROOT:
            return None
        tenant, path = _place_of(request.segments[1:])
        kept = await self._receiver.trigger_at(tenant, path) if path else None
        if kept is None:
            raise Refusal(404, "not_found", "there is no webhook here", "send to the URL of an active trigger; perdure trigger ls shows them")
        body = b""
        try:
            body = await request.body(BODY_BYTES_MAX)
            raw = RawWebhook(request.method, request.scope["query_string"].decode("latin-1"), request.headers, body)
            receipt = await self._receiver.receive(tenant, kept, raw, request.address)
        except Refusal as refusal:
            self._reject(tenant, kept.value, request, RejectedBy(refusal.status, refusal.code, refusal.message, len(body)))
            raise
        except WebhookRejected as rejected:
            self._reject(tenant, kept.value, request, RejectedBy(STATUSES[rejected.code], rejected.code, rejected.cause, len(body)))
            raise _refusal_of(rejected) from None
        except StoreError:
            raise
        except PerdureError as error:
            self._reject(tenant, kept.value, request, RejectedBy(problems.status_of(type(error)), error.code, str(error), len(body)))
            if isinstance(error, TooManyActive):
                raise _too_many(error) from None
            raise
        match receipt:
            case AnsweredWebhook(said):
                return ApiAnswer(200, _encode_json(said))
            case AcceptedDelivery() as accepted:
                return await self._answer(kept, accepted)

    def _reject(self, tenant: str, trigger: TriggerRecord, request: ApiRequest, by: RejectedBy) -> None:
        assert isinstance(trigger.config, WebhookConfig), "only webhooks have paths"
        rejected = RejectedDelivery(
            received_at_s=self._clock(),
            status=by.status,
            code=by.code,
            message=shorten_text(by.message, SHOWN_CHARACTERS_MAX),
            method=request.method[:20],
            address=request.address,
            headers=shown_headers(trigger.config, request.headers),
            body_bytes=by.body_bytes,
        )
        self._access.rejected_deliveries.add(tenant, trigger.id, rejected)

    # Answers

    async def _answer(self, kept: KeptValue[TriggerRecord], accepted: AcceptedDelivery) -> ApiAnswer:
        config = kept.value.config
        assert isinstance(config, WebhookConfig), "only webhooks have paths"
        if config.respond == "result" and (result := await self._result(accepted, config.respond_within_s)) is not None:
            return ApiAnswer(200, result)
        key = accepted.execution
        said = {"delivery": accepted.delivery, "workflow": key.workflow, "executionId": key.id, "created": accepted.created}
        return ApiAnswer(202 if accepted.created or config.respond == "result" else 200, _encode_json(said))

    async def _result(self, accepted: AcceptedDelivery, within_s: float) -> bytes | None:
        """The result of an execution as JSON; None if it has not ended within that time, was removed since, or if this process stops.

        Raises:
            Refusal: it did not complete. Why is for those who may see the execution, and not for the sender.
        """
        if self._has_stopped:
            return None
        self._stopping = self._stopping or asyncio.Event()
        waiting = asyncio.ensure_future(self._access.result(accepted.execution))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            _ = await asyncio.wait((waiting, stopping), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            return _encode_json(writable(values.decode(waiting.result(), Any, "the result"))) if waiting.done() else None
        except (NotFound, Removed):
            return None
        except WorkflowError as error:
            message = f"the execution {accepted.execution.workflow}/{accepted.execution.id} did not complete"
            raise Refusal(problems.status_of(type(error)), error.code, message, "its events say why: perdure show, with this workflow and id") from None
        finally:
            waiting.cancel()
            stopping.cancel()
            _ = await asyncio.gather(waiting, stopping, return_exceptions=True)


def _place_of(segments: tuple[str, ...]) -> tuple[str, str]:
    """The tenant and the path that a URL names. The path is empty if it names none."""
    tenant = DEFAULT_TENANT
    if segments and segments[0].startswith("~"):
        tenant, segments = segments[0][1:], segments[1:]
    is_path = tenant and all(segments) and not any("/" in one for one in segments)
    return tenant, "/".join(segments) if is_path else ""


def _refusal_of(rejected: WebhookRejected) -> Refusal:
    headers = ((b"allow", rejected.where.encode()),) if rejected.code == "method_not_allowed" else ()
    if rejected.code == "not_verified":
        headers = ((b"www-authenticate", b"Signature"),)
    where = "" if rejected.code == "method_not_allowed" else rejected.where
    return Refusal(STATUSES[rejected.code], rejected.code, rejected.message, rejected.next, headers, where=where)


def _too_many(error: TooManyActive) -> Refusal:
    message = f"{error.max_active} executions of this webhook have not ended, and no more are taken at present"
    return Refusal(429, error.code, message, "send it again later", ((b"retry-after", str(RETRY_AFTER_S).encode()),))
