"""Claims about transactions of users on Postgres: those of every store, and what there is to say of connections that get lost and of others meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from perdure.core.errors import StoreUnavailable
from perdure.stores.postgres.connections import STEP_SPARES_MAX
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.postgres.transactional_steps import PERDURE_TABLES
from perdure.stores.protocol import Committed, Post, Superseded, TransactionRaised, TransactionRefused
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.store_world import key, plain_message
from tests.stores.postgres_proxy import Loss, proxied
from tests.stores.servers import DatabaseServer, postgres
from tests.stores.test_postgres_store import empty
from tests.stores.user_transaction_suite import TransactingStore, Work, guard, transact, writes

pytestmark = pytest.mark.real

TABLES = """DROP TABLE IF EXISTS words; CREATE TABLE words (word text UNIQUE DEFERRABLE INITIALLY IMMEDIATE);
    DROP TABLE IF EXISTS twice; CREATE TABLE twice (word text UNIQUE DEFERRABLE INITIALLY DEFERRED)"""

OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


class TestPostgresTransactions(TransactingStore):
    """The suite, and more."""

    @pytest.fixture
    async def world(self, server: DatabaseServer) -> AsyncIterator[StoreWorld]:
        self.server = server
        await empty(server)
        self.other = await asyncpg.connect(server.url)
        await self.other.execute(TABLES)
        it = await self.world_at(server.url)
        await it.renew("one", "two")
        await it.open(key())
        assert await it.claimed("one") == [key()]
        yield it
        await it.store.close()
        await self.other.close()

    @staticmethod
    async def world_at(url: str) -> StoreWorld:
        clock = Clock()
        store = PostgresStore(url, clock)
        return StoreWorld(store, clock, (await store.store_time()).epoch)

    async def words(self) -> list[str]:
        return [row[0] for row in await self.other.fetch("SELECT word FROM words ORDER BY word")]

    # What becomes of a transaction that gets lost.

    @pytest.mark.parametrize("loss", ["commit", "answer"])
    async def test_what_became_of_a_commit_whose_answer_was_lost_is_found_out(self, world: StoreWorld, loss: Loss) -> None:
        async with proxied(self.server.url, b"INSERT INTO words") as proxy:
            far = await self.world_at(proxy.url)
            proxy.losses.append(loss)
            with pytest.raises(StoreUnavailable, match="Postgres: "):
                await transact(far, guard(answer="answer a"), writes("a"))
            assert proxy.lost == [loss]
            again = await transact(far, guard(answer="answer a"), writes("b"))
            assert again == TransactionRefused(answered=True) if loss == "answer" else isinstance(again, Committed)
            await far.store.close()
        assert await self.words() == (["a"] if loss == "answer" else ["b"])

    async def test_a_transaction_whose_connection_is_killed_leaves_nothing_and_may_be_made_again(self, world: StoreWorld) -> None:
        async def dies(transaction: Any) -> Post:
            await transaction.execute("INSERT INTO words VALUES ('a')")
            await self.other.execute("SELECT pg_terminate_backend($1)", transaction.connection.get_server_pid())
            await transaction.fetch("SELECT 1")
            return Post()

        with pytest.raises(StoreUnavailable, match="Perdure runs the step again"):
            await transact(world, guard(), dies)
        assert isinstance(await transact(world, guard(), writes("b")), Committed)
        assert await self.words() == ["b"]

    async def test_who_tries_again_waits_for_the_one_before_and_finds_its_answer(self, world: StoreWorld) -> None:
        """As who has lost the connection, while the server has not noticed yet."""
        here, go = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(transact(world, guard(answer="answer a"), held(writes("a"), here, go)))
        await here.wait()
        second = asyncio.create_task(transact(world, guard(answer="answer a"), writes("b")))
        await asyncio.sleep(0.1)
        assert not second.done()
        go.set()
        assert isinstance(await first, Committed) and await second == TransactionRefused(answered=True)
        assert await self.words() == ["a"]

    async def test_one_that_is_cancelled_leaves_nothing(self, world: StoreWorld) -> None:
        here = asyncio.Event()
        task = asyncio.create_task(transact(world, guard(), held(writes("a"), here, asyncio.Event())))
        await here.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert isinstance(await transact(world, guard(), writes("b")), Committed)
        assert await self.words() == ["b"]

    async def test_one_that_is_cancelled_while_it_commits_is_waited_for_by_all_that_come_after(self, world: StoreWorld) -> None:
        async with proxied(self.server.url, b"INSERT INTO words") as proxy:
            far = await self.world_at(proxy.url)
            proxy.losses.append("late")
            task = asyncio.create_task(transact(far, guard(answer="answer a"), writes("a")))
            await proxy.held.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            again = asyncio.create_task(transact(world, guard(answer="answer a"), writes("b")))
            await world.renew("one", lease_s=0)
            await asyncio.sleep(0.1)
            assert await world.claimed("two") == [] and not again.done()
            proxy.go.set()
            assert await again == TransactionRefused(answered=True)
            (claimed,) = (await world.claim("two")).executions
            assert [message.key for message in claimed.messages] == ["start", "answer a"]
            await far.store.close()
        assert await self.words() == ["a"]

    # What others do meanwhile.

    async def test_nobody_claims_the_execution_before_the_transaction_has_ended_and_then_with_its_answer(self, world: StoreWorld) -> None:
        here, go = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(transact(world, guard(), held(writes("a"), here, go)))
        await here.wait()
        await world.renew("one", lease_s=0)
        assert await world.claimed("two") == []
        go.set()
        assert isinstance(await task, Committed)
        (claimed,) = (await world.claim("two")).executions
        assert [message.key for message in claimed.messages] == ["start", "answer a"]

    async def test_nobody_waits_to_send_to_the_execution(self, world: StoreWorld) -> None:
        here, go = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(transact(world, guard(), held(writes("a"), here, go)))
        await here.wait()
        async with asyncio.timeout(5):
            await world.post(plain_message(key(), "meanwhile"))
        go.set()
        assert isinstance(await task, Committed)
        assert await world.keys(key()) == ["start", "meanwhile", "answer a"]

    async def test_an_epoch_that_begins_meanwhile_refuses_it(self, world: StoreWorld) -> None:
        here, go = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(transact(world, guard(), held(writes("a"), here, go)))
        await here.wait()
        async with asyncio.timeout(5):
            epoch = await world.store.raise_epoch()
        go.set()
        assert await task == Superseded(epoch) and await self.words() == []

    async def test_more_at_once_than_there_are_connections_for_all_come_to_their_turn(self, world: StoreWorld) -> None:
        count = 30
        answers = await asyncio.gather(*(transact(world, guard(answer=f"answer {n}"), writes(f"{n}")) for n in range(count)))
        assert {type(answer) for answer in answers} == {Committed} and len(await self.words()) == count
        async with asyncio.timeout(5):
            while await self.other.fetchval(OTHERS) > STEP_SPARES_MAX + 2:
                await asyncio.sleep(0.01)

    async def test_what_is_let_alone_are_all_tables_of_perdure_s(self, world: StoreWorld) -> None:
        found = await self.other.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'perdure'::regnamespace AND relkind = 'r' AND NOT relispartition")
        assert {row[0] for row in found} - {"words", "twice", "payments"} == {*PERDURE_TABLES}

    async def test_of_two_that_wait_for_each_other_postgres_ends_one_which_may_be_done_again(self, world: StoreWorld) -> None:
        await self.other.execute("INSERT INTO words VALUES ('x'), ('y')")
        both = asyncio.Barrier(2)

        def swaps(first: str, second: str) -> Work:
            async def work(transaction: Any) -> Post:
                await transaction.execute("UPDATE words SET word = word WHERE word = $1", first)
                if both.n_waiting or not conflicts:
                    await both.wait()
                await transaction.execute("UPDATE words SET word = word WHERE word = $1", second)
                return Post()

            return work

        conflicts: list[BaseException] = []
        ways = [("1", swaps("x", "y")), ("2", swaps("y", "x"))]
        answers = await asyncio.gather(*(transact(world, guard(answer=n), work) for n, work in ways), return_exceptions=True)
        conflicts = [answer for answer in answers if isinstance(answer, BaseException)]
        assert len(conflicts) == 1 and isinstance(conflicts[0], StoreUnavailable) and "deadlock" in str(conflicts[0])
        n, work = ways[answers.index(conflicts[0])]
        assert isinstance(await transact(world, guard(answer=n), work), Committed)

    # What users may not do.

    @pytest.mark.parametrize(
        "sql", ["DELETE FROM perdure.mail", "UPDATE perdure.heads SET status = 'x'", "INSERT INTO perdure.blobs SELECT month, '', '' FROM perdure.months"]
    )
    async def test_perdure_s_tables_are_let_alone(self, world: StoreWorld, sql: str) -> None:
        assert isinstance(await transact(world, guard(), writes("a")), Committed)  # whose own changes are not the next one's
        answer = await transact(world, guard(answer="2"), writes("b", sql=sql))
        assert isinstance(answer, TransactionRaised) and "changed Perdure's own tables" in str(answer.error)
        assert await self.words() == ["a"] and await world.keys(key()) == ["start", "answer a"]

    async def test_two_statements_at_once_are_refused(self, world: StoreWorld) -> None:
        answer = await transact(world, guard(), writes("a", sql="SELECT 1; COMMIT"))
        assert isinstance(answer, TransactionRaised) and "multiple commands" in str(answer.error) and await self.words() == []

    @pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK; BEGIN"])
    async def test_who_ends_it_by_way_of_the_connection_is_told(self, world: StoreWorld, sql: str) -> None:
        async def ends(transaction: Any) -> Post:
            await transaction.connection.execute(sql)
            return Post(messages=(plain_message(key(), "answer"),))

        answer = await transact(world, guard(), ends)
        assert isinstance(answer, TransactionRaised) and "ended its transaction itself" in str(answer.error)
        assert await world.keys(key()) == ["start"]

    async def test_after_an_error_of_the_database_it_can_only_fail_but_for_a_savepoint(self, world: StoreWorld) -> None:
        async def goes_on(transaction: Any) -> Post:
            with pytest.raises(asyncpg.PostgresError):
                await transaction.execute("SELECT 1 / 0")
            return Post()

        async def saves(transaction: Any) -> Post:
            with suppress(asyncpg.DivisionByZeroError):
                async with transaction.connection.transaction():
                    await transaction.execute("INSERT INTO words VALUES ('gone')")
                    await transaction.execute("SELECT 1 / 0")
            return await writes("a")(transaction)

        answer = await transact(world, guard(), goes_on)
        assert isinstance(answer, TransactionRaised) and "continued after a database error" in str(answer.error)
        assert isinstance(await transact(world, guard(), saves), Committed) and await self.words() == ["a"]

    async def test_what_would_fail_at_the_commit_fails_the_step(self, world: StoreWorld) -> None:
        answer = await transact(world, guard(), writes("a", sql="INSERT INTO twice VALUES ('x'), ('x')"))
        assert isinstance(answer, TransactionRaised) and "twice" in str(answer.error) and await self.words() == []

    async def test_what_a_step_sets_for_its_session_is_not_the_next_one_s(self, world: StoreWorld) -> None:
        found: list[str] = []

        async def looks(transaction: Any) -> Post:
            found.append(await transaction.fetchval("SELECT current_setting('work_mem')"))
            found.append(await transaction.fetchval("SELECT $1", "a\\b"))
            return Post()

        assert isinstance(await transact(world, guard(), looks), Committed)
        assert isinstance(await transact(world, guard(), writes("a", sql="SET work_mem = '7MB'")), Committed)
        assert isinstance(await transact(world, guard(), looks), Committed)
        assert found[0] == found[2] and found[1] == "a\\b"


def held(work: Work, here: asyncio.Event, go: asyncio.Event) -> Work:
    """The same, which says that it is here, and goes on when it is told."""

    async def waits(transaction: Any) -> Post:
        post = await work(transaction)
        here.set()
        await go.wait()
        return post

    return waits
