"""Queues under kill -9: no limit is ever passed, every lane goes on, a rate is kept; starts that expire, replace each other, or are alone of their kind."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import NamedTuple

from perdure import Context, Queue, Rate, step, workflow
from perdure.core import events as e
from perdure.core.paths import Key
from perdure.sync_client import Client
from tests.runtime.kill.effect_log import doing
from tests.runtime.kill.scenario import PATIENT, Scenario, Size
from tests.runtime.kill.scenario_run import ScenarioRun
from tests.runtime.processes import History, RecordedEffect

LANES = "aaaaabcd"
"""Of every eight, five are the busy customer's."""

narrow = Queue("narrow", concurrency=4, per_key="lane", concurrency_per_key=2)
press = Queue("press", concurrency=2)
paced = Queue("paced", rate=Rate(20, "1s"))
PACE_S = 0.05
TTL_S, DEBOUNCE_S = 0.5, 0.15
ROWS, DRAFTS, SYNCS = 3, 8, 12
ASKED = Path("asked")
"""When each draft was asked for, as far as whoever did so lived to say it."""


@step(retry=PATIENT)
async def pack(lane: str, number: int) -> int:
    with doing(["narrow", lane]):
        await asyncio.sleep(0.04)
    return number


@step(retry=PATIENT, queue=press, timeout="60s")
async def label(lane: str, number: int) -> int:
    with doing(["press", lane]):
        await asyncio.sleep(0.01)
    return number


@workflow(queue=narrow)
async def parcel(ctx: Context, lane: str, number: int) -> int:
    total = await ctx.step(pack, lane, number)
    await ctx.sleep("20ms")
    total += await ctx.step(label, lane, number)
    return total + await ctx.step("again", pack, lane, number)


@step(retry=PATIENT)
async def do(kind: str, number: int) -> int:
    with doing([kind, number]):
        await asyncio.sleep(0.03)
    return number


@workflow
async def draft(ctx: Context, number: int) -> int:
    return await ctx.step(do, "draft", number)


@workflow
async def sync(ctx: Context, number: int) -> int:
    await ctx.step(do, "sync", number)
    await ctx.sleep("10ms")
    return await ctx.step("again", do, "sync", number)


@workflow(queue=paced)
async def mail(ctx: Context, number: int) -> int:
    return await ctx.step(do, "mail", number)


def write_drafts(client: Client, row: str) -> None:
    """Start one draft after the other, of which each replaces the one before."""
    for number in range(DRAFTS):
        asked_s = time.time()
        handle = client.start(draft.with_(id=row, debounce=DEBOUNCE_S), number)
        with ASKED.open("a") as asked:
            asked.write(f"{asked_s} {handle.id}\n")
        time.sleep(0.01)


def keep_synced(client: Client) -> None:
    """Start what must be alone of its kind, again and again."""
    for number in range(SYNCS):
        client.start(sync.with_(id="sync", singleton=True), number)
        time.sleep(0.03)


