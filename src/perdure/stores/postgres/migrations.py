"""Makes and changes the tables of the Postgres store, while engines work.

A schema has a number: that of the last script that was applied (`migration_scripts`). Its history says of each script which engines it works with. An engine
that knows the scripts up to number K opens a schema of K, and a newer one unless a script there says that it does not work with engines of K. It needs each
of its own scripts: where its role may, it applies those that are missing when it opens the store; otherwise it says what to run.

A change that engines of the version before could not work with is made in two scripts. The first one adds (expand), and both versions work; the second one,
of a later version of Perdure, removes what no engine uses any more (contract).

Each script runs in one transaction with its entry in the history, so it is applied once and as a whole, however many processes migrate and whenever one is
killed. It waits a moment at most for a lock that engines have, since others wait behind it meanwhile; then it is repeated.
"""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from perdure.core.errors import StoreError, StoreUnavailable
from perdure.stores.postgres.grants import missing_grant, quoted
from perdure.stores.postgres.migration_scripts import SCRIPTS, Script, created_index
from perdure.stores.postgres.statements import SQL, in_schema

SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,39}")
"""The names of schemas that SQL can name without quotes, but for its own words."""

LOCK_TIMEOUT_S, LOCKS_WAIT_S = 1.0, 300.0
"""How long a statement of a script waits for a lock, behind which engines then wait as well; and for how long a script is repeated until it gets its locks."""

PAUSE_S, PAUSE_MAX_S = 0.05, 5.0
"""The first pause before a script is repeated or the lock of migrations is asked for again, and the longest one. Each is twice as long as the one before."""

STATEMENT_S = 7 * 86_400.0
"""How long a statement of a script may run; asyncpg wants a number."""

LOCK_CONFLICTS = frozenset(("55P03", "40P01", "40001"))
"""The SQLSTATEs of errors of a script that other transactions caused."""

_log = logging.getLogger("perdure.stores.postgres")


class AppliedScript(msgspec.Struct, frozen=True):
    """An entry of the history: a script, its hash, which engines may run beside it, and when and by which Perdure it was applied."""

    number: int
    name: str
    sha256: str
    works_from: int
    applied_at: datetime
    perdure_version: str


class SchemaState(msgspec.Struct, frozen=True, kw_only=True):
    """What a role finds in a schema of a database. `owner` owns the history, or else the schema; `may_act_as_owner` says whether the role can do so."""

    schema: str
    database: str
    role: str
    is_standby: bool
    exists: bool
    owner: str | None
    has_history: bool
    is_experimental: bool
    has_tables: bool
    may_act_as_owner: bool
    may_create: bool
    may_create_schemas: bool
    history: tuple[AppliedScript, ...] = ()

    @property
    def number(self) -> int:
        """The number of the schema; 0 before the first script."""
        return len(self.history)

    @property
    def oldest_engine(self) -> int:
        """The oldest schema number of engines that may run."""
        return max((one.works_from for one in self.history), default=0)

    @property
    def may_migrate(self) -> bool:
        """Whether the role may apply scripts."""
        return self.may_act_as_owner or (self.may_create and not self.has_history)

    @property
    def acts_as(self) -> str | None:
        """The role in whose name scripts are applied, so that one role owns everything; None if that is the role of the connection."""
        is_needed = self.owner not in (None, self.role, "pg_database_owner") and self.may_act_as_owner
        return self.owner if is_needed else None

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"the schema {self.schema} of the database {self.database}"


