"""The named connections of a deployment: which there are, and the driver of one.

The operator names them (`Deployment.connections`, or `PERDURE_CONNECTION_NAME` in the environment); a definition has their names alone. A URL may contain
secrets, which are resolved for the tenant of the execution when a step runs.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from perdure.code.step_environment import step_info
from perdure.core.errors import MissingSecret
from perdure.definitions.kinds.deployment import EXPECTED_SOURCE, SECRET_IN_URL, VARIABLE, Deployment, connection_sources, shown_source
from perdure.definitions.kinds.sql.sql_errors import SqlRefused
from perdure.definitions.kinds.sql.sql_request import SqlRequest
from perdure.stores.protocol import TransactionalStore

_SECRET = re.compile(SECRET_IN_URL)
_SQLITE = re.compile(r"sqlite:///(.+)")


class SqlDriver(Protocol):
    """A database, as a driver reaches it."""

    name: str

    async def is_database_of(self, store: TransactionalStore) -> bool:
        """Whether this is the database of a store, so that a step may join the store's transaction."""
        ...

    async def perform(self, request: SqlRequest, limit_s: float) -> Any:
        """Performs the statements of a request in one transaction, and returns its result.

        Raises:
            SqlRefused, StatementRefused, TooManyRows, UnexpectedRows: another attempt would be useless.
            StatementTransient, StatementTimeout, DatabaseUnreachable, CommitInDoubt: another attempt may succeed.
        """
        ...


async def source_of_connection(deployment: Deployment, name: str) -> Any:
    """Returns the source of a connection for the running step, with its secrets.

    Raises:
        SqlRefused: this process has no such connection.
        MissingSecret: a secret in it is not set.
    """
    source = connection_sources(deployment).get(name)
    if source is None:
        how = f"start the engine with {VARIABLE}{name.upper()}, or give its definitions Deployment(connections={{{name!r}: …}})"
        raise SqlRefused(f"the connection {name} is not known in this process; {how}")
    if isinstance(source, str) and _SECRET.search(source):
        return await asyncio.to_thread(_with_secrets, source, step_info())
    return source


def _with_secrets(source: str, info: Any) -> str:
    """Returns a URL with its secrets: one that is the whole URL as it is, one within it as a part of a URL is written."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        secret = info.secret(name)
        if secret is None:
            raise MissingSecret(name)
        return str(secret) if found[0] == source else quote(secret, safe="")

    return _SECRET.sub(value, source)


def driver_of_source(name: str, source: Any) -> SqlDriver:
    """Returns the driver of a connection.

    Raises:
        SqlRefused: its URL is of no database that is known here.
        MissingExtra: the library of the driver is not installed.
    """
    if not isinstance(source, str):
        from perdure.definitions.kinds.sql.sqlalchemy_driver import SqlalchemyDriver

        return SqlalchemyDriver(name, source)
    if (file := _SQLITE.fullmatch(source)) is not None:
        from perdure.definitions.kinds.sql.sqlite_driver import SqliteDriver

        return SqliteDriver(name, Path(unquote(file[1])))
    if source.startswith(("postgresql://", "postgres://")):
        from perdure.definitions.kinds.sql.postgres_driver import PostgresDriver

        return PostgresDriver(name, source)
    raise SqlRefused(f"the connection {name} has a URL that begins with {shown_source(source)}; it is {EXPECTED_SOURCE}")
