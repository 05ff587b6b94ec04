"""What changes of executions leave behind in Postgres: most write no index entry, and vacuum keeps up with the rest."""

import asyncio
import random
import time
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import asyncpg  # type: ignore[import-untyped]  # it has no types
import msgspec
import pytest

from perdure.core.envelopes import Ack, NewExecution, OutgoingMessage
from perdure.core.paths import Key, QueueAddress
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Claim, Claimed, ClaimedExecution, Commit, Committed, Post
from tests.runtime.processes import record
from tests.stores.postgres_rows import PROGRAM, add_heads
from tests.stores.servers import DatabaseServer, postgres

HOT_MIN, HOT_MIN_WITH_TIMEOUTS = 0.95, 0.85
"""The least share of updates of held executions that write no index entry. With a timeout, the first of ten does, and one in each second."""

DEAD_MAX, SIZE_MAX = 1.0, 3.0
"""How many dead rows there may be for each live one, and how many times as large tables and indexes may be as when they were filled."""

PARKED = 10_000
QUEUE = QueueAddress("acme", "pay")


class Churned(NamedTuple):
    """The rows of a table, its updates, and its size with its indexes, in bytes."""

    live: int
    dead: int
    updates: int
    hot_updates: int
    size: int


async def state_of(server: DatabaseServer, table: str) -> Churned:
    """The state of a table. Sessions report what they have done when they end, so the stores are closed before."""
    connection = await asyncpg.connect(server.url)
    row = await connection.fetchrow(
        "SELECT n_live_tup, n_dead_tup, n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid) FROM pg_stat_user_tables "
        "WHERE schemaname = 'perdure' AND relname = $1",
        table,
    )
    await connection.close()
    return Churned(*row)


def started(name: str) -> OutgoingMessage:
    """The start of an execution."""
    key = Key("acme", "order", name)
    return OutgoingMessage(key, "start", b"start", opens=NewExecution("order", key))


def step(key: Key, holder: str, version: int, wake_at_s: float | None = None, **more: object) -> Commit:
    """The commit of a step of a held execution."""
    common = Commit(key=key, epoch=1, holder=holder, version=version, program=PROGRAM, root=key, row=b"row" * 50, count=1, wake_at_s=wake_at_s)
    return common if not more else msgspec.structs.replace(common, **more)


@pytest.mark.real
@pytest.mark.parametrize(
    ("timeouts", "hot_min"),
    [pytest.param(False, HOT_MIN, id="waiting for no time"), pytest.param(True, HOT_MIN_WITH_TIMEOUTS, id="with a timeout that moves")],
)
async def test_commits_of_held_executions_write_no_index_entries(timeouts: bool, hot_min: float) -> None:
    """A thousand executions begin together, as they do under load, and take ten steps each, in commits of a hundred.

    The first step, which makes them run, is not counted: it moves them from one line of the lists of executions to another.
    """
    now = [1_000_000.0]
    with postgres(autovacuum="off") as server:
        store = PostgresStore(server.url, lambda: now[0])
        await store.renew("one", 10_000)
        await store.commit([Post(messages=tuple(started(f"{number}") for number in range(1_000)))])
        held: list[Key] = []
        while len(held) < 1_000:
            held += [one.head.key for one in (await store.claim(Claim(holder="one", epoch=1, programs=frozenset(("order",))))).executions]
        for first in range(0, 1_000, 100):
            await store.commit([step(key, "one", 0) for key in held[first : first + 100]])
        await store.close()
        before = await state_of(server, "heads")
        store = PostgresStore(server.url, lambda: now[0])
        for version in range(1, 11):
            for first in range(0, 1_000, 100):
                now[0] += 0.01
                wake_at_s = now[0] + 30 if timeouts else None
                answers = await store.commit([step(key, "one", version, wake_at_s) for key in held[first : first + 100]])
                assert all(isinstance(answer, Committed) for answer in answers)
        await store.close()
        after = await state_of(server, "heads")
    updates, hot = after.updates - before.updates, after.hot_updates - before.hot_updates
    record(f"{hot} of {updates} updates of held executions were HOT")
    assert updates >= 10_000 and hot >= hot_min * updates


