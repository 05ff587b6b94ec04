"""Statements on SQLite: on a connection of their own to a file, or within a transaction of the store.

An authorizer keeps the statements of definitions from other files, from settings of the connection, and from Perdure's own tables, which have the data of
every tenant.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from perdure.definitions.kinds.sql import sql_errors as errors
from perdure.definitions.kinds.sql import sql_values
from perdure.definitions.kinds.sql.sql_request import SqlRequest, SqlStatement, check_columns, check_rows, taken_result
from perdure.stores.protocol import TransactionalStore
from perdure.stores.sqlite.transactional_steps import FORBIDDEN_ACTIONS, PERDURE_TABLES

INSTRUCTIONS = 10_000
"""After how many instructions of its virtual machine SQLite asks whether the time is over."""

READ_ACTIONS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
TRANSIENT_CODES = frozenset(
    (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL)
)
"""The primary result codes after which another attempt may succeed."""


class SqliteDriver:
    """The database in a file. Each attempt has a connection of its own, in a thread."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path

    async def is_database_of(self, store: TransactionalStore) -> bool:
        """Whether this is the database of a store."""
        with closing(self._connect("ro", 0.0)) as connection:
            return await store.is_same_database(connection)

    async def perform(self, request: SqlRequest, limit_s: float) -> Any:
        """Performs the statements of a request in one transaction, and returns its result."""
        ends_s = time.monotonic() + limit_s
        connection = self._connect("ro" if request.reads else "rw", limit_s)
        work = asyncio.ensure_future(asyncio.to_thread(self._perform, connection, request, ends_s))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            connection.interrupt()
            await asyncio.wait((work,))
            _ = work.cancelled() or work.exception()
            raise

    def _perform(self, connection: sqlite3.Connection, request: SqlRequest, ends_s: float) -> Any:
        with closing(connection):
            try:
                connection.execute("BEGIN" if request.reads else "BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise sqlite_error(f"{self.name}: beginning the transaction", error, request) from None
            try:
                found = perform_on_sqlite(connection, request, ends_s)
                connection.set_authorizer(None)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise sqlite_error(f"{self.name}: committing", error, request) from None
            finally:
                connection.set_authorizer(None)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            return found

    def _connect(self, mode: str, limit_s: float) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.absolute()))}?mode={mode}"
        try:
            return sqlite3.connect(uri, timeout=limit_s, isolation_level=None, check_same_thread=False, uri=True)
        except sqlite3.OperationalError as error:
            if not self.path.exists():
                raise errors.SqlRefused(f"{self.name}: there is no file {self.path}; create the database, or correct the connection's URL") from None
            raise sqlite_error(f"{self.name}: opening {self.path}", error, None) from None


def perform_on_sqlite(connection: sqlite3.Connection, request: SqlRequest, ends_s: float) -> Any:
    """Performs the statements of a request in the open transaction of a connection, and returns its result.

    The authorizer of the connection is left in place, because that of a step in a transaction of the store would allow more.
    """
    with _limited(connection, request.reads, ends_s):
        return request.result([_perform_statement(connection, request, statement, ends_s) for statement in request.statements])


def _perform_statement(connection: sqlite3.Connection, request: SqlRequest, statement: SqlStatement, ends_s: float) -> Any:
    if statement.text.marks:
        raise errors.SqlRefused(f"{statement.where}: ? is no placeholder here; write :name, and give the value in `with`")
    given = [_bound(statement, name, request.values[name]) for name in statement.text.distinct_names]
    cursor = connection.cursor()
    cursor.row_factory = None
    try:
        cursor.execute(statement.text.with_placeholders(lambda _, number: f"?{number}"), given)
        names = [column[0] for column in cursor.description or ()]
        found = cursor.fetchmany(request.rows_max + 1) if names else []
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
        raise sqlite_error(statement.where, error, request, time.monotonic() >= ends_s) from None
    finally:
        changed = cursor.rowcount
        cursor.close()
    check_rows(statement, len(found), request.rows_max)
    check_columns(statement, names)
    rows = [dict(zip(names, map(sql_values.value_of_column, row), strict=True)) for row in found]
    return taken_result(statement, rows, len(rows) if names else max(changed, 0), len(names))


def _bound(statement: SqlStatement, name: str, value: Any) -> Any:
    try:
        return sql_values.bind_by_value(value)
    except sql_values.NoValue as error:
        raise errors.SqlRefused(f"{statement.where}: the value of :{name} can't be bound: {error}") from None


@contextmanager
def _limited(connection: sqlite3.Connection, reads: bool, ends_s: float) -> Iterator[None]:
    """Makes SQLite end statements when their time is over, and refuse those that a definition must not run."""
    connection.set_authorizer(_reading if reads else _writing)
    connection.set_progress_handler(lambda: int(time.monotonic() >= ends_s), INSTRUCTIONS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


def _decision(may: Callable[[int], bool]) -> Callable[..., int]:
    def decide(action: int, first: str | None, second: str | None, *_: Any) -> int:
        is_own = action not in (sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_SELECT) and not PERDURE_TABLES.isdisjoint(
            ((first or "").lower(), (second or "").lower())
        )
        return sqlite3.SQLITE_DENY if is_own or action in FORBIDDEN_ACTIONS or not may(action) else sqlite3.SQLITE_OK

    return decide


_writing = _decision(lambda _: True)
_reading = _decision(READ_ACTIONS.__contains__)


def sqlite_error(where: str, error: Exception, request: SqlRequest | None, is_over: bool = False) -> Exception:
    """Returns the failure for an error of SQLite. Its messages have names of tables and columns, and no values but those that a trigger raises."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        why = "its time is over" if is_over else "it was cancelled"
        return errors.StatementTimeout(f"{where}: {why}; give the step more `timeout`, or let it do less")
    said = errors.without_values(str(error), () if request is None else request.secret_values)
    if code == sqlite3.SQLITE_AUTH or "not authorized" in said or "prohibited" in said:
        said = f"{said}: a query only reads, and no step changes settings, other files or Perdure's own tables"
    return errors.StatementTransient(f"{where}: {said}") if code in TRANSIENT_CODES else errors.StatementRefused(f"{where}: {said}")
