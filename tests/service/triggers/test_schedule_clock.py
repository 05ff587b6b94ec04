"""Claims about the schedule clock: each tick of a schedule starts one execution, at its time, whatever happens to the others."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from perdure.core.errors import NoPromptHandler
from perdure.core.messages import TerminateMessage
from perdure.core.operations import SCHEDULE_WORKFLOW
from perdure.core.paths import Key
from perdure.prompt_workflow import Prompt, prompt_workflow
from perdure.service.record_kinds import RecordKind, post_records
from perdure.service.triggers import trigger_directory
from perdure.service.triggers.schedule_states import SCHEDULE_STATES
from perdure.service.triggers.trigger_input import facts_of
from perdure.service.triggers.trigger_records import TRIGGERS, ScheduleConfig, trigger_change
from perdure.stores.protocol import Committed, Post
from perdure.stores.records import RecordChange
from tests.service.triggers.schedule_cluster import BEGIN_S, CLOCK, Schedules, T, elapsed_s, key_of, scheduled, until


@scheduled
async def test_each_tick_starts_an_execution_that_knows_it(s: Schedules) -> None:
    await s.engine()
    trigger = await s.create(every_s=60.0, input={"day": "@trigger.about.tick"})
    await until(200)
    assert await s.seconds(trigger) == [60, 120, 180]
    key = key_of("report", trigger, 120)
    execution = await s.cluster.fold(key)
    facts = facts_of(execution.carried)
    assert facts is not None and facts.about == {"tick": "2001-09-09T01:48:40Z", "number": 2}
    assert (await s.cluster.head(key)).created_at_s == pytest.approx(BEGIN_S + 120, abs=0.1)
    assert (await s.state(trigger)).due_at_s == BEGIN_S + 240


@scheduled
async def test_the_clock_sleeps_until_the_next_schedule_is_due(s: Schedules) -> None:
    await s.engine()
    _ = await s.create(every_s=86_400.0)
    await until(10)
    clock = Key(T, SCHEDULE_WORKFLOW, "clock")
    before = await s.cluster.head(clock)
    await until(3_000)
    assert (await s.cluster.head(clock)).version == before.version, "it did nothing meanwhile"
    assert len(await s.cluster.events(clock)) < 60


@scheduled
async def test_a_pause_and_an_end_stop_a_schedule_and_nothing_is_made_up_for(s: Schedules) -> None:
    await s.engine()
    trigger = await s.create(every_s=60.0, catch_up=5)
    await until(70)
    _ = await trigger_directory.pause_trigger(s.access, T, trigger, "me", "a rest")
    await until(1_000)
    assert await s.seconds(trigger) == [60]
    _ = await trigger_directory.resume_trigger(s.access, T, trigger, "me")
    await until(1_070)
    assert await s.seconds(trigger) == [60, 1_060]
    await trigger_directory.delete_trigger(s.access, T, trigger)
    await until(2_000)
    assert await s.seconds(trigger) == [60, 1_060]
    assert await SCHEDULE_STATES.read(s.cluster.store, T, trigger) is None


@scheduled
async def test_short_outages_lose_no_tick_and_long_ones_all_but_the_last_that_are_caught_up(s: Schedules) -> None:
    engine = await s.engine()
    plain, caught = await s.create(every_s=60.0), await s.create(every_s=60.0, catch_up=2)
    await until(70)
    await engine.kill()
    await until(260)
    engine = await s.engine()
    await until(290)
    assert await s.seconds(plain) == [60, 120, 180, 240], "less than five minutes late is on time"
    await engine.kill()
    await until(1_210)
    await s.engine()
    await until(1_270)
    late = [960, 1_020, 1_080, 1_140, 1_200, 1_260]
    assert await s.seconds(plain) == [60, 120, 180, 240, *late]
    assert await s.seconds(caught) == [60, 120, 180, 240, 840, 900, *late]
    assert await s.incidents(plain) == [("missed", 300)] and await s.incidents(caught) == [("missed", 300)]
    assert "11 times were missed up to 2001-09-09T02:01:40Z" in (await s.state(plain)).incidents[0].why


@scheduled
async def test_overlap_skip_starts_nothing_while_one_is_in_progress(s: Schedules) -> None:
    await s.engine()
    trigger = await s.create("long", every_s=60.0, overlap="skip")
    await until(190)
    assert await s.seconds(trigger) == [60] and await s.incidents(trigger) == [("skipped", 120), ("skipped", 180)]
    await s.cluster.send(key_of("long", trigger, 60), "go", "on")
    await until(250)
    assert await s.seconds(trigger) == [60, 240]


@scheduled
async def test_overlap_queue_starts_one_after_the_other_and_keeps_a_bounded_number(s: Schedules) -> None:
    await s.engine()
    trigger = await s.create("long", every_s=60.0, overlap="queue", queued_max=2)
    await until(310)
    assert await s.seconds(trigger) == [60] and (await s.state(trigger)).waiting == (BEGIN_S + 120, BEGIN_S + 180)
    assert await s.incidents(trigger) == [("skipped", 240), ("skipped", 300)]
    for minute, others in ((1, [60, 120]), (2, [60, 120, 180])):
        await s.cluster.send(key_of("long", trigger, 60 * minute), "go", "on")
        await until(elapsed_s() + 20)
        assert await s.seconds(trigger) == others
    assert len(await s.seconds(trigger, ended=False)) == 1


@scheduled
async def test_overlap_cancel_ends_the_other_and_allow_does_not(s: Schedules) -> None:
    await s.engine()
    cancels, allows = await s.create("long", every_s=60.0, overlap="cancel"), await s.create("long", every_s=60.0)
    await until(200)
    assert await s.seconds(cancels, statuses=frozenset(("cancelled",))) == [60, 120]
    assert await s.seconds(cancels, ended=False) == [180]
    assert await s.seconds(allows, ended=False) == [60, 120, 180]


@scheduled
async def test_failures_in_a_row_pause_a_schedule_until_it_is_resumed(s: Schedules) -> None:
    await s.engine()
    trigger = await s.create("failing", every_s=60.0, break_after=2)
    await until(400)
    assert await s.seconds(trigger) == [60, 120]
    shown = await trigger_directory.read_trigger(s.access, T, trigger)
    assert shown.pause is not None and shown.pause.breaker and "its last 2 executions have failed" in shown.pause.reason
    _ = await trigger_directory.resume_trigger(s.access, T, trigger, "me")
    await until(800)
    assert await s.seconds(trigger) == [60, 120, 460, 520], "and it tries as often again"


@scheduled
async def test_what_goes_wrong_with_one_schedule_is_noted_and_stops_no_other(s: Schedules) -> None:
    await s.engine()
    good = await s.create(every_s=60.0)
    bad = await s.create(every_s=60.0, input={"day": "@trigger.about.nothing"})
    await until(130)
    assert await s.seconds(good) == [60, 120] and await s.seconds(bad) == []
    assert await s.incidents(bad) == [("failed", 60), ("failed", 120)]
    await until(1_300)
    assert len((await s.state(bad)).incidents) == 10, "the last are kept"


@pytest.mark.parametrize(("damaged", "said"), [(SCHEDULE_STATES, "has begun anew"), (TRIGGERS, "the schedule has stopped")])
def test_a_record_that_is_damaged_stops_no_other_schedule(damaged: RecordKind[Any], said: str) -> None:
    @scheduled
    async def test_one(s: Schedules) -> None:
        await s.engine()
        good, bad = await s.create(every_s=60.0), await s.create(every_s=60.0)
        await until(130)
        before = await s.cluster.store.record(damaged.key(T, bad))
        assert before is not None
        change = RecordChange(before.key, before.version, before.value[:-1] + b"\xc1", before.attributes)
        assert isinstance((await s.cluster.store.commit([Post(records=(change,))]))[0], Committed)
        await until(310)
        assert await s.seconds(good) == [60, 120, 180, 240, 300]
        assert await s.seconds(bad) == ([60, 120, 240, 300] if damaged is SCHEDULE_STATES else [60, 120])
        (incident,) = (await s.state(bad)).incidents
        assert incident.kind == "failed" and said in incident.why and "can't be read" in incident.why

    test_one()


@scheduled
async def test_a_zone_that_is_not_known_here_postpones_its_schedule_and_stops_no_other(s: Schedules) -> None:
    await s.engine()
    good, bad = await s.create(every_s=60.0), await s.create(cron="* * * * *", timezone="Europe/London")
    await until(70)
    known = await TRIGGERS.read(s.cluster.store, T, bad)
    assert known is not None and isinstance(known.value.config, ScheduleConfig)
    of_mars = msgspec.structs.replace(known.value, config=msgspec.structs.replace(known.value.config, timezone="Mars/Base"))
    await post_records(s.cluster.store, [trigger_change(T, known.version, of_mars)])
    await until(330)
    assert await s.seconds(good) == [60, 120, 180, 240, 300] and await s.seconds(bad) == [20]
    (incident,) = (await s.state(bad)).incidents
    assert "Mars/Base" in incident.why
    await post_records(s.cluster.store, [trigger_change(T, known.version + 1, known.value)])
    await until(550)
    assert set(await s.seconds(bad)) >= {20, 440, 500}, "it goes on once the zone is known"


@scheduled
async def test_a_clock_that_was_ended_is_followed_by_another_one(s: Schedules) -> None:
    await s.engine()
    first = await s.create(every_s=60.0)
    await until(70)
    await s.cluster.tell(Key(T, SCHEDULE_WORKFLOW, "clock"), TerminateMessage("by mistake"))
    await until(100)
    assert (await s.cluster.head(Key(T, SCHEDULE_WORKFLOW, "clock"))).status == "cancelled"
    second = await s.create(every_s=60.0)
    await until(170)
    assert await s.seconds(first) == [60, 120] and await s.seconds(second) == [160]
    assert (await s.cluster.head(Key(T, SCHEDULE_WORKFLOW, "clock-2"))).ended_at_s is None


@scheduled
async def test_an_edit_takes_effect_at_once_and_loses_no_tick_that_was_due(s: Schedules) -> None:
    engine = await s.engine()
    trigger = await s.create(every_s=60.0)
    await until(70)
    await engine.kill()
    await until(125)  # the tick of 120 is due, and nobody has started it
    await s.edit(trigger, every_s=100.0)
    await s.engine()
    await until(240)
    assert await s.seconds(trigger) == [60, 120, 225]


@scheduled
async def test_a_list_of_times_ends(s: Schedules) -> None:
    await s.engine()
    trigger = await s.create(once=(datetime.fromtimestamp(BEGIN_S + 100, UTC), datetime.fromtimestamp(BEGIN_S + 50, UTC)))
    await until(500)
    assert await s.seconds(trigger) == [50, 100] and (await s.state(trigger)).due_at_s is None


@scheduled
async def test_a_tick_hands_its_prompt_to_the_handler_of_the_application(s: Schedules) -> None:
    received: list[Prompt] = []

    async def answer(prompt: Prompt) -> None:
        received.append(prompt)

    asks: dict[str, Any] = {"target": "orchestrator", "prompt": "What is new?"}
    with pytest.raises(NoPromptHandler):
        await s.create("", every_s=60.0, **asks)
    await s.cluster.engine(CLOCK, prompt_workflow(answer))
    trigger = await s.create("", every_s=60.0, **asks)
    await until(130)
    assert await s.seconds(trigger, statuses=frozenset(("completed",))) == [60, 120]
    assert [(one.text, one.trigger, one.number) for one in received] == [("What is new?", trigger, 1), ("What is new?", trigger, 2)]


@scheduled
async def test_two_engines_and_many_schedules_start_each_tick_once(s: Schedules) -> None:
    await s.engine()
    await s.engine()
    triggers = [await s.create(every_s=60.0, jitter_s=5.0) for _ in range(50)]
    await until(190)
    for trigger in triggers:
        state = await s.state(trigger)
        assert state.number == len(await s.ids(trigger)) and state.number >= 2
