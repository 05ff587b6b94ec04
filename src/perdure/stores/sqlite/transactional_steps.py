"""Transactions of users: their statements run in the transaction that is written, and see and do nothing else of it.

A savepoint keeps what fails from touching what others have written in the same transaction. For as long as the user's code runs, SQLite
asks here what it may do: Perdure's tables can be read, not changed, and where the transaction ends is not the user's to say.
"""

import re
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from perdure.core.errors import WrongVerb
from perdure.stores.protocol import ChangeAnswer, Post, TransactionGuard, TransactionRaised, TransactionRefused
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.store_rows import address_text, is_queued

HOLDS_EXECUTION = "SELECT 1 FROM heads WHERE address = ? AND holder = ?"
HOLDS_WORK = "SELECT 1 FROM mail WHERE address = ? AND key = ? AND holder = ?"

PERDURE_TABLES = frozenset(
    ("meta", "processes", "holders", "heads", "attributes", "programs", "log", "mail", "blobs", "blob_marks", "removed_blobs", "queues", "lanes", "vault")
)
WRITE_ACTIONS = frozenset(
    (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_CREATE_TRIGGER)
)
FORBIDDEN_ACTIONS = frozenset((sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA))

StepWork = Callable[[Any], Coroutine[Any, Any, Post]]

_NUMBERED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|(?<![\w$])\$(\d+)""", re.DOTALL)
"""What is quoted, a comment, or a placeholder as Postgres has it."""


class SqliteTransaction:
    """A transaction as a user's step has it. Everything is done when it is called; awaiting costs nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def _cursor(self) -> sqlite3.Cursor:
        cursor = self.connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor

    async def execute(self, sql: str, *arguments: Any) -> int:
        """Run a statement; return how many rows it changed."""
        return self._cursor().execute(_with_sqlite_placeholders(sql), arguments).rowcount

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement for each of `rows`."""
        self._cursor().executemany(_with_sqlite_placeholders(sql), rows)

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]:
        """The rows of a query."""
        return self._cursor().execute(_with_sqlite_placeholders(sql), arguments).fetchall()

    async def fetchrow(self, sql: str, *arguments: Any) -> Any:
        """The first row, or None."""
        return self._cursor().execute(_with_sqlite_placeholders(sql), arguments).fetchone()

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """The first column of the first row, or None."""
        row = await self.fetchrow(sql, *arguments)
        return None if row is None else row[0]


@lru_cache
def _with_sqlite_placeholders(sql: str) -> str:
    """A statement with the placeholders of SQLite: ``?1`` for ``$1``."""
    return _NUMBERED.sub(lambda found: f"?{found[1]}" if found[1] else found[0], sql) if "$" in sql else sql


def check_guard(execute: Execute, guard: TransactionGuard) -> TransactionRefused | None:
    """Whether the guard holds; if not, why."""
    if is_queued(execute, address_text(guard.key), guard.answer):
        return TransactionRefused(answered=True)
    held = (address_text(guard.key), guard.holder) if guard.work is None else (address_text(guard.work.to), guard.work.key, guard.holder)
    if not execute(HOLDS_EXECUTION if guard.work is None else HOLDS_WORK, held).fetchone():
        return TransactionRefused()
    return None


def run_transactional_step(connection: sqlite3.Connection, work: StepWork, carry_out: Callable[[Post], ChangeAnswer]) -> ChangeAnswer | TransactionRaised:
    """Run the user's code and carry out what it returns, in a transaction that was begun; if either fails, nothing of them is left."""
    connection.execute("SAVEPOINT step")
    try:
        with _restricted(connection):
            post = _run_without_waiting(work(SqliteTransaction(connection)))
        answer = carry_out(post)
    except BaseException as error:
        connection.execute("ROLLBACK TO step")
        connection.execute("RELEASE step")
        return TransactionRaised(error)
    connection.execute("RELEASE step")
    return answer


@contextmanager
def _restricted(connection: sqlite3.Connection) -> Iterator[None]:
    """Have SQLite refuse what is not the user's to do."""

    def decide(action: int, first: str | None, *_: Any) -> int:
        refused = action in FORBIDDEN_ACTIONS or (action in WRITE_ACTIONS and (first or "").lower() in PERDURE_TABLES)
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    connection.set_authorizer(decide)
    try:
        yield
    finally:
        connection.set_authorizer(None)


def _run_without_waiting(coroutine: Coroutine[Any, Any, Post]) -> Post:
    """Run the user's function to its end, here and now."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        post: Post = end.value
        return post
    coroutine.close()
    raise WrongVerb("a step with transaction=True awaited something else than its transaction", "do that in a step before: everybody waits for a transaction")
