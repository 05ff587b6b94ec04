"""A version of the tables that is yet to come, planted: what upgrading is tested with."""

import sqlite3

import pytest

from perdure.stores.sqlite import opening, rekey, tables
from perdure.stores.sqlite.schema import STEPS, VERSION, Step

NEXT = VERSION + 1


def _note(connection: sqlite3.Connection) -> None:
    """Give every execution a note, so that each row is written anew."""
    connection.execute("ALTER TABLE heads ADD COLUMN note TEXT NOT NULL DEFAULT ''")
    connection.execute("UPDATE heads SET note = id")
    connection.execute("CREATE INDEX heads_by_note ON heads (note)")


STEP = Step(NEXT, "let executions have a note", _note)


def _nothing(_: object) -> list[str]:
    return []


def plant(planted: pytest.MonkeyPatch, step: Step = STEP) -> None:
    """Have this process believe that the version of `step` is the present one."""
    planted.setattr(opening, "STEPS", (*STEPS, step))
    planted.setattr(opening, "differences", _nothing)
    for module in (opening, rekey, tables):
        planted.setattr(module, "VERSION", step.version)
