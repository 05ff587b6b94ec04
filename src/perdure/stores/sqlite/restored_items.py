"""Restores what a change feed has shipped, into the tables of SQLite, inside of one transaction."""

from collections.abc import Callable

from perdure.core.envelopes import QueuedMessage
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.change_feed import (
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRow,
)
from perdure.stores.protocol import Head
from perdure.stores.sqlite import limited_queues
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.store_rows import DELETE_ATTRIBUTES, INSERT_ATTRIBUTE, address_text, root_text

FIRST_DUE = "(SELECT min(due_at_s) FROM mail WHERE mail.address = heads.address)"
RESTORE_HEAD = f"""INSERT INTO heads (address, tenant, workflow, program, root, version, wake_at_s, status, created_at_s, ended_at_s, queue, lane, priority,
    limited) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, EXISTS (SELECT 1 FROM queues WHERE name = ?))
    ON CONFLICT (address) DO UPDATE SET program = excluded.program, root = excluded.root, version = excluded.version, holder = NULL,
    wake_at_s = excluded.wake_at_s, status = excluded.status, created_at_s = excluded.created_at_s, ended_at_s = excluded.ended_at_s, queue = excluded.queue,
    lane = excluded.lane, priority = excluded.priority, limited = excluded.limited, mail_at_s = {FIRST_DUE}
    RETURNING number"""
SET_MESSAGE_TIME = f"UPDATE heads SET mail_at_s = {FIRST_DUE} WHERE address = ?"
KEEP_ASIDE = "INSERT INTO restored_rows (address, version, row) VALUES (?, ?, ?) ON CONFLICT (address, version) DO UPDATE SET row = excluded.row"
DROP_ROWS = "DELETE FROM log WHERE execution = ?1 AND (version < ?2 OR version > ?3 OR version IN (SELECT version FROM restored_rows WHERE address = ?4))"
TAKE_ROWS = "INSERT INTO log (execution, version, row) SELECT ?1, version, row FROM restored_rows WHERE address = ?4 AND version BETWEEN ?2 AND ?3"
DROP_ASIDE = "DELETE FROM restored_rows WHERE address = ? AND version <= ?"
DROP_ALL_ASIDE = "DELETE FROM restored_rows WHERE address = ?"
EXPECTED = "UPDATE mail SET unclaimed = NULL WHERE address = ? AND unclaimed IS NOT NULL"
UNEXPECTED = "UPDATE mail SET unclaimed = 1 WHERE address = ? AND unclaimed IS NULL"
NUMBER = "SELECT number FROM heads WHERE address = ?"
REMOVE = ("DELETE FROM attributes WHERE number = ?", "DELETE FROM log WHERE execution = ?", "DELETE FROM heads WHERE number = ?")
MESSAGE_NUMBER = "SELECT number FROM mail WHERE address = ? AND key = ?"
IS_TAKEN = "SELECT 1 FROM mail WHERE number = ? AND (address <> ? OR key <> ?)"
REMOVE_MESSAGE = "DELETE FROM mail WHERE address = ? AND key = ?"
RESTORE_MESSAGE = """INSERT INTO mail (number, address, key, body, due_at_s, queue, deliveries, unclaimed, lane, priority) VALUES (?, ?, ?, ?, ?, ?, ?,
    iif(? AND NOT EXISTS (SELECT 1 FROM heads WHERE address = ?), 1, NULL), ?, ?)"""
KEEP_BLOB = "INSERT INTO blobs (sha256, bytes) VALUES (?, ?) ON CONFLICT (sha256) DO UPDATE SET bytes = excluded.bytes WHERE bytes <> excluded.bytes"
REMOVE_BLOB = "DELETE FROM blobs WHERE sha256 = ?"
UNMARK = "DELETE FROM blob_marks WHERE sha256 = ?"
NOTE_REMOVAL = "INSERT INTO removed_blobs VALUES (?, ?) ON CONFLICT (sha256) DO UPDATE SET at_s = excluded.at_s"
FORGET_REMOVAL = "DELETE FROM removed_blobs WHERE sha256 = ?"


