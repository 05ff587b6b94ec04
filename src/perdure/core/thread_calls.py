"""Makes a function safe to be called in a thread whose result a future of asyncio carries."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def without_stop_iteration(fn: Callable[P, T]) -> Callable[P, T]:
    """`fn` for a thread: a `StopIteration` comes as a `RuntimeError`, since asyncio's futures can't carry it and would never be done."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fn(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("a function in a thread raised StopIteration, as next() does on an empty iterator; give next() a default") from error

    return call
