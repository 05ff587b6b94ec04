"""Steps at work under kill -9: how far they were survives into the next try, and being interrupted is no failure."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure import Context, NeedsAttention, Retry, step, step_info, workflow
from perdure.core import events as e
from perdure.core.paths import Key
from tests.runtime.kill.effect_log import note
from tests.runtime.kill.scenario import Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History, RecordedEffect

PAGES, PAGE_S = 60, 0.03
FAILS_AT = 20
KEPT_AFTER_S = 1.7
"""What was said so long before a kill is kept: a second, and what a busy machine takes to write it."""


@step(retry=Retry(max=2, wait=0.01), heartbeat="20s")
async def copy(number: int) -> list[int]:
    info, failed = step_info(), Path(f"failed-{number}")
    begins_at = info.progress or 0
    note("began", ["copy", number, begins_at])
    for one in range(begins_at + 1, PAGES + 1):
        await asyncio.sleep(PAGE_S)
        note("page", ["copy", number, one])
        info.heartbeat(one)
        if one >= FAILS_AT and not failed.exists():
            failed.touch()
            note("failed", ["copy", number, one])
            raise OSError("the line went dead")
    note("ended", ["copy", number, PAGES])
    return [number, begins_at]


@step(retry=Retry(max=2, wait=0.01), heartbeat="300ms")
async def silent(number: int) -> int:
    quiet = Path(f"quiet-{number}")
    note("began")
    if not quiet.exists():
        quiet.touch()
        await asyncio.Event().wait()
    note("ended")
    return number


@workflow
async def copies(ctx: Context, number: int) -> list[Any]:
    copied, waited = await ctx.join(lambda c: c.step(copy, number), lambda c: c.step(silent, number))
    return [copied[0], waited]


def drive(run: ScenarioRun) -> None:
    """Start long steps while engines are killed; one that was interrupted too often is resumed."""
    with run.client() as client:
        run.begin()
        handles = [client.start(copies.with_(id=str(number)), number) for number in run.numbers()]
        for handle in handles:
            while True:
                try:
                    handle.result(60.0)
                    break
                except NeedsAttention:
                    handle.resume(wait=True)


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """Each try began where one before it had said it was, and not far behind; no interruption was taken for a failure."""
    tries = defaultdict[str, list[RecordedEffect]](list)
    for effect in run.ledger.read():
        if effect.about is not None:
            tries[effect.key].append(effect)
    went_on = 0
    for said in tries.values():
        for place, effect in enumerate(said):
            if effect.event != "began":
                continue
            before = [one for one in said[:place] if one.event == "page"]
            pages, begins_at = {one.about[2] for one in before}, effect.about[2]
            assert begins_at in pages | {0}, f"{effect} begins where nobody was"
            if said[place - 1].event == "failed":
                assert begins_at == said[place - 1].about[2], f"{effect} does not begin where {said[place - 1]} was"
            elif before:
                kept = max((one.about[2] for one in before if one.at_s < run.killed[one.process] - KEPT_AFTER_S), default=0)
                assert begins_at >= kept, f"{effect} begins again, though {kept} was said {KEPT_AFTER_S} s before the kill"
                went_on += begins_at > 0
    interrupted = 0
    for key, history in histories.items():
        assert history.head.status == "completed", key
        interrupted += sum(isinstance(event, e.InterruptedEvent) for event in history.events)
        failures = [event for event in history.events if isinstance(event, e.RetryingEvent)]
        assert len(failures) <= 2, f"{key}: {failures}"
    return f"{interrupted} tries interrupted, {went_on} went on in the middle"


SCENARIO = Scenario(lambda _: (copies,), drive, check, Size(6, 7), Size(80, 80), every_s=(0.2, 0.6))
