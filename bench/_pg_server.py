"""The server of `bench/postgres.py`: a Postgres of its own, as durable as one in production, and its own limits, measured by pgbench."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench._disk import described
from tests.stores.servers import PostgresServer, postgres

SERVER_PROCESSOR, CLIENT_PROCESSOR = 0, 1
ROW_BYTES = 140

SETTINGS: dict[str, object] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_connections": 100,
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
}
"""Durable, and with room; a checkpoint is made before each turn, so that none comes in the middle of one."""

TABLE = "CREATE TABLE limit_rows (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL)"
INSERT = f"INSERT INTO limit_rows (payload) SELECT decode(repeat('2a', {ROW_BYTES}), 'hex') FROM generate_series(1, {{}});\n"


@dataclass(frozen=True)
class Limit:
    """What the server is asked for: transactions of so many rows on so many connections."""

    what: str
    connections: int
    rows: int


LIMITS = {
    "one": Limit("one-row commits on 1 connection", 1, 1),
    "sixteen": Limit("one-row commits on 16 connections", 16, 1),
    "hundred": Limit("rows in transactions of 100, on 1 connection", 1, 100),
}


@dataclass
class BenchServer:
    """A running server, on a processor of its own if `is_pinned`."""

    server: PostgresServer
    is_pinned: bool
    _fresh: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yields the URL of a new database, which is dropped at the end. The disk has nothing left to write when it begins."""
        name = f"bench_{next(self._fresh)}"
        self.server.sql(f"CREATE DATABASE {name}")
        self.server.sql("CHECKPOINT")
        try:
            yield self.url(name)
        finally:
            self.server.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def url(self, database: str) -> str:
        """The URL of a database, by TCP on this machine."""
        return f"postgresql://perdure@{self.server.host}:{self.server.port}/{database}"

    def limit(self, name: str, seconds: int) -> float:
        """How many rows a second the server commits, by pgbench with prepared statements from the processor of the engines."""
        limit = LIMITS[name]
        with self.database() as url:
            self.server.sql(TABLE, url.rpartition("/")[2])
            script = self.server.directory / "limit.sql"
            script.write_text(INSERT.format(limit.rows))
            options = ["-n", "-M", "prepared", "-c", str(limit.connections), "-j", "1", "-T", str(seconds), "-f", str(script)]
            done = subprocess.run([self.server.programs / "pgbench", *options, url], capture_output=True, text=True, check=True)
        (rate,) = re.findall(r"tps = ([\d.]+)", done.stdout)
        return float(rate) * limit.rows

    def cpu_s(self) -> float:
        """The processor time that all processes of the server have used."""
        ticks = sum(map(_ticks, [self.server.pid, *_children(self.server.pid)]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def heading(self) -> list[str]:
        """Its version, its settings as it reports them, and where it runs."""
        names = (*SETTINGS, "wal_sync_method", "wal_level")
        settings = ", ".join(f"{name}={self.server.sql(f'SHOW {name}')}" for name in names)
        where = (
            f"server pinned to processor {SERVER_PROCESSOR}, engines, clients and pgbench to {CLIENT_PROCESSOR}; of two engines each may use both"
            if self.is_pinned
            else "nothing is pinned"
        )
        return [
            f"Postgres {self.server.sql('SHOW server_version')} on 127.0.0.1, {described(self.server.directory)}: {settings}",
            f"{where}; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the beginning",
        ]


@contextmanager
def bench_server(version: str, pin: bool) -> Iterator[BenchServer]:
    """Yields a server with `SETTINGS`, away from this process and what it starts if `pin` and if there are two processors to be had."""
    is_pinned = pin and hasattr(os, "sched_setaffinity") and {SERVER_PROCESSOR, CLIENT_PROCESSOR} <= os.sched_getaffinity(0)
    if pin and not is_pinned:
        print("Nothing is pinned: this needs Linux and two processors.", file=sys.stderr)
    with postgres(version, tcp=True, **SETTINGS) as server:
        if is_pinned:
            for pid in (server.pid, *_children(server.pid)):  # those that it starts from now on follow it
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(pid, {SERVER_PROCESSOR})
        os.environ["PATH"] = os.pathsep.join([str(server.programs), os.environ["PATH"]])  # for absurdctl, which calls psql
        with processors({CLIENT_PROCESSOR} if is_pinned else None):
            yield BenchServer(server, is_pinned)


@contextmanager
def processors(which: set[int] | None) -> Iterator[None]:
    """Has this process, and those that it starts meanwhile, use only these processors."""
    if which is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, which)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _ticks(pid: int) -> int:
    """The time that a process has used, with those of its children that have ended."""
    with suppress(OSError):
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return 0
