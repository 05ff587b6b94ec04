"""Claims about sql steps on a real Postgres: values of its types both ways, errors by SQLSTATE, what is cancelled, which database is joined, and poolers."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure import AsyncClient, Definition, ExecutionFailed
from perdure.definitions.kinds.sql.sql_kind import EXAMPLE
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store
from tests.stores.postgres_clusters import pgbouncer
from tests.stores.servers import PostgresServer, postgres

pytestmark = pytest.mark.real

TABLES = """
DROP TABLE IF EXISTS accounts, outbox, late; DROP TYPE IF EXISTS mood, pair;
CREATE TABLE accounts (id int PRIMARY KEY, name text UNIQUE, cents int CHECK (cents >= 0));
CREATE TABLE outbox (id text, body jsonb);
CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TYPE mood AS ENUM ('happy', 'sad'); CREATE TYPE pair AS (a int, b text);
INSERT INTO accounts VALUES (1, 'ada', 1000), (2, 'bob', 0);
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture
async def other(server: PostgresServer) -> AsyncIterator[Any]:
    """A connection of the user's own."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")
    await connection.execute(TABLES)
    yield connection
    await connection.close()


def sql(config: Any, **given: Any) -> dict[str, Any]:
    """A step with these values."""
    return {"id": "a", "sql": {"connection": "shop", **config}, **({"with": given} if given else {}), "retry": {"wait": "1ms", "max": 2}}


def defined(url: Any, *steps: Any) -> Definition:
    document = {"perdure": 1, "name": "it", "order": "listed", "input": {"value": {"default": None}}, "steps": list(steps)}
    return Definition.of(document, connections={"shop": url})


async def run(definition: Definition, store: Store | None = None, id: str = "x", **given: Any) -> Any:
    """The result of one execution in a store, which stays open if it is given."""
    inside = MemoryStore() if store is None else store
    engine = Engine(inside, [definition.graph])
    running = asyncio.create_task(engine.run())
    try:
        async with AsyncClient(inside) as client:
            return await client.run(definition.with_(id=id), **given)
    finally:
        engine.stop()
        await running


async def asked(server: PostgresServer, query: str, **given: Any) -> Any:
    """The value of a query with these values."""
    return await run(defined(server.url, sql({"query": query, "result": "value"}, **given)))


async def test_the_example_does_what_it_says(server: PostgresServer, other: Any) -> None:
    made = Definition.of(EXAMPLE, connections={"shop": server.url})
    assert await run(made, customer="ada", cents=300) == [1, 1]
    assert await other.fetchval("SELECT cents FROM accounts WHERE id = 1") == 700
    assert [tuple(row) for row in await other.fetch("SELECT * FROM outbox")] == [("default/sale/x:sell", '{"to": "ada", "sold": 300}')]


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("SELECT 12.30::numeric", "12.30"),
        ("SELECT 'NaN'::numeric", "NaN"),
        ("SELECT 9223372036854775807", 9223372036854775807),
        ("SELECT 'Infinity'::float8", "Infinity"),
        ("SELECT '2027-01-01T12:00:00+02'::timestamptz", "2027-01-01T10:00:00Z"),
        ("SELECT '2027-01-01T12:00:00'::timestamp", "2027-01-01T12:00:00"),
        ("SELECT '2027-01-01'::date", "2027-01-01"),
        ("SELECT '12:30'::time", "12:30:00"),
        ("SELECT '1 day 1 second'::interval", 86_401),
        ("SELECT '12345678-1234-5678-1234-567812345678'::uuid", "12345678-1234-5678-1234-567812345678"),
        ("SELECT '\\x00ff'::bytea", {"base64": "AP8="}),
        ("SELECT '{\"a\": [1, null]}'::jsonb", {"a": [1, None]}),
        ("SELECT ARRAY['{\"a\": 1}'::json]", [{"a": 1}]),
        ("SELECT ARRAY[1.5, NULL]", ["1.5", None]),
        ("SELECT ARRAY[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ("SELECT 'happy'::mood", "happy"),
        ("SELECT ROW(1, 'x')::pair", {"a": 1, "b": "x"}),
        ("SELECT '10.0.0.0/8'::inet", "10.0.0.0/8"),
        ("SELECT int4range(1, 5)", {"lower": 1, "upper": 5, "lower_inc": True, "upper_inc": False}),
        ("SELECT NULL::int", None),
        ("SELECT 'ü🎉'", "ü🎉"),
        ("SELECT true", True),
    ],
)
async def test_every_type_has_one_form(server: PostgresServer, query: str, value: Any) -> None:
    assert await asked(server, query) == value


@pytest.mark.parametrize(
    ("type_name", "value", "text"),
    [
        ("numeric", "12.30", "12.30"),
        ("int8", 5, "5"),
        ("timestamptz", "2027-01-01T10:00:00Z", None),
        ("uuid", "12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-567812345678"),
        ("bytea", {"base64": "AP8="}, "\\x00ff"),
        ("jsonb", {"a": [1, None]}, '{"a": [1, null]}'),
        ("jsonb", "x", '"x"'),
        ("int[]", [1, None], "{1,NULL}"),
        ("text[]", ["a,b", '"'], '{"a,b","\\""}'),
        ("interval", "1h", "01:00:00"),
        ("mood", "sad", "sad"),
        ("inet", "10.0.0.1", "10.0.0.1/32"),
        ("bool", False, "false"),
        ("text", "'; DROP TABLE accounts; --", "'; DROP TABLE accounts; --"),
        ("int", None, None),
    ],
)
async def test_a_value_is_bound_as_the_type_that_the_server_expects(server: PostgresServer, other: Any, type_name: str, value: Any, text: str | None) -> None:
    found = await run(defined(server.url, sql({"query": f"SELECT (:x::{type_name})::text", "result": "value"}, x="@input.value")), value=value)
    assert found == text or text is None


@pytest.mark.parametrize(
    ("config", "given", "why"),
    [
        ({"query": "SELECT :x::int"}, "hush-hush", r"sql_refused: .*the value of :x can't be bound: it does not fit the type int4"),
        ({"query": "SELECT :x::text"}, 77777, r"sql_refused: .*cast the placeholder to its own type, such as :name::int"),
        ({"query": "SELECT :x::int8"}, "9" * 30, r"sql_refused: .*can't be bound"),
        ({"query": "SELECT :x::smallint"}, 77777, r"sql_refused: .*can't be bound"),
        ({"query": "SELECT (:x::text)::int"}, "hush-hush", r"statement_refused: .*invalid text representation \(SQLSTATE 22P02\)"),
        ({"execute": "INSERT INTO accounts VALUES (9, :x, 0)"}, "ada", r"unique violation \(SQLSTATE 23505, constraint accounts_name_key, table accounts\)"),
        ({"execute": "UPDATE accounts SET cents = -1 WHERE name = :x"}, "ada", r"check violation \(SQLSTATE 23514, constraint accounts_cents_check, table acc"),
        ({"execute": "INSERT INTO late VALUES (length(:x)), (length(:x))"}, "hush-hush", r"shop: committing: unique violation \(SQLSTATE 23505, constr"),
        ({"execute": "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$"}, None, r"raise error|raise"),
        ({"query": "SELECT nothing FROM accounts WHERE name = :x"}, "hush-hush", r'statement_refused: .*column "nothing" does not exist \(SQLSTATE 42703'),
        ({"query": "SELEKT :x"}, "hush-hush", r'statement_refused: .*syntax error at or near "SELEKT" \(SQLSTATE 42601\)'),
        ({"query": "WITH x AS (DELETE FROM accounts RETURNING 1) SELECT 1 FROM x"}, None, r"statement_refused: .*in a read-only transaction \(SQLSTATE 25006"),
        ({"query": "SELECT * FROM generate_series(1, 2000)"}, None, r"too_many_rows: .*more than 1,000 rows"),
        ({"query": "SELECT B'101'"}, None, r"sql_refused: .*the column \?column\? has no form in an execution: its type BitString"),
        ({"execute": "SELECT pg_sleep(0); COMMIT"}, None, "several statements"),
    ],
)  # fmt: skip
async def test_an_error_names_the_statement_and_the_condition_and_shows_no_value(server: PostgresServer, other: Any, config: Any, given: Any, why: str) -> None:
    with pytest.raises(Exception, match=why) as failed:
        await run(defined(server.url, sql(config, **({} if given is None else {"x": "@input.value"}))), value=given)
    assert "hush-hush" not in str(failed.value) and "77777" not in str(failed.value)
    assert await other.fetchval("SELECT count(*) FROM accounts") == 2


async def test_huge_results_are_kept(server: PostgresServer) -> None:
    found = await run(defined(server.url, sql({"query": "SELECT n, repeat('x', 100) AS t FROM generate_series(1, 20000) AS n", "max_rows": 20_000})))
    assert len(found) == 20_000 and found[-1]["n"] == 20_000
    with pytest.raises(ExecutionFailed, match="too_large"):
        await run(defined(server.url, sql({"query": "SELECT repeat('x', 20000000)", "result": "value"})))


# Time, and what is lost.


@pytest.mark.parametrize("source", ["url", "store"])
async def test_a_statement_is_cancelled_on_the_server_when_its_time_is_over(server: PostgresServer, other: Any, source: str) -> None:
    step = {**sql({"execute": "SELECT pg_sleep(100) /* too long */"}), "timeout": "500ms"}
    store = PostgresStore(server.url) if source == "store" else None
    with pytest.raises(ExecutionFailed, match=r"statement_timeout: .*its time is over|timeout"):
        await run(defined("store" if source == "store" else server.url, step), store)
    await nothing_runs(other, "too long")
    if store is not None:
        await store.close()


async def nothing_runs(other: Any, comment: str) -> None:
    for _ in range(100):
        running = await other.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE $1", f"%{comment}%"
        )
        if not running:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the statement still runs")


async def test_a_statement_that_nobody_wants_any_more_is_cancelled_on_the_server(server: PostgresServer, other: Any) -> None:
    branches = [{"id": "slow", "sql": {"connection": "shop", "query": "SELECT pg_sleep(100) /* unwanted */"}}, {"id": "fast", "sleep": "300ms"}]
    began_s = time.monotonic()
    assert (await run(defined(server.url, {"id": "first", "race": branches})))["winner"] == "fast"
    await nothing_runs(other, "unwanted")
    assert time.monotonic() - began_s < 20


async def test_after_a_lost_connection_and_a_deadlock_the_step_is_tried_again(server: PostgresServer, other: Any) -> None:
    await other.execute("CREATE SEQUENCE IF NOT EXISTS once; ALTER SEQUENCE once RESTART")
    kill = "SELECT CASE WHEN nextval('once') = 1 THEN pg_terminate_backend(pg_backend_pid()) END"
    assert await run(defined(server.url, sql({"execute": [kill, "UPDATE accounts SET cents = cents + 1 WHERE id = 1"]}))) is not None
    await other.execute("ALTER SEQUENCE once RESTART")
    raised = "DO $$ BEGIN IF nextval('once') = 1 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END IF; END $$"
    assert await run(defined(server.url, sql({"execute": [raised, "UPDATE accounts SET cents = cents + 1 WHERE id = 1"]}))) == [0, 1]
    assert await other.fetchval("SELECT cents FROM accounts WHERE id = 1") == 1002


async def test_a_server_that_is_not_there_is_tried_again(server: PostgresServer) -> None:
    url = f"postgresql://perdure@/postgres?host={server.directory}/nowhere"
    with pytest.raises(ExecutionFailed, match=r"database_unreachable: shop: connecting: .*see that the server runs") as failed:
        await run(defined(url, sql({"query": "SELECT 1"})))
    assert "nowhere" not in str(failed.value)


# The database of the store.


@pytest.fixture
async def store(server: PostgresServer, other: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(server.url)
    yield store
    await store.close()


TRANSACTION = {"execute": "INSERT INTO outbox VALUES (pg_current_xact_id()::text, to_jsonb(current_user::text))"}


async def transactions_of_answers(other: Any) -> set[str]:
    """The transactions that have written the rows of the store's feed or log; each row has that of its last change."""
    return {row[0] for row in await other.fetch("SELECT xmin::text FROM perdure.log UNION SELECT xmin::text FROM perdure.mail")}


