"""What surrounds a Postgres in production: a replica that follows it and is promoted, backups, a pooler, and a disk that is too small."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.stores.servers import SOCKET_PORT, VERSION, DatabaseServer, PostgresServer, running, server_directory

PRIMARY: dict[str, object] = {"wal_log_hints": "on", "wal_keep_size": "256MB"}
"""What a primary needs so that it can rejoin as a standby later (``pg_rewind``), and so that a standby that was away finds what it missed."""

PGBOUNCER = "/usr/sbin/pgbouncer"


class FailoverPair(NamedTuple):
    """A `primary` and the `standby` that follows it; after `promote`, exchange the names with `turned`. `url` leads to whichever accepts writes."""

    primary: PostgresServer
    standby: PostgresServer

    @property
    def url(self) -> str:
        """Both hosts, of which clients use the one that accepts writes."""
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self)
        return f"postgresql://perdure@{hosts}/postgres?target_session_attrs=read-write"

    @property
    def turned(self) -> "FailoverPair":
        """The same with the roles exchanged."""
        return FailoverPair(self.standby, self.primary)


@contextmanager
def failover_pair(version: str = VERSION, *, synchronous: bool = False, **settings: object) -> Iterator[FailoverPair]:
    """A primary with a streaming replica. If `synchronous`, a commit is acknowledged when the standby has written it (``synchronous_standby_names``)."""
    with server_directory() as one, server_directory() as two:
        primary, standby = PostgresServer(one, version, tcp=True), PostgresServer(two, version, tcp=True)
        primary.configure(**PRIMARY, **settings)
        primary.make_data()
        for started in running(primary):
            copy_data(standby, primary)
            standby.configure(**PRIMARY, **settings)
            for following in running(standby):
                if synchronous:
                    make_synchronous(primary)
                wait_for_standby(primary)
                yield FailoverPair(started, following)


def make_synchronous(primary: PostgresServer, standbys: str = "ANY 1 (*)") -> None:
    """Have each commit wait for a standby; with ``standbys=""``, for none any more."""
    primary.configure(synchronous_standby_names=standbys)


def wait_for_standby(primary: PostgresServer) -> None:
    """Wait until a standby streams, and until commits wait for it if they should."""
    wanted = "sync_state IN ('sync', 'quorum')" if primary.sql("SHOW synchronous_standby_names") else "true"
    _poll(primary, f"SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming' AND {wanted}")


def wait_until_caught_up(pair: FailoverPair) -> None:
    """Wait until the standby has all that the primary has written so far."""
    written = pair.primary.sql("SELECT pg_current_wal_flush_lsn()")
    _poll(pair.standby, f"SELECT pg_last_wal_replay_lsn() >= '{written}'")


def stop_streaming(standby: PostgresServer) -> None:
    """Have a standby receive nothing any more, as if the network between them were cut."""
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
    standby.sql("SELECT pg_reload_conf()")
    _poll(standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")


def promote(standby: PostgresServer) -> None:
    """Make the standby a primary, and wait until it accepts writes. Nothing waits for a standby of its own then."""
    make_synchronous(standby, "")
    standby.sql("SELECT pg_promote(true, 30)")
    _poll(standby, "SELECT NOT pg_is_in_recovery()")


def rejoin(former: PostgresServer, primary: PostgresServer) -> None:
    """Have a former primary, which was killed or stopped, follow the present one. What only it had is thrown away (``pg_rewind``)."""
    assert not former.is_alive, "stop it first"
    make_synchronous(former, "")
    primary.sql("CHECKPOINT")  # Only then does its control file, which pg_rewind of 15 compares, say that a new timeline has begun.
    options = ("--write-recovery-conf", "--no-sync", f"--config-file={former.settings_file}")
    former.run("pg_rewind", "-D", former.data, "--source-server", _connection(primary), *options)
    former.start()
    wait_for_standby(primary)


def copy_data(target: PostgresServer, source: PostgresServer, *, follow: bool = True) -> None:
    """Have a server that does not run begin with a copy of another's data: as its standby, or if not `follow`, as a database of its own."""
    options = ["--write-recovery-conf"] if follow else []
    target.run("pg_basebackup", "-D", target.data, "-d", _connection(source), "-X", "stream", "--checkpoint=fast", "--no-sync", *options)


