"""Claims about attributes in a file: whichever way a list is made, it has the newest of those that are meant, and a common value does not make it slow."""

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from perdure.core.attribute_filter import AttributeConditions, Is, attribute_conditions
from perdure.core.attributes import AttributeValue, checked_attributes, index_attributes
from perdure.stores.protocol import ALL_HEADS, HeadFilter, Post, head_position, matches_filter
from perdure.stores.sqlite import store_rows
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance.store_world import key, start_message

HEADS = 300
ASKED: list[AttributeConditions] = [
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
        known = index_attributes(checked_attributes(dict(rng.sample(sorted(given.items()), rng.randint(0, 3)))))
        await store.commit([Post(messages=(start_message(key(f"{number:03}", tenant=rng.choice(["acme", "other"])), attributes=known),))])
    return store


@pytest.mark.slow
@pytest.mark.parametrize("many", [0, 1, 30, 10_000])
async def test_however_a_list_is_made_it_has_the_newest_that_are_meant(file: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(store_rows, "RANGE_MATCHES_MAX", many)
    store = await filled(file)
    heads = await store.heads(replace(ALL_HEADS, limit=HEADS))
    ways = (
        HeadFilter(),
        HeadFilter(tenant="acme"),
        HeadFilter(statuses=frozenset({"pending"})),
        HeadFilter(after=head_position(heads[100])),
        HeadFilter(statuses=frozenset({"failed"})),
    )
    for asked in map(attribute_conditions, ASKED):
        for way in ways:
            which = replace(way, where=asked, limit=7)
            behind = heads[101:] if way.after else heads
            assert await store.heads(which) == [head for head in behind if matches_filter(head, which)][:7]
    await store.close()


@pytest.mark.slow
async def test_of_several_conditions_the_one_is_looked_up_that_the_fewest_fulfil(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_rows, "RANGE_MATCHES_MAX", 100)
    await (await filled(file)).close()
    with sqlite3.connect(file) as database:

        def looked_up(where: Any) -> Any:
            found = store_rows.rarest_condition(database.execute, HeadFilter(where=attribute_conditions(where)))
            return found and found.name

        assert looked_up({"many": True, "few": 3}) == looked_up({"few": 3, "many": True}) == "few"
        assert looked_up({"many": True, "cents": Is("<", 2)}) == looked_up({"cents": Is("<", 2), "many": True}) == "cents"
        assert looked_up({"many": True}) == looked_up({"cents": Is(">", 0), "many": True}) == "many"  # in the order of a list, however many
        assert looked_up({"cents": Is(">", 0)}) is looked_up({}) is None
