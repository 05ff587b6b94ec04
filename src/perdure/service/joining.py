"""Joining: starts and messages that take part in a transaction which the caller has open on the store's database.

What is done is what is done without one, on the store as it is within the transaction. Nothing begins before its commit, so nothing can be waited for.
"""

from typing import Any, cast

from perdure.core import messages
from perdure.core.errors import BadValue, WrongVerb
from perdure.core.paths import Key
from perdure.programs.code.queues import Queue
from perdure.runtime.queues import limits_of
from perdure.service import operations
from perdure.service.access import Access
from perdure.service.operations import Start
from perdure.stores.base import UNLIMITED, Store
from perdure.stores.joining import Joined, joining


def must_not_wait(connection: Any) -> None:
    """Refuse a connection where what is started is waited for."""
    if connection is not None:
        raise WrongVerb("run(connection=...)", "nothing begins before your commit: use start(connection=...), commit, then result() of the handle")


async def start(store: Store, connection: Any, wanted: Start, queue: Queue | None) -> tuple[Key, bool]:
    """Start an execution, as `operations.start` does, in the transaction that is open on `connection`.

    Raises:
        BadValue: the connection is none to the store's database, has no transaction, or the limits of `queue` are not known there yet.
    """
    await joining(store).meet()
    async with joining(store).join(connection) as within:
        if queue is not None:
            await _must_be_declared(within, queue)
        return await operations.start(_access(within), wanted)


async def send(store: Store, connection: Any, key: Key, signal: messages.Signal, may_come: bool) -> None:
    """Send a signal, as `operations.send` does, in the transaction that is open on `connection`.

    Raises:
        BadValue: the connection is none to the store's database, or has no transaction.
        NotFound, HasEnded: nobody would read it.
    """
    await joining(store).meet()
    async with joining(store).join(connection) as within:
        _ = await operations.send(_access(within), key, signal, may_come)


async def _must_be_declared(within: Joined, queue: Queue) -> None:
    """To declare a queue is to change the limits of all that waits in it, which is nothing to do in somebody's transaction."""
    known = {stand.name: stand.limits for stand in await within.queues()}
    if known.get(queue.name, UNLIMITED).declared != limits_of(queue).declared:
        raise BadValue(
            "queue=", queue.name, "declared in the store with these limits yet: run an engine that has it, or start something in it once without connection="
        )


def _access(within: Joined) -> Access:
    return Access(cast("Store", within))  # no more is asked of it than it has
