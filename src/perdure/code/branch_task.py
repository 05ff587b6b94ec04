"""Strands: plain functions that can wait, each on a greenlet beside the coroutine of its task.

What such a function wants awaited runs on the greenlet as well, up to the future that it waits for. Only the future crosses
over to the task, and only what came of it crosses back. So the task sees what it would see of an async function, and a log
can't tell the one from the other. greenlet is imported when the first strand begins, not before.
"""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar, cast

from perdure.code.deterministic_loop import CLEANUP_AWAITS_MAX, DeterministicLoop, NumberedTask
from perdure.core.errors import Evicted, WrongVerb

R = TypeVar("R")

# Freeing a greenlet that refuses to end would raise in it wherever it stands, again and again, so these are kept.
_unending: list[object] = []


class BranchTask:
    """A function on a greenlet of its own: await `run`, once, for what it returns; in the function, `wait` awaits."""

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
        """Call `fn` on the greenlet, in the very context of its task: what it sets there stays, as it would for an async function.

        Whoever resumes it may stand on another greenlet each time, hence is noted each time.
        """
        own = self._greenlet = self._make(fn)
        own.gr_context = cast("NumberedTask[Any]", self._loop.current).context
        self._outer = self._current()
        wanted = own.switch(*args, **kwargs)
        while not own.dead:
            try:
                value = yield wanted
            except BaseException as error:
                self._outer = own.parent = self._current()
                wanted = own.throw(error)
            else:
                self._outer = own.parent = self._current()
                wanted = own.switch(value)
        return wanted

    def wait(self, awaited: Coroutine[Any, Any, R]) -> R:
        """Await a coroutine, in the function that the strand runs."""
        try:
            wanted = awaited.send(None)
            while True:
                try:
                    value = self._outer.switch(wanted)
                except BaseException as error:
                    wanted = awaited.throw(error)
                else:
                    wanted = awaited.send(value)
        except StopIteration as end:
            result: R = end.value
            return result

    def admit(self, verb: str) -> None:
        """Let a verb be called.

        Raises:
            WrongVerb: it is not called from the function that the strand runs.
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
        """Raise `Evicted`; if the function catches that and goes on for ever, leave it where it stands."""
        self._refused += 1
        if self._refused > CLEANUP_AWAITS_MAX:
            _unending.append(self._greenlet)
            self._outer.throw(Evicted())
        raise Evicted


def import_greenlet() -> Any:
    """The library on which strands are made.

    Raises:
        WrongVerb: it is not installed.
    """
    try:
        import greenlet  # type: ignore[import-untyped]  # it comes without types
    except ImportError as error:
        raise WrongVerb("a sync workflow runs on a greenlet, and greenlet is not installed", 'pip install "perdure[sync]", or make it async') from error
    return greenlet
