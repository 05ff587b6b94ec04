"""Claims about fleets of engines that have different tools: an execution of a definition goes on where there is what it needs, and waits visibly elsewhere."""

import asyncio
import random
from typing import Any

import pytest

from perdure import AsyncClient, Definition, step
from perdure.core import messages
from perdure.core.errors import MissingCapabilities
from perdure.core.mail import Opening, Send
from perdure.core.messages import Patch, Start
from perdure.core.paths import Key
from perdure.core.values import encode
from perdure.stores.base import Post
from tests.runtime.cluster import Cluster, until
from tests.runtime.test_engine import virtually

PRICED = """
perdure: 1
name: priced
version: "{version}"
order: listed
steps:
  - {{id: pause, sleep: 5s}}
  - {{id: price, tool: price}}
  - {{id: rest, sleep: 5s}}
  - {{id: ship, tool: {second}}}
"""


def tool(name: str, said: list[str], by: str, version: int | None = None) -> Any:
    """A tool that says by whom it was called."""

    @step(name=name, version=version)
    def called() -> str:
        said.append(f"{by}:{name}")
        return by

    return called


def priced(*tools: Any, version: str = "1.0.0", second: str = "price") -> Definition:
    """The definition with these tools."""
    return Definition.of(PRICED.format(version=version, second=second), tools=tools)


async def started(c: Cluster, definition: Definition, id: str = "1") -> Key:
    """Start an execution of a definition by mail, as a client does."""
    key = Key("default", definition.code.name, id)
    start = Start(definition.code.version, encode(((), {}), "input"), 7, definition=definition.graph.definition)
    await c.store.commit([Post(sends=(Send(key, "start", messages.encode(start), opens=Opening(f"{key.workflow}@{definition.code.version}", key)),))])
    return key


async def came(c: Cluster, key: Key, status: str = "completed") -> None:
    """Wait until an execution has this status."""

    async def has_come() -> bool:
        return any(head.key == key and head.status == status for head in await c.store.heads())

    await until(has_come)


@virtually
async def test_an_engine_without_the_tools_leaves_an_execution_to_one_that_has_them(c: Cluster) -> None:
    said: list[str] = []
    _ = await c.engine(priced())
    key = await started(c, priced())
    await asyncio.sleep(60)
    (head,) = await c.store.heads()
    assert (head.holder, head.version, head.program) == (None, 0, "priced@1\ntool:price")
    async with AsyncClient(c.store) as client:
        assert (await (await client.get("1", "priced")).status()).why == "no engine here has tool price, which priced@1 needs; it has not started"
    _ = await c.engine(priced(tool("price", said, "right")))
    await came(c, key)
    assert said == ["right:price", "right:price"]


@virtually
async def test_an_execution_that_has_begun_with_one_version_of_a_tool_goes_on_with_that(c: Cluster) -> None:
    said: list[str] = []
    first = await c.engine(priced(tool("price", said, "two", version=2)))
    key = await started(c, priced())
    await came(c, key, "waiting")
    await first.stop()
    _ = await c.engine(priced(tool("price", said, "one", version=1)))
    _ = await c.engine(priced(tool("price", said, "plain")))
    await asyncio.sleep(60)
    assert said == []
    _ = await c.engine(priced(tool("price", said, "two again", version=2)))
    await came(c, key)
    assert said == ["two again:price"] * 2


@virtually
async def test_what_a_patched_execution_needs_is_found_anew(c: Cluster) -> None:
    said: list[str] = []
    _ = await c.engine(priced(tool("price", said, "small")))
    key = await started(c, priced())
    await came(c, key, "waiting")
    later = priced(version="1.1.0", second="truck")
    patch = Patch(later.graph.definition or b"", "", "a truck")
    await c.store.commit([Post(sends=(Send(key, "patch", messages.encode(patch)),))])
    await asyncio.sleep(60)
    (head,) = await c.store.heads()
    assert (head.holder, head.program, head.status) == (None, "priced@1\ntool:price\ntool:truck", "waiting")
    _ = await c.engine(priced(tool("price", said, "large"), tool("truck", said, "large")))
    await came(c, key)
    assert said[-1] == "large:truck"


@virtually
async def test_of_two_definitions_of_a_name_each_execution_has_the_tools_that_its_own_was_given(c: Cluster) -> None:
    said: list[str] = []
    old, new = priced(tool("price", said, "old")), priced(tool("price", said, "new"), version="2.0.0")
    _ = await c.engine(new, old)
    of_old, of_new = await started(c, old, "old"), await started(c, new, "new")
    await came(c, of_old)
    await came(c, of_new)
    assert sorted(said) == ["new:price", "new:price", "old:price", "old:price"]


@virtually
async def test_a_tool_that_another_definition_was_given_is_not_used(c: Cluster) -> None:
    said: list[str] = []
    other = Definition.of("{perdure: 1, name: other, steps: [{id: a, tool: price}]}", tools=[tool("price", said, "other")])
    _ = await c.engine(other, priced())
    key = await started(c, priced())
    await asyncio.sleep(60)
    assert said == [] and (await c.store.heads())[0].version == 0
    _ = await c.engine(priced(tool("price", said, "right")))
    await came(c, key)
    assert set(said) == {"right:price"}


@virtually
async def test_what_is_started_in_an_engine_without_its_tools_is_refused(c: Cluster) -> None:
    process = await c.engine(priced())
    definition = priced()
    with pytest.raises(MissingCapabilities, match="priced/1 was not started: there is no tool price here; give the definition what it lacks"):
        await process.engine.start(Key("default", "priced", "1"), encode(((), {}), "input"))
    assert await c.store.heads() == [] and definition.lacks()


FLEETS = 40


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(4, FLEETS))])
def test_in_a_mixed_fleet_every_execution_ends_as_with_one_right_engine(seed: int) -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        draw = random.Random(seed)
        said: list[str] = []

        def engine_of(kind: str) -> Definition:
            match kind:
                case "bare":
                    return priced()
                case "half":
                    return priced(tool("price", said, "half"))
                case _:
                    return priced(tool("price", said, "whole"), tool("truck", said, "whole"))

        fleet = []
        keys = []
        for number in range(30):
            if number % 5 == 0:
                fleet.append(await c.engine(engine_of(draw.choice(["bare", "half", "whole"])), idle_s=draw.choice([0.0, 60.0])))
            if len(fleet) > 2 and draw.random() < 0.3:
                gone = fleet.pop(draw.randrange(len(fleet)))
                await (gone.kill() if draw.random() < 0.5 else gone.stop())
            keys.append(await started(c, priced(second=draw.choice(["price", "truck"])), str(number)))
            await asyncio.sleep(draw.uniform(0.0, 3.0))
        _ = await c.engine(engine_of("whole"))
        for key in keys:
            await came(c, key)
        assert "half:truck" not in said

    claim()
