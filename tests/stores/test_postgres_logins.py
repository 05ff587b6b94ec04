"""Claims about TLS and passwords of the Postgres store, on a real server with certificates of its own."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import StoreUnavailable
from perdure.stores.postgres.connection_settings import connection_settings
from perdure.stores.postgres.connections import PostgresConnections
from tests.stores.servers import PostgresServer, postgres
from tests.stores.test_postgres_connections import no_tables

pytestmark = pytest.mark.real

RULES = "hostssl all badge 127.0.0.1/32 cert\nhost all clerk 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nlocal all all trust\n"


def certificate(directory: Path, name: str, subject: str, *extension: str, signed_by: str = "") -> None:
    """Makes ``name.crt`` and ``name.key``; without `signed_by`, it signs itself."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={subject}"]
    signing = ["-CA", f"{signed_by}.crt", "-CAkey", f"{signed_by}.key"] if signed_by else []
    extensions = [part for one in extension for part in ("-addext", one)]
    subprocess.run([*command, *signing, *extensions, "-keyout", f"{name}.key", "-out", f"{name}.crt"], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificates: an authority, a server and a client of it, and an authority that signed nothing."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    directory = tmp_path_factory.mktemp("certificates")
    for name in ("root", "stranger"):
        certificate(directory, name, name)
    certificate(directory, "server", "localhost", "subjectAltName=DNS:localhost", "basicConstraints=critical,CA:FALSE", signed_by="root")
    certificate(directory, "client", "badge", "basicConstraints=critical,CA:FALSE", signed_by="root")
    return directory


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[PostgresServer]:
    with postgres("15", tcp=True) as server:  # those of wheels are built without TLS
        for name in ("server.crt", "server.key", "root.crt"):
            copy = Path(shutil.copy(place / name, server.directory / name))
            copy.chmod(0o600)
            if user := server.runs_as.get("user"):
                os.chown(copy, int(user), -1)
        (server.data / "pg_hba.conf").write_text(RULES)
        files = {"ssl_cert_file": "server.crt", "ssl_key_file": "server.key", "ssl_ca_file": "root.crt"}
        server.configure(ssl="on", **{name: server.directory / file for name, file in files.items()})
        server.restart()
        server.sql("CREATE ROLE badge LOGIN; CREATE ROLE clerk LOGIN PASSWORD 'first'")
        yield server


@asynccontextmanager
async def connected(server: PostgresServer, user: str = "perdure", host: str = "localhost", **options: Any) -> AsyncIterator[PostgresConnections]:
    opened = PostgresConnections(connection_settings(f"postgresql://{user}@{host}:{server.port}/postgres", **options), no_tables)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("mode", "root", "encrypted"),
    [("disable", "", False), ("prefer", "", True), ("require", "", True), ("verify-ca", "root.crt", True), ("verify-full", "root.crt", True)],
)
async def test_a_server_is_reached_by_each_mode_of_tls(server: PostgresServer, place: Path, mode: str, root: str, encrypted: bool) -> None:
    files = {"sslrootcert": str(place / root)} if root else {}
    async with connected(server, sslmode=mode, **files) as opened:
        assert (await opened.server()).is_encrypted is encrypted


@pytest.mark.parametrize(
    ("mode", "root", "host"), [("verify-ca", "stranger.crt", "localhost"), ("verify-full", "root.crt", "127.0.0.1"), ("verify-full", "system", "localhost")]
)
async def test_a_server_that_is_not_the_one_that_was_meant_is_refused(server: PostgresServer, place: Path, mode: str, root: str, host: str) -> None:
    file = root if root == "system" else str(place / root)
    async with connected(server, host=host, sslmode=mode, sslrootcert=file) as opened:
        with pytest.raises(StoreUnavailable, match=r"certificate verify failed.*check sslmode, sslrootcert, sslcert and sslkey"):
            await opened.server()


async def test_a_client_is_known_by_its_certificate(server: PostgresServer, place: Path) -> None:
    async with connected(server, "badge", sslmode="require", sslcert=str(place / "client.crt"), sslkey=str(place / "client.key")) as opened:
        assert (await opened.server()).role == "badge"
    async with connected(server, "badge", sslmode="require") as opened:
        with pytest.raises(StoreUnavailable, match="check the user and the password"):
            await opened.server()


async def test_a_wrong_password_says_what_to_check_and_not_the_password(server: PostgresServer) -> None:
    async with connected(server, "clerk", password="hunter2") as opened:
        with pytest.raises(StoreUnavailable, match='password authentication failed for user "clerk"; check the user and the password') as refused:
            await opened.server()
    assert "hunter2" not in str(refused.value)


async def asks(opened: PostgresConnections) -> int:
    """Returns the process of a connection at the server."""
    async with opened.connected() as connection:
        return int((await connection.fetch("SELECT pg_backend_pid()"))[0][0])


def next_process(answers: tuple[int | BaseException]) -> int | None:
    """Returns it, or None if the connection was cut, and nobody had noticed yet."""
    (answer,) = answers
    assert isinstance(answer, int | StoreUnavailable) and "password" not in str(answer)
    return answer if isinstance(answer, int) else None


async def test_a_password_that_changes_is_asked_for_with_each_new_connection(server: PostgresServer) -> None:
    passwords = iter(("first", "second"))

    async def password() -> str:
        return next(passwords)

    async with connected(server, "clerk", password=password, connections=1) as opened:
        await opened.server()
        await asyncio.to_thread(
            server.sql, "ALTER ROLE clerk PASSWORD 'second'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'clerk'"
        )
        async with asyncio.timeout(10):
            while next_process(await asyncio.gather(asks(opened), return_exceptions=True)) is None:
                await asyncio.sleep(0.01)
    assert next(passwords, None) is None


async def test_a_password_file_is_read_with_each_new_connection(server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "passwords"
    file.write_text(f"localhost:{server.port}:postgres:clerk:third\n")
    file.chmod(0o600)
    await asyncio.to_thread(server.sql, "ALTER ROLE clerk PASSWORD 'third'")
    monkeypatch.setenv("PGPASSFILE", str(file))
    async with connected(server, "clerk") as opened:
        assert (await opened.server()).role == "clerk"
