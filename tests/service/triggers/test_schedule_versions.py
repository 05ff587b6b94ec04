"""Claims about the schedules of definitions: publishing, withdrawing and rolling back versions loses no tick, doubles none, and makes up for none."""

import asyncio
import json
from random import Random
from typing import Any

import pytest

from perdure.service import catalog
from perdure.service.catalog_changes import DefinitionFields, Edit
from perdure.service.triggers import trigger_directory
from perdure.testing.virtual_time import run
from tests.runtime.cluster import cluster
from tests.service.triggers.schedule_cluster import Schedules, T, elapsed_s, scheduled, until
from tests.service.triggers.test_schedule_crashes import HANDLED_S, Machine

TRIGGER, BY = "report:often", Edit("ada")


def document(every: str | None, number: int = 0) -> bytes:
    triggers: list[Any] = [] if every is None else [{"name": "often", "schedule": {"every": every, "catch_up": 5}}]
    whole = {"perdure": 1, "name": "report", "vars": {"n": 0}, "steps": [{"id": "note", "set": {"n": number}}], "triggers": triggers}
    return json.dumps(whole).encode()


@scheduled
async def test_what_was_missed_while_a_version_lacked_the_schedule_is_not_made_up_for(s: Schedules) -> None:
    _ = await s.engine()
    first = await catalog.create_definition(s.access, T, document("1m"), BY)
    await until(70)
    _ = await catalog.update_definition(s.access, T, "report", BY, document(None))
    await until(500)
    assert await s.seconds(TRIGGER) == [60]
    _ = await catalog.roll_back(s.access, T, "report", first.hash, BY)
    await until(570)
    assert await s.seconds(TRIGGER) == [60, 560], "it goes on from the rollback"


@scheduled
async def test_a_version_that_says_the_same_of_a_schedule_leaves_its_ticks_as_they_are(s: Schedules) -> None:
    _ = await s.engine()
    _ = await catalog.create_definition(s.access, T, document("1m"), BY)
    for number in range(1, 6):
        await until(45 * number)
        _ = await catalog.update_definition(s.access, T, "report", BY, document("1m", number))
    await until(310)
    assert await s.seconds(TRIGGER) == [60, 120, 180, 240, 300]


@scheduled
async def test_a_pause_survives_a_new_version_and_a_disabled_definition_starts_nothing(s: Schedules) -> None:
    _ = await s.engine()
    _ = await catalog.create_definition(s.access, T, document("1m"), BY)
    _ = await trigger_directory.pause_trigger(s.access, T, TRIGGER, "eve", "a fair")
    _ = await catalog.update_definition(s.access, T, "report", BY, document("30s"))
    await until(200)
    assert await s.seconds(TRIGGER) == []
    _ = await trigger_directory.resume_trigger(s.access, T, TRIGGER, "eve")
    _ = await catalog.update_definition(s.access, T, "report", BY, fields=DefinitionFields(enabled=False))
    await until(240)
    assert await s.seconds(TRIGGER) == [] and await s.incidents(TRIGGER) == [("failed", 230)]
    _ = await catalog.update_definition(s.access, T, "report", BY, fields=DefinitionFields(enabled=True))
    await until(270)
    assert await s.seconds(TRIGGER) == [260]


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.prove) for seed in range(1, 12)]])
def test_no_tick_is_lost_or_doubled_over_random_versions_and_deaths(seed: int) -> None:
    async def inside() -> None:
        async with cluster() as c:
            s, random = Schedules(c), Random(seed)
            first = await s.engine()
            _ = await catalog.create_definition(s.access, T, document("20s"), BY)
            machines = [Machine(c.store, random) for _ in range(2)]
            await first.stop()
            must, may, began, number = set[float](), set[float](), 0.0, 0
            every: int | None = 20
            while elapsed_s() < 1_500:
                await asyncio.sleep(random.uniform(1, 100))
                number += 1
                following = random.choice([20, 30, 45, None])
                _ = await catalog.update_definition(s.access, T, "report", BY, document(None if following is None else f"{following}s", number))
                if following == every:
                    continue  # the schedule is the same, and its ticks go on
                now = elapsed_s()
                ticks = set() if every is None else {one for one in (began + every * count for count in range(1, 200)) if one <= now}
                may |= ticks
                must |= {one for one in ticks if following is not None or one <= now - HANDLED_S}
                if following is None:
                    must = {one for one in must if one <= now - HANDLED_S}
                every, began = following, float(int(now) + (now % 1 > 0))
            for machine in machines:
                await machine.end()
            found = {one for one in await s.seconds(TRIGGER) if one <= began}
            must = {one for one in must if one <= elapsed_s() - HANDLED_S}
            assert must <= found <= may, (sorted(must - found), sorted(found - may))

    run(inside, seed=seed, handles_max=5_000_000)
