"""The records of the memory store, in one dict."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from perdure.stores.records import RecordChange, RecordFilter, RecordKey, Stale, StoredRecord, has_expired

Place = tuple[bytes, RecordKey]
"""Where a record is in a list: the value that orders it, and its key."""


class MemoryRecords:
    """Records by key. Those that have expired stay until they are replaced or swept, and are not returned. `note` is called with each that changes."""

    def __init__(self, note: Callable[[RecordKey], object]) -> None:
        self._note = note
        self._records: dict[RecordKey, StoredRecord] = {}

    def all_keys(self) -> Iterable[RecordKey]:
        """Returns the keys of all records, also of those that have expired."""
        return self._records

    def stored(self, key: RecordKey) -> StoredRecord | None:
        """Returns the record of a key, also if it has expired."""
        return self._records.get(key)

    def put(self, record: StoredRecord) -> None:
        """Puts a record in place as it is."""
        self._records[record.key] = record
        self._note(record.key)

    def remove(self, key: RecordKey) -> None:
        """Removes a record if it is there."""
        if self._records.pop(key, None) is not None:
            self._note(key)

    def record(self, key: RecordKey, now_s: float) -> StoredRecord | None:
        """See `Store.record`."""
        record = self._records.get(key)
        return None if record is None or has_expired(record.expires_at_s, now_s) else record

    def records(self, which: RecordFilter, now_s: float) -> list[StoredRecord]:
        """See `Store.records`."""
        placed = [(place, record) for record in self._records.values() if (place := _place(record, which)) is not None]
        descending = which.order is not None and which.order.descending
        after = None if which.after is None else (which.after.value, which.after.key)
        found = (
            record
            for place, record in sorted(placed, key=lambda one: one[0], reverse=descending)
            if (after is None or (place < after if descending else place > after)) and not has_expired(record.expires_at_s, now_s)
        )
        return list(islice(found, max(which.limit, 0)))

    def stale(self, changes: Sequence[RecordChange], now_s: float) -> Stale | None:
        """Returns the first record that is at another version than the changes expect."""
        for change in changes:
            record = self.record(change.key, now_s)
            version = 0 if record is None else record.version
            if version != change.version:
                return Stale(change.key, version)
        return None

    def change(self, changes: Sequence[RecordChange], now_s: float) -> None:
        """Carries out changes, none of which is stale."""
        for key, version, value, attributes, expires_at_s in ((c.key, c.version, c.value, c.attributes, c.expires_at_s) for c in changes):
            if value is None:
                self.remove(key)
            else:
                self.put(StoredRecord(key, version + 1, value, attributes, now_s, expires_at_s))

    def drop_expired(self, limit: int, now_s: float) -> int:
        """See `Store.drop_expired_records`."""
        expired = sorted((record.expires_at_s or 0.0, key) for key, record in self._records.items() if has_expired(record.expires_at_s, now_s))[:limit]
        for _, key in expired:
            self.remove(key)
        return len(expired)


def _place(record: StoredRecord, which: RecordFilter) -> Place | None:
    """Returns the place of a record in the list, None if the filter does not mean it."""
    tenant, kind, key = record.key
    if (tenant, kind) != (which.tenant, which.kind) or not key.startswith(which.prefix):
        return None
    if not all(condition.holds(record.attributes) for condition in which.where):
        return None
    value = b"" if which.order is None else which.order.value_in(record.attributes)
    return None if value is None else (value, record.key)
