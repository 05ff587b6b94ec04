"""Restores what a change feed has shipped, into the tables of Postgres, inside of one transaction that runs alone."""

from collections.abc import Awaitable, Callable

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
from perdure.stores.postgres import limited_queues, record_rows
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import address_bytes, write_attributes
from perdure.stores.protocol import Head


async def restore_item(fetch: Fetch, item: ShippedItem, now_s: float, know: Callable[[str], Awaitable[None]]) -> None:
    """Puts one item in place. `know` is called with the program of an execution."""
    match item:
        case ShippedBlob():
            if not await fetch(SQL.replace_blob, item.sha256, item.payload):
                await fetch(SQL.ensure_month, now_s)
                await fetch(SQL.insert_blob, item.sha256, item.payload, now_s)
            await fetch(SQL.forget_removal, item.sha256)
            await fetch(SQL.unmark_blob, item.sha256)
        case ShippedRow():
            await fetch(SQL.keep_row_aside, address_bytes(item.key), item.row.version, item.row.payload)
        case ShippedHead():
            await _restore_head(fetch, item.head, item.first_version, now_s)
            await know(item.head.program)
        case ShippedMessage():
            await _restore_message(fetch, item.message)
        case ShippedLimits():
            await limited_queues.set_limits(fetch, item.queue, item.limits, item.tenant)
        case ShippedRecord():
            await record_rows.put_record(fetch, item.record)
        case RemovedExecution():
            await _remove_execution(fetch, item.key)
        case RemovedMessage():
            await fetch(SQL.remove_message, address_bytes(item.to), item.key.encode())
            await _set_message_time(fetch, item.to)
        case RemovedRecord():
            await record_rows.remove_record(fetch, item.key)
        case RemovedBlob():
            await fetch(SQL.remove_blob, item.sha256)
            await fetch(SQL.unmark_blob, item.sha256)
            if item.removed_at_s is None:
                await fetch(SQL.forget_removal, item.sha256)
            else:
                await fetch(SQL.replace_removal, item.sha256, item.removed_at_s)


async def _restore_head(fetch: Fetch, head: Head, first_version: int | None, now_s: float) -> None:
    """Restores a head and the rows that it counts. What was held is free, and awake."""
    address = address_bytes(head.key)
    wake_at_s = head.wake_at_s if head.holder is None else now_s if head.wake_at_s is None else min(head.wake_at_s, now_s)
    times = (wake_at_s, head.status, head.created_at_s, head.ended_at_s, head.queue, head.lane, head.priority, bool(head.attributes))
    await fetch(SQL.ensure_month, head.created_at_s)
    ((number, month),) = await fetch(SQL.restore_head, address, *head.key, head.program, address_bytes(head.root), head.version, *times)
    first = head.version + 1 if first_version is None else first_version
    await fetch(SQL.move_rows, number, month)
    await fetch(SQL.drop_rows, number, first, head.version, address)
    await fetch(SQL.take_rows, number, first, head.version, address, month)
    await fetch(SQL.drop_rows_aside, address, head.version)
    await write_attributes(fetch, number, head.attributes)
    await fetch(SQL.set_message_time, address)


async def _remove_execution(fetch: Fetch, key: Key) -> None:
    """Removes an execution with its log. Its messages have items of their own."""
    address = address_bytes(key)
    await fetch(SQL.drop_all_rows_aside, address)
    for (number,) in await fetch(SQL.restored_head_number, address):
        for remove in (SQL.remove_attributes, SQL.remove_log, SQL.remove_head):
            await fetch(remove, number)


async def _restore_message(fetch: Fetch, message: QueuedMessage) -> None:
    """Restores a message under its own number, unless another message has that."""
    where = address_bytes(message.to), message.key.encode()
    number: int | None = message.number
    if await fetch(SQL.is_number_taken, message.number, *where):
        before = await fetch(SQL.message_number, *where)
        number = before[0][0] if before and before[0][0] > message.number else None  # one that was put behind all others stays there
    await fetch(SQL.remove_message, *where)
    queue, tenant = (message.to.name, message.to.tenant) if isinstance(message.to, QueueAddress) else (None, None)
    place = (message.lane, message.priority, queue, tenant)
    await fetch(SQL.restore_message, number, *where, message.body, message.due_at_s, message.deliveries, *place)
    if number is not None:
        await fetch(SQL.number_messages_behind, number)
    await _set_message_time(fetch, message.to)


async def _set_message_time(fetch: Fetch, to: Address) -> None:
    if isinstance(to, Key):
        await fetch(SQL.set_message_time, address_bytes(to))
