"""Joining: what is posted takes part in a transaction that a user has open on the store's database. It is there with its commit, and gone with its rollback.

Two faces of it: a user's transaction that posts join (`Joining`), and one of the store's that a user's step is given (`Transacting`).
"""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from perdure.core.errors import BadValue, WrongVerb
from perdure.core.mail import Mail
from perdure.core.paths import Address, Key
from perdure.stores.base import ALL, Answer, Commit, Filter, Head, Log, Moment, Post, QueueStand, Transacting

T = TypeVar("T")


class Joined(Protocol):
    """A store as it is within a transaction of a user: what that has done is seen, and what is done here is seen by others once it commits.

    Each method is that of a `Store`.
    """

    async def commit(self, changes: Sequence[Commit | Post]) -> list[Answer]:
        """See `Store.commit`; durable is it with the user's commit."""
        ...

    async def read(self, key: Key, after: int = 0) -> Log | None:
        """See `Store.read`."""
        ...

    async def heads(self, which: Filter = ALL) -> list[Head]:
        """See `Store.heads`."""
        ...

    async def mail(self, to: Address) -> list[Mail]:
        """See `Store.mail`."""
        ...

    async def blob(self, sha256: str) -> bytes | None:
        """See `Store.blob`."""
        ...

    async def moment(self) -> Moment:
        """See `Store.moment`."""
        ...

    async def queues(self) -> list[QueueStand]:
        """See `Store.queues`."""
        ...


class Joining(Protocol):
    """What a store can do besides, if it is a database to which users may have connections of their own."""

    async def meet(self) -> None:
        """Find out by what connections to this database are known; to be awaited on the loop of the store, before anything joins."""
        ...

    def join(self, connection: Any) -> AbstractAsyncContextManager[Joined]:
        """Within, the store as it is in the transaction that is open on `connection`; what fails there leaves nothing in it.

        With a connection that does not belong to an event loop, nothing is awaited: then this may be used in any thread. What goes wrong on the
        connection is raised as its driver raises it.

        Raises:
            BadValue: it is no connection to this database, or no transaction is open on it.
        """
        ...


def driven(coroutine: Coroutine[Any, Any, T], wrong: WrongVerb) -> T:
    """Run a coroutine to its end, here and now; `wrong` is raised in it if it has to wait for something."""
    try:
        coroutine.send(None)
        coroutine.throw(wrong)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise wrong


def joining(store: Any) -> Joining:
    """The store, if users may have connections to its database.

    Raises:
        BadValue: it is no database.
    """
    if not _has(store, "join"):
        raise BadValue("connection=", _name(store), "a store in a database of yours: use SQLite or Postgres")
    joins: Joining = store
    return joins


def transacting(store: Any) -> Transacting | None:
    """The store, if steps may be given transactions of its database."""
    transacts: Transacting = store
    return transacts if _has(store, "transact") else None


def _has(store: Any, method: str) -> bool:
    """Whether a store can do this, and the one below too if it is one around another."""
    return hasattr(store, method) and hasattr(getattr(store, "inner", store), method)


def _name(store: Any) -> str:
    return type(getattr(store, "inner", store)).__name__
