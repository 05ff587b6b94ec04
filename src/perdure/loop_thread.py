"""Runs an event loop in a thread, through which sync code calls async code. A call blocks only the calling thread.

Ctrl-C raises KeyboardInterrupt in the main thread after any call of a function, also in the middle of the standard library's code. A caller that is
interrupted therefore shares no lock with the loop thread that it could leave locked, or release twice (`concurrent.futures.Future` has one): it waits for
a lock of its own, which only the loop thread releases.
"""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

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
        try:
            self._thread.start()
        except RuntimeError as error:
            if isinstance(error.__context__, KeyboardInterrupt):  # an interrupted start may release a lock twice, which hides the interruption
                raise error.__context__ from None
            raise

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the thread and returns its result. An interruption of the caller cancels the coroutine.

        Raises:
            StoreUnavailable: the thread was closed.
            WrongVerb: the caller is that thread, which would wait for itself; or a forked process, which does not have the thread.
        """
        return self._call(coroutine, 0.0)

    def call_to_end(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Does the same as `call`; but an interrupted caller waits up to `CLEANUP_S` until the coroutine has ended, so that it can clean up."""
        return self._call(coroutine, CLEANUP_S)

    def _call(self, coroutine: Coroutine[Any, Any, T], cleanup_s: float) -> T:
        call = _Call(self._loop, coroutine)
        try:
            if threading.current_thread() is self._thread:
                raise WrongVerb("a client was used on its own event loop", "use the async client there")
            self._expect_own_process()
            with short_traceback:
                self._begin(call)
                return call.result()
        except BaseException:
            call.cancel(cleanup_s)
            raise

    async def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Does the same as `call` for a caller on an event loop, which goes on meanwhile."""
        try:
            self._expect_own_process()
            with self._closing:
                self._expect_open()
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except BaseException:
            coroutine.close()
            raise
        return await asyncio.wrap_future(future)

    def _expect_own_process(self) -> None:
        if self._pid != os.getpid():
            raise WrongVerb("a client was used in a forked process", "it runs in a thread that only the process it was forked from has: open another one here")

    def _expect_open(self) -> None:
        if self.closed:
            raise StoreUnavailable(CLOSED)

    def _begin(self, call: "_Call[Any]") -> None:
        with self._closing:
            self._expect_open()
            call.is_posted = True
            self._loop.call_soon_threadsafe(call.begin)

    def drain(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yields the items of an async generator as they are requested."""
        requested = _RequestedItems(items)
        try:
            while (found := self.call(_Deferred(requested.next))) is not None:
                yield found[0]
        finally:
            if not self.closed:
                self.call(_Deferred(requested.close))

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


class _Call(Generic[T]):
    """A coroutine that the loop thread runs for a caller in another thread. The caller may be interrupted anywhere, also before the coroutine begins."""

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._outcome: tuple[T | None, BaseException | None] | None = None
        self.is_posted = False
        self._is_over = False
        self._ended = threading.Lock()
        _ = self._ended.acquire()

    def begin(self) -> None:
        """Begins the coroutine. Runs in the loop thread."""
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[T]) -> None:
        # The task itself stays in this thread. Freeing it runs callbacks of weak references, and an interruption of those would be lost in the main thread.
        self._task = None
        error = StoreUnavailable(CLOSED) if task.cancelled() else task.exception()
        self._end((None, error) if error is not None else (task.result(), None))

    def _end(self, outcome: tuple[T | None, BaseException | None]) -> None:
        self._outcome, self._is_over = outcome, True
        self._ended.release()

    def result(self) -> T:
        """Waits for the end of the coroutine, and returns its result or raises its error.

        In the main thread it wakes up every `SIGNALS_S`: Python runs signal handlers there, and a signal that arrives just before the wait begins, or that
        another thread receives, does not end it.
        """
        wait_s = SIGNALS_S if threading.current_thread() is threading.main_thread() else -1.0
        while not self._ended.acquire(timeout=wait_s):
            pass
        assert self._outcome is not None
        (result, error), self._outcome = self._outcome, None
        if error is None:
            return cast(T, result)
        try:
            raise error
        finally:
            error = None  # its traceback has this frame, which must not have it in turn

    def cancel(self, cleanup_s: float) -> None:
        """Cancels the coroutine unless it has ended, and waits up to `cleanup_s` for its end."""
        if self._is_over:
            return
        if not self.is_posted:
            self._coroutine.close()
            return
        with suppress(RuntimeError):  # the loop was closed, so nothing runs there any more
            self._loop.call_soon_threadsafe(self._cancel)
            if cleanup_s:
                _ = self._ended.acquire(timeout=cleanup_s)

    def _cancel(self) -> None:
        if self._task is not None:
            _ = self._task.cancel()
        elif not self._is_over:  # the caller was interrupted while it posted the coroutine
            self._coroutine.close()
            self._end((None, StoreUnavailable(CLOSED)))


class _RequestedItems(Generic[T]):
    """The items of an async generator, which another thread requests one by one."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._request: asyncio.Task[Any] | None = None

    async def next(self) -> tuple[T] | None:
        """Returns the next item in a tuple, or None at the end."""
        self._request = asyncio.current_task()
        try:
            return (await anext(self._items),)
        except StopAsyncIteration:
            return None

    async def close(self) -> None:
        """Closes the generator. A request whose caller was interrupted is cancelled before: a generator can't be closed while it runs."""
        request = self._request
        if request is not None and not request.done():
            _ = request.cancel()
            _ = await asyncio.wait((request,))
        await self._items.aclose()


class _Deferred(Coroutine[Any, Any, T]):
    """A coroutine that is made where it is first sent something.

    Python warns of a coroutine that was never awaited, which an interruption of the caller between its creation and its handing over would leave.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._made: Coroutine[Any, Any, T] | None = None

    def _coroutine(self) -> Coroutine[Any, Any, T]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def send(self, value: Any) -> Any:
        """See `Coroutine.send`."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """See `Coroutine.throw`."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """See `Coroutine.close`."""
        if self._made is not None:
            self._made.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine().__await__()
