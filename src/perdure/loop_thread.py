"""Runs an event loop in a thread, through which sync code calls async code. A call blocks only the calling thread."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from perdure.core.errors import StoreUnavailable, WrongVerb
from perdure.service.service_access import ServiceAccess
from perdure.short_traceback import short_traceback
from perdure.stores.user_transactions import is_async_connection, run_without_waiting

T = TypeVar("T")

SIGNALS_S = 1.0
"""How long the main thread may take to handle a signal."""

CLEANUP_S = 5.0
"""How long an interrupted caller waits for its coroutine to clean up."""

CLOSED = "this client was closed; open another one"


class LoopThread:
    """An event loop in a daemon thread, which runs until it is closed or the process ends.

    Raises:
        WrongVerb: gevent or eventlet has replaced the threads of this process.
    """

    def __init__(self, name: str) -> None:
        _expect_real_threads()
        self.closed = False
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread and returns its result. An interruption of the caller cancels the coroutine.

        Raises:
            StoreUnavailable: the thread was closed.
            WrongVerb: the caller is that thread, which would wait for itself; or a forked process, which does not have the thread.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise WrongVerb("a client was used on its own event loop", "use the async client there")
        future = self._submit(coroutine)
        try:
            with short_traceback:
                return _result(future)
        except CancelledError as error:
            raise StoreUnavailable(CLOSED) from error
        except BaseException:
            future.cancel()
            raise

    async def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Does the same as `call` for a caller on an event loop, which goes on meanwhile."""
        return await asyncio.wrap_future(self._submit(coroutine))

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        if self._pid != os.getpid():
            coroutine.close()
            raise WrongVerb("a client was used in a forked process", "it runs in a thread that only the process it was forked from has: open another one here")
        with self._closing:
            if self.closed:
                coroutine.close()
                raise StoreUnavailable(CLOSED)
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def call_to_end(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Does the same as `call`; but an interrupted caller waits up to `CLEANUP_S` until the coroutine has ended, so that it can clean up."""
        begun, ended = threading.Event(), threading.Event()

        async def watched() -> T:
            begun.set()
            try:
                return await coroutine
            finally:
                ended.set()

        try:
            return self.call(watched())
        except BaseException:
            if begun.is_set():
                _ = ended.wait(CLEANUP_S)
            else:
                coroutine.close()
            raise

    def drain(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yields the items of an async generator as they are requested."""
        try:
            while (found := self.call(_NextItem(items))) is not None:
                yield found[0]
        finally:
            if not self.closed:
                self.call(items.aclose())

    def close(self) -> None:
        """Stops the loop after cancelling its tasks and waiting for them. Closing twice has no effect."""
        with self._closing:
            if self.closed:
                return
            self.closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            asyncio.set_event_loop(self._loop)  # libraries set the loop that they run on, which may have been that of a workflow
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_until_complete(asyncio.wait(tasks))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()


def _expect_real_threads() -> None:
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if (gevent and gevent.is_module_patched("threading")) or (eventlet and eventlet.is_monkey_patched("thread")):
        raise WrongVerb(
            f"{'gevent' if gevent else 'eventlet'} has replaced threads by greenlets: they all share one thread, which the event loop of Perdure would block",
            "serve with threads (`gunicorn --threads 8`), or on an event loop (`uvicorn`), or call Perdure in another process",
        )


def run_in_user_transaction(thread: LoopThread, access: ServiceAccess, connection: Any, coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that joins the transaction on `connection` in the calling thread, which owns the connection. Only the store's preparation for it runs in
    the loop thread.

    Raises:
        WrongVerb: the connection belongs to an event loop.
    """
    wrong = WrongVerb("a sync client was given a connection= that belongs to an event loop", "use an AsyncClient there")
    try:
        if is_async_connection(connection):
            raise wrong
        thread.call(access.on_store("connection=").user_transactions.meet())
    except BaseException:
        coroutine.close()
        raise
    return run_without_waiting(coroutine, wrong)


def _result(future: Future[T]) -> T:
    """Waits for the result of a future.

    In the main thread it wakes up every `SIGNALS_S`: Python runs signal handlers there, and a signal that arrives just before the wait begins does not end it.
    """
    wait_s = SIGNALS_S if threading.current_thread() is threading.main_thread() else None
    while True:
        try:
            return future.result(wait_s)
        except TimeoutError:
            if future.done():
                return future.result()


class _NextItem(Coroutine[Any, Any, tuple[T] | None]):
    """A coroutine that returns the next item of a generator in a tuple, or None at its end. It begins where it is first sent something.

    Python warns of a coroutine that was never awaited, which an interruption of the caller between its creation and its handing over would leave.
    """

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._begun: Coroutine[Any, Any, tuple[T] | None] | None = None

    def send(self, value: Any) -> Any:
        """See `Coroutine.send`."""
        if self._begun is None:
            self._begun = _next(self._items)
        return self._begun.send(value)

    def throw(self, *error: Any) -> Any:
        """See `Coroutine.throw`."""
        if self._begun is None:
            self._begun = _next(self._items)
        return self._begun.throw(*error)

    def close(self) -> None:
        """See `Coroutine.close`."""
        if self._begun is not None:
            self._begun.close()

    def __await__(self) -> Generator[Any, Any, tuple[T] | None]:
        return _next(self._items).__await__()


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | None:
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None
