"""Claims about attributes in a file: whichever way a list is made, it has the newest of those that are meant, and a common value does not make it slow."""

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.attributes import AttributeValue, checked, indexed
from perdure.core.where import Is, Where, conditions
from perdure.stores.base import ALL, Filter, Post, is_meant
from perdure.stores.sqlite import attributes
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance.world import key, opening

HEADS = 300
ASKED: list[Where] = [
    {"few": 3},
    {"many": True},
    {"cents": Is(">=", 10)},
    {"cents": Is("!=", 10)},
    {"many": Is("exists")},
    {"many": True, "few": 3},
    {"many": False, "cents": Is("<", 20)},
    {"cents": [Is(">", 40), Is("<=", 41)], "many": True},
    {"few": Is("<", 3), "cents": Is(">", 500)},
    {"none": Is("exists"), "many": True},
]


async def filled(file: Path) -> SqliteStore:
    """A store with many executions, most of which have attributes."""
    store, rng = SqliteStore(file, synchronous="OFF"), Random(1)
    for number in range(HEADS):
        given: dict[str, AttributeValue] = {"few": rng.randrange(20), "many": rng.random() < 0.7, "cents": rng.choice([rng.randrange(60), rng.random() * 60])}
        known = indexed(checked(dict(rng.sample(sorted(given.items()), rng.randint(0, 3)))))
        await store.commit([Post(sends=(opening(key(f"{number:03}", tenant=rng.choice(["acme", "other"])), attributes=known),))])
    return store


@pytest.mark.parametrize("many", [0, 1, 30, 10_000])
async def test_however_a_list_is_made_it_has_the_newest_that_are_meant(file: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(attributes, "MANY", many)
    store = await filled(file)
    heads = await store.heads(replace(ALL, limit=HEADS))
    ways = (Filter(), Filter(tenant="acme"), Filter(statuses=frozenset({"pending"})), Filter(older_than=heads[100].key), Filter(statuses=frozenset({"failed"})))
    for asked in map(conditions, ASKED):
        for way in ways:
            which = replace(way, where=asked, limit=7)
            behind = heads[101:] if way.older_than else heads
            assert await store.heads(which) == [head for head in behind if is_meant(head, which)][:7]
    await store.close()


async def test_of_several_conditions_the_one_is_looked_up_that_the_fewest_fulfil(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "MANY", 100)
    await (await filled(file)).close()
    with sqlite3.connect(file) as database:

        def looked_up(where: Any) -> Any:
            found = attributes.rarest(database.execute, conditions(where))
            return found and found.name

        assert looked_up({"many": True, "few": 3}) == looked_up({"few": 3, "many": True}) == "few"
        assert looked_up({"many": True, "cents": Is("<", 2)}) == looked_up({"cents": Is("<", 2), "many": True}) == "cents"
        assert looked_up({"many": True}) == looked_up({"cents": Is(">", 0), "many": True}) == "many"  # in the order of a list, however many
        assert looked_up({"cents": Is(">", 0)}) is looked_up({}) is None
