"""What people do with the schema of a Postgres store: migrate, examine, compare, and grant rights. No store is opened for it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from perdure.core.errors import BadValue, StoreError
from perdure.stores.postgres.connection_settings import connection_settings
from perdure.stores.postgres.connections import PostgresConnection, PostgresConnections
from perdure.stores.postgres.grants import Purpose, grant_statements
from perdure.stores.postgres.migration_scripts import Script
from perdure.stores.postgres.migrations import AppliedScript, SchemaMigrations, SchemaState
from perdure.stores.postgres.schema_check import SchemaDifference, schema_differences
from perdure.stores.postgres.statements import SQL


class SchemaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a schema, for people and programs. Engines that know the scripts from `oldest_engine` on may run; this Perdure knows those up to `known`."""

    database: str
    schema: str
    owner: str | None
    number: int
    known: int
    oldest_engine: int
    usable: bool
    reason: str
    history: tuple[AppliedScript, ...]
    missing: tuple[str, ...]


class OpenSchema:
    """A schema on a connection that leads through no pooler."""

    def __init__(self, connection: Any, migrations: SchemaMigrations) -> None:
        self.connection, self.migrations = connection, migrations

    async def state(self) -> SchemaState:
        """Returns what is there. See `SchemaMigrations.state`."""
        return await self.migrations.state(self.connection)

    async def status(self) -> SchemaStatus:
        """Returns the same as people want to see it, with whether this Perdure could use it as it is, and if not, why."""
        state, reason = await self.state(), ""
        try:
            self.migrations.expect_known(state)
        except StoreError as error:
            reason = str(error)
        missing = () if reason else tuple(script.name for script in self.migrations.missing(state))
        if missing:
            reason = f"this Perdure needs tables of version {self.migrations.number}; run perdure db migrate as {self.migrations.migrators(state)}"
        return SchemaStatus(
            database=state.database,
            schema=state.schema,
            owner=state.owner,
            number=state.number,
            known=self.migrations.number,
            oldest_engine=state.oldest_engine,
            usable=not reason,
            reason=reason,
            history=state.history,
            missing=missing,
        )

    async def to_apply(self, *, engines_are_stopped: bool) -> tuple[SchemaState, tuple[Script, ...]]:
        """Returns the state with the scripts that are missing.

        Raises:
            StoreError: the schema is none of Perdure's; or a script does not work with engines that may be running, unless they are stopped.
        """
        state = await self.state()
        self.migrations.expect_known(state)
        if not engines_are_stopped and (breaking := self.migrations.breaking(state)):
            raise StoreError(f"{breaking[0].name} does not work with engines of version {state.number}, which may be running. End them, and give --stopped")
        return state, self.migrations.missing(state)

    async def migrate(self, report: Callable[[str], None]) -> None:
        """Applies the scripts that are missing. See `SchemaMigrations.migrate`."""
        await self.migrations.migrate(self.connection, report)

    async def differences(self) -> list[SchemaDifference]:
        """Returns in what the schema differs from what its scripts make. See `schema_differences`.

        Raises:
            StoreError: it has no tables of Perdure, scripts of this Perdure have not been applied, or the role may not create the schema to compare with.
        """
        status = await self.status()
        if not status.usable or not status.number:
            raise StoreError(status.reason)
        if status.number > status.known:
            raise StoreError(f"tables of version {status.number} can be compared only by a Perdure that knows them, and this one knows version {status.known}")
        return await schema_differences(self.connection, self.migrations, await self.state())

    async def grants(self, role: str, purpose: Purpose) -> list[str]:
        """Returns the statements after which a role has the rights of a purpose, and no others in the schema.

        Raises:
            BadValue: there is no such role, or it has all rights anyway.
            StoreError: there are no tables yet.
        """
        state = await self.state()
        self.migrations.expect_known(state)
        if not state.history or state.owner is None:
            raise StoreError(f"{state.place} has no tables of Perdure yet; run perdure db migrate first")
        found = await self.connection.fetchrow(SQL.role_of_name, role, state.owner)
        if found is None:
            raise BadValue("role", role, f"a role of the server; make it first: CREATE ROLE {role} LOGIN")
        if found[0]:
            raise BadValue("role", role, f"a role that needs grants: it has all rights of the owner, {state.owner}")
        tables = [row[0] for row in await self.connection.fetch(SQL.grantable_tables, state.schema)]
        return grant_statements(state.schema, state.owner, role, purpose, tables)

    async def grant(self, statements: list[str]) -> None:
        """Carries out the statements of `grants`, all or none."""
        await self.connection.execute("\n".join(statements))


@asynccontextmanager
async def open_schema(url: str, schema: str | None = None) -> AsyncIterator[OpenSchema]:
    """Opens the schema of a URL, or another one of its database.

    Raises:
        BadValue: a setting is not accepted.
        MissingExtra: asyncpg is not installed.
        StoreError: the server can't be used.
    """
    settings = connection_settings(url) if schema is None else connection_settings(url, schema=schema)
    connections = PostgresConnections(settings, _nothing)
    async with connections.direct_connection() as connection:
        yield OpenSchema(connection.raw, SchemaMigrations(settings.schema))


async def _nothing(_: PostgresConnection) -> None:
    """A schema is opened as it is."""


async def migrate_schema(url: str) -> bool:
    """Applies the scripts that are missing in the schema of a URL, as an engine would that opens it; returns whether there were any."""
    async with open_schema(url) as opened:
        if not await opened.migrations.must_migrate(opened.connection):
            return False
        await opened.migrate(lambda _: None)
        return True
