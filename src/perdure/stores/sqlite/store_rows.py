"""Reads logs, messages and lists of heads, on any connection; and writes attributes.

A list of heads is read from the index that fits its filter, so it costs as much as its page and not as much as the table. Attributes are rows of their own
in an index by name and value. The executions with one value come from that index, newest first; those with a value in a range are all looked up and
sorted, unless there are `RANGE_MATCHES_MAX` or more, when going through the newest executions finds enough of them sooner. Of several conditions, the one
with the fewest matches is looked up and the others are checked for each head.
"""

import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from perdure.core.attribute_filter import AttributeCondition, AttributeOrder
from perdure.core.attributes import IndexedAttributes
from perdure.core.envelopes import QueuedMessage, StartAdmission
from perdure.core.errors import LogDamaged
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.protocol import Head, HeadFilter, LogRow, StoredLog, attributes_from_hex
from perdure.stores.records import PagePosition
from perdure.stores.sqlite.database_file import Execute
from perdure.stores.sqlite.statements import SQL

RANGE_MATCHES_MAX = 10_000
"""Matches are not counted beyond this number."""

BY_VALUE = "attributes INDEXED BY attributes_by_value"
"""The attributes of all executions, in order of tenant, name, value and number."""

Place = tuple[bytes, int]
"""The place of a head in a list: the value of the attribute that orders it (empty if none does), and the number of the head."""

ExecuteMany = Callable[[str, Iterable[Any]], sqlite3.Cursor]


def write_attributes(execute: Execute, executemany: ExecuteMany, number: int, attributes: IndexedAttributes, its: tuple[str, bool]) -> None:
    """Replaces the attributes of an execution. `its` tenant and whether it has ended go into each row."""
    execute(SQL.remove_attributes, (number,))
    executemany(SQL.insert_attribute, [(number, name, value, *its) for name, value in attributes])


def count_living(execute: Execute, tenant: str, admission: StartAdmission) -> int:
    """Counts the executions that an admission counts, up to its maximum."""
    (count,) = execute(SQL.count_living, (tenant, admission.attribute, admission.value, max(admission.max, 0))).fetchone()
    return int(count)


def rarest_condition(execute: Execute, which: HeadFilter) -> AttributeCondition | None:
    """Returns the condition to look up in the index of attributes; None if going through the list in its order is better."""
    if len(which.where) == 1 and which.where[0].points and which.order is None:
        return which.where[0]
    tenants = [*attribute_tenants(execute, which)] if which.where else []
    counted = [
        (sum(_count_matches(execute, tenant, condition.name, *span) for tenant in tenants for span in condition.spans), not condition.points, condition)
        for condition in which.where
    ]
    count, is_range, condition = min(counted, key=itemgetter(0, 1), default=(RANGE_MATCHES_MAX, True, None))
    return condition if count < RANGE_MATCHES_MAX or (not is_range and which.order is None) else None


def attribute_tenants(execute: Execute, which: HeadFilter) -> Iterator[str]:
    """Yields the tenant that is asked for, or else each that has attributes, by one index lookup."""
    if which.tenant is not None:
        yield which.tenant
        return
    tenant: str | None = ""
    while tenant is not None:
        (tenant,) = execute(SQL.next_tenant_with_attributes, (tenant,)).fetchone()
        if tenant is not None:
            yield tenant


def _count_matches(execute: Execute, tenant: str, name: str, low: bytes, high: bytes) -> int:
    (count,) = execute(SQL.count_matches, (tenant, name, low, high, RANGE_MATCHES_MAX)).fetchone()
    return int(count)


def index_lines(tenant: str, condition: AttributeCondition) -> list[dict[str, object]]:
    """Returns the parts of the index that together hold every match of a condition in a tenant."""
    named = {"attributes.tenant = ?": tenant, "name = ?": condition.name}
    if points := condition.points:
        return [{**named, "value = ?": point} for point in points]
    return [{**named, "value >= ?": low, "value < ?": high} for low, high in condition.spans]


def head_condition(condition: AttributeCondition) -> tuple[str, tuple[object, ...]]:
    """Returns the condition as SQL on a head, with its arguments."""
    within = " OR ".join("(other.value >= ? AND other.value < ?)" for _ in condition.spans)
    bounds = (bound for span in condition.spans for bound in span)
    return f"EXISTS (SELECT 1 FROM attributes AS other WHERE other.number = heads.number AND other.name = ? AND ({within}))", (condition.name, *bounds)


NUMBER_MAX = 2**63 - 1

HEADS_BY_ADDRESS, HEADS_OF_FAMILY = "sqlite_autoindex_heads_1", "heads_of_family"
"""The indexes of heads by address, and of those that are not their own root by root."""

