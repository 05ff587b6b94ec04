"""Workflows that the tests of the command line run; imported by path, as users' files are."""

import asyncio
from typing import Any

from perdure import Context, Fatal, Retry, Signal, step, workflow

approved = Signal("approved", bool)


class Declined(Exception):
    """A card was declined."""


@step
def greeting(name: str) -> str:
    return f"Hello {name}"


@step(retry=Retry(max=2, wait="1ms", jitter=0))
def charge(order: str, cents: int) -> str:
    if cents > 1000:
        raise Declined(f"{cents} is too much\nfor {order}")
    return f"charged {cents}"


@step
def refuse() -> None:
    raise Fatal("never")


@step
async def think() -> None:
    print("thinking", flush=True)  # noqa: T201  # a test waits for it
    await asyncio.sleep(60)


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)


@workflow(version=2)
async def order(ctx: Context, order_id: str, cents: int = 500) -> str:
    """Charge, then wait to be told what to do."""
    ctx.set("phase", "charging")
    receipt = await ctx.step(charge, order_id, cents)
    ctx.emit({"receipt": receipt})
    ctx.emit("charged")
    ctx.set("phase", "waiting")
    granted = await ctx.listen(approved)
    return "shipped" if granted else "kept"


@workflow
async def branches(ctx: Context) -> list[int]:
    """A join, a loop, a race: what a tree of steps is made of."""

    async def left(c: Context) -> str:
        return await c.step(greeting, "left")

    async def right(c: Context) -> str:
        return await c.step(greeting, "right")

    await ctx.join(left, right)
    async for turn in ctx.loop("audit", state=0):
        await turn.step(greeting, f"turn {turn.state}")
        if turn.state == 1:
            break
        turn.state += 1
    await ctx.attempt(refuse)
    return [1, 2]


@workflow
async def asked(ctx: Context) -> int:
    """Replies to questions until somebody says stop."""
    count = 0
    while True:
        (message,) = await ctx.listen_many("question", limit=1, completable=True)
        count += 1
        message.complete(f"{message.body}? {count}")
        if message.body == "stop":
            return count


@workflow(deadline="10ms")
async def late(ctx: Context) -> None:
    await ctx.listen("never")


@workflow
async def thinks(ctx: Context) -> None:
    await ctx.step(think)


@workflow(name="naïve/café ☕")
async def odd(ctx: Context, value: Any = None) -> Any:
    return value
