"""Starts and messages through an outbox in a database of SQLAlchemy: with the caller's transaction or not at all, each once, whatever is killed."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")

from sqlalchemy import Engine, MetaData, create_engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from perdure import App, Client, Context, Encrypted, NotFound, Queue, Signal, Timeout, WrongVerb, step, workflow
from perdure.app import SyncApp
from perdure.core.errors import BadValue
from perdure.sqlalchemy import SqlalchemyOutbox
from perdure.stores.encryption import new_key, parse_keys
from perdure.stores.outbox import OutboxBatch
from perdure.stores.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("outbox_shop.py")
packed = Signal("packed", str)


@workflow
async def order(ctx: Context, number: int) -> str:
    box = await ctx.listen(packed)
    return f"{number} in {box}"


@workflow
async def at_once(ctx: Context, what: Any) -> Any:
    return what


@workflow
async def collects(ctx: Context, count: int) -> list[str]:
    found = list[str]()
    for _ in range(count):
        found.append(await ctx.listen(packed))
    return found


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    found = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with found.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER PRIMARY KEY)"))
    yield found
    found.dispose()


@pytest.fixture
def outbox(engine: Engine) -> SqlalchemyOutbox:
    metadata = MetaData()
    made = SqlalchemyOutbox(engine, metadata)
    metadata.create_all(engine)
    return made


def app_of(tmp_path: Path, outbox: SqlalchemyOutbox, **options: Any) -> App:
    return App([order, at_once, collects], db=f"sqlite:///{tmp_path}/perdure.db", outbox=outbox, **options)


@pytest.fixture
def shop(tmp_path: Path, outbox: SqlalchemyOutbox) -> Iterator[SyncApp]:
    with app_of(tmp_path, outbox) as opened:
        yield opened


def waiting_rows(outbox: SqlalchemyOutbox) -> list[tuple[int, str, str | None]]:
    assert isinstance(outbox.engine, Engine)
    with outbox.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text("SELECT id, target, error FROM perdure_outbox ORDER BY id"))]


def wait_until_empty(outbox: SqlalchemyOutbox) -> None:
    limit_s = time.monotonic() + 20
    while waiting_rows(outbox):
        assert time.monotonic() < limit_s, waiting_rows(outbox)
        time.sleep(0.005)


def test_a_start_and_a_message_exist_with_the_commit(engine: Engine, shop: SyncApp, outbox: SqlalchemyOutbox) -> None:
    with Session(engine) as session, session.begin():
        session.execute(text("INSERT INTO orders VALUES (1)"))
        handle = shop.start(order.with_(id="o1", connection=session), 1)
        handle.send(packed, "box 5", connection=session)
        assert handle.created
        assert shop.client.list(internal=True) == []
    assert handle.result(timeout="20s") == "1 in box 5"
    wait_until_empty(outbox)


def test_nothing_exists_after_a_rollback(engine: Engine, shop: SyncApp, outbox: SqlalchemyOutbox) -> None:
    with Session(engine) as session:
        handle = shop.start(order.with_(id="o1", connection=session), 1)
        session.rollback()
    with engine.connect() as connection:
        shop.start(order.with_(id="o2", connection=connection), 2)
    with engine.begin() as connection:
        shop.start(at_once.with_(id="after", connection=connection), 3)
    assert shop.handle("after").result(timeout="20s") == 3 if _exists(shop, "after") else pytest.fail("the later start did not come")
    assert waiting_rows(outbox) == []
    assert [one.key.id for one in shop.client.list()] == ["after"]
    with pytest.raises(Timeout):
        handle.result(timeout="50ms")
    with pytest.raises(NotFound):
        handle.status()


def _exists(shop: SyncApp, id: str) -> bool:
    limit_s = time.monotonic() + 20
    while not any(one.key.id == id for one in shop.client.list()):
        assert time.monotonic() < limit_s
        time.sleep(0.005)
    return True


def test_sessions_of_every_kind_are_taken(engine: Engine, shop: SyncApp) -> None:
    scoped = scoped_session(sessionmaker(engine))
    first = shop.start(at_once.with_(id="scoped", connection=scoped), 1)
    scoped.commit()
    scoped.remove()
    with engine.begin() as connection:
        second = shop.start(at_once.with_(id="connection", connection=connection), 2)
    assert [first.result(timeout="20s"), second.result(timeout="20s")] == [1, 2]


async def test_async_sessions_are_taken_and_an_async_engine_relays(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    metadata = MetaData()
    outbox = SqlalchemyOutbox(engine, metadata)
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    async with app_of(tmp_path, outbox) as app:
        async with AsyncSession(engine) as session, session.begin():
            first = await app.start(at_once.with_(id="session", connection=session), 1)
        async with engine.begin() as connection:
            second = await app.start(at_once.with_(id="connection", connection=connection), 2)
            third = await app.start(order.with_(id="o3", connection=connection), 3)
            await third.send(packed, "a box", connection=connection)
        assert [await one.result(timeout="20s") for one in (first, second, third)] == [1, 2, "3 in a box"]
    await engine.dispose()


def test_the_same_start_twice_is_one_execution(engine: Engine, shop: SyncApp, outbox: SqlalchemyOutbox) -> None:
    for value in ("first", "second"):
        with Session(engine) as session, session.begin():
            handle = shop.start(at_once.with_(id="same", connection=session), value)
        assert handle.result(timeout="20s") == "first"
    wait_until_empty(outbox)
    assert len(shop.client.list()) == 1


def test_messages_arrive_in_order(engine: Engine, shop: SyncApp) -> None:
    with Session(engine) as session, session.begin():
        handle = shop.start(collects.with_(id="c", connection=session), 250)
        for number in range(125):
            handle.send(packed, str(number), connection=session)
    for number in range(125, 250):
        with Session(engine) as session, session.begin():
            handle.send(packed, str(number), connection=session)
    assert handle.result(timeout="30s") == [str(number) for number in range(250)]


def test_a_process_without_an_engine_writes_what_another_one_posts(tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox) -> None:
    with app_of(tmp_path, outbox, engine=False) as writer:
        with Session(engine) as session, session.begin():
            handle = writer.start(at_once.with_(id="a", connection=session), "done")
        assert [target for _, target, _ in waiting_rows(outbox)] == ["default/at_once/a"]
        with app_of(tmp_path, outbox):
            assert handle.result(timeout="20s") == "done"


@pytest.mark.parametrize("wait", ["delay", "ttl"])
def test_times_count_from_the_start_and_not_from_the_post(tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox, wait: str) -> None:
    with app_of(tmp_path, outbox, engine=False) as writer, Session(engine) as session, session.begin():
        writer.start(at_once.with_(id="a", connection=session, delay="200ms" if wait == "delay" else None, ttl="200ms" if wait == "ttl" else None), 1)
    time.sleep(0.25)
    with app_of(tmp_path, outbox) as opened:
        assert _exists(opened, "a")
        handle = opened.handle("a")
        limit_s = time.monotonic() + 0.15 if wait == "delay" else time.monotonic() + 20
        while handle.summary().status not in ("completed", "cancelled", "failed"):
            assert time.monotonic() < limit_s + 5, handle.status()
            time.sleep(0.005)
        assert handle.summary().status == ("completed" if wait == "delay" else "cancelled")


@pytest.mark.parametrize("option", [{"strict": True}, {"singleton": True}, {"debounce": "1s"}])
def test_options_that_need_the_store_are_refused(engine: Engine, shop: SyncApp, outbox: SqlalchemyOutbox, option: dict[str, Any]) -> None:
    with Session(engine) as session, session.begin():
        with pytest.raises(BadValue, match="given without connection= on an outbox"):
            shop.start(at_once.with_(id="a", connection=session, **option), 1)
        session.execute(text("INSERT INTO orders VALUES (7)"))
    assert waiting_rows(outbox) == []


def test_a_connection_that_commits_by_itself_is_refused(engine: Engine, shop: SyncApp, outbox: SqlalchemyOutbox) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection, pytest.raises(BadValue, match="it commits by itself"):
        shop.start(at_once.with_(connection=connection), 1)
    always = create_engine(engine.url, isolation_level="AUTOCOMMIT")
    with always.connect() as connection, pytest.raises(BadValue, match="it commits by itself"):
        shop.start(at_once.with_(connection=connection), 1)
    always.dispose()
    assert waiting_rows(outbox) == []


def test_an_engine_that_begins_its_own_transactions_in_sqlite_is_taken(engine: Engine, shop: SyncApp) -> None:
    own = create_engine(engine.url)
    event.listen(own, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
    event.listen(own, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    with Session(own) as session, session.begin():
        handle = shop.start(at_once.with_(id="a", connection=session), 1)
    assert handle.result(timeout="20s") == 1
    own.dispose()


def test_what_is_no_connection_of_the_outbox_is_refused(tmp_path: Path, shop: SyncApp, outbox: SqlalchemyOutbox) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as plain, pytest.raises(BadValue, match="Session, AsyncConnection or AsyncSession of SQLAlchemy"):
        shop.start(at_once.with_(connection=plain), 1)
    with pytest.raises(BadValue, match="an Engine or AsyncEngine"):
        SqlalchemyOutbox("sqlite:///shop.db")  # type: ignore[arg-type]  # this is what is tested
    with pytest.raises(BadValue, match=r"App\(outbox=…\)"):
        App([order], outbox="sqlite:///shop.db")  # type: ignore[arg-type]  # this is what is tested
    with pytest.raises(WrongVerb, match="belongs to an event loop"):
        shop.start(at_once.with_(connection=AsyncSession(create_async_engine("sqlite+aiosqlite://"))), 1)


def test_a_missing_table_fails_the_transaction_and_not_the_app(tmp_path: Path, engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with app_of(tmp_path, SqlalchemyOutbox(engine, name="elsewhere")) as shop:
        with Session(engine) as session, pytest.raises(OperationalError, match="no such table: elsewhere"):
            shop.start(at_once.with_(connection=session), 1)
        assert shop.run(at_once, 5) == 5
        assert _logged(caplog, "could not post the rows of the outbox")


def _logged(caplog: pytest.LogCaptureFixture, words: str) -> str:
    limit_s = time.monotonic() + 20
    while not (found := [record.getMessage() for record in caplog.records if words in record.getMessage()]):
        assert time.monotonic() < limit_s
        time.sleep(0.005)
    return found[0]


def test_a_row_that_can_not_be_posted_is_kept_aside_with_the_reason(
    tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox, caplog: pytest.LogCaptureFixture
) -> None:
    with app_of(tmp_path, outbox, engine=False) as writer, Session(engine) as session, session.begin():
        for number in range(3):
            writer.start(at_once.with_(id=f"a{number}", connection=session), number)
    with engine.begin() as connection:
        body = connection.execute(text("SELECT body FROM perdure_outbox WHERE target LIKE '%a1'")).scalar_one()
        connection.execute(text("UPDATE perdure_outbox SET body = :body WHERE target LIKE '%a1'"), {"body": body[:-1] + bytes([body[-1] ^ 1])})
    with app_of(tmp_path, outbox) as shop:
        assert _exists(shop, "a0") and _exists(shop, "a2")
        assert "the checksum of a payload is wrong" in _logged(caplog, "of the outbox can't be posted")
        limit_s = time.monotonic() + 20
        while len(left := waiting_rows(outbox)) != 1 or left[0][2] is None:
            assert time.monotonic() < limit_s, left
            time.sleep(0.005)
        with engine.begin() as connection:
            connection.execute(text("UPDATE perdure_outbox SET body = :body, error = NULL"), {"body": body})
        assert _exists(shop, "a1"), "a row without an error is attempted again"
    wait_until_empty(outbox)


def test_payloads_are_encrypted_in_the_outbox(tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox) -> None:
    codec = Encrypted(parse_keys(f"k1:{new_key()}"))
    with app_of(tmp_path, outbox, engine=False, codec=codec) as writer, Session(engine) as session, session.begin():
        writer.start(at_once.with_(id="a", connection=session), "a secret of the customer")
    with engine.connect() as connection:
        assert b"secret" not in connection.execute(text("SELECT body FROM perdure_outbox")).scalar_one()
    with app_of(tmp_path, outbox, codec=codec) as shop:
        assert _exists(shop, "a")
        assert shop.handle("a").result(timeout="20s") == "a secret of the customer"


def test_a_relay_without_the_key_leaves_the_rows_to_others(tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox, caplog: pytest.LogCaptureFixture) -> None:
    old, new = Encrypted(parse_keys(f"k1:{new_key()}")), Encrypted(parse_keys(f"k2:{new_key()}"))
    with app_of(tmp_path, outbox, engine=False, codec=new) as writer, Session(engine) as session, session.begin():
        writer.start(at_once.with_(id="a", connection=session), 1)
    with app_of(tmp_path, outbox, codec=old):
        assert "encrypted with the key 'k2'" in _logged(caplog, "could not post the rows")
    assert [error for _, _, error in waiting_rows(outbox)] == [None]
    with app_of(tmp_path, outbox, codec=new) as shop:
        assert _exists(shop, "a")


def test_large_arguments_pass_through(engine: Engine, shop: SyncApp) -> None:
    large = "x" * 3_000_000
    with Session(engine) as session, session.begin():
        handle = shop.start(at_once.with_(id="large", connection=session), large)
    assert handle.result(timeout="30s") == large


begun: list[int] = []
go_on = threading.Event()


@step
def holds(number: int) -> int:
    begun.append(number)
    assert go_on.wait(60)
    return number


@workflow
async def holding(ctx: Context, number: int) -> int:
    return await ctx.step(holds, number)


def test_a_queue_with_limits_applies(tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox) -> None:
    begun.clear()
    go_on.clear()
    slow = Queue("slow", concurrency=1)
    with App([holding], db=f"sqlite:///{tmp_path}/perdure.db", outbox=outbox, queues=[slow]) as shop:
        with Session(engine) as session, session.begin():
            handles = [shop.start(holding.with_(id=f"q{number}", queue=slow, connection=session), number) for number in range(2)]
        limit_s = time.monotonic() + 60
        while not begun or (status := shop.client.queues()[0]).executions_waiting != 1:
            assert time.monotonic() < limit_s, shop.client.queues()
            time.sleep(0.005)
        assert (len(begun), status.executions) == (1, 1)
        go_on.set()
        assert {handle.result(timeout="60s") for handle in handles} == {0, 1}


def test_a_store_that_fails_leaves_the_rows(
    tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from perdure.core.errors import StoreUnavailable

    commit, failures = SqliteStore.commit, [StoreUnavailable("the disk is full")] * 3

    async def failing(self: SqliteStore, changes: Sequence[Any]) -> Any:
        if failures and any(message.key == "start" for change in changes for message in change.messages):
            raise failures.pop()
        return await commit(self, changes)

    monkeypatch.setattr(SqliteStore, "commit", failing)
    with app_of(tmp_path, outbox) as shop:
        with Session(engine) as session, session.begin():
            handle = shop.start(at_once.with_(id="a", connection=session), 1)
        assert handle.result(timeout="20s") == 1
        assert not failures
        assert "the disk is full" in _logged(caplog, "could not post the rows of the outbox")


def test_a_number_is_never_used_again(engine: Engine, shop: SyncApp, outbox: SqlalchemyOutbox) -> None:
    """A relay that is late removes by number what another one has removed already."""
    seen = []
    for id in ("a", "b"):
        with Session(engine) as session, session.begin():
            handle = shop.start(at_once.with_(id=id, connection=session), 1)
            seen.append(session.execute(text("SELECT max(id) FROM perdure_outbox")).scalar_one())
        handle.result(timeout="20s")
        wait_until_empty(outbox)
    assert seen[0] < seen[1]


def test_several_apps_share_an_outbox(tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox) -> None:
    with ExitStack() as stack:
        shops = [stack.enter_context(app_of(tmp_path, outbox)) for _ in range(3)]
        with Session(engine) as session, session.begin():
            handles = [shops[0].start(at_once.with_(id=f"a{number}", connection=session), number) for number in range(300)]
        assert [handle.result(timeout="30s") for handle in handles] == list(range(300))
        wait_until_empty(outbox)


class StuckOutbox(SqlalchemyOutbox):
    """Never finishes a batch that has rows."""

    @asynccontextmanager
    async def batch(self, thread: Executor) -> AsyncIterator[OutboxBatch]:
        async with super().batch(thread) as found:
            if found.rows:
                await asyncio.Event().wait()
            yield found


def test_a_stop_ends_a_relay_that_is_stuck_and_leaves_its_rows(tmp_path: Path, engine: Engine, outbox: SqlalchemyOutbox) -> None:
    begun_s = time.monotonic()
    with app_of(tmp_path, StuckOutbox(engine), grace="100ms") as shop, Session(engine) as session, session.begin():
        shop.start(at_once.with_(id="a", connection=session), 1)
    assert time.monotonic() - begun_s < 10
    assert len(waiting_rows(outbox)) == 1


# Killed processes.


def begin(directory: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, str(PROGRAM), str(directory), *arguments], cwd=ROOT, env={"PYTHONPATH": f"{ROOT}/src:{ROOT}", "PATH": ""})


def delivered(directory: Path) -> set[str]:
    file = directory / "delivered"
    return set(file.read_text().splitlines()) if file.exists() else set()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.prove)])
def test_each_committed_order_is_started_once_whatever_is_killed(tmp_path: Path, kills: int) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
    (tmp_path / "sold").touch()
    for first in range(0, 1000 * kills, 1000):  # killed while it sells: between a commit and the note of it, or anywhere else
        seller = begin(tmp_path, "sell", str(first), "1000")
        wanted = len((tmp_path / "sold").read_text().splitlines()) + 20
        while len((tmp_path / "sold").read_text().splitlines()) < wanted:
            assert seller.poll() is None
            time.sleep(0.005)
        seller.kill()
        seller.wait()
        dying = begin(tmp_path, "relay", "die-after", "1")
        assert dying.wait(60) == -9, "killed between the post and the removal of its rows"
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        orders = {number for (number,) in connection.execute("SELECT number FROM orders")}
        assert connection.execute("SELECT count(*) FROM perdure_outbox").fetchone()[0] > 0
    noted = {int(line) for line in (tmp_path / "sold").read_text().splitlines()}
    assert noted <= orders and len(orders) <= len(noted) + kills
    last = begin(tmp_path, "relay")
    try:
        limit_s = time.monotonic() + 60
        while len(delivered(tmp_path)) < len(orders):  # a step that was killed may have delivered twice
            assert last.poll() is None and time.monotonic() < limit_s
            time.sleep(0.01)
    finally:
        last.kill()
        last.wait()
    with Client(f"sqlite:///{tmp_path}/perdure.db") as client:
        assert {one.key.id for one in client.list(limit=10_000)} == {f"order-{number}" for number in orders}
    assert delivered(tmp_path) == {f"{number} box {number}" for number in orders}
