"""Claims about roles of Postgres: what each purpose may do, what it may not, and what an error says when a right is missing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure import AsyncClient, Context, Signal, workflow
from perdure.core.errors import BadValue, StoreError
from perdure.runtime.engine import Engine
from perdure.stores.postgres.grants import PURPOSES, Purpose
from perdure.stores.postgres.migrations import SchemaMigrations
from perdure.stores.postgres.schema_maintenance import OpenSchema, open_schema
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.blob_and_vault_suite import BlobRemovalSuite, VaultSuite
from perdure.testing.conformance.commit_suite import CommitSuite
from perdure.testing.conformance.feed_suite import FeedSuite
from perdure.testing.conformance.lease_suite import LeaseSuite, WakeUpSuite
from perdure.testing.conformance.queue_suite import QueueSuite
from perdure.testing.conformance.record_suite import RecordSuite
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_migrations import ORDERS, connected, migrated, new_database, no_report
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    """A server with the tables, and a role for each purpose, of its name."""

    async def set_up(url: str) -> None:
        async with open_schema(url) as opened:
            await opened.migrate(no_report)
            for purpose in PURPOSES:
                await opened.connection.execute(f"CREATE ROLE {purpose}_role LOGIN")
                await opened.grant(await opened.grants(f"{purpose}_role", purpose))

    with postgres() as server:
        asyncio.run(set_up(server.url))
        yield server


def url_as(server: DatabaseServer, purpose: Purpose) -> str:
    return server.url.replace("perdure@", f"{purpose}_role@")


class TestEngineRole(CommitSuite, LeaseSuite, WakeUpSuite, QueueSuite, VaultSuite, BlobRemovalSuite, FeedSuite, RecordSuite):
    """The parts of the conformance suite for which an engine writes to each table, with the rights of an engine alone."""

    @pytest.fixture
    async def world(self, server: DatabaseServer) -> AsyncIterator[StoreWorld]:
        await empty(server)
        store = await self.make(clock := Clock(), server)
        yield StoreWorld(store, clock, epoch=(await store.store_time()).epoch)
        await store.close()

    async def make(self, clock: Clock, server: DatabaseServer) -> Store:
        self.url = url_as(server, "engine")
        return PostgresStore(self.url, clock)

    async def user_connection(self) -> tuple[Any, Callable[[str], Awaitable[object]]]:
        connection = await asyncpg.connect(self.url)
        self.connections.append(connection)
        return connection, connection.execute

    @pytest.fixture(autouse=True)
    async def _connections(self) -> AsyncIterator[None]:
        self.connections: list[Any] = []
        yield
        for connection in self.connections:
            await connection.close()


go: Signal[object] = Signal("go")


@workflow
async def waits(ctx: Context, name: str) -> str:
    return f"{name} {await ctx.listen(go)}"


async def test_a_client_starts_sends_and_reads_what_an_engine_carries_out(server: DatabaseServer) -> None:
    await empty(server)
    engine_store, client_store, reader_store = (PostgresStore(url_as(server, purpose)) for purpose in ("engine", "client", "read"))
    engine = Engine(engine_store, [waits.code])
    running = asyncio.create_task(engine.run())
    async with AsyncClient(client_store) as client, AsyncClient(reader_store) as reader:
        handle = await client.start(waits.with_(id="one", attributes={"customer": "c1"}), "Ada" * 100_000)
        cancelled = await client.start(waits.with_(id="two"), "Bob")
        await cancelled.cancel("no more", wait=True)
        await handle.send(go, "went", key="go")
        assert (await handle.result()).endswith("went")
        assert [one.key.id for one in await reader.list(where={"customer": "c1"})] == ["one"]
        assert (await (await reader.get("two")).status()).status == "cancelled"
        with pytest.raises(
            StoreError, match=r"the role read_role may not use the function commit_1 .it was to run SELECT.*perdure db grants read_role --for engine"
        ):
            await reader.start(waits.with_(id="three"), "Cyd")
    engine.stop()
    await running
    for store in (engine_store, client_store, reader_store):
        await store.close()


async def test_the_transaction_of_a_user_starts_and_sends_on_its_own_connection(server: DatabaseServer) -> None:
    await empty(server)
    async with connected(server.url) as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS public.orders (id int); GRANT ALL ON public.orders TO transaction_role")
    store = PostgresStore(url_as(server, "client"))
    async with AsyncClient(store) as client, connected(url_as(server, "transaction")) as own:
        async with own.transaction():
            await own.execute("INSERT INTO public.orders VALUES (1)")
            handle = await client.start(waits.with_(id="one", connection=own), "Ada")
            await handle.send(go, "went", key="go", connection=own)
        assert [one.key.id for one in await client.list()] == ["one"]
    await store.close()


ALL: tuple[Purpose, ...] = PURPOSES
WRITERS: tuple[Purpose, ...] = ("engine", "client", "transaction")
MAY: list[tuple[str, tuple[Purpose, ...]]] = [
    ("SELECT FROM perdure.heads", ALL),
    ("SELECT FROM perdure.log", ALL),
    ("SELECT FROM perdure.schema_history", ALL),
    ("SELECT FROM perdure.vault", ("engine",)),
    ("INSERT INTO perdure.programs VALUES ('p')", WRITERS),
    ("UPDATE perdure.heads SET mail_at_s = 1", WRITERS),
    ("DELETE FROM perdure.heads", ("engine",)),
    ("UPDATE perdure.log SET row = ''", ("engine",)),
    ("DELETE FROM perdure.log", ("engine",)),
    ("UPDATE perdure.meta SET epoch = 2", ("engine",)),
    ("UPDATE perdure.holders SET until_s = 0", ("engine",)),
    ("DELETE FROM perdure.blobs", ("engine",)),
    ("SELECT nextval('perdure.mail_number_seq')", WRITERS),
    ("SELECT perdure.switch_feed_triggers_1(false)", WRITERS),
    ("UPDATE perdure.schema_history SET works_from = 1", ()),
    ("DELETE FROM perdure.schema_history", ()),
    ("TRUNCATE perdure.log", ()),
    ("ALTER TABLE perdure.heads ADD COLUMN x int", ()),
    ("CREATE TABLE perdure.mine (x int)", ()),
    ("CREATE INDEX mine ON perdure.heads (id)", ()),
    ("DROP TABLE perdure.log", ()),
    ("CREATE OR REPLACE FUNCTION perdure.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'", ()),
]


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize(("statement", "allowed"), MAY, ids=[statement for statement, _ in MAY])
async def test_a_role_may_do_what_its_purpose_needs_and_nothing_else(
    server: DatabaseServer, statement: str, allowed: tuple[Purpose, ...], purpose: Purpose
) -> None:
    async with connected(url_as(server, purpose)) as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            if purpose in allowed:
                await connection.execute(statement)
            else:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await connection.execute(statement)
        finally:
            await transaction.rollback()


async def test_what_a_later_migration_adds_is_granted_to_an_engine_in_advance(server: DatabaseServer) -> None:
    async with new_database(server) as url, connected(url) as connection:
        await migrated(connection, ORDERS[:1])
        opened = OpenSchema(connection, SchemaMigrations(scripts=ORDERS[:1]))
        await opened.grant(await opened.grants("engine_role", "engine"))
        added = "-- works with engines from schema 1 on\nCREATE TABLE perdure.later (id bigserial PRIMARY KEY);\n"
        added += "CREATE FUNCTION perdure.add_later_1() RETURNS bigint LANGUAGE sql AS 'INSERT INTO perdure.later DEFAULT VALUES RETURNING id';\n"
        await migrated(connection, (ORDERS[0], ORDERS[1]._replace(name="0002_later", text=added)))
        await connection.execute("SET ROLE engine_role")
        assert await connection.fetchval("SELECT perdure.add_later_1()") == 1
        await connection.execute("UPDATE perdure.later SET id = 7; DELETE FROM perdure.later")


async def test_a_role_that_gets_another_purpose_keeps_nothing_of_the_one_before(server: DatabaseServer) -> None:
    async with new_database(server) as url, connected(url) as connection:
        await migrated(connection, ORDERS)
        opened = OpenSchema(connection, SchemaMigrations(scripts=ORDERS))
        for purpose, may_insert in (("engine", True), ("read", False)):
            await opened.grant(await opened.grants("client_role", purpose))  # type: ignore[arg-type]  # both are purposes
            assert await connection.fetchval("SELECT has_table_privilege('client_role', 'perdure.orders', 'INSERT')") is may_insert
            assert await connection.fetchval("SELECT has_table_privilege('client_role', 'perdure.orders', 'SELECT')")


@pytest.mark.parametrize(
    ("role", "why"), [("nobody_here", "not a role of the server; make it first: CREATE ROLE nobody_here LOGIN"), ("perdure", "has all rights of the owner")]
)
async def test_a_role_that_can_not_be_granted_anything_is_refused(server: DatabaseServer, role: str, why: str) -> None:
    async with open_schema(server.url) as opened:
        with pytest.raises(BadValue, match=why):
            await opened.grants(role, "engine")


async def test_a_role_with_the_word_that_stands_for_the_schema_gets_rights_in_another_schema(server: DatabaseServer) -> None:
    async with new_database(server) as url, connected(url) as connection:
        migrations = SchemaMigrations("shop", ORDERS)
        await migrations.migrate(connection, no_report)
        statements: list[Any] = await OpenSchema(connection, migrations).grants("engine_role", "engine")
        assert any('ALTER DEFAULT PRIVILEGES FOR ROLE "perdure" IN SCHEMA shop' in one for one in statements)
        assert any("ON shop.orders TO" in one for one in statements)
        await OpenSchema(connection, migrations).grant(statements)
