"""Claims about the command line on a database in Postgres: it is used as a file is, by its URL."""

import asyncio
from collections.abc import Iterator

import pytest

from perdure import App, Client
from perdure.cli.exit_codes import ExitCode
from tests.cli.conftest import flows
from tests.cli.shell import Shell
from tests.stores.servers import PostgresServer, postgres

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture
def shell(server: PostgresServer) -> Shell:
    """A shell on an empty schema."""
    server.sql("DROP SCHEMA IF EXISTS shop CASCADE")
    return Shell(f"{server.url}&perdure_schema=shop")


def test_commands_that_examine_a_database_make_no_tables(shell: Shell, server: PostgresServer) -> None:
    for command in ("doctor", "verify"):
        said = shell.run(command)
        assert "perdure db migrate" in said.out + said.err, command
    assert server.sql("SELECT to_regnamespace('shop')").strip() == ""


def test_a_workflow_runs_in_postgres_and_is_listed_and_examined(shell: Shell) -> None:
    ran = shell.run("run FLOWS:greet Ada --id e1")
    assert ran.code == 0 and "Hello Ada" in ran.out, ran
    assert "e1" in shell.run("ls").out
    doctor = shell.run("doctor")
    for found in ("Postgres 18", "schema shop", "synchronous_commit = on", "at most 4, 1 for notifications, and 10 for transactional steps, of", "listening"):
        assert found in doctor.out, doctor.out


def test_run_app_and_client_take_its_url(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    greet = flows().greet

    async def serves() -> str:
        async with App([greet], db=shell.db) as app:
            return str(await (await app.start(greet.with_(id="e2"), "Bo")).result())

    assert greet.with_(id="e1", db=shell.db).run("Ada") == "Hello Ada"
    assert asyncio.run(serves()) == "Hello Bo"
    monkeypatch.setenv("PERDURE_DB", shell.db)
    with Client() as client:
        assert {one.key.id for one in client.list()} == {"e1", "e2"}


@pytest.mark.parametrize("command", ["path", "backup FILE", "restore FILE", "vacuum", "upgrade"])
def test_a_command_for_files_says_what_to_do_instead(shell: Shell, command: str) -> None:
    said = Shell(shell.db.replace("perdure@", "perdure:hunter2@")).run(f"db {command}")
    assert said.code == ExitCode.INPUT
    assert f"perdure db {command.split()[0]} is for SQLite; " in said.err and "is not a file" in said.err and "hunter2" not in said.out + said.err
