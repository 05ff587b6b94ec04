"""What outlives a process, and how the next one finds it: a store in memory, as if on a server, a file, or a database on a server.

What is simulated is the death of processes, not the loss of power: files are written without waiting for the disk.
"""

import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Protocol

import asyncpg  # type: ignore[import-untyped]  # it has no types

from perdure.stores.memory import MemoryStore
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.immediate_calls import AtOnce, SideLoop, run_immediately

Clock = Callable[[], float]


class Disk(Protocol):
    """Where a world keeps its store. `at_once` carries out the calls of any store opened on it."""

    at_once: AtOnce

    def opened(self, clock: Clock) -> Store:
        """The store, as a process finds it that begins now."""
        ...

    def crash(self) -> None:
        """The process that had the store open dies, without closing it."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class MemoryDisk:
    """A store in memory that knows nothing of its processes but what they tell it, and takes one for alive until its lease runs out."""

    def __init__(self, reaches: int = 1) -> None:
        self.at_once: AtOnce = run_immediately
        self._reaches = reaches
        self._store: MemoryStore | None = None

    def opened(self, clock: Clock) -> Store:
        """See `Disk.opened`."""
        if self._store is None:
            self._store = MemoryStore(clock, self._reaches)
        return self._store

    def crash(self) -> None:
        """See `Disk.crash`."""

    def close(self) -> None:
        """See `Disk.close`."""


class SqliteDisk:
    """A SQLite file in `directory`. Who comes after a crash finds a copy of what the dead process had written by then, and no lock of it."""

    def __init__(self, directory: Path) -> None:
        self._aside = SideLoop()
        self.at_once: AtOnce = self._aside
        self._directory = directory
        self._lives = 0
        self._store: SqliteStore | None = None

    def opened(self, clock: Clock) -> Store:
        """See `Disk.opened`."""
        if self._store is None:
            self._store = SqliteStore(self._home / "perdure.db", clock, synchronous="OFF")
        return self._store

    def crash(self) -> None:
        """See `Disk.crash`."""
        before = self._home
        self._lives += 1
        shutil.copytree(before, self._home, ignore=shutil.ignore_patterns("*-shm"))  # shared memory, which dies with the last process
        self._drop()
        shutil.rmtree(before)

    def close(self) -> None:
        """See `Disk.close`. The file is removed."""
        self._drop()
        self._aside.close()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def _home(self) -> Path:
        return self._directory / f"life{self._lives}"

    def _drop(self) -> None:
        """Let go of the store of a process that is no more. Closing it writes what nobody will read."""
        if self._store is not None:
            self.at_once(self._store.close())
            self._store = None


class PostgresDisk:
    """A database of its own on the Postgres at `url`. Who comes after a crash finds all that was committed, and connects anew."""

    _numbers = count(1)

    def __init__(self, url: str) -> None:
        self._aside = SideLoop()
        self.at_once: AtOnce = self._aside
        self._server, self._name = url, f"world{next(self._numbers)}"
        self._store: PostgresStore | None = None
        self.at_once(self._execute(f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)", f"CREATE DATABASE {self._name}"))

    def opened(self, clock: Clock) -> Store:
        """See `Disk.opened`."""
        if self._store is None:
            self._store = PostgresStore(self._server.replace("/postgres?", f"/{self._name}?"), clock)
        return self._store

    def crash(self) -> None:
        """See `Disk.crash`."""
        if self._store is not None:
            self.at_once(self._store.close())
            self._store = None

    def close(self) -> None:
        """See `Disk.close`. The database is removed."""
        self.crash()
        self.at_once(self._execute(f"DROP DATABASE {self._name} WITH (FORCE)"))
        self._aside.close()

    async def _execute(self, *statements: str) -> None:
        connection = await asyncpg.connect(self._server)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()
