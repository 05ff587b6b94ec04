"""Claims about the connections of a Postgres store, on a real server and through PgBouncer: pool, failures, settings of sessions, poolers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import BadValue, StoreDamaged, StoreError, StoreUnavailable
from perdure.stores.postgres.connection_settings import connection_settings
from perdure.stores.postgres.connections import PostgresConnection, PostgresConnections, PostgresServerFacts, check_server
from perdure.stores.postgres.server_errors import is_conflict, repeat_conflicts
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Committed, Store
from perdure.testing.conformance import Clock, StoreConformance, StoreWorld
from perdure.testing.conformance.store_world import key
from tests.stores.postgres_clusters import pgbouncer
from tests.stores.servers import PostgresServer, postgres
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.real

OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[str]:
    with pgbouncer(server, default_pool_size=3) as pooler:
        yield pooler.url


@pytest.fixture
async def other(server: PostgresServer) -> AsyncIterator[Any]:
    """A connection beside those of the store."""
    connection = await asyncpg.connect(server.url)
    yield connection
    await connection.close()


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    """A connection of asyncpg, without named statements."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    yield connection
    await connection.close()


async def no_tables(_: PostgresConnection) -> None:
    """Prepares nothing."""


@asynccontextmanager
async def connections(url: str, **options: Any) -> AsyncIterator[PostgresConnections]:
    """The connections of a store without tables."""
    opened = PostgresConnections(connection_settings(url, **options), no_tables)
    yield opened
    await opened.close()


async def setting(opened: PostgresConnections, name: str) -> str:
    """What a statement of a store sees of a setting."""
    async with opened.connected() as connection:
        ((value,),) = await connection.fetch("SELECT current_setting($1)", name)
    return str(value)


async def test_the_pool_grows_when_it_is_needed_and_to_its_limit(server: PostgresServer, other: Any) -> None:
    async with connections(server.url, connections=3) as opened:
        for _ in range(5):
            assert await setting(opened, "server_encoding") == "UTF8"
        assert await other.fetchval(OTHERS) == 1
        await asyncio.gather(*(setting(opened, "server_encoding") for _ in range(20)))
        assert await other.fetchval(OTHERS) == 3
    async with asyncio.timeout(5):
        while await other.fetchval(OTHERS):
            await asyncio.sleep(0.01)


async def test_a_statement_is_parsed_once_for_each_connection(server: PostgresServer) -> None:
    statements = "SELECT statement, from_sql, generic_plans + custom_plans FROM pg_prepared_statements ORDER BY name"
    async with connections(server.url, connections=1) as opened:
        for _ in range(5):
            assert await setting(opened, "server_encoding") == "UTF8"
        async with opened.connected() as connection:
            assert await connection.fetch(statements) == [("SELECT current_setting($1)", False, 5), (statements, False, 1)]


async def test_who_waits_too_long_for_a_connection_learns_why(server: PostgresServer) -> None:
    async with connections(server.url, connections=1, statement_timeout_s=0.2) as opened, opened.connected():
        with pytest.raises(StoreUnavailable, match=r"all 1 connections of this store have been in use for 0\.2 s; .* or raise perdure_connections"):
            await setting(opened, "server_encoding")


async def test_a_server_without_a_connection_left_says_what_to_do(server: PostgresServer) -> None:
    async with AsyncExitStack() as held, connections(server.url.replace("perdure@", "clerk@")) as opened:
        admin = await asyncpg.connect(server.url)
        held.push_async_callback(admin.close)
        await admin.execute("DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN CONNECTION LIMIT 1")
        mine = await asyncpg.connect(server.url.replace("perdure@", "clerk@"))
        held.push_async_callback(mine.close)
        with pytest.raises(StoreUnavailable, match="raise its max_connections, lower perdure_connections, or put a pooler in between"):
            await opened.server()


async def test_connections_that_were_cut_while_they_were_idle_are_replaced(server: PostgresServer, other: Any) -> None:
    async with connections(server.url) as opened:
        await asyncio.gather(*(setting(opened, "server_encoding") for _ in range(20)))
        await other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
        await asyncio.sleep(0.1)
        assert await asyncio.gather(*(setting(opened, "server_encoding") for _ in range(20))) == ["UTF8"] * 20


async def test_a_connection_that_is_cut_in_a_statement_is_not_used_again(server: PostgresServer, other: Any) -> None:
    async with connections(server.url) as opened:

        async def sleeps() -> None:
            async with opened.connected() as connection:
                await connection.fetch("SELECT pg_sleep(20)")

        task = asyncio.create_task(sleeps())
        async with asyncio.timeout(5):
            while not await other.fetchval("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(20)'"):
                await asyncio.sleep(0.01)
        with pytest.raises(StoreUnavailable, match="check that it runs"):
            await task
        assert await setting(opened, "server_encoding") == "UTF8"


