"""Ctrl-C at every moment: a call through a loop thread ends with KeyboardInterrupt and nothing else, and the thread serves the next call.

Python runs the handler of a signal in the main thread, after a call of a function that is not written in Python, or where a function written in Python begins.
A profiler sees both, and raises KeyboardInterrupt at the moment of a given number; each number is tried until the work ends before it.
"""

import asyncio
import itertools
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pytest

from perdure import App, Context, workflow
from perdure.loop_thread import LoopThread

PATIENCE_S = 20.0


class CtrlC:
    """Interrupts this thread at one moment of a block, and knows where that was. The block fails if it ends with another error."""

    def __init__(self, moment: int) -> None:
        self.moment = moment
        self.place = ""
        self._passed = 0

    def __enter__(self) -> None:
        sys.setprofile(self._look)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        sys.setprofile(None)
        assert error is None or (self.place and isinstance(error, KeyboardInterrupt)), f"interrupted {self.place}, it ended with {error!r}"
        return error is not None

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_return") or frame.f_code.co_filename == __file__:
            return
        self._passed += 1
        if self._passed == self.moment:
            called = f" of {argument.__name__}" if event == "c_return" else ""
            self.place = f"at the {event}{called} in {frame.f_code.co_qualname}, line {frame.f_lineno}"
            raise KeyboardInterrupt


def every_moment() -> Iterator[CtrlC]:
    """Yields an interruption for each moment, until one comes too late."""
    for moment in itertools.count(1):
        yield (ctrl_c := CtrlC(moment))
        if not ctrl_c.place:
            assert moment > 20, "the profiler sees what happens"
            return


def in_time(work: Callable[[], Any], place: str) -> Any:
    """Calls a function in another thread, which may hang."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert found, f"after an interruption {place}, it hangs or has failed"
    return found[0]


async def slow_to_end() -> None:
    try:
        await asyncio.sleep(0)
    finally:
        await asyncio.sleep(0.001)


async def numbers(ended: list[bool]) -> AsyncGenerator[int, None]:
    try:
        for number in range(3):
            await asyncio.create_task(slow_to_end())  # its cancellation takes more than one turn of the loop
            yield number
    finally:
        ended.append(True)


@pytest.mark.slow
def test_a_reader_that_is_interrupted_anywhere_has_closed_the_generator() -> None:
    thread = LoopThread("interrupted")
    try:
        for ctrl_c in every_moment():
            ended: list[bool] = []
            received: list[int] = []
            with ctrl_c:
                received.extend(thread.drain(numbers(ended)))
            assert in_time(lambda: thread.call(asyncio.sleep(0, "served")), ctrl_c.place) == "served"
            assert ended or not received, f"after an interruption {ctrl_c.place}, the generator is open"
    finally:
        thread.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine 'slow_to_end' was never awaited")  # which was interrupted before the call began
@pytest.mark.parametrize("verb", ["call", "call_to_end"])
def test_a_call_that_is_interrupted_anywhere_is_cancelled(verb: str) -> None:
    thread = LoopThread("interrupted")

    async def others() -> int:
        return len(asyncio.all_tasks()) - 1

    try:
        for ctrl_c in every_moment():
            with ctrl_c:
                getattr(thread, verb)(slow_to_end())
            while in_time(lambda: thread.call(others()), ctrl_c.place):
                pass
    finally:
        thread.close()


@workflow
async def counting(ctx: Context) -> int:
    for number in range(3):
        ctx.emit(number)
        await ctx.sleep(0.001)
    return 3


@pytest.mark.prove
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # which was interrupted before its call began
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an event loop of asyncio that was interrupted while it was made
def test_an_app_that_is_interrupted_anywhere_is_closed_and_can_be_opened_again(tmp_path: Path) -> None:
    app = App([counting], db=f"sqlite:///{tmp_path}/p.db")
    with app as shop:
        assert shop.run(counting) == 3
    for ctrl_c in every_moment():
        with ctrl_c, app as shop:
            handle = shop.start(counting)
            assert [one.value for one in handle.stream()] == [0, 1, 2]
        if ctrl_c.place.startswith("at the call in App.__exit__"):  # before its first line, so that nothing of it was run
            app.__exit__(None, None, None)
        assert not app.is_open, f"after an interruption {ctrl_c.place}, the App is open"
