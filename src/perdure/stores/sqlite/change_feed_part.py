"""The part `CHANGE_FEED` of the SQLite store."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from perdure.stores.change_feed import SHIPPED_MAX, Shipped, ShippedItem
from perdure.stores.sqlite import feed_reader
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.move_mark_part import set_restoring
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_tables import SqliteTables


class SqliteChangeFeed:
    """A `ChangeFeed` in SQLite, which reads and writes through the functions of its store."""

    def __init__(self, read: Callable[..., Awaitable[Any]], write: Callable[..., Awaitable[Any]]) -> None:
        self._read, self._write = read, write

    async def begin_feed(self) -> None:
        """See `ChangeFeed.begin_feed`."""
        await self._written(feed_reader.begin_feed)

    async def end_feed(self) -> None:
        """See `ChangeFeed.end_feed`. It removes all entries in one transaction; trim the feed before if it is long."""
        await self._written(feed_reader.end_feed)

    async def shipped(self, after: int, limit: int = SHIPPED_MAX) -> Shipped:
        """See `ChangeFeed.shipped`. It writes until all that was there when the feed began has its entry, and only reads from then on."""
        if not await self._read(feed_reader.is_scanned):
            await self._written(lambda execute: feed_reader.scan(execute, limit))
        page: Shipped = await self._read(lambda execute: feed_reader.read_page(execute, after, limit))
        return page

    async def trim_feed(self, until: int) -> None:
        """See `ChangeFeed.trim_feed`."""
        await self._written(lambda execute: execute(SQL.trim_feed, (until,)))

    async def restore(self, items: Sequence[ShippedItem]) -> None:
        """See `ChangeFeed.restore`."""
        asked = tuple(items)

        def write(tables: SqliteTables) -> None:
            tables.feed(lambda execute: set_restoring(execute, True))
            tables.restore(asked)
            tables.feed(lambda execute: set_restoring(execute, False))

        await self._write(write)

    async def _written(self, do: Callable[[Execute], object]) -> None:
        def write(tables: SqliteTables) -> None:
            tables.feed(do)

        await self._write(write)
