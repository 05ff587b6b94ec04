"""The workflows of a shop, which the web applications beside this file run inside their own processes.

An order of 500.00 or more waits for an approval, whose links the step `send_links` writes to a file instead of sending a mail. The ledger and the stock are
tables in the database of Perdure, so that each charge and each imported row is booked exactly once.
"""

import csv
import io
import os
from pathlib import Path

from perdure import App, Context, Notice, Transaction, step, workflow

DIRECTORY = Path(os.environ.get("SHOP_DIRECTORY", ".shop"))
SECRET = os.environ.get("SHOP_SECRET", "a secret that is good enough to try the example")
APPROVAL_CENTS = 50_000
ROWS_PER_PAGE = 20

DECISION_PAGE = """<!doctype html><title>Shop</title><form method="post"><button>Send the answer of this link</button></form>"""

TABLES = (
    "CREATE TABLE IF NOT EXISTS ledger (order_id TEXT NOT NULL, cents INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS stock (article TEXT PRIMARY KEY, pieces INTEGER NOT NULL)",
)


@step(transaction=True)
async def make_tables(tx: Transaction) -> None:
    """Creates the tables of the shop."""
    for statement in TABLES:
        await tx.execute(statement)


@step(transaction=True)
async def charge(tx: Transaction, order_id: str, cents: int) -> int:
    """Books a payment and returns the number of its row. Without a key on the order: only Perdure keeps it from being booked twice."""
    await tx.execute("INSERT INTO ledger VALUES (?, ?)", order_id, cents)
    return int(await tx.fetchval("SELECT last_insert_rowid()"))


@step(transaction=True)
async def add_to_stock(tx: Transaction, rows: list[tuple[str, int]]) -> int:
    """Adds the pieces of a page of rows to the stock."""
    await tx.executemany("INSERT INTO stock VALUES (?, ?) ON CONFLICT (article) DO UPDATE SET pieces = pieces + excluded.pieces", rows)
    return len(rows)


@step
async def send_links(notice: Notice) -> None:
    """Tells the manager where to answer: one link to approve, one to reject."""
    links = [await app.client.approval_link(notice.approval, by="manager", approve=answer, secret=SECRET) for answer in (True, False)]
    mail = DIRECTORY / "mails.txt"
    mail.parent.mkdir(parents=True, exist_ok=True)
    with mail.open("a") as file:
        file.write("".join(f"{notice.title} {'yes' if answer else 'no'}: /decide/{link}\n" for answer, link in zip((True, False), links, strict=True)))


@workflow
async def order(ctx: Context, order_id: str, cents: int) -> str:
    """Charges an order, after an approval if it is expensive."""
    if cents >= APPROVAL_CENTS:
        decision = await ctx.approve(f"Sell {order_id} for {cents / 100:.2f}?", assignees=["manager"], notify=send_links, timeout="7d", on_timeout="reject")
        if not decision:
            return f"rejected: {decision.comment or 'no comment'}"
    await ctx.step(make_tables)
    return f"paid, row {await ctx.step(charge, order_id, cents)}"


@workflow
async def import_stock(ctx: Context, text: str) -> int:
    """Adds the rows of a CSV file (article,pieces) to the stock, page by page. It emits how many rows are done, of how many."""
    rows = [(article, int(pieces)) for article, pieces in csv.reader(io.StringIO(text))]
    await ctx.step(make_tables)
    for begin in range(0, len(rows), ROWS_PER_PAGE):
        done = begin + await ctx.step(add_to_stock, rows[begin : begin + ROWS_PER_PAGE])
        ctx.emit({"done": done, "of": len(rows)})
    return len(rows)


app = App([order, import_stock], db=os.environ.get("PERDURE_DB", f"sqlite:///{DIRECTORY}/shop.db"), grace="5s")
