"""Endings under kill -9: executions that end by a cancel, a failure, a deadline, a return or a race while steps with effects are in flight."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from perdure import Context, Rollback, step, workflow
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Failure, Success
from perdure.core.paths import UNDO, Key, Path, idempotency_key
from tests.proof.queue_audit import StepAudit
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History, RecordedEffect

WHYS = ("failure", "cancel", "deadline", "returns", "race", "kill")
ENDS = {"failure": "failed", "cancel": "cancelled", "deadline": "failed", "returns": "completed", "race": "failed", "kill": "completed"}
SHORT_S, LONG_S = 0.03, 60.0


@step(retry=PATIENT, grace=0.15)
async def act(number: int, takes_s: float) -> float:
    with doing([number, takes_s]):
        await asyncio.sleep(takes_s)
    return takes_s


@act.undo(in_doubt=True, retry=PATIENT)
async def take_back(result: float | None, number: int, takes_s: float) -> None:
    with doing([number, "undo", result]):
        await asyncio.sleep(0.004)


@step(retry=PATIENT, grace=0.3)
async def act_surely(number: int, takes_s: float) -> float:
    with doing([number, takes_s]):
        await asyncio.sleep(takes_s)
    return takes_s


@act_surely.undo(retry=PATIENT)
async def take_back_what_was_done(result: float, number: int, takes_s: float) -> None:
    with doing([number, "undo", result]):
        await asyncio.sleep(0.004)


def begin_some(ctx: Context, number: int) -> list["asyncio.Future[float]"]:
    """Steps that have ended, that end within the grace, and that never do."""
    given = ((act, SHORT_S), (act, 0.2), (act, LONG_S), (act_surely, 0.3), (act_surely, LONG_S))
    return [asyncio.ensure_future(ctx.step(one, number, takes_s)) for one, takes_s in given]


@workflow
async def failure(ctx: Context, number: int) -> None:
    begun = begin_some(ctx, number)
    await ctx.sleep(0.1)
    raise Rollback(f"no {len(begun)}")


@workflow
async def cancel(ctx: Context, number: int) -> None:
    begun = begin_some(ctx, number)
    ctx.set("there", len(begun))
    await ctx.listen("never")


@workflow(deadline="200ms")
async def deadline(ctx: Context, number: int) -> None:
    begun = begin_some(ctx, number)
    await ctx.listen("never", default=len(begun))


@workflow
async def returns(ctx: Context, number: int) -> int:
    begun = begin_some(ctx, number)
    await ctx.sleep(0.1)
    return len(begun)


@workflow
async def race(ctx: Context, number: int) -> None:
    await ctx.race(slow=lambda c: c.join(lambda d: d.step(act, number, LONG_S), lambda d: d.step(act_surely, number, LONG_S)), fast=lambda c: c.sleep(0.1))
    await ctx.step(act, number, SHORT_S)
    raise Rollback("no")


@workflow
async def kill(ctx: Context, number: int) -> float:
    return sum(await ctx.map(lambda c, takes_s: c.step(act, number, takes_s), [SHORT_S, 2 * SHORT_S, SHORT_S]))


KINDS = {"failure": failure, "cancel": cancel, "deadline": deadline, "returns": returns, "race": race, "kill": kill}


def drive(run: ScenarioRun) -> None:
    """Start all kinds, and cancel those that are to be."""
    with run.client() as client:
        run.begin()
        handles: list[tuple[str, Any]] = []
        for number in run.numbers():
            why = WHYS[number % len(WHYS)]
            handles.append((why, client.start(KINDS[why].with_(id=str(number)), number)))
            for of, handle in handles[-len(WHYS) :] if number % len(WHYS) == len(WHYS) - 1 else ():
                if of == "cancel":
                    run.until(lambda handle=handle: handle.query("there"), "it can be cancelled")  # type: ignore[misc]  # mypy infers no lambda with a default
                    handle.cancel("enough")
        for why, handle in handles:
            run.until(lambda handle=handle, why=why: handle.status().status in (ENDS[why], "cancelled"), f"{why} has ended")  # type: ignore[misc]  # mypy infers no lambda with a default


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """What was done in the world agrees with what the log says was done or abandoned; what was or may have been done is undone, after all of it."""
    effects = run.ledger.read()
    began = Counter(effect.key for effect in effects if effect.event == "began")
    ended = {effect.key for effect in effects if effect.event == "ended"}
    kinds: Counter[str] = Counter()
    for key, history in histories.items():
        execution, ledger = Execution(key, history.head.root), StepAudit()
        for event in history.events:
            execution.apply(event)
            ledger.note(execution, event)
        assert execution.status == ENDS[key.workflow] and not execution.open, f"{key} is {execution.status}"
        found = list(ledger.differs(execution, True, lambda path, key=key: began[idempotency_key(key, path)], lambda _: 0))  # type: ignore[misc]  # mypy infers no lambda with a default
        assert not found, f"{key}: {found}"
        for path, known in execution.settled.items():
            if isinstance(known.op, CallOperation) and path[0] != UNDO:
                kinds[known.outcome.kind if isinstance(known.outcome, Failure) else "done"] += 1
                assert not isinstance(known.outcome, Success) or idempotency_key(key, path) in ended, f"{key}: {path} was never done"
                is_given_rightly(key, path, known.outcome, effects)
        is_undone_last(key, execution, effects)
    assert kinds["abandoned"] and kinds["done"], kinds
    return ", ".join(f"{count} steps {kind}" for kind, count in sorted(kinds.items()))


def is_given_rightly(key: Key, path: Path, outcome: Any, effects: list[RecordedEffect]) -> None:
    """What undoes a step was given its result, or None where that is not known."""
    undo = idempotency_key(key, (UNDO, *path))
    given = {effect.about[2] is not None for effect in effects if effect.key == undo}
    assert given <= {isinstance(outcome, Success)}, f"{key}: {path} came to {outcome}, and its undoing was given another result"


def is_undone_last(key: Key, execution: Execution, effects: list[RecordedEffect]) -> None:
    """Once undoing has begun, no step begins, and none ends."""
    steps = {idempotency_key(key, path) for path, known in execution.settled.items() if isinstance(known.op, CallOperation) and path[0] != UNDO}
    undos = {idempotency_key(key, path) for path in execution.settled if path[0] == UNDO}
    first = next((number for number, effect in enumerate(effects) if effect.key in undos), len(effects))
    late = [effect for effect in effects[first:] if effect.key in steps and effect.event in ("began", "ended")]
    assert not late, f"{key} was being undone, and {late}"


SCENARIO = Scenario(lambda _: tuple(KINDS.values()), drive, check, Size(12, 6), Size(180, 120))
