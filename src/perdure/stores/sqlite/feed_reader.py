"""The change feed in SQLite: begins and ends it, gives entries to what was there before, and reads entries as items.

Triggers write the feed (`triggers.sql`), so everything that changes a table is recorded, whoever does it: an engine, a user's transaction, a rekey. What was
there when the feed began gets its entries from a scan that goes on in each `shipped`, a bounded piece at a time; what the scan has not reached is
not recorded, since it will be read as it is then.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from perdure.stores.change_feed import (
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    Shipped,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRow,
    no_feed_error,
)
from perdure.stores.protocol import LogRow, QueueLimits
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.store_rows import HEAD_COLUMNS, MESSAGE_COLUMNS, address_of, head_of, key_of, message_of, read_blob, read_removed_at

PAGE_BYTES_MAX = 8 * 2**20
"""A page ends once its rows, messages and blobs have this size."""

TABLES = ("blobs", "removed_blobs", "heads", "mail")
"""The tables that are scanned, in this order: blobs before what names them, executions before their messages."""

BEGIN_SCAN = "INSERT INTO feed_scans VALUES (?, '', 0, 0)"
LIMITS_ENTRIES = "INSERT INTO feed (kind, name) SELECT 'limits', name FROM queues"
NEXT_SCAN = "SELECT table_name, name, number FROM feed_scans WHERE table_name = ?1 AND NOT done"
SCANNED = "UPDATE feed_scans SET name = ?, number = ?, done = ? WHERE table_name = ?"
HAS_FEED = "SELECT min(done) FROM feed_scans"

BLOB_NAMES = "SELECT sha256 FROM blobs WHERE sha256 > ? ORDER BY sha256 LIMIT ?"
REMOVED_BLOB_NAMES = "SELECT sha256 FROM removed_blobs WHERE sha256 > ? ORDER BY sha256 LIMIT ?"
HEAD_NUMBERS = "SELECT number, address FROM heads WHERE number > ? ORDER BY number LIMIT ?"
MESSAGE_KEYS = "SELECT number, address, key FROM mail WHERE number > ? ORDER BY number LIMIT ?"
BLOB_ENTRY = "INSERT OR IGNORE INTO feed (kind, name) VALUES ('blob', ?)"
REMOVED_ENTRY = "INSERT OR REPLACE INTO feed (kind, name) VALUES ('removed', ?)"
ROW_ENTRIES = "INSERT OR REPLACE INTO feed (kind, name, version) SELECT 'row', CAST(execution AS TEXT), version FROM log WHERE execution = ? ORDER BY version"
HEAD_ENTRY = "INSERT OR REPLACE INTO feed (kind, name) VALUES ('head', CAST(? AS TEXT))"
MESSAGE_ENTRY = "INSERT OR REPLACE INTO feed (kind, name, key) VALUES ('message', ?, ?)"

ENTRIES = "SELECT position, kind, name, key, version FROM feed WHERE position > ? ORDER BY position LIMIT ?"
TRIM = "DELETE FROM feed WHERE position <= ?"
EMPTY = "DELETE FROM feed"
END_SCANS = "DELETE FROM feed_scans"
SHIPPED_HEAD = f"SELECT (SELECT min(log.version) FROM log WHERE execution = number), {HEAD_COLUMNS} FROM heads WHERE number = ?"
SHIPPED_ROW = "SELECT heads.address, log.row FROM log CROSS JOIN heads ON heads.number = log.execution WHERE log.execution = ? AND log.version = ?"
SHIPPED_MESSAGE = f"SELECT {MESSAGE_COLUMNS} FROM mail WHERE address = ? AND key = ?"
SHIPPED_LIMITS = "SELECT concurrency, per_lane, interval_s, burst, declared FROM queues WHERE name = ?"


@cache
def trigger_statements() -> dict[str, str]:
    """The statements that create the triggers, by the names of the triggers."""
    script = files("perdure.stores.sqlite").joinpath("triggers.sql").read_text(encoding="utf-8")
    statements = ("\n".join(line for line in part.splitlines() if not line.startswith("--")).strip() for part in script.split("\n\n"))
    return {statement.split()[2]: statement for statement in statements if statement}


def begin_feed(execute: Execute) -> None:
    """Creates the triggers, and begins the scan. It does nothing if there is a feed."""
    if execute(HAS_FEED).fetchone() != (None,):
        return
    for statement in trigger_statements().values():
        execute(statement)
    for table in TABLES:
        execute(BEGIN_SCAN, (table,))
    execute(LIMITS_ENTRIES)


def end_feed(execute: Execute) -> None:
    """Removes the triggers and the entries. The next feed continues with higher positions, since the table keeps its last one."""
    for name in trigger_statements():
        execute(f"DROP TRIGGER IF EXISTS {name}")
    execute(END_SCANS)
    execute(EMPTY)


def is_scanned(execute: Execute) -> bool:
    """Whether everything that was there when the feed began has its entry.

    Raises:
        StoreError: there is no feed.
    """
    (done,) = execute(HAS_FEED).fetchone()
    if done is None:
        raise no_feed_error()
    return bool(done)


def scan(execute: Execute, limit: int) -> None:
    """Gives entries to the next things that were there before the feed: at least one execution with its log, or up to `limit` others."""
    for table in TABLES:
        if (found := execute(NEXT_SCAN, (table,)).fetchone()) is not None:
            _, name, number = found
            seen = [*_scan_table(execute, table, (name, number), limit)]
            last = seen[-1] if seen else (name, number)
            execute(SCANNED, (*last, int(not seen), table))
            return


def _scan_table(execute: Execute, table: str, after: tuple[str, int], limit: int) -> Iterator[tuple[str, int]]:
    """Yields the name or number of each thing that got its entry."""
    name, last = after
    if table in ("blobs", "removed_blobs"):
        for (sha256,) in execute(BLOB_NAMES if table == "blobs" else REMOVED_BLOB_NAMES, (name, limit)).fetchall():
            execute(BLOB_ENTRY, (sha256,))
            yield sha256, 0
    elif table == "mail":
        for number, address, key in execute(MESSAGE_KEYS, (last, limit)).fetchall():
            execute(MESSAGE_ENTRY, (address, key))
            yield "", number
    else:
        entries = 0
        for number, address in execute(HEAD_NUMBERS, (last, limit)).fetchall():
            if entries >= limit:
                break
            execute(REMOVED_ENTRY, (address,))
            entries += 2 + execute(ROW_ENTRIES, (number,)).rowcount
            execute(HEAD_ENTRY, (number,))
            yield "", number


def read_page(execute: Execute, after: int, limit: int) -> Shipped:
    """Reads the items behind the position `after`. All that is read must be read in one transaction."""
    items: list[ShippedItem] = []
    position, size_bytes, more = after, 0, not is_scanned(execute)
    for number, (at, kind, *name) in enumerate(execute(ENTRIES, (after, limit + 1)).fetchall()):
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
            found = execute(SHIPPED_ROW, (int(name), version)).fetchone()
            return None if found is None else ShippedRow(key_of(found[0]), LogRow(version, found[1]))
        case "head":
            found = execute(SHIPPED_HEAD, (int(name),)).fetchone()
            return None if found is None else ShippedHead(head_of(found[1:]), found[0])
        case "removed":
            return RemovedExecution(key_of(name))
        case "message":
            found = execute(SHIPPED_MESSAGE, (name, key)).fetchone()
            return RemovedMessage(address_of(name), key) if found is None else ShippedMessage(message_of(found))
        case _:
            found = execute(SHIPPED_LIMITS, (name,)).fetchone()
            return ShippedLimits(name, None if found is None else QueueLimits(*found))


def _size_bytes(item: ShippedItem) -> int:
    match item:
        case ShippedRow():
            return len(item.row.payload)
        case ShippedMessage():
            return len(item.message.body)
        case ShippedBlob():
            return len(item.payload)
        case _:
            return 0
