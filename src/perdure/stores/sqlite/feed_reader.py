"""The change feed in SQLite: begins and ends it, gives entries to what was there before, and reads entries as items.

Triggers write the feed (`triggers.sql`), so everything that changes a table is recorded, by any writer: an engine, a user's transaction, a rekey. What was
there when the feed began gets its entries from a scan that goes on in each `shipped`, a bounded piece at a time; what the scan has not reached is
not recorded, since it will be read as it is then.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec

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
from perdure.stores.protocol import LogRow, QueueLimits
from perdure.stores.records import RecordKey
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.record_rows import read_stored_record
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import address_of, head_of, key_of, message_of, read_blob, read_removed_at

TABLES = ("blobs", "removed_blobs", "heads", "mail", "records")
"""The tables that are scanned, in this order: blobs before what names them, executions before their messages."""


@cache
def trigger_statements() -> dict[str, str]:
    """The statements that create the triggers, by the names of the triggers."""
    script = files("perdure.stores.sqlite").joinpath("triggers.sql").read_text(encoding="utf-8")
    statements = ("\n".join(line for line in part.splitlines() if not line.startswith("--")).strip() for part in script.split("\n\n"))
    return {statement.split()[2]: statement for statement in statements if statement}


def begin_feed(execute: Execute) -> None:
    """Creates the triggers, and begins the scan. It does nothing if there is a feed."""
    if execute(SQL.is_scanned).fetchone() != (None,):
        return
    for statement in trigger_statements().values():
        execute(statement)
    for table in TABLES:
        execute(SQL.begin_scan, (table,))
    execute(SQL.add_limits_entries)


def end_feed(execute: Execute) -> None:
    """Removes the triggers and the entries. The next feed continues with higher positions, since the table keeps its last one."""
    for name in trigger_statements():
        execute(f"DROP TRIGGER IF EXISTS {name}")
    execute(SQL.end_scans)
    execute(SQL.empty_feed)


def is_scanned(execute: Execute) -> bool:
    """Whether everything that was there when the feed began has its entry.

    Raises:
        StoreError: there is no feed.
    """
    (done,) = execute(SQL.is_scanned).fetchone()
    if done is None:
        raise no_feed_error()
    return bool(done)


def scan(execute: Execute, limit: int) -> None:
    """Gives entries to the next things that were there before the feed: at least one execution with its log, or up to `limit` others."""
    for table in TABLES:
        if (found := execute(SQL.scan_position, (table,)).fetchone()) is not None:
            _, name, number = found
            seen = [*_scan_table(execute, table, (name, number), limit)]
            last = seen[-1] if seen else (name, number)
            execute(SQL.set_scan_position, (*last, int(not seen), table))
            return


def _scan_table(execute: Execute, table: str, after: tuple[str, int], limit: int) -> Iterator[tuple[str, int]]:
    """Yields the name or number of each thing that got its entry."""
    name, last = after
    if table in ("blobs", "removed_blobs"):
        for (sha256,) in execute(SQL.scan_blobs if table == "blobs" else SQL.scan_removed_blobs, (name, limit)).fetchall():
            execute(SQL.add_blob_entry, (sha256,))
            yield sha256, 0
    elif table == "mail":
        for number, address, key in execute(SQL.scan_messages, (last, limit)).fetchall():
            execute(SQL.add_message_entry, (address, key))
            yield "", number
    elif table == "records":
        for number, key in execute(SQL.scan_records, (last, limit)).fetchall():
            execute(SQL.add_record_entry, (key,))
            yield "", number
    else:
        entries = 0
        for number, address in execute(SQL.scan_heads, (last, limit)).fetchall():
            if entries >= limit:
                break
            execute(SQL.add_removed_entry, (address,))
            entries += 2 + execute(SQL.add_row_entries, (number,)).rowcount
            execute(SQL.add_head_entry, (number,))
            yield "", number


def read_page(execute: Execute, after: int, limit: int) -> Shipped:
    """Reads the items behind the position `after`. All that is read must be read in one transaction."""
    items: list[ShippedItem] = []
    position, size_bytes, more = after, 0, not is_scanned(execute)
    for number, (at, kind, *name) in enumerate(execute(SQL.feed_entries, (after, limit + 1)).fetchall()):
        if number >= limit or size_bytes >= PAGE_BYTES_MAX:
            more = True
            break
        position = at
        if (item := _item_of(execute, kind, *name)) is not None:
            items.append(item)
            size_bytes += _size_bytes(item)
    return Shipped(position, tuple(items), more)


def _item_of(execute: Execute, kind: str, name: str, key: str, version: int) -> ShippedItem | None:
    match kind:
        case "blob":
            payload = read_blob(execute, name)
            return RemovedBlob(name, read_removed_at(execute, name)) if payload is None else ShippedBlob(name, payload)
        case "row":
            found = execute(SQL.shipped_row, (int(name), version)).fetchone()
            return None if found is None else ShippedRow(key_of(found[0]), LogRow(version, found[1]))
        case "head":
            found = execute(SQL.shipped_head, (int(name),)).fetchone()
            return None if found is None else ShippedHead(head_of(found[1:]), found[0])
        case "removed":
            return RemovedExecution(key_of(name))
        case "message":
            found = execute(SQL.read_message, (name, key)).fetchone()
            return RemovedMessage(address_of(name), key) if found is None else ShippedMessage(message_of(found))
        case "record":
            identity = RecordKey(*msgspec.json.decode(name))
            record = read_stored_record(execute, identity)
            return RemovedRecord(identity) if record is None else ShippedRecord(record)
        case _:
            found = execute(SQL.shipped_limits, (name, key)).fetchone()
            return ShippedLimits(name, None if found is None else QueueLimits(*found), key or None)


def _size_bytes(item: ShippedItem) -> int:
    match item:
        case ShippedRow():
            return len(item.row.payload)
        case ShippedMessage():
            return len(item.message.body)
        case ShippedBlob():
            return len(item.payload)
        case ShippedRecord():
            return len(item.record.value)
        case _:
            return 0
