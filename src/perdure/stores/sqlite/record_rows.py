"""Reads and changes records, on any connection.

A list costs as much as its page. In order of key it is read from the index of keys or, if a condition means single values, from the index of attributes,
which has the records of each value in order of key. In order of an attribute it is read from that index as well, from its position on. A condition that
few records satisfy has them looked up and sorted; other conditions are checked for each record.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from perdure.core.attribute_filter import AttributeCondition
from perdure.core.attributes import IndexedAttributes
from perdure.stores.protocol import attributes_from_hex
from perdure.stores.records import RecordChange, RecordFilter, RecordKey, Stale, StoredRecord
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import RANGE_MATCHES_MAX, SqlConditions, json_text, prefix_range

BY_VALUE = "record_attributes AS at INDEXED BY record_attributes_by_value"
BY_KEY = "records AS at INDEXED BY sqlite_autoindex_records_1"
LIVES = """EXISTS (SELECT 1 FROM records WHERE records.tenant = at.tenant AND records.kind = at.kind AND records.key = at.key
    AND (records.expires_at_s IS NULL OR records.expires_at_s > ?))"""
OTHER = "SELECT 1 FROM record_attributes AS other WHERE other.tenant = at.tenant AND other.kind = at.kind AND other.key = at.key AND other.name = "

ExecuteMany = Callable[[str, Iterable[Any]], sqlite3.Cursor]


def stale_record(execute: Execute, changes: Sequence[RecordChange], now_s: float) -> Stale | None:
    """Returns the first record that is at another version than the changes expect."""
    for change in changes:
        row = execute(SQL.record_version, (*change.key, now_s)).fetchone()
        version = 0 if row is None else row[0]
        if version != change.version:
            return Stale(change.key, version)
    return None


def change_records(execute: Execute, executemany: ExecuteMany, changes: Sequence[RecordChange], now_s: float) -> None:
    """Carries out changes, none of which is stale."""
    for change in changes:
        if change.value is None:
            remove_record(execute, change.key)
        else:
            put_record(execute, executemany, StoredRecord(change.key, change.version + 1, change.value, change.attributes, now_s, change.expires_at_s))


def put_record(execute: Execute, executemany: ExecuteMany, record: StoredRecord) -> None:
    """Puts a record in place as it is."""
    execute(SQL.remove_record_attributes, record.key)
    execute(SQL.put_record, (*record.key, record.version, record.value, record.changed_at_s, record.expires_at_s))
    executemany(SQL.insert_record_attribute, [(*record.key, name, value) for name, value in record.attributes])


def remove_record(execute: Execute, key: RecordKey) -> None:
    """Removes a record if it is there."""
    execute(SQL.remove_record_attributes, key)
    execute(SQL.remove_record, key)


def drop_expired_records(execute: Execute, limit: int, now_s: float) -> int:
    """See `Store.drop_expired_records`."""
    expired = execute(SQL.expired_records, (now_s, limit)).fetchall()
    for key in expired:
        remove_record(execute, RecordKey(*key))
    return len(expired)


def read_record(execute: Execute, key: RecordKey, now_s: float) -> StoredRecord | None:
    """The record of this key, unless it has expired."""
    row = execute(SQL.read_record, (*key, now_s)).fetchone()
    return row and _record_of(row)


def read_stored_record(execute: Execute, key: RecordKey) -> StoredRecord | None:
    """Reads the record of this key, also if it has expired."""
    row = execute(SQL.read_stored_record, key).fetchone()
    return row and _record_of(row)


def read_records(execute: Execute, which: RecordFilter, now_s: float) -> list[StoredRecord]:
    """See `Store.records`."""
    if which.limit <= 0:
        return []
    few = _fewest(execute, which)
    keys = _keys_in_order_of_key(execute, which, few, now_s) if which.order is None else _keys_in_order_of_attribute(execute, which, few, now_s)
    found = {row[2]: _record_of(row) for row in execute(SQL.read_records, (which.tenant, which.kind, json_text(keys)))}
    return [found[key] for key in keys]


def _fewest(execute: Execute, which: RecordFilter) -> AttributeCondition | None:
    """Returns the condition with the fewest matches; None if going through the list in its order is better."""

    def matches(condition: AttributeCondition) -> int:
        asked = ((which.tenant, which.kind, condition.name, *span, RANGE_MATCHES_MAX) for span in condition.spans)
        return sum(execute(SQL.count_record_matches, one).fetchone()[0] for one in asked)

    counted = [(matches(condition), condition) for condition in which.where]
    count, fewest = min(counted, key=itemgetter(0), default=(RANGE_MATCHES_MAX, None))
    if count < RANGE_MATCHES_MAX:
        return fewest
    single = [condition for _, condition in counted if condition.points]
    return single[0] if which.order is None and single else None


def _keys_in_order_of_key(execute: Execute, which: RecordFilter, few: AttributeCondition | None, now_s: float) -> list[str]:
    where = _conditions(which, few, now_s)
    where.also(which.after is not None, "at.key > ?", which.after and which.after.key[2])
    if few is None:
        return _selected(execute, f"SELECT key FROM {BY_KEY}", where, {}, "key", which.limit)
    found = set[str]()
    for line in _lines(few):
        found.update(_selected(execute, f"SELECT DISTINCT key FROM {BY_VALUE}", where, line, "key", which.limit))
    return sorted(found)[: which.limit]


def _keys_in_order_of_attribute(execute: Execute, which: RecordFilter, few: AttributeCondition | None, now_s: float) -> list[str]:
    order = which.order
    assert order is not None, "the caller has checked it"
    where = _conditions(which, few, now_s)
    beyond, direction = ("<", "DESC") if order.descending else (">", "ASC")
    where.also(True, "at.name = ?", order.name)
    where.also(True, f"NOT EXISTS ({OTHER}at.name AND other.value {'>' if order.descending else '<'} at.value)")
    if which.after is not None:
        where.also(True, f"(at.value, at.key) {beyond} (?, ?)", which.after.value, which.after.key[2])
    if few is None:
        source = BY_VALUE
    else:
        source = "record_attributes AS at INDEXED BY sqlite_autoindex_record_attributes_1"
        spans = " OR ".join("(value >= ? AND value < ?)" for _ in few.spans)
        chosen = f"SELECT key FROM record_attributes INDEXED BY record_attributes_by_value WHERE tenant = ? AND kind = ? AND name = ? AND ({spans})"
        where.also(True, f"at.key IN ({chosen})", which.tenant, which.kind, few.name, *(bound for span in few.spans for bound in span))
    return _selected(execute, f"SELECT key FROM {source}", where, {}, f"value {direction}, key {direction}", which.limit)


def _conditions(which: RecordFilter, few: AttributeCondition | None, now_s: float) -> SqlConditions:
    """Returns the conditions of the filter, except the one that is looked up, on rows of `at`."""
    where = SqlConditions()
    where.also(True, "at.tenant = ? AND at.kind = ?", which.tenant, which.kind)
    after, before = prefix_range(which.prefix)
    where.also(bool(which.prefix), "at.key >= ?", after)
    where.also(bool(which.prefix) and before is not None, "at.key < ?", before)
    where.also(True, LIVES, now_s)
    for condition in which.where:
        if condition is not few:
            within = " OR ".join("(other.value >= ? AND other.value < ?)" for _ in condition.spans)
            where.also(True, f"EXISTS ({OTHER}? AND ({within}))", condition.name, *(bound for span in condition.spans for bound in span))
    return where


def _lines(condition: AttributeCondition) -> Iterator[dict[str, object]]:
    """Yields the parts of the index of attributes that together hold every match of a condition."""
    if points := condition.points:
        for point in points:
            yield {"at.name = ?": condition.name, "at.value = ?": point}
    else:
        for low, high in condition.spans:
            yield {"at.name = ?": condition.name, "at.value >= ?": low, "at.value < ?": high}


def _selected(execute: Execute, select: str, where: SqlConditions, line: dict[str, object], order: str, limit: int) -> list[str]:
    conditions, arguments = where.and_also(line)
    return [key for (key,) in islice(execute(f"{select} WHERE {conditions} ORDER BY {order} LIMIT ?", (*arguments, limit)), limit)]


def _record_of(row: Sequence[Any]) -> StoredRecord:
    tenant, kind, key, version, value, changed_at_s, expires_at_s, attributes = row
    indexed: IndexedAttributes = attributes_from_hex(attributes)
    return StoredRecord(RecordKey(tenant, kind, key), version, value, indexed, changed_at_s, expires_at_s)
