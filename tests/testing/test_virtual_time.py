"""Claims about the virtual loop: time costs nothing, a seed is a schedule, and nothing is swallowed."""

import asyncio
import contextlib
import gc
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import pytest

from perdure.testing.virtual_time import START_S, Deadlocked, TooLong, VirtualLoop, kill, run
from tests.open_descriptors import open_descriptors

pytestmark = pytest.mark.filterwarnings("error")

YEAR_S = 365 * 86_400.0


def spawn(*coros: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(coro) for coro in coros]


async def tangle() -> list[str]:
    """Tasks, locks, queues, futures in sets, threads and timers that race for the order of one list."""
    order: list[str] = []
    lock, queue, bell = asyncio.Lock(), asyncio.Queue[int](2), asyncio.Event()

    async def produce(n: int) -> None:
        for turn in range(3):
            await queue.put(n * 10 + turn)
            async with lock:
                order.append(f"put {n}")
            await asyncio.sleep(n % 3)

    async def consume() -> None:
        while True:
            order.append(f"got {await queue.get()}")
            bell.set()
            bell.clear()

    async def listen(n: int) -> None:
        with contextlib.suppress(TimeoutError):
            while True:
                await asyncio.wait_for(bell.wait(), 1.5)
                order.append(f"heard {n}")

    eaters = spawn(consume(), consume())
    done = {asyncio.create_task(listen(n)) for n in range(4)} | {asyncio.create_task(produce(n)) for n in range(6)}
    futures = {asyncio.get_running_loop().create_future() for _ in range(20)}
    order += [repr(getattr(future, "number", None)) for future in futures]
    while done:
        finished, done = await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
        order += [task.get_name() for task in finished]
        order.append(await asyncio.to_thread(lambda: "thread"))
    assert len(eaters) == 2
    return order


def racing(count: int) -> Callable[[], Coroutine[Any, Any, list[int]]]:
    async def main() -> list[int]:
        order: list[int] = []
        async with asyncio.TaskGroup() as group:
            for n in range(count):
                group.create_task(note(order, n))
        return order

    return main


async def note(order: list[int], n: int) -> None:
    order.append(n)


def test_sleeping_a_year_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(YEAR_S)
        return asyncio.get_running_loop().time()

    before_s = time.perf_counter()
    assert run(main) == START_S + YEAR_S
    assert time.perf_counter() - before_s < 60


def test_the_wall_clock_and_the_loop_show_the_same_seconds() -> None:
    loop = VirtualLoop(start_s=50.0)
    loop.run_until_complete(asyncio.sleep(0.25))
    assert (loop.now_s, loop.time()) == (50.25, 50.25)
    loop.close()


def test_timers_due_together_run_in_the_order_of_their_creation() -> None:
    async def main() -> list[int]:
        loop, order = asyncio.get_running_loop(), list[int]()
        for n in range(50):
            loop.call_at(START_S + 5, order.append, n)
        loop.call_later(1, order.append, -1)
        await asyncio.sleep(6)
        return order

    assert run(main) == [-1, *range(50)]


def test_a_timer_in_the_past_runs_now_and_the_clock_never_goes_back() -> None:
    async def main() -> tuple[list[int], float]:
        loop, order = asyncio.get_running_loop(), list[int]()
        loop.call_later(-5, order.append, 1)
        loop.call_soon(order.append, 2)
        await asyncio.sleep(0)
        return order, loop.time()

    assert run(main) == ([1, 2], START_S)


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(60, print).cancel()
        await asyncio.Event().wait()

    loop = VirtualLoop()
    with pytest.raises(Deadlocked):
        loop.run_until_complete(main())
    assert loop.now_s == START_S
    loop.close()


def test_many_cancelled_timers_take_no_room() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        kept = [loop.call_later(100, print) for _ in range(10)]
        for _ in range(10_000):
            loop.call_later(100, print).cancel()
        for timer in kept:
            timer.cancel()
        return len(loop._timers)  # type: ignore[attr-defined]  # a look inside is the only way to see it

    assert run(main) < 200