IndexLine = dict[str, object]
"""Conditions, with their arguments, under which heads are adjacent in an index."""


def read_head(execute: Execute, key: Key) -> Head | None:
    """The head of an execution."""
    found = execute(SQL.read_head, (address_text(key),)).fetchall()  # to its end, so that no read transaction stays open
    return head_of(found[0]) if found else None


def read_log(execute: Execute, key: Key, after: int) -> StoredLog | None:
    """The head, and the rows that hold an event after version `after`. Both must be read in one transaction."""
    row = execute(SQL.read_numbered_head, (address_text(key),)).fetchone()
    if row is None:
        return None
    return StoredLog(head_of(row[1:]), tuple([LogRow(*one) for one in execute(SQL.read_rows, (row[0], after)).fetchall()]))


def read_messages(execute: Execute, to: Address) -> list[QueuedMessage]:
    """The messages of an address, in order of number."""
    return [message_of(row) for row in execute(SQL.read_messages, (address_text(to),)).fetchall()]


def is_queued(execute: Execute, to: str, key: str) -> bool:
    """Whether a message of this key is queued at an address."""
    return execute(SQL.is_queued, (to, key)).fetchone() is not None


def read_blob(execute: Execute, sha256: str) -> bytes | None:
    """The payload of this name."""
    row: tuple[bytes] | None = execute(SQL.read_blob, (sha256,)).fetchone()
    return row and row[0]


def read_removed_at(execute: Execute, sha256: str) -> float | None:
    """When the blob of this name was removed, if that was recorded."""
    row: tuple[float] | None = execute(SQL.removed_at, (sha256,)).fetchone()
    return row and row[0]


# Lists.


def read_heads(execute: Execute, which: HeadFilter) -> list[Head]:
    """The heads that match `which`, newest first or in its order. All reads must be in one transaction."""
    if which.limit <= 0:
        return []
    places = set[Place]().union(*(_first_places(execute, one) for one in which.alternatives()))
    return _heads_of(execute, [number for _, number in sorted(places, reverse=which.order is None or which.order.descending)[: which.limit]])


def _first_places(execute: Execute, which: HeadFilter) -> set[Place]:
    """The places of the heads that match `which`, at least of the first in the list."""
    where = SqlConditions()
    where.also(which.keys is not None, "address IN (SELECT value FROM json_each(?))", json_text([address_text(key) for key in which.keys or ()]))
    if which.created_from_s is not None:  # Heads are numbered nearly in order of creation time, so the list need not go back to the first.
        (oldest,) = execute(SQL.oldest_since, (which.created_from_s,)).fetchone()
        where.also(True, "number >= ?", NUMBER_MAX if oldest is None else oldest)
        where.also(True, "created_at_s >= ?", which.created_from_s)
    where.also(which.ended is not None, f"ended_at_s IS {'NOT ' * bool(which.ended)}NULL")
    if which.id_prefix:  # an address begins with a bracket and the id, of which each character is encoded by itself
        where.also(True, "address >= ? AND address < ?", *prefix_range(json_text([which.id_prefix])[:-2]))
    where.also(which.root is not None, "coalesce(root, address) = ?", which.root and address_text(which.root))
    narrow = _narrow(which)
    rare = None if narrow else rarest_condition(execute, which)
    for condition in which.where:
        if condition is not rare:
            text_of_it, arguments = head_condition(condition)
            where.also(True, text_of_it, *arguments)
    if which.order is not None:
        return _places_in_order(execute, which, which.order, where, narrow, rare)
    where.also(which.after is not None, "number < ?", which.after and _number_at(execute, which.after, descending=True))
    lines = _lines(execute, which, narrow) if rare is None else _lines_of_attribute(execute, which, rare)
    return {(b"", number) for source, line in lines for number in _line(execute, source, where.and_also(line), which.limit)}


def _heads_of(execute: Execute, numbers: list[int]) -> list[Head]:
    found = {number: head_of(row) for number, *row in execute(SQL.read_heads, (json_text(numbers),))}
    return [found[number] for number in numbers]


def _number_at(execute: Execute, position: PagePosition, descending: bool) -> int:
    """Returns the number of the execution at a position. If it is gone, that of its neighbour by the time of creation stands for it."""
    assert isinstance(position.key, Key), "it is a position in a list of executions"
    if row := execute(SQL.head_number, (address_text(position.key),)).fetchone():
        return int(row[0])
    row = execute(SQL.latest_until, (position.created_at_s,)).fetchone()
    return (int(row[0]) if row else 0) + descending


