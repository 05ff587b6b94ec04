"""Waiting for several things at once, as asyncio does it, but in an order that replay repeats: that in which they were given, or came to their ends."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar

from perdure.core.errors import BadValue, WrongVerb
from perdure.programs.code.scheduler import DeterministicLoop, NumberedFuture, NumberedTask

T = TypeVar("T")

RETURN_WHEN = (asyncio.ALL_COMPLETED, asyncio.FIRST_COMPLETED, asyncio.FIRST_EXCEPTION)


class Completed(Generic[T]):
    """Tasks in the order in which they end: an asynchronous iterator, and no generator, so that leaving it by `break` needs no cleanup."""

    __slots__ = ("_came", "_ended", "_left", "_loop")

    def __init__(self, loop: DeterministicLoop, tasks: Iterable[asyncio.Task[T]]) -> None:
        self._loop = loop
        self._ended: deque[asyncio.Task[T]] = deque()
        self._came: NumberedFuture[None] | None = None
        self._left = 0
        for task in tasks:
            self._left += 1
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        self._ended.append(task)
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    def __aiter__(self) -> "Completed[T]":
        return self

    async def __anext__(self) -> asyncio.Task[T]:
        if not self._left:
            raise StopAsyncIteration
        if not self._ended:
            self._came = self._loop.create_future()
            await self._came
        self._left -= 1
        return self._ended.popleft()


def tasks_of(verb: str, loop: DeterministicLoop, awaitables: Sequence[Awaitable[T]]) -> list[asyncio.Task[T]]:
    """A task for each, in their order; what is one already is taken as it is.

    Raises:
        WrongVerb: there are none, or one can't be awaited. None has been started then.
    """
    wrong = next((one for one in awaitables if not hasattr(one, "__await__")), None)
    if wrong is None and awaitables:
        return list(dict.fromkeys(one if isinstance(one, NumberedTask) else loop.create_task(_whole(one)) for one in awaitables))
    for one in awaitables:
        if isinstance(one, Coroutine):
            one.close()
    what = f"ctx.{verb} of nothing" if wrong is None else f"ctx.{verb} of {type(wrong).__name__}"
    raise WrongVerb(what, "give it what verbs return, such as ctx.step(...), or tasks that were made of them")


def _whole(one: Awaitable[T]) -> Coroutine[Any, Any, T]:
    """The coroutine that awaits it."""
    if isinstance(one, Coroutine):
        return one

    async def await_it() -> T:
        return await one

    return await_it()


def checked_when(when: str) -> str:
    """One of the constants of asyncio.

    Raises:
        BadValue: it is none.
    """
    if when not in RETURN_WHEN:
        raise BadValue("wait(return_when)", when, "asyncio.ALL_COMPLETED, asyncio.FIRST_COMPLETED or asyncio.FIRST_EXCEPTION")
    return when


async def wait(loop: DeterministicLoop, tasks: Sequence[asyncio.Task[T]], when: str, limit: Coroutine[Any, Any, None] | None) -> None:
    """Wait for as many as `when` says, or until `limit` returns."""
    if limit is None:
        await asyncio.wait(tasks, return_when=when)
        return
    enough, late = loop.create_task(asyncio.wait(tasks, return_when=when)), loop.create_task(limit)
    try:
        await asyncio.wait((enough, late), return_when=asyncio.FIRST_COMPLETED)
    finally:
        enough.cancel()
        late.cancel()