class SchemaMigrations:
    """The migrations of one schema: what they find there, and what they do.

    A connection is one of asyncpg, straight to the server: a script outside of a transaction needs a session of its own.

    Raises:
        StoreError: SQL can't name the schema without quotes.
    """

    def __init__(
        self, schema: str = "perdure", scripts: Sequence[Script] = SCRIPTS, *, lock_timeout_s: float = LOCK_TIMEOUT_S, locks_wait_s: float = LOCKS_WAIT_S
    ) -> None:
        if SCHEMA_NAME.fullmatch(schema) is None:
            raise StoreError(f"{schema!r} is no name of a schema for Perdure; use up to 40 of a-z, 0-9 and _, not beginning with a digit or pg_")
        self.schema, self.scripts = schema, tuple(scripts)
        self._lock_timeout_s, self._locks_wait_s = lock_timeout_s, locks_wait_s
        digest = sha256(f"perdure migrations of {schema}".encode()).digest()
        self._lock = int.from_bytes(digest[:8], "big", signed=True)

    @property
    def number(self) -> int:
        """The schema that an engine with these scripts needs."""
        return len(self.scripts)

    async def state(self, connection: Any) -> SchemaState:
        """Reads what is there.

        Raises:
            StoreError: the role may not read the history, or the name of the schema is a word of SQL.
        """
        right = "SET" if connection.get_server_version().major >= 16 else "MEMBER"
        async with connection.transaction():  # so that a pooler gives both statements to one connection
            row = await connection.fetchrow(SQL.schema_state, self.schema, right)
            database, role, is_word, standby, exists, owner, may_use, has_history, may_read, *rest = row
            if is_word:
                raise StoreError(f"{self.schema} is a word of SQL and can't be the name of a schema for Perdure; use another one")
            if not (may_use and may_read):
                raise missing_grant(role, f"table {self.schema}.schema_history" if may_use else f"schema {self.schema}", "SELECT")
            history = [AppliedScript(*one) for one in await connection.fetch(in_schema(SQL.schema_history, self.schema))] if has_history else []
        names = ("is_experimental", "has_tables", "may_act_as_owner", "may_create", "may_create_schemas")
        return SchemaState(
            schema=self.schema,
            database=database,
            role=role,
            is_standby=standby,
            exists=exists,
            owner=owner,
            has_history=has_history,
            history=tuple(history),
            **dict(zip(names, rest, strict=True)),
        )

    def missing(self, state: SchemaState) -> tuple[Script, ...]:
        """Returns the scripts that are not applied yet."""
        return self.scripts[state.number :]

    def breaking(self, state: SchemaState) -> list[Script]:
        """Returns the missing scripts that do not work with engines of the present schema, which may be running."""
        return [script for script in self.missing(state) if state.number and script.works_from > state.number]

    def expect_known(self, state: SchemaState) -> None:
        """Checks that the schema is one that these scripts have made, or scripts of a newer Perdure that works with this one.

        Raises:
            StoreError: it is not.
        """
        if state.is_experimental:
            raise StoreError(
                f"{state.place} has tables of an experimental version of Perdure, which have no number and can't be upgraded. Copy what they hold with "
                f"`perdure db copy` of the version that made them, or drop them (DROP SCHEMA {self.schema} CASCADE), or choose another schema"
            )
        if state.has_tables:
            raise StoreError(f"{state.place} has tables of another program, and Perdure needs a schema of its own; choose another one")
        if state.oldest_engine > self.number:
            raise StoreError(
                f"{state.place} belongs to a newer Perdure: it has tables of version {state.number}, which need an engine that knows version "
                f"{state.oldest_engine}, and this one knows version {self.number}. Upgrade Perdure"
            )
        if changed := self.changed(state):
            raise StoreError(
                f"{state.place} was made by scripts that differ from those of this Perdure ({', '.join(changed)}), as a development version had them. "
                "Use that version, or choose another schema, or drop this one"
            )

    def changed(self, state: SchemaState) -> list[str]:
        """Returns the names of the applied scripts whose text is another one here, or that are missing in the history."""
        pairs = zip(state.history, self.scripts, strict=False)
        return [one.name for one, script in pairs if (one.number, one.sha256) != (script.number, script.sha256)]

    async def must_migrate(self, connection: Any, *, may_change: bool = True) -> bool:
        """Checks that an engine may use the schema; returns whether scripts that it needs are to be applied first, which its role may do.

        Raises:
            StoreError: the schema can't be used as it is; the message says what to do.
        """
        state = await self.state(connection)
        self.expect_known(state)
        if not self.missing(state):
            return False
        has = f"has tables of version {state.number}" if state.number else "has no tables of Perdure yet"
        needs = f"{state.place} {has}, and this Perdure needs version {self.number}"
        if state.is_standby:
            raise StoreError(f"{needs}; this server is a standby, which is read-only. Name the primary server")
        if not may_change:
            raise StoreError(f"{needs}; it was opened to be read only. Run perdure db migrate")
        if not state.may_migrate:
            raise StoreError(f"{needs}; the role {state.role} may not change it. Run perdure db migrate as {self.migrators(state)}")
        if breaking := self.breaking(state):
            raise StoreError(
                f"{needs}; {breaking[0].name} does not work with engines of version {state.number}, which may be running. "
                "End them, and run perdure db migrate --stopped"
            )
        return True

    async def prepare(self, connection: Any) -> None:
        """Does as `must_migrate`, and applies the scripts."""
        if await self.must_migrate(connection):
            await self.migrate(connection, _log.info)

    async def migrate(self, connection: Any, report: Callable[[str], None]) -> list[Script]:
        """Applies the scripts that are missing, and returns those that this call has applied. Others may migrate at the same time.

        Raises:
            StoreError: a script failed, and nothing of it was applied; or the role may not apply it.
            StoreUnavailable: others held a lock for too long.
        """
        done = list[Script]()
        while True:
            state = await self.state(connection)
            self.expect_known(state)
            if not (missing := self.missing(state)):
                return done
            if not state.may_migrate or state.is_standby:
                why = "this server is a standby" if state.is_standby else f"the role {state.role} may not change it; do it as {self.migrators(state)}"
                raise StoreError(f"{state.place} can't be migrated: {why}")
            began_s = time.monotonic()
            if await self._apply_when_free(connection, missing[0], report):
                done.append(missing[0])
                report(f"{missing[0].name} was applied in {time.monotonic() - began_s:.1f} s")

    def migrators(self, state: SchemaState) -> str:
        if state.exists:
            return f"its owner, the role {state.owner}"
        return f"a role that may create schemas (GRANT CREATE ON DATABASE {state.database})"

    async def _apply_when_free(self, connection: Any, script: Script, report: Callable[[str], None]) -> bool:
        """Applies a script as soon as no other process migrates and its locks are free; returns False if another process has applied it."""
        ends_s, pause_s, waits = time.monotonic() + self._locks_wait_s, PAUSE_S, False
        while True:
            try:
                applied = await (self._apply if script.in_transaction else self._apply_outside)(connection, script)
                why = "another process is migrating"
            except Exception as error:
                if getattr(error, "sqlstate", None) not in LOCK_CONFLICTS:
                    raise self._failure(script, error) from error
                applied, why = None, str(error)
            if applied is not None:
                return applied
            if not waits:
                waits = True
                report(f"{script.name} waits: {why}")
            if time.monotonic() > ends_s:
                raise StoreUnavailable(
                    f"{script.name} was not applied within {self._locks_wait_s:g} s: {why}{await self._long_transactions(connection)}. "
                    "Run perdure db migrate again"
                )
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    async def _apply(self, connection: Any, script: Script) -> bool | None:
        """Applies a script in a transaction. Returns None if another process migrates, and False if the script is not the next one any more."""
        async with connection.transaction(isolation="read_committed"):
            await connection.execute(self._settings(local=True))
            if not await connection.fetchval(SQL.try_lock_migrations, self._lock):
                return None
            state = await self.state(connection)
            if state.number != script.number - 1:
                return False
            await connection.execute(self._in_transaction(script, state), timeout=STATEMENT_S)
            return True

    async def _apply_outside(self, connection: Any, script: Script) -> bool | None:
        """The same for a script outside of a transaction. What an earlier run has done already is not done again."""
        async with self._held(connection) as is_held:
            if not is_held:
                return None
            state = await self.state(connection)
            if state.number != script.number - 1:
                return False
            if state.acts_as is not None:
                await connection.execute(f"SET ROLE {quoted(state.acts_as)}")
            for statement in script.statements:
                if (index := created_index(statement)) is not None:
                    is_valid = await connection.fetchval(SQL.is_index_valid, self.schema, index)
                    if is_valid:
                        continue
                    if is_valid is False:
                        await connection.execute(in_schema(SQL.drop_index.format(name=index), self.schema), timeout=STATEMENT_S)
                await connection.execute(in_schema(statement, self.schema), timeout=STATEMENT_S)
            async with connection.transaction():
                await connection.execute(in_schema(_end_of(script), self.schema))
            return True

    @asynccontextmanager
    async def _held(self, connection: Any) -> AsyncIterator[bool]:
        """Yields whether this session has the lock of migrations, with the settings of scripts, until the end of the block."""
        is_held = bool(await connection.fetchval(SQL.try_hold_migrations, self._lock))
        try:
            if is_held:
                await connection.execute(self._settings(local=False))
            yield is_held
        finally:
            if is_held and not connection.is_closed():  # With a connection, the server ends its locks and settings.
                await connection.execute(SQL.reset_migration_settings)
                await connection.fetchval(SQL.release_migrations, self._lock)

    def _settings(self, *, local: bool) -> str:
        """Returns the settings of scripts. An index that is made while others write takes no lock that others wait for, so it may wait itself."""
        return SQL.migration_settings.format(local=str(local).lower(), lock_timeout_s=self._lock_timeout_s if local else 0)

    def _in_transaction(self, script: Script, state: SchemaState) -> str:
        """Returns the statements of a script and its entry in the history. The first one creates what is missing of schema and history."""
        role = f"SET LOCAL ROLE {quoted(state.acts_as)};\n" if state.acts_as is not None else ""
        create_schema = "CREATE SCHEMA perdure;\n" if not state.exists and script.number == 1 else ""
        create_history = f"{SQL.create_history};\n" if script.number == 1 else ""
        return role + in_schema("".join((create_schema, create_history, script.text, "\n", _end_of(script))), self.schema)

    def script_for_hand(self, state: SchemaState) -> str:
        """Returns the SQL that `migrate` would run, for a person who runs it by hand. It leaves the same, and changes nothing when it is run again."""
        return "".join(self._by_hand(script, state) for script in self.missing(state))

    def _by_hand(self, script: Script, state: SchemaState) -> str:
        expected = in_schema(SQL.expect_schema.format(name=script.name, before=script.number - 1), self.schema)
        settings = self._settings(local=script.in_transaction)
        if script.in_transaction:
            lock = f"SELECT pg_advisory_xact_lock({self._lock})"
            return "\n".join(
                (f"-- {script.name}", "BEGIN;", f"{settings};", f"{lock};", f"{expected};", f"{self._in_transaction(script, state)};", "COMMIT;\n\n")
            )
        role = [f"SET ROLE {quoted(state.acts_as)};"] if state.acts_as is not None else []
        statements = list[str]()
        for statement in script.statements:
            if (index := created_index(statement)) is not None:  # one that is there is not complete, or not in the history: it is made again
                statements.append(f"{SQL.drop_index.format(name=index)};")
            statements.append(statement)
        within = [in_schema(one, self.schema) for one in (*statements, f"BEGIN;\n{_end_of(script)};\nCOMMIT;")]
        lock, unlock = f"SELECT pg_advisory_lock({self._lock});", f"SELECT pg_advisory_unlock({self._lock});"
        return "\n".join((f"-- {script.name}", f"{settings};", lock, f"{expected};", *role, *within, f"{SQL.reset_migration_settings};", f"{unlock}\n\n"))

    def _failure(self, script: Script, error: Exception) -> Exception:
        """Returns what to raise for an error of a script: errors of the server with what was applied, all others as they are."""
        if isinstance(error, StoreError) or getattr(error, "sqlstate", None) is None:
            return error
        applied = "nothing of it was applied" if script.in_transaction else "what it has done so far is not done again when it is repeated"
        return StoreError(f"{script.name} failed in the schema {self.schema}: {error}; {applied}. Correct the cause, and run perdure db migrate again")

    async def _long_transactions(self, connection: Any) -> str:
        """Returns who may hold a lock, as the end of a message."""
        rows = await connection.fetch(SQL.long_transactions)
        said = [f"process {pid} of the role {role}{f' ({program})' if program else ''} for {age_s:.0f} s" for pid, role, program, age_s in rows]
        return f". Open transactions: {', '.join(said)}" if said else ""


def _end_of(script: Script) -> str:
    return SQL.end_script.format(number=script.number, name=script.name, sha256=script.sha256, works_from=script.works_from, version=perdure_version())


def perdure_version() -> str:
    """The version of this Perdure."""
    try:
        return version("perdure")
    except PackageNotFoundError:
        return "not installed"


async def prepare(connection: Any, schema: str, direct: Callable[[], AbstractAsyncContextManager[Any]] | None) -> None:
    """Makes sure that an engine may use a schema. Scripts that are missing are applied on a connection of `direct`; with None, nothing may be changed.

    Raises:
        StoreError: the schema can't be used as it is; the message says what to do.
    """
    migrations = SchemaMigrations(schema)
    if await migrations.must_migrate(connection, may_change=direct is not None) and direct is not None:
        async with direct() as opened:
            await migrations.migrate(opened.raw, _log.info)
