"""The change feed of Postgres among transactions that take long, processes that are killed, and users without rights; and a whole store that is copied."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest
from click.testing import CliRunner

from perdure.cli.command_list import root
from perdure.core.envelopes import Ack
from perdure.core.paths import Address
from perdure.service.store_copies import copy_store
from perdure.stores.change_feed import ShippedHead, ShippedMessage
from perdure.stores.memory import MemoryStore
from perdure.stores.postgres import feed_reader
from perdure.stores.postgres.schema_maintenance import open_schema
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Committed, Post, Store
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.feed_suite import contents, copy_changes, feed_of
from perdure.testing.conformance.store_world import key, plain_message, queue
from tests.service.test_store_copies import BOXES, filled
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.sqlite.killed_process import begun, ended, in_a_child
from tests.stores.test_postgres_store import empty

pytestmark = pytest.mark.real

WRITERS, ROUNDS = 4, 30
BLOBS = [f"blob {number}" for number in range(60)]


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
def copy_url(server: DatabaseServer) -> str:
    """A second, empty database."""

    async def create() -> None:
        connection = await asyncpg.connect(server.url)
        await connection.execute("DROP DATABASE IF EXISTS copy")
        await connection.execute("CREATE DATABASE copy")
        await connection.close()

    asyncio.run(create())
    return server.url.replace("/postgres?", "/copy?")


@pytest.fixture
async def world(server: DatabaseServer) -> AsyncIterator[StoreWorld]:
    await empty(server)
    clock = Clock()
    store = PostgresStore(server.url, clock)
    await store.meet()
    yield StoreWorld(store, clock, (await store.store_time()).epoch)
    await store.close()


async def shipped_messages(store: Store, after: int, limit: int = 500) -> tuple[list[str], int]:
    """The keys of the messages that are shipped behind a position, and the position behind them."""
    found: list[str] = []
    while True:
        page = await feed_of(store).shipped(after, limit)
        found += [item.message.key for item in page.items if isinstance(item, ShippedMessage)]
        after = page.position
        if not page.more:
            return found, after


async def test_what_a_long_transaction_has_changed_is_shipped_once_it_commits_though_others_were_shipped_before(
    world: StoreWorld, server: DatabaseServer
) -> None:
    user = await asyncpg.connect(server.url)
    await feed_of(world.store).begin_feed()
    at, transaction = 0, user.transaction()
    await transaction.start()
    async with world.store.join(user) as within:  # type: ignore[attr-defined]  # Postgres has it
        await within.commit([Post(messages=(plain_message(queue(), "slow"),))])
    for number in range(3):
        await world.post(plain_message(queue(), f"fast {number}"))
        found, at = await shipped_messages(world.store, at)
        assert found == [f"fast {number}"]
        await feed_of(world.store).trim_feed(at)
    await transaction.commit()
    assert await shipped_messages(world.store, at) == (["slow"], at + 1)
    await user.close()


async def test_a_page_is_the_store_at_one_moment_whatever_commits_while_it_is_read(
    world: StoreWorld, server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_page, another = feed_reader.read_page, PostgresStore(server.url, world.clock)
    writer = StoreWorld(another, world.clock, world.epoch)
    await feed_of(world.store).begin_feed()
    at = await copy_changes(world.store, MemoryStore(world.clock), limit=100)
    await world.commit(key(), creates=True, row=b"1")

    async def commit_and_read(*arguments: Any) -> Any:
        assert isinstance(await writer.commit(key(), 1, row=b"2"), Committed)
        return await read_page(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(feed_reader, "read_page", commit_and_read)
        page = await feed_of(world.store).shipped(at)
    assert [item.head.version for item in page.items if isinstance(item, ShippedHead)] == [1] and not page.more
    page = await feed_of(world.store).shipped(page.position)
    assert [item.head.version for item in page.items if isinstance(item, ShippedHead)] == [2]
    await another.close()


@pytest.mark.parametrize("commits", [True, False])
async def test_what_a_transaction_changes_again_is_shipped_as_it_was_and_hides_nothing(world: StoreWorld, server: DatabaseServer, commits: bool) -> None:
    user, feed = await asyncpg.connect(server.url), feed_of(world.store)
    await feed.begin_feed()
    names = [f"task {number}" for number in range(5)]
    await world.post(*(plain_message(queue(), name) for name in names))
    transaction = user.transaction()
    await transaction.start()
    async with world.store.join(user) as within:  # type: ignore[attr-defined]  # Postgres has it
        await within.commit([Post(epoch=world.epoch, acks=tuple(Ack(queue(), name) for name in names[:3]))])
    await world.post(plain_message(queue(), "new"))
    found, at = await shipped_messages(world.store, 0, limit=1)
    assert found == [*names, "new"], "what is not committed has not happened"
    await feed.trim_feed(at)
    await world.post(plain_message(queue(), "newer"))
    found, at = await shipped_messages(world.store, at, limit=1)
    assert found == ["newer"], "what is locked is shipped once"
    await (transaction.commit() if commits else transaction.rollback())
    items = (await feed.shipped(at)).items
    assert len(items) == (3 if commits else 0)
    await user.close()


async def test_a_copy_that_follows_many_writers_is_the_store(world: StoreWorld, server: DatabaseServer) -> None:
    stores = [PostgresStore(server.url, world.clock) for _ in range(WRITERS)]
    copy, going = MemoryStore(world.clock), True
    keys = [key(str(number)) for number in range(6)]
    await world.open(*keys)
    await feed_of(world.store).begin_feed()

    async def write(store: Store, number: int) -> None:
        it = StoreWorld(store, world.clock, world.epoch)
        for step in range(ROUNDS):
            to = keys[(number + step) % len(keys)]
            head = await it.head(to)
            sends = tuple(plain_message(keys[other], f"{number} {step}") for other in (step % 5, (step + 3) % 5))
            await it.commit(to, head.version, row=b"r", messages=sends, blobs=((BLOBS[step], b"b"),))
            await it.post(acks=[Ack(keys[step % 5], f"{number} {step - 1}")])

    async def follow() -> int:
        at = 0
        while going:
            page = await feed_of(world.store).shipped(at, 7)
            await feed_of(copy).restore(page.items)
            at = page.position
        return at

    follower = asyncio.create_task(follow())
    await asyncio.gather(*(write(store, number) for number, store in enumerate(stores)))
    going = False
    at = await follower
    await copy_changes(world.store, copy, at)
    assert await contents(copy, keys, BLOBS) == await contents(world.store, keys, BLOBS)
    for store in stores:
        await store.close()


async def recorded(url: str) -> int:
    """How many changes and entries there are."""
    connection = await asyncpg.connect(url)
    found = await connection.fetchval("SELECT (SELECT count(*) FROM perdure.feed_changes) + (SELECT count(*) FROM perdure.feed)")
    await connection.close()
    return int(found)


async def test_nothing_is_recorded_before_and_after_a_feed_and_changes_that_nobody_reads_do_not_add_up(world: StoreWorld, server: DatabaseServer) -> None:
    await world.open(key())
    assert await recorded(server.url) == 0
    await feed_of(world.store).begin_feed()
    for _ in range(3):
        await world.post(plain_message(queue()))
        await world.post(acks=[Ack(queue(), "letter")])
    assert await recorded(server.url) == 1
    await feed_of(world.store).end_feed()
    await world.post(plain_message(queue()))
    assert await recorded(server.url) == 0
    await feed_of(world.store).begin_feed()
    await world.post(acks=[Ack(queue(), "letter")])
    assert await recorded(server.url) == 1, "the triggers are enabled again"


async def test_a_user_without_rights_on_the_feed_is_recorded(world: StoreWorld, server: DatabaseServer) -> None:
    owner = await asyncpg.connect(server.url)
    await owner.execute("DO $$ BEGIN CREATE ROLE app LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
    async with open_schema(server.url) as opened:
        await opened.grant(await opened.grants("app", "transaction"))
    await owner.execute("REVOKE ALL ON perdure.feed, perdure.feed_changes, perdure.feed_scans FROM app")
    await owner.execute("REVOKE ALL ON SEQUENCE perdure.feed_changes_id_seq FROM app")
    await feed_of(world.store).begin_feed()
    user = await asyncpg.connect(server.url.replace("perdure@", "app@"))
    async with user.transaction(), world.store.join(user) as within:  # type: ignore[attr-defined]  # Postgres has it
        (answer,) = await within.commit([Post(messages=(plain_message(queue()),))])
        assert isinstance(answer, Committed)
    assert (await shipped_messages(world.store, 0))[0] == ["letter"]
    await user.close()
    await owner.close()


# Whole stores, and processes that are killed.


def has_ended(child: int) -> bool:
    """Whether a process has ended."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@pytest.mark.slow
