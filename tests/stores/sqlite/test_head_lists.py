"""Lists of heads are looked up and not searched for, prefixes are exact, and a parked execution takes little room."""

import asyncio
import random
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.core.paths import Key
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Claim, Commit, HeadFilter
from perdure.stores.records import PagePosition
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.store_rows import read_heads
from perdure.testing.conformance import Clock, StoreWorld
from perdure.testing.conformance.store_world import NAMES, key
from tests.stores.forgotten_lanes import SINCE, serve_lanes
from tests.stores.sqlite.store_processes import claim, step, tell

MANY = 8_000
STATUSES = ("completed", "running", "waiting")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "perdure.db", Clock(), synchronous="OFF")
    yield store
    await store.close()


def parked(key: Key, status: str = "waiting", rows: int = 1, **fields: Any) -> list[Commit]:
    """An execution that waits."""
    given = {"program": f"{key.workflow}@1", "status": status, "epoch": 1, "release": True, **fields}
    return [step(key, version, row=bytes(200), **given) for version in range(rows)]


@pytest.mark.slow
async def test_lanes_that_were_served_long_ago_are_forgotten(store: SqliteStore, tmp_path: Path) -> None:
    clock = store._clock
    assert isinstance(clock, Clock)
    await serve_lanes(StoreWorld(store, clock, 1))
    with closing(sqlite3.connect(tmp_path / "perdure.db")) as connection:
        found = connection.execute("SELECT name, count(*), max(lane = 'again') FROM lanes JOIN queues ON queues.number = lanes.queue GROUP BY name").fetchall()
    assert found == [("mails", SINCE + 1, 1), ("pay", SINCE + 1, 1)]


@pytest.mark.slow
async def test_a_prefix_is_exact_whatever_is_in_it(store: SqliteStore) -> None:
    rng, highest = random.Random(7), chr(sys.maxunicode)
    letters = ["a", "b", "\0", "%", "_", "\x7f", "é", "\ud7ff", "\ue000", "\uffff", highest]
    ids = {*(name for name in NAMES if len(name) < 100), *("".join(rng.choices(letters, k=rng.randrange(5))) for _ in range(300))}
    await store.commit([parked(key(id))[0] for id in ids])
    for prefix in [*ids, *letters, highest * 3, "a" + highest, "\ud7ff" * 2]:
        found = await store.heads(HeadFilter(id_prefix=prefix, limit=10_000))
        assert {head.key.id for head in found} == {id for id in ids if id.startswith(prefix)}, ascii(prefix)


@pytest.mark.slow
async def test_lists_are_those_of_the_memory_store_whatever_is_asked_for(store: SqliteStore) -> None:
    rng, clock = random.Random(8), store._clock
    assert isinstance(clock, Clock)
    memory = MemoryStore(clock)
    tenants, workflows, ids = ["", "a", "b\0", "🐘"], ["order", "ship", "order "], ["", "1", "12", "2", "1\0", "é"]
    keys = [Key(tenant, workflow, id) for tenant in tenants for workflow in workflows for id in ids]
    rng.shuffle(keys)
    for each in keys[:-5]:
        (commit,) = parked(each, rng.choice(STATUSES), root=rng.choice(keys))
        for one in (memory, store):
            await one.commit([commit])
        clock.advance(rng.choice([0, 1, 7]))

    def perhaps(chance: float, *values: Any) -> Any:
        return rng.choice(values) if rng.random() < chance else None

    for _ in range(400):
        which = HeadFilter(
            tenant=perhaps(0.3, *tenants, "nobody"),
            workflow=perhaps(0.4, *workflows, "none"),
            statuses=perhaps(0.4, *(frozenset(rng.sample([*STATUSES, "none"], count)) for count in range(4))),
            id_prefix=perhaps(0.3, "1", "12", "\0", "é", "x") or "",
            keys=perhaps(0.1, tuple(rng.sample(keys, 10)), ()),
            root=perhaps(0.1, *keys),
            created_from_s=perhaps(0.2, clock.now_s - rng.choice([0, 5, 50, 1000])),
            after=perhaps(0.3, *map(PagePosition, keys)),
            limit=rng.choice([0, 1, 3, 10, 1000]),
        )
        assert await store.heads(which) == await memory.heads(which), which


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of many parked executions of two workflows, of which a few need somebody."""
    file = tmp_path_factory.mktemp("many") / "perdure.db"

    async def fill() -> None:
        store = SqliteStore(file, synchronous="OFF")
        for start in range(0, MANY, 2_000):
            commits = []
            for number in range(start, start + 2_000):
                status = "needs_attention" if number % 2_000 == 7 else STATUSES[number % 3]
                commits += parked(Key("default", "rare" if number % 1_600 == 9 else "order", f"{number:032x}"), status, rows=3, wake_at_s=4e9)
            await store.commit(commits)
        await store.close()

    asyncio.run(fill())
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "count"),
    [
        (HeadFilter(), 100),
        (HeadFilter(statuses=frozenset({"needs_attention"})), 4),
        (HeadFilter(statuses=frozenset({"needs_attention", "running"})), 100),
        (HeadFilter(statuses=frozenset({"none"})), 0),
        (HeadFilter(workflow="rare"), 5),
        (HeadFilter(workflow="order"), 100),
        (HeadFilter(tenant="default"), 100),
        (HeadFilter(tenant="nobody"), 0),
        (HeadFilter(workflow="order", statuses=frozenset({"needs_attention"})), 4),
        (HeadFilter(tenant="default", workflow="rare", statuses=frozenset(STATUSES)), 5),
        (HeadFilter(id_prefix=f"{4_096:032x}"[:-2]), 100),
        (HeadFilter(id_prefix=f"{4_096:032x}", workflow="order"), 1),
        (HeadFilter(keys=(Key("default", "order", f"{5:032x}"),)), 1),
        (HeadFilter(root=Key("default", "order", f"{5:032x}")), 1),
        (HeadFilter(after=PagePosition(Key("default", "order", f"{1000:032x}")), statuses=frozenset({"running"})), 100),
        (HeadFilter(created_from_s=4e9), 0),
    ],
)
def test_a_list_looks_at_little_more_than_it_tells(many: Path, which: HeadFilter, count: int) -> None:
    steps = 0

    def one_more() -> None:
        nonlocal steps
        steps += 100

    with closing(sqlite3.connect(many)) as connection:
        connection.set_progress_handler(one_more, 100)
        heads = read_heads(connection.execute, which)
    assert len(heads) == count
    assert steps <= 12_000, "a search through all of them takes more than 30,000"


async def test_a_claim_looks_at_little_more_than_it_gets(many: Path) -> None:
    store = SqliteStore(many, clock=lambda: 5e9, monotonic=lambda: 0.0, synchronous="OFF")
    await store.renew("one", 60)
    steps = 0

    def one_more() -> None:
        nonlocal steps
        steps += 100

    assert store._writer._connection is not None
    store._writer._connection.set_progress_handler(one_more, 100)
    assert (await store.claim(claim())).executions == ()
    for _ in range(3):
        claimed = await store.claim(Claim(holder="one", epoch=1, programs=frozenset(["order@1", "rare@1"]), limit=10))
        assert len(claimed.executions) == 10
    assert steps <= 12_000
    await store.close()


def test_a_parked_execution_takes_little_room(many: Path) -> None:
    """Three rows of 200 bytes, its head, and their places in all indexes."""
    each_bytes = many.stat().st_size / MANY
    tell(f"a parked execution takes {each_bytes:.0f} bytes")
    assert each_bytes < 2_000
