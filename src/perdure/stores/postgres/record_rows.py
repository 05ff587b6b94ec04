"""Reads and restores records, in an open transaction."""

from collections.abc import Iterator
from typing import Any

from perdure.core.attribute_filter import AttributeCondition
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.statements import SQL
from perdure.stores.postgres.store_rows import attributes_from_column, escape_nul
from perdure.stores.records import RecordFilter, RecordKey, StoredRecord


async def put_record(fetch: Fetch, record: StoredRecord) -> None:
    """Puts a record in place as it is."""
    await fetch(SQL.remove_record_attributes, *record.key)
    await fetch(SQL.put_record, *record.key, record.version, record.value, record.changed_at_s, record.expires_at_s)
    if record.attributes:
        await fetch(SQL.insert_record_attributes, *record.key, [escape_nul(name) for name, _ in record.attributes], [value for _, value in record.attributes])


async def remove_record(fetch: Fetch, key: RecordKey) -> None:
    """Removes a record if it is there."""
    await fetch(SQL.remove_record_attributes, *key)
    await fetch(SQL.remove_record, *key)


async def drop_expired_records(fetch: Fetch, limit: int, now_s: float) -> int:
    """See `Store.drop_expired_records`."""
    dropped = await fetch(SQL.drop_expired_records, now_s, limit)
    for key in dropped:
        await fetch(SQL.remove_record_attributes, *key)
    return len(dropped)


async def read_record(fetch: Fetch, key: RecordKey, now_s: float) -> StoredRecord | None:
    """See `Store.record`."""
    return next((record_of(row) for row in await fetch(SQL.read_record, *key, now_s)), None)


async def read_records(fetch: Fetch, which: RecordFilter, now_s: float) -> list[StoredRecord]:
    """See `Store.records`. In order of an attribute, the list is read from the index of attributes, in which each record is found at one of its values."""
    arguments: list[object] = []

    def given(*values: object) -> Iterator[str]:
        for value in values:
            arguments.append(value)
            yield f"${len(arguments)}"

    tenant, kind, now, prefix = given(which.tenant, which.kind, now_s, which.prefix)
    where = [f"at.tenant = {tenant} AND at.kind = {kind} AND (at.expires_at_s IS NULL OR at.expires_at_s > {now})", f"starts_with(at.key, {prefix})"]
    if which.prefix:
        where.append(f"at.key >= {prefix}")
    where += [_condition(condition, given) for condition in which.where]
    source, order = SQL.records_by_key, "at.key"
    if which.order is not None:
        (name,) = given(which.order.name)
        beyond, direction, further = ("<", "DESC", ">") if which.order.descending else (">", "ASC", "<")
        where.append(f"line.tenant = {tenant} AND line.kind = {kind} AND line.name = {name}")
        where.append(f"NOT EXISTS ({SQL.other_value} line.name AND other.value {further} line.value)")
        source, order = SQL.records_by_value, f"line.value {direction}, line.key {direction}"
        if which.after is not None:
            where.append(f"(line.value, line.key) {beyond} ({', '.join(given(which.after.value, which.after.key[2]))})")
    elif which.after is not None:
        where.append(f"at.key > {next(given(which.after.key[2]))}")
    (limit,) = given(max(which.limit, 0))
    return [*map(record_of, await fetch(f"{source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT {limit}", *arguments))]


def _condition(condition: AttributeCondition, given: Any) -> str:
    (name,) = given(condition.name)
    spans = [tuple(given(low, high)) for low, high in condition.spans]
    within = " OR ".join(f"(other.value >= {low} AND other.value < {high})" for low, high in spans)
    return f"EXISTS ({SQL.other_value} {name} AND ({within}))"


def record_of(row: Any) -> StoredRecord:
    """The record in a row of the columns `record_columns`."""
    tenant, kind, key, version, value, changed_at_s, expires_at_s, attributes = tuple(row)
    return StoredRecord(RecordKey(tenant, kind, key), version, value, attributes_from_column(attributes), changed_at_s, expires_at_s)
