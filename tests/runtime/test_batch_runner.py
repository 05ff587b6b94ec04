"""Steps share tasks, and executions share commits; neither may notice: claims of the batch runner, on a real event loop."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest

from perdure import Context, Retry, Workflow, step, workflow
from perdure.core import values
from perdure.core.errors import ExecutionFailed
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import run_to_end
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import ChangeAnswer, Commit, Post

MANY = 50

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="none")
tasks: set[str] = set()


class CountingStore(MemoryStore):
    """Counts the commits in each call, which takes `takes_s`."""

    def __init__(self, takes_s: float = 0.001) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.takes_s = takes_s

    async def commit(self, changes: Sequence[Commit | Post]) -> list[ChangeAnswer]:
        self.batches.append(len(changes))
        await asyncio.sleep(self.takes_s)  # as a disk takes its time
        return await super().commit(changes)


@asynccontextmanager
async def running(*workflows: Workflow[..., Any], store: MemoryStore | None = None) -> AsyncIterator[Engine]:
    engine = Engine(store or MemoryStore(), [one.code for one in workflows])
    task = asyncio.create_task(engine.run())
    await engine.ready()
    try:
        yield engine
    finally:
        engine.stop()
        await task


async def result(engine: Engine, flow: Workflow[..., Any], id: str, *args: Any) -> bytes:
    return await run_to_end(engine, Key("default", flow.code.name, id), flow.code.codec.encode_args(args, {}, "the input"))


@step
async def sets_a_variable(name: str) -> str:
    seen = request_id.get()
    request_id.set(name)
    return seen


@step
async def sets_a_variable_and_waits(name: str) -> list[str]:
    request_id.set(name)
    await asyncio.sleep(0.001)
    inner = await asyncio.create_task(_request_id())
    return [request_id.get(), inner]


async def _request_id() -> str:
    return request_id.get()


@workflow
async def setting(ctx: Context, name: str) -> list[Any]:
    return [await ctx.step(sets_a_variable, name), await ctx.step(sets_a_variable_and_waits, name), await ctx.step(sets_a_variable, name)]


async def test_a_step_has_context_variables_of_its_own() -> None:
    async with running(setting) as engine:
        found = await asyncio.gather(*(result(engine, setting, str(number), str(number)) for number in range(MANY)))
    decode = setting.code.codec
    for number, raw in enumerate(found):
        assert decode_result(decode, raw) == ["none", [str(number), str(number)], "none"]


def decode_result(codec: Any, raw: bytes) -> Any:
    return values.decode(raw, codec.result, "the result")


@step
async def cancels_its_task(name: str) -> str:
    """A step may cancel the task that it runs in, and end all the same."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return name


@step(retry=Retry(max=1))
async def looks_at_its_task(name: str) -> int:
    task = asyncio.current_task()
    assert task is not None
    found = task.cancelling()
    await asyncio.sleep(0)
    return found


@workflow
async def cancelling(ctx: Context, name: str) -> list[Any]:
    one, two = await ctx.join(lambda c: c.step(cancels_its_task, name), lambda c: c.step(looks_at_its_task, name))
    return [one, two]


async def test_a_step_that_cancels_its_task_cancels_no_other() -> None:
    async with running(cancelling) as engine:
        found = await asyncio.gather(*(result(engine, cancelling, str(number), str(number)) for number in range(MANY)))
    assert [decode_result(cancelling.code.codec, raw) for raw in found] == [[str(number), 0] for number in range(MANY)]


@step
async def has_its_task_cancelled_later(name: str) -> str:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.01, task.cancel)
    return name


@step
async def waits_and_has_its_task_cancelled_later(name: str) -> str:
    await asyncio.sleep(0)
    return await has_its_task_cancelled_later.fn(name)


@step(retry=Retry(max=1))
async def takes_a_while(name: str) -> str:
    await asyncio.sleep(0.03)
    return name


@workflow
async def cancelled_later(ctx: Context, name: str) -> str:
    return await ctx.step(has_its_task_cancelled_later, name)


@workflow
async def cancelled_after_waiting(ctx: Context, name: str) -> list[str]:
    return [await ctx.step(waits_and_has_its_task_cancelled_later, name), await ctx.step(takes_a_while, name)]


async def test_executions_whose_commit_was_cancelled_by_a_step_go_on() -> None:
    store = CountingStore(takes_s=0.03)
    async with asyncio.timeout(10), running(cancelled_later, store=store) as engine:
        found = await asyncio.gather(*(result(engine, cancelled_later, str(number), str(number)) for number in range(3)))
    assert [decode_result(cancelled_later.code.codec, raw) for raw in found] == ["0", "1", "2"]


async def test_a_step_that_has_waited_can_cancel_no_later_one() -> None:
    async with running(cancelled_after_waiting) as engine:
        found = await asyncio.gather(*(result(engine, cancelled_after_waiting, str(number), str(number)) for number in range(3)))
    assert [decode_result(cancelled_after_waiting.code.codec, raw) for raw in found] == [[str(number)] * 2 for number in range(3)]


@step(retry=Retry(max=1))
async def ignores_its_cancellation(name: str) -> str:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(10)
    return name


@step
async def is_quick(name: str) -> str:
    await asyncio.sleep(0.002)
    return name


@workflow
async def racing(ctx: Context, name: str) -> list[int]:
    await ctx.race(won=lambda c: c.step(is_quick, name), lost=lambda c: c.step(ignores_its_cancellation, name))
    return list(await ctx.map(lambda c, _: c.step(looks_at_its_task, name), list(range(5))))


