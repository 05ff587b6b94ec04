"""Runs a module and counts what it asks of SQLite: ``python -m tests.runtime.statement_counter MODULE ...``.

The counts stand in the file `COUNTS` and the process's id, in the working directory: statements, then claims.
"""

import mmap
import os
import runpy
import sqlite3
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

COUNTS = "counts-"
_COUNTS = struct.Struct("QQ")


class Counts(NamedTuple):
    """How many statements were carried out, and how many claims were made."""

    statements: int
    claims: int


def counts(directory: Path, pid: int) -> Counts:
    """What a process has counted so far."""
    return Counts(*_COUNTS.unpack((directory / f"{COUNTS}{pid}").read_bytes()))


def _count() -> None:
    from perdure.stores.sqlite.database_file import DatabaseFile
    from perdure.stores.sqlite.store import SqliteStore

    path = Path(f"{COUNTS}{os.getpid()}")
    path.write_bytes(_COUNTS.pack(0, 0))
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), _COUNTS.size)
    connect, claim = DatabaseFile.connect, SqliteStore.claim

    def add(statements: int, claims: int) -> None:
        before = _COUNTS.unpack_from(shared)
        _COUNTS.pack_into(shared, 0, before[0] + statements, before[1] + claims)

    def counting_connect(self: DatabaseFile, **options: Any) -> sqlite3.Connection:
        connection = connect(self, **options)
        connection.set_trace_callback(lambda _: add(1, 0))
        return connection

    async def counting_claim(self: SqliteStore, asked: Any) -> Any:
        add(0, 1)
        return await claim(self, asked)

    for kind, name, counting in ((DatabaseFile, "connect", counting_connect), (SqliteStore, "claim", counting_claim)):
        setattr(kind, name, counting)


if __name__ == "__main__":
    _count()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
