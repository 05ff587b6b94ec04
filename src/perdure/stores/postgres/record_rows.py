"""Reads and changes records, in an open transaction. A post has locked the records that it changes before any of them is read."""

from collections.abc import Iterator, Sequence
from typing import Any

from perdure.core.attribute_filter import AttributeCondition
from perdure.stores.postgres.limited_queues import Fetch
from perdure.stores.postgres.store_rows import attributes_from_column, escape_nul
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, Stale, StoredRecord

THIS = "tenant = $1 AND kind = $2 AND key = $3"
VERSION = f"SELECT version FROM records WHERE {THIS} AND (expires_at_s IS NULL OR expires_at_s > $4)"
PUT = """INSERT INTO records VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, kind, key)
    DO UPDATE SET version = excluded.version, value = excluded.value, changed_at_s = excluded.changed_at_s, expires_at_s = excluded.expires_at_s"""
REMOVE = f"DELETE FROM records WHERE {THIS}"
REMOVE_ATTRIBUTES = f"DELETE FROM record_attributes WHERE {THIS}"
INSERT_ATTRIBUTES = "INSERT INTO record_attributes SELECT $1, $2, $3, * FROM unnest($4::text[], $5::bytea[])"
DROP_EXPIRED = """DELETE FROM records WHERE (tenant, kind, key) IN (SELECT tenant, kind, key FROM records WHERE expires_at_s <= $1
    ORDER BY expires_at_s, tenant, kind, key LIMIT $2 FOR UPDATE SKIP LOCKED) AND expires_at_s <= $1 RETURNING tenant, kind, key"""

ATTRIBUTES = """(SELECT string_agg(encode(convert_to(name, 'UTF8'), 'hex') || '=' || encode(its.value, 'hex'), ',') FROM record_attributes AS its
    WHERE its.tenant = at.tenant AND its.kind = at.kind AND its.key = at.key)"""
COLUMNS = f"at.tenant, at.kind, at.key, at.version, at.value, at.changed_at_s, at.expires_at_s, {ATTRIBUTES}"
RECORD = f"SELECT {COLUMNS} FROM records AS at WHERE {THIS} AND (expires_at_s IS NULL OR expires_at_s > $4)"
FROM_KEYS = f"SELECT {COLUMNS} FROM records AS at"
FROM_VALUES = f"SELECT {COLUMNS} FROM record_attributes AS line JOIN records AS at USING (tenant, kind, key)"
OTHER = "SELECT 1 FROM record_attributes AS other WHERE other.tenant = at.tenant AND other.kind = at.kind AND other.key = at.key AND other.name = "


async def stale_record(fetch: Fetch, changes: Sequence[RecordChange], now_s: float) -> Stale | None:
    """Returns the first record that is at another version than the changes expect."""
    for change in changes:
        version = next((row[0] for row in await fetch(VERSION, *change.key, now_s)), 0)
        if version != change.version:
            return Stale(change.key, version)
    return None


async def change_records(fetch: Fetch, changes: Sequence[RecordChange], now_s: float) -> None:
    """Carries out changes, none of which is stale."""
    for change in changes:
        if change.value is None:
            await remove_record(fetch, change.key)
        else:
            await put_record(fetch, StoredRecord(change.key, change.version + 1, change.value, change.attributes, now_s, change.expires_at_s))


async def put_record(fetch: Fetch, record: StoredRecord) -> None:
    """Puts a record in place as it is."""
    await fetch(REMOVE_ATTRIBUTES, *record.key)
    await fetch(PUT, *record.key, record.version, record.value, record.changed_at_s, record.expires_at_s)
    if record.attributes:
        await fetch(INSERT_ATTRIBUTES, *record.key, [escape_nul(name) for name, _ in record.attributes], [value for _, value in record.attributes])


async def remove_record(fetch: Fetch, key: RecordKey) -> None:
    """Removes a record if it is there."""
    await fetch(REMOVE_ATTRIBUTES, *key)
    await fetch(REMOVE, *key)


async def drop_expired_records(fetch: Fetch, limit: int, now_s: float) -> int:
    """See `Store.drop_expired_records`."""
    dropped = await fetch(DROP_EXPIRED, now_s, limit)
    for key in dropped:
        await fetch(REMOVE_ATTRIBUTES, *key)
    return len(dropped)


async def read_record(fetch: Fetch, key: RecordKey, now_s: float) -> StoredRecord | None:
    """See `Store.record`."""
    return next((record_of(row) for row in await fetch(RECORD, *key, now_s)), None)


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
    source, order = FROM_KEYS, "at.key"
    if which.order is not None:
        (name,) = given(which.order.name)
        beyond, direction, further = ("<", "DESC", ">") if which.order.descending else (">", "ASC", "<")
        where.append(f"line.tenant = {tenant} AND line.kind = {kind} AND line.name = {name}")
        where.append(f"NOT EXISTS ({OTHER}line.name AND other.value {further} line.value)")
        source, order = FROM_VALUES, f"line.value {direction}, line.key {direction}"
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
    return f"EXISTS ({OTHER}{name} AND ({within}))"


def record_of(row: Any) -> StoredRecord:
    """The record in a row of the columns `COLUMNS`."""
    tenant, kind, key, version, value, changed_at_s, expires_at_s, attributes = tuple(row)
    return StoredRecord(RecordKey(tenant, kind, key), version, value, attributes_from_column(attributes), changed_at_s, expires_at_s)
