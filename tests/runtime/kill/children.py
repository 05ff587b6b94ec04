"""Children under kill -9: awaited, started, retried, left to themselves or not when nobody waits, and undone with their parent."""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal

from perdure import Context, Ok, Retry, Rollback, step, workflow
from perdure.core import events as e
from perdure.core.operations import SpawnOperation
from perdure.core.paths import Key
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History

POLICIES: tuple[Literal["cancel", "terminate", "detach"], ...] = ("cancel", "terminate", "detach")
PARTS = 3


def is_rolled_back(number: int) -> bool:
    """Whether a family fails at its end."""
    return number % 4 == 1


def is_cancelled(number: int) -> bool:
    """Whether somebody cancels it."""
    return number % 4 == 3


@step(retry=PATIENT)
async def pay(number: int, what: str) -> int:
    with doing([number, what]):
        await asyncio.sleep(0.005)
    return number


@pay.undo(retry=PATIENT)
async def refund(paid: int, number: int, what: str) -> None:
    with doing([number, f"refund {what}"]):
        await asyncio.sleep(0.005)


@workflow
async def item(ctx: Context, number: int, part: int) -> int:
    await ctx.sleep("10ms")
    return part + await ctx.step(pay, number, f"item {part}")


@workflow
async def errand(ctx: Context, number: int) -> Key | None:
    await ctx.sleep("60ms")
    await ctx.step(pay, number, "errand")
    return ctx.execution.parent


@workflow
async def stubborn(ctx: Context, number: int) -> int:
    await ctx.step(pay, number, "stubborn")
    if not ctx.execution.id.endswith("#3"):
        raise Rollback("not yet")
    return number


@workflow
async def endless(ctx: Context, number: int, ends: bool) -> int:
    await ctx.step(pay, number, "endless")
    if not ends:
        await ctx.listen("never")
    await ctx.sleep("150ms")
    return await ctx.step("on its own", pay, number, "on its own")


@workflow
async def family(ctx: Context, number: int) -> list[Any]:
    policy = POLICIES[number % 3]
    parts = await ctx.map(lambda c, part: c.call(item.with_(undo=True), number, part), range(PARTS))
    await ctx.start(errand.with_(id=f"{number}"), number)
    await ctx.race(
        child=lambda c: c.call(endless.with_(on_cancel=policy, id=f"{number}"), number, policy == "detach"),
        late=lambda c: c.sleep("80ms"),
    )
    match await ctx.attempt(stubborn.with_(retry=Retry(max=3, wait="10ms"), id=f"{number}"), number):
        case Ok(value):
            parts.append(value)
    if is_rolled_back(number):
        raise Rollback("after all")
    if is_cancelled(number):
        ctx.set("there", True)
        await ctx.call(endless.with_(id=f"{number} to be cancelled"), number, False)
    return parts


def drive(run: ScenarioRun) -> None:
    """Start families, and cancel some of them in the end."""
    with run.client() as client:
        run.begin()
        handles = [client.start(family.with_(id=str(number)), number) for number in run.numbers()]
        for number, handle in enumerate(handles):
            if is_cancelled(number):
                run.until(lambda handle=handle: handle.query("there"), "it can be cancelled")  # type: ignore[misc]  # mypy infers no lambda with a default
                handle.cancel("enough")


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """Who has ended how, and what was paid and paid back in the end."""
    statuses = {(key.workflow, key.id): history.head.status for key, history in histories.items()}
    done = {tuple(effect.about): 0 for effect in run.ledger.of("ended")}
    for number in range(run.size.executions):
        policy, name = POLICIES[number % 3], str(number)
        end = "failed" if is_rolled_back(number) else "cancelled" if is_cancelled(number) else "completed"
        assert statuses["family", name] == end
        assert statuses["errand", name] == "completed" and (number, "errand") in done
        assert [statuses["stubborn", f"{name}{again}"] for again in ("", "#2", "#3")] == ["failed", "failed", "completed"]
        assert ("stubborn", f"{name}#4") not in statuses and (number, "refund stubborn") in done
        assert statuses["endless", name] == ("completed" if policy == "detach" else "cancelled")
        assert ((number, "on its own") in done) == (policy == "detach")
        assert policy == "cancel" or is_cancelled(number) or (number, "refund endless") not in done
        for part in range(PARTS):
            assert (number, f"item {part}") in done
            assert ((number, f"refund item {part}") in done) == (end != "completed")
        if is_cancelled(number):
            assert statuses["endless", f"{name} to be cancelled"] == "cancelled"
        else:
            assert ("endless", f"{name} to be cancelled") not in statuses
    told = sum(told_once(history) for history in histories.values())
    return f"{told} parents' operations told by their children"


def told_once(history: History) -> int:
    """How many children have told this one of their end."""
    awaited = {event.path for event in history.events if isinstance(event, e.OpenedEvent) and isinstance(event.op, SpawnOperation) and event.op.awaited}
    told = [event.path for event in history.events if isinstance(event, e.SettledEvent) and event.path in awaited]
    assert len(told) == len(set(told)), f"{history.head.key} was told twice: {told}"
    return len(told)


SCENARIO = Scenario(lambda _: (family, item, errand, stubborn, endless), drive, check, Size(12, 14), Size(120, 150))
