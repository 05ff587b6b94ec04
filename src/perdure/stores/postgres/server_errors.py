"""What the errors of Postgres, of asyncpg and of the network mean for a store, and what to do about each.

`NEXT_STEPS` lists them by SQLSTATE or by its class, its first two characters. What may pass by itself, or is for the administrator of the server to change,
is `StoreUnavailable`, so processes go on asking. A statement that Postgres does not accept for another reason is `StoreError`, since it would fail again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from ssl import SSLError
from typing import Any, TypeVar

from perdure.core.errors import BadValue, MissingExtra, StoreDamaged, StoreError, StoreMoved, StoreUnavailable
from perdure.stores.postgres.grants import missing_grant_of

T = TypeVar("T")

CONFLICTS = frozenset(("40001", "40P01"))
"""The SQLSTATEs of errors that another transaction caused. The same transaction may succeed when it is repeated."""

REPEATS_MAX, REPEAT_WAIT_S = 5, 0.01
"""How often a transaction is repeated after a conflict, and how long it waits before; each time twice as long."""

RUNS = "check that it runs and that the store's URL is right"
NEXT_STEPS = {
    "08": RUNS,
    "08P01": "a pooler or proxy in between refuses this; leave options= out of the URL, or list it under ignore_startup_parameters of PgBouncer",
    "0A000": "the tables were changed meanwhile; the next call works again",
    "22": "",
    "23": "",
    "25006": "this server can't be written: it is a standby, or default_transaction_read_only is set; name the primary server, or several with commas",
    "25P03": "the process was stopped or blocked for too long in a transaction; Postgres has rolled it back, and the call can be repeated",
    "26000": "a pooler in transaction mode is in between; add perdure_pooler=transaction to the URL",
    "42P05": "a pooler in transaction mode is in between; add perdure_pooler=transaction to the URL",
    "28": "check the user and the password: in the URL, PGPASSWORD, the file PGPASSFILE, or password= of the store; pg_hba.conf of the server decides",
    "3D000": "check that it runs and that the store's URL is right; createdb makes a database",
    "3F000": "the schema is not there; perdure db migrate makes it",
    "40": "another transaction was in the way; it can be repeated",
    "42": "",
    "42883": "a function is not there; perdure db migrate makes it",
    "42P01": "a table is not there; perdure db migrate makes it",
    "53": "the server is short of memory or of another resource; look into its log",
    "53100": "the server's disk is full; free some space there. Nothing that was acknowledged is lost",
    "53300": "the server has no connection left; raise its max_connections, lower perdure_connections, or put a pooler in between",
    "55P03": "another transaction holds a lock for long; look for it in pg_stat_activity",
    "57014": "the statement took longer than perdure_statement_timeout, or an administrator has cancelled it; look for locks in pg_stat_activity",
    "57": f"the server is being shut down, started or restarted; {RUNS}",
    "57P04": "the database was dropped; name another one",
    "58": "the server can't read or write its files; look into its log and at its disk",
    "XX": "the server has failed; look into its log",
    "": RUNS,
}
"""What to do about an error; empty for one that comes from a statement of Perdure."""

CONNECTION_CLASSES = frozenset(("08", "57", "58", "XX"))
"""The classes of SQLSTATEs after which a connection is not used again."""

MOVED_SQLSTATE = "PRD01"
"""The SQLSTATE of a change that is refused because the store is being moved, or was moved (move_mark.sql)."""

DAMAGED = frozenset(("XX001", "XX002"))


def driver() -> Any:
    """Returns the module asyncpg.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return import_module("asyncpg")
    except ImportError:
        raise MissingExtra("the store for Postgres", "asyncpg", "postgres") from None


def driver_errors() -> tuple[type[Exception], ...]:
    """Returns the errors of asyncpg and of the network. (asyncpg raises InternalClientError when the server has closed the connection in between.)"""
    asyncpg = driver()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, EOFError)


@contextmanager
def translated_errors(role: Callable[[], str] = lambda: "of the store") -> Iterator[None]:
    """Raises the errors of asyncpg and of the network as store errors that say what to do. The error itself is their cause, and `role` gives whose it is."""
    try:
        yield
    except driver_errors() as error:
        raise translated_error(error, role()) from error


def translated_error(error: Exception, role: str) -> StoreError | BadValue:
    """Returns the store error for an error of asyncpg or of the network that a connection of this role has raised."""
    return missing_grant_of(error, role) or store_error(error)


def store_error(error: Exception) -> StoreError | BadValue:
    """Returns the store error for an error of asyncpg or of the network."""
    asyncpg, state = driver(), sqlstate(error)
    if isinstance(error, asyncpg.ClientConfigurationError):
        return BadValue("database URL", "***", "", f"database URL: {error}")
    said = str(error).split("\n", 1)[0] or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
    if state == MOVED_SQLSTATE:
        return StoreMoved(said)
    if state in DAMAGED:
        return StoreDamaged(f"Postgres: {said}; the database is damaged. Restore it from a backup, or repair it (REINDEX, if it is an index)")
    if isinstance(error, SSLError):
        return StoreUnavailable(f"Postgres: {said}; check sslmode, sslrootcert, sslcert and sslkey, and the certificate of the server")
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StoreUnavailable("Postgres: no server of the URL fits target_session_attrs; check that one of them is a primary server")
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
        return StoreError(f"Postgres can't store a value: {said}")
    step = NEXT_STEPS.get(state) or NEXT_STEPS.get(state[:2])
    if step is None:
        step = RUNS
    if not step:
        return StoreError(f"Postgres refused a statement: {said} (SQLSTATE {state}). Check that the tables are those of this Perdure, with perdure db check")
    return StoreUnavailable(f"Postgres: {said}; {step}")


def sqlstate(error: BaseException | None) -> str:
    """Returns the SQLSTATE of an error of Postgres; empty for other errors."""
    return getattr(error, "sqlstate", None) or ""


def leaves_unknown_state(error: Exception) -> bool:
    """Whether the connection on which an error has come must not be used again, nor others that lead to the same server."""
    if isinstance(error, driver_errors()):
        state = sqlstate(error)
        return not state or state[:2] in CONNECTION_CLASSES or state in ("25006", "0A000")
    return False


def is_conflict(error: BaseException) -> bool:
    """Whether an error, as the store raises it, is a deadlock or a failed serialization, so that the same transaction may succeed when it is repeated."""
    return sqlstate(error) in CONFLICTS or sqlstate(error.__cause__) in CONFLICTS


def was_rolled_back(error: BaseException) -> bool:
    """Whether an error, as the store raises it, is the server's answer to a statement, which it has then not carried out. The end of a connection is none."""
    state = sqlstate(error.__cause__)
    return bool(state) and not state.startswith(("08", "57P"))


async def repeat_conflicts(call: Callable[[], Awaitable[T]]) -> T:
    """Calls what runs one transaction, again if that had a conflict with another one, up to `REPEATS_MAX` times.

    Raises:
        StoreError: it failed for another reason, or as often as that.
    """
    for repeat in range(REPEATS_MAX):
        try:
            return await call()
        except StoreUnavailable as error:
            if not is_conflict(error):
                raise
        await asyncio.sleep(REPEAT_WAIT_S * 2**repeat)
    return await call()
