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
from perdure.stores import postgres_tables as tables
from perdure.stores.base import ALL, Answer, Commit, Filter, Head, Log, Moment, Post, QueueStand
from perdure.stores.postgres_drivers import fetching, visiting
from perdure.stores.postgres_queues import Fetch

PLACE = "SELECT current_database()::text, system_identifier::text FROM pg_control_system()"
"""What tells one database from another, whatever way leads to it."""
VISITED = PLACE.replace(" FROM", ", has_schema_privilege(to_regnamespace('perdure'), 'USAGE'), current_user::text FROM")
GRANTS = (
    "allowed to use Perdure's tables; GRANT it USAGE on SCHEMA perdure, SELECT, INSERT, UPDATE and DELETE on ALL TABLES in it, and USAGE on ALL SEQUENCES in it"
)


class PostgresJoined:
    """The database as it is in the transaction by way of which `fetch` asks. See `Joined`."""

    def __init__(self, fetch: Fetch, clock: Callable[[], float] | None) -> None:
        self._fetch, self._clock = fetch, clock

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Answer]:
        """See `Store.commit`."""
        here = await self._begun(tables.executions_of(changes))
        answers = [await here.change(change) for change in changes]
        for channel in here.rung:
            await self._fetch("SELECT pg_notify($1, '')", channel)
        return answers

    async def read(self, key: Key, after: int = 0) -> Log | None:
        """See `Store.read`."""
        return await tables.read(self._fetch, key, after)

    async def heads(self, which: Filter = ALL) -> list[Head]:
        """See `Store.heads`."""
        return await tables.heads(self._fetch, which)

    async def mail(self, to: Address) -> list[Mail]:
        """See `Store.mail`."""
        return await tables.mail(self._fetch, to)

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        return await tables.blob(self._fetch, sha256)

    async def moment(self) -> Moment:
        """See `Store.moment`."""
        return (await self._begun()).moment

    async def queues(self) -> list[QueueStand]:
        """See `Store.queues`."""
        return await queues.stands(self._fetch, (await self._begun()).moment.now_s)

    async def _begun(self, executions: Iterable[Key] = ()) -> tables.Tables:
        return await tables.begun(self._fetch, executions, self._clock and self._clock())


@asynccontextmanager
async def joined(given: Any, place: tuple[Any, ...], clock: Callable[[], float] | None, home: AbstractEventLoop | None) -> AsyncIterator[PostgresJoined]:
    """The database at `place` within the transaction on the connection that was `given`; `home` is the loop of the store. See `Joining.join`."""
    fetch = await fetching(given, home)
    async with visiting(given, fetch):
        ((*found, may, role),) = await fetch(VISITED)
        if tuple(found) != place:
            raise BadValue("connection=", f"a connection to {found[0]} (cluster {found[1]})", f"to this client's database, {place[0]} (cluster {place[1]})")
        if not may:
            raise BadValue("connection=", f"a connection of the role {role}", GRANTS)
        yield PostgresJoined(fetch, clock)
