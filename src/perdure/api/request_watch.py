"""Watches a long request, such as a stream or a wait: it is over when its client has gone, may not have it any more, or the process stops."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.api.http_requests import ApiRequest
from perdure.core.errors import Forbidden, IssuerUnavailable, PerdureError, StoreUnavailable, Unauthenticated

RECHECK_S = 5.0
"""The time between two checks that the key, the token or the session of a long request is still valid."""


def stopping_error() -> PerdureError:
    """The error with which a long request ends when its process stops."""
    return StoreUnavailable("this process is stopping; repeat the request, which another process or the next one answers")


async def until_over(request: ApiRequest, check: Callable[[], Awaitable[object]], stopping: "asyncio.Future[None] | None") -> PerdureError | None:
    """Waits until a request is over, and returns why: None if the client has gone, else the error that it is to be given.

    `check` raises what the request would be refused with if it began now. While that is not known, the request goes on.
    """
    gone: asyncio.Future[None] = asyncio.ensure_future(request.disconnected())
    ends: list[asyncio.Future[Any]] = [gone] if stopping is None else [gone, stopping]
    checking: asyncio.Future[object] | None = None
    try:
        while True:
            if checking is None:
                _ = await asyncio.wait(ends, timeout=RECHECK_S, return_when=asyncio.FIRST_COMPLETED)
            else:  # a database that does not answer delays neither end
                _ = await asyncio.wait((*ends, checking), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return None
            if stopping is not None and stopping.done():
                return stopping_error()
            if checking is None:
                checking = asyncio.ensure_future(check())
                continue
            try:
                _ = checking.result()
            except (Unauthenticated, Forbidden) as error:
                return error
            except (StoreUnavailable, IssuerUnavailable):
                pass
            checking = None
    finally:
        left: list[asyncio.Future[Any]] = [gone] if checking is None else [gone, checking]
        for one in left:
            _ = one.cancel()
        _ = await asyncio.gather(*left, return_exceptions=True)
