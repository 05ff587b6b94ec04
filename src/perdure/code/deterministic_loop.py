"""The deterministic event loop on which workflow coroutines run: everything on it is caused by its owner.

It runs callbacks that are ready, first in first out, until none is. It has no clock, no threads and no I/O, so the order of execution follows from the
order in which its owner settles futures. asyncio keeps tasks in sets; here tasks and futures hash by creation number, so that these sets are iterated in
the same order in every process. What a log could not repeat raises `NotDeterministic`, which names the verb to use instead.
"""

import asyncio
import sys
from asyncio.events import _get_running_loop, _set_running_loop
from asyncio.tasks import _unregister_task
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from itertools import count
from types import FrameType
from typing import Any, TypeVar, TypeVarTuple, cast

from perdure.core.errors import Evicted, NotDeterministic

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CLEANUP_AWAITS_MAX = 1_000
"""How many awaits of one task's cleanup are refused before the task is taken for one that never ends."""

FAILED_MAX = 100
"""How many failed tasks are kept before those whose exception was retrieved are removed."""

ONE_TASK_PER_THREAD = sys.version_info >= (3, 14)
"""From Python 3.14 on, the current task belongs to the thread and not to the loop."""

_current_task: Callable[[Any], asyncio.Task[Any] | None] = cast(Any, asyncio.tasks)._current_tasks.get if sys.version_info < (3, 12) else asyncio.current_task
"""The function that returns the current task of a loop; up to Python 3.11, `asyncio.current_task` is a function of Python around this."""