class Traffic:
    """An engine and a worker on a store of their own: executions start, take steps, send tasks and messages, end, and are removed some time later."""

    def __init__(self, server: DatabaseServer, name: str, numbers: Iterator[int], until_s: float) -> None:
        self.store = PostgresStore(server.url)
        self.name, self.numbers, self.until_s = name, numbers, until_s
        self.random = random.Random(name)
        self.ended: list[tuple[Key, int]] = []
        self.done = 0

    async def run(self) -> None:
        """Go on until the time is over."""
        await self.store.renew(self.name, 3_600)
        while time.monotonic() < self.until_s:
            await self.store.commit([Post(messages=tuple(started(f"{next(self.numbers)}") for _ in range(20)))])
            claimed = await self.store.claim(Claim(holder=self.name, epoch=1, programs=frozenset(("order", PROGRAM)), queues=frozenset(("pay",)), limit=50))
            await asyncio.gather(*map(self.advance, claimed.executions), self.work(claimed))
            await self.remove_some()
        await self.store.renew(self.name, 0)
        await self.store.close()

    async def advance(self, claimed: ClaimedExecution) -> None:
        """Take steps of an execution, then end it, or let it sleep a moment."""
        head, version = claimed.head, claimed.head.version
        acks = tuple(Ack(head.key, message.key) for message in claimed.messages)
        for number in range(4):
            task = OutgoingMessage(QUEUE, f"{head.key.id}/{version}", b"task")
            answer = await self.commit(step(head.key, self.name, version, acks=acks if number == 0 else (), messages=(task,) if number == 3 else ()))
            version = answer.version
        if self.random.random() < 0.3:
            await self.commit(step(head.key, self.name, version, time.time() + 0.5, release=True))
        else:
            answer = await self.commit(step(head.key, self.name, version, release=True, status="completed", ended_at_s=time.time()))
            self.ended.append((head.key, answer.version))
        self.done += 1

    async def work(self, claimed: Claimed) -> None:
        """Perform the tasks."""
        if claimed.work:
            await self.store.commit([Post(epoch=1, acks=tuple(Ack(task.to, task.key) for task in claimed.work))])

    async def remove_some(self) -> None:
        """Remove what ended some time ago."""
        while len(self.ended) > 200:
            key, version = self.ended.pop(0)
            await self.commit(step(key, self.name, version, count=0, row=b"", forgets=True))

    async def commit(self, commit: Commit) -> Committed:
        """Commit, which succeeds, since nobody else decides on what is held."""
        (answer,) = await self.store.commit([commit])
        assert isinstance(answer, Committed), answer
        return answer


@pytest.mark.parametrize("minutes", [pytest.param(1, marks=pytest.mark.real), pytest.param(30, marks=pytest.mark.prove)])
async def test_dead_rows_and_sizes_stay_bounded_under_traffic(minutes: float) -> None:
    """Two engines with workers among parked executions, with autovacuum as it is configured for the tables, waking every five seconds."""
    with postgres(autovacuum_naptime="5s") as server:
        store = PostgresStore(server.url)
        await store.store_time()
        await store.close()
        connection = await asyncpg.connect(server.url)
        await add_heads(connection, "parked ", PARKED, wake_at_s=time.time() + 1e6)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()
        full = await state_of(server, "heads")
        numbers = count()
        engines = [Traffic(server, name, numbers, time.monotonic() + 60 * minutes) for name in ("one", "two")]
        await asyncio.gather(*(engine.run() for engine in engines))
        heads, mail = await state_of(server, "heads"), await state_of(server, "mail")
    done = sum(engine.done for engine in engines)
    record(
        f"{done} executions advanced; heads: {heads.live} live and {heads.dead} dead rows, {heads.size / full.size:.1f} times as large as full, "
        f"{heads.hot_updates / heads.updates:.0%} of updates HOT; messages: {mail.live} live and {mail.dead} dead rows, {mail.size / 1e6:.1f} MB"
    )
    assert done > 500 * minutes
    assert heads.dead <= DEAD_MAX * heads.live and heads.size <= SIZE_MAX * full.size
    assert mail.dead <= DEAD_MAX * PARKED and mail.size <= SIZE_MAX * full.size
