"""The API of a service as an ASGI application: mounted in FastAPI or Starlette, or alone under any ASGI server. See `perdure.api.app`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from perdure.api.api_app import Authenticate, Endpoint
from perdure.api.http_requests import AsgiReceive, AsgiScope, AsgiSend
from perdure.api.service_api import ServiceApi, ServiceSettings
from perdure.app import App
from perdure.core.errors import WrongVerb
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import opened_store
from perdure.stores.protocol import Store


class ServiceApplication:
    """The API on an `App`, an open store, or the database of a URL, which its lifespan opens and closes. `mcp` answers at ``/mcp``."""

    def __init__(self, source: App | Store | str | None, settings: ServiceSettings, authenticate: Authenticate | None, mcp: Endpoint | None = None) -> None:
        self._source, self._settings, self._authenticate, self._mcp = source, settings, authenticate, mcp
        self._service: ServiceApi | None = None

    @asynccontextmanager
    async def lifespan(self, server: object = None) -> AsyncIterator[None]:
        """Keeps the API open while a server runs: ``FastAPI(lifespan=service.lifespan)``, and the same for Starlette, which do not open what is mounted.

        The `server`, which these frameworks pass, is not used. An App is opened and closed with it, unless it is open already.

        Raises:
            WrongVerb: it is open already.
        """
        if self._service is not None:
            raise WrongVerb("the API is open already", "open it once: with the lifespan of the application in which it is mounted, or by its own server")
        async with AsyncExitStack() as opened:
            access = await self._access(opened)
            service = ServiceApi(access, self._settings, self._authenticate, self._mcp)
            keeping = asyncio.create_task(service.run())
            self._service = service
            try:
                yield
            finally:
                self._service = None
                service.app.begin_stop()
                keeping.cancel()
                _ = await asyncio.gather(keeping, return_exceptions=True)

    async def _access(self, opened: AsyncExitStack) -> StoreAccess:
        if isinstance(self._source, App):
            if not self._source.is_open:
                _ = await opened.enter_async_context(self._source.lifespan())
            return self._source.client.access
        access = StoreAccess(await opened.enter_async_context(opened_store(self._source)))
        opened.push_async_callback(access.aclose)
        return access

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answers one request, or opens and closes the API for a server that has nothing else to serve."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
            return
        if self._service is None:
            raise WrongVerb("the API is not open", "pass its lifespan to the application in which it is mounted: FastAPI(lifespan=service.lifespan)")
        await self._service.app(scope, receive, send)

    async def _serve_lifespan(self, receive: AsgiReceive, send: AsgiSend) -> None:
        _ = await receive()  # that the server begins
        opening = self.lifespan()
        try:
            await opening.__aenter__()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        _ = await receive()  # that the server ends
        _ = await opening.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})
