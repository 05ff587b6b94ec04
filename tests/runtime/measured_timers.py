"""Workflows that measure their own timers. Each returns, of every timer, what it is, how long it was to last, and how long it lasted.

A step measures the time when it runs, on the monotonic clock, and the timer lies between two of them. So it is measured from before it was
asked for until after it was over: no pause of any process makes that too short.
"""

import asyncio
import time
from collections.abc import Callable

from perdure import Context, Retry, Workflow, step, step_info, workflow

Lasted = tuple[str, float, float]
"""A timer: what it is, how long it was to last, and how long it lasted, in seconds."""

QUEUE = "timers"

reads: list[Callable[[], float]] = [time.monotonic]
"""What reads the clock: the last of these."""

tries: list[Lasted] = []
"""The tries that ran out of time, as they saw it themselves."""


@step
async def now() -> float:
    """The time."""
    return reads[-1]()


@step
async def stuck(what: str, wanted_s: float) -> None:
    """Never ends; measures how long it was let, from when it was begun."""
    life = step_info().life
    assert life is not None
    try:
        await asyncio.Event().wait()
    finally:
        tries.append((what, wanted_s, reads[-1]() - life.began_s))


@step
async def failing() -> float:
    """Fails once; its second try returns how long after the first has failed it began."""
    began_s = reads[-1]()
    if step_info().progress is None:
        step_info().heartbeat(reads[-1](), keep=True)
        raise ConnectionError("at first")
    return began_s - float(step_info().progress)


@workflow
async def sleeping(ctx: Context, wanted_s: float) -> list[Lasted]:
    """Sleep."""
    began_s = await ctx.step(now)
    await ctx.sleep(wanted_s)
    return [("sleep", wanted_s, await ctx.step(now) - began_s)]


@workflow
async def begun(ctx: Context) -> float:
    """When it began."""
    return await ctx.step(now)


@workflow
async def listening(ctx: Context, wanted_s: float) -> list[Lasted]:
    """Listen in vain."""
    began_s = await ctx.step(now)
    await ctx.listen("nothing", timeout=wanted_s, default=None)
    return [("listen", wanted_s, await ctx.step(now) - began_s)]


@workflow
async def timing_out(ctx: Context, wanted_s: float, queue: str = "") -> list[Lasted]:
    """Give a step so much time."""
    began_s = await ctx.step(now)
    impatient = stuck.with_(timeout=wanted_s, retry=Retry(max=1), queue=queue)
    await ctx.attempt(impatient, f"timeout{queue and ' on a queue'}", wanted_s)
    return [(f"timeout{queue and ' on a queue'}", wanted_s, await ctx.step(now) - began_s)]


@workflow
async def retrying(ctx: Context, wanted_s: float) -> list[Lasted]:
    """Try a step again."""
    return [("retry", wanted_s, await ctx.step(failing.with_(retry=Retry(max=100, wait=wanted_s, factor=1, jitter=0))))]


@workflow
async def endless(ctx: Context) -> None:
    """Never ends by itself."""
    await ctx.listen("nothing")


@workflow
async def with_a_deadline(ctx: Context, wanted_s: float) -> list[Lasted]:
    """Have a child run out of time."""
    began_s = await ctx.step(now)
    await ctx.attempt(endless.with_(deadline=wanted_s))
    return [("deadline", wanted_s, await ctx.step(now) - began_s)]


KINDS: tuple[Workflow[..., list[Lasted]], ...] = (sleeping, listening, timing_out, retrying, with_a_deadline)
WORKFLOWS: tuple[Workflow[..., object], ...] = (*KINDS, begun, endless)


def early(lasted: list[Lasted]) -> list[Lasted]:
    """Those that lasted too short a time, beyond what rounding explains."""
    return [one for one in lasted if one[2] < one[1] - 1e-5]
