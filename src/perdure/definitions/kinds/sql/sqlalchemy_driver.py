"""Statements on any database by an engine of SQLAlchemy, sync or async, that the deployment gives. It brings its own driver, pool and settings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from perdure.definitions.kinds.sql import sql_errors as errors
from perdure.definitions.kinds.sql import sql_values
from perdure.definitions.kinds.sql.sql_request import SqlRequest, SqlStatement, check_columns, check_rows, taken_result

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from perdure.stores.protocol import TransactionalStore

TRANSIENT_ERRORS = frozenset(("OperationalError", "InternalError", "InterfaceError"))
"""The classes of DBAPI (PEP 249) after which another attempt may succeed, where the driver has no SQLSTATE."""


class SqlalchemyDriver:
    """The database of an engine. The transaction of a query is rolled back at its end, whatever it has done."""

    def __init__(self, name: str, engine: Engine | AsyncEngine) -> None:
        self.name, self.engine = name, engine

    async def is_database_of(self, store: TransactionalStore) -> bool:
        """False: the engine has settings of its own, so its statements run on its own connections."""
        return False

    async def perform(self, request: SqlRequest, limit_s: float) -> Any:
        """Performs the statements of a request in one transaction, and returns its result. Statements of a sync engine can't be cancelled."""
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError
        from sqlalchemy.exc import TimeoutError as PoolTimeout
        from sqlalchemy.ext.asyncio import AsyncEngine

        try:
            async with asyncio.timeout(limit_s):
                if not isinstance(self.engine, AsyncEngine):
                    return await asyncio.to_thread(self._perform, request)
                async with self.engine.connect() as connection:
                    return await connection.run_sync(self._perform_on, request)
        except TimeoutError:
            raise errors.StatementTimeout(f"{self.name}: the time of its statements is over; give the step more `timeout`, or let it do less") from None
        except DBAPIError as error:
            raise self._failure(error, request) from None
        except PoolTimeout:
            raise errors.DatabaseUnreachable(f"{self.name}: no connection of the engine's pool became free") from None
        except (SQLAlchemyError, OSError) as error:
            raise errors.StatementRefused(f"{self.name}: {type(error).__name__}") from None

    def _perform(self, request: SqlRequest) -> Any:
        with self.engine.connect() as connection:  # type: ignore[union-attr]  # an AsyncEngine has another way
            return self._perform_on(connection, request)

    def _perform_on(self, connection: Connection, request: SqlRequest) -> Any:
        with connection.begin() as transaction:
            found = request.result([_perform_statement(connection, request, statement) for statement in request.statements])
            if request.reads:
                transaction.rollback()
            return found

    def _failure(self, error: Any, request: SqlRequest) -> Exception:
        """The failure for an error of a driver. Its message may have values, so only names and numbers of it are shown."""
        raised = error.orig
        sqlstate = getattr(raised, "sqlstate", None) or getattr(raised, "pgcode", None)
        if isinstance(sqlstate, str):
            return errors.error_of_state(self.name, raised, sqlstate, request.secret_values)
        number = next((f" {one}" for one in getattr(raised, "args", ()) if isinstance(one, int)), "")
        message = f"{self.name}: {type(raised).__name__}{number} of {self.engine.dialect.name}"
        is_transient = error.connection_invalidated or type(error).__name__ in TRANSIENT_ERRORS
        return errors.StatementTransient(message) if is_transient else errors.StatementRefused(message)


def _perform_statement(connection: Connection, request: SqlRequest, statement: SqlStatement) -> Any:
    from sqlalchemy import text

    sql = statement.text.with_placeholders(lambda name, _: f":{name}", lambda part: part.replace("\\", "\\\\").replace(":", "\\:"))
    given = {name: _bound(statement, name, request.values[name]) for name in statement.text.distinct_names}
    result = connection.execute(text(sql), given)
    if not result.returns_rows:
        return taken_result(statement, [], max(result.rowcount, 0), 0)
    names = list(result.keys())
    found = result.fetchmany(request.rows_max + 1)
    result.close()
    check_rows(statement, len(found), request.rows_max)
    check_columns(statement, names)
    rows = [{name: _value(statement, name, value) for name, value in zip(names, row, strict=True)} for row in found]
    return taken_result(statement, rows, len(rows), len(names))


def _bound(statement: SqlStatement, name: str, value: Any) -> Any:
    try:
        return sql_values.bind_by_value(value)
    except sql_values.NoValue as error:
        raise errors.SqlRefused(f"{statement.where}: the value of :{name} can't be bound: {error}") from None


def _value(statement: SqlStatement, name: str, value: Any) -> Any:
    try:
        return sql_values.value_of_column(value)
    except sql_values.NoValue as error:
        raise errors.SqlRefused(f"{statement.where}: the column {name} has no form in an execution: {error}") from None
