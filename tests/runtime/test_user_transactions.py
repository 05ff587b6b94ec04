"""Claims about starts and messages in a transaction of the user's: there with its commit, gone with its rollback, whoever dies, however often it is tried."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Context, HasEnded, InputDiffers, NotFound, Queue, Signal, workflow
from perdure.core.errors import BadValue, StoreError, WrongVerb
from perdure.core.limits import BLOB_BYTES_MIN
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore
from perdure.stores.payload_codec import Compressed
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient, Client
from tests.runtime.processes import until

approved = Signal("approved", bool)


@workflow
async def order(ctx: Context, name: str) -> str:
    await ctx.listen(approved)
    return f"{name} is sold"


@workflow
async def greet(ctx: Context, name: str) -> str:
    return f"Hello {name[:10]}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def client(file: Path) -> Iterator[Client]:
    with Client(f"sqlite:///{file}") as client:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE orders (name TEXT)")
            connection.commit()
        yield client


@pytest.fixture
def connection(client: Client, file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file)) as connection:
        yield connection


def ids(client: Client) -> list[str]:
    return sorted(one.key.id for one in client.list())


@pytest.mark.slow
def test_a_start_is_there_with_the_caller_s_commit(client: Client, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO orders VALUES ('book')")
    handle = client.start(order.with_(id="o1", connection=connection), "book")
    assert (handle.created, handle.id, ids(client)) == (True, "o1", []), "nobody else sees it yet"
    connection.commit()
    assert ids(client) == ["o1"] and handle.status().status == "pending"


@pytest.mark.slow
def test_a_start_is_gone_with_the_caller_s_rollback_and_may_be_made_again(client: Client, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO orders VALUES ('book')")
    client.start(order.with_(id="o1", connection=connection), "book")
    connection.rollback()
    assert ids(client) == [] and connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    assert client.start(order.with_(id="o1", connection=connection), "pen").created
    connection.commit()
    assert ids(client) == ["o1"]


@pytest.mark.slow
def test_what_a_savepoint_takes_back_takes_the_start_with_it(client: Client, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO orders VALUES ('book')")
    connection.execute("SAVEPOINT one")
    client.start(order.with_(id="o1", connection=connection), "book")
    connection.execute("ROLLBACK TO one")
    client.start(order.with_(id="o2", connection=connection), "pen")
    connection.commit()
    assert ids(client) == ["o2"] and connection.execute("SELECT count(*) FROM orders").fetchone() == (1,)


@pytest.mark.slow
def test_a_start_begins_the_transaction_as_the_first_write_of_a_connection_does(client: Client, connection: sqlite3.Connection) -> None:
    assert not connection.in_transaction
    client.start(order.with_(id="o1", connection=connection), "book")
    assert connection.in_transaction and ids(client) == []
    connection.commit()
    assert ids(client) == ["o1"]


def test_the_same_id_started_twice_counts_once(client: Client, connection: sqlite3.Connection) -> None:
    assert client.start(order.with_(id="o1", connection=connection), "book").created
    assert not client.start(order.with_(id="o1", connection=connection), "pen").created, "in the same transaction"
    connection.commit()
    assert not client.start(order.with_(id="o1", connection=connection), "pen").created, "in the next one, as after a commit whose answer was lost"
    connection.commit()
    assert ids(client) == ["o1"] and not client.start(order.with_(id="o1"), "pen").created


@pytest.mark.slow
def test_two_transactions_at_once_that_start_the_same_id_start_it_once(client: Client, file: Path) -> None:
    created: list[bool] = []
    both = threading.Barrier(2)

    def sells(name: str) -> None:
        with closing(sqlite3.connect(file)) as connection:
            both.wait()
            connection.execute("INSERT INTO orders VALUES (?)", (name,))
            created.append(client.start(order.with_(id="o1", connection=connection), name).created)
            time.sleep(0.05)
            connection.commit()

    threads = [threading.Thread(target=sells, args=(name,)) for name in ("book", "pen")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False, True] and ids(client) == ["o1"]


def test_a_strict_start_of_another_input_is_an_error_that_leaves_the_transaction_as_it_was(client: Client, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO orders VALUES ('book')")
    client.start(order.with_(id="o1", strict=True, connection=connection), "book")
    with pytest.raises(InputDiffers):
        client.start(order.with_(id="o1", strict=True, connection=connection), "pen")
    connection.commit()
    assert ids(client) == ["o1"] and connection.execute("SELECT count(*) FROM orders").fetchone() == (1,)


@pytest.mark.slow
def test_a_start_that_fails_half_way_leaves_nothing_of_itself(client: Client, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.execute("INSERT INTO orders VALUES ('book')")
    connection.execute("CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.mail BEGIN SELECT RAISE(ABORT, 'no mail today'); END")
    with pytest.raises(sqlite3.IntegrityError, match="no mail today"):
        client.start(order.with_(id="o1", connection=connection), "book")
    connection.commit()
    assert ids(client) == [] and connection.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    with pytest.raises(sqlite3.IntegrityError, match="no mail today"):
        client.start(order.with_(id="o1", connection=connection), "book")
    assert not connection.in_transaction, "what it had begun itself has ended"


@pytest.mark.slow
def test_of_a_debounce_in_transactions_the_last_that_was_committed_begins(client: Client, connection: sqlite3.Connection) -> None:
    first = client.start(order.with_(id="row", debounce="1h", connection=connection), "a")
    second = client.start(order.with_(id="row", debounce="1h", connection=connection), "b")
    connection.commit()
    client.start(order.with_(id="row", debounce="1h", connection=connection), "c")
    connection.rollback()
    assert (first.status().status, second.status().status, ids(client)) == ("cancelled", "pending", ["row@1", "row@2"])


def test_a_singleton_in_a_transaction_is_the_one_that_goes_on(client: Client, connection: sqlite3.Connection) -> None:
    first = client.start(order.with_(id="only", singleton=True, connection=connection), "a")
    again = client.start(order.with_(id="only", singleton=True, connection=connection), "b")
    connection.commit()
    assert (first.id, again.id, first.created, again.created) == ("only@1", "only@1", True, False)


def test_a_delay_is_counted_from_the_start(client: Client, connection: sqlite3.Connection, file: Path) -> None:
    handle = client.start(order.with_(id="o1", delay="1h", ttl="2h", connection=connection), "a")
    connection.commit()
    with closing(sqlite3.connect(file)) as other:
        (due_in_s,) = other.execute("SELECT due_at_s - (SELECT created_at_s FROM heads) FROM mail").fetchone()
    assert due_in_s == pytest.approx(3600, abs=5) and handle.status().status == "pending"


def test_nothing_that_waits_can_be_asked_for(client: Client, connection: sqlite3.Connection) -> None:
    with pytest.raises(WrongVerb, match="nothing begins before your commit"):
        client.run(order.with_(connection=connection), "a")
    assert not connection.in_transaction


@pytest.mark.slow
def test_a_message_is_there_with_the_commit_and_gone_with_the_rollback(client: Client, connection: sqlite3.Connection, file: Path) -> None:
    handle = client.start(order.with_(id="o1"), "book")
    handle.send(approved, False, connection=connection)
    connection.rollback()
    handle.send(approved, True, key="k", connection=connection)
    connection.commit()
    handle.send(approved, True, key="k", connection=connection)
    connection.commit()
    with closing(sqlite3.connect(file)) as other:
        assert other.execute("SELECT key FROM mail ORDER BY number").fetchall() == [("start",), ("message:k",)]


@pytest.mark.slow
def test_a_message_may_go_to_what_was_started_in_the_same_transaction(client: Client, connection: sqlite3.Connection) -> None:
    handle = client.start(order.with_(id="o1", connection=connection), "book")
    handle.send(approved, True, connection=connection)
    with pytest.raises(NotFound):
        handle.send(approved, True)  # without the connection nobody sees it yet
    with pytest.raises(NotFound):
        client.get("o1", order)
    connection.commit()
    handle.cancel()
    with pytest.raises(HasEnded):
        handle.send(approved, True, connection=connection)


@pytest.mark.slow
def test_a_queue_whose_limits_the_store_does_not_know_yet_is_refused(client: Client, connection: sqlite3.Connection) -> None:
    narrow = Queue("narrow", concurrency=1)
    with pytest.raises(BadValue, match=r"declared in the store with these limits yet.*without connection="):
        client.start(order.with_(queue=narrow, connection=connection), "a")
    client.start(order.with_(id="o1", queue=narrow), "a")
    client.start(order.with_(id="o2", queue=narrow, connection=connection), "b")
    client.start(order.with_(id="o3", queue="wide", connection=connection), "c")
    connection.commit()
    assert ids(client) == ["o1", "o2", "o3"] and [(one.name, one.executions_waiting) for one in client.queues()] == [("narrow", 2), ("wide", 1)]


# Which connections.


@pytest.mark.slow
def test_a_connection_to_another_database_is_refused(client: Client, file: Path, tmp_path: Path) -> None:
    for other in (":memory:", str(tmp_path / "other.db")):
        with closing(sqlite3.connect(other)) as connection:
            connection.execute("CREATE TABLE heads (number)")
            connection.execute("BEGIN")
            with pytest.raises(BadValue, match=r"is not the database of this client, .*shop.db; connect to that file"):
                client.start(order.with_(connection=connection), "a")
    (tmp_path / "link.db").symlink_to(file)
    with closing(sqlite3.connect(tmp_path / "link.db")) as connection:
        client.start(order.with_(id="o1", connection=connection), "a")
        connection.commit()
    assert ids(client) == ["o1"]


def test_what_is_no_connection_is_refused(client: Client) -> None:
    with pytest.raises(BadValue, match=r"is not a connection to .*shop.db: give a sqlite3, .*SQLAlchemy"):
        client.start(order.with_(connection=object()), "a")


@pytest.mark.slow
def test_a_connection_that_commits_by_itself_is_refused_until_it_has_begun(client: Client, file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        with pytest.raises(BadValue, match="it commits by itself; execute BEGIN first"):
            client.start(order.with_(id="o1", connection=connection), "a")
        connection.execute("BEGIN")
        client.start(order.with_(id="o1", connection=connection), "a")
        connection.execute("ROLLBACK")
        assert ids(client) == []
        connection.execute("BEGIN")
        client.start(order.with_(id="o1", connection=connection), "a")
        connection.execute("COMMIT")
    assert ids(client) == ["o1"]


@pytest.mark.slow
def test_how_a_connection_is_set_up_is_put_aside_and_stays(client: Client, connection: sqlite3.Connection) -> None:
    connection.row_factory, connection.text_factory = lambda _, row: {"row": row}, bytes
    rows, texts = connection.row_factory, connection.text_factory
    client.start(order.with_(id="o1", strict=True, connection=connection), "a")
    client.start(order.with_(id="o1", strict=True, connection=connection), "a")
    assert (connection.row_factory, connection.text_factory) == (rows, texts)
    connection.commit()
    assert ids(client) == ["o1"]


def test_a_connection_is_used_in_the_thread_that_it_belongs_to(client: Client, connection: sqlite3.Connection) -> None:
    failed: list[BaseException] = []

    def elsewhere() -> None:
        try:
            client.start(order.with_(id="o1", connection=connection), "a")
        except sqlite3.ProgrammingError as error:
            failed.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "same thread" in str(failed[0])
    client.start(order.with_(id="o1", connection=connection), "a")  # which is not that of the client's loop
    connection.commit()


def test_a_transaction_that_has_read_too_early_is_told_how_to_begin(client: Client, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM orders").fetchone()
    client.start(order.with_(id="o1"), "a")
    with pytest.raises(sqlite3.OperationalError, match="locked") as failed:
        client.start(order.with_(id="o2", connection=connection), "b")
    assert any("begin it with BEGIN IMMEDIATE" in note for note in failed.value.__notes__)
    connection.rollback()
    connection.execute("BEGIN IMMEDIATE")
    client.start(order.with_(id="o2", connection=connection), "b")
    connection.commit()
    assert ids(client) == ["o1", "o2"]


@pytest.mark.slow
def test_a_transaction_that_has_only_begun_waits_for_who_writes(client: Client, connection: sqlite3.Connection, file: Path) -> None:
    connection.execute("BEGIN")
    with closing(sqlite3.connect(file, check_same_thread=False)) as other:
        other.execute("INSERT INTO orders VALUES ('pen')")
        threading.Timer(0.2, other.commit).start()
        client.start(order.with_(id="o1", connection=connection), "b")
        connection.commit()
    assert ids(client) == ["o1"]


def test_a_store_without_a_database_refuses_it() -> None:
    with Client(MemoryStore()) as client, closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(BadValue, match="'MemoryStore' is not a store in a database of yours: use SQLite or Postgres"):
            client.start(order.with_(connection=connection), "a")
        handle = client.start(order, "a")
        with pytest.raises(BadValue, match="use SQLite or Postgres"):
            handle.send(approved, True, connection=connection)


@pytest.mark.slow
def test_a_closed_store_says_so(file: Path) -> None:
    client = Client(f"sqlite:///{file}")
    client.close()
    with closing(sqlite3.connect(file)) as connection, pytest.raises(StoreError, match="was closed"):
        client.start(order.with_(connection=connection), "a")


@pytest.mark.slow
async def test_an_async_client_joins_as_well(file: Path) -> None:
    async with AsyncClient(f"sqlite:///{file}") as client:
        with closing(sqlite3.connect(file)) as connection:
            handle = await client.start(order.with_(id="o1", connection=connection), "a")
            await handle.send(approved, True, connection=connection)
            assert await client.list() == []
            connection.commit()
            assert [one.key.id for one in await client.list()] == ["o1"]
            await handle.send(approved, True, connection=connection)
            connection.rollback()


@pytest.mark.slow
@pytest.mark.parametrize("chars", [10, 2 * BLOB_BYTES_MIN, 400_000])
async def test_what_is_encoded_and_what_is_large_goes_the_same_way(file: Path, chars: int) -> None:
    store = SqliteStore(file)
    name = "".join(chr(ord("a") + (7 * number + number // 26) % 26) for number in range(chars))
    client = await asyncio.to_thread(lambda: Client(store, codec=Compressed()))
    with closing(sqlite3.connect(file)) as connection:
        handle = client.start(greet.with_(id="o1", connection=connection), name)
        connection.commit()
        assert connection.execute("SELECT count(*) FROM mail WHERE instr(body, 'abcdefgh')").fetchone() == (0,)
    async with AsyncClient(store, codec=Compressed()) as other:
        running = Engine(other._access.on_store("a test").store, [greet.code])
        task = asyncio.create_task(running.run())
        assert await (await other.get(handle.key)).result("10s") == f"Hello {name[:10]}"
        running.stop()
        await task
    await asyncio.to_thread(client.close)


# When it is seen, and by whom.


@pytest.mark.slow
async def test_an_engine_of_another_store_begins_soon_after_the_commit(file: Path) -> None:
    """It looks once in a minute only, so it must have been rung; by whoever posted, as nobody else knows."""
    engines, clients = SqliteStore(file), SqliteStore(file)
    running = Engine(engines, [greet.code], poll_s=60.0)
    task = asyncio.create_task(running.run())
    await running.ready()
    await asyncio.sleep(0.05)
    async with AsyncClient(clients) as client:
        with closing(sqlite3.connect(file)) as connection:
            handle = await client.start(greet.with_(connection=connection), "Ada")
            await asyncio.sleep(0.1)
            connection.commit()
        assert await handle.result("5s") == "Hello Ada"
    running.stop()
    await task
    await engines.close()
    await clients.close()


@pytest.mark.slow
async def test_after_a_rollback_nobody_looks_for_ever(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.stores.sqlite.transaction_watcher.WATCH_MAX_S", 0.5)
    async with AsyncClient(f"sqlite:///{file}") as client:
        with closing(sqlite3.connect(file)) as connection:
            await client.start(greet.with_(connection=connection), "Ada")
            connection.rollback()
            assert notifications() == 1
            async with asyncio.timeout(5):
                while notifications():
                    await asyncio.sleep(0.01)
            await client.start(greet.with_(connection=connection), "Ada")
            assert notifications() == 1, "and begins again with the next"
            connection.rollback()
    assert notifications() == 0, "it ends with the client"


def notifications() -> int:
    return sum(thread.name == "perdure-commits" for thread in threading.enumerate())


# Whoever commits again.


@pytest.mark.slow
def test_a_commit_that_was_lost_is_made_again(client: Client, connection: sqlite3.Connection) -> None:
    for _ in range(2):  # as who does not know whether the first was durable
        client.start(order.with_(id="o1", connection=connection), "book")
        client.get("o1", order).send(approved, True, key="k", connection=connection) if ids(client) else None
        connection.commit()
    assert ids(client) == ["o1"]
    until(lambda: client.get("o1", order).status().status == "pending", "it is there once")
