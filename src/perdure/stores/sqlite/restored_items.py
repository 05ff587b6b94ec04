"""Restores what a change feed has shipped, into the tables of SQLite, inside of one transaction."""

from collections.abc import Callable

from perdure.core.envelopes import QueuedMessage
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.change_feed import (
    RemovedBlob,
    RemovedExecution,
    RemovedMessage,
    RemovedRecord,
    ShippedBlob,
    ShippedHead,
    ShippedItem,
    ShippedLimits,
    ShippedMessage,
    ShippedRecord,
    ShippedRow,
)
from perdure.stores.protocol import Head
from perdure.stores.sqlite import limited_queues, record_rows
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import ExecuteMany, address_text, root_text, write_attributes


def restore_item(execute: Execute, executemany: ExecuteMany, item: ShippedItem, now_s: float, know: Callable[[str], None]) -> None:
    """Puts one item in place. `know` is called with the program of an execution."""
    match item:
        case ShippedBlob():
            execute(SQL.replace_blob, (item.sha256, item.payload))
            execute(SQL.forget_removal, (item.sha256,))
            execute(SQL.unmark_blob, (item.sha256,))
        case ShippedRow():
            execute(SQL.keep_row_aside, (address_text(item.key), item.row.version, item.row.payload))
        case ShippedHead():
            _restore_head(execute, executemany, item.head, item.first_version, now_s)
            know(item.head.program)
        case ShippedMessage():
            _restore_message(execute, item.message)
        case ShippedLimits():
            limited_queues.set_limits(execute, item.queue, item.limits, item.tenant)
        case ShippedRecord():
            record_rows.put_record(execute, executemany, item.record)
        case RemovedExecution():
            _remove_execution(execute, item.key)
        case RemovedMessage():
            execute(SQL.remove_message, (address_text(item.to), item.key))
            _set_message_time(execute, item.to)
        case RemovedRecord():
            record_rows.remove_record(execute, item.key)
        case RemovedBlob():
            execute(SQL.remove_blob, (item.sha256,))
            execute(SQL.unmark_blob, (item.sha256,))
            if item.removed_at_s is None:
                execute(SQL.forget_removal, (item.sha256,))
            else:
                execute(SQL.replace_removal, (item.sha256, item.removed_at_s))


def _restore_head(execute: Execute, executemany: ExecuteMany, head: Head, first_version: int | None, now_s: float) -> None:
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
        limited_queues.limits_that_apply(execute, head.queue, head.key.tenant) if head.queue else 0,
    )
    ((number,),) = execute(SQL.restore_head, row).fetchall()
    first = head.version + 1 if first_version is None else first_version
    arguments = (number, first, head.version, address)
    execute(SQL.drop_rows, arguments)
    execute(SQL.take_rows, arguments)
    execute(SQL.drop_rows_aside, (address, head.version))
    write_attributes(execute, executemany, number, head.attributes, (head.key.tenant, head.ended_at_s is not None))
    execute(SQL.mark_claimed, (address,))
    execute(SQL.set_message_time_of_address, (address,))


def _remove_execution(execute: Execute, key: Key) -> None:
    """Removes an execution with its log. Its messages have items of their own."""
    address = address_text(key)
    execute(SQL.drop_all_rows_aside, (address,))
    if (found := execute(SQL.head_number, (address,)).fetchone()) is not None:
        for remove in (SQL.remove_attributes, SQL.remove_log, SQL.remove_head):
            execute(remove, found)
        execute(SQL.mark_unclaimed, (address,))


def _restore_message(execute: Execute, message: QueuedMessage) -> None:
    """Restores a message under its own number, unless another message has that."""
    address, is_task = address_text(message.to), isinstance(message.to, QueueAddress)
    number: int | None = message.number
    if execute(SQL.is_number_taken, (message.number, address, message.key)).fetchone() is not None:
        before = execute(SQL.message_number, (address, message.key)).fetchone()
        number = before[0] if before is not None and before[0] > message.number else None  # one that was put behind all others stays there
    execute(SQL.remove_message, (address, message.key))
    of: tuple[str | None, str | None] = (None, None)
    limited = 0
    if isinstance(message.to, QueueAddress):
        of, limited = (message.to.tenant, message.to.name), limited_queues.limits_that_apply(execute, message.to.name, message.to.tenant)
    place = (not is_task, address, message.lane, message.priority, limited)
    execute(SQL.restore_message, (number, address, message.key, message.body, message.due_at_s, *of, message.deliveries, *place))
    _set_message_time(execute, message.to)


def _set_message_time(execute: Execute, to: Address) -> None:
    if isinstance(to, Key):
        execute(SQL.set_message_time_of_address, (address_text(to),))
