"""Transactional steps: the statements of a user's step run inside the store's own write transaction.

A savepoint keeps a failed step from affecting the other writes of the transaction. While the user's code runs, an authorizer of SQLite
lets it read Perdure's tables but not change them, and lets it neither end the transaction nor open another.
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
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import address_text, is_queued

PERDURE_TABLES = frozenset(
    (
        *("meta", "processes", "holders", "heads", "attributes", "programs", "log", "mail", "blobs", "blob_marks", "removed_blobs"),
        *("feed", "feed_scans", "restored_rows", "queues", "lanes", "tenant_turns", "vault"),
        *("records", "record_attributes"),
    )
)
WRITE_ACTIONS = frozenset((sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_DROP_TABLE))
"""Actions of which SQLite first names the table."""

SCHEMA_ACTIONS = frozenset(
    (
        *(sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TRIGGER),
        *(sqlite3.SQLITE_CREATE_TEMP_TRIGGER, sqlite3.SQLITE_DROP_TEMP_TRIGGER, sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_DROP_TEMP_INDEX),
    )
)
"""Actions of which it names the table second, after the database or what is made."""

FORBIDDEN_ACTIONS = frozenset((sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA))

StepWork = Callable[[Any], Coroutine[Any, Any, Post]]

_NUMBERED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|(?<![\w$])\$(\d+)""", re.DOTALL)
"""Matches quoted text, a comment, or a placeholder in the style of Postgres."""


class TransactionLost(Exception):
    """SQLite has rolled the whole transaction back because of an `error` of a step, as after ``INSERT OR ROLLBACK`` and interrupted statements."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class SqliteTransaction:
    """The transaction that a user's step gets. Each method completes without waiting. See `perdure.Transaction`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def _cursor(self) -> sqlite3.Cursor:
        _expect_transaction(self.connection)
        cursor = self.connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor

    async def execute(self, sql: str, *arguments: Any) -> int:
        """Runs a statement; returns how many rows it changed."""
        return self._cursor().execute(_with_sqlite_placeholders(sql), arguments).rowcount

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs a statement for each of `rows`."""
        self._cursor().executemany(_with_sqlite_placeholders(sql), rows)

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]:
        """Returns the rows of a query."""
        return self._cursor().execute(_with_sqlite_placeholders(sql), arguments).fetchall()

    async def fetchrow(self, sql: str, *arguments: Any) -> Any:
        """Returns the first row, or None."""
        return self._cursor().execute(_with_sqlite_placeholders(sql), arguments).fetchone()

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """Returns the first column of the first row, or None."""
        row = await self.fetchrow(sql, *arguments)
        return None if row is None else row[0]


@lru_cache
def _with_sqlite_placeholders(sql: str) -> str:
    """Rewrites the placeholders of a statement for SQLite: ``?1`` for ``$1``."""
    return _NUMBERED.sub(lambda found: f"?{found[1]}" if found[1] else found[0], sql) if "$" in sql else sql


def check_guard(execute: Execute, guard: TransactionGuard) -> TransactionRefused | None:
    """Returns None if the guard holds, else why it does not."""
    if is_queued(execute, address_text(guard.key), guard.answer):
        return TransactionRefused(answered=True)
    held = (address_text(guard.key), guard.holder) if guard.work is None else (address_text(guard.work.to), guard.work.key, guard.holder)
    if not execute(SQL.holds_execution if guard.work is None else SQL.holds_work, held).fetchone():
        return TransactionRefused()
    return None


def run_transactional_step(connection: sqlite3.Connection, work: StepWork, carry_out: Callable[[Post], ChangeAnswer]) -> ChangeAnswer | TransactionRaised:
    """Runs the user's code and carries out the post that it returns, in an open transaction. If either fails, both are rolled back.

    Raises:
        TransactionLost: the whole transaction was rolled back, with the changes of others in it.
    """
    connection.execute("SAVEPOINT step")
    try:
        with _restricted(connection):
            post = _run_without_waiting(work(SqliteTransaction(connection)))
        _expect_transaction(connection)
        answer = carry_out(post)
    except BaseException as error:  # the user's code may raise anything; the step is rolled back, and the error becomes its outcome
        if not connection.in_transaction:
            raise TransactionLost(error) from error
        connection.execute("ROLLBACK TO step")
        connection.execute("RELEASE step")
        return TransactionRaised(error)
    connection.execute("RELEASE step")
    return answer


def _expect_transaction(connection: sqlite3.Connection) -> None:
    """Checks that the transaction is still open.

    Raises:
        WrongVerb: an earlier statement has rolled it back.
    """
    if not connection.in_transaction:
        raise WrongVerb(
            "a step with transaction=True continued after a statement that had rolled its transaction back",
            "let the error leave the step, and use no OR ROLLBACK and no RAISE(ROLLBACK)",
        )


@contextmanager
def _restricted(connection: sqlite3.Connection) -> Iterator[None]:
    """Makes SQLite refuse statements that a step must not run."""

    def decide(action: int, first: str | None, second: str | None, *_: Any) -> int:
        table = first if action in WRITE_ACTIONS else second if action in SCHEMA_ACTIONS else None
        refused = action in FORBIDDEN_ACTIONS or (table or "").lower() in PERDURE_TABLES
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    connection.set_authorizer(decide)
    try:
        yield
    finally:
        connection.set_authorizer(None)


def _run_without_waiting(coroutine: Coroutine[Any, Any, Post]) -> Post:
    """Runs the user's coroutine to its end without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        post: Post = end.value
        return post
    coroutine.close()
    raise WrongVerb(
        "a step with transaction=True awaited something other than its transaction", "do that in an earlier step: every write waits for a transaction"
    )
