"""Attributes in SQLite: a row for each, in an index by name and value, written by the commit that changes them. Who has none has no row, and pays nothing.

A list of those that have one value is read off the index, newest first. Of those that have any value of a range, all are looked up and put in order.
"""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from perdure.core.attributes import Indexed
from perdure.core.where import Condition
from perdure.stores.sqlite.file import Execute

TOLD = "(SELECT group_concat(hex(name) || '=' || hex(value)) FROM attributes WHERE attributes.number = heads.number)"
"""The column of a head that has its attributes."""

FOUND = "attributes INDEXED BY attributes_by_value CROSS JOIN heads USING (number)"
"""Where the heads are that have some attribute."""

FORGET = "DELETE FROM attributes WHERE number = ?"
KEEP = "INSERT INTO attributes (number, name, value) VALUES (?, ?, ?)"


def write(execute: Execute, executemany: Callable[[str, Iterable[Any]], sqlite3.Cursor], number: int, attributes: Indexed) -> None:
    """These are the attributes of the execution from now on; an execution that is removed has none."""
    execute(FORGET, (number,))
    executemany(KEEP, [(number, name, value) for name, value in attributes])


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
