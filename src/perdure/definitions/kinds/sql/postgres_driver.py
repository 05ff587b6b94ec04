"""Statements on Postgres by asyncpg: on a pool of their own, or within a transaction of the store.

Statements are prepared without a name, within the transaction that runs them. So a pooler in transaction mode, such as PgBouncer, may be in between.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any

import msgspec

from perdure.code.step_environment import Resource
from perdure.core.errors import MissingExtra
from perdure.definitions.kinds.sql import sql_errors as errors
from perdure.definitions.kinds.sql import sql_values
from perdure.definitions.kinds.sql.sql_request import SqlRequest, SqlStatement, check_columns, check_rows, taken_result
from perdure.stores.protocol import TransactionalStore

CONNECTIONS_MAX, IDLE_S, CONNECT_S = 4, 60.0, 10.0
"""How many connections an engine has to one database for its sql steps, how long they are kept idle, and how long connecting may take."""

ROWS_PER_FETCH = 1_000
JSON_TYPES = frozenset(("json", "jsonb", "json[]", "jsonb[]"))
_COUNT = re.compile(r"(\d+)$")


@lru_cache(maxsize=256)
def connection_pool(url: str) -> Resource[Any]:
    """The connection pool of an engine to a database."""

    def opens() -> Any:
        asyncpg = _asyncpg()
        return asyncpg.create_pool(
            url,
            min_size=0,
            max_size=CONNECTIONS_MAX,
            max_inactive_connection_lifetime=IDLE_S,
            timeout=CONNECT_S,
            statement_cache_size=0,
            server_settings={"application_name": "perdure"},
        )

    return Resource("sql", opens)


def _asyncpg() -> Any:
    try:
        return import_module("asyncpg")
    except ImportError:
        raise MissingExtra("a connection to Postgres", "asyncpg", "postgres") from None


class PostgresDriver:
    """The database at a URL."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        self._lost = _connection_errors()

    async def is_database_of(self, store: TransactionalStore) -> bool:
        """Whether this is the database of a store, in the same role."""
        async with self._connection(CONNECT_S) as connection:
            return await store.is_same_database(connection)

    async def perform(self, request: SqlRequest, limit_s: float) -> Any:
        """Performs the statements of a request in one transaction, and returns its result."""
        async with self._connection(limit_s) as connection:
            transaction = connection.transaction(readonly=request.reads)
            try:
                await transaction.start()
            except self._lost as error:
                raise errors.DatabaseUnreachable(f"{self.name}: beginning the transaction: {type(error).__name__}") from None
            try:
                found = await perform_on_postgres(connection, request, limit_s)
            except BaseException:
                if not connection.is_closed():
                    await transaction.rollback()
                raise
            try:
                await transaction.commit()
            except _asyncpg().PostgresError as error:  # such as a constraint that is checked at the end
                raise errors.error_of_state(f"{self.name}: committing", error, error.sqlstate, request.secret_values) from None
            except self._lost:
                why = "the connection broke during the commit, so it is not known whether the writes were kept"
                raise errors.CommitInDoubt(f"{self.name}: {why}") from None
            return found

    @asynccontextmanager
    async def _connection(self, limit_s: float) -> AsyncIterator[Any]:
        try:
            pool = await connection_pool(self.url)
            connection = await pool.acquire(timeout=min(limit_s, CONNECT_S))
        except ValueError:
            raise errors.SqlRefused(f"{self.name}: its URL is not valid for Postgres") from None
        except _asyncpg().PostgresError as error:
            raise errors.error_of_state(f"{self.name}: connecting", error, error.sqlstate, ()) from None
        except self._lost as error:
            raise errors.DatabaseUnreachable(f"{self.name}: connecting: {type(error).__name__}; see that the server runs, and that it can be reached") from None
        try:
            yield connection
        finally:
            await pool.release(connection, timeout=CONNECT_S)


def _connection_errors() -> tuple[type[Exception], ...]:
    """What asyncpg raises when a connection can't be made, or breaks."""
    asyncpg = _asyncpg()
    return asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError


async def perform_on_postgres(connection: Any, request: SqlRequest, limit_s: float) -> Any:
    """Performs the statements of a request in the open transaction of a connection of asyncpg, and returns its result.

    When the time is over, or this is cancelled, the server is told to cancel the statement.
    """
    results, statement = list[Any](), request.statements[0]
    try:
        async with asyncio.timeout(limit_s):
            for statement in request.statements:
                results.append(await _perform_statement(connection, request, statement))
    except TimeoutError:
        raise errors.StatementTimeout(f"{statement.where}: its time is over; give the step more `timeout`, or let it do less") from None
    except _asyncpg().PostgresError as error:
        raise errors.error_of_state(statement.where, error, error.sqlstate, request.secret_values) from None
    except _connection_errors() as error:
        raise errors.DatabaseUnreachable(f"{statement.where}: the connection broke: {type(error).__name__}") from None
    return request.result(results)


async def _perform_statement(connection: Any, request: SqlRequest, statement: SqlStatement) -> Any:
    prepared = await connection.prepare(statement.text.with_placeholders(lambda _, number: f"${number}"), name="")
    names = [attribute.name for attribute in prepared.get_attributes()]
    check_columns(statement, names)
    given = [_bound(statement, name, request.values[name], type_) for name, type_ in zip(statement.text.distinct_names, prepared.get_parameters(), strict=True)]
    try:
        if names:
            found = await (await prepared.cursor(*given)).fetch(request.rows_max + 1)
        else:
            found = await prepared.fetch(*given)
    except _asyncpg().DataError as error:
        if error.severity is not None:  # only an error of the server has one
            raise
        raise errors.SqlRefused(f"{statement.where}: a value can't be bound as the type that the statement takes") from None
    check_rows(statement, len(found), request.rows_max)
    types = [attribute.type.name for attribute in prepared.get_attributes()]
    rows = [_row(statement, names, types, row) for row in found]
    counted = _COUNT.search(prepared.get_statusmsg() or "")
    return taken_result(statement, rows, len(rows) if names else int(counted[1]) if counted else 0, len(names))


def _bound(statement: SqlStatement, name: str, value: Any, type_: Any) -> Any:
    try:
        return sql_values.bind_by_type(value, type_.name)
    except sql_values.NoValue as error:
        raise errors.SqlRefused(f"{statement.where}: the value of :{name} can't be bound: {error}") from None


def _row(statement: SqlStatement, names: list[str], types: list[str], row: Any) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, type_name, value in zip(names, types, row, strict=True):
        try:
            found[name] = _decoded_json(value) if type_name in JSON_TYPES else sql_values.value_of_column(value)
        except (sql_values.NoValue, msgspec.MsgspecError) as error:
            raise errors.SqlRefused(f"{statement.where}: the column {name} has no form in an execution: {error}") from None
    return found


def _decoded_json(value: Any) -> Any:
    if value is None:
        return None
    return [_decoded_json(one) for one in value] if isinstance(value, list) else msgspec.json.decode(value)
