"""The parts of a virtual loop: handles that are lean, futures and tasks that hash by the number of their creation."""

import asyncio
from asyncio import Future, Task
from collections.abc import Callable, Sequence
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing.virtual import VirtualLoop


class Handle(asyncio.TimerHandle):
    """A callback in the queue. One class for timers and others; its constructor is the lean part."""

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


class NumberedFuture(Future[Any]):
    """A C future that hashes by its number."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class NumberedTask(Task[Any]):
    """A C task that hashes by its number, which must be there before asyncio registers the task in a set."""

    __slots__ = ("number",)

    def __init__(self, coro: Any, loop: "VirtualLoop", number: int, name: str, context: Context | None) -> None:
        self.number = number
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


def place(coro: Any) -> str:
    """Where a coroutine stands: its innermost function, file and line."""
    while hasattr(inner := getattr(coro, "cr_await", None), "cr_frame"):
        coro = inner
    frame = getattr(coro, "cr_frame", None)
    return f"{coro.__qualname__}, {frame.f_code.co_filename}:{frame.f_lineno}" if frame else "no frame"
