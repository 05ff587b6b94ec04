"""Claims about transactions of users on SQLite: only who holds may, once; what fails leaves nothing, and hurts nobody else in the same transaction."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.core.mail import Ack
from perdure.stores.base import Committed, Guard, Post, Raised, Refused, Superseded
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance.world import Clock, World, key, letter, queue

FILES: dict[int, Path] = {}
Work = Callable[[Any], Coroutine[Any, Any, Post]]


def writes(word: str, *sends: Any, acks: tuple[Ack, ...] = (), fails: bool = False) -> Work:
    async def work(transaction: Any) -> Post:
        await transaction.execute("INSERT INTO words VALUES (?)", word)
        if fails:
            raise ValueError(word)
        return Post(sends=(letter(key(), f"answer {word}"), *sends), acks=acks)

    return work


def guard(holder: str = "one", answer: str = "answer", epoch: int = 1, work: Ack | None = None) -> Guard:
    return Guard(key=key(), holder=holder, epoch=epoch, answer=answer, work=work)


@pytest.fixture
async def world(file: Path) -> World:
    clock = Clock()
    store = SqliteStore(file, clock, synchronous="OFF")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE words (word TEXT UNIQUE)")
        connection.commit()
    it = World(store, clock, (await store.moment()).epoch)
    await it.renew("one", "two")
    await it.open(key())
    assert await it.claimed("one") == [key()]
    FILES[id(it)] = file
    return it


def words(world: World) -> list[str]:
    with closing(sqlite3.connect(FILES[id(world)])) as connection:
        return [word for (word,) in connection.execute("SELECT word FROM words ORDER BY word")]


async def transact(world: World, of: Guard, work: Work) -> Any:
    store = world.store
    assert isinstance(store, SqliteStore)
    return await store.transact(of, work)


async def test_what_is_written_and_the_answer_are_one(world: World) -> None:
    assert isinstance(await transact(world, guard(), writes("a")), Committed)
    assert words(world) == ["a"] and await world.keys(key()) == ["start", "answer a"]


async def test_who_does_not_hold_the_execution_any_more_writes_nothing(world: World) -> None:
    assert await transact(world, guard("two"), writes("a")) == Refused()
    await world.renew("one", lease_s=0)
    assert await world.claimed("two") == [key()]
    assert await transact(world, guard("one"), writes("b")) == Refused()
    assert words(world) == [] and await world.keys(key()) == ["start"]


async def test_who_is_of_an_earlier_epoch_writes_nothing(world: World) -> None:
    epoch = await world.store.raise_epoch()
    assert await transact(world, guard(), writes("a")) == Superseded(epoch)
    assert words(world) == []


async def test_what_was_answered_is_not_done_again(world: World) -> None:
    assert isinstance(await transact(world, guard(answer="answer a"), writes("a")), Committed)
    assert await transact(world, guard(answer="answer a"), writes("b")) == Refused(answered=True)
    assert words(world) == ["a"]


async def test_who_does_not_lease_the_work_any_more_writes_nothing(world: World) -> None:
    await world.post(letter(queue(), "work"))
    ack = Ack(queue(), "work")
    assert await transact(world, guard(work=ack), writes("a", acks=(ack,))) == Refused(), "nobody has leased it"
    await world.work("two")
    assert await transact(world, guard("one", work=ack), writes("b", acks=(ack,))) == Refused()
    assert isinstance(await transact(world, guard("two", work=ack), writes("c", acks=(ack,))), Committed)
    assert words(world) == ["c"] and await world.keys(queue()) == []


async def test_what_fails_leaves_nothing_and_hurts_nobody_beside_it(world: World) -> None:
    answers = await asyncio.gather(*(transact(world, guard(), writes(word, fails=word in "bd")) for word in "abcd"), transact(world, guard(), writes("a")))
    assert [type(answer) for answer in answers] == [Committed, Raised, Committed, Raised, Raised]
    assert words(world) == ["a", "c"] and await world.keys(key()) == ["start", "answer a", "answer c"]
