"""An asyncio event loop in virtual time, on which a whole world runs in one thread, instantly and reproducibly.

Real asyncio code (tasks, sleeps, timeouts, events, locks, task groups) runs on it unchanged. The clock stands still while anything is ready, and jumps to
the next timer when nothing is. What happens follows from the program and the seed alone: ready callbacks run first in, first out, or in an order drawn from
a `random.Random`; timers due together are ready in the order of creation; tasks and futures are named and hashed by the number of their creation, so that
sets of them iterate in the same order in every process; the garbage collector runs at counted moments. One exception remains: `asyncio.as_completed` keeps
bare coroutines in a set by address; give it tasks.

There is no I/O, no selector and no thread: what would run in a thread runs inline and takes no time. Errors that asyncio would only log are raised when the
world ends.
"""

import asyncio
import gc
import math
import random
import sys
import threading
import traceback
from asyncio import Future, Task
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, cast
from weakref import WeakValueDictionary

if TYPE_CHECKING:  # To a type checker the abstract loop cannot be created; when running, what is missing raises NotImplementedError.
    from asyncio import BaseEventLoop as AbstractEventLoop
else:
    from asyncio import AbstractEventLoop


if TYPE_CHECKING:
    pass


class LoopHandle(asyncio.TimerHandle):
    """A callback in the queue. One class serves timers and others; its constructor does the minimum."""

    __slots__ = ()
    _callback: Any
    _context: Any

    def __init__(self, callback: Callable[..., object], args: Sequence[Any], context: Context, when_s: float) -> None:
        self._callback, self._args, self._context = callback, args, context
        self._when, self._cancelled = when_s, False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()

    def __repr__(self) -> str:
        return f"<handle of {self._callback}, due at {self._when}>"


