"""Runs the calls of a store to their end without virtual time passing, however many turns of an event loop they take.

A store on disk makes its callers wait, a store in memory does not. Here both answer before anything else can happen, so that a seed gives the same world
on either.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

AtOnce = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end, and returns its result or raises its error."""


def run_immediately(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that does not wait.

    Raises:
        RuntimeError: it waits.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError(f"{work!r} waits; run it with SideLoop")


class SideLoop:
    """Runs coroutines to their end on an event loop of its own, even from within a task of another loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of `work`, or raises its error. `work` must not wait for anything on the calling loop."""
        outer = asyncio._get_running_loop()
        task = None if outer is None else asyncio.current_task(outer)
        if outer is not None and task is not None:
            asyncio._leave_task(outer, task)  # asyncio permits one current task per thread
        asyncio._set_running_loop(None)
        try:
            return self._loop.run_until_complete(work)
        finally:
            asyncio._set_running_loop(outer)
            if outer is not None and task is not None:
                asyncio._enter_task(outer, task)

    def close(self) -> None:
        """Closes the loop."""
        self._loop.close()