def _places_in_order(
    execute: Execute, which: HeadFilter, order: AttributeOrder, where: "SqlConditions", narrow: str, rare: AttributeCondition | None
) -> set[Place]:
    """The places in a list that is ordered by an attribute."""
    beyond, further, direction = ("<", ">", "DESC") if order.descending else (">", "<", "ASC")
    where.also(True, "at.name = ?", order.name)
    where.also(
        True, f"NOT EXISTS (SELECT 1 FROM attributes AS other WHERE other.number = at.number AND other.name = at.name AND other.value {further} at.value)"
    )
    if which.after is not None:
        where.also(True, f"(at.value, at.number) {beyond} (?, ?)", which.after.value, _number_at(execute, which.after, order.descending))
    where.also(which.workflow is not None, "workflow = ?", which.workflow)
    where.also(which.statuses is not None, "status IN (SELECT value FROM json_each(?))", json_text(sorted(which.statuses or ())))
    placed = set[Place]()
    for source, line in _walks(execute, which, narrow, rare):
        conditions, arguments = where.and_also(line)
        select = f"SELECT at.value, number FROM {source} WHERE {conditions} ORDER BY at.value {direction}, at.number {direction} LIMIT ?"
        placed.update(execute(select, (*arguments, which.limit)))
    return placed


def _walks(execute: Execute, which: HeadFilter, narrow: str, rare: AttributeCondition | None) -> Iterator[tuple[str, IndexLine]]:
    """Yields the sources that together hold every head of a list that is ordered by an attribute `at`, with conditions of their own."""
    if narrow:
        given: IndexLine = {} if which.tenant is None else {"heads.tenant = ?": which.tenant}
        for source, line in _family(which) if narrow == HEADS_OF_FAMILY else [(narrow, IndexLine())]:
            yield f"heads INDEXED BY {source} CROSS JOIN attributes AS at USING (number)", given | line
        return
    index, within = ("attributes_of_living", "at.ended = 0 AND at.tenant = ?") if which.ended is False else ("attributes_by_value", "at.tenant = ?")
    for tenant in attribute_tenants(execute, which):
        if rare is None:
            yield f"attributes AS at INDEXED BY {index} CROSS JOIN heads USING (number)", {within: tenant}
            continue
        for line in index_lines(tenant, rare):
            found = execute(f"SELECT DISTINCT number FROM {BY_VALUE} WHERE {' AND '.join(line)} LIMIT {RANGE_MATCHES_MAX}", (*line.values(),))
            numbers = json_text([number for (number,) in found])
            looked_up = "attributes AS at INDEXED BY sqlite_autoindex_attributes_1 CROSS JOIN heads USING (number)"
            yield looked_up, {"at.number IN (SELECT value FROM json_each(?))": numbers}


class SqlConditions:
    """A conjunction of SQL conditions, with their arguments."""

    def __init__(self) -> None:
        self.conditions: list[str] = []
        self.arguments: list[Any] = []

    def also(self, needed: bool, condition: str, *arguments: Any) -> None:
        """Adds a condition if it is needed."""
        if needed:
            self.conditions.append(condition)
            self.arguments += arguments

    def and_also(self, line: IndexLine) -> tuple[str, tuple[Any, ...]]:
        """Returns all conditions and those of a line, as SQL and arguments."""
        return " AND ".join([*self.conditions, *line, "1"]), (*self.arguments, *line.values())


def _line(execute: Execute, source: str, where: tuple[str, tuple[Any, ...]], limit: int) -> list[int]:
    """The numbers of the newest heads of a line that satisfy the conditions."""
    conditions, arguments = where
    distinct = "DISTINCT " if "value >= ?" in conditions else ""  # an execution may have several values in a range
    return [number for (number,) in execute(f"SELECT {distinct}number FROM {source} WHERE {conditions} ORDER BY number DESC LIMIT ?", (*arguments, limit))]


def _narrow(which: HeadFilter) -> str:
    """Returns the index that a selective part of the filter (keys, root or id prefix) makes cheap; "" if there is no such part."""
    by_address = which.keys is not None or (which.id_prefix and which.root is None)
    return HEADS_BY_ADDRESS if by_address else HEADS_OF_FAMILY if which.root is not None else ""


def _lines_of_attribute(execute: Execute, which: HeadFilter, condition: AttributeCondition) -> Iterator[tuple[str, IndexLine]]:
    """Yields the lines of the index of attributes that together hold every matching head."""
    for tenant in attribute_tenants(execute, which):
        for line in index_lines(tenant, condition):
            for status in [None] if which.statuses is None else sorted(which.statuses):
                given = (("workflow = ?", which.workflow), ("status = ?", status))
                yield f"{BY_VALUE} CROSS JOIN heads USING (number)", {**line, **{column: value for column, value in given if value is not None}}


