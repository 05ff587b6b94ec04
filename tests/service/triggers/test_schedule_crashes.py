"""Claims about schedules whose engines die: no tick is lost and none is doubled, whenever that happens, and whatever is changed meanwhile."""

import asyncio
from random import Random
from typing import Any

import pytest

from perdure.runtime.engine import Engine
from perdure.service.triggers import trigger_directory
from perdure.service.triggers.clock_watch import ClockWatch
from perdure.service.triggers.schedule_clock import SCHEDULE_CODE
from perdure.service.triggers.schedule_times import ticks_after
from perdure.service.triggers.trigger_records import ScheduleConfig
from perdure.service.verification import verify_executions
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import HeadFilter
from perdure.testing.crash_points import CrashPoint
from perdure.testing.faults import Faults, FaultyStore, Gate
from perdure.testing.virtual_time import kill, run
from tests.runtime.cluster import Cluster, cluster, now_s
from tests.service.killed_stores import KilledAtWrite
from tests.service.triggers.schedule_cluster import BEGIN_S, Schedules, T, elapsed_s, failing, long, report, until

FAULTS = Faults(kill_before=0.01, kill_after=0.01, fail_before=0.02, fail_after=0.02, resend=0.1, lose_notification=0.3)
DOWN_MAX_S = 20.0
"""The longest time for which a machine is down."""

HANDLED_S = 200.0
"""Within this time a tick is dealt with, whatever dies: leases have to expire, machines are down, and calls of the store fail and are repeated."""


class Machine:
    """A machine with an engine that has the clock and some workflows. It begins anew whenever it has died."""

    def __init__(self, store: MemoryStore, random: Random) -> None:
        self._store, self._random = store, random
        self.deaths = 0
        self._living: list[asyncio.Task[Any]] = []
        self._engine: Engine | None = None
        self.running = asyncio.create_task(self.run())

    async def end(self) -> None:
        """Kills it for good."""
        await kill([self.running])
        await self._die()

    async def _die(self) -> None:
        await kill([*self._living, *(() if self._engine is None else self._engine._tasks)])
        for one in self._living:
            _ = one.cancelled() or one.exception()  # it has died of the fault that killed it

    async def run(self) -> None:
        while True:
            died = asyncio.Event()
            await self._live(FaultyStore(self._store, self._random, FAULTS, gate=Gate(died.set)), died)
            self.deaths += 1
            await asyncio.sleep(self._random.uniform(0, DOWN_MAX_S))

    async def _live(self, store: FaultyStore, died: asyncio.Event) -> None:
        self._engine = Engine(store, [SCHEDULE_CODE, report.code, long.code, failing.code])
        self._living = [asyncio.create_task(one) for one in (self._engine.run(), ClockWatch(store).run(), died.wait())]
        _ = await asyncio.wait([self._living[0], self._living[2]], return_when=asyncio.FIRST_COMPLETED)
        await self._die()


async def _no_damage(c: Cluster) -> None:
    keys = [head.key for head in await c.store.heads(HeadFilter(limit=10_000))]
    assert [found for one in [one async for one in verify_executions(c.store, keys)] for found in one.findings if found.level == "damage"] == []


@pytest.mark.parametrize("seed", [0, 1, *[pytest.param(seed, marks=pytest.mark.prove) for seed in range(2, 30)]])
def test_each_tick_starts_one_execution_whichever_engines_die(seed: int) -> None:
    async def inside() -> None:
        async with cluster() as c:
            s, random = Schedules(c), Random(seed)
            first = await s.engine()
            made = [await s.create(every_s=every_s, jitter_s=jitter_s) for every_s, jitter_s in ((30.0, 0.0), (47.0, 10.0), (60.0, 0.0))]
            machines = [Machine(c.store, random) for _ in range(2)]
            await first.stop()
            await until(900)
            for machine in machines:
                await machine.end()
            _ = await s.engine()
            await until(1_000)
            assert sum(one.deaths for one in machines) > 0
            for trigger, every_s in zip(made, (30.0, 47.0, 60.0), strict=True):
                state, found = await s.state(trigger), await s.seconds(trigger)
                expected = [every_s * number for number in range(1, int(1_000 / every_s) + 1)]
                assert found == [one for one in expected if one + BEGIN_S <= state.after_s] and len(found) >= len(expected) - 1
                assert state.number == len(found), "each was counted once"
            await _no_damage(c)

    run(inside, seed=seed, handles_max=5_000_000)


def _crash_points() -> list[Any]:
    return [CrashPoint(write, after) for write in range(1, 16) for after in (False, True)]


