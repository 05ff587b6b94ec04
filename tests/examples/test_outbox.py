"""The example `examples/outbox.yaml`, on one file with the store: an order and its row for the warehouse are there together, or neither is."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import App, Definition, ExecutionCancelled, ExecutionFailed
from perdure.stores.sqlite.database_setup import create_beside_application_tables

EXAMPLE = Path(__file__).parents[2] / "examples/outbox.yaml"
TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT UNIQUE, credit_cents INTEGER);
CREATE TABLE orders (number TEXT PRIMARY KEY, customer INTEGER);
CREATE TABLE outbox (id TEXT PRIMARY KEY, topic TEXT, body TEXT);
INSERT INTO customers VALUES (1, 'ada', 250);
"""


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Any]:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(TABLES)
    create_beside_application_tables(file)
    placing = Definition.load(EXAMPLE, connections={"shop": f"sqlite:///{file}"})
    async with App(definitions=placing, db=f"sqlite:///{file}") as app:
        yield app, placing, file


def rows(file: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


async def outbox(file: Path, number: int) -> list[Any]:
    """The outbox, once it has so many rows."""
    async with asyncio.timeout(20):
        while len(found := rows(file, "SELECT topic, body FROM outbox ORDER BY rowid")) < number:
            await asyncio.sleep(0.01)
    return [(topic, json.loads(body)) for topic, body in found]


async def test_an_order_and_its_row_for_the_warehouse_are_one_transaction(shop: Any) -> None:
    app, placing, file = shop
    handle = await app.start(placing.with_(id="o1"), customer="ada", items=["tea", "salt"])
    assert await outbox(file, 1) == [("orders", {"customer": "ada", "items": ["tea", "salt"]})]
    await handle.send("packed", "eve")
    assert await handle.result("20s") == {"placed": True, "packed_by": "eve"}
    with pytest.raises(ExecutionFailed, match="1 were expected; nothing was kept"):
        await app.run(placing.with_(id="o2"), customer="ada", items=["tea"])
    assert rows(file, "SELECT number FROM orders") == [("default/place-order/o1:place",)] and len(await outbox(file, 1)) == 1
    assert await app.run(placing.with_(id="o3"), customer="bob", items=[]) == {"placed": False, "why": "bob is no customer"}


async def test_an_order_that_is_cancelled_tells_the_warehouse(shop: Any) -> None:
    app, placing, file = shop
    handle = await app.start(placing.with_(id="o1"), customer="ada", items=["tea"])
    await outbox(file, 1)
    await handle.cancel()
    with pytest.raises(ExecutionCancelled):
        await handle.result("20s")
    assert (await outbox(file, 2))[1] == ("cancelled", {"customer": "ada"})
