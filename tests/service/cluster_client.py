"""A cluster in virtual time, and a client of its store."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from perdure.sync_client import AsyncClient
from perdure.testing.virtual_time import run
from tests.runtime.cluster import Cluster, cluster

Claimed = Callable[[Cluster, AsyncClient], Coroutine[Any, Any, None]]


def virtually(test: Claimed) -> Callable[[], None]:
    """Run a test with a cluster and a client, in virtual time; callbacks without end are an error and not a hang."""

    @wraps(test)
    async def inside() -> None:
        async with cluster() as c, AsyncClient(c.store) as client:
            await test(c, client)

    def virtual() -> None:
        run(inside, handles_max=1_000_000)

    virtual.__name__, virtual.__doc__ = test.__name__, test.__doc__
    return virtual