async def test_no_step_runs_in_a_task_that_is_being_cancelled() -> None:
    async with running(racing) as engine:
        found = await asyncio.gather(*(result(engine, racing, str(number), str(number)) for number in range(MANY)))
    assert [decode_result(racing.code.codec, raw) for raw in found] == [[0] * 5] * MANY


@step(retry=Retry(max=1))
async def uses_asyncio(name: str) -> list[str]:
    """What depends on the current task: timeouts, task groups, shields, and their cancellation."""
    said = []
    try:
        async with asyncio.timeout(0.005):
            await asyncio.sleep(10)
    except TimeoutError:
        said.append("timeout")
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.sleep(10), 0.005)
        said.append("never")
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(10))
            group.create_task(_fails())
    except* ValueError:
        said.append("group")
    async with asyncio.timeout(10):
        await asyncio.sleep(0)
        said.append("in time")
    return said


async def _fails() -> None:
    raise ValueError("planted")


@step(retry=Retry(max=1))
async def uses_anyio(name: str) -> list[str]:
    said = []
    with anyio.move_on_after(0.005) as scope:
        await anyio.sleep(10)
    said.append(f"cancelled {scope.cancelled_caught}")
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0.001)
        said.append("group")
    with anyio.CancelScope() as inner:
        inner.cancel()
        with suppress(anyio.get_cancelled_exc_class()):
            await anyio.lowlevel.checkpoint()
    said.append(str(await anyio.to_thread.run_sync(lambda: "thread")))
    return said


@step(retry=Retry(max=1))
async def sends_a_request(url: str) -> str:
    async with httpx2.AsyncClient() as client:
        return (await client.get(url)).text


@workflow
async def using(ctx: Context, url: str) -> list[Any]:
    return list(await ctx.join(lambda c: c.step(uses_asyncio, "a"), lambda c: c.step(uses_anyio, "b"), lambda c: c.step(sends_a_request, url)))


async def test_libraries_that_depend_on_the_current_task_work_in_a_step() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, running(using) as engine:
        found = await asyncio.gather(*(result(engine, using, str(number), url) for number in range(10)))
    wanted = [["timeout", "group", "in time"], ["cancelled True", "group", "thread"], "hi"]
    assert [decode_result(using.code.codec, raw) for raw in found] == [wanted] * 10


@step
async def notes_its_task(number: int) -> int:
    task = asyncio.current_task()
    assert task is not None
    tasks.add(task.get_name())
    return number


@workflow
async def noting(ctx: Context, number: int) -> int:
    for _ in range(3):
        number = await ctx.step(notes_its_task, number)
    return number


async def test_executions_that_are_ready_together_share_commits_and_steps_that_do_not_wait_share_tasks() -> None:
    tasks.clear()
    store = CountingStore()
    async with running(noting, store=store) as engine:
        await asyncio.gather(*(result(engine, noting, str(number), number) for number in range(MANY)))
    assert len(tasks) < MANY and len(store.batches) < MANY and max(store.batches) == MANY


@step
async def waits_for_the_others(name: str) -> str:
    """Ends only if four steps of the same engine run at the same time."""
    arrived.add(name)
    while len(arrived) < 4:  # that is what it tests
        await asyncio.sleep(0.001)
    return name


@step
async def starts_another(name: str) -> str:
    """Waits in a step for an execution of the same engine."""
    engine = engines[-1]
    return str(decode_result(noting.code.codec, await result(engine, noting, f"inner {name}", 7)))


@workflow
async def waiting_for_others(ctx: Context, name: str) -> list[Any]:
    together = await ctx.map(lambda c, letter: c.step(waits_for_the_others, letter), list("abcd"))
    return [*together, await ctx.step(starts_another, name)]


arrived: set[str] = set()
engines: list[Engine] = []


async def test_a_step_that_waits_keeps_nothing_else_from_running() -> None:
    arrived.clear()
    async with running(waiting_for_others, noting) as engine:
        engines.append(engine)
        async with asyncio.timeout(10):
            raw = await result(engine, waiting_for_others, "1", "x")
    assert decode_result(waiting_for_others.code.codec, raw) == ["a", "b", "c", "d", "7"]


@step(retry=Retry(max=1), timeout="50ms")
async def takes_too_long(name: str) -> str:
    try:
        await asyncio.sleep(10)
    finally:
        ended.append(name)
    return name


ended: list[str] = []


@workflow
async def late(ctx: Context, name: str) -> str:
    return await ctx.step(takes_too_long, name)


async def test_a_step_that_times_out_is_cancelled_and_no_other() -> None:
    ended.clear()
    async with running(late, noting) as engine:
        slow = [asyncio.create_task(result(engine, late, str(number), str(number))) for number in range(5)]
        quick = [asyncio.create_task(result(engine, noting, str(number), number)) for number in range(MANY)]
        for task in slow:
            with pytest.raises(ExecutionFailed, match="timeout"):
                await task
        assert [decode_result(noting.code.codec, await task) for task in quick] == list(range(MANY))
    assert sorted(ended) == [str(number) for number in range(5)]


async def test_an_engine_that_does_much_lets_other_tasks_run() -> None:
    """The memory store never waits; without turns of its own, the event loop would stand still until all is done."""
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running(noting) as engine:
        ticking = asyncio.create_task(tick())
        await asyncio.gather(*(result(engine, noting, str(number), number) for number in range(200)))
        ticking.cancel()
    assert turns > 10