async def test_a_store_that_was_copied_from_a_file_to_postgres_and_back_is_the_same(tmp_path: Path, world: StoreWorld) -> None:
    first, back = SqliteStore(tmp_path / "first.db", world.clock), SqliteStore(tmp_path / "back.db", world.clock)
    await filled(first, world.clock, executions=60)
    done = await copy_store(first, world.store, "first")
    assert done.executions == 60
    again = await copy_store(world.store, back, "postgres")
    assert (again.executions, again.rows, again.messages, again.records) == (done.executions, done.rows, done.messages, done.records)
    before = await contents(first, BOXES, BLOBS)
    assert await contents(world.store, BOXES, BLOBS) == before and await contents(back, BOXES, BLOBS) == before
    assert [one.number for one in await first.messages(queue())] == [one.number for one in await back.messages(queue())]
    await first.close()
    await back.close()


@pytest.mark.slow
def test_the_command_copies_from_a_file_to_postgres_and_back(tmp_path: Path, copy_url: str) -> None:
    first, back = tmp_path / "first.db", tmp_path / "back.db"

    async def fill() -> None:
        store = SqliteStore(first)
        await filled(store, Clock())
        await store.close()

    async def compare() -> None:
        clock = Clock(4e9)  # all times have come
        stores = [SqliteStore(file, clock) for file in (first, back)]
        expected, found = [await contents(store, BOXES, BLOBS) for store in stores]
        assert found == expected
        for store in stores:
            await store.close()

    asyncio.run(fill())
    url = copy_url.replace("perdure@", "perdure:secret@")
    for source, target in ((f"sqlite:///{first}", url), (url, f"sqlite:///{back}")):
        done = CliRunner().invoke(root, ["db", "copy", source, target, "--independent"])
        assert done.exit_code == 0 and "30 executions" in done.output and "secret@" not in done.output, done.output
    asyncio.run(compare())


