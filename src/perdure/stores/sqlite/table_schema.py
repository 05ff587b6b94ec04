"""The tables of the SQLite store, the steps that lead to them from those of earlier versions.

An address is kept as JSON text, of three parts for an execution and two for a queue, so that no two addresses are the same
text. An execution is its `heads.number` elsewhere, which counts creations. One index answers a claim: by holder, by name (of a
program or a queue), by the time waited for; the order of a line in the memory store. Whoever may hold something is in `holders`,
dead or alive: `until_s` is None for who never renewed, has let go, or lived in an earlier epoch. In `attributes` stands what executions are
found by, in the form that is compared as bytes. The `vault` keeps secrets, encrypted.
`programs` are those that need capabilities, of all executions that there were. In `blob_marks` are the blobs that a sweep may remove, in
`removed_blobs` those of which is noted when they were removed (see `perdure.stores.blob_marks`).

`meta` has one row, which every transaction reads. `membership` is raised when holders or processes come and go, `restored` is 1
in a backup that was not yet opened, `file` is a random name that no other database has, and `writes` counts the transactions that changed anything
(see `perdure.stores.sqlite.write_ahead_log`). The rest is the anchor of the store's time.

Files are made with incremental vacuum, so that `perdure db vacuum` can give pages back one batch after another.
"""

import secrets
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import NamedTuple

from perdure.stores.sqlite.database_file import APPLICATION_ID

_STRICT = " STRICT" if sqlite3.sqlite_version_info >= (3, 37) else ""

_META = f"""
CREATE TABLE meta (
    version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    membership INTEGER NOT NULL,
    time_s REAL NOT NULL,
    monotonic_s REAL NOT NULL,
    boot TEXT NOT NULL,
    restored INTEGER NOT NULL,
    file TEXT NOT NULL,
    writes INTEGER NOT NULL
){_STRICT};
CREATE TABLE processes (
    name TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    port INTEGER,
    token BLOB,
    wakes INTEGER NOT NULL,
    news INTEGER NOT NULL
){_STRICT};
CREATE TABLE holders (name TEXT PRIMARY KEY, process TEXT, until_s REAL, about BLOB){_STRICT};
"""
_HEADS = f"""
CREATE TABLE heads (
    number INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    workflow TEXT NOT NULL,
    id TEXT NOT NULL,
    program TEXT NOT NULL,
    root TEXT NOT NULL,
    version INTEGER NOT NULL,
    holder TEXT,
    wake_at_s REAL,
    mail_at_s REAL,
    status TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    ended_at_s REAL,
    ready_at_s REAL GENERATED ALWAYS AS (coalesce(min(wake_at_s, mail_at_s), wake_at_s, mail_at_s)) VIRTUAL,
    queue TEXT NOT NULL DEFAULT '',
    lane TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    limited INTEGER NOT NULL DEFAULT 0,
    begun INTEGER GENERATED ALWAYS AS (version > 0) VIRTUAL
){_STRICT};
CREATE INDEX heads_of_family ON heads (root, ready_at_s);
CREATE INDEX heads_by_id ON heads (id);
CREATE INDEX heads_by_workflow ON heads (tenant, workflow, status);
CREATE INDEX heads_by_status ON heads (status);
CREATE INDEX heads_by_time ON heads (created_at_s);
CREATE INDEX heads_waiting ON heads (holder, program, ready_at_s) WHERE limited = 0;
CREATE INDEX heads_in_line ON heads (queue, lane, begun, priority, ready_at_s) WHERE limited = 1 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_due_in_queue ON heads (queue, ready_at_s) WHERE limited = 1 AND holder IS NULL AND ready_at_s IS NOT NULL;
CREATE INDEX heads_held_in_queues ON heads (holder) WHERE limited = 1 AND holder IS NOT NULL;
CREATE INDEX heads_by_queue ON heads (queue, holder, ready_at_s) WHERE queue <> '';
"""
_PROGRAMS = f"CREATE TABLE programs (name TEXT PRIMARY KEY) WITHOUT ROWID{_STRICT and ', STRICT'};"
_ATTRIBUTES = f"""
CREATE TABLE attributes (number INTEGER NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (number, name)) WITHOUT ROWID{_STRICT and ", STRICT"};
CREATE INDEX attributes_by_value ON attributes (name, value, number);
"""
_REST = f"""
CREATE TABLE log (execution INTEGER NOT NULL, version INTEGER NOT NULL, row BLOB NOT NULL){_STRICT};
CREATE UNIQUE INDEX log_of_execution ON log (execution, version);
CREATE TABLE mail (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT NOT NULL,
    key TEXT NOT NULL,
    body BLOB NOT NULL,
    due_at_s REAL NOT NULL,
    queue TEXT,
    holder TEXT,
    deliveries INTEGER NOT NULL DEFAULT 0,
    unclaimed INTEGER,
    lane TEXT NOT NULL DEFAULT '',
    priority INTEGER NOT NULL DEFAULT 0,
    begun INTEGER GENERATED ALWAYS AS (deliveries > 0) VIRTUAL,
    UNIQUE (address, key)
){_STRICT};
CREATE INDEX mail_waiting ON mail (holder, queue, due_at_s) WHERE queue IS NOT NULL;
CREATE INDEX mail_in_line ON mail (queue, lane, begun, priority, due_at_s) WHERE queue IS NOT NULL AND holder IS NULL;
CREATE INDEX mail_unclaimed ON mail (due_at_s) WHERE unclaimed IS NOT NULL;
CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, bytes BLOB NOT NULL){_STRICT};
CREATE TABLE blob_marks (sha256 TEXT PRIMARY KEY, sweep TEXT NOT NULL) WITHOUT ROWID{_STRICT and ", STRICT"};
CREATE TABLE removed_blobs (sha256 TEXT PRIMARY KEY, at_s REAL NOT NULL) WITHOUT ROWID{_STRICT and ", STRICT"};
"""
_QUEUES = f"""
CREATE TABLE queues (
    name TEXT PRIMARY KEY,
    concurrency INTEGER,
    per_lane INTEGER,
    interval_s REAL NOT NULL,
    burst INTEGER NOT NULL,
    declared TEXT NOT NULL,
    turn REAL NOT NULL,
    free_at_s REAL NOT NULL,
    free_for_work_at_s REAL NOT NULL
){_STRICT};
CREATE TABLE lanes (queue TEXT NOT NULL, lane TEXT NOT NULL, work INTEGER NOT NULL, turn REAL NOT NULL, PRIMARY KEY (queue, lane, work)){_STRICT};
CREATE INDEX lanes_by_turn ON lanes (queue, turn);
"""
_VAULT = f"""
CREATE TABLE vault (tenant TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, sealed BLOB NOT NULL, set_at_s REAL NOT NULL,
    PRIMARY KEY (tenant, name)) WITHOUT ROWID{_STRICT and ", STRICT"};
"""


