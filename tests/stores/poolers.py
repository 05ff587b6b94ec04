"""PgBouncer before a server of the tests, in transaction mode: that of Debian, which has no prepared statements there."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

START_S = 20.0


@contextmanager
def pgbouncer(server_url: str, pool_size: int = 3) -> Iterator[str]:
    """Yields the URL of a PgBouncer with so many connections to the server at `server_url`, which listens on a socket."""
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    parts = urlsplit(server_url)
    (there,), database = parse_qs(parts.query)["host"], parts.path[1:]
    directory = Path(tempfile.mkdtemp(prefix="perdure-pool-"))
    (directory / "users").write_text(f'"{parts.username}" ""\n')
    lines = (
        *("[databases]", f"{database} = host={there} dbname={database} user={parts.username}", "[pgbouncer]", "listen_addr =", "listen_port = 5432"),
        *(f"unix_socket_dir = {directory}", "auth_type = trust", f"auth_file = {directory}/users", "pool_mode = transaction"),
        *(f"default_pool_size = {pool_size}", "max_client_conn = 200", f"logfile = {directory}/log", "log_connections = 0", "log_disconnections = 0"),
    )
    (directory / "ini").write_text("\n".join(lines) + "\n")
    user = None
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody").pw_uid
        for path in (directory, *directory.iterdir()):
            os.chown(path, user, -1)
    process = subprocess.Popen([program, str(directory / "ini")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user)
    try:
        give_up = time.monotonic() + START_S
        while not (directory / ".s.PGSQL.5432").exists():
            assert time.monotonic() < give_up and process.poll() is None, (directory / "log").read_text()
            time.sleep(0.02)
        yield server_url.replace(there, str(directory))
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory)
