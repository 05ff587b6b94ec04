"""What clients call operations on: a store that this process has open, or a server that has it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from perdure.core.paths import Key

if TYPE_CHECKING:
    from perdure.runtime.execution_results import Ending
    from perdure.service.store_access import StoreAccess

P = ParamSpec("P")
T = TypeVar("T")


class ServiceAccess(Protocol):
    """A store, as clients reach it. An operation is a function of the package `perdure.operations` (see `operation_table`)."""

    def call(self, operation: "Callable[Concatenate[StoreAccess, P], Awaitable[T]]", /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Performs an operation, with the errors that it documents."""
        ...

    def stream(
        self, operation: "Callable[Concatenate[StoreAccess, P], AsyncGenerator[T, None]]", /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[T, None]:
        """Yields what an operation finds, as it finds it."""
        ...

    async def result(self, key: Key, after: int = 0, ending: "Ending | None" = None) -> bytes:
        """Waits for the end of an execution and returns its encoded result. See `StoreAccess.result`."""
        ...

    def on_store(self, what: str) -> "StoreAccess":
        """Returns the store for `what` only a process that has it open can do.

        Raises:
            WrongVerb: the store is behind a server.
        """
        ...

    async def aclose(self) -> None:
        """Ends pending waits, and connections of its own."""
        ...
