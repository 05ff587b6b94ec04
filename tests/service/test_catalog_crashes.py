"""Claims about executions of the catalog whose engines die: each is carried on by what it pinned, by engines that have what it needs."""

import asyncio
from random import Random
from typing import Any

import pytest

from perdure.core import values
from perdure.core.errors import StoreError
from perdure.core.paths import Key
from perdure.definition_host import definition_host
from perdure.runtime.engine import Engine
from perdure.service import catalog, queries
from perdure.service.catalog_changes import Edit
from perdure.service.definition_starts import catalog_start
from perdure.service.execution_operations import StartRequest, start_execution
from perdure.service.store_access import StoreAccess
from perdure.service.verification import verify_executions
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import HeadFilter
from perdure.testing.faults import Faults, FaultyStore, Gate
from perdure.testing.virtual_time import kill, run

T = "acme"
ORDER = b"""
perdure: 1
name: order
input: {n: {type: integer}}
steps:
  - {id: rest, sleep: 10s}
  - {id: bill, call: "bill@^1", with: {n: "@input.n"}}
output: "@bill"
"""
BILL = b"""
perdure: 1
name: bill
input: {n: {type: integer}}
order: listed
steps:
  - {id: twice, tool: double, with: {n: "@input.n"}, idempotent: true}
  - {id: more, call: plus, with: {n: "@twice"}}
output: "@more"
"""
PLUS = b"""
perdure: 1
name: plus
input: {n: {type: integer}}
steps: [{id: plus, tool: add_one, with: {n: "@input.n"}, idempotent: true}]
output: "@plus"
"""
FAULTS = Faults(kill_before=0.01, kill_after=0.01, fail_before=0.02, fail_after=0.02, resend=0.1, lose_notification=0.3)


def double(n: int) -> int:
    return 2 * n


def add_one(n: int) -> int:
    return n + 1


class Machine:
    """A machine that has some tools, and begins its engine anew whenever that has died."""

    def __init__(self, store: MemoryStore, random: Random, *tools: Any) -> None:
        self._store, self._random, self._tools = store, random, tools
        self.deaths = 0

    async def run(self) -> None:
        while True:
            dead = asyncio.Event()
            store = FaultyStore(self._store, self._random, FAULTS, gate=Gate(dead.set))
            engine = Engine(store, definition_host(self._tools))
            running = asyncio.create_task(engine.run())
            _ = await asyncio.wait([running, died := asyncio.create_task(dead.wait())], return_when=asyncio.FIRST_COMPLETED)
            self.deaths += 1
            await kill([died, running, *engine._tasks])
            _ = running.cancelled() or running.exception()  # it has died of the fault that killed it
            await asyncio.sleep(self._random.uniform(0, 20))


@pytest.mark.parametrize("seed", range(6))
def test_executions_and_what_they_call_end_once_and_right_whichever_engines_die(seed: int) -> None:
    async def inside() -> None:
        store, random = MemoryStore(asyncio.get_running_loop().time), Random(seed)
        access, by = StoreAccess(store), Edit("ada")
        for one in (ORDER, BILL, PLUS):
            _ = await catalog.create_definition(access, T, one, by)
        machines = [Machine(store, random, double), Machine(store, random, add_one), Machine(store, random, double, add_one)]
        running = [asyncio.create_task(one.run()) for one in machines]
        keys = [await begin(access, str(n), n) for n in range(6)]
        _ = await catalog.update_definition(access, T, "plus", by, PLUS.replace(b"@plus", b"changed"))
        async with asyncio.timeout(5_000):
            while any(head.status != "completed" for head in await store.heads(HeadFilter(keys=tuple(keys), limit=len(keys)))):  # in virtual time
                await asyncio.sleep(5)
        await kill(running)
        assert sum(one.deaths for one in machines) > 0
        for n, key in enumerate(keys):
            assert await result_of(access, key) == 2 * n + 1
        heads = await store.heads(HeadFilter(limit=100))
        assert len(heads) == 3 * len(keys), "no child was started twice"
        listed = [await queries.execution_summary(access, head.key) for head in heads]
        assert {(one.key.workflow, one.attributes["definition_version"], one.hosted) for one in listed} == {
            (name, "1.0.0", True) for name in ("order", "bill", "plus")
        }
        verified = [one async for one in verify_executions(store, [head.key for head in heads])]
        assert [found for one in verified for found in one.findings if found.level == "damage"] == []

    run(inside, seed=seed, handles_max=5_000_000)


async def begin(access: StoreAccess, id: str, n: int) -> Key:
    request = StartRequest(key=Key(T, "", id), input=values.encode(((), {"n": n}), "the input"))
    key, _ = await start_execution(access, *await catalog_start(access, request, "order@^1"))
    return key


async def result_of(access: StoreAccess, key: Key) -> Any:
    return values.decode(await access.result(key), Any, "the result")


async def test_a_start_whose_answer_is_lost_is_repeated_without_effect() -> None:
    store = MemoryStore()
    access = StoreAccess(store)
    for one in (ORDER, BILL, PLUS):
        _ = await catalog.create_definition(access, T, one, Edit("ada"))
    lost = StoreAccess(FaultyStore(store, Random(0), Faults(fail_after=1.0, failing=frozenset(("commit",)))))
    with pytest.raises(StoreError):
        await begin(lost, "1", 1)
    _ = await catalog.update_definition(access, T, "plus", Edit("ada"), PLUS.replace(b"@plus", b"changed"))
    assert (await begin(access, "1", 1)).id == "1"
    assert len(await store.heads(HeadFilter(limit=10))) == 1
    (queued,) = await store.messages(Key(T, "order", "1"))
    assert b"1.0.0" in queued.body and b"1.1.0" not in queued.body
