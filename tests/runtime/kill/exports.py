"""Carrying under kill -9: executions exported from a file whose engine was killed, imported by operators that are killed: whole or not at all, and once."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure import AlreadyExists, Context, Queue, step, workflow
from perdure.core.paths import Key
from perdure.stores.protocol import HeadFilter
from perdure.stores.sqlite.read_only_store import ReadOnlySqliteStore
from perdure.sync_client import Client
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

SOURCE = "source.db"
LARGE = 90_000
"""How many characters are kept as a blob."""

BATCH = 3
TOLD = 2
"""So many messages are not read yet when it is exported."""

press = Queue("press", concurrency=3)


@step(retry=PATIENT)
async def enlarge(number: int) -> str:
    with doing([number, "enlarge"]):
        await asyncio.sleep(0.003)
    return f"{number:06d}" * (LARGE // 6)


@step(retry=PATIENT)
async def work(number: int, what: str) -> int:
    with doing([number, what]):
        await asyncio.sleep(0.02)
    return number


@step(retry=PATIENT, queue=press, timeout="60s")
async def label(number: int) -> int:
    with doing([number, "label"]):
        await asyncio.sleep(0.003)
    return number


@workflow
async def part_of_trip(ctx: Context, number: int, part: int) -> int:
    total = await ctx.step(work, number, f"part {part}")
    await ctx.sleep("200ms")
    return total + await ctx.step("again", work, number, f"part {part} again")


@workflow
async def trip(ctx: Context, number: int) -> list[Any]:
    text = await ctx.step(enlarge, number)
    await ctx.start(part_of_trip.with_(id=f"{number} aside"), number, 9)
    parts, labelled = await ctx.join(
        lambda c: c.map(lambda d, part: d.call(part_of_trip.with_(id=f"{number} {part}"), number, part), range(3)),
        lambda c: c.step(label, number),
    )
    async for turn in ctx.loop("steady", state=0, keep=2):
        turn.state = await turn.step(work, number, f"turn {turn.number}")
        if turn.number == 2:
            break
    told = [await ctx.listen("told") for _ in range(TOLD)]
    return [len(text), parts, labelled, told, await ctx.listen("go")]


PARTS = ("", " aside", " 0", " 1", " 2")
"""The ends of the ids of all executions of a trip."""


def carry(client: Client, numbers: list[int]) -> None:
    """Import each that is not there yet."""
    for number in numbers:
        with suppress(AlreadyExists):
            client.upkeep.import_(Path(f"{number}.export").read_bytes(), unsigned=True)


def drive(run: ScenarioRun) -> None:
    """Fill the source, kill its engine in the middle, export all; then import it under kills, and have it go on."""
    source = f"sqlite:///{run.stage.directory / SOURCE}"
    engine = run.processes.engine(0, {}, source)
    with Client(source) as client:
        handles = []
        for number in range(run.size.executions):
            handles.append(client.start(trip.with_(id=str(number)), number))
            for word in range(TOLD):
                handles[-1].send("told", word)
            time.sleep(run.draw.uniform(0, 0.03))
        run.until(lambda: all(len(client.list(id_prefix=f"{number} ")) >= 4 for number in range(run.size.executions)), "all are on their way")
        run.killed[engine] = time.monotonic()
        run.processes.kill(engine)
        for number in range(run.size.executions):
            (run.stage.directory / f"{number}.export").write_bytes(client.upkeep.export(trip.key(str(number)), children=True))
    with run.client() as client:
        run.begin()
        for first in range(0, run.size.executions, BATCH):
            some = list(range(first, min(first + BATCH, run.size.executions)))
            run.operator("carry", some, kills=5, after=lambda: all_or_nothing(run))
            for number in some:
                client.get(str(number), trip).send("go", number)


def all_or_nothing(run: ScenarioRun) -> None:
    """Of each trip, all executions are there, or none is."""
    there = {key.id for key in asyncio.run(ids(run.stage.file))}
    for number in range(run.size.executions):
        found = [f"{number}{part}" in there for part in PARTS]
        assert all(found) or not any(found), f"{number} is there in part: {found}"


async def ids(file: Path) -> list[Key]:
    """The executions of a file."""
    looking = ReadOnlySqliteStore(file)
    try:
        return [head.key for head in await looking.heads(HeadFilter(limit=1_000_000))]
    finally:
        await looking.close()


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """Every result is what it would have been, and what was done before it was carried was not done again."""
    all_or_nothing(run)
    with run.client() as client:
        for number in range(run.size.executions):
            assert client.get(str(number), trip).result(1.0) == [LARGE, [2 * number] * 3, number, list(range(TOLD)), number]
            assert client.get(f"{number} aside", part_of_trip).result(1.0) == 2 * number
    assert len(histories) == len(PARTS) * run.size.executions
    return f"{len(histories)} carried"


SCENARIO = Scenario(
    lambda _: (trip, part_of_trip),
    drive,
    check,
    Size(12, 8),
    Size(150, 80),
    steps=(label,),
    queues=("press",),
    declares=(press,),
    operators={"carry": carry},
)