async def test_a_statement_that_takes_too_long_is_ended_here_and_at_the_server(server: PostgresServer, other: Any) -> None:
    async with connections(server.url, statement_timeout_s=0.3) as opened:
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            async with opened.connected() as connection:
                await connection.fetch("SELECT pg_sleep(21)")
        assert await setting(opened, "statement_timeout") == "5300ms"
        async with asyncio.timeout(5):
            while await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(21)' AND state = 'active'"):
                await asyncio.sleep(0.01)


async def test_a_block_that_fails_is_rolled_back_and_its_connection_is_used_again(server: PostgresServer, other: Any) -> None:
    await other.execute("DROP TABLE IF EXISTS words; CREATE TABLE words (word text)")
    async with connections(server.url, connections=1) as opened:
        numbers = []
        for expected in (pytest.raises(ZeroDivisionError), nullcontext()):
            with expected:
                async with opened.transaction() as connection:
                    await connection.fetch("INSERT INTO words VALUES ('a')")
                    numbers.append((await connection.fetch("SELECT pg_backend_pid()"))[0][0])
                    if len(numbers) == 1:
                        raise ZeroDivisionError
        assert await other.fetchval("SELECT count(*) FROM words") == 1 and len(set(numbers)) == 1


async def test_a_task_that_is_cancelled_leaves_nothing_behind(server: PostgresServer, other: Any) -> None:
    await other.execute("DROP TABLE IF EXISTS words; CREATE TABLE words (word text)")
    async with connections(server.url, connections=1) as opened:

        async def writes() -> None:
            async with opened.transaction() as connection:
                await connection.fetch("INSERT INTO words VALUES ('a')")
                await connection.fetch("SELECT pg_sleep(20)")

        task = asyncio.create_task(writes())
        async with asyncio.timeout(5):
            while not await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(20)' AND state = 'active'"):
                await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await setting(opened, "server_encoding") == "UTF8"
        assert await other.fetchval("SELECT count(*) FROM words") == 0


@pytest.mark.parametrize(
    ("sqlstate", "kind", "message"),
    [
        ("25006", StoreUnavailable, "it is a standby"),
        ("28P01", StoreUnavailable, "check the user and the password"),
        ("3D000", StoreUnavailable, "createdb"),
        ("40P01", StoreUnavailable, "it can be repeated"),
        ("42501", StoreError, "perdure db grants perdure"),
        ("42P01", StoreUnavailable, "perdure db migrate"),
        ("53100", StoreUnavailable, "disk is full"),
        ("53200", StoreUnavailable, "short of memory"),
        ("53300", StoreUnavailable, "max_connections"),
        ("57014", StoreUnavailable, "perdure_statement_timeout"),
        ("57P03", StoreUnavailable, "check that it runs"),
        ("58030", StoreUnavailable, "its disk"),
        ("26000", StoreUnavailable, "perdure_pooler=transaction"),
        ("99999", StoreUnavailable, "check that it runs"),
        ("22003", StoreError, "Check that the tables are those of this Perdure"),
        ("23505", StoreError, "SQLSTATE 23505"),
        ("42601", StoreError, "Postgres refused a statement"),
        ("XX001", StoreDamaged, "Restore it from a backup"),
    ],
)
async def test_every_kind_of_failure_says_what_to_do(server: PostgresServer, sqlstate: str, kind: type[StoreError], message: str) -> None:
    async with connections(server.url) as opened:
        with pytest.raises(StoreError, match=message) as raised:
            async with opened.connected() as connection:
                await connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '{sqlstate}'; END $$")
        assert type(raised.value) is kind and "planted" in str(raised.value)
        assert await setting(opened, "server_encoding") == "UTF8"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("perdure@", "stranger@"), 'role "stranger" does not exist; check the user and the password'),
        (("/postgres?", "/elsewhere?"), 'database "elsewhere" does not exist; .* createdb makes a database'),
        (("host=/", "host=/nowhere/"), "check that it runs and that the store's URL is right"),
        (("?", "?options=-c%20default_transaction_read_only%3Don&"), "is read-only; .* it is a standby, or default_transaction_read_only is set"),
        (("?", "?options=-c%20nothing%3Don&"), "nothing"),
    ],
)
async def test_a_server_that_can_not_be_used_says_why(server: PostgresServer, change: tuple[str, str], message: str) -> None:
    async with connections(server.url.replace(*change, 1)) as opened:
        with pytest.raises(StoreError, match=message):
            await opened.server()


async def test_a_host_that_has_no_tls_is_refused_where_it_is_wanted(server: PostgresServer) -> None:
    async with connections("postgresql://perdure@127.0.0.1:1/postgres?sslmode=require", connect_timeout_s=1) as opened:
        with pytest.raises(StoreUnavailable, match="check that it runs"):
            await opened.server()


