"""The tables of the SQLite store, which `tables.sql` holds, and the steps that upgrade those of earlier versions.

In the one row of `meta`, `membership` is raised when holders or processes come and go, `restored` is 1 in a backup that was not yet opened,
`file` is a random name that no other database has, and `writes` counts the transactions that changed anything (see
`perdure.stores.sqlite.write_ahead_log`). Files are made with incremental vacuum, so that `perdure db vacuum` can give back pages in batches.
"""

import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from perdure.stores.sqlite import feed_reader
from perdure.stores.sqlite.database_file import APPLICATION_ID
from perdure.stores.sqlite.statements import SQL


class SchemaStep(NamedTuple):
    """An upgrade of the tables from the version before to `version`, carried out inside of a transaction."""

    version: int
    title: str
    carry_out: Callable[[sqlite3.Connection], None]


def _statements(name: str) -> list[str]:
    """Returns the statements of a file. (`executescript` would commit, so each is executed by itself.)"""
    script = files("perdure.stores.sqlite").joinpath(name).read_text(encoding="utf-8")
    script = "".join(line for line in script.splitlines(keepends=True) if not line.startswith("--"))
    if sqlite3.sqlite_version_info < (3, 37):
        script = script.replace(" WITHOUT ROWID, STRICT", " WITHOUT ROWID").replace(") STRICT;", ");")
    return [statement for part in script.split(";") if (statement := part.strip())]


_STATEMENTS = _statements("tables.sql")


def create_tables(connection: sqlite3.Connection) -> None:
    """Create all tables, inside of a transaction."""
    for statement in _STATEMENTS:
        connection.execute(statement)
    connection.execute(SQL.create_meta, (SCHEMA_VERSION, secrets.token_hex(16)))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def schema_differences(connection: sqlite3.Connection) -> list[str]:
    """The columns and indexes, by name, in which a database differs from this version. Tables and indexes of others do not matter."""
    if {sql for (sql,) in connection.execute(SQL.table_statements)}.issuperset(_STATEMENTS):
        return []  # The text is the same in every file that was not upgraded.
    columns, indexes = _columns_and_indexes(connection)
    our_columns, our_indexes = _expected_schema()
    tables = {table for table, *_ in our_columns}
    other_columns = our_columns ^ {column for column in columns if column[0] in tables}
    return sorted({f"{table}.{name}" for table, name, *_ in (*other_columns, *(our_indexes - indexes))})


ColumnsAndIndexes = frozenset[tuple[str | int | None, ...]]


@cache
def _expected_schema() -> tuple[ColumnsAndIndexes, ColumnsAndIndexes]:
    with closing(sqlite3.connect(":memory:")) as new:
        create_tables(new)
        return _columns_and_indexes(new)


def _columns_and_indexes(connection: sqlite3.Connection) -> tuple[ColumnsAndIndexes, ColumnsAndIndexes]:
    return frozenset(connection.execute(SQL.table_columns)), frozenset(connection.execute(SQL.index_columns))


def _run_script(name: str) -> Callable[[sqlite3.Connection], None]:
    """Returns a function that runs the statements of a file, without the triggers of a change feed, which are made again as they are in this version."""

    def run(connection: sqlite3.Connection) -> None:
        has_feed = connection.execute(SQL.is_scanned).fetchone() != (None,)
        for trigger in feed_reader.trigger_statements():
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        for statement in _statements(name):
            connection.execute(statement)
        if has_feed:
            for statement in feed_reader.trigger_statements().values():
                connection.execute(statement)

    return run


SCHEMA_STEPS: tuple[SchemaStep, ...] = (SchemaStep(10, "let tenants have limits of their own in queues", _run_script("upgrade_to_10.sql")),)
"""The upgrades from older versions of the tables, one version at a time. Versions before the first one belonged to development versions."""

SCHEMA_VERSION = 10
OLDEST_SCHEMA_VERSION = SCHEMA_VERSION - len(SCHEMA_STEPS)
"""The oldest version whose tables are upgraded. Earlier ones belonged to development versions."""
