"""Twelve canonical workflows, and what happens to each: the corpus of logs that every later version of Perdure must read and replay.

What stands here is as frozen as the logs that were made of it: a new release adds workflows, and changes none.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import perdure
from perdure import Context, Fatal, Key, Retry, Signal, StepFailed, Workflow, step, workflow


class Stage(Protocol):
    """What a case may do to its executions while they run."""

    async def start(self, workflow: Workflow[..., Any], *args: Any, id: str = "1") -> Key:
        """Start an execution."""
        ...

    async def send(self, key: Key, name: str, body: Any = None, once: str = "") -> None:
        """Send a message from outside."""
        ...

    async def cancel(self, key: Key, reason: str) -> None:
        """Cancel an execution."""
        ...

    async def retry(self, key: Key, reason: str) -> None:
        """Retry an execution."""
        ...

    def repair(self) -> None:
        """From now on the steps that are broken at first succeed."""
        ...


@dataclass
class Order:
    """A type of the user's."""

    id: int
    lines: list[str]
    at: datetime | None = None


approved: Signal[int] = Signal("approved", int)
broken = {"yes": False}


@step
async def echo(value: Any) -> Any:
    """Return what it is given."""
    return value


@step
def priced(order: Order, factor: float = 2.0) -> dict[str, Any]:
    """Take and return structured data, in a thread."""
    return {"price": len(order.lines) * factor, "order": order}


@step(retry=Retry(max=2, wait=5, jitter=0.5))
async def fails() -> None:
    """Fail always."""
    raise ValueError("it fails")


@step
async def gives_up() -> None:
    """Fail for good."""
    raise Fatal("it gives up")


@step(retry=Retry(max=2, wait="1s"), timeout="3s")
async def hangs() -> None:
    """Never answer."""
    await asyncio.sleep(1e6)


@step(retry=Retry(max=1))
async def fails_until_repaired(value: Any) -> Any:
    """Fail as long as the world is broken."""
    if broken["yes"]:
        raise ConnectionError("the world is broken")
    return value


@step(retry=Retry(max=5, wait=2))
async def fails_twice(key: str) -> int:
    """Succeed in the third try."""
    attempt: int = perdure.step_info().attempt
    if attempt < 3:
        raise OSError(f"{key} fails in try {attempt}")
    return attempt


@workflow
async def sequential(ctx: Context, order: Order) -> dict[str, Any]:
    """Steps one after the other: with and without results, failing, caught, timing out."""
    nothing = await ctx.step(echo, None)
    price = await ctx.step(priced, order, factor=3.0)
    tries = await ctx.step("third", fails_twice, "key/1")
    try:
        await ctx.step(fails)
    except StepFailed as failed:
        caught = [failed.kind, failed.attempts, failed.error.message]
    given_up = await ctx.attempt(gives_up)
    late = await ctx.attempt("late", hangs)
    again = [await ctx.step(echo, number) for number in range(3)]
    return {
        "nothing": nothing,
        "price": price["price"],
        "tries": tries,
        "caught": caught,
        "kinds": [getattr(given_up, "kind", ""), getattr(late, "kind", "")],
        "again": again,
    }


@workflow
async def joined(ctx: Context) -> list[Any]:
    """A join by name, one by position, a map with a limit, asyncio's own gather and task group, and a failing branch."""

    async def user(c: Context) -> Any:
        await c.sleep("2s")
        return await c.step(echo, "user")

    async def orders(c: Context) -> Any:
        return [await c.step(echo, number) for number in (1, 2)]

    async def doubled(c: Context, item: int) -> int:
        known: int = await c.step(echo, item)
        return 2 * known

    by_name = await ctx.join(user=user, orders=orders)
    by_place = await ctx.join(orders, user)
    mapped = await ctx.map(doubled, [1, 2, 3, 4, 5], limit=2)
    gathered = await asyncio.gather(ctx.step(echo, "a"), ctx.step(echo, "b"), ctx.sleep(1))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.step(echo, number)) for number in (7, 8)]
    try:
        await ctx.join(good=user, bad=lambda c: c.step(gives_up), name="fails")
    except perdure.JoinFailed as failed:
        errors = sorted(failed.errors)
    return [by_name, by_place, mapped, gathered, [task.result() for task in tasks], errors]


