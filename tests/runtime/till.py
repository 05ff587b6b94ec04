"""Tills and printers, as processes: ``python -m tests.runtime.till PLACE NAME``, of a file or a server's URL. One called ``printer`` is an engine.

A till sells in transactions of its own, each with the start of a receipt and the news that it is paid, until it is killed. What it says is the number of
each sale that it has begun, and of each whose commit was acknowledged. A printer prints each receipt in a step with a transaction.
"""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from perdure import Context, Transaction, step, workflow
from perdure.runtime.engine import Engine
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient, Client


@step(transaction=True)
async def print_receipt(tx: Transaction, till: str, number: int) -> int:
    await tx.execute("INSERT INTO receipts VALUES ($1, $2)", till, number)
    return number


@workflow
async def receipt(ctx: Context, till: str, number: int) -> int:
    printed = await ctx.step(print_receipt, till, number)
    await ctx.listen("paid")
    return printed


def opened(place: str) -> Any:
    """A store there."""
    return PostgresStore(place) if place.startswith("postgresql:") else SqliteStore(Path(place))


def sell_in_file(place: str, till: str) -> None:
    """Sell, for ever."""
    with Client(f"sqlite:///{place}") as client, closing(sqlite3.connect(place, timeout=60.0)) as connection:
        (number,) = connection.execute("SELECT count(*) FROM sales WHERE till = ?", (till,)).fetchone()
        while True:
            connection.execute("INSERT INTO sales VALUES (?, ?)", (till, number))
            print("began", number, flush=True)
            handle = client.start(receipt.with_(id=f"{till}-{number}", connection=connection), till, number)
            handle.send("paid", connection=connection)
            connection.commit()
            print("sold", number, flush=True)
            number += 1


async def sell_on_server(place: str, till: str) -> None:
    """Sell, for ever."""
    import asyncpg  # type: ignore[import-untyped]  # it has no types

    connection = await asyncpg.connect(place)
    async with AsyncClient(opened(place)) as client:
        number = await connection.fetchval("SELECT count(*) FROM sales WHERE till = $1", till)
        while True:
            async with connection.transaction():
                await connection.execute("INSERT INTO sales VALUES ($1, $2)", till, number)
                print("began", number, flush=True)
                handle = await client.start(receipt.with_(id=f"{till}-{number}", connection=connection), till, number)
                await handle.send("paid", connection=connection)
            print("sold", number, flush=True)
            number += 1


async def print_all(place: str) -> None:
    """Print whatever is to be printed."""
    await Engine(opened(place), [receipt.code], lease_s=3.0).run()


if __name__ == "__main__":
    place, name = sys.argv[1:]
    if name == "printer":
        asyncio.run(print_all(place))
    elif place.startswith("postgresql:"):
        asyncio.run(sell_on_server(place, name))
    else:
        sell_in_file(place, name)
