"""Workflows of every kind, whose steps write down what they do, for processes that are killed, stopped and forked.

The result of each follows from its number alone, whatever happens to who runs it.
"""

import asyncio
import json
import os
import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure import Context, Retry, Signal, SyncContext, Workflow, step, step_info, workflow
from tests.runtime.processes import EFFECTS

first: Signal[int] = Signal("first", int)
second: Signal[str] = Signal("second", str)
third: Signal[int] = Signal("third", int)
WOKEN = "woken"
"""Where those who wake say how late they are, a line each."""

LARGE_BYTES = 70_000
"""What is kept as a blob."""

TURNS, TURNS_KEPT = 24, 2
PACE = float(os.environ.get("PERDURE_TEST_PACE", "1"))
"""By how much longer they sleep than they would, so that more of them are in flight at a time."""

PRESS = "press"
"""The queue of the steps that not every engine does."""


def note(event: str) -> None:
    """Write down what the running step does, so that it is on the disk when this returns."""
    info = step_info()
    line = json.dumps({"event": event, "key": info.key, "attempt": info.attempt, "process": os.getpid(), "at_s": time.monotonic()}) + "\n"
    file = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)


@step
def add(one: int, other: int) -> int:
    """In a thread."""
    note("began")
    time.sleep(0.012 * PACE)
    note("ended")
    return one + other


@step
async def double(number: int) -> int:
    """On the loop."""
    note("began")
    await asyncio.sleep(0.012 * PACE)
    note("ended")
    return 2 * number


@step(retry=Retry(max=4, wait="20ms", factor=1, jitter=0))
def unsteady(number: int) -> int:
    """Fails in its first two tries."""
    note("began")
    if step_info().attempt <= 2:
        note("failed")
        raise ConnectionError("at first")
    note("ended")
    return -number