async def test_of_several_servers_the_first_that_can_be_written_is_used(server: PostgresServer) -> None:
    (directory,) = (part.removeprefix("host=") for part in server.url.split("?")[1].split("&"))
    url = f"postgresql://perdure@/postgres?host=/nowhere,127.0.0.1,{directory}&port=5432,1,5432"
    async with connections(url) as opened:
        assert (await opened.server()).version_number >= 150_000
    async with connections(f"{url}&target_session_attrs=standby") as opened:
        with pytest.raises(StoreUnavailable):
            await opened.server()


async def test_an_encoding_other_than_utf8_is_refused(server: PostgresServer, other: Any) -> None:
    await other.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    async with connections(server.url.replace("/postgres?", "/latin?")) as opened:
        with pytest.raises(StoreError, match="has the encoding LATIN1; Perdure needs UTF8"):
            await opened.server()


def test_a_server_that_is_too_old_is_refused() -> None:
    facts = PostgresServerFacts(1, 140_011, "14.11", "UTF8", False, False, "on", 100, is_encrypted=False, role="perdure")
    with pytest.raises(StoreError, match=r"postgresql://h/x is Postgres 14\.11; Perdure needs 15 or later"):
        check_server(facts, connection_settings("postgresql://h/x"))
    check_server(facts._replace(version_number=150_000), connection_settings("postgresql://h/x"))


async def test_a_function_gives_the_password_of_each_new_connection(server: PostgresServer) -> None:
    given = []

    async def password() -> str:
        given.append("token")
        return "token"

    async with connections(server.url, password=password) as opened:
        await asyncio.gather(*(setting(opened, "server_encoding") for _ in range(20)))
        assert 1 < len(given) <= 4


@pytest.mark.parametrize("answer", [None, b"hunter2"])
async def test_a_function_that_gives_no_password_is_refused_without_showing_what_it_gave(server: PostgresServer, answer: Any) -> None:
    async with connections(server.url, password=lambda: answer) as opened:
        with pytest.raises(BadValue, match="must return text") as refused:
            await opened.server()
        assert "hunter2" not in str(refused.value)


async def test_a_function_of_passwords_that_fails_makes_the_store_unavailable_and_is_its_cause(server: PostgresServer) -> None:
    def password() -> str:
        raise ZeroDivisionError("hunter2")

    async with connections(server.url, password=password) as opened:
        with pytest.raises(StoreUnavailable, match="raised ZeroDivisionError") as raised:
            await opened.server()
        assert "hunter2" not in str(raised.value) and isinstance(raised.value.__cause__, ZeroDivisionError)


async def test_a_deadlock_is_known_as_a_conflict_and_repeated(server: PostgresServer, other: Any) -> None:
    await other.execute("DROP TABLE IF EXISTS words; CREATE TABLE words (word text, n int); INSERT INTO words VALUES ('x', 0), ('y', 0)")
    both, conflicts = asyncio.Barrier(2), list[bool]()
    async with connections(server.url) as opened:

        async def swaps(first: str, second: str) -> None:
            try:
                async with opened.transaction() as connection:
                    await connection.fetch("UPDATE words SET n = n + 1 WHERE word = $1", first)
                    if not conflicts:
                        await both.wait()
                    await connection.fetch("UPDATE words SET n = n + 1 WHERE word = $1", second)
            except StoreUnavailable as error:
                conflicts.append(is_conflict(error))
                raise

        await asyncio.gather(repeat_conflicts(lambda: swaps("x", "y")), repeat_conflicts(lambda: swaps("y", "x")))
    assert conflicts == [True] and [row[0] for row in await other.fetch("SELECT n FROM words")] == [2, 2]


@pytest.mark.parametrize("chosen", ["on", "remote_apply", "remote_write", "local", "off"])
async def test_the_durability_is_what_was_chosen_whatever_the_server_s_default_is(server: PostgresServer, other: Any, chosen: Any) -> None:
    for default in ("on", "off"):
        await other.execute(f"ALTER ROLE perdure SET synchronous_commit = {default}")
        with pgbouncer(server) as pooler:
            for opened in (PostgresConnections(connection_settings(url, synchronous_commit=chosen), no_tables) for url in (server.url, pooler.url)):
                assert await setting(opened, "synchronous_commit") == chosen
                async with opened.step_connection() as connection:
                    transaction = await connection.begin()
                    assert await connection.raw.fetchval("SELECT current_setting('synchronous_commit')") == chosen
                    await transaction.rollback()
                async with opened.step_connection() as connection:
                    transaction = await connection.begin()
                    assert await connection.raw.fetchval("SELECT current_setting('synchronous_commit')") == chosen
                    await transaction.rollback()
                await opened.close()
    await other.execute("ALTER ROLE perdure RESET synchronous_commit")


