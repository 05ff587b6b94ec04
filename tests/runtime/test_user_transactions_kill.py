"""A claim about tills that sell in transactions of their own, and printers that print in those of steps: whoever is killed, each sale has its receipt, once."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import sleep
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.runtime.engine import Engine
from perdure.sync_client import AsyncClient
from tests.runtime.processes import ProcessDirectory, record, seeded
from tests.runtime.till import opened, receipt
from tests.stores.servers import DatabaseServer, postgres

MAKE = ("CREATE TABLE sales (till TEXT, number INTEGER, PRIMARY KEY (till, number))", "CREATE TABLE receipts (till TEXT, number INTEGER)")
TILLS = ("till0", "till1")


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
@pytest.mark.parametrize("kills", [5, pytest.param(150, marks=pytest.mark.prove)])
def test_whoever_is_killed_each_sale_has_a_receipt_and_there_is_no_other(tmp_path: Path, kills: int, kind: str, request: pytest.FixtureRequest) -> None:
    with ProcessDirectory(tmp_path) as stage, seeded(3) as draw:
        place = str(stage.file) if kind == "sqlite" else request.getfixturevalue("server").url
        asyncio.run(make(place))
        acknowledged: set[tuple[str, int]] = set()
        printer = stage.begin("tests.runtime.till", place, "printer")
        for number in range(kills):
            name = TILLS[number % 2]
            till = stage.begin("tests.runtime.till", place, name)
            till.until_said("sold")
            sleep(draw.uniform(0, 0.2))
            if number % 3 == 2:
                printer.send(9)
                printer = stage.begin("tests.runtime.till", place, "printer")
            till.send(9)
            acknowledged |= {(name, int(line.split()[1])) for line in till.said.splitlines() if line.startswith("sold ")}
        printer.send(9)
        sold, printed, statuses = asyncio.run(finish(place))
        assert acknowledged <= {*sold} and printed == sold, "a receipt for each, and one only"
        assert statuses == {f"{name}-{number}": "completed" for name, number in sold}, "each was told that it is paid"
        record(f"{kills} kills of tills on {kind}, {kills // 3 + 1} of printers, {len(sold)} sales, {len(acknowledged)} acknowledged: a receipt for each")


async def make(place: str) -> None:
    """Make the tables."""
    store = opened(place)
    _ = await store.store_time()
    await store.close()
    _ = await asked(place, "DROP TABLE IF EXISTS sales", "DROP TABLE IF EXISTS receipts", *MAKE)


async def asked(place: str, *statements: str) -> Any:
    """What the last of these statements finds."""
    if place.startswith("postgresql:"):
        connection = await asyncpg.connect(place)
        for sql in statements:
            found = await connection.fetch(sql)
        await connection.close()
        return [*map(tuple, found)]
    with closing(sqlite3.connect(place)) as file:
        for sql in statements:
            found = file.execute(sql).fetchall()
        file.commit()
        return found


async def finish(place: str) -> tuple[Any, Any, dict[str, str]]:
    """Have an engine do what is left; return the sales, the receipts, and what the executions have come to."""
    store = opened(place)
    running = Engine(store, [receipt.code])
    task = asyncio.create_task(running.run())
    async with AsyncClient(store) as client, asyncio.timeout(120):
        while await client.list(status=["pending", "running", "waiting"], limit=1):
            await asyncio.sleep(0.05)
        statuses = {one.key.id: one.status for one in await client.list(limit=100_000)}
    running.stop()
    await task
    await store.close()
    sold, printed = [await asked(place, f"SELECT till, number FROM {table} ORDER BY till, number") for table in ("sales", "receipts")]
    return sold, printed, statuses