def test_wait_for_and_timeout_work_in_virtual_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(12):
                await asyncio.sleep(YEAR_S)
        assert await asyncio.wait_for(asyncio.sleep(1, "in time"), 2) == "in time"
        return loop.time()

    assert run(main) == START_S + 43
    assert run(main, seed=3) == START_S + 43


def test_without_a_seed_callbacks_run_first_in_first_out() -> None:
    assert run(racing(20)) == list(range(20))


def test_the_same_seed_gives_the_same_order() -> None:
    for seed in range(20):
        assert run(tangle, seed=seed) == run(tangle, seed=seed), f"seed {seed}"


def test_seeds_explore_the_orders() -> None:
    assert len({tuple(run(racing(3), seed=seed)) for seed in range(100)}) == 6


def test_a_seed_keeps_what_one_task_does_in_order() -> None:
    async def main() -> list[tuple[int, int]]:
        order: list[tuple[int, int]] = []

        async def steps(n: int) -> None:
            for turn in range(5):
                order.append((n, turn))
                await asyncio.sleep(0)

        await asyncio.gather(*(steps(n) for n in range(4)))
        return order

    for seed in range(30):
        order = run(main, seed=seed)
        for n in range(4):
            assert [turn for task, turn in order if task == n] == list(range(5)), f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [None, 7, "a word"])
def test_another_process_with_other_hashes_finds_the_same_order(seed: int | str | None) -> None:
    orders = set()
    for hash_seed in ("0", "1", "424242"):
        code = (
            f"import runpy; names = runpy.run_path({__file__!r}); junk = [object() for _ in range({hash_seed} % 1000)]; "
            f"print(names['run'](names['tangle'], seed={seed!r}))"
        )
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        orders.add(done.stdout.strip())
    assert orders == {str(run(tangle, seed=seed))}


def test_the_garbage_collector_never_decides_what_runs_next() -> None:
    async def main() -> bool:
        return gc.isenabled()

    assert gc.isenabled()
    assert run(main) is False
    assert gc.isenabled()


def test_a_thread_runs_inline_and_takes_no_time() -> None:
    async def main() -> tuple[int, str, float]:
        loop = asyncio.get_running_loop()
        ident = await asyncio.to_thread(threading.get_ident)
        return ident, await loop.run_in_executor(None, "{}-{}".format, 1, 2), loop.time()

    assert run(main) == (threading.get_ident(), "1-2", START_S)


def test_a_thread_has_no_running_loop_and_hands_on_its_error() -> None:
    async def main() -> str:
        with pytest.raises(RuntimeError, match="no running event loop"):
            await asyncio.to_thread(asyncio.get_running_loop)
        assert asyncio.get_running_loop().is_running()
        return await asyncio.to_thread(lambda: run(lambda: asyncio.sleep(9, "a world within")))

    assert run(main) == "a world within"


def test_others_run_between_the_work_of_a_thread_and_its_answer() -> None:
    async def main() -> list[int]:
        order: list[int] = []
        tasks = spawn(note(order, 1))
        await asyncio.to_thread(order.append, 0)
        order.append(2)
        assert tasks[0].done()
        return order

    assert run(main) == [0, 1, 2]


def test_a_real_thread_is_refused() -> None:
    async def main() -> list[str]:
        loop, said = asyncio.get_running_loop(), list[str]()

        def intrude() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except RuntimeError as error:
                said.append(str(error))

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        loop.call_soon_threadsafe(said.append, "the own thread is not")
        await asyncio.sleep(0)
        return said

    refusal, accepted = run(main)
    assert "one thread" in refusal
    assert accepted == "the own thread is not"


def test_a_deadlock_names_who_waits_and_where() -> None:
    async def stuck(bell: asyncio.Event) -> None:
        await bell.wait()

    async def main() -> None:
        bell = asyncio.Event()
        waiting = asyncio.create_task(stuck(bell), name="engine-1")
        await waiting

    with pytest.raises(Deadlocked, match=r"engine-1 \(Event.wait, .*locks.py:\d+\)") as caught:
        run(main)
    assert [text.split(" ")[0] for text in caught.value.tasks] == ["main", "engine-1"]


