"""Claims about memory: executions that wait leave it when they are many, those that waited longest first, and come back when they are needed."""

from typing import Any

import pytest

from perdure import Context, workflow
from perdure.core.paths import Key
from perdure.runtime.resident_executions import MEMORY_MIN_BYTES, ResidentCache, ResidentExecution
from tests.runtime.cluster import Cluster, settle
from tests.runtime.test_engine import virtually


@workflow
async def heavy(ctx: Context, text: str) -> Any:
    return [text, await ctx.listen("go")]


@pytest.mark.slow
@virtually
async def test_waiting_executions_leave_memory_when_all_together_take_too_much(c: Cluster) -> None:
    engine = await c.engine(heavy, memory_bytes_max=100 * MEMORY_MIN_BYTES)
    text = "x" * 10_000
    for number in range(60):
        assert await c.start(engine, heavy, text, id=str(number))
    await settle(1)
    here = {resident.key.id for resident in engine.engine._residents}
    assert 0 < len(here) < 20 and "59" in here and "0" not in here
    for number in range(60):
        await c.send(heavy.key(str(number)), "go", number)
    assert [await c.result(engine, heavy, id=str(number)) for number in range(60)] == [[text, number] for number in range(60)]
    assert len(engine.engine._residents) == 0


def test_what_is_held_or_at_work_stays_and_the_longest_idle_leaves_first() -> None:
    left: list[Key] = []
    residents = ResidentCache(10 * MEMORY_MIN_BYTES, left.append)
    for number in range(10):
        resident = residents.add(ResidentExecution(Key("t", "w", str(number)), exists=True))
        resident.held, resident.last_active_s = number == 0, float(-number)
        residents.weigh(resident)
    assert len(residents) == 10
    last = residents.add(ResidentExecution(Key("t", "w", "last"), exists=True))
    last.held = False
    residents.weigh(last)
    assert [resident.key.id for resident in residents] == ["0", "1", "2", "3", "last"]
    assert [key.id for key in left] == ["9", "8", "7", "6", "5", "4"]


def test_what_has_left_weighs_nothing() -> None:
    left: list[Key] = []
    residents = ResidentCache(2 * MEMORY_MIN_BYTES, left.append)
    for number in range(100):
        resident = residents.add(ResidentExecution(Key("t", "w", str(number)), exists=True))
        residents.weigh(resident)
        residents.drop(resident)
        residents.drop(resident)
    kept = residents.add(ResidentExecution(Key("t", "w", "kept"), exists=True))
    kept.held = False
    residents.weigh(kept)
    assert len(residents) == 1
    assert len(left) == 100
