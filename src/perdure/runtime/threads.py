"""Threads for sync steps. They are daemons: a step that blocks for ever must not keep a process from ending; it is done again elsewhere."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

from perdure.core.thread_calls import carried

P = ParamSpec("P")
T = TypeVar("T")

THREADS_MAX = 64
"""How many sync steps run at a time in one process; further ones wait."""

_Work = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads(Executor):
    """An executor like the standard library's, except that its threads are begun as needed and never waited for."""

    def __init__(self, most: int = THREADS_MAX) -> None:
        self._most = most
        self._begun = 0
        self._idle = 0
        self._lock = Lock()
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run `fn` in a thread; see `concurrent.futures.Executor.submit`."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("no step can begin in an engine that has stopped")
            if self._idle:
                self._idle -= 1
            elif self._begun < self._most:
                self._begun += 1
                Thread(target=self._run, name=f"perdure-step-{self._begun}", daemon=True).start()
        self._work.put((future, partial(carried(fn), *args, **kwargs)))
        return future

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, call = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del future, call, work
            with self._lock:
                self._idle += 1

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Begin nothing more, and let idle threads end; what runs is never waited for."""
        with self._lock:
            self._closed = True
            begun = self._begun
        for _ in range(begun):
            self._work.put(None)