def test_endless_spinning_is_too_long() -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(TooLong, match="1000 callbacks") as caught:
        run(spin, handles_max=1000)
    assert caught.value.tasks[0].startswith("main (sleep")


def test_the_limit_of_virtual_time_is_kept() -> None:
    async def beat() -> None:
        while True:
            await asyncio.sleep(10)

    loop = VirtualLoop(limit_s=3600)
    with pytest.raises(TooLong, match=r"limit of 1000003600\.0"):
        loop.run_until_complete(beat())
    assert loop.now_s == START_S + 3600
    loop.close()


def test_the_error_of_main_comes_out_as_itself() -> None:
    async def main() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        run(main)
    assert not hasattr(caught.value, "__notes__")


def test_an_error_in_a_callback_is_raised_at_the_end() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: 1 / 0)
        loop.call_later(1, dict[str, int]().__getitem__, "absent")
        return await asyncio.sleep(2, "went on")

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError, KeyError]


@pytest.mark.parametrize("held", [True, False])
def test_the_error_of_a_task_that_nobody_awaits_is_raised_at_the_end(held: bool) -> None:
    keep: list[object] = []

    async def fail() -> None:
        raise LookupError("unheard")

    async def main() -> None:
        keep.extend(spawn(fail()) if held else spawn(fail())[:0])
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert [str(error) for error in caught.value.exceptions] == ["unheard"]


def test_the_error_of_a_lost_future_in_a_cycle_is_raised_at_the_end() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        cycle: list[object] = [future]
        cycle.append(cycle)
        future.set_exception(LookupError("lost"))

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert [str(error) for error in caught.value.exceptions] == ["lost"]


def test_when_main_fails_the_unheard_errors_are_its_notes() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.Event().wait()

    with pytest.raises(Deadlocked) as caught:
        run(main)
    (told,) = caught.value.__notes__
    assert "ZeroDivisionError" in told


def test_an_interrupt_stops_the_world_at_once() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        asyncio.get_running_loop().call_soon(interrupt)
        await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        run(main)


def test_the_killed_end_while_the_clock_stands_still() -> None:
    said: list[str] = []

    async def stubborn(n: int) -> None:
        try:
            await asyncio.sleep(YEAR_S)
        finally:
            said.append(f"{n} cleans")
            await asyncio.sleep(YEAR_S)
            said.append(f"{n} is never here")

    async def survive() -> str:
        return await asyncio.sleep(5, "survived")

    async def main() -> tuple[float, str]:
        tasks, survivor = spawn(stubborn(1), stubborn(2)), asyncio.create_task(survive())
        await asyncio.sleep(1)
        await kill(tasks)
        assert all(task.done() for task in tasks)
        return asyncio.get_running_loop().time(), await survivor

    assert run(main) == (START_S + 1, "survived")
    assert said == ["1 cleans", "2 cleans"]


def test_the_last_words_of_the_killed_are_not_heard() -> None:
    async def protest() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            raise RuntimeError("the store is gone")

    async def main() -> None:
        tasks = spawn(protest())
        await asyncio.sleep(0)
        await kill(tasks)

    run(main)


def test_a_task_may_kill_itself() -> None:
    said: list[str] = []

    async def crash() -> None:
        me = asyncio.current_task()
        assert me is not None
        await kill([me])
        said.append("never")

    async def main() -> None:
        (task,) = spawn(crash())
        await asyncio.wait([task])
        assert task.cancelled()

    run(main)
    run(main, seed=1)
    assert said == []


def test_killing_nobody_or_the_dead_is_done_at_once() -> None:
    async def main() -> None:
        tasks = spawn(note([], 1))
        await asyncio.gather(*tasks)
        await kill([])
        await kill(tasks)

    run(main)


def test_killing_twice_is_killing_once() -> None:
    async def main() -> None:
        tasks = spawn(*(asyncio.sleep(YEAR_S) for _ in range(3)))
        await asyncio.gather(kill(tasks), kill(tasks[1:]))

    run(main)


