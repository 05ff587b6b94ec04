"""Key rotation: reports which keys encrypt the payloads of a file, and encrypts all of them under the newest key while engines run.

A rekey reads the file row by row and encodes what is not under the newest key again, outside of any transaction. Each batch then replaces, in a short
transaction, only the payloads that have not changed since they were read. So engines are not blocked, what they write meanwhile is never overwritten, and
a killed rekey loses one batch: the next run starts from the beginning and skips what is under the newest key.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.core import payload_header
from perdure.core.errors import SealedPayload
from perdure.stores.encoded_store import PayloadSealer
from perdure.stores.encryption import Encrypted
from perdure.stores.records import RecordKey
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.database_setup import existing_file, expect_schema_version
from perdure.stores.sqlite.statements import SQL
from perdure.stores.sqlite.store_rows import address_of, key_of
from perdure.stores.sqlite.write_lock_queue import WriteLockQueue, begin_write, empty_write_ahead_log

BATCH_ROWS, BATCH_BYTES = 200, 2**20
PASSES_MAX = 3
"""How often the file is read if engines continue to write with another key."""
WAIT_MAX_S = 30.0
HEADER_BYTES = 2 + payload_header.SPAN_BYTES + 2 + 64
"""How much of a payload to read in order to know its key."""

KINDS = {"log": "log", "mail": "mail", "blob": "blobs", "record": "records"}
COLUMNS = {"log": "row", "mail": "body", "blob": "bytes", "record": "value"}
"""The table and the column of each kind of payload."""
PAYLOAD_QUERIES = {"log": SQL.row_payloads, "mail": SQL.message_payloads, "blob": SQL.blob_payloads, "record": SQL.record_payloads}


class KeyUse(msgspec.Struct, frozen=True):
    """How many payloads of each kind are encrypted with a key; with None, they are not encrypted."""

    key_id: str | None
    log: int
    messages: int
    blob: int
    record: int

    @property
    def total(self) -> int:
        """The sum over all kinds."""
        return self.log + self.messages + self.blob + self.record


class RekeyResult(msgspec.Struct, frozen=True):
    """The result of a rekey: how many payloads were encrypted again, whether the old ones are wiped from the write-ahead log as well, how many are still
    under another key, and why some can't be read."""

    done: int
    wiped: bool
    left: int
    refused: tuple[str, ...]


class _PayloadChange(NamedTuple):
    """A payload to replace: its row, its old and new bytes, and for a blob its old and new name."""

    row: int
    before: bytes
    after: bytes
    name: str = ""
    renamed: str = ""


def key_uses(path: Path) -> list[KeyUse]:
    """Counts the payloads by key, the most used key first. It reads only the beginning of each payload, and needs no key.

    Raises:
        StoreError: the file can't be read, or its tables are of another version.
    """
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=WAIT_MAX_S)) as connection:
        expect_schema_version(file, connection)
        found: Counter[tuple[str | None, str]] = Counter()
        for kind, table in KINDS.items():
            for (header,) in connection.execute(SQL.payload_headers.format(table=table, column=COLUMNS[kind], bytes=HEADER_BYTES)):
                found[payload_header.encryption_key_id(header), kind] += 1
    uses = [KeyUse(id, *(found[id, kind] for kind in KINDS)) for id in {id for id, _ in found}]
    return sorted(uses, key=lambda use: (-use.total, str(use.key_id)))


def rekey(path: Path, codec: Encrypted, progress: Callable[[str, int, int], None] = lambda *_: None, *, vacuum: bool = False) -> RekeyResult:
    """Encrypts every payload under the first key of `codec`. `progress` is called after each batch with the kind, the number of payloads read, and the total.

    The old payloads are wiped from the file. With `vacuum` the file is rewritten afterwards, so that nothing is left of what was deleted earlier either;
    no other process can write meanwhile.

    Raises:
        StoreError: the file can't be used, its tables are of another version, or others have it locked for too long.
    """
    file = existing_file(path)
    with file.translated_errors(), closing(file.connect(wait_s=WAIT_MAX_S)) as connection:
        expect_schema_version(file, connection)
        connection.execute("PRAGMA secure_delete = ON")
        walk = _RekeyPass(file, connection, codec, progress)
        try:
            for _ in range(PASSES_MAX):
                walk.refused.clear()
                for kind in KINDS:
                    walk.rekey_kind(kind)
                left = sum(use.total for use in key_uses(path) if use.key_id != codec.ids[0])
                if left <= len(walk.refused):
                    break
            if vacuum:
                connection.execute("VACUUM")
            wiped = empty_write_ahead_log(connection)
        finally:
            walk.turns.close()
    return RekeyResult(walk.done, wiped, left, tuple(walk.refused))