def _lines(execute: Execute, which: HeadFilter, narrow: str) -> Iterator[tuple[str, IndexLine]]:
    """Yields lines, each in order of number in its index, that together hold every matching head."""
    given: IndexLine = {column: value for column, value in (("tenant = ?", which.tenant), ("workflow = ?", which.workflow)) if value is not None}
    statuses = sorted(which.statuses or ())
    if narrow == HEADS_OF_FAMILY:
        for source, of_root in _family(which):
            yield from ((f"heads INDEXED BY {source}", given | of_root | of_status) for of_status in _each_status(which))
    elif given and not narrow:
        for tenant in _each(execute, "tenant", {}, which.tenant):
            for workflow in _each(execute, "workflow", {"tenant = ?": tenant}, which.workflow):
                line: IndexLine = {"tenant = ?": tenant, "workflow = ?": workflow}
                for status in _each(execute, "status", line, None) if which.statuses is None else statuses:
                    yield "heads INDEXED BY heads_by_workflow", {**line, "status = ?": status}
    elif which.statuses is None:
        yield f"heads INDEXED BY {narrow}" if narrow else "heads", given
    else:
        yield from ((f"heads INDEXED BY {narrow or 'heads_by_status'}", given | of_status) for of_status in _each_status(which))


def _family(which: HeadFilter) -> list[tuple[str, IndexLine]]:
    """Returns the indexes that together have the executions of a root: the root itself, and those below it."""
    root = which.root and address_text(which.root)
    return [(HEADS_BY_ADDRESS, {"address = ?": root}), (HEADS_OF_FAMILY, {"root = ?": root})]


def _each_status(which: HeadFilter) -> list[IndexLine]:
    """Returns the condition on each status of the filter; one empty condition if it has none."""
    return [{}] if which.statuses is None else [{"status = ?": status} for status in sorted(which.statuses)]


def _each(execute: Execute, column: str, line: IndexLine, given: str | None) -> Iterator[str]:
    """Yields the distinct values of a column within a line, each by one index lookup after the one before; or only the given value."""
    if given is not None:
        yield given
        return
    within = " AND ".join([*line, "1"])
    smallest = f"SELECT min({column}) FROM heads INDEXED BY heads_by_workflow WHERE {within}"
    (value,) = execute(smallest, (*line.values(),)).fetchone()
    while value is not None:
        yield value
        (value,) = execute(f"{smallest} AND {column} > ?", (*line.values(), value)).fetchone()


def prefix_range(prefix: str) -> tuple[str, str | None]:
    """Returns the bounds of the texts that begin with `prefix` in code point order: the first included, the second excluded (None: no upper bound)."""
    shortened = prefix.rstrip(chr(sys.maxunicode))
    if not shortened:
        return prefix, None
    last = ord(shortened[-1])
    return prefix, shortened[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)


# Rows and texts.


def address_text(address: Address) -> str:
    """Encodes an address as the tables store it: its parts from the narrowest to the widest."""
    return json_text(address[::-1])


def root_text(root: Key, key: Key) -> str | None:
    """Returns the root as heads store it: None for the execution itself."""
    return None if root == key else address_text(root)


def roots_text(roots: Iterable[Key]) -> str:
    """Roots as one argument, for `json_each`."""
    return json_text([address_text(root) for root in sorted(roots)])


def json_text(data: object) -> str:
    """Data as JSON text."""
    return _encode(data).decode()


def head_of(row: Sequence[Any]) -> Head:
    """The head of a row of the columns `head_columns`."""
    address, program, root, *rest, attributes = row
    key = key_of(address)
    return Head(key, program, key if root is None else key_of(root), *(*rest, attributes_from_hex(attributes)))


def message_of(row: Sequence[Any]) -> QueuedMessage:
    """The message in a row of the columns `message_columns`."""
    number, address, *rest = row
    return QueuedMessage(number, address_of(address), *rest)


def key_of(address: str) -> Key:
    """Decodes the address of an execution; see `address_text`."""
    return Key(*_decode(address))


def address_of(text: str) -> Address:
    """Decodes an address; see `address_text`."""
    parts = _decode(text)
    return Key(*parts) if len(parts) == 3 else QueueAddress(*parts)


def _decode(address: str) -> list[str]:
    try:
        return _decoder(address)[::-1]
    except msgspec.DecodeError as error:
        raise LogDamaged(f"it names {address!r}, which is not an address ({error})") from error


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(list[str]).decode
