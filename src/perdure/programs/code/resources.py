"""Resources: what steps need open, such as a pool of connections: declared once, opened by each engine or worker on its own loop, and closed at its end.

Declaring opens nothing. A resource is opened when the first step asks for it, and is the same for all that run in that process.
"""

import contextvars
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar, overload

from perdure.core.errors import WrongVerb

T = TypeVar("T")


Opens = Callable[[], AbstractAsyncContextManager[T] | AbstractContextManager[T] | Awaitable[T] | T]
"""What opens a resource: a context manager, which also closes it, or a function that returns it, async or not."""


class Opened(Protocol):
    """The resources that are open where a step runs, and the store that its execution is kept in."""

    @property
    def store(self) -> Any:
        """The store of who runs the step, for steps of Perdure's own that look at executions."""
        ...

    async def get(self, resource: "Resource[Any]") -> Any:
        """What was opened, opened now if it was not yet."""
        ...

    def wait_for(self, resource: "Resource[Any]") -> Any:
        """The same for a step in a thread, which waits meanwhile."""
        ...


opened: contextvars.ContextVar[Opened] = contextvars.ContextVar("perdure_resources")


class Resource(Generic[T]):
    """Something that steps need open: ``db = Resource("db", make_pool)``, and in an async step ``pool = await db``, in a sync one ``pool = db.get()``.

    `opens` is called with no arguments, once per engine or worker, on its loop. Of a context manager the entered value is the resource, and it is left
    at the end; what has a method `aclose` or `close` is closed by that.
    """

    __slots__ = ("name", "opens")

    @overload
    def __init__(self, name: str, opens: Callable[[], AbstractAsyncContextManager[T]]) -> None: ...
    @overload
    def __init__(self, name: str, opens: Callable[[], AbstractContextManager[T]]) -> None: ...
    @overload
    def __init__(self, name: str, opens: Callable[[], Awaitable[T]]) -> None: ...
    @overload
    def __init__(self, name: str, opens: Callable[[], T]) -> None: ...
    def __init__(self, name: str, opens: Callable[[], Any]) -> None:
        self.name, self.opens = name, opens

    def __repr__(self) -> str:
        return f"<resource {self.name}>"

    def __await__(self) -> Generator[Any, Any, T]:
        return _here(self).get(self).__await__()

    def get(self) -> T:
        """The resource, in a sync step.

        Raises:
            WrongVerb: no step is running here.
        """
        found: T = _here(self).wait_for(self)
        return found


def _here(resource: Resource[Any]) -> Opened:
    try:
        return opened.get()
    except LookupError:
        raise WrongVerb(f"{resource!r} was asked for outside of a step", "what is open belongs to the engine that runs the step: ask for it there") from None
