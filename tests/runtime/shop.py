"""A shop, as a process: ``python -m tests.runtime.shop FILE DEPLOY``. Its code is that of the first, second or third deploy.

An order pays for each of its items in a child, which takes a place in the queue of the warehouse; every tenth is asked about. Each movement of money is two
entries that add up to nothing, under the key of its step, so that no movement can be written twice.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from perdure import Context, Queue, Retry, Rollback, Transaction, step, step_info, workflow
from perdure.runtime.server import serve

DEPLOY = int(sys.argv[2]) if __name__ == "__main__" else int(os.environ.get("SHOP_DEPLOY", "3"))
PATIENT = Retry(max=8, wait=0.02)
warehouse = Queue("warehouse", concurrency=6, per_key="number", concurrency_per_key=2)


def items(number: int) -> list[int]:
    """The prices of an order's items, in cents."""
    return [100 + number, 7 * number % 50 + 1, 3][: 1 + number % 3]


def is_asked(number: int) -> bool:
    """Whether somebody is asked about the order."""
    return number % 10 == 0


def is_granted(number: int) -> bool:
    """What that one says."""
    return number % 20 != 0


async def move(tx: Transaction, number: int, cents: int, giver: str, taker: str) -> None:
    """Write down that money has gone from one account to another."""
    key = step_info().key
    await tx.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", [(f"{key} -", number, giver, -cents), (f"{key} +", number, taker, cents)])


@step(transaction=True, retry=PATIENT)
async def pay(tx: Transaction, number: int, cents: int) -> int:
    await move(tx, number, cents, "customers", "shop")
    return cents


@pay.undo(transaction=True, retry=PATIENT)
async def refund(tx: Transaction, paid: int, number: int, cents: int) -> None:
    await move(tx, number, paid, "shop", "customers")


@step(transaction=True, retry=PATIENT)
async def give(tx: Transaction, number: int) -> None:
    await move(tx, number, 1, "shop", "charity")


@step(retry=PATIENT)
async def notify(number: int) -> str:
    await asyncio.sleep(0.01)
    return f"told the customer of {number}"


@workflow(queue=warehouse)
async def item(ctx: Context, number: int, cents: int) -> int:
    return await ctx.step(pay, number, cents)


@workflow
async def order(ctx: Context, number: int) -> dict[str, Any]:
    paid = sum(await ctx.map(lambda c, cents: c.call(item.with_(undo=True), number, cents), items(number)))
    if DEPLOY < 3:
        await ctx.step(notify, number)
    else:
        await ctx.removed("notify", "step")
    if is_asked(number) and not await ctx.approve(f"Order {number}?", assignees=["boss"]):
        raise Rollback(f"order {number} was denied")
    gift = 1
    if DEPLOY >= 2:
        gift = await ctx.version("gift", 2)
    if gift >= 2:
        await ctx.step(give, number)
    return {"paid": paid, "gift": gift >= 2}


if __name__ == "__main__":
    os.chdir(Path(sys.argv[1]).parent)
    url = f"sqlite:///{sys.argv[1]}"
    asyncio.run(serve([order.code, item.code], [], declares=[warehouse], db=url, ready=lambda _: print("ready", flush=True)))
