"""The part `CHANGE_FEED` of the Postgres store."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from perdure.stores.change_feed import SHIPPED_MAX, Shipped, ShippedItem
from perdure.stores.postgres import feed_reader
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_tables import PostgresTables


class _Transaction(Protocol):
    def __call__(self, *, alone: bool = False) -> AbstractAsyncContextManager[PostgresTables]: ...


class PostgresChangeFeed:
    """A `ChangeFeed` in the transactions of a store."""

    def __init__(self, transaction: _Transaction, snapshot: Callable[[str], AbstractAsyncContextManager[Fetch]]) -> None:
        self._transaction, self._snapshot = transaction, snapshot

    async def begin_feed(self) -> None:
        """See `ChangeFeed.begin_feed`. It waits for all transactions that have begun, those of users included, since what they do is not recorded."""
        async with self._transaction(alone=True) as here:
            await feed_reader.begin_feed(here.fetch)

    async def end_feed(self) -> None:
        """See `ChangeFeed.end_feed`. It removes all entries in one transaction; trim the feed before if it is long."""
        async with self._transaction(alone=True) as here:
            await feed_reader.end_feed(here.fetch)

    async def shipped(self, after: int, limit: int = SHIPPED_MAX) -> Shipped:
        """See `ChangeFeed.shipped`. It waits for no transaction but that of another reader: what is not committed gets its position later."""
        async with self._snapshot(SQL.lock_feed) as fetch:
            placed = await feed_reader.give_positions(fetch, limit)
            page = await feed_reader.read_page(fetch, after, limit)
        async with self._transaction() as here:
            await here.fetch(SQL.forget_placed_changes, placed, limit)
        if len(placed) >= limit and not page.more:  # there may be changes without a position
            return Shipped(page.position, page.items, True)
        return page

    async def trim_feed(self, until: int) -> None:
        """See `ChangeFeed.trim_feed`."""
        async with self._snapshot(SQL.lock_feed) as fetch:
            await fetch(SQL.trim_feed, until)

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`. It runs alone."""
        async with self._transaction(alone=True) as here:
            await here.fetch(SQL.allow_restoring)
            await here.restore(items)
