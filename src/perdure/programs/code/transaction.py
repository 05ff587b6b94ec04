"""Transactions: what a step that is declared with `transaction=True` is given, to write in the transaction that settles it."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol


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
