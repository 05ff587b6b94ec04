"""Claims about sql steps whose engine is killed at any of its writes: in the store's database each row is there once; elsewhere at least once."""

import asyncio
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.stores.sqlite.database_setup import create_beside_application_tables
from tests.stores.servers import DatabaseServer, postgres

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
TABLES = "CREATE TABLE accounts (id int PRIMARY KEY, cents int); CREATE TABLE outbox (id text, body text); INSERT INTO accounts VALUES (1, 10), (2, 0);"
END = {"left": 5, "moved": [1, 1, "moved"], "sold": 1}
ONCE = [("default/sale/x:move", "moved"), ("default/sale/x:sell", "sold")]
READ = ("SELECT id, body FROM outbox ORDER BY id", "SELECT id, cents FROM accounts ORDER BY id")


async def process(*given: str) -> tuple[int, str]:
    """How a process has ended, and what it has said."""
    arguments = (sys.executable, "-W", "error", "-m", "tests.definitions.kinds.sql.sql_process", *given)
    begun = await asyncio.create_subprocess_exec(*arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    said, errors = await asyncio.wait_for(begun.communicate(), 60)
    assert begun.returncode in (0, -signal.SIGKILL), errors.decode()
    return begun.returncode or 0, said.decode()


class Place(NamedTuple):
    """An empty database of the store with the tables of a user, or of both; and what is in the tables of the user."""

    url: str
    connection: str
    rows: Callable[[str], Awaitable[list[Any]]]


async def killed(place: Place, write: int, side: str) -> list[list[Any]]:
    """What is in the tables after an engine has died there, and another one has ended its execution."""
    code, said = await process(place.url, place.connection, str(write), side)
    if code:
        code, said = await process(place.url, place.connection, "0", "never")
    assert code == 0 and said.splitlines()[0] == str(END)
    return [await place.rows(query) for query in READ]


MakePlace = Callable[[str], Awaitable[Place]]


@pytest.fixture
def sqlite(tmp_path: Path) -> MakePlace:
    async def make(name: str) -> Place:
        own, other = tmp_path / f"{name}.db", tmp_path / f"{name}-shop.db"
        for file in (own, other):
            with closing(sqlite3.connect(file)) as connection:
                connection.executescript(TABLES)
        create_beside_application_tables(own)
        file = other if name.startswith("elsewhere") else own

        async def rows(query: str) -> list[Any]:
            with closing(sqlite3.connect(file)) as connection:
                return connection.execute(query).fetchall()

        return Place(f"sqlite:///{own}", f"sqlite:///{file}", rows)

    return make


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
async def on_postgres(server: DatabaseServer) -> AsyncIterator[MakePlace]:
    connection = await asyncpg.connect(server.url)

    async def make(name: str) -> Place:
        await connection.execute(f"DROP SCHEMA IF EXISTS perdure CASCADE; DROP TABLE IF EXISTS accounts, outbox; {TABLES}")

        async def rows(query: str) -> list[Any]:
            return [tuple(row) for row in await connection.fetch(query)]

        return Place(server.url, server.url, rows)

    yield make
    await connection.close()


async def every_row_is_there_once(make: MakePlace, sides: tuple[str, ...] = ("before", "within", "after"), every: int = 1) -> None:
    place = await make("whole")
    _, said = await process(place.url, place.connection, "0", "never")
    writes = int(said.splitlines()[-1])
    assert writes >= 4
    for write in range(every, writes + 1, every):
        for side in sides:
            found = await killed(await make(f"killed-{write}-{side}"), write, side)
            assert found == [ONCE, [(1, 5), (2, 5)]], (write, side)


async def test_in_the_store_s_file_every_row_is_there_once_if_the_engine_dies_within_a_transaction(sqlite: MakePlace) -> None:
    await every_row_is_there_once(sqlite, ("within",), every=4)


@pytest.mark.prove
async def test_in_the_store_s_file_every_row_is_there_once_wherever_the_engine_dies(sqlite: MakePlace) -> None:
    await every_row_is_there_once(sqlite)


@pytest.mark.real
async def test_in_the_store_s_postgres_every_row_is_there_once_wherever_the_engine_dies(on_postgres: MakePlace) -> None:
    await every_row_is_there_once(on_postgres)


@pytest.mark.prove
async def test_in_another_database_every_row_is_there_at_least_once_with_the_same_key(sqlite: MakePlace) -> None:
    place = await sqlite("elsewhere-whole")
    _, said = await process(place.url, place.connection, "0", "never")
    for write in range(1, int(said.splitlines()[-1]) + 1):
        place = await sqlite(f"elsewhere-{write}")
        code, _ = await process(place.url, place.connection, str(write), "before")
        if code:
            code, _ = await process(place.url, place.connection, "0", "never")
        assert code == 0 and set(await place.rows(READ[0])) == set(ONCE)
