"""Loops under kill -9: every turn is done and settles once, what is forgotten stays done, and the log stays short."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from perdure import Context, step, workflow
from perdure.core import events as e
from perdure.core.paths import Key
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

TURNS, LAPS = 60, 3
EVENTS_MAX = 200
"""More than a log has at any time: twice what is alive of it, and what makes it worth compacting."""


@step(retry=PATIENT)
async def page(number: int, row: int) -> int:
    with doing([number, row]):
        await asyncio.sleep(0.001)
    return row + 1


@workflow
async def cursor(ctx: Context, number: int) -> int:
    total = 0
    async for turn in ctx.loop("rows", state=0, keep=2):
        turn.state = await turn.step(page, number, turn.state)
        if turn.number % 10 == 0:
            await turn.sleep("5ms")
        if turn.state == TURNS:
            total = turn.state
            break
    return total


@workflow(archive=False)
async def nested(ctx: Context, number: int) -> list[int]:
    laps: list[int] = []
    async for lap in ctx.loop("laps", state=laps, keep=1):
        async for turn in lap.loop("rows", state=lap.number * 1000, keep=1):
            turn.state = await turn.step(page, number, turn.state)
            if turn.state % 1000 == TURNS // LAPS:
                lap.state = [*lap.state, turn.state]
                break
        await lap.step("end of lap", page, number, -1 - lap.number)
        if lap.number == LAPS - 1:
            laps = lap.state
            break
    return laps


def drive(run: ScenarioRun) -> None:
    """Start loops while engines are killed."""
    with run.client() as client:
        run.begin()
        for number in run.numbers():
            client.start((cursor if number % 2 else nested).with_(id=str(number)), number)


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """The results are right, every row was done, and no log is long."""
    done = Counter((effect.about[0], effect.about[1]) for effect in run.ledger.of("ended"))
    with run.client() as client:
        for number in range(run.size.executions):
            result: Any = client.get(str(number), cursor if number % 2 else nested).result(1.0)
            rows = list(range(TURNS)) if number % 2 else [lap * 1000 + row for lap in range(LAPS) for row in range(TURNS // LAPS)]
            rows += [] if number % 2 else [-1 - lap for lap in range(LAPS)]
            assert result == (TURNS if number % 2 else [lap * 1000 + TURNS // LAPS for lap in range(LAPS)])
            assert sorted(row for one, row in done if one == number) == sorted(rows), f"{number} has done other rows"
    lengths = [len(history.events) for history in histories.values()]
    compacted = sum(any(isinstance(event, e.SnapshotEvent) for event in history.events) for history in histories.values())
    assert max(lengths) <= EVENTS_MAX and compacted == len(histories), (max(lengths), compacted)
    return f"{sum(done.values()) - len(done)} of {len(done)} turns interrupted when they were done; at most {max(lengths)} events in a log"


SCENARIO = Scenario(lambda _: (cursor, nested), drive, check, Size(14, 14), Size(150, 150))
