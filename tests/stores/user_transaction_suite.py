"""What every store does that gives users transactions: only who holds may, once; what fails leaves nothing, and hurts nobody else."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure.core.envelopes import Ack
from perdure.stores.protocol import Committed, Post, Superseded, TransactionGuard, TransactionRaised, TransactionRefused
from perdure.testing.conformance import StoreWorld
from perdure.testing.conformance.store_world import key, plain_message, queue

Work = Callable[[Any], Coroutine[Any, Any, Post]]


def writes(word: str, *sends: Any, acks: tuple[Ack, ...] = (), fails: bool = False, sql: str = "", epoch: int | None = 1) -> Work:
    """Code of a user that writes a word, then carries out `sql` or fails; and the answer that comes of it."""

    async def work(transaction: Any) -> Post:
        await transaction.execute("INSERT INTO words VALUES ($1)", word)
        if sql:
            await transaction.execute(sql)
        if fails:
            raise ValueError(word)
        return Post(messages=(plain_message(key(), f"answer {word}"), *sends), acks=acks, epoch=epoch)

    return work


def guard(holder: str = "one", answer: str = "answer", epoch: int = 1, work: Ack | None = None) -> TransactionGuard:
    return TransactionGuard(key=key(), holder=holder, epoch=epoch, answer=answer, work=work)


async def transact(world: StoreWorld, of: TransactionGuard, work: Work) -> Any:
    """See `TransactionalStore.transact`."""
    return await world.store.transact(of, work)  # type: ignore[attr-defined]  # that it can is what is tested here


class TransactingStore:
    """See the module. The fixture `world` has two holders, of which ``one`` holds the execution `key()`, and a table of unique words."""

    async def words(self) -> list[str]:
        """All words, in order."""
        raise NotImplementedError

    async def test_what_is_written_and_the_answer_are_one(self, world: StoreWorld) -> None:
        assert isinstance(await transact(world, guard(), writes("a")), Committed)
        assert await self.words() == ["a"] and await world.keys(key()) == ["start", "answer a"]

    async def test_who_does_not_hold_the_execution_any_more_writes_nothing(self, world: StoreWorld) -> None:
        assert await transact(world, guard("two"), writes("a")) == TransactionRefused()
        await world.renew("one", lease_s=0)
        assert await world.claimed("two") == [key()]
        assert await transact(world, guard("one"), writes("b")) == TransactionRefused()
        assert await self.words() == [] and await world.keys(key()) == ["start"]

    async def test_who_is_of_an_earlier_epoch_writes_nothing(self, world: StoreWorld) -> None:
        epoch = await world.store.raise_epoch()
        assert await transact(world, guard(), writes("a")) == Superseded(epoch)
        assert await self.words() == []

    async def test_what_was_answered_is_not_done_again(self, world: StoreWorld) -> None:
        assert type(await transact(world, guard(answer="answer a"), writes("a"))) is Committed
        assert await transact(world, guard(answer="answer a"), writes("b")) == TransactionRefused(answered=True)
        assert await self.words() == ["a"]

    async def test_who_does_not_lease_the_work_any_more_writes_nothing(self, world: StoreWorld) -> None:
        await world.post(plain_message(queue(), "work"))
        ack = Ack(queue(), "work")
        assert await transact(world, guard(work=ack), writes("a", acks=(ack,))) == TransactionRefused(), "nobody has leased it"
        await world.work("two")
        assert await transact(world, guard("one", work=ack), writes("b", acks=(ack,))) == TransactionRefused()
        assert isinstance(await transact(world, guard("two", work=ack), writes("c", acks=(ack,))), Committed)
        assert await self.words() == ["c"] and await world.keys(queue()) == []

    async def test_what_fails_leaves_nothing_and_hurts_nobody_beside_it(self, world: StoreWorld) -> None:
        answers = await asyncio.gather(*(transact(world, guard(), writes(word, fails=word in "bd")) for word in "abcda"))
        assert [type(answer) for answer in answers[1:4]] == [TransactionRaised, Committed, TransactionRaised]
        assert {type(answers[0]), type(answers[4])} == {Committed, TransactionRaised}, "a word is there once"
        assert await self.words() == ["a", "c"] and sorted(await world.keys(key())) == ["answer a", "answer c", "start"]

    @pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK", "/* by hand */ savepoint x", "-- so\n END"])
    async def test_the_end_of_the_transaction_is_not_the_user_s(self, world: StoreWorld, sql: str) -> None:
        answer = await transact(world, guard(), writes("a", sql=sql))
        assert isinstance(answer, TransactionRaised) and await self.words() == [] and await world.keys(key()) == ["start"]

    async def test_placeholders_may_have_numbers(self, world: StoreWorld) -> None:
        found: list[Any] = []

        async def work(transaction: Any) -> Post:
            await transaction.executemany("INSERT INTO words VALUES ($1)", [("$1",), ("b",)])
            found.append(await transaction.fetch("SELECT word FROM words WHERE word = $2 OR word = '$1' AND $1 <> '' ORDER BY word -- $9", "x", "b"))
            found.append((await transaction.fetchrow("SELECT word AS it FROM words WHERE word = $1", "b"))["it"])
            found.append(await transaction.fetchval("SELECT word FROM words WHERE word = $1", "none"))
            found.append(await transaction.execute("UPDATE words SET word = $1 WHERE word = $2", "c", "b"))
            return Post()

        assert isinstance(await transact(world, guard(), work), Committed)
        assert [row["word"] for row in found[0]] == ["$1", "b"] and found[1:] == ["b", None, 1]
        assert await self.words() == ["$1", "c"]
