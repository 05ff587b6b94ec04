"""Claims about the schedules that code declares: they are there when an engine begins, follow the code, and stay until somebody says otherwise."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import Context, Schedule, Workflow, workflow
from perdure.core.errors import BadValue, TriggerOwned
from perdure.service.triggers import trigger_directory
from perdure.service.triggers.clock_watch import ClockWatch
from perdure.service.triggers.code_schedules import declare_schedules, undeclared_schedules
from perdure.service.triggers.trigger_records import TRIGGERS, ScheduleConfig
from perdure.stores.protocol import Post
from perdure.stores.records import RecordChange
from tests.service.triggers.schedule_cluster import BEGIN_S, CLOCK, Schedules, T, key_of, scheduled, until

TRIGGER = "code:nightly"


def nightly(schedule: Schedule | str | None) -> Workflow[Any, Any]:
    async def run(ctx: Context, tick: str = "") -> str:
        return tick

    return workflow(name="nightly", **({} if schedule is None else {"schedule": schedule}))(run)  # type: ignore[no-any-return,call-overload]  # options are made up here


async def begin(s: Schedules, declared: Workflow[Any, Any]) -> Any:
    """Begins an engine with a workflow, and declares its schedule, as each process does."""
    process = await s.cluster.engine(CLOCK, declared)
    await declare_schedules(s.cluster.store, T, [declared.code])
    return process


EVERY_MINUTE = Schedule(every="1m", input={"tick": "@trigger.about.tick"})


@scheduled
async def test_a_schedule_of_code_starts_the_workflow(s: Schedules) -> None:
    _ = await begin(s, nightly(EVERY_MINUTE))
    await until(130)
    assert await s.seconds(TRIGGER) == [60, 120]
    assert (await s.cluster.fold(key_of("nightly", TRIGGER, 60))).status == "completed"
    shown = await trigger_directory.read_trigger(s.access, T, TRIGGER)
    assert (shown.owner, shown.name, shown.workflow_id, shown.undeclared) == ("code", "nightly", "nightly", False)


@scheduled
async def test_it_follows_the_code_and_keeps_what_its_operators_have_set(s: Schedules) -> None:
    first = await begin(s, nightly(EVERY_MINUTE))
    before = await trigger_directory.pause_trigger(s.access, T, TRIGGER, "eve", "a fair")
    await declare_schedules(s.cluster.store, T, [nightly(EVERY_MINUTE).code])
    assert (await trigger_directory.read_trigger(s.access, T, TRIGGER)).revision == before.revision, "what is the same changes nothing"
    await first.stop()
    _ = await begin(s, nightly(Schedule("@hourly")))
    after = await trigger_directory.read_trigger(s.access, T, TRIGGER)
    assert isinstance(after.config, ScheduleConfig) and after.config.cron == "@hourly" and after.pause is not None


@scheduled
async def test_what_no_engine_declares_any_more_goes_on_until_it_is_deleted(s: Schedules) -> None:
    first = await begin(s, nightly(EVERY_MINUTE))
    with pytest.raises(TriggerOwned, match="declared by the code nightly"):
        await trigger_directory.delete_trigger(s.access, T, TRIGGER)
    await first.stop()
    assert await undeclared_schedules(s.cluster.store, T) == [], "without an engine nobody can say so"
    _ = await begin(s, nightly(None))
    assert [one.id for one in await undeclared_schedules(s.cluster.store, T)] == [TRIGGER]
    assert (await trigger_directory.read_trigger(s.access, T, TRIGGER)).undeclared
    await until(70)
    assert await s.seconds(TRIGGER) == [60]
    await trigger_directory.delete_trigger(s.access, T, TRIGGER)
    await until(200)
    assert await s.seconds(TRIGGER) == [60]


@scheduled
async def test_a_process_declares_its_schedules_when_it_begins(s: Schedules) -> None:
    declared = nightly(Schedule(once=(datetime.fromtimestamp(BEGIN_S + 30, UTC),)))
    _ = await s.cluster.engine(CLOCK, declared)
    watch = ClockWatch(s.cluster.store, [declared.code])
    running = asyncio.create_task(watch.run())
    await until(40)
    watch.stop()
    await running
    assert await s.seconds(TRIGGER) == [30]


@scheduled
async def test_a_record_that_is_damaged_keeps_no_other_schedule_from_being_declared(s: Schedules) -> None:
    _ = await begin(s, nightly(EVERY_MINUTE))
    kept = await s.cluster.store.record(TRIGGERS.key(T, TRIGGER))
    assert kept is not None
    _ = await s.cluster.store.commit([Post(records=(RecordChange(kept.key, kept.version, kept.value[:-1] + b"\xc1", kept.attributes),))])

    @workflow(name="hourly", schedule=Schedule(every="1h"))
    async def hourly(ctx: Context) -> None:
        """Ends at once."""

    watch = ClockWatch(s.cluster.store, [nightly(EVERY_MINUTE).code, hourly.code])
    running = asyncio.create_task(watch.run())
    await watch.ready()
    watch.stop()
    await running
    assert await TRIGGERS.read(s.cluster.store, T, "code:hourly") is not None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"schedule": "* * *"}, "a cron expression"),
        ({"schedule": "@daily", "timezone": "Mars"}, "a time zone"),
        ({"timezone": "UTC"}, "given with schedule"),
        ({"schedule": Schedule("@daily"), "timezone": "UTC"}, "has its own"),
        ({"schedule": Schedule(every="1s", cron="@daily")}, "exactly one"),
        ({"schedule": 5}, r"a cron expression, or a Schedule\(…\)"),
    ],
)
def test_a_schedule_that_is_not_valid_is_refused_where_it_is_declared(options: dict[str, Any], why: str) -> None:
    async def run(ctx: Context) -> None:
        """Nothing."""

    with pytest.raises(BadValue, match=why):
        workflow(**options)(run)
    with pytest.raises(BadValue, match="with its zone"):
        Schedule(once=(datetime(2027, 1, 1),))  # noqa: DTZ001  # that is what is refused