class SchemaStep(NamedTuple):
    """What makes the tables of `version` from those of the version before, inside of a transaction."""

    version: int
    title: str
    carry_out: Callable[[sqlite3.Connection], None]


def statements(script: str) -> list[str]:
    """The statements of a script that has no semicolon but between them. (`executescript` would commit.)"""
    return [statement for part in script.split(";") if (statement := part.strip())]


_STATEMENTS = statements(_META + _HEADS + _PROGRAMS + _ATTRIBUTES + _REST + _QUEUES + _VAULT)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make all tables, inside of a transaction."""
    for statement in _STATEMENTS:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES (?, 1, 0, 0, 0, '', 0, ?, 0)", (SCHEMA_VERSION, secrets.token_hex(16)))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def schema_differences(connection: sqlite3.Connection) -> list[str]:
    """Where the tables of a database are not as this version makes them: columns and indexes by name. Tables and indexes of others do not matter."""
    if {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}.issuperset(_STATEMENTS):
        return []  # word for word, as in every file that was not upgraded
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
    return frozenset(connection.execute(_COLUMNS)), frozenset(connection.execute(_INDEXES))


_COLUMNS = """
SELECT of.name, its.name, its.type, its."notnull", its.dflt_value, its.pk, its.hidden
    FROM sqlite_master AS of JOIN pragma_table_xinfo(of.name) AS its WHERE of.type = 'table' AND substr(of.name, 1, 7) <> 'sqlite_'
"""
_INDEXES = """
SELECT of.tbl_name, of.name, its.seqno, its.name, its."desc", instr(of.sql, ' WHERE ') > 0
    FROM sqlite_master AS of JOIN pragma_index_xinfo(of.name) AS its WHERE of.type = 'index' AND of.sql IS NOT NULL
"""

SCHEMA_STEPS: tuple[SchemaStep, ...] = ()
"""What brings older tables to this version, one version at a time; there is no older one that is read."""

SCHEMA_VERSION = 7
OLDEST_SCHEMA_VERSION = SCHEMA_VERSION - len(SCHEMA_STEPS)
"""The oldest version whose tables are upgraded. Those before were of development versions."""