def _swap_current_task_of_loop(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> asyncio.Task[Any] | None:
    """Makes `task` the current task of a loop; returns the one before. Python has this function from 3.12 on."""
    current = cast(Any, asyncio.tasks)._current_tasks
    outer: asyncio.Task[Any] | None = current.pop(loop, None)
    if task is not None:
        current[loop] = task
    return outer


_swap_current_task: Callable[[asyncio.AbstractEventLoop, asyncio.Task[Any] | None], asyncio.Task[Any] | None] = (
    _swap_current_task_of_loop if sys.version_info < (3, 12) else cast(Any, asyncio.tasks)._swap_current_task
)

# Freeing a coroutine that does not end would make the interpreter print a warning, so such coroutines are kept.
_unending: list[object] = []


class NumberedFuture(asyncio.Future[T]):
    """A future that hashes by `number`, the count of futures made in its loop before it, plus one."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class NumberedTask(asyncio.Task[T]):
    """A task that hashes by `number`, the count of tasks made in its loop before it, plus one.

    `label` is the name that the program gave it, or None. Up to Python 3.12 asyncio names a task only after creating it,
    so the label is set from the task's first step on, and not yet in `DeterministicLoop.on_task`.
    """

    __slots__ = ("context", "label", "number")

    def __init__(self, coro: Coroutine[Any, Any, T], loop: "DeterministicLoop", number: int, label: str | None, context: Context) -> None:
        self.number, self.label, self.context = number, label, context
        super().__init__(coro, loop=loop, name="", context=context)

    def __hash__(self) -> int:
        return self.number

    def get_name(self) -> str:
        return f"Task-{self.number}" if self.label is None else self.label

    def set_name(self, value: object, /) -> None:
        self.label = str(value)


def _ended(*task: Any) -> None:
    """The first callback of every task. It never runs: scheduling it tells the loop that the task has ended."""


class _Ready(asyncio.Handle):
    """A callback that is ready, without the debugging data of asyncio's handles."""

    __slots__ = ()
    _callback: Callable[..., object]
    _context: Context
    _repr = _source_traceback = None

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop, context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False


def _outermost(frame: FrameType | None) -> str | None:
    """Returns the function of asyncio through which workflow code called `frame`, as the code would write it; None if it called directly."""
    name = None
    while frame is not None and frame.f_globals.get("__name__", "").startswith("asyncio."):
        name = f"asyncio.{frame.f_code.co_qualname}()"
        frame = frame.f_back
    return name


INTEGRATIONS = {
    "pydantic_ai": (
        "perdure.pydantic_ai",
        "PerdureDurability from perdure.pydantic_ai for an agent in a workflow: Agent(..., capabilities=[PerdureDurability()])",
    ),
    "agents.run_internal": (
        "perdure.openai_agents",
        "PerdureRunner from perdure.openai_agents for an agent in a workflow: await PerdureRunner().run(agent, ...)",
    ),
}
"""Libraries whose I/O an integration turns into steps, by the name of a package of theirs: the module of the integration, and how to use it."""


def _integration(frame: FrameType | None) -> str | None:
    """Returns how to use the integration of the library that is running in `frame` or its callers; None if there is none, or if it is in use already."""
    found, names = None, set[str]()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        names.add(name)
        found = found or next((known for library, known in INTEGRATIONS.items() if f"{name}.".startswith(f"{library}.")), None)
        frame = frame.f_back
    return None if found is None or any(f"{name}.".startswith(f"{found[0]}.") for name in names) else found[1]


def _refused(method: str, instead: str) -> Any:  # It takes the place of methods with fifty signatures.
    def refuse(self: "DeterministicLoop", *args: object, **options: object) -> None:
        raise _refusal(method, instead, sys._getframe(1))

    return refuse


def _refusal(method: str, instead: str, caller: FrameType) -> NotDeterministic:
    """Returns the error for the use of a method by `caller`."""
    library = _integration(caller)
    return NotDeterministic(_outermost(caller) or f"loop.{method}()", instead if library is None else f"{library}; otherwise {instead}")


_TIMER = "ctx.sleep(...) to wait, the verb's timeout= or ctx.race(..., late=lambda c: c.sleep(...)) for a limit, or ctx.now() for the time"
_STEP = "a step for such work: ctx.step(fn, ...)"
_MESSAGE = "a message: ctx.listen(signal) here, and client.get(id).send(signal, body) in the sender"
_ENGINE = "await, ctx.join(...) or ctx.call(...): the engine drives this loop from the log of the execution"
_SETTINGS = "the loop with its own settings, which are the same on every replay"
_AS_COMPLETED = "ctx.as_completed(...), or tasks, made by asyncio.create_task(...): of bare coroutines, asyncio starts the one with the lowest address first"
_EAGER = "asyncio.create_task(...) as it is: here tasks start in the order in which they are created"

ASYNCIO_COMPLAINTS = (
    (
        "cannot be called from a running event loop",
        "asyncio.run() or run_until_complete()",
        "await, and a step for what needs an event loop of its own: ctx.step(fn, ...)",
    ),
    ("attached to a different loop", "a future or task of another event loop", "a step for such work: ctx.step(fn, ...), or a message: ctx.listen(signal)"),
    (
        "is bound to a different event loop",
        "a lock, queue or event of another event loop",
        "one that is made in the workflow, or a queue of Perdure to limit steps",
    ),
)
"""What asyncio complains of when code on one loop uses another, as part of its message; what a workflow has used then; and what to use instead."""


def loop_misuse(error: RuntimeError) -> NotDeterministic | None:
    """Returns the error that says what to do, for one of asyncio about the use of another event loop; None for other errors."""
    found = next(((what, instead) for part, what, instead in ASYNCIO_COMPLAINTS if part in str(error)), None)
    return None if found is None else NotDeterministic(*found)


_ENSURE_FUTURE = frozenset({"ensure_future", "_ensure_future"})


class DeterministicLoop(asyncio.AbstractEventLoop):
    """An event loop that runs callbacks only inside `drive`, and always in the same order.

    `on_task(parent, task)` is called as each task is created, before its first step; parent is None outside of tasks.
    `stopped`, once true, makes `drive` return after the current callback. `errors` has what a loop of asyncio would print, the contexts of callbacks that
    raised; `unretrieved` has the tasks whose exception was never retrieved.
    """

    __slots__ = ("_closed", "_driving", "_failed", "_futures", "_numbers", "_ready", "_tasks", "errors", "on_task", "stopped")

    def __init__(self, on_task: Callable[[NumberedTask[Any] | None, NumberedTask[Any]], object] | None = None) -> None:
        self.on_task = on_task
        self.stopped = False
        self.errors: list[dict[str, Any]] = []
        self._driving = self._closed = False
        self._ready: deque[_Ready] = deque()
        # Tasks that have not ended, oldest first. asyncio refers to tasks weakly; the garbage collector must not end one.
        self._tasks: dict[int, NumberedTask[Any]] = {}
        # Tasks that have failed, oldest first; asyncio records of each whether its exception was retrieved.
        self._failed: list[NumberedTask[Any]] = []
        # Counted apart, because how many futures asyncio makes for itself differs from one Python to the next.
        self._numbers, self._futures = count(1), count(1)

    @property
    def driving(self) -> bool:
        """True while the loop runs or ends coroutines."""
        return self._driving

    @property
    def current(self) -> NumberedTask[Any] | None:
        """The task that is running on this loop now."""
        return _current_task(self) if self._driving else None  # type: ignore[return-value]  # the loop creates all of its tasks itself

    @property
    def runs_alone(self) -> bool:
        """True if a task runs that is not about to be cancelled, and no other callback is ready."""
        task: Any = _current_task(self) if self._driving and not self._ready else None
        return task is not None and not task._must_cancel

    @property
    def pending(self) -> list[NumberedTask[Any]]:
        """The tasks that have not ended, oldest first; asyncio.all_tasks() sees none of them."""
        return list(self._tasks.values())

    def drive(self) -> int:
        """Runs callbacks until none is ready or `stopped` is set; returns how many ran.

        Meanwhile this is the running loop of the thread; afterwards the previous one is restored. From Python 3.14 on a task of another loop can't call it,
        because a thread has one current task; a callback of that loop may. An async generator that workflow code drops is closed by a task of its own. One
        in a reference cycle is closed only when the garbage collector finds it, so one whose cleanup awaits should be ended by contextlib.aclosing.

        Raises:
            RuntimeError: the loop is being driven already.
            Evicted: the loop is closed.
        """
        if self._closed:
            raise Evicted
        if ONE_TASK_PER_THREAD and (other := _get_running_loop()) is not None and asyncio.current_task(other) is not None:
            raise RuntimeError("from Python 3.14 on a task cannot drive a loop; let a callback of its own loop do it: loop.call_soon(...)")
        outer = self._enter()
        ready, ran = self._ready, 0
        try:
            while ready and not self.stopped:
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                ran += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except BaseException as error:
                    # Without this frame, which would form a reference cycle between the error and the loop.
                    error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                    self.call_exception_handler({"message": f"a callback raised: {handle._callback!r}", "exception": error})
        finally:
            self._leave(outer)
        return ran

    def close(self) -> None:
        """Ends every task where it is, oldest first, and accepts nothing more.

        `Evicted` is raised at the await of each, and again at each await of its cleanup, until its coroutine has ended. What the cleanup raises is dropped,
        because it does not affect the execution. Nothing is printed and nothing stays scheduled. CPython's own `close()` is not enough: where cleanup awaits,
        it abandons the inner coroutines of a chain half-way.

        Raises:
            RuntimeError: the loop is being driven.
        """
        outer = self._enter()
        self._closed = True
        try:
            self._ready.clear()
            for task in self.pending:
                self._end(task)
        finally:
            self._leave(outer)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        eager_start: bool | None = None,
    ) -> NumberedTask[T]:
        """Schedules `coro` as a task; the loop keeps the task until it has ended."""
        coroutine = cast("Coroutine[Any, Any, T]", coro)
        if eager_start or sys._getframe(1).f_code.co_name in _ENSURE_FUTURE:
            _admit(coroutine, eager_start, sys._getframe(1))
        if self._closed:
            return self._cancelled_task(coroutine)
        if context is None:
            context = copy_context()
        task = NumberedTask(coroutine, self, next(self._numbers), None if name is None else str(name), context)
        # asyncio has one set of tasks for all loops, in which the first tasks of ten thousand loops would have the same hash.
        _unregister_task(task)
        self._tasks[task.number] = task
        task.add_done_callback(_ended, context=context)
        if self.on_task is not None:
            self.on_task(self.current, task)
        return task

    def create_future(self) -> NumberedFuture[Any]:
        """Creates a future of this loop; it hashes by its creation number."""
        if self._closed:
            self._expect_unwinding()
        future: NumberedFuture[Any] = NumberedFuture(loop=self)
        future.number = next(self._futures)
        return future

    def create_settlement(self) -> asyncio.Future[Any]:
        """Creates a future that only its owner and the task that awaits it know.

        It is in no set, so it needs no hash, and asyncio handles its own class of futures faster than `NumberedFuture`.
        """
        if self._closed:
            self._expect_unwinding()
        return asyncio.Future(loop=self)

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> asyncio.Handle:
        """Schedules `callback` after everything that is ready now."""
        if callback is _ended:  # It only reports the end of a task, so it is not scheduled.
            (task,) = cast("tuple[NumberedTask[Any]]", args)
            del self._tasks[task.number]
            if cast(Any, task)._exception is not None:
                self._note_failed(task)
            return _NOTHING
        if self._closed:
            self._expect_unwinding()
            return _NOTHING
        handle = _Ready(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keeps in `errors` what asyncio would print; drops it once the loop is closed."""
        if not self._closed:
            self.errors.append(context)

    default_exception_handler = call_exception_handler

    @property
    def unretrieved(self) -> list[NumberedTask[Any]]:
        """The failed tasks whose exception was never awaited or retrieved, in the order of their ends."""
        self._failed = [task for task in self._failed if cast(Any, task)._log_traceback]
        return list(self._failed)

    def _note_failed(self, task: NumberedTask[Any]) -> None:
        if len(self._failed) > FAILED_MAX:
            _ = self.unretrieved
        self._failed.append(task)

    def is_running(self) -> bool:
        return self._driving

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        return None

    def get_exception_handler(self) -> None:
        return None

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Refuses threads. With an executor whose `runs_at_once` is true, calls `func` here, for libraries that give every plain function to an executor.

        Raises:
            NotDeterministic: the executor is another one, or None.
        """
        if getattr(executor, "runs_at_once", False) is not True:
            raise _refusal("run_in_executor", _STEP, sys._getframe(1))
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _enter(self) -> tuple[asyncio.AbstractEventLoop | None, Any]:
        if self._driving:
            raise RuntimeError("this loop is being driven already; let drive() return first")
        outer = _get_running_loop()
        hooks = sys.get_asyncgen_hooks()
        _set_running_loop(self)
        # With the hooks of the outer loop, that loop would close the async generators of workflows.
        sys.set_asyncgen_hooks(None, self._finish)
        self._driving = True
        return outer, hooks

    def _leave(self, outer: tuple[asyncio.AbstractEventLoop | None, Any]) -> None:
        self._driving = False
        sys.set_asyncgen_hooks(*outer[1])
        _set_running_loop(outer[0])

    def _expect_unwinding(self) -> None:
        """Checks whether tasks are being ended: what cleanup code starts then never runs. Once the loop is closed, starting anything is an error."""
        if not self._driving:
            raise Evicted

    def _cancelled_task(self, coroutine: Coroutine[Any, Any, T]) -> NumberedTask[T]:
        """Returns a task for cleanup code, cancelled before it begins, because the loop will not run it."""
        coroutine.close()
        self._expect_unwinding()
        task = NumberedTask(coroutine, self, next(self._numbers), None, copy_context())
        _unregister_task(task)
        asyncio.Future.cancel(task)
        return task

    def _end(self, task: NumberedTask[Any]) -> None:
        coroutine, waiter = task.get_coro(), cast(Any, task)._fut_waiter
        if coroutine is not None:
            outer = _swap_current_task(self, task)  # cleanup code may compare the task that it runs in, as the scopes of anyio do
            try:
                _unwind(coroutine, task.context)
            finally:
                _swap_current_task(self, outer)
        # With the task marked as ended, task and future no longer refer to each other, so both are freed without the garbage collector.
        asyncio.Future.cancel(task)
        if waiter is not None and not isinstance(waiter, asyncio.Task):
            asyncio.Future.cancel(waiter)

    def _finish(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Closes an async generator that was dropped before its end in a task of its own, as asyncio does."""
        closing = generator.aclose()
        if not self._closed:
            _ = self.create_task(closing)
            return
        outer = None if self._driving else self._enter()
        try:
            closing.send(None)
            _unwind(closing, copy_context())
        except BaseException:  # user code may raise anything while it unwinds; its execution has left memory
            return
        finally:
            if outer is not None:
                self._leave(outer)

    # Timers.
    time = _refused("time", _TIMER)
    call_later, call_at = _refused("call_later", _TIMER), _refused("call_at", _TIMER)

    # Threads and signals.
    set_default_executor = _refused("set_default_executor", _STEP)
    call_soon_threadsafe = _refused("call_soon_threadsafe", _MESSAGE)
    add_signal_handler, remove_signal_handler = _refused("add_signal_handler", _MESSAGE), _refused("remove_signal_handler", _MESSAGE)

    # The network, pipes and processes.
    getaddrinfo, getnameinfo = _refused("getaddrinfo", _STEP), _refused("getnameinfo", _STEP)
    create_connection, create_server = _refused("create_connection", _STEP), _refused("create_server", _STEP)
    create_unix_connection, create_unix_server = _refused("create_unix_connection", _STEP), _refused("create_unix_server", _STEP)
    create_datagram_endpoint = _refused("create_datagram_endpoint", _STEP)
    connect_accepted_socket = _refused("connect_accepted_socket", _STEP)
    connect_read_pipe, connect_write_pipe = _refused("connect_read_pipe", _STEP), _refused("connect_write_pipe", _STEP)
    subprocess_exec, subprocess_shell = _refused("subprocess_exec", _STEP), _refused("subprocess_shell", _STEP)
    sendfile, start_tls = _refused("sendfile", _STEP), _refused("start_tls", _STEP)
    add_reader, remove_reader = _refused("add_reader", _STEP), _refused("remove_reader", _STEP)
    add_writer, remove_writer = _refused("add_writer", _STEP), _refused("remove_writer", _STEP)
    sock_accept, sock_connect = _refused("sock_accept", _STEP), _refused("sock_connect", _STEP)
    sock_recv, sock_recv_into = _refused("sock_recv", _STEP), _refused("sock_recv_into", _STEP)
    sock_recvfrom, sock_recvfrom_into = _refused("sock_recvfrom", _STEP), _refused("sock_recvfrom_into", _STEP)
    sock_sendall = _refused("sock_sendall", _STEP)
    sock_sendfile = _refused("sock_sendfile", _STEP)
    sock_sendto = _refused("sock_sendto", _STEP)

    # Only the engine runs, stops and configures the loop.
    run_forever, run_until_complete = _refused("run_forever", _ENGINE), _refused("run_until_complete", _ENGINE)
    stop = _refused("stop", _ENGINE)
    shutdown_asyncgens, shutdown_default_executor = _refused("shutdown_asyncgens", _ENGINE), _refused("shutdown_default_executor", _ENGINE)
    set_debug = _refused("set_debug", _SETTINGS)
    set_exception_handler, set_task_factory = _refused("set_exception_handler", _SETTINGS), _refused("set_task_factory", _SETTINGS)


def _admit(coroutine: Coroutine[Any, Any, object], eager_start: bool | None, caller: FrameType) -> None:
    """Refuses a task whose order would depend on eager start or on memory addresses; closes its coroutine, which no other code would close."""
    if eager_start:
        what, instead = "eager_start=True", _EAGER
    elif _outermost(caller) == "asyncio.as_completed()":
        what, instead = "asyncio.as_completed() on coroutines", _AS_COMPLETED
    else:
        return
    coroutine.close()
    raise NotDeterministic(what, instead)


def _unwind(coroutine: Coroutine[Any, Any, Any] | Generator[Any, Any, Any], context: Context) -> None:
    """Raises `Evicted` in `coroutine` wherever it awaits, until it has ended."""
    for _ in range(CLEANUP_AWAITS_MAX):
        try:
            context.run(coroutine.throw, Evicted())
        except BaseException:  # as above: user code may raise anything while it unwinds
            return
    _unending.append(coroutine)


_NOTHING = asyncio.Handle(lambda: None, (), DeterministicLoop())
_NOTHING.cancel()