def kill_at(number: int) -> None:
    """Kills this process before its statement of this number on Postgres."""
    left = count()

    def counted(method: Any) -> Any:
        async def execute(*arguments: Any, **options: Any) -> Any:
            if next(left) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return await method(*arguments, **options)

        return execute

    for place, name in ((asyncpg.prepared_stmt.PreparedStatement, "fetch"), (asyncpg.Connection, "execute")):
        setattr(place, name, counted(getattr(place, name)))


@pytest.mark.slow
@pytest.mark.parametrize("phase", range(2))
def test_a_copy_that_is_killed_anywhere_goes_on_and_has_everything(phase: int, server: DatabaseServer, copy_url: str) -> None:
    boxes: list[Address] = [*BOXES]

    async def fill() -> None:
        await empty(server)
        store = PostgresStore(server.url)
        await filled(store, Clock(), executions=40)
        await store.close()

    async def copy() -> None:
        opened, into = PostgresStore(server.url), PostgresStore(copy_url)
        await copy_store(opened, into, "source")
        await opened.close()
        await into.close()

    async def compare() -> None:
        clock = Clock(4e9)  # all times have come
        opened, into = PostgresStore(server.url, clock), PostgresStore(copy_url, clock)
        assert await contents(into, boxes, BLOBS) == await contents(opened, boxes, BLOBS)
        await opened.close()
        await into.close()

    def killed_copy(number: int) -> int:
        def do() -> None:
            kill_at(number)
            asyncio.run(copy())

        return in_a_child(do, 0, signal.SIGKILL)

    in_a_child(lambda: asyncio.run(fill()), 0)
    kills, number = 0, 30 + 13 * phase
    while killed_copy(number):
        kills, number = kills + 1, number * 3 // 2 + 17
    assert kills > 3
    in_a_child(lambda: asyncio.run(compare()), 0)


@pytest.mark.slow
def test_what_killed_processes_have_committed_is_shipped_and_nothing_else(server: DatabaseServer) -> None:
    async def prepare() -> None:
        await empty(server)
        store = PostgresStore(server.url)
        await feed_of(store).begin_feed()
        await store.close()

    def commit_forever(number: int) -> None:
        async def commits() -> None:
            store = PostgresStore(server.url)
            it = StoreWorld(store, Clock(), (await store.store_time()).epoch)
            for step in count():
                to = key(f"{number} {step}")
                await it.commit(to, creates=True, row=b"r", blobs=((f"blob {number} {step}", b"b"),), messages=(plain_message(to),))
                await it.commit(to, 1, row=b"r", acks=(Ack(to, "letter"),))

        kill_at(60 + 7 * number)
        asyncio.run(commits())

    async def follow() -> None:
        store, copy, at = PostgresStore(server.url), MemoryStore(Clock(4e9)), 0
        children = [begun(lambda number=number: commit_forever(number)) for number in range(6)]  # type: ignore[misc]  # the default binds it
        while children:
            at = await copy_changes(store, copy, at, limit=5)
            if has_ended(children[0]):
                ended(children.pop(0), signal.SIGKILL)
        connection = await asyncpg.connect(server.url)
        while await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state <> 'idle' AND datname = 'postgres'"):
            await asyncio.sleep(0.01)
        await connection.close()
        await copy_changes(store, copy, at)
        there = [head.key for head in await store.heads()]
        assert len(there) > 12
        late = PostgresStore(server.url, Clock(4e9))
        names = [f"blob {one.id}" for one in there]
        assert await contents(copy, there, names) == await contents(late, there, names)
        await store.close()
        await late.close()

    asyncio.run(prepare())
    asyncio.run(follow())