@pytest.mark.parametrize("source", ["url", "store", "memory"])
async def test_in_the_store_s_database_the_writes_and_the_answer_are_one_transaction(
    server: PostgresServer, other: Any, store: PostgresStore, source: str
) -> None:
    transact, joined = store.transact, list[Any]()

    async def told(*given: Any) -> Any:
        joined.append(answer := await transact(*given))
        return answer

    store.transact = told  # type: ignore[method-assign, assignment]  # to see that it is used
    made = defined("store" if source == "store" else server.url, sql(TRANSACTION))
    assert await run(made, None if source == "memory" else store) == 1
    assert len(joined) == (source != "memory") and await other.fetchval("SELECT count(*) FROM outbox") == 1


async def test_another_role_is_not_joined_and_keeps_its_own_rights(server: PostgresServer, other: Any, store: PostgresStore) -> None:
    await other.execute("DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN; GRANT SELECT, INSERT ON outbox TO clerk")
    url = server.url.replace("perdure@", "clerk@")
    try:
        assert await run(defined(url, sql(TRANSACTION)), store) == 1
        assert await other.fetchval("SELECT body FROM outbox") == '"clerk"'
        for denied in ("DELETE FROM accounts", "DELETE FROM perdure.heads"):
            with pytest.raises(ExecutionFailed, match=r"statement_refused: .*permission denied for \w+ \w+ \(SQLSTATE 42501"):
                await run(defined(url, sql({"execute": denied})), store, id=denied[-5:])
    finally:
        await other.execute("DROP OWNED BY clerk; DROP ROLE clerk")


