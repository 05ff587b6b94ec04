"""Claims about steps at work: what they say of themselves, when they are tried again, what they have open."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from perdure import Context, Err, Fatal, Resource, Retry, RetryAfter, WrongVerb, step, step_info, workflow
from perdure.core import events as e
from perdure.core.errors import BadValue, TooLarge, Unencodable
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.sync_client import AsyncClient
from tests.runtime.cluster import Cluster, now_s, settle
from tests.service.cluster_client import virtually

seen: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@step(retry=Retry(max=3, wait=1.0, jitter=0.0))
async def copies(pages: int, fails_at: int) -> int:
    begins_at = (step_info().progress or 0) + 1
    seen.append(begins_at)
    for page in range(begins_at, pages + 1):
        await asyncio.sleep(0.7)
        step_info().heartbeat(page)
        if page == fails_at and step_info().attempt == 1:
            raise OSError("the line went dead")
    return pages


@workflow
async def copying(ctx: Context, pages: int, fails_at: int, queue: str = "") -> int:
    return await ctx.step(copies.with_(queue=queue), pages, fails_at)


@virtually
async def test_the_next_try_goes_on_where_the_last_one_said_it_was(c: Cluster, client: AsyncClient) -> None:
    await c.engine(copying)
    assert await client.run(copying, 10, 7) == 10
    assert seen == [1, 8]


@virtually
async def test_it_does_so_on_a_worker_and_after_the_worker_has_died(c: Cluster, client: AsyncClient) -> None:
    await c.engine(copying)
    first = await c.worker(copies, lease_s=5.0)
    handle = await client.start(copying, 20, 7, "gpu")
    await settle(10.0)
    assert seen == [1, 8]
    await first.kill()
    await c.worker(copies, lease_s=5.0)
    assert await handle.result() == 20
    assert len(seen) == 3 and seen[2] >= 8, "the lease of the killed worker hands the same try out again, with what it was told then"


@virtually
async def test_after_a_crash_of_its_engine_a_step_finds_what_it_said_a_second_before(c: Cluster, client: AsyncClient) -> None:
    first = await c.engine(copying, lease_s=5.0)
    handle = await client.start(copying, 30, 0)
    await settle(14.05)
    await first.kill()
    await c.engine(copying, lease_s=5.0)
    assert await handle.result() == 30
    assert seen[0] == 1 and 18 <= seen[1] <= 21


@virtually
async def test_what_is_said_often_is_told_once_a_second(c: Cluster, client: AsyncClient) -> None:
    @step
    async def chats() -> None:
        for number in range(100):
            step_info().heartbeat(number)
            await asyncio.sleep(0.1)

    @workflow
    async def chatting(ctx: Context) -> None:
        await ctx.step(chats)

    await c.engine(chatting)
    handle = await client.start(chatting)
    await handle.result()
    told = [event.body for event in await c.events(handle.key) if isinstance(event, e.ProgressedEvent)]
    assert 8 <= len(told) <= 11


@virtually
async def test_an_attempt_without_heartbeats_has_failed(c: Cluster, client: AsyncClient) -> None:
    @step(heartbeat="5s", retry=Retry(max=2, wait=0.0))
    async def silent() -> None:
        seen.append(now_s())
        for _ in range(3):
            await asyncio.sleep(4.0)
            step_info().heartbeat()
        await asyncio.Event().wait()

    @workflow
    async def waits(ctx: Context) -> list[Any]:
        outcome = await ctx.attempt(silent)
        return [outcome.kind, outcome.attempts, outcome.error.message] if isinstance(outcome, Err) else []

    await c.engine(waits)
    assert await client.run(waits) == ["timeout", 2, "no heartbeat within 5 s"]
    assert seen[1] - seen[0] == pytest.approx(17.0, abs=0.1)


@virtually
async def test_progress_that_can_t_be_kept_is_an_error_of_the_step(c: Cluster, client: AsyncClient) -> None:
    @step
    async def boasts(much: bool) -> None:
        step_info().heartbeat("x" * 70_000 if much else threading.Lock())

    @workflow
    async def boasting(ctx: Context, much: bool) -> str:
        outcome = await ctx.attempt(boasts, much)
        return outcome.error.type if isinstance(outcome, Err) else ""

    await c.engine(boasting)
    assert [await client.run(boasting, much) for much in (True, False)] == [TooLarge.code, Unencodable.code]


@virtually
async def test_a_step_says_itself_when_it_is_tried_again(c: Cluster, client: AsyncClient) -> None:
    @step(retry=Retry(max=3, wait="1h"))
    async def busy() -> int:
        seen.append(now_s())
        if len(seen) < 3:
            raise RetryAfter(30)
        return len(seen)

    @workflow
    async def asks(ctx: Context) -> int:
        return await ctx.step(busy)

    await c.engine(asks)
    assert await client.run(asks) == 3
    assert [round(later - earlier) for earlier, later in zip(seen, seen[1:], strict=False)] == [30, 30]  # noqa: RUF007  # two times of three
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(BadValue):
            RetryAfter(wrong)


@virtually
async def test_whether_it_is_tried_again_may_be_asked_of_a_function(c: Cluster, client: AsyncClient) -> None:
    def transient(error: BaseException) -> bool:
        if "weird" in str(error):
            raise ValueError("I can't tell")
        return "503" in str(error)

    @step(retry=Retry(max=5, wait=0.0, should_retry=transient))
    async def asks(answer: str) -> None:
        seen.append(answer)
        raise OSError(answer)

    @workflow
    async def asking(ctx: Context, answer: str) -> list[Any]:
        outcome = await ctx.attempt(asks, answer)
        return [outcome.kind, outcome.attempts] if isinstance(outcome, Err) else []

    await c.engine(asking)
    assert [await client.run(asking, answer) for answer in ("503", "404", "weird")] == [["exhausted", 5], ["fatal", 1], ["fatal", 1]]


@pytest.mark.slow
async def test_a_step_in_a_thread_sees_that_nobody_wants_it_any_more() -> None:
    left = threading.Event()

    @step(timeout=0.2, retry=Retry(max=1))
    def works() -> None:
        info = step_info()
        while not info.cancelled:
            info.heartbeat()
            time.sleep(0.01)
        left.set()

    @workflow
    async def working(ctx: Context) -> str:
        outcome = await ctx.attempt(works)
        return outcome.kind if isinstance(outcome, Err) else ""

    async with _engine(working) as client:
        assert await client.run(working) == "timeout"
        assert await asyncio.to_thread(left.wait, 5.0)


@asynccontextmanager
async def _engine(*workflows: Any) -> AsyncIterator[AsyncClient]:
    store = MemoryStore()
    engine = Engine(store, [one.code for one in workflows])
    running = asyncio.create_task(engine.run())
    async with AsyncClient(store) as client:
        yield client
    engine.stop()
    await running


class Pool:
    """Something that is opened and closed."""

    def __init__(self, name: str) -> None:
        seen.append(f"open {name}")
        self.name = name

    async def aclose(self) -> None:
        seen.append(f"close {self.name}")


async def make_pool() -> Pool:
    await asyncio.sleep(0)
    return Pool("made")


@asynccontextmanager
async def entered() -> AsyncIterator[Pool]:
    pool = Pool("entered")
    yield pool
    seen.append("left entered")


@contextmanager
def plain() -> Iterator[list[int]]:
    yield [1]
    seen.append("left plain")


made, inside, listed = Resource("made", make_pool), Resource("inside", entered), Resource("listed", plain)


@step
async def uses(number: int) -> str:
    return f"{(await made).name} {(await inside).name} {(await listed)[0] + number}"


@step
def uses_in_a_thread() -> str:
    return made.get().name


@workflow
async def using(ctx: Context) -> list[str]:
    return [*await ctx.map(lambda c, number: c.step(uses, number), range(3)), await ctx.step(uses_in_a_thread)]


async def test_a_resource_is_opened_once_where_steps_run_and_closed_at_the_end() -> None:
    async with _engine(using) as client:
        assert await client.run(using) == ["made entered 1", "made entered 2", "made entered 3", "made"]
        assert seen == ["open made", "open entered"]
    assert seen == ["open made", "open entered", "left plain", "left entered", "close made"]


async def test_a_resource_that_can_t_be_opened_is_the_failure_of_the_step_and_tried_again() -> None:
    async def fails() -> str:
        seen.append("try")
        if len(seen) < 3:
            raise OSError("refused")
        return "open"

    flaky = Resource("flaky", fails)

    @step(retry=Retry(max=3, wait=0.0))
    async def asks() -> str:
        return await flaky

    @workflow
    async def asking(ctx: Context) -> str:
        return await ctx.step(asks)

    async with _engine(asking) as client:
        assert await client.run(asking) == "open" and seen == ["try"] * 3


async def test_a_resource_is_for_steps() -> None:
    with pytest.raises(WrongVerb, match="outside of a step"):
        await made
    with pytest.raises(WrongVerb, match="outside of a step"):
        made.get()


def test_a_step_that_gives_up_is_not_asked_about() -> None:
    retry = Retry(should_retry=lambda _: True)
    assert retry.again(OSError()) and not Retry(fatal=(OSError,), should_retry=lambda _: True).again(OSError())
    assert isinstance(Fatal(), Exception)
