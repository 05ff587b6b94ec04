"""Attributes in SQLite: a row for each, in an index by name and value, written by the commit that changes them. Who has none has no row, and pays nothing.

A list of those that have one value is read off the index, newest first. Of those that have any value of a range, all are looked up and put in order, if they
are not too many. So of several conditions the one is looked up that the fewest fulfil. Where `MANY` fulfil a range, going through the newest executions
finds enough of them sooner.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from perdure.core.attributes import Indexed
from perdure.core.where import Condition
from perdure.stores.sqlite.file import Execute

TOLD = "(SELECT group_concat(hex(name) || '=' || hex(value)) FROM attributes WHERE attributes.number = heads.number)"
"""The column of a head that has its attributes."""

FOUND = "attributes INDEXED BY attributes_by_value CROSS JOIN heads USING (number)"
"""Where the heads are that have some attribute."""

MANY = 10_000
"""From so many on, how many there are is not counted."""

COUNT = "SELECT count(*) FROM (SELECT 1 FROM attributes INDEXED BY attributes_by_value WHERE name = ? AND value >= ? AND value < ? LIMIT ?)"

FORGET = "DELETE FROM attributes WHERE number = ?"
KEEP = "INSERT INTO attributes (number, name, value) VALUES (?, ?, ?)"


def write(execute: Execute, executemany: Callable[[str, Iterable[Any]], sqlite3.Cursor], number: int, attributes: Indexed) -> None:
    """These are the attributes of the execution from now on; an execution that is removed has none."""
    execute(FORGET, (number,))
    executemany(KEEP, [(number, name, value) for name, value in attributes])


def rarest(execute: Execute, where: Sequence[Condition]) -> Condition | None:
    """The condition whose executions are to be looked up, if those of any are."""
    if len(where) == 1 and where[0].points:
        return where[0]
    counted = [(sum(_count(execute, condition.name, *span) for span in condition.spans), not condition.points, condition) for condition in where]
    count, is_range, condition = min(counted, key=itemgetter(0, 1), default=(MANY, True, None))
    return condition if count < MANY or not is_range else None


def _count(execute: Execute, name: str, low: bytes, high: bytes) -> int:
    (count,) = execute(COUNT, (name, low, high, MANY)).fetchone()
    return int(count)


def lines(condition: Condition) -> list[dict[str, object]]:
    """What is asked of the index, so that together there are all that a condition means."""
    if points := condition.points:
        return [{"name = ?": condition.name, "value = ?": point} for point in points]
    return [{"name = ?": condition.name, "value >= ?": low, "value < ?": high} for low, high in condition.spans]


def holds(condition: Condition) -> tuple[str, tuple[object, ...]]:
    """The same as a condition on a head."""
    within = " OR ".join("(other.value >= ? AND other.value < ?)" for _ in condition.spans)
    bounds = (bound for span in condition.spans for bound in span)
    return f"EXISTS (SELECT 1 FROM attributes AS other WHERE other.number = heads.number AND other.name = ? AND ({within}))", (condition.name, *bounds)
