"""Claims about sql steps in whole definitions, on SQLite: results, values, what is refused, which database is joined, and that nothing is spliced."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import App, BadDefinition, Definition, Deployment, ExecutionFailed
from perdure.core.errors import BadValue, MissingCapabilities
from perdure.definitions.expr.json_schema import compile_schema
from perdure.definitions.kinds.deployment import NOTHING_MORE
from perdure.definitions.kinds.sql.sql_errors import SqlRefused
from perdure.definitions.kinds.sql.sql_kind import EXAMPLE, limit_s, sql_kind
from perdure.definitions.kinds.sql.sql_request import build_request
from perdure.stores.sqlite.database_setup import create_beside_application_tables
from perdure.testing import World
from perdure.testing.verdicts import Unanswered

TABLES = """
CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT UNIQUE, cents INTEGER CHECK (cents >= 0));
CREATE TABLE outbox (id TEXT, body TEXT);
INSERT INTO accounts VALUES (1, 'ada', 1000), (2, 'bob', 0);
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A database of the user's."""
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(TABLES)
    return file


def rows(file: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(sql).fetchall()


def document(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"perdure": 1, "name": "it", "order": "listed", "input": {"value": {"default": None}}, **more, "steps": list(steps)}


def sql(config: Any, **given: Any) -> dict[str, Any]:
    """A step with these values."""
    return {"id": "a", "sql": {"connection": "shop", **config}, **({"with": given} if given else {}), "retry": {"wait": "1ms"}}


async def run(shop: Path, step: Any, value: Any = None, db: str = "memory:", **options: Any) -> Any:
    made = Definition.of(document(step), connections={"shop": f"sqlite:///{shop}"}, **options)
    return await made.with_(db=db).arun(value=value)


async def test_the_example_does_what_it_says(shop: Path) -> None:
    made = Definition.of(EXAMPLE, connections={"shop": f"sqlite:///{shop}"})
    assert await made.with_(db="memory:", id="s1").arun(customer="ada", cents=300) == [1, 1]
    assert rows(shop, "SELECT cents FROM accounts ORDER BY id") == [(700,), (0,)]
    assert rows(shop, "SELECT * FROM outbox") == [("default/sale/s1:sell", '{"sold":300,"to":"ada"}')]
    with pytest.raises(ExecutionFailed, match=r"unexpected_rows: shop: statement 1: UPDATE accounts .*: 0 rows .* 1 were expected; nothing was kept"):
        await made.with_(db="memory:", id="s2").arun(customer="bob", cents=300)
    assert len(rows(shop, "SELECT * FROM outbox")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "result"),
    [
        ({"query": "SELECT id, name FROM accounts ORDER BY id"}, [{"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}]),
        ({"query": "SELECT id, name FROM accounts WHERE id = 9"}, []),
        ({"query": "SELECT id, name FROM accounts WHERE id = 1", "result": "row"}, {"id": 1, "name": "ada"}),
        ({"query": "SELECT id FROM accounts WHERE id = 9", "result": "row"}, None),
        ({"query": "SELECT sum(cents) FROM accounts", "result": "value"}, 1000),
        ({"query": "SELECT id FROM accounts WHERE id = 9", "result": "value"}, None),
        ({"query": "SELECT id FROM accounts", "result": "count"}, 2),
        ({"execute": "UPDATE accounts SET cents = cents + 1"}, 2),
        ({"execute": "UPDATE accounts SET cents = cents + 1 WHERE id = 1 RETURNING cents", "result": "value"}, 1001),
        ({"execute": ["DELETE FROM accounts WHERE id = 1", {"statement": "INSERT INTO accounts VALUES (3, 'eve', 5) RETURNING *", "result": "row"}]},
         [1, {"id": 3, "name": "eve", "cents": 5}]),
        ({"execute": "CREATE TABLE other (x)"}, 0),
        ({"query": "SELECT NULL AS n, 1.5 AS f, x'00ff' AS b, 'ü🎉' AS t"}, [{"n": None, "f": 1.5, "b": {"base64": "AP8="}, "t": "ü🎉"}]),
    ],
)  # fmt: skip
async def test_a_result_is_taken_in_the_form_that_is_asked_for(shop: Path, config: Any, result: Any) -> None:
    assert await run(shop, sql(config)) == result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"query": "SELECT id FROM accounts", "result": "row"}, r"unexpected_rows: .* has returned 2 rows, and its result is one row"),
        ({"query": "SELECT id, name FROM accounts WHERE id = 1", "result": "value"}, r"sql_refused: .* returns 2 columns, and its result is one value"),
        ({"query": "SELECT id, cents AS id FROM accounts"}, r"sql_refused: .* two columns of its result are called id; name them with AS"),
        ({"execute": "DELETE FROM accounts", "result": "rows"}, r"sql_refused: .* it returns no rows; take its result as count"),
        ({"query": "SELECT id FROM accounts", "max_rows": 1}, r"too_many_rows: .* more than 1 rows; select fewer, or allow more by max_rows"),
        ({"execute": "DELETE FROM accounts", "expect": 1}, r"unexpected_rows: .* 2 rows were changed or returned, and 1 were expected"),
        ({"query": "SELECT id FROM missing"}, r"statement_refused: shop: SELECT id FROM missing: no such table: missing"),
        ({"query": "SELEKT"}, r'statement_refused: shop: SELEKT: near "SELEKT": syntax error'),
        ({"execute": "INSERT INTO accounts VALUES (9, 'ada', 0)"}, r"statement_refused: .* UNIQUE constraint failed: accounts.name"),
        ({"query": "SELECT ?"}, r"sql_refused: .* \? is no placeholder here; write :name"),
        ({"query": "WITH x AS (SELECT 1) SELECT load_extension('x')"}, r"statement_refused: .* not authorized"),
    ],
)
async def test_what_fails_says_which_statement_and_what_to_do_and_keeps_nothing(shop: Path, config: Any, why: str) -> None:
    with pytest.raises(ExecutionFailed, match=why):
        await run(shop, sql(config))
    assert rows(shop, "SELECT id FROM accounts") == [(1,), (2,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", ["'; DROP TABLE accounts; --", "x' OR '1'='1", ":name", "@input.value", "@{secrets.HUSH}", "{{ 1 }}", "$1", "?1", "\x00", "ü🎉", "", "a" * 300_000]
)
async def test_a_value_is_data_whatever_is_in_it(shop: Path, value: str) -> None:
    step = sql(
        {"execute": ["INSERT INTO outbox VALUES (:name, :name)", {"statement": "SELECT body FROM outbox WHERE id = :name", "result": "value"}]},
        name="@input.value",
    )
    assert await run(shop, step, value) == [1, value]
    assert rows(shop, "SELECT count(*) FROM accounts") == [(2,)]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"sql": {"connection": "shop", "query": "SELECT * FROM @{input.value}"}}, "as placeholders, not through its text"),
        ({"sql": {"connection": "shop", "query": "@input.value"}}, "as placeholders, not through its text"),
        ({"sql": {"connection": "shop", "execute": ["DELETE FROM accounts", "@input.value"]}}, "as placeholders, not through its text"),
        ({"sql": {"connection": "shop", "execute": [{"statement": "SELECT '@{input.value}'"}]}}, "as placeholders, not through its text"),
        ({"sql": {"connection": "shop", "query": {"expr": "input.value"}}}, r"sql\.query.*statement"),
        ({"sql": {"connection": "@input.value", "query": "SELECT 1"}}, "a to z, digits and _"),
        ({"sql": {"connection": "postgresql://x", "query": "SELECT 1"}}, "a to z, digits and _"),
        ({"sql": {"connection": "shop"}}, "query.*execute"),
        ({"sql": {"connection": "shop", "query": "SELECT 1", "execute": "DELETE FROM accounts"}}, "query.*execute"),
        ({"sql": {"connection": "shop", "query": "SELECT :x"}}, r"the placeholder :x has no value; give it in with: \{x: …\}"),
        ({"sql": {"connection": "shop", "query": "SELECT 1"}, "with": {"x": 1}}, "no statement has the placeholder :x"),
        ({"sql": {"connection": "shop", "query": "SELECT :idempotency_key"}, "with": {"idempotency_key": 1}}, "the key of the step, which Perdure gives"),
        ({"sql": {"connection": "shop", "query": "SELECT 1", "max_rows": 200_000}}, "from 1 to 100,000"),
        ({"sql": {"connection": "shop", "execute": ["DELETE FROM accounts"], "result": "rows"}}, "each statement of a list has its own"),
        ({"sql": {"connection": "shop", "execute": "COMMIT"}}, "COMMIT is for transactions"),
        ({"sql": {"connection": "shop", "execute": "DELETE FROM a; DELETE FROM b"}}, "several statements"),
        ({"sql": {"connection": "shop", "query": "DELETE FROM accounts"}}, "write it behind `execute`"),
        ({"sql": {"connection": "shop", "params": {}, "query": "SELECT 1"}}, "params"),
        ({"task": "sql", "with": {"connection": "shop", "query": "@input.value"}}, "behind the verb `sql`"),
        ({"task": {"type": "sql", "config": "@input.value"}}, "behind the verb `sql`"),
    ],
)
def test_what_is_wrong_with_a_step_is_told_when_its_definition_is_read(step: Any, why: str) -> None:
    with pytest.raises(BadDefinition, match=why):
        Definition.of(document({"id": "a", **step}), connections={"shop": "store"})


