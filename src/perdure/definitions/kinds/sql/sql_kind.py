"""The kind `sql`: its declaration, the function that performs a step, and the one that performs it within a transaction of the store."""

from __future__ import annotations

import sqlite3
import time
from functools import lru_cache
from typing import Any

from perdure.code.declarations import TransactionalForm
from perdure.code.step_environment import Resource, current_resources, step_info
from perdure.definitions.format.format_schema import schema_of_shape
from perdure.definitions.format.verb_shapes import SQL_SHAPE
from perdure.definitions.graph.step_kind import Kind, Limit
from perdure.definitions.kinds.deployment import STORE, Deployment, connection_sources
from perdure.definitions.kinds.sql import sql_connections
from perdure.definitions.kinds.sql.sql_errors import SqlRefused
from perdure.definitions.kinds.sql.sql_request import (
    ROWS_MAX,
    ROWS_MAX_MOST,
    STATEMENTS_MAX,
    build_request,
    check_config,
    check_sql_step,
    undo_request,
    written_request,
)
from perdure.stores.protocol import TRANSACTIONS

TIMEOUT_S = 30.0
"""The default time of the statements of an attempt."""

LIMITS = (
    Limit("time of the statements", f"{TIMEOUT_S:g} s", None, "they are cancelled in the database and tried again; `timeout` of the step says another"),
    Limit("rows that a statement returns", f"{ROWS_MAX:,}", f"{ROWS_MAX_MOST:,}", "the step fails, and nothing is kept"),
    Limit("statements of a step", f"{STATEMENTS_MAX}", None, "the definition is refused"),
    Limit("connections of an engine to one Postgres", "4", None, "further steps wait"),
)
IDEMPOTENCY = (
    "In the database of the store, a step that writes is one transaction with the message that settles it: exactly once. In any other database it is done "
    "again after an interruption, unless the step says `idempotent: false`; :idempotency_key is the same in every attempt, and a unique column for it makes "
    "the second attempt fail or, with ON CONFLICT DO NOTHING, do nothing. Queries change nothing."
)
EXAMPLE = """
perdure: 1
name: sale
input: {customer: {type: string}, cents: {type: integer}}
order: listed
steps:
  - id: account
    sql: {connection: shop, query: "SELECT id, cents FROM accounts WHERE name = :name", result: row}
    with: {name: "@input.customer"}
  - id: sell
    sql:
      connection: shop
      execute:
        - {statement: "UPDATE accounts SET cents = cents - :cents WHERE id = :id AND cents >= :cents", expect: 1}
        - "INSERT INTO outbox (id, body) VALUES (:idempotency_key, :body)"
    with: {id: "@account.id", cents: "@input.cents", body: {sold: "@input.cents", to: "@input.customer"}}
output: "@sell"
"""


@lru_cache(maxsize=1_024)
def _belongs_to_store(name: str, source: str) -> Resource[bool]:
    """Whether a connection is to the database of the store, found out once by each engine."""

    async def opens() -> bool:
        database = current_resources.get().store.part(TRANSACTIONS)
        return database is not None and await sql_connections.driver_of_source(name, source).is_database_of(database)

    return Resource(f"whether {name} is the store's database", opens)


def sql_kind(deployment: Deployment) -> Kind:
    """The kind `sql` of a deployment.

    Raises:
        BadValue: a connection is invalid.
    """
    _ = connection_sources(deployment)

    async def run(config: Any = None, input: Any = None, env: Any = None) -> Any:
        info = step_info()
        request = build_request(config, input, info.key)
        source = await sql_connections.source_of_connection(deployment, request.connection)
        if source == STORE:
            raise SqlRefused(f"the connection {request.connection} is the database of the store, and this store is in none; use SQLite or Postgres")
        driver = sql_connections.driver_of_source(request.connection, source)
        return await driver.perform(request, limit_s(info.timeout_s))

    async def joins(config: Any = None, input: Any = None, env: Any = None) -> bool:
        request = build_request(config, input, "")
        source = await sql_connections.source_of_connection(deployment, request.connection)
        if source == STORE:
            return current_resources.get().store.part(TRANSACTIONS) is not None
        return not request.reads and isinstance(source, str) and await _belongs_to_store(request.connection, source)

    return Kind(
        "sql",
        run,
        title="SQL",
        summary="Statements on a named connection of the deployment, in one transaction. Values are always bound.",
        icon="database",
        config=schema_of_shape(SQL_SHAPE),
        input={"type": ["object", "null"], "description": "the values of the placeholders, by name"},
        limits=LIMITS,
        idempotency=IDEMPOTENCY,
        check=check_config,
        check_step=check_sql_step,
        written=written_request,
        joins=TransactionalForm(perform_in_transaction, joins),
        undoes=undo_request,
        example=EXAMPLE,
    )


async def perform_in_transaction(transaction: Any, config: Any = None, input: Any = None, env: Any = None) -> Any:
    """Performs the statements of a step within a transaction of the store."""
    info = step_info()
    request = build_request(config, input, info.key)
    connection, seconds = transaction.connection, limit_s(info.timeout_s)
    if isinstance(connection, sqlite3.Connection):
        from perdure.definitions.kinds.sql.sqlite_driver import perform_on_sqlite

        return perform_on_sqlite(connection, request, time.monotonic() + seconds)
    from perdure.definitions.kinds.sql.postgres_driver import perform_on_postgres

    if not request.reads:
        return await perform_on_postgres(connection, request, seconds)
    async with connection.transaction():  # the setting ends with the savepoint
        await connection.execute("SET LOCAL transaction_read_only = on")
        return await perform_on_postgres(connection, request, seconds)


def limit_s(timeout_s: float | None) -> float:
    """The time limit of the statements of an attempt: slightly less than its timeout, so that the database has cancelled them by then."""
    return TIMEOUT_S if timeout_s is None else max(timeout_s - 0.5, timeout_s * 0.9)
