"""Workflows whose executions stand in every state when their process is killed: what the database files of the corpus hold.

What stands here is as frozen as the files that were made of it: a new release adds workflows, and changes none. While a file is
made, `world` makes steps hang and fail, and code differ, that later do not.
"""

import asyncio
from typing import Any

from perdure import Context, Retry, Workflow, step, workflow

LARGE_BYTES = 66_000
LONG = "30d"
PRESS = "press"
world = {"making": False, "changed": False}


@step
async def echo(value: Any) -> Any:
    """Return what it is given."""
    return value


@step
async def hangs(value: Any) -> Any:
    """Be in flight when the process is killed."""
    if world["making"]:
        await asyncio.sleep(1e6)
    return value


@step(retry=Retry(max=5, wait="1h", jitter=0))
async def fails_at_first(value: Any) -> Any:
    """Wait for another try when the process is killed."""
    if world["making"]:
        raise ConnectionError("not yet")
    return value


@step(retry=Retry(max=1))
async def fails() -> None:
    """Fail for good."""
    raise ValueError("it fails")


@step(queue=PRESS)
async def press(value: Any) -> Any:
    """Wait for a worker, or be with one that is killed."""
    if world["making"]:
        await asyncio.sleep(1e6)
    return value


@workflow
async def pending(ctx: Context, text: str) -> str:
    """Known to nobody when it is started."""
    return await ctx.step(echo, text)


@workflow
async def running(ctx: Context, text: str) -> list[Any]:
    """With a step in flight, and one that has settled."""
    return [await ctx.step(echo, text), await ctx.step(hangs, text)]


@workflow
async def retrying(ctx: Context, text: str) -> str:
    """Between two tries."""
    return await ctx.step(fails_at_first, text)


@workflow
async def sleeping(ctx: Context, text: str) -> str:
    """Until a time."""
    await ctx.sleep(LONG)
    return await ctx.step(echo, text)


@workflow
async def listening(ctx: Context, text: str) -> list[Any]:
    """For a message, with another in the mailbox."""
    return [text, await ctx.listen("wanted"), await ctx.listen("early")]


@workflow
async def child(ctx: Context, text: str) -> str:
    """For a parent."""
    await ctx.sleep(LONG)
    return await ctx.step(echo, text)


@workflow
async def parent(ctx: Context, text: str) -> list[Any]:
    """Waiting for a child, beside a branch that has ended."""
    return list(await ctx.join(lambda c: c.call(child, text), lambda c: c.step(echo, text)))


@workflow
async def queued(ctx: Context, text: str) -> list[Any]:
    """With two calls on a queue, of which a worker has one."""
    return list(await ctx.join(lambda c: c.step(press, text), lambda c: c.step(press, text + "!")))


@workflow
async def diverged(ctx: Context, text: str) -> list[Any]:
    """Needing attention, since its code changed under it."""
    before = await ctx.step("other" if world["changed"] else "first", echo, text)
    return [before, await ctx.listen("wanted")]


@workflow
async def paused(ctx: Context, text: str) -> list[Any]:
    """Paused, with a message waiting."""
    return [await ctx.step(echo, text), await ctx.listen("wanted")]


@workflow
async def heavy(ctx: Context, text: str) -> list[Any]:
    """With values kept as blobs, and one in the mail."""
    result = await ctx.step(echo, text * (LARGE_BYTES // len(text)))
    message = await ctx.listen("large")
    return [len(result), len(message), await ctx.listen("wanted")]


@workflow
async def looped(ctx: Context, text: str) -> list[Any]:
    """In a loop whose log was compacted."""
    total = 0
    async for turn in ctx.loop("laps", state=0, keep=2):
        turn.state += await turn.step(echo, turn.number)
        turn.set("lap", turn.number)
        if turn.number == 60:
            _ = await turn.listen("wanted")
        if turn.number == 65:
            total = turn.state
            break
    return [text, total]


@workflow
async def completed(ctx: Context, text: str) -> str:
    """At its end, with a large result."""
    return await ctx.step(echo, text * (LARGE_BYTES // len(text)))


@workflow
async def failed(ctx: Context, text: str) -> str:
    """At its end, without a result."""
    await ctx.step(echo, text)
    await ctx.step(fails)
    return text


@workflow
async def cancelled(ctx: Context, text: str) -> str:
    """Told to end before its time."""
    try:
        await ctx.sleep(LONG)
    finally:
        await ctx.step("clean", echo, text)
    return text


@workflow
async def expected(ctx: Context, text: str) -> list[Any]:
    """Not started yet, though there is mail for it."""
    return [text, await ctx.listen("wanted")]


MADE: tuple[Workflow[..., Any], ...] = (
    running,
    retrying,
    sleeping,
    listening,
    child,
    parent,
    queued,
    diverged,
    paused,
    heavy,
    looped,
    completed,
    failed,
    cancelled,
)
"""What is known to the engine that makes a file."""

WORKFLOWS: tuple[Workflow[..., Any], ...] = (*MADE, pending, expected)
