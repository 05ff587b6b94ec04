"""Runs a plain function as a workflow or a branch: on a greenlet beside the coroutine of its task, so that it can wait.

A coroutine that the function awaits also runs on the greenlet, up to the future that it waits for. Only that future is passed to the task, and only its
result is passed back. The task therefore behaves like that of an async function, and the log is the same. greenlet is imported at the first use.
"""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar, cast

from perdure.code.deterministic_loop import CLEANUP_AWAITS_MAX, DeterministicLoop, NumberedTask
from perdure.core.errors import Evicted, WrongVerb

R = TypeVar("R")

# Freeing a greenlet that does not end would raise an exception in it again and again, so such greenlets are kept.
_unending: list[object] = []


class BranchTask:
    """Runs a function on a greenlet of its own: `run`, awaited once, returns its result; the function calls `wait` to await a coroutine."""

    __slots__ = ("_current", "_greenlet", "_loop", "_make", "_outer", "_refused")

    def __init__(self, loop: DeterministicLoop) -> None:
        library = import_greenlet()
        self._current: Callable[[], Any] = library.getcurrent
        self._make: Callable[..., Any] = library.greenlet
        self._greenlet: Any = None
        self._outer: Any = None
        self._loop = loop
        self._refused = 0

    @coroutine
    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        """Calls `fn` on the greenlet, in the context of its task: context variables that it sets stay set, as with an async function.

        Each time the greenlet is resumed, the caller may be on another greenlet, so the caller is recorded each time.
        """
        own = self._greenlet = self._make(fn)
        own.gr_context = cast("NumberedTask[Any]", self._loop.current).context
        self._outer = self._current()
        wanted = own.switch(*args, **kwargs)
        while not own.dead:
            try:
                value = yield wanted
            except BaseException as error:  # any exception, since the greenlet receives what was thrown into the generator
                self._outer = own.parent = self._current()
                wanted = own.throw(error)
            else:
                self._outer = own.parent = self._current()
                wanted = own.switch(value)
        return wanted

    def wait(self, awaited: Coroutine[Any, Any, R]) -> R:
        """Awaits a coroutine on behalf of the function that runs on the greenlet."""
        try:
            wanted = awaited.send(None)
            while True:
                try:
                    value = self._outer.switch(wanted)
                except BaseException as error:  # any exception, since it belongs to the code that awaits
                    wanted = awaited.throw(error)
                else:
                    wanted = awaited.send(value)
        except StopIteration as end:
            result: R = end.value
            return result

    def admit(self, verb: str) -> None:
        """Checks that a verb may be called here.

        Raises:
            WrongVerb: the caller is not the function that runs on the greenlet.
            Evicted: the program has left memory.
        """
        if self._current() is not self._greenlet:
            raise WrongVerb(
                f"ctx.{verb} was called outside the function that its context was given to (in another branch, a step, a thread, or after its end)",
                "a branch has a context of its own: `def branch(c): c.step(...)`; a step can't use verbs: return its result, and call the verb in the workflow",
            )
        if self._loop.stopped or self._loop.is_closed():
            self._refuse()

    def _refuse(self) -> None:
        """Raises `Evicted`; a function that catches it and continues without end is abandoned where it is."""
        self._refused += 1
        if self._refused > CLEANUP_AWAITS_MAX:
            _unending.append(self._greenlet)
            self._outer.throw(Evicted())
        raise Evicted


def import_greenlet() -> Any:
    """Returns the greenlet library.

    Raises:
        WrongVerb: it is not installed.
    """
    try:
        import greenlet  # type: ignore[import-untyped]  # greenlet has no type hints
    except ImportError as error:
        raise WrongVerb(
            "a sync workflow needs greenlet, which is not installed", 'install it: pip install "perdure[sync]", or make the workflow async'
        ) from error
    return greenlet
