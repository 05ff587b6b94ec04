"""A version of the tables that is yet to come, planted: what upgrading is tested with."""

import sqlite3

import pytest

from perdure.stores.sqlite import database_setup, store_tables
from perdure.stores.sqlite.table_schema import SCHEMA_STEPS, SCHEMA_VERSION, SchemaStep

NEXT = SCHEMA_VERSION + 1
TIMES = 10


def _note(connection: sqlite3.Connection) -> None:
    """Give every execution a note, so that each row is written anew; several times, so that who upgrades a large file can be caught at it."""
    connection.execute("ALTER TABLE heads ADD COLUMN note TEXT NOT NULL DEFAULT ''")
    connection.execute("CREATE INDEX heads_by_note ON heads (note)")
    for time in range(TIMES):
        connection.execute("UPDATE heads SET note = address || ?", ("." * (TIMES - 1 - time),))


STEP = SchemaStep(NEXT, "let executions have a note", _note)


def _nothing(_: object) -> list[str]:
    return []


def plant(planted: pytest.MonkeyPatch, step: SchemaStep = STEP) -> None:
    """Have this process believe that the version of `step` is the present one."""
    planted.setattr(database_setup, "SCHEMA_STEPS", (*SCHEMA_STEPS, step))
    planted.setattr(database_setup, "schema_differences", _nothing)
    for module in (database_setup, store_tables):
        planted.setattr(module, "SCHEMA_VERSION", step.version)
