"""Plans: whatever an engine asks of the file is found by an index, however much the tables hold."""

import re
import sqlite3
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from perdure.core.attribute_filter import AttributeConditions, AttributeOrder, Is, attribute_conditions
from perdure.core.attributes import checked_attributes, index_attributes
from perdure.core.envelopes import Ack, StartAdmission
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import HeadFilter, Post, QueueLimits, head_position
from perdure.stores.records import PagePosition, RecordChange, RecordFilter, RecordKey, record_position
from perdure.stores.sqlite import record_rows, store_rows
from perdure.stores.sqlite.database_file import DatabaseFile
from perdure.stores.sqlite.store import SqliteStore
from perdure.testing.conformance import Clock
from perdure.testing.conformance.attribute_suite import admitted
from perdure.testing.conformance.feed_suite import copy_changes, feed_of
from perdure.testing.conformance.queue_suite import queued, work
from perdure.testing.conformance.store_world import StoreWorld, key, plain_message, queue

SCAN = re.compile(r"^SCAN (heads|mail|log|blobs|removed_blobs|feed|restored_rows|lanes|at|ready|attributes|other|records|record_attributes)\b")
"""What goes through a whole table."""
SORT = "USE TEMP B-TREE FOR ORDER BY"
SORTS = re.compile(
    r"restored_rows|address (=|IN)|due_at_s < |name = '\w+' AND value >= |heads_of_family WHERE |address >= |"
    r"at.key IN |at.value >= |at.number IN |heads_of_family CROSS"
)
"""Few statements sort what they found: the mail of an address, what is swept; and in lists for people, what has an
attribute in a range, a family, ids of one beginning, and records of which few satisfy a condition."""
WHERE: list[AttributeConditions] = [
    {"cents": 1},
    {"cents": Is(">=", 1)},
    {"cents": Is("!=", 1)},
    {"cents": Is("exists")},
    {"cents": Is("<", 9), "customer": "c1"},
]
"""Conditions of each kind."""
ATTRIBUTES = index_attributes(checked_attributes({"cents": 1, "customer": "c1"}))


class TracedConnection(sqlite3.Connection):
    """A connection whose statements are remembered."""

    said: ClassVar[set[str]] = set()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.set_trace_callback(self.said.add)


async def use(world: StoreWorld) -> None:
    """Ask for whatever an engine asks for: with limits and without, held by the living and by the dead."""
    await world.renew("one")
    await world.renew("dead", lease_s=1)
    await world.store.limit("mails", QueueLimits(2, 1, 0.5))
    await world.store.limit("pay", QueueLimits(3))
    for number in range(6):
        await world.post(queued(str(number), f"lane {number}", number % 3, name="mails" if number % 2 else ""), work(str(number), "lane", number))
    await world.post(work("free", name="free"), plain_message(key("nobody")))
    for holder in ("dead", "one"):
        for one in await world.claimed(holder, queues=("pay", "free"), limit=2):
            await world.commit(
                one, holder=holder, acks=(Ack(one, "start"),), messages=(plain_message(key("5")),), blobs=(("sha", b"blob"),), wake_at_s=world.clock.now_s + 5
            )
    world.clock.advance(10)
    await world.post(acks=[Ack(queue(), "0")])
    await world.claim(queues=("pay", "free"))
    await world.claim(roots=frozenset({key("1")}))
    await world.claim(roots=frozenset({key("1"), key("2")}))
    for id in "012345":
        await world.commit(key(id), await version(world, id), release=True, compacted=b"all", acks=(Ack(key(id), "start"),), attributes=ATTRIBUTES)
    assert await world.keys(key("5")) is not None and await world.store.heads(HeadFilter(tenant="acme", limit=3))
    for asked in map(attribute_conditions, WHERE):
        for status in (None, frozenset({"pending"}), frozenset({"running", "failed"})):
            await world.store.heads(HeadFilter(statuses=status, where=asked, after=PagePosition(key("5"))))
        for which in (
            HeadFilter(tenant="acme"),
            HeadFilter(workflow="order"),
            HeadFilter(id_prefix="1"),
            HeadFilter(root=key("1")),
            HeadFilter(keys=(key("1"),)),
        ):
            await world.store.heads(msgspec.structs.replace(which, where=asked, limit=3))
            await world.store.heads(msgspec.structs.replace(which, any_of=(asked, attribute_conditions(WHERE[0]))))
        for order in (AttributeOrder("cents"), AttributeOrder("cents", descending=True)):
            for which in (HeadFilter(tenant="acme"), HeadFilter(), HeadFilter(ended=False, statuses=frozenset({"pending"})), HeadFilter(root=key("1"))):
                listed = await world.store.heads(replace(which, where=asked, order=order, limit=3))
                await world.store.heads(replace(which, where=asked, order=order, after=head_position(listed[0], order) if listed else None))
                await world.store.heads(replace(which, order=order))
                await world.store.heads(replace(which, any_of=tuple(map(attribute_conditions, WHERE[:3])), order=order))
    await world.store.heads(HeadFilter(after=PagePosition(key("gone"), 1.0)))
    await world.change(Post(messages=(admitted("a", StartAdmission("cents", b"n", 1)),)))
    await use_records(world)
    world.clock.advance(1_000_000)
    assert await world.store.drop_expired()
    assert await world.store.drop_expired_records()


