"""Processes that are killed at a chosen call of the system or statement of SQLite."""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from perdure.stores.sqlite.database_file import DatabaseFile


def in_a_child(do: Callable[[], object], *expected: int) -> int:
    """Do it in a process of its own; return how that ended."""
    return ended(begun(do), *expected)


def begun(do: Callable[[], object]) -> int:
    """The id of a process that does it."""
    if not (child := os.fork()):
        try:
            do()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def ended(child: int, *expected: int) -> int:
    """Wait for a process; return how it ended."""
    _, status = os.waitpid(child, 0)
    assert status in expected
    return status


EVENTS = {"open", "os.rename", "os.remove", "os.link", "os.chmod", "sqlite3.connect"}


class CountedConnection(sqlite3.Connection):
    """Has every statement counted."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        sys.audit("tests.statement")
        return super().execute(*arguments)


def killed_at(number: int, do: Callable[[], object]) -> bool:
    """Whether a process that does this was killed before its call of the system, or its statement, of this number; there were fewer otherwise."""
    left = count()

    def heard(event: str, _: object) -> None:
        if (event in EVENTS or event == "tests.statement") and next(left) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def begin() -> None:
        DatabaseFile.factory = CountedConnection
        sys.addaudithook(heard)
        do()

    return in_a_child(begin, 0, signal.SIGKILL) != 0