async def test_perdure_s_own_tables_can_not_be_changed_in_its_transaction(other: Any, store: PostgresStore) -> None:
    with pytest.raises(ExecutionFailed, match="changed Perdure's own tables"):
        await run(defined("store", sql({"execute": "UPDATE perdure.heads SET holder = NULL"})), store)


async def test_a_query_by_the_store_s_connection_changes_nothing_and_its_answer_is_written(other: Any, store: PostgresStore) -> None:
    assert await run(defined("store", sql({"query": "SELECT cents FROM accounts WHERE id = 1", "result": "value"})), store) == 1000
    with pytest.raises(ExecutionFailed, match="read-only transaction"):
        await run(defined("store", sql({"query": "WITH x AS (DELETE FROM accounts RETURNING 1) SELECT * FROM x"})), store, id="y")
    assert await other.fetchval("SELECT count(*) FROM accounts") == 2


async def test_where_it_can_not_be_found_out_whether_it_is_the_store_s_database_nothing_is_written(
    server: PostgresServer, other: Any, store: PostgresStore
) -> None:
    """A step that was performed without the transaction because of a short failure could be performed twice."""

    async def unknown(_: Any) -> bool:
        raise OSError("for a moment")

    store.is_same_database = unknown  # type: ignore[method-assign, assignment]  # a failure that no server makes at will
    with pytest.raises(ExecutionFailed, match="for a moment"):
        await run(defined(server.url, sql(TRANSACTION)), store)
    assert await other.fetchval("SELECT count(*) FROM outbox") == 0


