"""Claims about fleets of engines that have different tools: an execution of a definition goes on where there is what it needs, and waits visibly elsewhere."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import AsyncClient, Definition, step, step_info
from perdure.core import events as e
from perdure.core import messages
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.errors import MissingCapabilities
from perdure.core.messages import PatchMessage, StartMessage
from perdure.core.operations import CallOperation, Failure
from perdure.core.paths import Key
from perdure.core.program import program_requirements
from perdure.core.values import encode
from perdure.stores.protocol import Post
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
    start = StartMessage(definition.code.version, encode(((), {}), "input"), 7, definition=definition.graph.definition)
    await c.store.commit(
        [Post(messages=(OutgoingMessage(key, "start", messages.encode_message(start), opens=NewExecution(f"{key.workflow}@{definition.code.version}", key)),))]
    )
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
    patch = PatchMessage(later.graph.definition or b"", "", "a truck")
    await c.store.commit([Post(messages=(OutgoingMessage(key, "patch", messages.encode_message(patch)),))])
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
    with pytest.raises(MissingCapabilities, match=r"priced/1 was not started: the engine has no tool price. Give the definition what is missing"):
        await process.engine.start(Key("default", "priced", "1"), encode(((), {}), "input"))
    assert await c.store.heads() == [] and definition.lacks()


FLEETS = 40
KINDS = ("bare", "half", "whole", "whole 1", "whole 2", "half 2")
"""What engines of a fleet have: no tool, the first, or both, of no version or of this one."""


class Fleet:
    """Engines that come and go, each with other tools; `said` has by which each call of each execution was begun."""

    def __init__(self, c: Cluster, draw: random.Random) -> None:
        self.c, self.draw = c, draw
        self.engines: list[Any] = []
        self.said: dict[str, list[tuple[str, str]]] = {}

    def definition(self, kind: str, version: str = "1.0.0", second: str = "price") -> Definition:
        """The definition with the tools of an engine of this kind."""
        has, _, number = kind.partition(" ")
        names = {"bare": (), "half": ("price",), "whole": ("price", "truck")}[has]
        return priced(*(self._tool(name, kind, int(number) if number else None) for name in names), version=version, second=second)

    def _tool(self, name: str, kind: str, version: int | None) -> Any:
        @step(name=name, version=version, idempotent=True)
        async def called() -> str:
            self.said.setdefault(step_info().execution.id, []).append((kind, name))
            await asyncio.sleep(0.7)
            return name

        return called

    async def deploy(self, kind: str) -> None:
        """An engine comes to work, which has the definition, or a newer one too."""
        newer = [self.definition(kind, "2.0.0", "truck")] if self.draw.random() < 0.3 else []
        self.engines.append(await self.c.engine(*newer, self.definition(kind), idle_s=self.draw.choice([0.0, 60.0]), lease_s=5.0, poll_s=1.0))

    async def trouble(self) -> None:
        """One dies, perhaps in the midst of a call, or stops, and perhaps begins again with what it is given then."""
        if len(self.engines) > 2:
            gone = self.engines.pop(self.draw.randrange(len(self.engines)))
            await (gone.kill() if self.draw.random() < 0.6 else gone.stop())
            if self.draw.random() < 0.5:
                await self.deploy(self.draw.choice(KINDS))


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(2, FLEETS))])
def test_in_a_mixed_fleet_every_execution_ends_as_with_one_right_engine(seed: int) -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        fleet = Fleet(c, draw := random.Random(seed))
        keys, seconds = [], {}
        for number in range(30):
            if number % 4 == 0:
                await fleet.deploy(draw.choice(KINDS))
            if draw.random() < 0.4:
                await fleet.trouble()
            seconds[str(number)] = draw.choice(["price", "truck"])
            keys.append(await started(c, fleet.definition("bare", second=seconds[str(number)]), str(number)))
            if draw.random() < 0.2:
                await asyncio.sleep(draw.uniform(0.0, 12.0))
                await patched(c, keys[-1], fleet.definition("bare", version="1.1.0", second="truck"))
            await asyncio.sleep(draw.uniform(0.0, 3.0))
        for kind in ("whole", "whole 1", "whole 2"):
            await fleet.deploy(kind)
        for key in keys:
            await came(c, key)
            is_as_with_one_right_engine(await c.events(key), fleet.said[key.id], seconds[key.id])
            pinned = [need.partition("@")[2] for need in program_requirements((await c.head(key)).program) if need.startswith("tool:price@")]
            versions = {kind.partition(" ")[2] for kind, name in fleet.said[key.id] if name == "price"}
            assert not pinned or versions == set(pinned), f"{key} has begun with version {pinned} of a tool, and was continued with {versions}"

    claim()


async def patched(c: Cluster, key: Key, definition: Definition) -> None:
    """Have an execution go on by another definition, if it is not too late for that."""
    patch = PatchMessage(definition.graph.definition or b"", "", "a truck")
    await c.store.commit([Post(messages=(OutgoingMessage(key, "patch", messages.encode_message(patch)),))])


def is_as_with_one_right_engine(events: Sequence[e.Event], said: list[tuple[str, str]], second: str) -> None:
    """It called what its definition says, once each by the log, where there was the tool."""
    taken = any(isinstance(event, e.PatchedEvent) and not event.refused for event in events)
    called = [event.op.target for event in events if isinstance(event, e.OpenedEvent) and isinstance(event.op, CallOperation)]
    assert called == ["price", "truck" if taken else second]
    assert {event.outcome for event in events if isinstance(event, e.SettledEvent) and isinstance(event.outcome, Failure)} == set()
    assert not [kind for kind, name in said if kind.startswith("bare") or (kind.startswith("half") and name == "truck")]
