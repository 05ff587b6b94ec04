"""The part `MONTH_REMOVAL` of the Postgres store: drops the tables of months in which nothing is left.

A month is closed first, in a transaction that waits for those who are creating executions: it is taken out of the list, from which moment nothing can be
added to it. Only then are its tables detached, while others work, and dropped. If that is interrupted, the next call finds the tables, since they are not in
the list.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from perdure.core.errors import StoreError
from perdure.stores.month_removal import StoredMonth
from perdure.stores.postgres.connections import Fetch, PostgresConnections
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_tables import PostgresTables

LOGS_BATCH, BLOBS_BATCH = 500, 20
"""How many logs and how many blobs one statement moves."""


class _Month(NamedTuple):
    """A month in the list: from `begins_s` to `ends_s` of the store's time."""

    number: int
    name: str
    begins_s: float
    ends_s: float
    size_bytes: int


class PostgresMonthRemoval:
    """A `MonthRemoval` on the connections of a store."""

    def __init__(self, connections: PostgresConnections, transaction: Callable[[], AbstractAsyncContextManager[PostgresTables]]) -> None:
        self._connections, self._transaction = connections, transaction

    async def remove_months(self, before_s: float) -> list[StoredMonth]:
        """See `MonthRemoval.remove_months`."""
        async with self._connections.connected() as connection:
            ((is_owner, role, owner),) = await connection.fetch(SQL.owner_of_tables)
            if not is_owner:
                raise StoreError(f"the role {role} may not remove the tables of old months; do it as their owner, the role {owner}")
            found = [await self._remove(connection.fetch, _Month(*row)) for row in await connection.fetch(SQL.months, before_s)]
        async with self._connections.direct_connection() as direct:
            await _drop_closed(direct)
        return found

    async def _remove(self, fetch: Fetch, month: _Month) -> StoredMonth:
        """Closes a month if nothing is left in it."""
        its = (month.number, month.begins_s, month.ends_s)
        after: tuple[Any, ...] | None = (month.begins_s, 0)
        while after is not None:
            after = next(iter(await fetch(SQL.move_kept_logs, *its, *after, LOGS_BATCH)), None)
        ((executions, living),) = await fetch(SQL.left_in_month, *its)
        stays = StoredMonth(month.name.replace("_", "-"), month.size_bytes, executions, living)
        if executions:
            return stays
        while (await self._moved_blobs(month)) > 0:
            pass
        async with self._transaction() as here:
            await here.fetch(SQL.lock_creations)
            ((executions, living),) = await here.fetch(SQL.left_in_month, *its)
            if executions:
                return StoredMonth(stays.month, stays.size_bytes, executions, living)
            await here.fetch(SQL.move_blobs, month.number, None, here.moment.now_s)  # what a restore has added since
            await here.fetch(SQL.close_month, month.number)
        return StoredMonth(stays.month, stays.size_bytes, removed=True)

    async def _moved_blobs(self, month: _Month) -> int:
        async with self._transaction() as here:
            await here.fetch(SQL.ensure_month, here.moment.now_s)
            ((count,),) = await here.fetch(SQL.move_blobs, month.number, BLOBS_BATCH, here.moment.now_s)
            return int(count)


async def _drop_closed(connection: Any) -> None:
    for table, parent, is_pending in await connection.fetch(SQL.closed_tables):
        if parent is not None:
            await connection.execute(SQL.detach_table.format(parent=parent, table=table, how="FINALIZE" if is_pending else "CONCURRENTLY"))
        await connection.execute(SQL.drop_table.format(table=table))