@pytest.mark.slow
def test_who_cannot_be_killed_is_named_without_further_noise(capfd: pytest.CaptureFixture[str]) -> None:
    async def immortal() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(YEAR_S)

    async def main() -> None:
        task = asyncio.create_task(immortal(), name="immortal")
        await asyncio.sleep(1)
        await kill([task])

    with pytest.raises(TooLong, match="immortal"):
        run(main)
    gc.collect()
    assert capfd.readouterr() == ("", "")


def assert_silence(main: Callable[[], Coroutine[Any, Any, object]], capfd: pytest.CaptureFixture[str], seeds: Sequence[int | None] = (None, 1, 2)) -> None:
    for seed in seeds:
        run(main, seed=seed)
    gc.collect()
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_what_is_left_running_ends_without_noise(capfd: pytest.CaptureFixture[str]) -> None:
    async def nest(depth: int) -> None:
        async with asyncio.TaskGroup() as group:
            if depth:
                group.create_task(nest(depth - 1))
            group.create_task(asyncio.sleep(YEAR_S))

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            spawn(asyncio.sleep(YEAR_S))
            asyncio.get_running_loop().create_future().set_exception(ValueError("in the last moment"))
            raise ValueError("last words")

    async def main() -> None:
        spawn(nest(3), linger(), asyncio.sleep(1))
        await asyncio.sleep(0.5)
        spawn(linger(), nest(2))

    assert_silence(main, capfd)


@pytest.mark.slow
def test_async_generators_are_closed_without_noise(capfd: pytest.CaptureFixture[str]) -> None:
    closed: list[str] = []
    kept: list[object] = []

    async def count(name: str) -> AsyncIterator[int]:
        try:
            for n in range(10):
                yield n
        finally:
            await asyncio.sleep(1)
            closed.append(name)

    async def walk() -> None:
        async for _ in count("killed"):
            await asyncio.sleep(YEAR_S)

    async def main() -> None:
        spawn(walk())
        left = count("kept")
        kept.append(left)
        await anext(left)
        async for _ in count("lost"):
            break
        await asyncio.sleep(5)
        assert closed == ["lost"]
        async for _ in count("lost at the end"):
            break

    assert_silence(main, capfd, seeds=(None,))
    assert "kept" in closed


@pytest.mark.slow
def test_an_async_generator_lost_at_the_end_makes_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    async def count() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(YEAR_S)

    async def main() -> None:
        async for _ in count():
            break

    assert_silence(main, capfd)


def test_a_handle_says_what_it_calls_and_when() -> None:
    loop = VirtualLoop()
    timer = loop.call_later(5, print)
    assert (timer.when(), timer.cancelled(), repr(timer)) == (START_S + 5, False, "<handle of <built-in function print>, due at 1000000005.0>")
    timer.cancel()
    assert timer.cancelled()
    loop.close()


def test_a_closed_loop_takes_no_tasks_and_closes_twice() -> None:
    loop = VirtualLoop()
    loop.close()
    loop.close()
    coro = asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="closed"):
        _ = loop.create_task(coro)
    coro.close()
    assert loop.is_closed()


def test_a_loop_within_a_running_loop_is_refused() -> None:
    async def main() -> None:
        coro = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already running"):
            run(lambda: coro)
        coro.close()

    run(main)


def test_the_runner_of_asyncio_works_on_it() -> None:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(random.Random(1))) as runner:
        assert runner.run(asyncio.sleep(YEAR_S, "rested")) == "rested"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_thousand_worlds_open_no_files() -> None:
    async def main() -> None:
        spawn(*(note([], n) for n in range(10)))
        await asyncio.sleep(0)

    before = open_descriptors()
    worlds = [VirtualLoop() for _ in range(1000)]
    for loop in worlds:
        loop.run_until_complete(main())
    assert open_descriptors() - before < len(worlds), "each has something open"
    for loop in worlds:
        loop.close()
