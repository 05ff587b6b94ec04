"""A till, as a process: ``python -m tests.runtime.till FILE KEY``. It sells in transactions of its own, each with the start of a receipt, until it is killed.

What it says is the number of each sale that it has begun, and of each whose commit was acknowledged.
"""

import sqlite3
import sys
from contextlib import closing

from perdure import Context, Transaction, step, workflow
from perdure.client import Client


@step(transaction=True)
async def print_receipt(tx: Transaction, till: str, number: int) -> int:
    await tx.execute("INSERT INTO receipts VALUES (?, ?)", till, number)
    return number


@workflow
async def receipt(ctx: Context, till: str, number: int) -> int:
    printed = await ctx.step(print_receipt, till, number)
    await ctx.listen("paid")
    return printed


def sell(client: Client, connection: sqlite3.Connection, till: str, number: int) -> None:
    """One sale: what is sold, the receipt that is begun, and the news that it is paid, are one transaction."""
    connection.execute("INSERT INTO sales VALUES (?, ?)", (till, number))
    print("began", number, flush=True)
    handle = client.start(receipt, till, number, id=f"{till}-{number}", connection=connection)
    handle.send("paid", connection=connection)
    connection.commit()
    print("sold", number, flush=True)


def main(file: str, till: str) -> None:
    with Client(f"sqlite:///{file}") as client, closing(sqlite3.connect(file, timeout=60.0)) as connection:
        (first,) = connection.execute("SELECT count(*) FROM sales WHERE till = ?", (till,)).fetchone()
        number = first
        while True:
            sell(client, connection, till, number)
            number += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
