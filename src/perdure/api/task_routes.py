"""Serves the workers' protocol beside the API: under ``/v1/tasks``, as a port of its own does, and under ``/api/tasks``.

Workers have the keys of the API, with the role operator. A key that is limited to queues leases tasks of these alone, and all keys those of their tenant alone.
Requests name their queues. The broker joins the store with the first of them, so a server without workers pays nothing for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from perdure.api.http_requests import ApiAnswer, ApiRequest
from perdure.api.problems import Refusal, status_of
from perdure.core import error_codes
from perdure.core.errors import Forbidden, PerdureError, StoreError
from perdure.runtime.task_broker import TaskBroker
from perdure.service.callers import Caller, Role
from perdure.tasks.http_endpoint import RETRY_AFTER_S, TaskApp, TaskRequestRefused
from perdure.tasks.worker_tokens import TokenGrant

logger = logging.getLogger("perdure.api")

ROLE: Role = "operator"
"""The role that a worker needs."""

JOIN_S = 10.0
"""How long a request waits for the broker to join the store."""


class TaskRoutes:
    """Answers requests of workers with the leases of `broker`, which serves any queue, until stopped."""

    def __init__(self, broker: TaskBroker, authenticate: Callable[[ApiRequest], Awaitable[Caller]]) -> None:
        self._broker, self._authenticate = broker, authenticate
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, request: ApiRequest) -> ApiAnswer | None:
        """Answers a request of a worker; returns None if it is for something else."""
        match request.segments:
            case ("api", "tasks", *rest):
                path = ["v1", "tasks", *rest]
            case ("v1", *rest):
                path = ["v1", *rest]
            case _:
                return None

        async def authorize(_: dict[bytes, bytes]) -> tuple[str, TokenGrant]:
            caller = await self._caller(request)
            await self._join()
            return caller.subject, TokenGrant(None if caller.queues is None else frozenset(caller.queues), frozenset({caller.tenant}))

        answer = await TaskApp(self._broker, authorize).answer(request.scope, path, request.receive)
        return ApiAnswer(499) if answer is None else ApiAnswer(answer.status, answer.body, "application/json", answer.headers)

    def stop(self, grace_s: float = 0.0) -> asyncio.Task[None] | None:
        """Grants no more leases. Tasks that are leased may be answered within `grace_s`; returns what ends then, or None if nothing has ever been leased."""
        self._broker.stop(grace_s)
        return self._running

    async def aclose(self) -> None:
        """Gives back all tasks that are leased."""
        if self._running is not None:
            self._running.cancel()
            _ = await asyncio.wait((self._running,))

    async def _caller(self, request: ApiRequest) -> Caller:
        try:
            caller = await self._authenticate(request)
            caller.expect(ROLE, "leases of tasks")
        except Refusal as refusal:
            raise TaskRequestRefused(refusal.status, refusal.code, str(refusal), refusal.next, refusal.headers) from None
        except PerdureError as error:
            next = "use a key with the role operator" if isinstance(error, Forbidden) else "send Authorization: Bearer KEY"
            raise TaskRequestRefused(status_of(type(error)), error.code, str(error), next) from None
        return caller

    async def _join(self) -> None:
        """Joins the store, if that has not happened yet."""
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        joined = asyncio.ensure_future(self._broker.joined.wait())
        try:
            _ = await asyncio.wait((joined, self._running), timeout=JOIN_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            joined.cancel()
        if self._running.done() or not self._broker.joined.is_set():
            after = ((b"retry-after", str(RETRY_AFTER_S).encode()),)
            raise TaskRequestRefused(503, error_codes.STORE_UNAVAILABLE, "this process has no store at present", f"ask again in {RETRY_AFTER_S} s", after)

    async def _run(self) -> None:
        try:
            await self._broker.run()
        except StoreError as error:
            logger.error("this process leases no more tasks: %s", error)
