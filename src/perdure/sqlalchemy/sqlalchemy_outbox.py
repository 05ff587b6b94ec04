"""An outbox in a database that SQLAlchemy connects to. See `perdure.stores.outbox`."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from inspect import isawaitable
from typing import Any

from sqlalchemy import BigInteger, Column, DateTime, Engine, Integer, LargeBinary, MetaData, SmallInteger, Table, Text, delete, event, insert, select, update
from sqlalchemy.dialects.mysql import LONGBLOB
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from perdure.core.errors import BadValue
from perdure.stores.outbox import OUTBOX_FORMAT, ROWS_PER_BATCH, Outbox, OutboxBatch, OutboxRow

EXPECTED = "a Connection, Session, AsyncConnection or AsyncSession of SQLAlchemy on the database of the outbox"


class SqlalchemyOutbox(Outbox):
    """The outbox `name` in the database of `engine`, an `Engine` or an `AsyncEngine`, through which rows are posted.

    The table becomes part of `metadata`, such as that of your models, so that ``metadata.create_all`` or Alembic makes it. Where the database can skip locked
    rows (Postgres, MySQL 8, MariaDB 10.6, Oracle), each row is posted by one relay; elsewhere, as in SQLite, perhaps by several, which has no effect.

    Raises:
        BadValue: `engine` is no engine.
    """

    def __init__(self, engine: Engine | AsyncEngine, metadata: MetaData | None = None, *, name: str = "perdure_outbox", schema: str | None = None) -> None:
        super().__init__()
        if not isinstance(engine, Engine | AsyncEngine):
            raise BadValue("SqlalchemyOutbox(engine)", engine, "an Engine or AsyncEngine of SQLAlchemy: create_engine(url), create_async_engine(url)")
        self.engine = engine
        self.table = outbox_table(MetaData() if metadata is None else metadata, name, schema)
        self._locks = engine.dialect.name not in ("sqlite", "mssql")

    async def put(self, connection: Any, target: str, body: bytes) -> None:
        """See `Outbox.put`."""
        if isinstance(connection, Session | scoped_session | AsyncSession | async_scoped_session):
            found = connection.connection()
            used = await found if isawaitable(found) else found
        else:
            used = connection
        row = {"written_at": datetime.now(UTC), "format": OUTBOX_FORMAT, "target": target, "body": body}
        if isinstance(used, AsyncConnection):
            await used.run_sync(self._insert, row)
        elif isinstance(used, Connection):
            self._insert(used, row)
        else:
            raise BadValue("connection=", connection, EXPECTED)

    def _insert(self, connection: Connection, row: dict[str, Any]) -> None:
        if _commits_by_itself(connection):
            raise BadValue("connection=", connection, "in a transaction, and it commits by itself; use another isolation level than AUTOCOMMIT")
        connection.execute(insert(self.table), row)
        if not event.contains(connection, "commit", self._on_commit):
            event.listen(connection, "commit", self._on_commit)

    def _on_commit(self, _: Connection) -> None:
        self.notify()

    @asynccontextmanager
    async def batch(self, thread: Executor) -> AsyncIterator[OutboxBatch]:
        """See `Outbox.batch`."""
        if isinstance(self.engine, AsyncEngine):
            async with self.engine.connect() as async_connection:
                found = await async_connection.run_sync(self._read)
                yield found
                await async_connection.run_sync(self._finish, found)
        else:
            loop = asyncio.get_running_loop()
            connection = await loop.run_in_executor(thread, self.engine.connect)
            try:
                found = await loop.run_in_executor(thread, self._read, connection)
                yield found
                await loop.run_in_executor(thread, self._finish, connection, found)
            finally:
                thread.submit(connection.close)  # which rolls back what is not committed

    def _read(self, connection: Connection) -> OutboxBatch:
        table = self.table
        which = select(table.c.id, table.c.target, table.c.body).where(table.c.error.is_(None), table.c.format <= OUTBOX_FORMAT)
        rows = connection.execute(which.order_by(table.c.id).limit(ROWS_PER_BATCH).with_for_update(skip_locked=True)).all()
        if not self._locks:
            connection.rollback()  # a transaction of SQLite that has read could not write once another has written
        return OutboxBatch([OutboxRow(*row) for row in rows], {})

    def _finish(self, connection: Connection, batch: OutboxBatch) -> None:
        table = self.table
        if batch.posted:
            connection.execute(delete(table).where(table.c.id.in_(batch.posted)))
        for number, why in batch.failed.items():
            connection.execute(update(table).where(table.c.id == number).values(error=why))
        connection.commit()


def outbox_table(metadata: MetaData, name: str = "perdure_outbox", schema: str | None = None) -> Table:
    """The table of an outbox, as part of `metadata`. Numbers of rows are never used twice: a relay may remove a number after another has removed it."""
    if (known := metadata.tables.get(name if schema is None else f"{schema}.{name}")) is not None:
        return known
    return Table(
        name,
        metadata,
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("written_at", DateTime(timezone=True), nullable=False),
        Column("format", SmallInteger, nullable=False),
        Column("target", Text, nullable=False),
        Column("body", LargeBinary().with_variant(LONGBLOB, "mysql", "mariadb"), nullable=False),
        Column("error", Text),
        schema=schema,
        sqlite_autoincrement=True,
    )


def _commits_by_itself(connection: Connection) -> bool:
    """Returns whether no transaction is open once SQLAlchemy has begun one."""
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return True
    raw: Any = connection.connection.dbapi_connection
    try:
        commits = connection.dialect.detect_autocommit_setting(raw)
    except NotImplementedError:  # the driver does not say
        return False
    if commits and connection.dialect.name == "sqlite":  # the application may have arranged that it begins transactions itself
        connection.exec_driver_sql("SELECT 1").close()
        commits = not raw.driver_connection.in_transaction if hasattr(raw, "driver_connection") else not raw.in_transaction
    return commits
