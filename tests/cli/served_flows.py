"""A workflow whose effect is booked exactly once, for tests of `perdure serve`."""

import asyncio

from perdure import Context, Signal, Transaction, step, workflow

named = Signal("named", str)


@step(transaction=True)
async def book(tx: Transaction, order_id: str) -> int:
    """Books an order. Nothing but Perdure keeps it from being booked twice."""
    await tx.execute("CREATE TABLE IF NOT EXISTS ledger (order_id TEXT NOT NULL)")
    await tx.execute("INSERT INTO ledger VALUES (?)", order_id)
    return int(await tx.fetchval("SELECT count(*) FROM ledger"))


@workflow
async def order(ctx: Context, order_id: str) -> str:
    """Books an order."""
    await ctx.step(book, order_id)
    return order_id


@step
async def nap() -> None:
    """Takes a while."""
    await asyncio.sleep(0.5)


@workflow
async def slow(ctx: Context) -> str:
    """Naps."""
    await ctx.step(nap)
    return "awake"


@workflow
async def greet(ctx: Context) -> str:
    """Waits for a name."""
    name: str = await ctx.listen(named)
    return f"Hello {name}"
