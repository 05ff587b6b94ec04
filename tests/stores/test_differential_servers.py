"""The stores on servers do what the memory store does, whatever is asked of them: the walk of `test_differential`, with another twin."""

from collections.abc import Iterator
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest
from redis.asyncio import Redis

from perdure.stores.postgres.store import PostgresStore
from perdure.stores.redis import PREFIX, RedisStore
from tests.stores import test_differential as walk
from tests.stores import test_feed_differential as feed_walk
from tests.stores.servers import DatabaseServer, postgres, valkey

IN_REAL, IN_PROVE = range(3), range(3, 23)
IN_REAL_AND_PROVE = pytest.mark.parametrize(
    "seed", [*(pytest.param(seed, marks=pytest.mark.real) for seed in IN_REAL), *(pytest.param(seed, marks=pytest.mark.prove) for seed in IN_PROVE)]
)


class PostgresTwin(PostgresStore):
    """A file that is closed lets all holders go. So does this."""

    async def close(self) -> None:
        for holder in walk.HOLDERS:
            await self.renew(holder, 0)
        await super().close()


class RedisTwin(RedisStore):
    """The same."""

    async def close(self) -> None:
        for holder in walk.HOLDERS:
            await self.renew(holder, 0)
        await super().close()


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def valkey_server() -> Iterator[DatabaseServer]:
    with valkey() as server:
        yield server


@IN_REAL_AND_PROVE
async def test_postgres_does_what_memory_does(seed: int, postgres_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await asyncpg.connect(postgres_server.url)
    await connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    await connection.close()
    monkeypatch.setattr(walk, "SqliteStore", lambda _file, clock, **_settings: PostgresTwin(postgres_server.url, clock))
    await walk.compare_stores(seed, Path(), walk.OPERATIONS_MIN)


@IN_REAL_AND_PROVE
async def test_a_copy_by_the_feed_from_or_to_postgres_is_the_store(
    seed: int, postgres_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Postgres is shipped to a memory store, and a memory store to a second database."""
    connection = await asyncpg.connect(postgres_server.url)
    await connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    await connection.execute("DROP DATABASE IF EXISTS copy")
    await connection.execute("CREATE DATABASE copy")
    await connection.close()
    copy_url = postgres_server.url.replace("/postgres?", "/copy?")
    monkeypatch.setattr(walk, "SqliteStore", lambda _file, clock, **_settings: PostgresTwin(postgres_server.url, clock))
    monkeypatch.setattr(feed_walk, "SqliteStore", lambda _file, clock, **_settings: PostgresStore(copy_url, clock))
    await feed_walk.ship_at_random(seed, tmp_path, feed_walk.OPERATIONS)


@pytest.mark.real
@pytest.mark.parametrize("seed", range(5))
async def test_redis_does_what_memory_does(seed: int, valkey_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Redis.from_url(valkey_server.url) as client:
        await client.flushall()
        await client.set(f"{PREFIX}epoch", 1)
    monkeypatch.setattr(walk, "SqliteStore", lambda _file, clock, **_settings: RedisTwin(valkey_server.url, clock))
    await walk.compare_stores(seed, Path(), walk.OPERATIONS_MIN)


@pytest.mark.real
@pytest.mark.parametrize("seed", range(3))
async def test_a_copy_by_the_feed_from_or_to_redis_is_the_store(
    seed: int, valkey_server: DatabaseServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Redis is shipped to a memory store, and a memory store to a second database of the server."""
    async with Redis.from_url(valkey_server.url) as client:
        await client.flushall()
        await client.set(f"{PREFIX}epoch", 1)
    copy_url = f"{valkey_server.url}?db=1"
    monkeypatch.setattr(walk, "SqliteStore", lambda _file, clock, **_settings: RedisTwin(valkey_server.url, clock))
    monkeypatch.setattr(feed_walk, "SqliteStore", lambda _file, clock, **_settings: RedisStore(copy_url, clock))
    await feed_walk.ship_at_random(seed, tmp_path, feed_walk.OPERATIONS)