@workflow
async def raced(ctx: Context) -> list[Any]:
    """Races with a timer: the step wins, the timer wins, a message goes back to its place."""

    async def slow(c: Context) -> str:
        await c.sleep("1d")
        return "slow"

    async def listens(c: Context) -> Any:
        message = await c.listen("note", completable=True)
        await c.sleep("1d")
        return message.body

    quick = await ctx.race(step=lambda c: c.step(echo, "quick"), late=slow)
    late = await ctx.race(step=lambda c: c.step("never", hangs.with_(timeout="1h")), late=lambda c: c.sleep("10s"))
    kept = await ctx.race(listener=listens, timer=lambda c: c.sleep("5s"))
    return [quick.name, quick.value, late.name, kept.name, await ctx.listen("note")]


@workflow(archive=True)
async def looped(ctx: Context, turns: int) -> list[Any]:
    """A long loop that is trimmed, and whose log is compacted more than once."""
    total: list[Any] = []
    async for turn in ctx.loop("audit", state=[0, 0.5], keep=3):
        value = await turn.step(echo, turn.number)
        turn.state = [turn.state[0] + value, turn.state[1] * 1.5 % 7]
        turn.set("progress", turn.number)
        if turn.number % 10 == 0:
            await turn.sleep("1m")
        if turn.number == turns:
            total = turn.state
            break
    return [total, await ctx.step(echo, "after")]


@workflow
async def nested(ctx: Context) -> list[Any]:
    """Loops in loops, with options, beside a branch that waits."""

    async def days(c: Context) -> Any:
        async for day in c.loop("day", state=0, keep=1):
            async for poll in day.loop("poll", state=0, keep=2, trim_every=2, commit_every=3):
                poll.state += await poll.step(echo, 1)
                if poll.number == 8:
                    day.state += poll.state
                    break
            if day.number == 12:
                return day.state
        return None

    async def waits(c: Context) -> Any:
        return await c.listen(approved, timeout="30d", default=-1)

    return [dict(await ctx.join(days=days, waits=waits))]


@workflow
async def listening(ctx: Context) -> list[Any]:
    """Messages: typed, by any of several names, many at a time, in time and too late, completed."""
    first = await ctx.listen(approved)
    either = [await ctx.listen("left", "right"), await ctx.listen("left", "right")]
    many = await ctx.listen_many("item", limit=3)
    gathered = await ctx.listen_many("vote", limit=5, timeout="1m")
    none = await ctx.listen("never", timeout="10s", default="none")
    message = await ctx.listen("question", completable=True)
    message.complete({"answer": message.body})
    return [first, either, many, gathered, none, message.body]


@workflow
async def child(ctx: Context, number: int) -> Any:
    """A child: waits a little, fails when told to."""
    await ctx.sleep(number)
    if number < 0 or number == 3:
        raise ValueError(f"child {number} fails")
    return [await ctx.step(echo, number), ctx.uuid().hex]


@workflow
async def parent(ctx: Context) -> list[Any]:
    """Children: one after the other, side by side, failing, cancelled in a race, detached."""
    one = await ctx.call(child, 1)
    two, four = await ctx.join(lambda c: c.call(child, 2), lambda c: c.call(child, 4))
    try:
        await ctx.call(child, 3)
    except perdure.ChildFailed as failed:
        caught = failed.error.message
    lost = await ctx.race(child=lambda c: c.call(child, 1000), timer=lambda c: c.sleep(5))
    detached = await ctx.start(child, 6)
    return [one[0], two[0], four[0], caught, lost.name, detached.workflow, len({one[1], two[1], four[1]})]


@workflow
async def remembering(ctx: Context) -> list[Any]:
    """What is not the same twice: values kept, the time, random numbers, ids."""
    kept = await ctx.keep("kept", lambda: 42)
    before = ctx.now()
    await ctx.sleep("90s")
    passed_s = (ctx.now() - before).total_seconds()
    drawn = [ctx.random.random(), ctx.random.randint(1, 6), ctx.uuid().hex]
    await ctx.sleep_until(datetime(2001, 9, 9, 3, tzinfo=UTC), name="at three")
    ids = list(await ctx.join(lambda c: c.step(echo, c.uuid().hex), lambda c: c.step(echo, c.uuid().hex)))
    return [kept, passed_s, drawn, ids, ctx.now().hour, ctx.execution.id]


