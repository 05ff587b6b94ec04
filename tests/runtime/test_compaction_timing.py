"""Compacting: what is tried in vain is not tried at every commit, and what is replaced is kept only where that is wanted."""

import asyncio
from collections.abc import Sequence
from textwrap import dedent
from typing import Any

import pytest

from perdure import Context, Definition, step, workflow
from perdure.code.declarations import CodeWorkflow
from perdure.core import events as e
from perdure.core import log_format
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import wait_for_end
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import StoredLog
from perdure.testing import World
from perdure.testing.virtual_time import run

pytestmark = pytest.mark.slow

TURNS = 300


class CountingMemoryStore(MemoryStore):
    """A memory store that counts how often a log is read."""

    reads = 0

    async def read(self, key: Key, after: int = 0) -> StoredLog | None:
        self.reads += 1
        return await super().read(key, after)


@step
async def work() -> None: ...


@workflow
async def coupled(ctx: Context) -> int:
    notifications = asyncio.Queue[int]()

    async def rings(c: Context) -> None:
        async for turn in c.loop("l", state=0, keep=1):
            await turn.step(work)
            notifications.put_nowait(turn.number)
            if turn.number == TURNS:
                return

    async def hears(c: Context) -> int:
        while await notifications.get() < TURNS:
            await c.step(work)
        return TURNS

    return (await ctx.join(rings, hears))[1]


def test_a_log_that_cannot_be_compacted_is_not_read_at_every_commit() -> None:
    async def world() -> int:
        store = CountingMemoryStore(asyncio.get_running_loop().time)
        engine = Engine(store, [coupled.code])
        running = asyncio.create_task(engine.run())
        await engine.ready()
        key = Key("t", "coupled", "1")
        await engine.start(key, coupled.code.codec.encode_args((), {}, "the input"))
        await wait_for_end(engine, key)
        engine.stop()
        await running
        return store.reads

    assert run(world) < 20


async def turning(ctx: Context) -> None:
    async for turn in ctx.loop("l", state=0, keep=1):
        await turn.step(work)
        if turn.number == TURNS:
            await ctx.listen("never")


def archives(workflows: Sequence[Any]) -> list[bool]:
    """Whether what is replaced is kept, after turns by the code of each of these in turn."""

    async def world() -> list[bool]:
        store, found, key = MemoryStore(asyncio.get_running_loop().time), list[bool](), Key("t", "turning", "1")
        for number, one in enumerate(workflows):
            engine = Engine(store, [one])
            running = asyncio.create_task(engine.run())
            await engine.ready()
            if not number:
                await engine.start(key, one.codec.encode_args((), {}, "the input"))
            await asyncio.sleep(200)
            rows = await store.read(key)
            assert rows is not None
            snapshots = [event for event in log_format.decode_rows(rows.payloads) if isinstance(event, e.SnapshotEvent)]
            found.append(any(event.archive is not None for event in snapshots))
            engine.stop()
            await running
        return found

    return run(world)


@pytest.mark.parametrize("archive", [False, True])
def test_what_compaction_replaces_is_kept_only_where_that_was_said_when_the_execution_began(archive: bool) -> None:
    at_first, later = (CodeWorkflow(turning, "turning", archive=one) for one in (archive, not archive))
    assert archives([at_first, later]) == [archive, archive]


@pytest.mark.parametrize("archive", ["", "archive: false", "archive: true"])
def test_a_definition_says_whether_what_compaction_replaces_is_kept(archive: str) -> None:
    text = f"""
    perdure: 1
    name: turning
    {archive}
    order: listed
    steps:
      - id: again
        do: [{{id: nap, sleep: 1s}}, {{id: add, set: {{n: 1}}}}]
        repeat: {{while: {{expr: "true"}}, endless: true}}
    """
    with World() as world:
        run = world.start(Definition.of(dedent(text)))
        world.skip("5m")
        found = world.machine.read(run.key)
        assert found is not None
        (snapshot,) = [event for event in log_format.decode_rows(found.payloads) if isinstance(event, e.SnapshotEvent)]
        assert (snapshot.archive is not None) is (archive == "archive: true")
