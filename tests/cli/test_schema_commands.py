"""Claims about `perdure db migrate`, `status`, `grants`, `check` and `init`: on files of SQLite, and on a real Postgres."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.cli.exit_codes import ExitCode
from perdure.stores.postgres.migration_scripts import SCRIPTS, TABLES_VERSION
from perdure.stores.postgres.migrations import SchemaMigrations
from tests.cli.shell import Shell
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_migrations import no_report, psql


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
def on_postgres(server: DatabaseServer) -> Shell:
    """A shell on a Postgres database without tables of Perdure."""
    execute(server.url, "DROP DATABASE IF EXISTS shop WITH (FORCE)", "CREATE DATABASE shop")
    return Shell(server.url.replace("/postgres?", "/shop?"))


def execute(url: str, *statements: str) -> None:
    """Executes statements as the owner of the database."""

    async def carry_out() -> None:
        connection = await asyncpg.connect(url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(carry_out())


# Files.


def test_a_file_has_one_version_and_migrate_is_its_upgrade(shell: Shell) -> None:
    assert shell.run("db migrate").out == shell.run("db upgrade").out == "nothing to do: its tables are those of this version of Perdure\n"
    assert "has tables of version" in shell.run("db status").out
    status = json.loads(shell.run("db status --json").out)
    assert status["version"] == status["known"] and status["usable"]


@pytest.mark.parametrize("option", ["--sql", "--dry-run", "--stopped", "--schema shop"])
def test_what_is_for_postgres_is_refused_for_a_file(shell: Shell, option: str) -> None:
    said = shell.run(f"db migrate {option}")
    assert said.code == ExitCode.FLAGS and f"{option.split()[0]} is for Postgres, and " in said.err


def test_a_file_has_no_roles(shell: Shell) -> None:
    said = shell.run("db grants shop --for engine")
    assert said.code == ExitCode.INPUT and "has permissions and no roles" in said.err


# Postgres.


@pytest.mark.real
def test_the_tables_are_made_shown_and_checked(on_postgres: Shell) -> None:
    before = on_postgres.run("db status")
    assert before.code == ExitCode.STORE and f"needs tables of version {TABLES_VERSION}; run perdure db migrate" in before.err
    assert "0001_tables is missing" in before.out
    listed = on_postgres.run("db migrate --dry-run")
    assert listed.out.splitlines() == [f"{one.name}: works with engines that know version 1" for one in SCRIPTS]
    assert f"{len(SCRIPTS)} scripts would be applied" in listed.err
    assert on_postgres.run("db status").code == ExitCode.STORE, "nothing was changed"
    done = on_postgres.run("db migrate")
    assert done.code == 0 and [line.split()[0] for line in done.out.splitlines()[:-1]] == [one.name for one in SCRIPTS]
    assert done.out.splitlines()[-1] == on_postgres.run("db migrate").out.rstrip()
    status = json.loads(on_postgres.run("db status --json").out)
    assert (status["number"], status["known"], status["usable"], status["missing"]) == (TABLES_VERSION, TABLES_VERSION, True, [])
    assert [entry["sha256"] for entry in status["history"]] == [one.sha256 for one in SCRIPTS]
    assert on_postgres.run("db check").out == f"the schema perdure of the database shop is as its migrations make it, up to version {TABLES_VERSION}\n"
    execute(on_postgres.db, "ALTER TABLE perdure.heads ADD COLUMN extra int", "DROP INDEX perdure.mail_key")
    found = on_postgres.run("db check")
    assert found.code == ExitCode.STORE
    assert found.out.splitlines() == ["the index mail_key is missing", "the column heads.extra is there and no migration makes it"]


@pytest.mark.real
def test_what_migrate_prints_as_sql_makes_the_tables_by_hand(on_postgres: Shell) -> None:
    sql = on_postgres.run("db migrate --sql --schema books")
    assert on_postgres.run("db status --schema books").code == ExitCode.STORE, "nothing was changed"
    assert psql(on_postgres.db, sql.out).returncode == 0
    assert on_postgres.run("db check --schema books").code == 0
    assert on_postgres.run("db status").code == ExitCode.STORE, "the other schema has no tables"


@pytest.mark.real
def test_init_makes_the_tables_and_upgrades_none(on_postgres: Shell) -> None:
    assert on_postgres.run("db init").out.endswith("the schema perdure of the database shop has Perdure's tables\n")
    assert on_postgres.run("db init").code == 0
    execute(on_postgres.db, "DELETE FROM perdure.schema_history WHERE number > 1")
    said = on_postgres.run("db init")
    assert said.code == ExitCode.INPUT and "perdure db migrate upgrades them" in said.err
    assert on_postgres.run("db init --mode 660").code == ExitCode.FLAGS


@pytest.mark.real
def test_a_script_that_present_engines_can_not_work_with_needs_a_word(on_postgres: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> None:
        connection = await asyncpg.connect(on_postgres.db)
        await SchemaMigrations(scripts=SCRIPTS[:1]).migrate(connection, no_report)
        await connection.close()

    asyncio.run(make())
    breaking = (SCRIPTS[0], *(one._replace(works_from=one.number) for one in SCRIPTS[1:]))
    defaults: Any = SchemaMigrations.__init__.__defaults__
    monkeypatch.setattr(SchemaMigrations.__init__, "__defaults__", (defaults[0], breaking))
    said = on_postgres.run("db migrate")
    assert (
        said.code == ExitCode.STORE
        and f"{SCRIPTS[1].name} does not work with engines of version 1, which may be running. End them, and give --stopped" in said.err
    )
    assert on_postgres.run("db migrate --stopped").code == 0


@pytest.mark.real
def test_grants_are_printed_or_carried_out_and_a_missing_one_is_named(on_postgres: Shell) -> None:
    on_postgres.run("db migrate")
    execute(on_postgres.db, "DROP ROLE IF EXISTS viewer", "CREATE ROLE viewer LOGIN")
    viewer = Shell(on_postgres.db.replace("perdure@", "viewer@"))
    refused = viewer.run("ls")
    assert refused.code == ExitCode.STORE and "the role viewer may not use the schema perdure (it was to run SELECT)" in refused.err
    printed = on_postgres.run("db grants viewer --for read").out
    assert viewer.run("ls").code == ExitCode.STORE, "nothing was granted"
    assert psql(on_postgres.db, printed).returncode == 0
    assert viewer.run("ls").code == 0
    start = viewer.run("start greet Ada")
    assert start.code == ExitCode.STORE and "the role viewer may not use the function commit_1" in start.err
    assert on_postgres.run("db grants viewer --for client --yes").out == "the role viewer has the rights of client in the schema perdure\n"
    assert viewer.run("start greet Ada").code == 0
    execute(on_postgres.db, "DROP OWNED BY viewer")


@pytest.mark.real
def test_a_worker_on_an_empty_database_makes_its_tables_if_its_role_may(on_postgres: Shell, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from perdure import Context, workflow\n\n\n@workflow\nasync def greet(ctx: Context, name: str) -> str:\n    return f'Hello {name}'\n"
    )
    execute(on_postgres.db, "DROP ROLE IF EXISTS shop_engine", "CREATE ROLE shop_engine LOGIN")
    as_engine = on_postgres.db.replace("perdure@", "shop_engine@")

    def greeted(worker_db: str, id: str) -> str:
        command = [sys.executable, "-m", "perdure.cli", "--db", worker_db, "worker", "shop.py"]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as worker:
            on_postgres.run(f"start greet {id} --id {id}")
            said = on_postgres.run(f"result {id} --wait --timeout 60s")
            worker.terminate()
            worker.communicate()
        return said.out

    refused = subprocess.run(
        [sys.executable, "-m", "perdure.cli", "--db", as_engine, "worker", "shop.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == ExitCode.STORE and "the role shop_engine may not change it. Run perdure db migrate" in refused.stderr
    assert "Hello Ada" in greeted(on_postgres.db, "Ada")
    on_postgres.run("db grants shop_engine --for engine --yes")
    assert "Hello Bob" in greeted(as_engine, "Bob")
    execute(on_postgres.db, "DROP OWNED BY shop_engine")
