"""Calls that take no time: what a store does behind a call is done at once, however many turns of an event loop that takes.

A store on disk makes its callers wait, one in memory does not. Aside of the world's own loop both answer before anything else
can happen, so that one seed is one world on either.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

AtOnce = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end, and returns or raises what it does."""


def run_immediately(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing.

    Raises:
        RuntimeError: it does wait.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError(f"{work!r} waits; run it with Aside")


class SideLoop:
    """Runs coroutines to their end on a real event loop of its own, also from within a task of another loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns or raises. It must not wait for anything on the loop that this is called from."""
        outer = asyncio._get_running_loop()
        task = None if outer is None else asyncio.current_task(outer)
        if outer is not None and task is not None:
            asyncio._leave_task(outer, task)  # a thread is in one task at a time
        asyncio._set_running_loop(None)
        try:
            return self._loop.run_until_complete(work)
        finally:
            asyncio._set_running_loop(outer)
            if outer is not None and task is not None:
                asyncio._enter_task(outer, task)

    def close(self) -> None:
        """End the loop."""
        self._loop.close()
