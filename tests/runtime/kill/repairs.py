"""Repairs under kill -9: retry, fork, rerun, preset and requeue by operators that are killed in the middle and do it again: nothing twice, nothing lost."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure import AlreadyExists, Context, HasEnded, PerdureError, Retry, Workflow, step, workflow
from perdure.core.errors import BadValue
from perdure.core.paths import Key, idempotency_key
from perdure.sync_client import Client
from tests.runtime.kill.effect_log import doing, note
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

HOWS = ("retry", "retry from", "fork", "rerun", "preset", "requeue", "fork running", "preset running")
GROUP = 16


def mended(number: int) -> Path:
    """The file that says that the bank takes the money of this one."""
    return Path(f"mended-{number}")


@step(retry=PATIENT)
async def reserve(number: int) -> str:
    with doing([number, "reserve"]):
        await asyncio.sleep(0.004)
    return f"{number} reserved"


@step(retry=Retry(max=2, wait=0.01))
async def charge(number: int, cents: int) -> int:
    if cents > 1000 and not mended(number).exists():
        note("refused", [number, "charge"])
        raise OSError("the bank says no")
    with doing([number, "charge"]):
        await asyncio.sleep(0.004)
    return cents


@step(retry=PATIENT)
async def ship(number: int) -> None:
    with doing([number, "ship"]):
        await asyncio.sleep(0.004)


@step
async def hang(number: int) -> int:
    note("began", [number, "hang"])
    await asyncio.Event().wait()
    return 0


@workflow
async def bill(ctx: Context, number: int, cents: int = 5000) -> list[Any]:
    reserved = await ctx.step(reserve, number)
    paid = await ctx.step(charge, number, cents)
    await ctx.step(ship, number)
    return [reserved, paid]


@workflow
async def open_bill(ctx: Context, number: int) -> list[Any]:
    reserved = await ctx.step(reserve, number)
    paid = await ctx.step(hang, number) if HOWS[number % 8] == "preset running" else await ctx.listen("paid")
    await ctx.step(ship, number)
    return [reserved, paid]


def kind(number: int) -> Workflow[..., list[Any]]:
    """What the execution of this number is one of."""
    return open_bill if HOWS[number % 8].endswith("running") else bill


def repair(client: Client, numbers: list[int]) -> None:
    """Mend each in its way. Killed and begun again, do what is not done."""
    for number in numbers:
        handle, how = client.get(str(number), kind(number)), HOWS[number % 8]
        while not (is_open(handle) if how.endswith("running") else is_over(handle)):
            time.sleep(0.005)
        with suppress(AlreadyExists, HasEnded):
            mend(client, handle, number, how)


def is_open(handle: Any) -> bool:
    """Whether it has come to what it waits for, or further."""
    return len(handle.steps()) >= 2


def is_over(handle: Any) -> bool:
    """Whether it has ended, for now at least."""
    return handle.status().status in ("completed", "failed", "cancelled")


def mend(client: Client, handle: Any, number: int, how: str) -> None:
    """Do one of them; one that was done before may refuse."""
    match how:
        case "retry":
            mended(number).touch()
            handle.retry("mended")
        case "retry from":
            mended(number).touch()
            if handle.status().status == "failed":
                handle.retry("all anew", from_step="reserve")
        case "fork":
            handle.fork("charge", input=[number, 900], id=f"{number} fork")
        case "rerun":
            mended(number).touch()
            handle.rerun(id=f"{number} rerun")
        case "preset":
            with suppress(BadValue):  # which says that it is settled: it was retried
                handle.preset("charge", 700)
            handle.retry("paid in cash")
        case "requeue":
            again = client.dead_letters.requeue(str(number), edits={"cents": 800}, workflow=bill)
            Path(f"requeued-{number}").write_text(again.id)
        case "fork running":
            fork = handle.fork(id=f"{number} fork")
            assert fork.id == f"{number} fork"
        case "preset running":
            with suppress(BadValue):
                handle.preset("hang", 600)


def drive(run: ScenarioRun) -> None:
    """Start what fails, and have operators mend it."""
    with run.client() as client:
        run.begin()
        some = run.numbers()
        for first in range(0, run.size.executions, GROUP):
            group = list(range(first, min(first + GROUP, run.size.executions)))
            for number in group:
                next(some)
                client.start(kind(number).with_(id=str(number)), number)
            run.operators(("repair", group[0::2]), ("repair", group[1::2]), kills=5)
            for number in group:
                if HOWS[number % 8] == "fork running":
                    for id in (str(number), f"{number} fork"):
                        client.get(id, open_bill).send("paid", id)


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """What came of each, and that there are as many executions as were wanted."""
    wanted = set[tuple[str, str]]()
    with run.client() as client:

        def came(id: str, of: Any = bill) -> Any:
            wanted.add((of.code.name, id))
            try:
                return client.get(id, of).result(1.0)
            except PerdureError as ended:
                return type(ended).__name__

        for number in range(run.size.executions):
            good, id = [f"{number} reserved", 5000], str(number)
            match HOWS[number % 8]:
                case "retry" | "retry from":
                    assert came(id) == good
                case "fork":
                    assert (came(id), came(f"{id} fork")) == ("ExecutionFailed", [good[0], 900])
                    assert idempotency_key(run.key(bill, f"{id} fork"), (("reserve", 1),)) not in run.ledger.keys("began")
                case "rerun":
                    assert (came(id), came(f"{id} rerun")) == ("ExecutionFailed", good)
                case "preset":
                    assert came(id) == [good[0], 700]
                case "requeue":
                    again = (run.stage.directory / f"requeued-{number}").read_text()
                    assert (came(id), came(again)) == ("ExecutionCancelled", [good[0], 800])
                case "fork running":
                    assert (came(id, open_bill), came(f"{id} fork", open_bill)) == ([good[0], id], [good[0], f"{id} fork"])
                    assert idempotency_key(run.key(open_bill, f"{id} fork"), (("reserve", 1),)) not in run.ledger.keys("began")
                case "preset running":
                    assert came(id, open_bill) == [good[0], 600]
    assert wanted == {(key.workflow, key.id) for key in histories}
    return f"{len(wanted)} executions, as wanted"


SCENARIO = Scenario(
    lambda _: (bill, open_bill), drive, check, Size(16, 14), Size(160, 150), operators={"repair": repair}, given=lambda key: key.endswith((":hang", ":charge"))
)