async def test_a_pooler_is_found_out_and_no_session_is_changed_behind_it(server: PostgresServer, pooler: str) -> None:
    async with connections(server.url) as opened:
        assert not (await opened.server()).is_pooled and opened.is_listening_possible
    async with connections(pooler, synchronous_commit="local") as opened:
        assert (await opened.server()).is_pooled and not opened.is_listening_possible
        await asyncio.gather(*(setting(opened, "synchronous_commit") for _ in range(40)))
        other = await asyncpg.connect(pooler, statement_cache_size=0)
        for _ in range(10):
            row = await other.fetchrow("SELECT current_setting('synchronous_commit'), current_setting('jit'), (SELECT count(*) FROM pg_prepared_statements)")
            assert tuple(row) == ("on", "on", 0)
        await other.close()
    async with connections(pooler, direct_url=server.url) as opened:
        assert (await opened.server()).is_pooled and opened.is_listening_possible
        async with opened.direct_connection() as direct:
            ((process,),) = await direct.fetch("SELECT pg_backend_pid()")
            assert process == direct.raw.get_server_pid()


async def test_a_pooler_that_refuses_a_parameter_is_named_as_the_cause(pooler: str) -> None:
    async with connections(f"{pooler}&options=-c%20jit%3Doff") as opened:
        with pytest.raises(StoreUnavailable, match="leave options= out of the URL, or list it under ignore_startup_parameters of PgBouncer"):
            await opened.server()


async def test_a_store_for_reading_only_makes_no_tables_and_changes_nothing(server: PostgresServer, other: Any) -> None:
    store = PostgresStore(server.url, schema="unused", read_only=True)
    with pytest.raises(StoreError, match=r"the schema unused .* has no tables of Perdure yet.* Run perdure db migrate"):
        await store.heads()
    await store.close()
    assert await other.fetchval("SELECT to_regnamespace('unused')") is None
    await empty(server)
    writing = PostgresStore(server.url)
    world = StoreWorld(writing, Clock(), (await writing.store_time()).epoch)
    await world.renew("one")
    await world.open(key())
    reading = PostgresStore(server.url, read_only=True)
    assert [head.key for head in await reading.heads()] == [key()] and (await reading.store_time()).epoch == world.epoch
    with pytest.raises(StoreUnavailable, match="read-only transaction"):
        await reading.renew("two", 60)
    for store in (reading, writing):
        await store.close()


async def test_several_stores_are_in_one_database_under_their_schemas(server: PostgresServer, other: Any) -> None:
    await other.execute("DROP SCHEMA IF EXISTS first CASCADE; DROP SCHEMA IF EXISTS second CASCADE")
    stores = [PostgresStore(server.url, schema=name) for name in ("first", "second")]
    worlds = [StoreWorld(store, Clock(), (await store.store_time()).epoch) for store in stores]
    rings: list[int] = []
    stores[1].on_wake(lambda: rings.append(2))
    twin = PostgresStore(server.url, schema="first")
    arrived = asyncio.Event()
    twin.on_wake(arrived.set)
    for store in (stores[1], twin):
        await store.store_time()
    await worlds[0].renew("one")
    await worlds[0].open(key())
    async with asyncio.timeout(10):
        await arrived.wait()
    assert [len(await store.heads()) for store in stores] == [1, 0] and rings == []
    for store in (*stores, twin):
        await store.close()


@pytest.mark.slow
class TestPostgresStoreThroughAPooler(StoreConformance):
    """The suite, with three connections at the server for all."""

    @pytest.fixture(autouse=True)
    async def _pooler(self, server: PostgresServer, pooler: str) -> AsyncIterator[None]:
        self.url = pooler
        await empty(server)
        async with AsyncExitStack() as self.opened:
            yield

    async def make(self, clock: Clock) -> Store:
        return PostgresStore(self.url, clock)

    async def user_connection(self) -> tuple[Any, Callable[[str], Awaitable[object]]]:
        connection = await self.opened.enter_async_context(asyncpg_connection(self.url))
        return connection, connection.execute


@pytest.mark.slow
async def test_many_stores_share_few_connections_of_a_pooler(server: PostgresServer, pooler: str) -> None:
    await empty(server)
    stores = [PostgresStore(pooler) for _ in range(12)]
    worlds = [StoreWorld(store, Clock(), (await stores[0].store_time()).epoch) for store in stores]

    async def works(number: int, world: StoreWorld) -> None:
        await world.renew(f"{number}")
        for turn in range(5):
            await world.open(key(f"{number} {turn}"))
            answer = await world.commit(key(f"{number} {turn}"), 0, holder=f"{number}")
            assert isinstance(answer, Committed)

    await asyncio.gather(*(works(number, world) for number, world in enumerate(worlds)))
    assert len(await stores[0].heads()) == 60
    for store in stores:
        await store.close()
