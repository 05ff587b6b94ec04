"""A bank, as a process: ``python -m tests.runtime.bank FILE``. Its steps write accounts in transactions, and marks of when each was at work."""

import asyncio
import os
import sys
import time
from pathlib import Path

from perdure import Context, Queue, Retry, Transaction, step, workflow
from perdure.runtime.server import serve

CONCURRENCY, PER_ACCOUNT = 3, 2
ACCOUNTS = "abcd"

narrow = Queue("narrow", concurrency=CONCURRENCY, per_key="account", concurrency_per_key=PER_ACCOUNT)


def mark(what: str, name: str) -> None:
    """Say so in the file of marks, in one write."""
    line = f"{what} {name} {os.getpid()} {time.monotonic()}\n".encode()
    descriptor = os.open("marks", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line)
    os.close(descriptor)


@step(retry=Retry(max=5, wait=0.01))
async def at_work(account: str, number: int) -> None:
    mark("begin", f"{account}{number}")
    await asyncio.sleep(0.02)
    mark("end", f"{account}{number}")


@step(transaction=True, retry=Retry(max=5, wait=0.01))
async def pay(tx: Transaction, account: str, number: int) -> int:
    await tx.execute("INSERT INTO payments VALUES (?, ?)", account, number)
    await tx.execute("UPDATE accounts SET cents = cents + 1 WHERE account = ?", account)
    cents: int = await tx.fetchval("SELECT cents FROM accounts WHERE account = ?", account)
    return cents


@workflow(queue=narrow)
async def order(ctx: Context, account: str, number: int) -> int:
    await ctx.step(at_work, account, number)
    cents = await ctx.step(pay, account, number)
    await ctx.step("again", at_work, account, number)
    return cents


@workflow
async def calls(ctx: Context, account: str, number: int) -> int:
    await ctx.step(at_work.with_(queue=narrow), account, number)
    return await ctx.step(pay.with_(queue=narrow), account, number)


if __name__ == "__main__":
    os.chdir(Path(sys.argv[1]).parent)
    url = f"sqlite:///{sys.argv[1]}"
    asyncio.run(serve([order.code, calls.code], [at_work, pay], queues=["narrow"], declares=[narrow], db=url, ready=lambda _: print("ready", flush=True)))
