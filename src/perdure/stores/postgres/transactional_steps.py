"""Transactional steps in Postgres: the statements of a step and the message that settles it are one commit.

Each transaction runs on a connection of its own with the settings that users expect. An attempt holds a lock of its own until its transaction has ended,
however it ends. A later run of the same attempt, when the result of a commit is unknown, therefore waits until it is known, and finds the answer if there is
one. The transaction locks the head of its execution so that others can't claim it and still can send to it.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from perdure.core.errors import StoreUnavailable, WrongVerb
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes
from perdure.stores.postgres.store_tables import begin_transaction
from perdure.stores.postgres.user_transaction_store import ABORTED_SQLSTATE, fetch_in_schema, fetch_with_asyncpg
from perdure.stores.protocol import ChangeAnswer, Post, Superseded, TransactionGuard, TransactionRaised, TransactionRefused

ATTEMPT_LOCK = 0x50657265 << 32
"""The first of the advisory locks of attempts."""

PERDURE_TABLES = (
    *("meta", "heads", "attributes", "programs", "months", "mail", "holders", "blob_marks", "removed_blobs", "queues", "lanes", "tenant_turns", "vault"),
    *("records", "record_attributes", "feed", "feed_changes", "feed_scans", "restored_rows", "schema_history"),
)
STATE_BEFORE, STATE_AFTER = (sql.format(perdure_tables=PERDURE_TABLES) for sql in (SQL.state_before_step, SQL.state_after_step))

CONFLICTS = frozenset(("40001", "40P01"))
"""The SQLSTATEs of errors that another transaction caused."""

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|;)*(\w*)", re.DOTALL)
TRANSACTION_ENDING_WORDS = frozenset(("abort", "begin", "commit", "end", "prepare", "release", "rollback", "savepoint", "start"))
_COUNT = re.compile(r"(\d+)$")

StepWork = Callable[[Any], Coroutine[Any, Any, Post]]


class PostgresTransaction:
    """The transaction that a user's step gets. See `perdure.Transaction`."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def execute(self, sql: str, *arguments: Any) -> int:
        """Runs a statement; returns how many rows it changed, -1 if the statement reports no number."""
        statement = await self.connection.prepare(_checked_statement(sql), name="")  # a pooler in transaction mode needs it unnamed
        await statement.fetch(*arguments)
        found = _COUNT.search(statement.get_statusmsg())
        return int(found[1]) if found else -1

    async def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs a statement for each of `rows`."""
        await self.connection.executemany(_checked_statement(sql), rows)

    async def fetch(self, sql: str, *arguments: Any) -> list[Any]:
        """Returns the rows of a query."""
        return [*await self.connection.fetch(_checked_statement(sql), *arguments)]

    async def fetchrow(self, sql: str, *arguments: Any) -> Any:
        """Returns the first row, or None."""
        return await self.connection.fetchrow(_checked_statement(sql), *arguments)

    async def fetchval(self, sql: str, *arguments: Any) -> Any:
        """Returns the first column of the first row, or None."""
        return await self.connection.fetchval(_checked_statement(sql), *arguments)


def _checked_statement(sql: str) -> str:
    """Returns a statement after checking that it does not end the transaction. (The protocol used here accepts one statement at a time.)"""
    found = _FIRST_WORD.match(sql)
    if found is not None and found[1].lower() in TRANSACTION_ENDING_WORDS:
        raise WrongVerb(
            f"a step with transaction=True ran {found[1].upper()}", "leave that to Perdure: an error that leaves the step rolls back, its return commits"
        )
    return sql


async def run_transactional_step(
    connection: Any, guard: TransactionGuard, work: StepWork, clock: Callable[[], float] | None, schema: str
) -> ChangeAnswer | TransactionRaised | TransactionRefused:
    """Runs the user's code in an open transaction, and carries out the post that it returns. Unless the answer is `Committed`, the caller rolls back.

    Raises:
        StoreUnavailable: the connection is gone, or Postgres has aborted the transaction because of another one. It may be repeated.
    """
    fetch = fetch_in_schema(fetch_with_asyncpg(connection), schema)
    state = await _check_guard(fetch, guard)
    if not isinstance(state, tuple):
        return state
    try:
        post = await work(PostgresTransaction(connection))
        await _must_be_whole(connection, fetch, *state)
    except BaseException as error:  # anything that the user's code raises, except the cancellation of this task
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        if connection.is_closed() or getattr(error, "sqlstate", None) in CONFLICTS:
            raise StoreUnavailable(
                f"Postgres has aborted the transaction of a step: {str(error) or type(error).__name__}. Perdure runs the step again"
            ) from error
        return TransactionRaised(error)
    tables = await begin_transaction(fetch, clock and clock())
    (answer,) = await tables.change([msgspec.structs.replace(post, epoch=guard.epoch)])
    for channel in tables.channels_to_notify:
        await fetch(SQL.notify, channel, "")
    return answer


async def _check_guard(fetch: Fetch, guard: TransactionGuard) -> tuple[str, int] | TransactionRefused | Superseded:
    """Returns the number of the transaction and the count of changed rows before it, if the guard holds; otherwise why it does not."""
    execution, answer = address_bytes(guard.key), guard.answer.encode()
    await fetch(SQL.lock_attempt, ATTEMPT_LOCK | crc32(execution + answer))
    ((epoch, *state),) = await fetch(STATE_BEFORE)
    if epoch != guard.epoch:
        return Superseded(epoch)
    leased = guard.work and (address_bytes(guard.work.to), guard.work.key.encode(), guard.holder)
    held = await (fetch(SQL.holds_task, *leased) if leased else fetch(SQL.holds_execution, execution, guard.holder))
    answered = bool(await fetch(SQL.is_answered, execution, answer))  # checked last: while the row is locked, no other process can answer
    return (state[0], state[1]) if held and not answered else TransactionRefused(answered=answered)


async def _must_be_whole(connection: Any, fetch: Fetch, number: str, changed_before: int) -> None:
    """Checks that the transaction is still the one that was begun, can be committed, and has not changed Perdure's tables.

    Raises:
        WrongVerb: one of these does not hold.
    """
    try:
        await fetch(SQL.check_constraints)
        ((now, changed),) = await fetch(STATE_AFTER)
    except Exception as error:
        if getattr(error, "sqlstate", None) == ABORTED_SQLSTATE:
            wrong = "a step with transaction=True continued after a database error that had aborted its transaction"
            raise WrongVerb(
                wrong, "let the error leave the step, or run the statement within `async with tx.connection.transaction():`, a savepoint"
            ) from error
        raise
    if now != number or not connection.is_in_transaction():
        raise WrongVerb(
            "a step with transaction=True ended its transaction itself", "leave that to Perdure: an error that leaves the step rolls back, its return commits"
        )
    if changed != changed_before:
        raise WrongVerb("a step with transaction=True has changed Perdure's own tables", "only read them there, and use a client for changes")
