"""Undo under kill -9: because of a failure, a cancel, a deadline, or by hand; handlers that fail first, and one that parks its execution."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure import Context, Retry, Rollback, step, step_info, workflow
from perdure.core import events as e
from perdure.core.operations import Success
from perdure.core.paths import UNDO, Key, idempotency_key
from tests.runtime.kill.effect_log import doing, note
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.kill.soundness import calls
from tests.runtime.processes import History

WHYS = ("failure", "cancel", "deadline", "hand", "child")
STEPS = 5
STUCK_EVERY = 7
"""Every so manyth has a handler that can't succeed until somebody mends it."""


def mended(number: int) -> Path:
    """The file that says that the handler of this one can do its work."""
    return Path(f"mended-{number}")


@step(retry=PATIENT)
async def reserve(number: int, place: int) -> int:
    with doing([number, place]):
        await asyncio.sleep(0.004)
    return place


@reserve.undo(retry=Retry(max=3, wait=0.01, factor=1))
async def release(result: int, number: int, place: int) -> None:
    note("tried", [number, place])
    if place == 2 and step_info().attempt == 1:
        raise ConnectionError("at first")
    if place == 1 and number % STUCK_EVERY == 0 and not mended(number).exists():
        raise OSError("stuck")
    with doing([number, -result]):
        await asyncio.sleep(0.004)


@step(retry=Retry(max=2, wait=0.01))
async def doubtful(number: int) -> int:
    note("began", [number, "doubtful"])
    raise TimeoutError("no answer")


@doubtful.undo(in_doubt=True, retry=PATIENT)
async def recall(result: int | None, number: int) -> None:
    assert result is None
    with doing([number, "recalled"]):
        await asyncio.sleep(0.002)


async def steps_with_undo(ctx: Context, number: int) -> int:
    for place in range(2):
        await ctx.step(reserve, number, place)
    await ctx.map(lambda c, place: c.step(reserve, number, place), range(2, STEPS))
    await ctx.attempt(doubtful, number)
    return number


@workflow
async def failure(ctx: Context, number: int) -> None:
    await steps_with_undo(ctx, number)
    raise Rollback("no")


@workflow
async def cancel(ctx: Context, number: int) -> None:
    await steps_with_undo(ctx, number)
    ctx.set("there", True)
    await ctx.listen("never")


@workflow(deadline="400ms")
async def deadline(ctx: Context, number: int) -> None:
    await steps_with_undo(ctx, number)
    await ctx.listen("never")


@workflow
async def hand(ctx: Context, number: int) -> int:
    return await steps_with_undo(ctx, number)


@workflow
async def child(ctx: Context, number: int) -> None:
    await ctx.call(hand.with_(undo=True, id=f"child {number}"), number)
    raise Rollback("no")


KINDS = {"failure": failure, "cancel": cancel, "deadline": deadline, "hand": hand, "child": child}
ENDS = {"failure": "failed", "cancel": "cancelled", "deadline": "failed", "hand": "completed", "child": "failed"}


def drive(run: ScenarioRun) -> None:
    """Have all kinds of executions undone, and mend what is stuck."""
    with run.client() as client:
        run.begin()
        handles = [(WHYS[number % len(WHYS)], number, client.start(KINDS[WHYS[number % len(WHYS)]].with_(id=str(number)), number)) for number in run.numbers()]
        for why, _, handle in handles:
            if why == "cancel":
                run.until(lambda handle=handle: handle.query("there"), "it can be cancelled")  # type: ignore[misc]  # mypy infers no lambda with a default
                handle.cancel("enough")
            elif why == "hand":
                _ = handle.result(60.0)
                handle.undo("by hand")
        for why, number, _ in handles:
            if number % STUCK_EVERY == 0:
                stuck = client.get(f"child {number}" if why == "child" else str(number), hand if why == "child" else KINDS[why])
                run.until(lambda one=stuck, why=why: one.status().status == "needs_attention" or is_early(one, why), "it is stuck")  # type: ignore[misc]  # mypy infers no lambda with a default
                (run.stage.directory / mended(number)).touch()
                if stuck.status().status == "needs_attention":
                    stuck.resume()
        for why, _, handle in handles:
            run.until(lambda handle=handle, why=why: is_over(handle, why), f"{why} is undone")  # type: ignore[misc]  # mypy infers no lambda with a default


def is_early(handle: Any, why: str) -> bool:
    """Whether it was over before it came to the step whose undoing is stuck, as its deadline may be."""
    return why == "deadline" and handle.status().status == "failed"


def is_over(handle: Any, why: str) -> bool:
    """Whether it has ended, and was undone."""
    return handle.status().status == ENDS[why] and (why != "hand" or any(event.type == "execution.undoing" for event in handle.events()))


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """All that was done was undone, once each, and what was done last first."""
    undone = 0
    for key, history in histories.items():
        number = int(key.id.removeprefix("child "))
        assert history.head.status == ("completed" if key.id.startswith("child") else ENDS[key.workflow]), key
        known = calls(history)
        settled = [event.path for event in history.events if isinstance(event, e.SettledEvent) and event.path in known]
        done = [event.path for event in history.events if isinstance(event, e.SettledEvent) and event.path in known and event.path[0] != UNDO]
        done = [path for path in done if known[path].endswith("doubtful") or is_ok(history, path)]
        handlers = [path[1:] for path in settled if path[0] == UNDO]
        assert handlers == done[::-1], f"{key} has done {done}, and undone {handlers}"
        order = list(dict.fromkeys(effect.key for effect in run.ledger.of("ended") if effect.key in {known[UNDO, *path] for path in done}))
        assert order == [idempotency_key(key, (UNDO, *path)) for path in handlers], f"{key} was undone in the order {order}"
        assert key.workflow in ("child", "deadline") or len(done) == STEPS + 1, f"{key} ({number}) has only done {done}"
        undone += len(handlers)
    return f"{undone} steps undone"


def is_ok(history: History, path: Any) -> bool:
    """Whether what settled there has succeeded."""
    return any(isinstance(event, e.SettledEvent) and event.path == path and isinstance(event.outcome, Success) for event in history.events)


SCENARIO = Scenario(lambda _: tuple(KINDS.values()), drive, check, Size(20, 14), Size(200, 150))
