"""Threads for sync steps, and the resources that steps share in one process.

The threads are daemons: a step that blocks for ever must not keep the process from ending, and is run again elsewhere.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import AsyncExitStack, suppress
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

from perdure.code.step_environment import Resource
from perdure.core.thread_calls import without_stop_iteration
from perdure.stores.protocol import Store

P = ParamSpec("P")
T = TypeVar("T")

THREADS_MAX = 64
"""How many sync steps run at a time in one process; further ones wait."""


class DaemonThreads(Executor):
    """An executor like the one of the standard library, except that its threads are daemons, so the process does not wait for them at its end.

    `run` is for calls from one event loop. What ends in several threads meanwhile wakes that loop once: with steps that are short, waking it costs more than
    they do.
    """

    def __init__(self, most: int = THREADS_MAX) -> None:
        self._most = most
        self._begun = 0
        self._idle = 0
        self._lock = Lock()
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._closed = False
        self._ended: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._is_woken = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs `fn` in a thread; see `concurrent.futures.Executor.submit`."""
        future: Future[T] = Future()
        self._put(partial(_fill, future, partial(without_stop_iteration(fn), *args, **kwargs)))
        return future

    def run(self, fn: Callable[[], T]) -> "asyncio.Future[T]":
        """Runs `fn` in a thread; returns its future on the running event loop, which must be the same for all calls. If it is cancelled before, it is not run.

        Raises:
            RuntimeError: the executor is shut down.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(partial(self._run_for, loop, future, without_stop_iteration(fn)))
        return future

    def _put(self, work: Callable[[], object]) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("could not begin a step: its engine has stopped. Start the engine again")
            if self._idle:
                self._idle -= 1
            elif self._begun < self._most:
                self._begun += 1
                Thread(target=self._serve, name=f"perdure-step-{self._begun}", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work
            with self._lock:
                self._idle += 1

    def _run_for(self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]", fn: Callable[[], T]) -> None:
        if not future.cancelled():
            result, raised = None, None
            try:
                result = fn()
            except BaseException as error:  # passed on by the future, of any class
                raised = error
            self._ended.append((future, result, raised))
            if not self._is_woken:
                self._is_woken = True
                with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                    loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        """Fills the futures of all calls that have ended. What ends from now on wakes the loop again."""
        self._is_woken = False
        while self._ended:
            future, result, raised = self._ended.popleft()
            if future.done():
                continue
            if raised is None:
                future.set_result(result)
            else:
                future.set_exception(raised)

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Refuses further calls, and lets idle threads end. Does not wait for running calls."""
        with self._lock:
            self._closed = True
            begun = self._begun
        for _ in range(begun):
            self._work.put(None)


def _fill(future: Future[T], fn: Callable[[], T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(fn())
        except BaseException as error:  # passed on by the future, of any class
            future.set_exception(error)


logger = logging.getLogger("perdure.engine")


class OpenResources:
    """The resources that are open on one event loop. Satisfies `perdure.code.step_environment.StepResources`."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._open: dict[Resource[Any], asyncio.Task[Any]] = {}
        self._stack = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, resource: Resource[Any]) -> Any:
        """Returns an open resource, and opens it first if necessary. If that fails, the step fails, and the next step that needs it opens it again."""
        self._loop = asyncio.get_running_loop()
        opening = self._open.get(resource)
        if opening is None:
            opening = self._open[resource] = asyncio.create_task(self._enter(resource))
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._open.get(resource) is opening:
                del self._open[resource]
            raise

    def wait_for(self, resource: Resource[Any]) -> Any:
        """Does the same as `get`, for a step in a thread."""
        if self._loop is None:
            raise RuntimeError("no loop runs these resources")
        return asyncio.run_coroutine_threadsafe(self.get(resource), self._loop).result()

    def begin(self) -> None:
        """Binds the resources to the running event loop."""
        self._loop = asyncio.get_running_loop()

    async def _enter(self, resource: Resource[Any]) -> Any:
        try:
            return await self._opened(resource)
        except (KeyboardInterrupt, SystemExit) as error:  # from a task, these would end the loop, and the engine with it
            raise RuntimeError(f"{type(error).__name__} while {resource.name} was opened") from error

    async def _opened(self, resource: Resource[Any]) -> Any:
        made = resource.opens()
        if hasattr(made, "__aenter__"):
            return await self._stack.enter_async_context(made)
        if hasattr(made, "__enter__"):
            return self._stack.enter_context(made)
        thing = await made if inspect.isawaitable(made) else made
        close = getattr(thing, "aclose", None) or getattr(thing, "close", None)
        if callable(close):
            self._stack.push_async_callback(_close, close)
        return thing

    async def close(self) -> None:
        """Closes all resources, the last opened first. A resource that can't be closed is logged; the others are closed all the same."""
        self._open.clear()
        try:
            await self._stack.aclose()
        except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
            logger.exception("a resource could not be closed")


async def _close(close: Any) -> None:
    result = close()
    if inspect.isawaitable(result):
        await result