@pytest.mark.parametrize("crash", [pytest.param(one, marks=[] if one.write in (3, 4) else pytest.mark.prove, id=one.spec) for one in _crash_points()])
@pytest.mark.parametrize("overlap", ["allow", pytest.param("queue", marks=pytest.mark.prove), pytest.param("cancel", marks=pytest.mark.prove)])
def test_a_kill_around_any_write_of_a_tick_neither_loses_nor_doubles_it(crash: CrashPoint, overlap: str) -> None:
    async def inside() -> None:
        async with cluster() as c:
            s = Schedules(c)
            setup = await s.engine()
            triggers = [await s.create(every_s=60.0, overlap=overlap) for _ in range(3)]
            await until(50)
            await setup.stop()
            died = asyncio.Event()
            store = KilledAtWrite(c.store, crash, died)
            engine = Engine(store, [SCHEDULE_CODE, report.code])
            running = asyncio.create_task(engine.run())
            await until(100)
            assert died.is_set() or store.writes < crash.write, "the writes of one tick"
            await kill([running, *engine._tasks])
            _ = running.cancelled() or running.exception()
            _ = await s.engine()
            await until(250)
            for trigger in triggers:
                assert await s.seconds(trigger) == [60, 120, 180, 240] and (await s.state(trigger)).number == 4
            await _no_damage(c)

    run(inside, handles_max=5_000_000)


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.prove) for seed in range(1, 40)]])
def test_no_tick_is_lost_or_doubled_over_random_pauses_edits_and_deaths(seed: int) -> None:
    async def inside() -> None:
        async with cluster() as c:
            s, random = Schedules(c), Random(seed)
            first = await s.engine()
            trigger = await s.create(every_s=30.0)
            machines = [Machine(c.store, random) for _ in range(2)]
            await first.stop()
            must, may = set[float](), set[float]()
            config, began_s, is_active = ScheduleConfig(every_s=30.0), BEGIN_S, True

            def note(ends_s: float, all_of_them: bool) -> None:
                """Notes the ticks of an active time. If a pause ends it, a tick that was due just before may be dropped."""
                for tick_s in ticks_after(config, began_s, began_s):
                    if tick_s > ends_s:
                        return
                    may.add(tick_s - BEGIN_S)
                    if all_of_them or tick_s <= ends_s - HANDLED_S:
                        must.add(tick_s - BEGIN_S)

            while elapsed_s() < 3_000:
                await asyncio.sleep(random.uniform(1, 200))
                if not is_active:
                    _ = await trigger_directory.resume_trigger(s.access, T, trigger, "me")
                    began_s, is_active = now_s(), True
                elif random.random() < 0.5:
                    _ = await trigger_directory.pause_trigger(s.access, T, trigger, "me", "a rest")
                    must = {one for one in must if one <= elapsed_s() - HANDLED_S}  # what an edit before it owed may be dropped too
                    note(now_s(), False)
                    is_active = False
                else:
                    every_s = random.choice([one for one in (20.0, 30.0, 45.0) if one != config.every_s])
                    await s.edit(trigger, every_s=every_s)
                    note(now_s(), True)
                    config, began_s = ScheduleConfig(every_s=every_s), now_s()
            if is_active:
                _ = await trigger_directory.pause_trigger(s.access, T, trigger, "me", "the end")
                must = {one for one in must if one <= elapsed_s() - HANDLED_S}
                note(now_s(), False)
            for machine in machines:
                await machine.end()
            found = await s.seconds(trigger)
            assert len(found) == len(set(found)) and must <= set(found) <= may, (sorted(must - set(found)), sorted(set(found) - may))
            await _no_damage(c)

    run(inside, seed=seed, handles_max=5_000_000)


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.prove) for seed in range(1, 15)]])
def test_a_queue_of_ticks_stays_within_its_bound_and_serial_whichever_engines_die(seed: int) -> None:
    async def inside() -> None:
        async with cluster() as c:
            s, random = Schedules(c), Random(seed)
            first = await s.engine()
            trigger = await s.create("long", every_s=30.0, overlap="queue", queued_max=3)
            machines = [Machine(c.store, random) for _ in range(2)]
            await first.stop()
            ended = 0
            while elapsed_s() < 2_000:
                await asyncio.sleep(random.uniform(1, 60))
                state = await s.state(trigger)
                assert len(state.waiting) <= 3 and sorted(set(state.waiting)) == list(state.waiting)
                going = await c.store.heads(HeadFilter(tenant=T, workflow="long", ended=False, limit=10))
                assert len(going) <= 1, "one after the other"
                if going:
                    await c.send(going[0].key, "go", "on")
                    ended += 1
            for machine in machines:
                await machine.end()
            assert ended > 10
            await _no_damage(c)

    run(inside, seed=seed, handles_max=5_000_000)
