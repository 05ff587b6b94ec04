"""Transactions: what a step that is declared with `transaction=True` is given, to write in the transaction that settles it.

Resources: what steps need open, such as a pool of connections: declared once, opened by each engine or worker on its own loop, and closed at its end.

Declaring opens nothing. A resource is opened when the first step asks for it, and is the same for all that run in that process.

What a step may know of itself while it runs, and say of how far it is.
"""

import contextvars
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar, overload

import msgspec

from perdure.core import limits, values
from perdure.core.errors import TooLarge, WrongVerb
from perdure.core.paths import Key, Path, idempotency_key
from perdure.core.secret_masks import NO_MASK, Mask, SecretFinder, find_no_secret
from perdure.core.values import ENCODED_NONE, Blob, Value


class Transaction(Protocol):
    """A transaction on the store's own database. What is written in it is there if and only if the step has settled, and so exactly once.

    Placeholders are ``$1``, ``$2`` and so on in both databases, in SQLite ``?`` as well. It can't be committed or rolled back by hand: an error that
    leaves the step rolls it back, its return commits it. Perdure's own tables can't be changed.
    """

    async def execute(self, sql: str, *arguments: Any) -> int:
        """Run a statement; return how many rows it changed (-1: it tells none)."""
        ...

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of `rows`."""
        ...

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]:
        """The rows of a query; a row has its columns by number and by name."""
        ...

    async def fetchrow(self, sql: str, *arguments: Any) -> Any:
        """The first row, or None."""
        ...

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """The first column of the first row, or None."""
        ...

    @property
    def connection(self) -> Any:
        """The driver's own connection: a `sqlite3.Connection`, or one of asyncpg."""
        ...


T = TypeVar("T")


ResourceFactory = Callable[[], AbstractAsyncContextManager[T] | AbstractContextManager[T] | Awaitable[T] | T]
"""What opens a resource: a context manager, which also closes it, or a function that returns it, async or not."""


class StepResources(Protocol):
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


current_resources: contextvars.ContextVar[StepResources] = contextvars.ContextVar("perdure_resources")


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
        return _current_resources(self).get(self).__await__()

    def get(self) -> T:
        """The resource, in a sync step.

        Raises:
            WrongVerb: no step is running here.
        """
        found: T = _current_resources(self).wait_for(self)
        return found


def _current_resources(resource: Resource[Any]) -> StepResources:
    try:
        return current_resources.get()
    except LookupError:
        raise WrongVerb(f"{resource!r} was asked for outside of a step", "what is open belongs to the engine that runs the step: ask for it there") from None


class StepControl:
    """What a step has beside what is known of it: somebody who hears its heart beat, whether it is still wanted, whether the log is to keep what it said
    last even if it ends well, and the secrets that it is given: their `places` in its named arguments, what `find`s them by name, and the `mask` that
    hides them in what it says. Its function has `begun`, at `began_s` of the monotonic clock: a pause of the process before that takes nothing of its time.
    One that is `over` does not begin."""

    __slots__ = ("beat", "began_s", "begun", "find", "keeps", "mask", "over", "places")

    def __init__(self, beat: Callable[[bytes], None], places: tuple[str, ...] = (), find: SecretFinder = find_no_secret) -> None:
        self.beat = beat
        self.began_s = 0.0
        self.begun = False
        self.keeps = False
        self.over = False
        self.places, self.find = places, find
        self.mask = NO_MASK


class StepInfo(msgspec.Struct, frozen=True, gc=False):
    """What a step may know of itself: whose operation it is, the number of its try, interrupted ones included, and how long that may take."""

    execution: Key
    path: Path
    attempt: int
    reported: Value = ENCODED_NONE
    life: StepControl | None = None
    timeout_s: float | None = None

    @property
    def key(self) -> str:
        """The idempotency key for the outside world: the same in every try, and no other operation's."""
        return idempotency_key(self.execution, self.path)

    @property
    def progress(self) -> Any:
        """What the last try said of how far it was, as plain data; None if it said nothing."""
        return (
            None if self.reported == ENCODED_NONE or isinstance(self.reported, Blob) else values.decode(self.reported, Any, "the progress of step", self.path)
        )

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the result any more; for steps in threads, which can't be interrupted: look at it now and then, and return."""
        return self.life is not None and self.life.over

    def begin(self, now_s: float) -> bool:
        """Begin to call the function, unless nobody wants the result any more."""
        if self.life is None:
            return True
        self.life.begun = not self.life.over
        self.life.began_s = now_s
        return self.life.begun

    @property
    def mask(self) -> Mask:
        """What hides the secrets that it was given: whoever cuts or passes on what others say hides them there first. What the step returns or raises,
        says of its progress or logs is hidden by itself."""
        return NO_MASK if self.life is None else self.life.mask

    def secret(self, name: str) -> str | None:
        """A secret of where the step runs, by its name; None if there is none. From then on it is hidden in what the step says.

        It may block, so an async step calls it in a thread.
        """
        found = None if self.life is None else self.life.find(name)
        if found is not None and self.life is not None:
            self.life.mask |= Mask((found,))
        return found

    def heartbeat(self, progress: Any = None, *, keep: bool = False) -> None:
        """Say that the step is alive, and how far it is; the next try, should there be one, finds it in `progress`. From any thread.

        It is durable a second later at most. What is said more often than once a second is not all kept, only the latest; nor is what was said just before
        the step has ended well, unless with `keep`.

        Raises:
            Unencodable, TooLarge: the progress can't be kept; it is meant to be small.
        """
        raw = self.mask.value(values.encode(progress, "the progress of step", self.path))
        if len(raw) >= limits.BLOB_BYTES_MIN:
            raise TooLarge("the progress of a step", len(raw), limits.BLOB_BYTES_MIN)
        if self.life is not None:
            self.life.keeps = self.life.keeps or keep
            self.life.beat(raw)


current_step: contextvars.ContextVar[StepInfo] = contextvars.ContextVar("perdure_step")


def step_info() -> StepInfo:
    """What the running step may know of itself.

    Raises:
        LookupError: no step is running here.
    """
    try:
        return current_step.get()
    except LookupError:
        raise LookupError("step_info() is for the body of a step; none is running here") from None
