"""The change feed in Postgres: begins and ends it, gives positions to what has changed and to what was there before, and reads entries as items.

Triggers record what changes (`migrations/0002_feed_triggers.sql`), by any writer, without a position. The reader gives positions: in one transaction, which
sees the database as it was at one moment, it takes what was committed and is not in the feed yet, in the order of the changes, and reads its page. So no
position can appear below one that a reader has passed, however long a transaction of a user takes, and no writer waits for another one or for the reader.

What has changed after its entry got its position is left out of the page: its later entry comes behind the entries of what it depends on. What was there
when the feed began gets its entries from a scan, before any change does: a bounded piece in each page.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.core.paths import Key
from perdure.stores.change_feed import (
    PAGE_BYTES_MAX,
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    RemovedRecord,
    Shipped,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRecord,
    ShippedRow,
    no_feed_error,
)
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.record_rows import record_of
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes, address_of, head_of, message_of, unescape_nul
from perdure.stores.protocol import LogRow, QueueLimits
from perdure.stores.records import RecordKey

FIRST_NAMES = {"blobs": "", "removed_blobs": "", "heads": "", "mail": "", "records": '["","",""]'}
"""The tables that are scanned, in this order: blobs before what names them, executions before their messages; and the name before the first one."""


class _Entry(NamedTuple):
    """An entry of the feed. `changed` says that a later one of the same thing is to come."""

    position: int
    kind: str
    name: bytes
    key: bytes
    version: int
    changed: bool
    size_bytes: int


async def begin_feed(fetch: Fetch) -> None:
    """Enables the triggers, and begins the scan. It does nothing if there is a feed. No other transaction may be running."""
    await fetch(SQL.lock_feed)
    if await _scanned(fetch) is not None:
        return
    await fetch(SQL.switch_feed_triggers, True)
    for table, first in FIRST_NAMES.items():
        await fetch(SQL.begin_scan, table, first)
    await fetch(SQL.add_limits_entries)


async def end_feed(fetch: Fetch) -> None:
    """Disables the triggers and removes the entries. The next feed continues with higher positions. No other transaction may be running."""
    await fetch(SQL.lock_feed)
    if await _scanned(fetch) is None:
        return
    await fetch(SQL.switch_feed_triggers, False)
    for empty in (SQL.end_scans, SQL.empty_feed, SQL.empty_feed_changes):
        await fetch(empty)


async def _scanned(fetch: Fetch) -> bool | None:
    """Whether everything that was there when the feed began has its entry; None if there is no feed."""
    ((done,),) = await fetch(SQL.is_scanned)
    return None if done is None else bool(done)


async def give_positions(fetch: Fetch, limit: int) -> list[int]:
    """Gives up to `limit` things, or at least one execution with its log, their entries: what was there before the feed, and only then what has changed.

    Returns the numbers of the changes that have a position now.

    Raises:
        StoreError: there is no feed.
    """
    scanned = await _scanned(fetch)
    if scanned is None:
        raise no_feed_error()
    if not scanned:
        await _scan(fetch, limit)
        if not await _scanned(fetch):
            return []
    return [row[0] for row in await fetch(SQL.place_changes, limit)]


async def _scan(fetch: Fetch, limit: int) -> None:
    for table in FIRST_NAMES:
        for name, number in await fetch(SQL.scan_position, table):
            last = await _scan_table(fetch, table, name, number, limit)
            await fetch(SQL.set_scan_position, *(last or (name, number)), last is None, table)
            return


async def _scan_table(fetch: Fetch, table: str, name: str, number: int, limit: int) -> tuple[str, int] | None:
    """Gives the next things of a table their entries; returns the name or number of the last one, None if there are no more."""
    match table:
        case "blobs" | "removed_blobs":
            find, add = (SQL.last_scanned_blob, SQL.scan_blobs) if table == "blobs" else (SQL.last_scanned_removed_blob, SQL.scan_removed_blobs)
            ((last,),) = await fetch(find, name, limit)
            if last is not None:
                await fetch(add, name, limit)
                return last, 0
        case "heads":
            if found := await fetch(SQL.next_heads, number, limit):
                last, entries = number, 0
                for head, rows in found:
                    if entries < limit:
                        last, entries = head, entries + rows + 2
                await fetch(SQL.scan_heads, number, last)
                return "", last
        case "mail":
            ((last,),) = await fetch(SQL.last_scanned_message, number, limit)
            if last is not None:
                await fetch(SQL.scan_messages, number, last)
                return "", last
        case _:
            after = msgspec.json.decode(name, type=tuple[str, str, str])
            if found := await fetch(SQL.next_records, *after, limit):
                await fetch(SQL.scan_records, *after, limit)
                return msgspec.json.encode(tuple(found[-1])).decode(), 0
    return None


async def read_page(fetch: Fetch, after: int, limit: int) -> Shipped:
    """Reads the items behind the position `after`. All that is read must be read in one transaction, which sees the database as it was at one moment."""
    entries = [_Entry(*row) for row in await fetch(SQL.feed_entries, after, limit + 1)]
    page, size_bytes = list[_Entry](), 0
    for entry in entries[:limit]:
        if size_bytes >= PAGE_BYTES_MAX:
            break
        page.append(entry)
        size_bytes += entry.size_bytes
    more = len(page) < len(entries) or not await _scanned(fetch)
    return Shipped(page[-1].position if page else after, tuple(await _items(fetch, [one for one in page if not one.changed])), more)


async def _items(fetch: Fetch, entries: Sequence[_Entry]) -> list[ShippedItem]:
    """Reads what entries name, in their order. A removed row or head has an entry of its own."""
    items: dict[int, ShippedItem] = {}
    kinds: dict[str, list[_Entry]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry)
    for kind, these in kinds.items():
        items |= dict(zip([one.position for one in these], await _items_of_kind(fetch, kind, these), strict=True))
    return [items[one.position] for one in entries if items[one.position] is not None]


async def _items_of_kind(fetch: Fetch, kind: str, entries: Sequence[_Entry]) -> list[Any]:
    """Reads what entries of one kind name; None for a row or a head that is gone."""
    match kind:
        case "blob":
            names = [unescape_nul(one.name.decode()) for one in entries]
            blobs = {row[0]: (row[1], row[2]) for row in await fetch(SQL.shipped_blobs, [one.name.decode() for one in entries])}
            return [RemovedBlob(name, blobs[name][1]) if blobs[name][0] is None else ShippedBlob(name, blobs[name][0]) for name in names]
        case "row":
            numbers = [(int(one.name), one.version) for one in entries]
            rows = {(row[0], row[1]): row for row in await fetch(SQL.shipped_rows, *map(list, zip(*numbers, strict=True)))}
            return [ShippedRow(_key_of(row[2]), LogRow(row[1], row[3])) if (row := rows.get(one)) is not None else None for one in numbers]
        case "head":
            heads = {row[16]: ShippedHead(head_of(row), row[17]) for row in await fetch(SQL.shipped_heads, [int(one.name) for one in entries])}
            return [heads.get(int(one.name)) for one in entries]
        case "removed":
            return [RemovedExecution(_key_of(one.name)) for one in entries]
        case "message":
            found = map(message_of, await fetch(SQL.shipped_messages, [one.name for one in entries], [one.key for one in entries]))
            messages = {(address_bytes(one.to), one.key.encode()): ShippedMessage(one) for one in found}
            return [messages.get((one.name, one.key)) or RemovedMessage(address_of(one.name), one.key.decode()) for one in entries]
        case "record":
            return [await _record(fetch, RecordKey(*map(unescape_nul, msgspec.json.decode(one.name)))) for one in entries]
        case _:
            given = [[one.name.decode() for one in entries], [one.key.decode() for one in entries]]
            limits = {(row[0], row[1]): QueueLimits(*tuple(row)[2:]) for row in await fetch(SQL.shipped_limits, *given)}
            whose = [(unescape_nul(one.name.decode()), unescape_nul(one.key.decode())) for one in entries]
            return [ShippedLimits(queue, limits.get((queue, tenant)), tenant or None) for queue, tenant in whose]


async def _record(fetch: Fetch, key: RecordKey) -> ShippedRecord | RemovedRecord:
    found = await fetch(SQL.shipped_record, *key)
    return ShippedRecord(record_of(found[0])) if found else RemovedRecord(key)


def _key_of(address: bytes) -> Key:
    key = address_of(address)
    assert isinstance(key, Key), "only executions have logs"
    return key