class _RekeyPass:
    """One rekey of a file."""

    def __init__(self, file: DatabaseFile, connection: sqlite3.Connection, codec: Encrypted, progress: Callable[[str, int, int], None]) -> None:
        self.turns = WriteLockQueue(file.processes)
        self.done = 0
        self.refused: list[str] = []
        self._file, self._connection, self._progress = file, connection, progress
        self._newest = codec.ids[0]
        self._coding = PayloadSealer(codec)

    def rekey_kind(self, kind: str) -> None:
        """Rekeys the payloads of one kind that are in the file now."""
        total, last = self._connection.execute(SQL.payload_count.format(table=KINDS[kind])).fetchone()
        seen = after = 0
        while batch := list(self._batch(kind, after, last)):
            after, seen = batch[-1][0], seen + len(batch)
            began_s = time.monotonic()
            changes = [
                change for row in batch if payload_header.encryption_key_id(row[1][:HEADER_BYTES]) != self._newest and (change := self._changed(kind, row))
            ]
            if changes:
                self.done += self._replace(kind, changes)
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                time.sleep(min(time.monotonic() - began_s, 0.1))  # leaves half of the disk's time to others
            self._progress(kind, seen, max(total, seen))

    def _batch(self, kind: str, after: int, last: int) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of the next batch, up to `BATCH_ROWS` and about `BATCH_BYTES`."""
        size_bytes = 0
        for number, row in enumerate(self._connection.execute(PAYLOAD_QUERIES[kind], (after, last)), 1):
            yield row
            size_bytes += len(row[1])
            if number >= BATCH_ROWS or size_bytes >= BATCH_BYTES:
                return

    def _changed(self, kind: str, row: tuple[Any, ...]) -> _PayloadChange | None:
        """Returns the change of a payload; None if it can't be decoded."""
        number, stored, place, *rest = row
        try:
            match kind, rest:
                case "log", [int(version), int(before)]:
                    key = key_of(str(place))
                    raw, span = self._coding.open_row(key, stored)
                    return _PayloadChange(number, stored, self._coding.seal_row(key, *(span or (before, version)), raw))
                case "mail", [str(name)]:
                    to = address_of(str(place))
                    return _PayloadChange(number, stored, self._coding.seal_message(to, name, self._coding.open_message(to, name, stored)))
                case "record", [int(version)]:
                    record = RecordKey(*msgspec.json.decode(str(place)))
                    return _PayloadChange(number, stored, self._coding.seal_record(record, version, self._coding.open_record(record, version, stored)))
                case _:
                    return self._changed_blob(number, stored, str(place))
        except SealedPayload as refusal:
            self.refused.append(str(refusal))
            return None

    def _changed_blob(self, number: int, stored: bytes, name: str) -> _PayloadChange:
        """Returns the change of a blob, which gets the name that the newest key gives its hash."""
        payload = self._coding.open_blob(name, stored)
        names = self._coding.names(sha256(payload).hexdigest())
        renamed = names[0] if name in names else name
        return _PayloadChange(number, stored, self._coding.seal_blob(renamed, payload), name, renamed)

    def _replace(self, kind: str, changes: list[_PayloadChange]) -> int:
        """Replaces the payloads that have not changed since they were read, in one transaction; returns how many."""
        begin_write(self._connection, self.turns, WAIT_MAX_S)
        try:
            expect_schema_version(self._file, self._connection)
            replaced = sum(self._replaced(kind, change) for change in changes)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return replaced

    def _replaced(self, kind: str, change: _PayloadChange) -> int:
        if change.name == change.renamed:
            replace = SQL.replace_payload.format(table=KINDS[kind], column=COLUMNS[kind])
            return self._connection.execute(replace, (change.after, change.row, change.before)).rowcount
        self._connection.execute(SQL.keep_blob, (change.renamed, change.after))
        return self._connection.execute(SQL.remove_renamed_blob, (change.row, change.name)).rowcount