@workflow
async def receiver(ctx: Context) -> Any:
    """Hear what `telling` sends."""
    return [await ctx.listen("hello"), await ctx.listen("hello")]


@workflow
async def telling(ctx: Context) -> int:
    """What others see: messages sent, state set, a stream."""
    other = await ctx.start(receiver)
    for number in range(3):
        ctx.set("progress", {"number": number})
        ctx.emit(["item", number])
        await ctx.send(other, "hello", number)
        await ctx.step(echo, number)
    ctx.log.info("told", count=3)
    return 3


@workflow
async def heavy(ctx: Context, text: str) -> list[Any]:
    """Values that are kept as blobs: input, arguments, results, kept, messages, result."""
    result = await ctx.step(echo, text + "!")
    kept = await ctx.keep("kept", lambda: text + "?")
    message = await ctx.listen("large")
    ctx.set("large", message)
    return [len(result), len(kept), len(message), text]


@workflow
async def reopened(ctx: Context) -> list[Any]:
    """Fails, is retried, and goes on from what failed, with messages, values and sends of its first life."""
    first = await ctx.step(echo, 1)
    kept = await ctx.keep("kept", lambda: "k" * 70_000)
    note = await ctx.listen("note")
    await ctx.send(ctx.execution.key, "self", first)
    async for turn in ctx.loop("audit", state=0, keep=2):
        turn.state += await turn.step(fails_until_repaired if turn.number == 5 else echo, 1)
        if turn.number == 9:
            break
    return [first, len(kept), note, await ctx.listen("self"), turn.state]


@workflow
async def cancelled(ctx: Context) -> None:
    """Is cancelled, and cleans up with steps of its own."""
    try:
        await ctx.join(a=lambda c: c.sleep("1d"), b=lambda c: c.listen("never"), c=lambda c: c.call(child, 1000))
    finally:
        await ctx.step("clean", echo, "up")
        await ctx.sleep("1s")


class Case(NamedTuple):
    """A workflow with those it needs, and what happens to it."""

    workflows: Sequence[Workflow[..., Any]]
    play: Callable[[Stage], Coroutine[Any, Any, object]]


async def _raced(stage: Stage) -> None:
    key = await stage.start(raced)
    await asyncio.sleep(12)
    await stage.send(key, "note", "back")


async def _nested(stage: Stage) -> None:
    key = await stage.start(nested)
    await asyncio.sleep(100)
    await stage.send(key, "approved", 3)


async def _listening(stage: Stage) -> None:
    key = await stage.start(listening)
    for name, body, once in [
        ("item", 1, ""),
        ("approved", 7, "k"),
        ("approved", 7, "k"),
        ("right", "r", ""),
        ("item", 2, ""),
        ("left", "l", ""),
        ("vote", "yes", ""),
        ("vote", "no", ""),
    ]:
        await stage.send(key, name, body, once)
        await asyncio.sleep(1)
    await asyncio.sleep(100)
    await stage.send(key, "question", "why")


async def _heavy(stage: Stage) -> None:
    key = await stage.start(heavy, "x" * 70_000)
    await stage.send(key, "large", "m" * 80_000)


async def _reopened(stage: Stage) -> None:
    broken["yes"] = True
    key = await stage.start(reopened)
    await stage.send(key, "note", "n")
    await asyncio.sleep(100)
    stage.repair()
    await stage.retry(key, "the world is repaired")
    await asyncio.sleep(100)


async def _cancelled(stage: Stage) -> None:
    key = await stage.start(cancelled)
    await asyncio.sleep(10)
    await stage.cancel(key, "enough")


def _started(*args: Any) -> Callable[[Stage], Coroutine[Any, Any, object]]:
    return lambda stage: stage.start(args[0], *args[1:])


CASES: dict[str, Case] = {
    "sequential": Case([sequential], _started(sequential, Order(1, ["a", "b"]))),
    "joined": Case([joined], _started(joined)),
    "raced": Case([raced], _raced),
    "looped": Case([looped], _started(looped, 120)),
    "nested": Case([nested], _nested),
    "listening": Case([listening], _listening),
    "parent": Case([parent, child], _started(parent)),
    "remembering": Case([remembering], _started(remembering)),
    "telling": Case([telling, receiver], _started(telling)),
    "heavy": Case([heavy], _heavy),
    "reopened": Case([reopened], _reopened),
    "cancelled": Case([cancelled, child], _cancelled),
}