def drive(run: ScenarioRun) -> None:
    """Start more than the queue takes at once, the busy customer's first, and have operators start what replaces and what is alone."""
    with run.client() as client:
        numbers = range(run.size.executions)
        for number in sorted(numbers, key=lambda number: LANES[number % 8]):
            client.start(parcel.with_(id=str(number)), LANES[number % 8], number)
        for number in numbers[: run.size.executions // 4]:
            client.start(parcel.with_(id=f"{number} in time", ttl=TTL_S), "e", number)
            client.start(mail.with_(id=str(number)), number)
        run.begin()
        for lap in range(1 + run.size.executions // 100):
            run.operators(*[("drafts", f"row {lap} {row}") for row in range(ROWS)], ("sync",), ("sync",), kills=3)


class Span(NamedTuple):
    """When something was at work, and whose it was."""

    begin_s: float
    end_s: float
    lane: str


def spans(effects: Iterable[RecordedEffect], queue: str, killed: Mapping[int, float]) -> list[Span]:
    """When each was at work by the ledger's own account; those of the killed until they were."""
    began: dict[tuple[str, int], RecordedEffect] = {}
    found: list[Span] = []
    for effect in effects:
        if effect.about is None or effect.about[0] != queue:
            continue
        if effect.event == "began":
            began[effect.key, effect.process] = effect
        else:
            found.append(Span(began.pop((effect.key, effect.process)).at_s, effect.at_s, effect.about[1]))
    return found + [Span(effect.at_s, killed.get(effect.process, inf), effect.about[1]) for effect in began.values()]


def most(chosen: list[Span]) -> int:
    """How many there were at one time at most."""
    return max((sum(one.begin_s <= at_s < one.end_s for one in chosen) for at_s, _, _ in chosen), default=0)


def started_s(history: History) -> float:
    """When it began; never, if it did not."""
    return next((event.at_s for event in history.events if isinstance(event, e.StartedEvent)), inf)


def check(run: ScenarioRun, histories: Mapping[Key, History]) -> str:
    """No more at a time than allowed, no lane waits for the busy one, what expired or was replaced did nothing."""
    effects = run.ledger.read()
    at_work, labelling = spans(effects, "narrow", run.killed), spans(effects, "press", run.killed)
    of_lane = max(most([span for span in at_work if span.lane == lane]) for lane in "abcde")
    assert most(at_work) <= 4 and of_lane <= 2 and most(labelling) <= 2, (most(at_work), of_lane, most(labelling))
    parcels = {key.id: history for key, history in histories.items() if key.workflow == "parcel"}
    begun = {lane: sorted(started_s(parcels[str(n)]) for n in range(run.size.executions) if LANES[n % 8] == lane) for lane in "abcd"}
    busy = begun["a"]
    for lane in "bcd":
        overtaken = sum(at_s < begun[lane][-1] for at_s in busy)
        assert overtaken <= 0.8 * len(busy), f"lane {lane} waited for {overtaken} of the {len(busy)} of the busy one"
    statuses = Counter(history.head.status for id, history in parcels.items() if id.endswith("in time"))
    for id, history in parcels.items():
        assert history.head.status == "completed" or (id.endswith("in time") and not any(isinstance(event, e.OpenedEvent) for event in history.events)), id
    mails = sorted(started_s(history) for key, history in histories.items() if key.workflow == "mail")
    gaps = [later - earlier for earlier, later in zip(mails, mails[1:], strict=False)]  # noqa: RUF007  # two times of many
    close = sum(gap <= PACE_S / 2 for gap in gaps)  # an engine that is slow to begin what it was given at its time brings that closer to the next one
    assert close <= len(gaps) / 20 and mails[-1] - mails[0] >= (len(mails) - 1) * PACE_S - 0.01, gaps
    asked = (line.partition(" ") for line in (run.stage.directory / ASKED).read_text().splitlines())
    replaced = drafts(histories, {id: float(at_s) for at_s, _, id in asked})
    alone(histories)
    return f"at most {most(at_work)} at a time, {of_lane} of a lane; {statuses['cancelled']} expired, {replaced} replaced"


def drafts(histories: Mapping[Key, History], asked_s: Mapping[str, float]) -> int:
    """A draft that ran was not followed by another in time, counted from when it was asked for; return how many were replaced."""
    rows: dict[str, dict[int, History]] = {}
    for key, history in histories.items():
        if key.workflow == "draft":
            row, _, place = key.id.partition("@")
            rows.setdefault(row, {})[int(place)] = history
    replaced = 0
    for row, drawn in rows.items():
        assert sorted(drawn) == list(range(1, len(drawn) + 1)) and drawn[len(drawn)].head.status == "completed", row
        for number in range(1, len(drawn)):
            history = drawn[number]
            next_after_s = drawn[number + 1].head.created_at_s - asked_s.get(history.head.key.id, -inf)
            replaced += history.head.status == "cancelled"
            assert history.head.status == "cancelled" or next_after_s > DEBOUNCE_S - 0.001, (
                f"{history.head.key} ran, though the next came {next_after_s} s later"
            )
    return replaced


def alone(histories: Mapping[Key, History]) -> None:
    """One began when the one before had ended."""
    syncs = sorted((history for key, history in histories.items() if key.workflow == "sync"), key=lambda history: int(history.head.key.id[5:]))
    for earlier, later in zip(syncs, syncs[1:], strict=False):  # noqa: RUF007  # two of many
        assert earlier.head.ended_at_s is not None and earlier.head.ended_at_s <= started_s(later), f"{later.head.key} began too early"


SCENARIO = Scenario(
    lambda _: (parcel, draft, sync, mail),
    drive,
    check,
    Size(40, 14),
    Size(400, 150),
    steps=(label,),
    queues=("press",),
    declares=(narrow, press, paced),
    operators={"drafts": write_drafts, "sync": keep_synced},
)