def back_up(server: PostgresServer, directory: Path) -> None:
    """Copy a server that runs, as it is now, into a new `directory` (``pg_basebackup``)."""
    kept = server.directory / "backup"
    server.run("pg_basebackup", "-D", kept, "-d", _connection(server), "-X", "stream", "--checkpoint=fast", "--no-sync")
    shutil.move(kept, directory)


def restore(server: PostgresServer, directory: Path) -> None:
    """Put a backup in place of a server's data, and start it."""
    server.stop()
    shutil.rmtree(server.data)
    subprocess.run(["cp", "-a", directory, server.data], check=True)
    server.start()


@contextmanager
def pgbouncer(server: PostgresServer, mode: str = "transaction", **settings: object) -> Iterator[DatabaseServer]:
    """A PgBouncer before a server, with `settings` such as `default_pool_size`. Skips the test where it is not installed."""
    if not Path(PGBOUNCER).exists():
        pytest.skip("PgBouncer is not installed; on Debian: apt-get install pgbouncer")
    with server_directory() as directory:
        lines = {"pool_mode": mode, "auth_type": "any", "unix_socket_dir": directory, "listen_port": SOCKET_PORT, "max_client_conn": 200, **settings}
        there = f"* = host={server.host} port={server.port} user=perdure"
        text = "\n".join(("[databases]", there, "[pgbouncer]", "listen_addr =", *(f"{name} = {value}" for name, value in lines.items()), ""))
        (directory / "pgbouncer.ini").write_text(text)
        ready: list[str | Path] = [server.programs / "psql", "-h", directory, "-U", "perdure", "-d", "postgres", "-X", "-q", "-c", "SELECT 1"]
        pooler = DatabaseServer(
            directory,
            f"postgresql://perdure@/postgres?host={directory}",
            [PGBOUNCER, directory / "pgbouncer.ini"],
            lambda: subprocess.run(ready, capture_output=True).returncode == 0,
        )
        pooler.runs_as = server.runs_as
        yield from running(pooler)


class SmallDisk(NamedTuple):
    """A disk of its own at `path`, for processes that begin with `prefix`. Others find it at `outside`."""

    path: Path
    outside: Path
    prefix: tuple[str, ...]

    def fill(self) -> None:
        """Leave no room."""
        with (self.outside / "ballast").open("ab", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def empty(self) -> None:
        """Leave room again."""
        (self.outside / "ballast").unlink()


@contextmanager
def small_disk(size_mb: int, at: Path) -> Iterator[SmallDisk]:
    """A disk of this size, mounted at `at` for some processes only, so that it is gone when they are. Skips the test if we may not mount."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    owner = at.stat()
    mount = f"mount -t tmpfs -o size={size_mb}m,mode=700,uid={owner.st_uid},gid={owner.st_gid} perdure-test {at} && echo mounted && cat"
    with subprocess.Popen(["unshare", "--mount", "/bin/sh", "-c", mount], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            pytest.skip("this machine does not let us mount a small disk")
        user = (f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups")
        yield SmallDisk(at, Path(f"/proc/{holder.pid}/root{at}"), ("nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "setpriv", *user))
        holder.stdin.close()


@contextmanager
def postgres_on_small_disk(size_mb: int, version: str = VERSION, *, wal_apart: bool = False, **settings: object) -> Iterator[tuple[PostgresServer, SmallDisk]]:
    """A Postgres whose data are on a disk of this size; if `wal_apart`, its write-ahead log is elsewhere."""
    with server_directory() as directory:
        at = directory / "disk"
        at.mkdir()
        os.chown(at, directory.stat().st_uid, directory.stat().st_gid)
        with small_disk(size_mb, at) as disk:
            server = PostgresServer(directory, version, prefix=disk.prefix)
            server.data = at / "data"
            server.configure(min_wal_size="32MB", max_wal_size="64MB", **settings)
            server.make_data(*(("--waldir", directory / "wal") if wal_apart else ()))
            for started in running(server):
                yield started, disk


def _connection(server: PostgresServer) -> str:
    return f"host={server.directory} port={server.port} user=perdure dbname=postgres application_name=standby"


def _poll(server: PostgresServer, question: str) -> None:
    """Wait until the answer is yes."""
    again = "PERFORM pg_stat_clear_snapshot(); PERFORM pg_sleep(0.02)"
    server.sql(f"DO $$ BEGIN FOR turn IN 1..1500 LOOP IF ({question}) THEN RETURN; END IF; {again}; END LOOP; RAISE 'not in 30 s'; END $$")
