"""Joined: what is posted within a transaction that a user has open on the database, by way of the user's own connection.

What is done there is what the store does itself (`postgres_tables`), its locks included: until the user's transaction ends, nobody else changes or
writes to the executions that it has posted to. Who waits is notified by Postgres, with the user's commit.
"""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from perdure.core.errors import BadValue
from perdure.core.mail import Mail
from perdure.core.paths import Address, Key
from perdure.stores import postgres_queues as queues
from perdure.stores.base import ALL, Answer, Commit, Filter, Head, Log, Moment, Post, QueueStand
from perdure.stores.postgres_drivers import fetching, visiting
from perdure.stores.postgres_queues import Fetch
from perdure.stores.postgres_tables import Tables, begun, executions_of

PLACE = "SELECT current_database()::text, system_identifier::text FROM pg_control_system()"
"""What tells one database from another, whatever way leads to it."""


class PostgresJoined:
    """The database as it is in the transaction by way of which `fetch` asks. See `Joined`."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float] | None) -> None:
        self._fetch, self._clock = fetch, clock

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Answer]:
        """See `Store.commit`."""
        tables = await self._tables(executions_of(changes))
        answers = [await tables.change(change) for change in changes]
        for channel in tables.rung:
            await self._fetch("SELECT pg_notify($1, '')", channel)
        return answers

    async def read(self, key: Key, after: int = 0) -> Log | None:
        """See `Store.read`."""
        return await (await self._tables()).read(key, after)

    async def heads(self, which: Filter = ALL) -> list[Head]:
        """See `Store.heads`."""
        return await (await self._tables()).heads(which)

    async def mail(self, to: Address) -> list[Mail]:
        """See `Store.mail`."""
        return await (await self._tables()).mail(to)

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await (await self._tables()).blob(sha256)

    async def moment(self) -> Moment:
        """See `Store.moment`."""
        return (await self._tables()).moment

    async def queues(self) -> list[QueueStand]:
        """See `Store.queues`."""
        tables = await self._tables()
        return await queues.stands(tables.fetch, tables.moment.now_s)

    async def _tables(self, executions: Iterable[Key] = ()) -> Tables:
        return await begun(self._fetch, executions, self._clock and self._clock())


@asynccontextmanager
async def joined(given: Any, place: tuple[Any, ...], clock: Callable[[], float] | None, home: AbstractEventLoop | None) -> AsyncIterator[PostgresJoined]:
    """The database at `place` within the transaction on the connection that was `given`; `home` is the loop of the store. See `Joining.join`."""
    fetch = await fetching(given, home)
    async with visiting(given, fetch):
        (found,) = map(tuple, await fetch(PLACE))
        if found != place:
            raise BadValue("connection=", f"a connection to {found[0]} (cluster {found[1]})", f"to this client's database, {place[0]} (cluster {place[1]})")
        yield PostgresJoined(fetch, clock)
