"""Makes a function safe to call in a thread whose result an asyncio future carries."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def without_stop_iteration(fn: Callable[P, T]) -> Callable[P, T]:
    """Returns `fn` for a thread: it raises `RuntimeError` for `StopIteration`, which an asyncio future can't hold and would wait for forever."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return fn(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError("a function in a thread raised StopIteration, as next() does on an empty iterator; give next() a default") from error

    return call
