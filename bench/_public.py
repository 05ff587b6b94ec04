"""Perdure's side of the comparison with the limit, through its public API: what a user's program would measure."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from bench._side import serve, until
from perdure import App, AsyncClient, Context, Definition, Signal, Workflow, step, workflow

NODES = 10
STARTS = 500
"""So many starts are under way at a time where very many are wanted."""

held: list[float] = []
"""When each call of `hold` began, on the monotonic clock."""
holding = False
grown = asyncio.Event()
parkings: list[int] = []
"""What has begun to wait."""
never = Signal("never", int)


@step
async def increment(number: int) -> int:
    """The smallest step there is."""
    return number + 1


@step
def increment_in_thread(number: int) -> int:
    """The same, and sync."""
    return number + 1


@step
async def hold(number: int) -> int:
    """A step that never ends in a process that is to be killed."""
    held.append(time.monotonic())
    if holding:
        await asyncio.Event().wait()
    return number + 1


@step
async def notice_growth(number: int) -> int:
    """A step that says that those before it are done."""
    grown.set()
    return number


@workflow
async def count(ctx: Context, steps: int) -> int:
    """Async steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment, number)
    return number


@workflow
async def count_in_threads(ctx: Context, steps: int) -> int:
    """Sync steps, one after the other."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment_in_thread, number)
    return number


@workflow
async def joined(ctx: Context, branches: int) -> int:
    """A join of branches of one step."""

    async def branch(c: Context) -> int:
        return await c.step(increment, 0)

    numbers: tuple[int, ...] = await ctx.join(*[branch] * branches)
    return sum(numbers)


@workflow
async def held_up(ctx: Context, steps: int) -> int:
    """Steps, one that never ends in a process that is to be killed, and as many steps again."""
    number = 0
    for _ in range(steps):
        number = await ctx.step(increment, number)
    number = await ctx.step(hold, number)
    for _ in range(steps):
        number = await ctx.step(increment, number)
    return number


@workflow
async def long(ctx: Context, steps: int) -> int:
    """Steps, and a wait that keeps the execution open, so that it can be replayed."""
    number = 0
    for _ in range(steps - 1):
        number = await ctx.step(increment, number)
    return await ctx.step(notice_growth, number) + await ctx.listen(never)


@workflow
async def parked(ctx: Context, number: int) -> int:
    """A wait for a message that does not come."""
    parkings.append(number)
    return await ctx.listen(never)


async def work(**given: Any) -> int:
    """A node's work: none."""
    return len(given)


def chain() -> Definition:
    """Nodes one behind the other, each reading the one before."""
    given: list[dict[str, Any]] = [{"x": "@input.x"}, *({"x": f"@n{number}"} for number in range(NODES - 1))]
    nodes = [{"id": f"n{number}", "tool": "work", "with": given[number]} for number in range(NODES)]
    document = {"perdure": 1, "name": "nodes", "order": "refs", "steps": nodes, "input": {"x": {"type": "integer"}}}
    return Definition.of(document, tools={"work": work})


WORKFLOWS: dict[str, Workflow[[int], Any]] = {one.code.name: one for one in (count, count_in_threads, joined, held_up, long, parked)}
Run = Callable[[str, int], Awaitable[Any]]


@asynccontextmanager
async def running_app(url: str) -> AsyncIterator[Run]:
    """Open an App until the block is left, and give what starts an execution by name and waits for its result."""
    async with App(WORKFLOWS.values(), definitions=chain(), db=url, tune_gc=True) as app:

        async def run(name: str, argument: int) -> Any:
            known = WORKFLOWS.get(name)
            return await (app.run(name, x=argument) if known is None else app.run(known, argument))

        yield run


class Public:
    """Perdure on the store of a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._open = AsyncExitStack()
        self._tasks: list[asyncio.Task[Any]] = []

    async def open(self, clients: bool = False) -> None:
        """Begin. Clients of other processes need nothing more."""
        self._run = await self._open.enter_async_context(running_app(self._url))

    async def move(self, path: str) -> None:
        """Go on with a new file."""
        await self.close()
        self._url = f"sqlite:///{path}"
        await self.open()

    async def close(self) -> None:
        """End the engine."""
        for task in self._tasks:
            task.cancel()
        await self._open.aclose()

    async def one_by_one(self, name: str, argument: int, times: int) -> list[float]:
        """Run executions one after the other; the seconds from start to result of each."""
        taken = []
        for _ in range(times):
            begun_s = time.perf_counter()
            await self._run(name, argument)
            taken.append(time.perf_counter() - begun_s)
        return taken

    async def together(self, name: str, argument: int, executions: int) -> float:
        """Run executions all at once; the seconds until all have ended."""
        begun_s = time.perf_counter()
        await asyncio.gather(*(self._run(name, argument) for _ in range(executions)))
        return time.perf_counter() - begun_s

    async def from_client(self, argument: int, times: int) -> list[float]:
        """As a client in another process: the seconds from start to result, one after the other."""
        taken = []
        async with AsyncClient(self._url) as client:
            for _ in range(times):
                begun_s = time.perf_counter()
                await client.run(count, argument)
                taken.append(time.perf_counter() - begun_s)
        return taken

    async def hold(self, executions: int, steps: int) -> None:
        """Start executions, and return when each waits in its step that never ends."""
        global holding
        holding = True
        self._tasks = [asyncio.ensure_future(self._run("held_up", steps)) for _ in range(executions)]

        async def all_held() -> bool:
            return len(held) == executions

        await until(all_held)

    async def recovered(self, executions: int) -> tuple[float, float]:
        """When the first of the steps that were held ran, and when all executions had ended, on the monotonic clock."""
        async with AsyncClient(self._url) as client:

            async def all_ended() -> bool:
                return len(held) >= executions and len(await client.list(status="completed", limit=executions)) == executions

            await until(all_ended)
            return held[0], time.monotonic()

    async def park(self, executions: int) -> float:
        """Start executions that wait for a message; the seconds until all do."""
        begun_s = time.perf_counter()
        async with AsyncClient(self._url) as client:
            for first in range(0, executions, STARTS):
                await asyncio.gather(*(client.start(parked, number) for number in range(first, min(first + STARTS, executions))))

            async def all_parked() -> bool:
                return len(parkings) >= executions

            await until(all_parked)
        return time.perf_counter() - begun_s

    async def cpu_s(self) -> float:
        """The processor time that this process has used."""
        return time.process_time()

    async def grow(self, steps: int) -> None:
        """Run one execution of many steps, and leave it open."""
        self._tasks = [asyncio.ensure_future(self._run("long", steps))]
        await grown.wait()
        await asyncio.sleep(0.1)  # the last outcome is committed

    async def reread(self) -> float:
        """Replay the execution that is open, by the check that a deployment makes; the seconds that it takes."""
        async with AsyncClient(self._url) as client:
            begun_s = time.perf_counter()
            (checked,) = await client.check([long])
            taken_s = time.perf_counter() - begun_s
        assert checked.verdict == "fits", checked
        return taken_s


if __name__ == "__main__":
    serve(Public(sys.argv[1] if "://" in sys.argv[1] else f"sqlite:///{sys.argv[1]}"))
