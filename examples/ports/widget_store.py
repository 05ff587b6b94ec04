"""DBOS's widget store under FastAPI: a checkout that reserves a widget, waits for the payment, and dispatches the order.

    uvicorn examples.ports.widget_store:web --workers 2
    curl -X POST localhost:8000/checkout/key-1                      # the payment id
    curl -X POST localhost:8000/payment_webhook/key-1/paid          # the order id
    curl localhost:8000/order/1
    curl -X POST localhost:8000/crash_application                   # at any time: the checkouts continue

The original is python/widget-store of https://github.com/dbos-inc/dbos-demo-apps at 90064b8. That repository has no licence, so nothing of it is quoted: this
program has its addresses and its tables, and is written anew. Orders and inventory are tables in the file of Perdure, so each change happens exactly once.
"""

import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Response

from perdure import App, Context, ExecutionFailed, HasEnded, NotFound, Retry, Rollback, Signal, Transaction, step, workflow

DIRECTORY = Path(os.environ.get("SHOP_DIRECTORY", ".shop"))
FULL_STOCK = 100
PROGRESS_STEPS = 10
PROGRESS_EVERY = os.environ.get("WIDGET_PROGRESS_EVERY", "1s")

TABLES = (
    "CREATE TABLE products (product_id INTEGER PRIMARY KEY, product TEXT UNIQUE NOT NULL, inventory INTEGER NOT NULL CHECK (inventory >= 0))",
    f"INSERT INTO products VALUES (1, 'Premium Quality Widget', {FULL_STOCK})",
    f"CREATE TABLE orders (order_id INTEGER PRIMARY KEY, order_status INTEGER NOT NULL, progress_remaining INTEGER NOT NULL DEFAULT {PROGRESS_STEPS})",
)


class OrderStatus(IntEnum):
    CANCELLED = -1
    PENDING = 0
    DISPATCHED = 1
    PAID = 2


class SoldOut(Exception):
    """No widget is left."""


payment_status = Signal("payment_status", str)


@step(transaction=True)
async def make_tables(tx: Transaction) -> None:
    for statement in TABLES:
        await tx.execute(statement)


@workflow
async def set_up(ctx: Context) -> None:
    await ctx.step(make_tables)


@step(transaction=True)
async def create_order(tx: Transaction) -> int:
    await tx.execute("INSERT INTO orders (order_status) VALUES (?)", OrderStatus.PENDING)
    return int(await tx.fetchval("SELECT last_insert_rowid()"))


@create_order.undo(transaction=True)
async def cancel_order(tx: Transaction, order_id: int) -> None:
    await tx.execute("UPDATE orders SET order_status = ? WHERE order_id = ?", OrderStatus.CANCELLED, order_id)


@step(transaction=True, raises=(SoldOut,), retry=Retry(fatal=(SoldOut,)))
async def reserve_inventory(tx: Transaction) -> None:
    if await tx.fetchval("UPDATE products SET inventory = inventory - 1 WHERE product_id = 1 AND inventory > 0 RETURNING inventory") is None:
        raise SoldOut("no widget is left")


@reserve_inventory.undo(transaction=True)
async def return_inventory(tx: Transaction, _: None) -> None:
    await tx.execute("UPDATE products SET inventory = inventory + 1 WHERE product_id = 1")


@step(transaction=True)
async def mark_paid(tx: Transaction, order_id: int) -> None:
    await tx.execute("UPDATE orders SET order_status = ? WHERE order_id = ?", OrderStatus.PAID, order_id)


@step(transaction=True)
async def update_progress(tx: Transaction, order_id: int) -> None:
    left = await tx.fetchval("UPDATE orders SET progress_remaining = progress_remaining - 1 WHERE order_id = ? RETURNING progress_remaining", order_id)
    if left == 0:
        await tx.execute("UPDATE orders SET order_status = ? WHERE order_id = ?", OrderStatus.DISPATCHED, order_id)


@workflow
async def checkout(ctx: Context) -> int:
    order_id = await ctx.step(create_order)
    ctx.set("order_id", order_id)
    await ctx.step(reserve_inventory)
    ctx.emit({"payment_id": ctx.execution.id})
    status = await ctx.listen(payment_status, timeout="60s", default="timed out")
    if status != "paid":
        raise Rollback(f"payment: {status}")
    await ctx.step(mark_paid, order_id)
    await ctx.start(dispatch_order.with_(id=f"order-{order_id}"), order_id)
    return order_id


@workflow
async def dispatch_order(ctx: Context, order_id: int) -> None:
    for number in range(PROGRESS_STEPS):
        await ctx.sleep(PROGRESS_EVERY, name=f"progress {number}")
        await ctx.step(update_progress, order_id)


app = App([set_up, checkout, dispatch_order], db=f"sqlite:///{DIRECTORY}/shop.db", grace="5s")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Opens the App, and makes the tables once, whichever process is the first: an execution with an id runs once, ever."""
    async with app:
        await app.run(set_up.with_(id="tables-1"))
        yield


web = FastAPI(title="Widget store", lifespan=lifespan)


@web.post("/checkout/{idempotency_key}")
async def begin_checkout(idempotency_key: str) -> Response:
    """Starts a checkout, once for a key, and answers with its payment id when a widget is reserved."""
    handle = await app.start(checkout.with_(id=idempotency_key))
    async for emitted in handle.stream():
        return Response(emitted.value["payment_id"])
    raise HTTPException(404, "Checkout failed to start")


@web.post("/payment_webhook/{payment_id}/{status}")
async def take_payment(payment_id: str, status: str) -> Response:
    """Tells a checkout how the payment ended, and answers with the order id. The first status counts; a repeated call gets the same answer."""
    try:
        handle = await app.handle(payment_id, checkout)
    except NotFound as error:
        raise HTTPException(404, "Payment failed to process") from error
    with suppress(HasEnded):
        await handle.send(payment_status, status, key="payment")
    with suppress(ExecutionFailed):  # the order was cancelled, and has its id all the same
        await handle.result()
    return Response(str(await handle.query("order_id")))


@web.get("/product")
def show_product() -> dict[str, Any]:
    """Shows the widget and how many there are."""
    return rows("SELECT * FROM products")[0]


@web.get("/orders")
def show_orders() -> list[dict[str, Any]]:
    """Shows all orders."""
    return rows("SELECT * FROM orders ORDER BY order_id")


@web.get("/order/{order_id}")
def show_order(order_id: int) -> dict[str, Any]:
    """Shows an order."""
    found = rows("SELECT * FROM orders WHERE order_id = ?", order_id)
    if not found:
        raise HTTPException(404, f"There is no order {order_id}")
    return found[0]


@web.post("/restock")
def restock() -> None:
    """Fills the stock. An ordinary transaction of this program, beside those of the steps."""
    with database() as connection, connection:
        connection.execute("UPDATE products SET inventory = ?", (FULL_STOCK,))


@web.post("/crash_application")
def crash_application() -> None:
    """Kills this process, as a power cut would. For demonstration only."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    """A connection of its own to the file of Perdure."""
    with closing(sqlite3.connect(DIRECTORY / "shop.db", timeout=30)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def rows(statement: str, *parameters: object) -> list[dict[str, Any]]:
    """The rows that a statement reads."""
    with database() as connection:
        return [dict(row) for row in connection.execute(statement, parameters)]
