"""Claims about the servers that tests use: they are what a test asks for, lose nothing when they are killed, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.stores.postgres_clusters import back_up, failover_pair, make_synchronous, pgbouncer, postgres_on_small_disk, promote, rejoin, restore
from tests.stores.servers import VERSIONS, PostgresServer, postgres

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]


def write(server: PostgresServer, number: int) -> None:
    server.sql(f"CREATE TABLE IF NOT EXISTS numbers (number int); INSERT INTO numbers VALUES ({number})")


def numbers(server: PostgresServer) -> list[int]:
    return [int(line) for line in server.sql("SELECT number FROM numbers ORDER BY number").split()]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_has_its_version_and_settings_and_what_it_kept_when_it_was_killed(version: str) -> None:
    with postgres(version, tcp=True, max_connections=12, fsync="on") as server:
        assert server.sql("SHOW server_version").split(".")[0] == version
        write(server, 1)
        server.kill()
        assert not server.is_alive
        server.configure(statement_timeout="7s")
        server.start()
        write(server, 2)
        server.restart()
        connection = await asyncpg.connect(server.url)
        assert [await connection.fetchval(f"SHOW {name}") for name in ("max_connections", "fsync", "statement_timeout")] == ["12", "on", "7s"]
        await connection.close()
        assert numbers(server) == [1, 2]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_standby_takes_over_and_the_killed_primary_follows_it(version: str) -> None:
    with failover_pair(version, synchronous=True) as pair:
        write(pair.primary, 1)
        pair.primary.kill()
        promote(pair.standby)
        connection = await asyncpg.connect(pair.url)
        await connection.execute("INSERT INTO numbers VALUES (2)")
        await connection.close()
        rejoin(pair.primary, pair.standby)
        make_synchronous(pair.standby)
        write(pair.standby, 3)
        pair.standby.kill()
        promote(pair.primary)
        assert numbers(pair.primary) == [1, 2, 3]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_backup_is_what_there_was_when_it_was_made(version: str, tmp_path: Path) -> None:
    with postgres(version) as server:
        write(server, 1)
        back_up(server, tmp_path / "backup")
        write(server, 2)
        restore(server, tmp_path / "backup")
        assert numbers(server) == [1]


async def test_a_pooler_in_transaction_mode_has_no_sessions() -> None:
    with postgres() as server, pgbouncer(server, default_pool_size=1) as pooler:
        one, two = [await asyncpg.connect(pooler.url, statement_cache_size=0) for _ in range(2)]
        pids = {await connection.fetchval("SELECT pg_backend_pid()") for connection in (one, two, one)}
        assert len(pids) == 1
        await one.close()
        await two.close()


@pytest.mark.parametrize("wal_apart", [True, False])
def test_a_small_disk_fills_and_what_was_written_before_is_there_when_it_has_room(wal_apart: bool) -> None:
    with postgres_on_small_disk(120, wal_apart=wal_apart) as (server, disk):
        write(server, 1)
        disk.fill()
        with pytest.raises(AssertionError, match=r"No space left on device|server closed the connection"):
            server.sql("INSERT INTO numbers SELECT 2 FROM generate_series(1, 1000000)")
        disk.empty()
        server.kill()
        server.start()
        assert numbers(server) == [1]


STARTS = "from tests.stores.servers import postgres\nimport time\nwith postgres() as s:\n    print(s.directory, s.pid, flush=True)\n    time.sleep(60)\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_stays_behind_when_the_tests_are_killed(number: signal.Signals) -> None:
    command = [sys.executable, "-W", "ignore", "-c", STARTS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True) as tests:
        assert tests.stdout is not None
        directory, pid = tests.stdout.readline().split()
        os.killpg(tests.pid, number)
    give_up = time.monotonic() + 20
    while Path(directory).exists() or Path(f"/proc/{pid}").exists():
        assert time.monotonic() < give_up, directory
        time.sleep(0.02)