class VirtualFuture(Future[Any]):
    """A C future whose hash is its number."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class VirtualTask(Task[Any]):
    """A C task whose hash is its number. The number must be set before asyncio registers the task in a set."""

    __slots__ = ("number",)

    def __init__(self, coro: Any, loop: "VirtualLoop", number: int, name: str, context: Context | None) -> None:
        self.number = number
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


def coroutine_location(coro: Any) -> str:
    """The innermost function, file and line at which a coroutine is suspended."""
    while hasattr(inner := getattr(coro, "cr_await", None), "cr_frame"):
        coro = inner
    frame = getattr(coro, "cr_frame", None)
    return f"{coro.__qualname__}, {frame.f_code.co_filename}:{frame.f_lineno}" if frame else "no frame"


T = TypeVar("T")
Ts = TypeVarTuple("Ts")
CoroFn = Callable[[], Coroutine[Any, Any, T]]

START_S = 1_000_000_000.0
LIMIT_S = 10 * 365 * 86_400.0
HANDLES_MAX = 1_000_000
CANCELS_MAX = 100
HANDLES_PER_COLLECTION = 1 << 16


class Unfinished(RuntimeError):
    """The world stopped before the awaited coroutine ended. `tasks` lists the tasks that had not ended, and where each was suspended."""

    def __init__(self, why: str, tasks: Iterable[Task[Any]]) -> None:
        self.tasks = tuple(f"{task.get_name()} ({coroutine_location(task.get_coro())})" for task in tasks)
        super().__init__(f"{why}; these tasks have not ended: {', '.join(self.tasks) or 'none'}")


class Deadlocked(Unfinished):
    """Nothing is ready and no timer is set, so nothing can happen any more."""


class TooLong(Unfinished):
    """The world exceeded a bound of virtual time, callbacks, or cancellations."""


class VirtualLoop(AbstractEventLoop):
    """An event loop in virtual time: `time()` and `now_s` are the same number of seconds, from `start_s` on.

    `rng` draws which ready callback is next; without it they run first in, first out. At most `limit_s` virtual seconds may pass and `handles_max` callbacks
    run. Features of real loops that it lacks (sockets, processes, signals) raise NotImplementedError.

    Each reading of the clock advances it by what `pause()` returns, as if a signal or the host had stopped the process there: a pause can thus fall between any
    two instructions that read the time.
    """

    def __init__(self, rng: random.Random | None = None, *, start_s: float = START_S, limit_s: float = LIMIT_S, handles_max: int = HANDLES_MAX) -> None:
        self.errors: list[BaseException] = []
        self.handles = 0
        self._now_s = start_s
        self._end_s = start_s + limit_s
        self._handles_max = handles_max
        self._checkpoint = min(handles_max, HANDLES_PER_COLLECTION)
        self._rng = rng
        self._ready: deque[LoopHandle] = deque()
        self._timers: list[tuple[float, int, LoopHandle]] = []
        self._timers_swept_at = 64
        self._tasks: list[VirtualTask] = []
        self._tasks_swept_at = 64
        self._dying: dict[Task[Any], int] = {}
        self._asyncgens: WeakValueDictionary[int, AsyncGenerator[Any, Any]] = WeakValueDictionary()
        self._next_number = count(1).__next__
        self._thread = threading.get_ident()
        self._running = self._ending = self._closed = False
        self.pause: Callable[[], float] = float

    @property
    def now_s(self) -> float:
        """The wall clock of this world, in seconds since the epoch."""
        return self._now_s

    def time(self) -> float:
        read_s = self._now_s
        self._now_s += self.pause()
        return read_s

    def call_soon(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> asyncio.Handle:
        handle = LoopHandle(callback, args, copy_context() if context is None else context, self._now_s)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> asyncio.Handle:
        """Does the same as `call_soon`: there is only one thread, and others are refused."""
        if threading.get_ident() != self._thread:
            raise RuntimeError("a virtual world has one thread; run blocking work with asyncio.to_thread, which is inline here")
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> asyncio.TimerHandle:
        handle = LoopHandle(callback, args, copy_context() if context is None else context, when)
        if when > self._now_s:
            if len(self._timers) > self._timers_swept_at:  # A sorted list is a heap.
                self._timers = sorted(timer for timer in self._timers if not timer[2]._cancelled)
                self._timers_swept_at = 64 + 2 * len(self._timers)
            heappush(self._timers, (when, self._next_number(), handle))
        else:
            self._ready.append(handle)
        return handle

    def create_future(self) -> Future[Any]:
        future = VirtualFuture(loop=self)
        future.number = self._next_number()
        return future

    def create_task(self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: object = None, context: Context | None = None, **_: Any) -> Task[T]:
        if self._closed:
            raise RuntimeError("this virtual loop is closed")
        number = self._next_number()
        task = VirtualTask(coro, self, number, f"Task-{number}" if name is None else str(name), context)
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_swept_at:
            self._tasks = [task for task in self._tasks if not task.done() or task._log_traceback]
            self._tasks_swept_at = 64 + 2 * len(self._tasks)
        return task

    def pending(self) -> list[Task[Any]]:
        """The tasks that have not ended, oldest first."""
        return [task for task in self._tasks if not task.done()]

    def run_in_executor(self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> Future[T]:
        """Runs `func` inline: a thread takes no time in this world. Its result arrives through the loop, as from a real thread.

        A caller can therefore be cancelled after the work has ended and before the result arrives. If `func` waits for the loop, it waits forever.
        """
        future: Future[T] = self.create_future()
        asyncio._set_running_loop(None)
        try:
            answer = partial(future.set_result, func(*args))
        except Exception as error:  # passed on by the future
            answer = partial(future.set_exception, error)
        finally:
            asyncio._set_running_loop(self if self._running else None)
        self.call_soon(lambda: future.done() or answer())
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Has nothing to shut down."""

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Runs until `future`, usually a coroutine, is done; returns its result or raises its error, Deadlocked, or TooLong. Other tasks stay suspended."""
        main = cast("Future[T]", future) if asyncio.isfuture(future) else self.create_task(cast("Coroutine[Any, Any, T]", future), name="main")
        self._drive(main.done)
        return main.result()

    def settle(self, until_s: float = 0.0, handles_max: int = HANDLES_MAX) -> None:
        """Runs everything that is or becomes ready, with time passing up to `until_s`; raises TooLong after `handles_max` callbacks."""
        self._handles_max = self.handles + handles_max
        self._checkpoint = min(self._checkpoint, self._handles_max)
        _ = self.call_at(until_s, int)  # so that time stops there
        self._drive(lambda: not self._ready and not self._dying and self._now_s >= until_s)

    def next_s(self) -> float:
        """The time of the next timer; infinity if there is none."""
        return min((when_s for when_s, _, handle in self._timers if not handle._cancelled), default=math.inf)

    def _drive(self, done: Callable[[], bool]) -> None:
        ready = self._ready
        pick = ready.popleft if self._rng is None else self._pick
        with self._entered():
            while not done():
                if not ready:
                    self._idle()
                    continue
                if self.handles >= self._checkpoint:
                    self._check()  # before a callback is taken: if this raises, the callback is still there when the loop is driven again
                handle = pick()
                if handle._cancelled:
                    continue
                self.handles += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # reported by the exception handler, as asyncio does
                    self.call_exception_handler({"message": "a callback failed", "exception": error})

    def choose(self, count: int) -> int:
        """Draws which of `count` things that are ready comes next: without a seed, the first."""
        return 0 if self._rng is None else int(self._rng.random() * count)

    def _pick(self) -> LoopHandle:
        ready, at = self._ready, self.choose(len(self._ready))
        ready[at], ready[-1] = ready[-1], ready[at]
        return ready.pop()

    def _idle(self) -> None:
        """Continues a kill if there is one; otherwise moves the clock to the next timer."""
        if self._dying:
            return self._cancel_again()
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            raise Deadlocked("nothing is ready and no timer is set", self.pending())
        if (due_s := timers[0][0]) > self._end_s:
            raise TooLong(f"the next timer is due at {due_s}, after the limit of {self._end_s} virtual seconds", self.pending())
        self._now_s = max(self._now_s, due_s)
        while timers and timers[0][0] <= self._now_s:
            self._ready.append(heappop(timers)[2])
        return None

    def _check(self) -> None:
        if self.handles >= self._handles_max:
            raise TooLong(f"{self.handles} callbacks have run, which is the limit", self.pending())
        gc.collect(1)  # At a moment that is the same in every process.
        self._checkpoint = min(self._handles_max, self.handles + HANDLES_PER_COLLECTION)

    @contextmanager
    def _entered(self) -> Iterator[None]:
        if self._closed or self._running or asyncio._get_running_loop() is not None:
            raise RuntimeError("this virtual loop is closed, or a loop is already running in this thread")
        collecting, hooks = gc.isenabled(), sys.get_asyncgen_hooks()
        self._thread, self._running = threading.get_ident(), True
        gc.disable()
        sys.set_asyncgen_hooks(firstiter=self._asyncgen_begun, finalizer=self._asyncgen_lost)
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            self._running = False
            if collecting:
                gc.enable()

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def kill(self, tasks: Iterable[Task[Any]]) -> Future[None]:
        """Cancels `tasks` until each has ended, while the clock stands still. Their errors are discarded. The returned future may be awaited.

        This simulates `kill -9` as far as a loop can. The cleanup code of killed tasks still runs, and each wait in it is cancelled when nothing else is
        ready; the caller must first ensure that nothing they do is durable. Timers that they set with `call_later` still fire; futures that they awaited
        together with others are cancelled for all. A task may kill itself: it ends where it awaits the future. The loop raises TooLong after 100
        cancellations without effect.
        """
        dead: Future[None] = self.create_future()
        living = {task: None for task in tasks if not task.done()}

        def bury(task: Task[Any]) -> None:
            if not task.cancelled():
                task.exception()
            del living[task]
            self._dying.pop(task, None)
            if not living and not dead.done():
                dead.set_result(None)

        for task in living:
            self._dying[task] = 0
            task.add_done_callback(bury)
            task.cancel()
        if not living:
            dead.set_result(None)
        return dead

    def _cancel_again(self) -> None:
        for task, cancels in self._dying.items():
            if cancels >= CANCELS_MAX:
                raise TooLong(f"killed tasks still live after {cancels} cancellations", self._dying)
            self._dying[task] = cancels + 1
            task.cancel()

    def close(self) -> None:
        """Ends the world: kills what still runs, then raises all unhandled errors in one ExceptionGroup. Closing twice has no effect."""
        if self._closed:
            return
        if self._running:
            raise RuntimeError("a running loop cannot be closed")
        gc.collect(0)  # Garbage in cycles reports its errors now, and not at a random moment in another world.
        self.errors += [error for task in self._tasks if task._log_traceback and (error := task.exception())]
        self._ending, self._handles_max = True, self.handles + HANDLES_MAX
        try:
            self._kill_rest()
            if self._asyncgens:
                self._drive(self.create_task(self.shutdown_asyncgens()).done)
                self._kill_rest()
        except Unfinished as error:
            self.errors.append(error)
        finally:
            for queue in (self._ready, self._timers, self._tasks, self._dying):
                queue.clear()
            self._closed = True
        if self.errors:
            raise BaseExceptionGroup("errors of tasks that were never awaited", list({id(error): error for error in self.errors}.values()))

    def _kill_rest(self) -> None:
        while living := self.pending():
            self._drive(self.kill(living).done)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Records an error until the world ends. Errors of the final kill are discarded."""
        if not self._ending:
            self.errors.append(context.get("exception") or RuntimeError(f"{context.get('message')}: {context}"))

    async def shutdown_asyncgens(self) -> None:
        """Closes every async generator that has begun and not ended, in the order in which they began."""
        for asyncgen in list(self._asyncgens.values()):
            try:
                await asyncgen.aclose()
            except Exception as error:  # as above
                self.call_exception_handler({"exception": error})

    def _asyncgen_begun(self, asyncgen: AsyncGenerator[Any, Any]) -> None:
        self._asyncgens[self._next_number()] = asyncgen

    def _asyncgen_lost(self, asyncgen: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            _ = self.create_task(asyncgen.aclose())


def run(coro_fn: CoroFn[T], *, seed: int | str | None = None, start_s: float = START_S, limit_s: float = LIMIT_S, handles_max: int = HANDLES_MAX) -> T:
    """Runs `coro_fn()` in a world of its own and returns its result; with a seed, ready callbacks run in an order drawn from it.

    What still runs at the end is killed. If `coro_fn` fails, its error is raised with the unhandled errors of others as notes; if it succeeds, those are raised
    as one ExceptionGroup.
    """
    loop = VirtualLoop(None if seed is None else random.Random(seed), start_s=start_s, limit_s=limit_s, handles_max=handles_max)
    try:
        result = loop.run_until_complete(coro_fn())
    except BaseException as failure:
        try:
            loop.close()
        except BaseExceptionGroup as others:
            failure.add_note("".join(traceback.format_exception(others)))
        raise
    loop.close()
    return result


def kill(tasks: Iterable[Task[Any]]) -> Future[None]:
    """Calls `VirtualLoop.kill` on the running loop."""
    return cast(VirtualLoop, asyncio.get_running_loop()).kill(tasks)