@step
async def large(number: int) -> str:
    """Returns what is kept as a blob."""
    note("began")
    note("ended")
    return f"{number:08d}" * (LARGE_BYTES // 8)


@step
def digest(text: str) -> str:
    """Takes what is kept as a blob."""
    note("began")
    found = sha256(text.encode()).hexdigest()
    note("ended")
    return found


@step(queue=PRESS, timeout="60s")
def press(number: int) -> int:
    """On a queue."""
    note("began")
    note("ended")
    return number + 1000


@workflow
async def chain(ctx: Context, number: int) -> list[Any]:
    """Steps one after the other, with large values."""
    total = await ctx.step(add, number, 1)
    total = await ctx.step(unsteady, total)
    text = await ctx.step(large, number)
    await ctx.sleep(1.0 * PACE)
    return [total, await ctx.step(digest, text), await ctx.step(double, total), ctx.random.random() < 2]


@workflow
async def sleeper(ctx: Context, number: int) -> int:
    """Sleeps, now and then."""
    total = number
    for _ in range(4):
        await ctx.sleep(0.4 * PACE)
        total = await ctx.step(double, total)
    return total


@workflow
async def listener(ctx: Context, number: int) -> list[Any]:
    """Hears three messages from outside."""
    one = await ctx.listen(first)
    total = await ctx.step(add, number, one)
    two = await ctx.listen(second)
    size = await ctx.step(digest, two)
    return [total, size, await ctx.listen(third)]


@workflow
async def half(ctx: Context, number: int) -> float:
    """A child."""
    await ctx.sleep(0.2 * PACE)
    return (await ctx.step(double, number)) / 4


@workflow
async def echo(ctx: Context, number: int) -> list[Any]:
    """A child that is started for its own sake, and told something."""
    told = [await ctx.listen("told"), await ctx.listen("told")]
    return [number, *told, await ctx.step(add, *told)]


@workflow
async def family(ctx: Context, number: int) -> list[Any]:
    """Children, awaited and not, and messages to them."""
    other = await ctx.start(echo, number)
    await ctx.send(other, "told", number)
    one = await ctx.call(half, number)
    two, three = await ctx.join(lambda c: c.call(half, number + 1), lambda c: c.call(half, number + 2))
    await ctx.send(other, "told", 7)
    return [one, two, three, await ctx.step(add, number, 5)]


@workflow
async def joined(ctx: Context, number: int) -> list[Any]:
    """Branches side by side."""

    async def left(c: Context) -> int:
        await c.sleep(0.3 * PACE)
        return await c.step(unsteady, await c.step(add, number, 2))

    async def right(c: Context) -> list[int]:
        return await c.map(lambda inner, item: inner.step(double, item), [number, number + 1, number + 2], limit=2)

    return [list(await ctx.join(left, right)), await ctx.step(press, number)]


@workflow
async def looped(ctx: Context, number: int) -> list[int]:
    """A loop that forgets, and whose log is compacted."""
    total = 0
    async for turn in ctx.loop("laps", state=0, keep=TURNS_KEPT):
        turn.state = await turn.step(double, turn.state) + await turn.step(add, number, turn.number)
        turn.state %= 1_000_003
        if turn.number % 8 == 0:
            await turn.sleep(0.1 * PACE)
        if turn.number == TURNS:
            total = turn.state
            break
    return [total, await ctx.step(press, total)]


@workflow
def plain(ctx: SyncContext, number: int) -> list[Any]:
    """A plain function."""
    total = ctx.step(add, number, 3)
    ctx.sleep(0.5 * PACE)
    return [ctx.step(double, total), ctx.step(unsteady, number), ctx.call(half, number)]


@step
async def slow(takes_s: float) -> int:
    """Takes long, on the loop; returns in which process."""
    note("began")
    await asyncio.sleep(takes_s)
    note("ended")
    return os.getpid()


@step
def slow_in_a_thread(takes_s: float) -> int:
    """The same, in a thread."""
    note("began")
    time.sleep(takes_s)
    note("ended")
    return os.getpid()


@step(queue=PRESS, timeout="60s")
async def slow_on_a_queue(takes_s: float) -> int:
    """The same, on a queue."""
    note("began")
    await asyncio.sleep(takes_s)
    note("ended")
    return os.getpid()


@step
async def where() -> int:
    """In which process."""
    note("began")
    note("ended")
    return os.getpid()


@workflow
async def patient(ctx: Context, how: str, takes_s: float) -> list[int]:
    """In which processes a slow step ran, and those behind it."""
    steps = {"loop": slow, "thread": slow_in_a_thread, "queue": slow_on_a_queue}
    return [await ctx.step(steps[how], takes_s), *[await ctx.step(where) for _ in range(20)]]


@workflow
async def ticking(ctx: Context, every_s: float, ticks: int) -> int:
    """A step after each of some sleeps."""
    for _ in range(ticks):
        await ctx.sleep(every_s)
        await ctx.step(where)
    return ticks


@step
async def woken(due_s: float) -> None:
    """Say how late it is."""
    _append(f"{time.time() - due_s:.6f}\n")


def _append(line: str) -> None:
    with Path(WOKEN).open("a") as file:
        file.write(line)


@workflow
async def asleep(ctx: Context, due_s: float) -> None:
    """Sleeps until a time, in seconds since 1970."""
    await ctx.sleep_until(datetime.fromtimestamp(due_s, UTC))
    await ctx.step(woken, due_s)


@workflow
async def hearing(ctx: Context, messages: int) -> list[int]:
    """What was heard, with a step for each message, whose body may be large."""
    return [await ctx.step(add, len(await ctx.listen("word")), number) for number in range(messages)]


KINDS: tuple[Workflow[..., Any], ...] = (chain, sleeper, listener, family, joined, looped, plain)
WORKFLOWS: tuple[Workflow[..., Any], ...] = (*KINDS, half, echo, patient, ticking, hearing, asleep)


def kind(number: int) -> Workflow[..., Any]:
    """What the execution of this number is one of."""
    return KINDS[number % len(KINDS)]
