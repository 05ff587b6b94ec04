"""What schedules cost: how long 1,000 that are due at once take to start, how long many more take to drain and what an unrelated start waits for meanwhile, and
what many cost that are not due. On a file with synchronous=FULL, with one engine.

python -m bench.schedules [HOW MANY]
"""

import asyncio
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure import App, Context, workflow
from perdure.service.record_kinds import post_records
from perdure.service.triggers.schedule_states import SCHEDULE_STATES, ScheduleState, clock_messages, state_change
from perdure.service.triggers.trigger_records import ScheduleConfig, TriggerRecord, trigger_change
from perdure.stores.protocol import HeadFilter, Post, Store

DUE = 1_000
MANY = 100_000
TENANT = "default"
PIECE = 200
IDLE_S = 5.0
EVERY_S = 0.2


@workflow
async def job(ctx: Context) -> None:
    """Nothing, durably."""


@workflow
async def other(ctx: Context) -> None:
    """Something that has nothing to do with schedules."""


async def make(store: Store, name: str, count: int, due_at_s: float) -> None:
    """Makes schedules that are due once, at a time."""
    for first in range(0, count, PIECE):
        changes = []
        for number in range(first, min(first + PIECE, count)):
            now_s, id = time.time(), f"{name}-{number}"
            config = ScheduleConfig(once=(datetime.fromtimestamp(due_at_s, UTC),))
            by: dict[str, Any] = {"created_at_s": now_s, "created_by": "bench", "updated_at_s": now_s, "updated_by": "bench"}
            changes.append(trigger_change(TENANT, 0, TriggerRecord(id=id, name=id, config=config, workflow="job", is_code=True, resumed_at_s=now_s, **by)))
            changes.append(state_change(TENANT, id, 0, ScheduleState(now_s, due_at_s, due_at_s)))
        await post_records(store, changes)
    _ = await store.commit([Post(messages=await clock_messages(store, TENANT, name))])


async def until_started(store: Store, name: str, count: int) -> None:
    """Waits until all have started something: until no state of them is due."""
    while True:
        left = await SCHEDULE_STATES.page(store, TENANT, f"{name}-", where=(), limit=1)
        done = not left or all(one.value.number for one in await SCHEDULE_STATES.page(store, TENANT, f"{name}-{count - 1}", limit=1))
        if done and len(await store.heads(HeadFilter(workflow="job", id_prefix=f"schedule:{name}-", ended=False, limit=1))) == 0:
            states = [one async for one in SCHEDULE_STATES.all(store, TENANT, f"{name}-")]
            if all(one.value.number == 1 for one in states):
                return
        await asyncio.sleep(0.02)


async def measure(url: str, many: int) -> None:
    """Measures and prints."""
    async with App([job, other], db=url) as app:
        store = app.client._access.on_store("a benchmark").store
        due_at_s = time.time() + 3.0
        await make(store, "due", DUE, due_at_s)
        await asyncio.sleep(max(due_at_s - time.time(), 0.0))
        await until_started(store, "due", DUE)
        heads = await store.heads(HeadFilter(workflow="job", limit=DUE))
        started_s = max(head.created_at_s for head in heads) - due_at_s
        print(f"  {DUE:>7,} due at once    started within {started_s:6.2f} s, ended within {time.time() - due_at_s:6.2f} s")
        await make(store, "idle", many, time.time() + 1e6)
        await asyncio.sleep(1.0)
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.sleep(IDLE_S)
        after = resource.getrusage(resource.RUSAGE_SELF)
        used = 100 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / IDLE_S
        print(f"  {many:>7,} that are not due  {used:4.1f} % of a processor")
        due_at_s = time.time() + 5.0 + many / 4_000
        await make(store, "many", many, due_at_s)
        await asyncio.sleep(max(due_at_s - time.time(), 0.0))
        draining = asyncio.create_task(until_started(store, "many", many))
        waits = list[float]()
        while not draining.done():
            began_s = time.perf_counter()
            await app.run(other)
            waits.append(time.perf_counter() - began_s)
            await asyncio.sleep(EVERY_S)
        took_s, waits = time.time() - due_at_s, sorted(waits)
        print(
            f"  {many:>7,} due at once    drained in {took_s:6.1f} s, {many / took_s:,.0f}/s; an unrelated run p50 {waits[len(waits) // 2] * 1000:.0f} ms, ",
            end="",
        )
        print(f"p99 {waits[int(len(waits) * 0.99)] * 1000:.0f} ms, {len(waits)} runs")


def main() -> None:
    """Measure and print."""
    many = int(sys.argv[1]) if len(sys.argv) > 1 else MANY
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        print(f"schedules on SQLite, one engine; Python {sys.version.split()[0]}")
        asyncio.run(measure(f"sqlite:///{place}/bench.db", many))


if __name__ == "__main__":
    main()
