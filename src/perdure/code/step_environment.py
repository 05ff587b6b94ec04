"""The environment of a running step: its transaction, the resources of its process, and information about itself.

A resource, such as a connection pool, is declared once. Each engine or worker opens it on its own loop when the first step asks for it, shares it among
all steps of the process, and closes it at the end.
"""

import contextvars
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar, overload

import msgspec

from perdure.core import limits, values
from perdure.core.carried import Carried
from perdure.core.errors import TooLarge, WrongVerb
from perdure.core.paths import Key, Path, idempotency_key
from perdure.core.secret_masks import NO_MASK, Mask, SecretFinder, find_no_secret
from perdure.core.values import ENCODED_NONE, Blob, Value


class Transaction(Protocol):
    """A transaction on the store's own database, for a step declared with `transaction=True`. It commits together with the step's outcome: exactly once.

    Placeholders are ``$1``, ``$2`` and so on in both databases, in SQLite ``?`` as well. It can't be committed or rolled back by hand: an error that
    leaves the step rolls it back, and the return of the step commits it. Perdure's own tables can't be changed.
    """

    async def execute(self, sql: str, *arguments: Any) -> int:
        """Runs a statement; returns how many rows it changed (-1: not known)."""
        ...

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs a statement for each of `rows`."""
        ...

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]:
        """Returns the rows of a query; a row has its columns by number and by name."""
        ...

    async def fetchrow(self, sql: str, *arguments: Any) -> Any:
        """Returns the first row, or None."""
        ...

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """Returns the first column of the first row, or None."""
        ...

    @property
    def connection(self) -> Any:
        """The connection of the driver: a `sqlite3.Connection`, or one of asyncpg."""
        ...


T = TypeVar("T")


ResourceFactory = Callable[[], AbstractAsyncContextManager[T] | AbstractContextManager[T] | Awaitable[T] | T]
"""The function that opens a resource: it returns a context manager, which also closes the resource, or the resource itself, async or not."""


class StepResources(Protocol):
    """The open resources of the process that runs a step, and the store of its execution."""

    @property
    def store(self) -> Any:
        """The store of the engine or worker, for Perdure's own steps that read executions."""
        ...

    async def get(self, resource: "Resource[Any]") -> Any:
        """Returns the open resource; opens it if it is not open yet."""
        ...

    def wait_for(self, resource: "Resource[Any]") -> Any:
        """Returns the open resource to a step in a thread, which blocks meanwhile."""
        ...


current_resources: contextvars.ContextVar[StepResources] = contextvars.ContextVar("perdure_resources")


class Resource(Generic[T]):
    """A shared object for steps: ``db = Resource("db", make_pool)``, then ``pool = await db`` in an async step, or ``pool = db.get()`` in a sync one.

    `opens` is called without arguments, once per engine or worker, on its loop. If it returns a context manager, the entered value is the resource, and the
    manager is exited at the end; an object with a method `aclose` or `close` is closed by that.
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
        return _current_resources(self).get(self).__await__()

    def get(self) -> T:
        """Returns the resource, in a sync step.

        Raises:
            WrongVerb: no step is running here.
        """
        found: T = _current_resources(self).wait_for(self)
        return found


def _current_resources(resource: Resource[Any]) -> StepResources:
    try:
        return current_resources.get()
    except LookupError:
        raise WrongVerb(f"{resource!r} was used outside of a step", "use it in a step: the engine or worker that runs the step opens it") from None


class StepControl:
    """The mutable side of a running step, shared with the engine or worker that runs it.

    `send_heartbeat` reports progress; with `keeps`, the log keeps the last progress even if the step succeeds. `places` are the secrets in the named
    arguments, `find` returns a secret by name, and `mask` hides secrets in what the step puts out. The function has `begun` at `began_s` of the monotonic
    clock, so a pause of the process before that does not count towards the timeout. A step that is `over` does not begin.
    """

    __slots__ = ("began_s", "begun", "find", "keeps", "mask", "over", "places", "send_heartbeat")

    def __init__(self, send_heartbeat: Callable[[bytes], None], places: tuple[str, ...] = (), find: SecretFinder = find_no_secret) -> None:
        self.send_heartbeat = send_heartbeat
        self.began_s = 0.0
        self.begun = False
        self.keeps = False
        self.over = False
        self.places, self.find = places, find
        self.mask = NO_MASK


class StepInfo(msgspec.Struct, frozen=True, gc=False):
    """The information about a step that it can read: its execution and path, the number of the attempt (interrupted ones included), and its timeout.

    `interruptions` is how many attempts directly before this one were lost with their process, so that it is not known how far they came.
    """

    execution: Key
    path: Path
    attempt: int
    reported: Value = ENCODED_NONE
    life: StepControl | None = None
    timeout_s: float | None = None
    carried: Carried = ()
    interruptions: int = 0

    @property
    def key(self) -> str:
        """The idempotency key for external systems: the same in every attempt, and unique to the operation."""
        return idempotency_key(self.execution, self.path)

    @property
    def progress(self) -> Any:
        """The progress that the last attempt reported, as plain data; None if it reported none."""
        return (
            None if self.reported == ENCODED_NONE or isinstance(self.reported, Blob) else values.decode(self.reported, Any, "the progress of step", self.path)
        )

    @property
    def cancelled(self) -> bool:
        """Whether the result is no longer needed. Steps in threads can't be interrupted: they should check this now and then, and return."""
        return self.life is not None and self.life.over

    def begin(self, now_s: float) -> bool:
        """Marks the call of the function as begun, unless the result is no longer needed."""
        if self.life is None:
            return True
        self.life.begun = not self.life.over
        self.life.began_s = now_s
        return self.life.begun

    @property
    def mask(self) -> Mask:
        """The mask of the secrets that the step was given. Apply it to the output of other programs before you cut it or pass it on. What the step returns,
        raises, reports as progress or logs is masked automatically."""
        return NO_MASK if self.life is None else self.life.mask

    def secret(self, name: str) -> str | None:
        """Returns a secret of the engine or worker by its name, or None. From then on it is hidden in the output of the step.

        It may block, so an async step calls it in a thread.
        """
        found = None if self.life is None else self.life.find(name)
        if found is not None and self.life is not None:
            self.life.mask |= Mask((found,))
        return found

    def heartbeat(self, progress: Any = None, *, keep: bool = False) -> None:
        """Reports that the step is alive, and its progress, which the next attempt finds in `progress`. Can be called from any thread.

        The report is durable within a second. Of several reports in a second only the latest is kept. The last one before a success is dropped, unless with
        `keep`.

        Raises:
            Unencodable, TooLarge: the progress can't be stored; it is meant to be small.
        """
        raw = self.mask.value(values.encode(progress, "the progress of step", self.path))
        if len(raw) >= limits.BLOB_BYTES_MIN:
            raise TooLarge("the progress of a step", len(raw), limits.BLOB_BYTES_MIN)
        if self.life is not None:
            self.life.keeps = self.life.keeps or keep
            self.life.send_heartbeat(raw)


current_step: contextvars.ContextVar[StepInfo] = contextvars.ContextVar("perdure_step")


def step_info() -> StepInfo:
    """Returns the information about the running step.

    Raises:
        LookupError: no step is running here.
    """
    try:
        return current_step.get()
    except LookupError:
        raise LookupError("step_info() was called outside of a step. Call it in the body of a step") from None