async def use_records(world: StoreWorld) -> None:
    """Ask for records in every order, by attributes that few have and that most have."""
    changes = [RecordChange(RecordKey("acme", "trigger", f"{number}"), 0, b"x", ATTRIBUTES, world.clock.now_s + 5) for number in range(9)]
    await world.change(*(Post(records=(change,)) for change in changes), Post(records=(replace(changes[0], version=1),)))
    await world.store.record(changes[0].key)
    for order in (None, AttributeOrder("cents"), AttributeOrder("cents", descending=True)):
        for asked in [(), *map(attribute_conditions, WHERE)]:
            which = RecordFilter("acme", "trigger", "", asked, order, limit=3)
            found = await world.store.records(which)
            after = record_position(found[-1], order) if found else None
            await world.store.records(replace(which, prefix="1", after=after))


async def version(world: StoreWorld, id: str) -> int:
    """How far an execution is."""
    return (await world.head(key(id))).version


@pytest.mark.slow
@pytest.mark.parametrize("matches_max", [0, store_rows.RANGE_MATCHES_MAX])
async def test_every_statement_finds_what_it_looks_for_by_an_index(file: Path, monkeypatch: pytest.MonkeyPatch, matches_max: int) -> None:
    monkeypatch.setattr(record_rows, "RANGE_MATCHES_MAX", matches_max)
    monkeypatch.setattr(store_rows, "RANGE_MATCHES_MAX", matches_max)
    monkeypatch.setattr(DatabaseFile, "factory", TracedConnection)
    monkeypatch.setattr(TracedConnection, "said", set())
    clock = Clock()
    store = SqliteStore(file, clock)
    world = StoreWorld(store, clock, 1)
    await world.commit(key("before"), creates=True, messages=(plain_message(key("before")),), blobs=(("before", b"blob"),))
    await feed_of(store).begin_feed()
    await copy_changes(store, MemoryStore(clock), limit=1)
    await use(world)
    page = await feed_of(store).shipped(0)
    await feed_of(store).restore(page.items)
    await feed_of(store).trim_feed(page.position)
    await world.commit(key("before"), 1, forgets=True)
    await store.close()
    asked = [statement for statement in TracedConnection.said if re.match(r"(WITH|SELECT|UPDATE|DELETE|INSERT)\b", statement)]
    assert sum("attributes_by_value" in statement for statement in asked) >= 40, "attributes were not asked for"
    assert sum("record_attributes_by_value" in statement for statement in asked) >= 10, "records were not asked for"
    assert sum("heads_in_line" in statement for statement in asked) >= 2, "queues were not asked for"
    with sqlite3.connect(file) as connection:
        plans = [(plan[3], statement) for statement in asked for plan in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
    found = [(plan, statement) for plan, statement in plans if SCAN.match(plan) or (plan == SORT and not SORTS.search(statement))]
    assert "\n".join(map(str, found)) == ""