async def test_the_text_of_a_statement_is_the_same_in_every_execution(shop: Path) -> None:
    step = sql({"query": "SELECT '@', '@x', 'a@b.example', '@@', :x AS \"@x\""}, x="@input.value")
    assert await run(shop, step, 5) == [{"'@'": "@", "'@x'": "@x", "'a@b.example'": "a@b.example", "'@@'": "@@", "@x": 5}]


@pytest.mark.parametrize("value", [{"connection": "shop", "query": "SELECT 1"}, "SELECT 1", ["SELECT 1"]])
async def test_statements_that_come_from_data_are_refused_where_they_would_run_too(shop: Path, value: Any) -> None:
    kind = sql_kind(Deployment(connections={"shop": f"sqlite:///{shop}"}))
    for config in (None, "SELECT 1", [value]):
        with pytest.raises(SqlRefused, match="behind the verb `sql`"):
            build_request(config, value, "key")
    with pytest.raises(SqlRefused, match="behind the verb `sql`"):
        kind.written("@input.value")
    assert kind.written({"connection": "shop", "query": "@input.value"})["query"] == "@@input.value"


UNDO = {"connection": "shop", "execute": "DELETE FROM outbox WHERE id = :id", "with": {"id": "@self"}}


async def test_a_step_is_undone_by_statements(shop: Path) -> None:
    execute = "INSERT INTO outbox VALUES (:idempotency_key, '@{x}') RETURNING id"
    undone = {"id": "a", "sql": {"connection": "shop", "execute": execute.replace("@{x}", "x"), "result": "value"}, "undo": {"tool": "sql", "with": UNDO}}
    kept = {"id": "b", "sql": {"connection": "shop", "execute": "INSERT INTO outbox VALUES ('kept', 1)"}}
    made = Definition.of(document(undone, kept, {"id": "c", "fail": "no"}), connections={"shop": f"sqlite:///{shop}"})
    with pytest.raises(ExecutionFailed, match="no"):
        await made.with_(db="memory:").arun()
    assert rows(shop, "SELECT id FROM outbox") == [("kept",)]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({**UNDO, "execute": "DELETE FROM outbox WHERE id = '@{self}'", "with": {}}, "as placeholders, not through its text"),
        ({**UNDO, "execute": "@self"}, "as placeholders, not through its text"),
        ({**UNDO, "with": {}}, "the placeholder :id has no value"),
        ("@self", "behind the verb `sql`"),
        (None, "behind the verb `sql`"),
    ],
)
def test_what_is_wrong_with_an_undo_is_told_when_its_definition_is_read(given: Any, why: str) -> None:
    undo = {"tool": "sql"} if given is None else {"tool": "sql", "with": given}
    with pytest.raises(BadDefinition, match=why):
        Definition.of(document({**sql({"query": "SELECT 1"}), "undo": undo}), connections={"shop": "store"})


