"""Requests as steps send them, without a workflow around."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpcore2

from perdure.code.step_environment import StepInfo, current_resources, current_step
from perdure.core.paths import Key
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.http import guarded_network
from perdure.definitions.kinds.http.http_kind import http_kind
from perdure.runtime.step_resources import OpenResources

INFO = StepInfo(Key("default", "pay", "1"), (("charge", 1),), 1)


class RequestSender:
    """Steps of the kind `http` in one engine."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        self.kind: Kind = http_kind(Deployment(Allowed(http=allowed)))

    async def __call__(self, url: str, given: Any = None, timeout_s: float | None = None, **config: Any) -> Any:
        """The result of one step."""
        info = StepInfo(INFO.execution, INFO.path, 1, timeout_s=timeout_s)
        token = current_step.set(info)
        try:
            return await self.kind.run(config={"url": url, **config}, input=given)
        finally:
            current_step.reset(token)

    async def pool(self) -> httpcore2.AsyncConnectionPool:
        """The connections of this engine."""
        return await guarded_network.guarded_connections(self.allowed)


@asynccontextmanager
async def calling(*allowed: str) -> AsyncIterator[RequestSender]:
    """Steps of a deployment that allows these, in an engine that ends."""
    resources = OpenResources()
    token = current_resources.set(resources)
    try:
        yield RequestSender(allowed)
    finally:
        await resources.close()
        current_resources.reset(token)


def names(table: Mapping[str, list[str]] | Callable[[str], list[str]]) -> list[str]:
    """Have the running loop look names up in a table, whatever the network says; return what was asked."""
    asked = list[str]()

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        found = table(host) if callable(table) else table.get(host, [])
        if not found:
            raise OSError(-2, "Name or service not known")
        return [(30 if ":" in one else 2, 1, 6, "", (one, port)) for one in found]

    asyncio.get_running_loop().getaddrinfo = getaddrinfo  # type: ignore[assignment, method-assign]  # the seam: the loop of one test
    return asked