async def test_two_engines_write_each_row_once(server: PostgresServer, other: Any) -> None:
    made = defined(
        server.url,
        sql({"execute": "INSERT INTO outbox VALUES (:idempotency_key, NULL)"}),
        {"id": "b", **{k: v for k, v in sql(TRANSACTION).items() if k != "id"}},
    )
    stores = [PostgresStore(server.url) for _ in range(3)]
    engines = [Engine(one, [made.graph]) for one in stores[1:]]
    running = [asyncio.create_task(engine.run()) for engine in engines]
    async with AsyncClient(stores[0]) as client:
        handles = [await client.start(made.with_(id=str(number))) for number in range(40)]
        assert {await handle.result("60s") for handle in handles} == {1}
    for engine in engines:
        engine.stop()
    await asyncio.gather(*running)
    for one in stores:
        await one.close()
    ids = [row[0] for row in await other.fetch("SELECT id FROM outbox WHERE id LIKE 'default%'")]
    assert sorted(ids) == sorted(f"default/it/{number}:a" for number in range(40))
    assert await other.fetchval("SELECT count(*) FROM outbox") == 80


# A pooler in between.


@pytest.fixture
def pooled(server: PostgresServer) -> Iterator[str]:
    """The URL of the same database by a PgBouncer in transaction mode."""
    with pgbouncer(server, default_pool_size=2) as pooler:
        yield pooler.url


async def test_a_pooler_in_transaction_mode_may_be_in_between(server: PostgresServer, other: Any, pooled: str) -> None:
    one = sql(
        {"execute": ["INSERT INTO outbox VALUES (:id, :body)", {"statement": "SELECT count(*) FROM outbox", "result": "value"}]},
        id="@input.value",
        body={"a": 1},
    )
    typed = {"id": "b", "sql": {"connection": "shop", "query": "SELECT 'happy'::mood AS m, ROW(1, 'x')::pair AS p, :x::mood[] AS l"}, "with": {"x": ["sad"]}}
    made = defined(pooled, one, typed)
    found = await asyncio.gather(*(run(made, id=str(number), value=str(number)) for number in range(12)))
    assert found == [[{"m": "happy", "p": {"a": 1, "b": "x"}, "l": ["sad"]}]] * 12
    assert await other.fetchval("SELECT count(*) FROM outbox") == 12


async def test_by_a_pooler_the_store_s_database_is_recognized(other: Any, store: PostgresStore, pooled: str) -> None:
    transact, joined = store.transact, list[Any]()

    async def told(*given: Any) -> Any:
        joined.append(answer := await transact(*given))
        return answer

    store.transact = told  # type: ignore[method-assign, assignment]  # to see that it is used
    assert await run(defined(pooled, sql(TRANSACTION)), store) == 1 and len(joined) == 1