def test_the_connection_of_an_undo_is_required_too() -> None:
    made = Definition.of(document({"id": "a", "set": {"x": 1}}, {"id": "b", "bash": "true", "undo": {"tool": "sql", "with": {**UNDO, "connection": "other"}}}))
    assert [(need.what, need.name) for need in made.lacks()] == [("connection", "other")]


@pytest.mark.parametrize(
    "value",
    [2**63, {"base64": "not base64"}],
)
async def test_a_value_that_can_not_be_bound_is_refused_and_not_shown(shop: Path, value: Any) -> None:
    with pytest.raises(ExecutionFailed, match=r"the value of :x can't be bound|number|64") as failed:
        await run(shop, sql({"query": "SELECT :x"}, x="@input.value"), value)
    assert "9223372036854775808" not in str(failed.value) and "not base64'" not in str(failed.value)


async def test_values_of_all_kinds_are_bound(shop: Path) -> None:
    given = {"i": 1, "f": 1.5, "b": True, "n": None, "l": [1, "x"], "m": {"a": None}, "y": {"base64": "AP8="}}
    step = sql({"query": "SELECT :i AS i, :f AS f, :b AS b, :n AS n, :l AS l, :m AS m, :y AS y", "result": "row"}, **given)
    assert await run(shop, step) == {"i": 1, "f": 1.5, "b": 1, "n": None, "l": '[1,"x"]', "m": '{"a":null}', "y": {"base64": "AP8="}}


