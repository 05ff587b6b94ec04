"""Definitions on real servers: an engine that is killed in their middle leaves them to another, and they come to what they come to anywhere."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure import Definition, ExecutionFailed
from perdure.runtime.engine import Engine
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import Store
from perdure.stores.redis import RedisStore
from perdure.sync_client import AsyncClient
from tests.stores.servers import DatabaseServer, postgres, valkey

pytestmark = pytest.mark.prove

EXECUTIONS = 12
TEXT = """
perdure: 1
name: parcels
order: ports
input: {number: {type: integer}, parcels: {type: array}}
vars: {turn: 0}
steps:
  - {id: reserve, tool: act, with: {what: reserve}, undo: {tool: act, with: {what: release}}, next: [pack, weigh]}
  - {id: pack, each: {in: "@input.parcels", concurrency: 2}, tool: act, with: {what: "pack @{item}"}, next: ship}
  - {id: weigh, tool: act, with: {what: weigh, turn: "@vars.turn"}, next: count}
  - {id: count, set: {turn: "@weigh.turn"}, next: [{when: {ref: "@vars.turn", lt: 3}, to: weigh, max: 9}, {to: ship}]}
  - {id: ship, tool: act, with: {what: ship}, next: odd}
  - {id: odd, test: {expr: "input.number % 2 == 1"}, next: {"true": thank, "false": dun}}
  - {id: thank, tool: act, with: {what: thank}}
  - {id: dun, fail: "@{input.number} is even"}
output: {turns: "@vars.turn", packed: "@pack[3].what"}
"""


@pytest.fixture(params=[(postgres, PostgresStore), (valkey, RedisStore)], ids=["postgres", "redis"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Store]]:
    begin, store = request.param
    with begin() as server:
        assert isinstance(server, DatabaseServer)
        yield lambda: store(server.url)


async def test_who_takes_over_goes_on_with_what_another_has_begun(make: Callable[[], Store]) -> None:
    began = 0

    async def act(what: str, turn: int = 0) -> dict[str, Any]:
        nonlocal began
        began += 1
        await asyncio.sleep(0.01)
        return {"what": what, "turn": turn + 1}

    definition = Definition.of(TEXT, tools=[act])
    stores = [make(), make(), make()]
    async with AsyncClient(stores[0]) as client:
        handles = [await client.start(definition.with_(id=str(number)), number=number, parcels=[0, 1, 2, 3]) for number in range(EXECUTIONS)]
        first = asyncio.create_task(Engine(stores[1], [definition.graph], lease_s=1.0).run())
        while began < 3 * EXECUTIONS:
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = Engine(stores[2], [definition.graph], lease_s=1.0)
        running = asyncio.create_task(second.run())
        for number, handle in enumerate(handles):
            if number % 2:
                assert await handle.result(timeout="60s") == {"turns": 3, "packed": "pack 3"}
            else:
                with pytest.raises(ExecutionFailed, match=f"{number} is even"):
                    await handle.result(timeout="60s")
        second.stop()
        await running
    for store in stores:
        await store.close()