def restore_item(execute: Execute, item: ShippedItem, now_s: float, know: Callable[[str], None]) -> None:
    """Puts one item in place. `know` is called with the program of an execution."""
    match item:
        case ShippedBlob():
            execute(KEEP_BLOB, (item.sha256, item.payload))
            execute(FORGET_REMOVAL, (item.sha256,))
            execute(UNMARK, (item.sha256,))
        case ShippedRow():
            execute(KEEP_ASIDE, (address_text(item.key), item.row.version, item.row.payload))
        case ShippedHead():
            _restore_head(execute, item.head, item.first_version, now_s)
            know(item.head.program)
        case ShippedMessage():
            _restore_message(execute, item.message)
        case ShippedLimits():
            limited_queues.set_limits(execute, item.queue, item.limits)
        case RemovedExecution():
            _remove_execution(execute, item.key)
        case RemovedMessage():
            execute(REMOVE_MESSAGE, (address_text(item.to), item.key))
            _set_message_time(execute, item.to)
        case RemovedBlob():
            execute(REMOVE_BLOB, (item.sha256,))
            execute(UNMARK, (item.sha256,))
            if item.removed_at_s is None:
                execute(FORGET_REMOVAL, (item.sha256,))
            else:
                execute(NOTE_REMOVAL, (item.sha256, item.removed_at_s))


def _restore_head(execute: Execute, head: Head, first_version: int | None, now_s: float) -> None:
    """Restores a head and the rows that it counts. What was held is free, and awake."""
    address = address_text(head.key)
    wake_at_s = head.wake_at_s if head.holder is None else now_s if head.wake_at_s is None else min(head.wake_at_s, now_s)
    times = (wake_at_s, head.status, head.created_at_s, head.ended_at_s)
    row = (
        address,
        head.key.tenant,
        head.key.workflow,
        head.program,
        root_text(head.root, head.key),
        head.version,
        *times,
        head.queue,
        head.lane,
        head.priority,
        head.queue,
    )
    ((number,),) = execute(RESTORE_HEAD, row).fetchall()
    first = head.version + 1 if first_version is None else first_version
    arguments = (number, first, head.version, address)
    execute(DROP_ROWS, arguments)
    execute(TAKE_ROWS, arguments)
    execute(DROP_ASIDE, (address, head.version))
    execute(DELETE_ATTRIBUTES, (number,))
    for name, value in head.attributes:
        execute(INSERT_ATTRIBUTE, (number, name, value))
    execute(EXPECTED, (address,))
    execute(SET_MESSAGE_TIME, (address,))


def _remove_execution(execute: Execute, key: Key) -> None:
    """Removes an execution with its log. Its messages have items of their own."""
    address = address_text(key)
    execute(DROP_ALL_ASIDE, (address,))
    if (found := execute(NUMBER, (address,)).fetchone()) is not None:
        for remove in REMOVE:
            execute(remove, found)
        execute(UNEXPECTED, (address,))


def _restore_message(execute: Execute, message: QueuedMessage) -> None:
    """Restores a message under its own number, unless another message has that."""
    address, is_task = address_text(message.to), isinstance(message.to, QueueAddress)
    number: int | None = message.number
    if execute(IS_TAKEN, (message.number, address, message.key)).fetchone() is not None:
        before = execute(MESSAGE_NUMBER, (address, message.key)).fetchone()
        number = before[0] if before is not None and before[0] > message.number else None  # one that was put behind all others stays there
    execute(REMOVE_MESSAGE, (address, message.key))
    queue = message.to.name if isinstance(message.to, QueueAddress) else None
    place = (not is_task, address, message.lane, message.priority)
    execute(RESTORE_MESSAGE, (number, address, message.key, message.body, message.due_at_s, queue, message.deliveries, *place))
    _set_message_time(execute, message.to)


def _set_message_time(execute: Execute, to: Address) -> None:
    if isinstance(to, Key):
        execute(SET_MESSAGE_TIME, (address_text(to),))
