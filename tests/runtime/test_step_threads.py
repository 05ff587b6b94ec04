"""The threads of sync steps: their results come to the loop, several with one wake-up, whatever they raise and however it ends."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.runtime.step_resources import DaemonThreads


@pytest.fixture
def threads() -> Iterator[DaemonThreads]:
    made = DaemonThreads(most=4)
    yield made
    made.shutdown()


async def test_results_and_errors_come_to_the_loop(threads: DaemonThreads) -> None:
    def fails(error: BaseException) -> None:
        raise error

    assert await threads.run(lambda: threading.current_thread().daemon)
    for error in (ValueError("no"), KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            await threads.run(lambda error=error: fails(error))  # type: ignore[misc]  # the default binds it
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(lambda: next(iter(())))


async def test_what_ends_while_the_loop_is_busy_wakes_it_once(threads: DaemonThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, woken = asyncio.get_running_loop(), list[object]()
    wake = loop.call_soon_threadsafe

    def counted(*given: Any) -> asyncio.Handle:
        woken.append(given)
        return wake(*given)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    futures = [threads.run(lambda number=number: number) for number in range(100)]  # type: ignore[misc]  # the default binds it
    time.sleep(0.1)  # noqa: ASYNC251  # the loop is busy
    assert await asyncio.gather(*futures) == [*range(100)] and len(woken) == 1
    assert await threads.run(lambda: "again") == "again" and len(woken) == 2


async def test_nothing_is_lost_however_the_threads_and_the_loop_meet(threads: DaemonThreads) -> None:
    for _ in range(50):
        assert await asyncio.gather(*(threads.run(lambda number=number: number) for number in range(40))) == [*range(40)]  # type: ignore[misc]  # as above


async def test_a_call_that_is_cancelled_before_its_turn_is_not_made(threads: DaemonThreads) -> None:
    go, made = threading.Event(), list[int]()
    held = [threads.run(go.wait) for _ in range(4)]
    waiting = threads.run(lambda: made.append(1))
    _ = waiting.cancel()
    go.set()
    await asyncio.gather(*held)
    assert await threads.run(lambda: 2) == 2 and made == []


async def test_a_call_that_ends_after_its_cancellation_disturbs_nothing(threads: DaemonThreads) -> None:
    go = threading.Event()
    running = threads.run(go.wait)
    await asyncio.sleep(0.01)
    _ = running.cancel()
    go.set()
    assert await threads.run(lambda: "next") == "next" and running.cancelled()


async def test_after_its_end_it_refuses(threads: DaemonThreads) -> None:
    threads.shutdown()
    with pytest.raises(RuntimeError, match="its engine has stopped"):
        _ = threads.run(lambda: 1)


def test_a_loop_that_is_closed_meanwhile_is_not_told(threads: DaemonThreads) -> None:
    go, ended = threading.Event(), threading.Event()

    def late() -> None:
        go.wait()
        ended.set()

    async def begin() -> None:
        _ = threads.run(late)

    asyncio.run(begin())
    go.set()
    assert ended.wait(5)
    assert threads.submit(lambda: "served").result(5) == "served"