async def test_secrets_reach_the_database_and_nothing_else(shop: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    step = sql({"execute": ["INSERT INTO outbox VALUES (1, :token)", {"statement": "SELECT body FROM outbox", "result": "value"}]}, token="@secrets.HUSH")
    assert await run(shop, step, db=f"sqlite:///{store}/it.db", secrets={"HUSH": "canary-12345"}) == [1, "***"]
    assert rows(shop, "SELECT body FROM outbox") == [("canary-12345",)]
    assert not any(b"canary-12345" in file.read_bytes() for file in store.rglob("*") if file.is_file())


async def test_a_trigger_s_message_shows_no_value(shop: Path) -> None:
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("CREATE TRIGGER t BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'no secret-value-1 here'); END")
    with pytest.raises(ExecutionFailed, match=r"no \*\*\* here") as failed:
        await run(shop, sql({"execute": "INSERT INTO outbox VALUES (1, :x)"}, x="@input.value"), "secret-value-1")
    assert "secret-value-1" not in str(failed.value)


# Which database it is.


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file with the tables of Perdure and of a user."""
    file = tmp_path / "own.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(TABLES)
    create_beside_application_tables(file)
    return file


async def test_a_query_reads_only_and_changes_nothing_in_any_way(shop: Path) -> None:
    for query in ("WITH x AS (SELECT 1) UPDATE accounts SET cents = 5", "EXPLAIN SELECT 1", "VALUES (1)"):
        step = sql({"query": query})
        if "UPDATE" in query:
            with pytest.raises(ExecutionFailed, match=r"not authorized.*a query only reads|readonly"):
                await run(shop, step)
        else:
            assert await run(shop, step)
    assert rows(shop, "SELECT cents FROM accounts") == [(1000,), (0,)]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["url", "store"])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM heads",
        "SELECT * FROM (SELECT * FROM blobs)",
        "UPDATE accounts SET cents = (SELECT count(*) FROM vault)",
        "DELETE FROM mail",
        "DROP TABLE log",
        "ALTER TABLE heads ADD COLUMN x",
        "CREATE INDEX i ON log (id)",
    ],
)
async def test_perdure_s_own_tables_are_out_of_reach(own: Path, source: str, statement: str) -> None:
    url = f"sqlite:///{own}"
    made = Definition.of(document(sql({"execute": statement})), connections={"shop": url if source == "url" else "store"})
    with pytest.raises(ExecutionFailed, match=r"statement_refused: .*(not authorized|prohibited).*Perdure's own tables"):
        await made.with_(db=url).arun()


async def test_a_query_of_the_store_s_own_file_does_not_read_perdure_s_tables(own: Path) -> None:
    made = Definition.of(document(sql({"query": "SELECT * FROM heads"})), connections={"shop": f"sqlite:///{own}"})
    with pytest.raises(ExecutionFailed, match="Perdure's own tables"):
        await made.with_(db=f"sqlite:///{own}").arun()


async def test_store_is_the_store_s_own_database_and_needs_one(own: Path) -> None:
    made = Definition.of(document(sql({"execute": "UPDATE accounts SET cents = cents + 1"})), connections={"shop": "store"})
    assert await made.with_(db=f"sqlite:///{own}").arun() == 2
    read = Definition.of(document(sql({"query": "SELECT cents FROM accounts WHERE id = 1", "result": "value"})), connections={"shop": "store"})
    assert await read.with_(db=f"sqlite:///{own}").arun() == 1001
    with pytest.raises(
        ExecutionFailed, match=r"sql_refused: the connection shop is the database of the store, and this store is in none; use SQLite or Postgres"
    ):
        await made.with_(db="memory:").arun()


async def test_a_query_by_the_store_s_connection_changes_nothing(own: Path) -> None:
    made = Definition.of(document(sql({"query": "WITH x AS (SELECT 1) UPDATE accounts SET cents = 5"})), connections={"shop": "store"})
    with pytest.raises(ExecutionFailed, match="not authorized"):
        await made.with_(db=f"sqlite:///{own}").arun()
    assert rows(own, "SELECT cents FROM accounts") == [(1000,), (0,)]


async def test_a_missing_file_is_told_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(ExecutionFailed, match=r"sql_refused: shop: there is no file .*none.db; create the database, or correct"):
        await run(tmp_path / "none.db", sql({"execute": "CREATE TABLE a (b)"}))
    assert not (tmp_path / "none.db").exists()


async def test_an_execution_waits_for_an_engine_that_has_the_connection(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step, db = document(sql({"query": "SELECT 1 AS x"})), f"sqlite:///{tmp_path}/it.db"
    with pytest.raises(MissingCapabilities, match=r"the engine has no connection shop\. Give the definition what is missing"):
        await Definition.of(step).with_(db=db).arun()
    assert [need.what for need in Definition.of(step).lacks()] == ["connection"]
    monkeypatch.setenv("PERDURE_CONNECTION_SHOP", f"sqlite:///{shop}")
    assert await Definition.of(step).with_(db=db).arun() == [{"x": 1}]
    assert Definition.of(step).lacks() == []


async def test_an_app_has_connections(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text('perdure: 1\nname: it\nsteps:\n  - {id: a, sql: {connection: shop, query: "SELECT 1 AS x"}}\n')
    async with App(definitions=str(tmp_path / "it.yaml"), connections={"shop": f"sqlite:///{shop}"}, db=f"sqlite:///{tmp_path}/it.db") as app:
        assert await app.run("it") == [{"x": 1}]


async def test_a_secret_in_the_url_is_resolved_where_the_step_runs(shop: Path) -> None:
    for source, secret in (("@secrets.SHOP_URL", f"sqlite:///{shop}"), (f"sqlite:///{shop.parent}/@{{secrets.SHOP_URL}}", "shop.db")):
        made = Definition.of(document(sql({"query": "SELECT 1 AS x"})), connections={"shop": source}, secrets={"SHOP_URL": secret})
        assert await made.with_(db="memory:").arun() == [{"x": 1}]
    with pytest.raises(ExecutionFailed, match="missing_secret: the secret SHOP_URL is not set"):
        await Definition.of(document(sql({"query": "SELECT 1"})), connections={"shop": "@secrets.SHOP_URL"}).with_(db="memory:").arun()


@pytest.mark.parametrize(
    ("connections", "why"),
    [
        ({"Shop": "store"}, "a to z, digits and _"),
        ({"shop": "mysql://u:hush@h/d"}, r"the connection shop: 'mysql:…' is not the URL"),
        ({"shop": 5}, "'int' is not the URL"),
    ],
)
def test_a_wrong_connection_is_told_when_it_is_given(connections: Any, why: str) -> None:
    with pytest.raises(BadValue, match=why) as refused:
        Definition.of(document({"id": "a", "return": 1}), connections=connections)
    assert "hush" not in str(refused.value)


# Time.


ENDLESS = "WITH RECURSIVE x (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT max(n) FROM x"


@pytest.mark.slow
@pytest.mark.parametrize("source", ["url", "store"])
async def test_a_statement_is_ended_when_its_time_is_over_and_tried_again(own: Path, source: str) -> None:
    step = {**sql({"execute": f"UPDATE accounts SET cents = ({ENDLESS})"}), "timeout": "200ms", "retry": {"max": 2, "wait": "1ms"}}
    made = Definition.of(document(step), connections={"shop": f"sqlite:///{own}" if source == "url" else "store"})
    began_s = time.monotonic()
    with pytest.raises(ExecutionFailed, match=r"statement_timeout: .*its time is over; give the step more `timeout`|timeout"):
        await made.with_(db=f"sqlite:///{own}").arun()
    assert time.monotonic() - began_s < 10


@pytest.mark.slow
async def test_a_statement_that_nobody_wants_any_more_is_interrupted(shop: Path) -> None:
    branches = [{"id": "slow", "sql": {"connection": "shop", "query": ENDLESS}}, {"id": "fast", "sleep": "200ms"}]
    made = Definition.of(document({"id": "first", "race": branches}), connections={"shop": f"sqlite:///{shop}"})
    began_s = time.monotonic()
    assert (await made.with_(db="memory:").arun())["winner"] == "fast"
    for _ in range(50):
        if not any("_perform" in str(task) for task in asyncio.all_tasks()):
            break
        await asyncio.sleep(0.1)
    assert time.monotonic() - began_s < 8


async def test_a_busy_file_is_tried_again(shop: Path) -> None:
    step = {**sql({"execute": "UPDATE accounts SET cents = 1"}), "timeout": "300ms", "retry": {"max": 2, "wait": "1ms"}}
    with closing(sqlite3.connect(shop, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ExecutionFailed, match=r"statement_transient: .*database is locked|timeout"):
            await run(shop, step)
        other.execute("ROLLBACK")
    assert await run(shop, step) == 2


def test_the_time_of_the_statements_is_less_than_that_of_the_attempt() -> None:
    assert (limit_s(None), limit_s(60), limit_s(1)) == (30, 59.5, 0.9)


# What others know of it.


def test_the_kind_describes_itself() -> None:
    kind = sql_kind(NOTHING_MORE)
    assert (kind.name, kind.ports, kind.extra) == ("sql", ("success", "error"), "")
    assert kind.config is not None
    compile_schema(dict(kind.config))
    assert not list(kind.check({"connection": "shop", "query": "SELECT 1"}))


async def test_a_tool_of_the_name_stands_in_for_it_in_tests() -> None:
    asked = list[Any]()

    def fake(config: Any, input: Any = None) -> Any:
        asked.append((config, input))
        return [{"x": 7}]

    made = Definition.of(document(sql({"query": "SELECT :x AS x"}, x=1)), kinds={"sql": fake})
    assert await made.with_(db="memory:").arun() == [{"x": 7}]
    assert asked == [({"connection": "shop", "query": "SELECT :x AS x"}, {"x": 1})]


def test_in_a_world_a_step_is_mocked_and_needs_no_connection(world: World, shop: Path) -> None:
    with world.mock("sql", returns=[{"x": 5}]):
        assert world.run(Definition.of(document(sql({"query": "SELECT 1 AS x"})))) == [{"x": 5}]
    with pytest.raises(Unanswered, match="it needs a transaction, and a world has no database; mock it"):
        world.run(Definition.of(document(sql({"query": "SELECT 1 AS x"})), connections={"shop": f"sqlite:///{shop}"}))


async def test_two_executions_of_one_id_write_once(own: Path) -> None:
    made = Definition.of(document(sql({"execute": "INSERT INTO outbox VALUES (:idempotency_key, 1)"})), connections={"shop": "store"})
    for _ in range(2):
        assert await made.with_(db=f"sqlite:///{own}", id="once").arun() == 1
    assert rows(own, "SELECT id FROM outbox") == [("default/it/once:a",)]
