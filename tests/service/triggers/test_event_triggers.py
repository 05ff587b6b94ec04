"""Claims about event triggers: what an event starts, once, whatever dies meanwhile; what it does not start; and chains that would not end."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perdure import Context, ExecutionFailed, Retry, Workflow, step, workflow
from perdure.core.errors import BadValue
from perdure.core.operations import EVENTS_WORKFLOW
from perdure.runtime.engine import Engine
from perdure.service.store_access import StoreAccess
from perdure.service.triggers.event_dispatch import CHAIN_MAX, EVENTS_CODE
from perdure.service.triggers.event_listeners import AnnouncedEvent, ListenerAnnouncer, event_message
from perdure.service.triggers.trigger_directory import TriggerDetails
from perdure.service.triggers.trigger_records import TRIGGERS, EventConfig
from perdure.stores.protocol import Post
from perdure.stores.records import RecordChange
from perdure.sync_client import AsyncClient
from perdure.testing.crash_points import CrashPoint, around_writes
from perdure.testing.virtual_time import kill
from tests.runtime.cluster import Cluster, ClusterProcess
from tests.service.cluster_client import virtually
from tests.service.killed_stores import KilledAtWrite

EVENTS = cast("Workflow[..., Any]", SimpleNamespace(code=EVENTS_CODE))


@step(retry=Retry(max=1))
def fails() -> None:
    raise ValueError("broken")


@workflow
async def order(ctx: Context, cents: int = 0, breaks: bool = False) -> dict[str, int]:
    """Emits what it does, and ends well or not."""
    ctx.emit({"cents": cents}, event="order.paid")
    ctx.emit("only for its stream")
    if breaks:
        await ctx.step(fails)
    return {"cents": cents}


@workflow
async def bill(ctx: Context, payload: Any = None, cents: int = 0) -> Any:
    """Returns what it was given."""
    return payload if payload is not None else cents


async def engine(c: Cluster) -> ClusterProcess:
    return await c.engine(order, bill, EVENTS, announcer=ListenerAnnouncer(c.store))


async def listening(client: AsyncClient, *on: str, name: str = "t", workflow: str = "bill", **config: Any) -> TriggerDetails:
    mapping = config.pop("mapping", None)
    made = await client.triggers.create(name, EventConfig(on=on, **config), workflow, mapping=mapping)
    await asyncio.sleep(1.5)
    return made


async def bills(client: AsyncClient) -> list[Any]:
    """The results of what was started, oldest first."""
    await asyncio.sleep(2)
    return [await (await client.get(one.key)).result() for one in reversed(await client.list(workflow="bill"))]


@virtually
async def test_an_execution_that_completes_starts_another_one(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    made = await listening(client, "completed", of="order")
    await c.post(order, 5)
    (found,) = await bills(client)
    assert found == {"type": "completed", "workflow": "order", "id": "e", "number": found["number"], "at_s": found["at_s"], "value": {"cents": 5}}
    (started,) = await client.list(workflow="bill")
    assert (started.attributes["trigger"], started.attributes["trigger_kind"]) == (made.id, "event")
    record = await (await client.get(started.key)).record()
    assert (record.trigger_id, record.trigger_name, record.trigger_type, record.initiator_type) == (made.id, "t", "event", "event")
    assert record.trigger_metadata == {"key": started.key.id, "at_s": found["at_s"], "event": "completed", "workflow": "order", "execution": "e"}
    shown = await client.triggers.get(made.id)
    assert (shown.last_execution_id, shown.last_run_at_s) == (started.key.id, started.created_at_s)


@virtually
async def test_failures_and_what_code_emits_under_a_name_are_events_too(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    await listening(client, "failed", "order.paid", of="order")
    await c.post(order, 5, True)
    emitted, failed = sorted(await bills(client), key=lambda one: one["number"])
    assert (emitted["type"], emitted["value"]) == ("order.paid", {"cents": 5})
    assert (failed["type"], failed["error"]) == ("failed", {"type": "ValueError", "message": "broken"})


@virtually
async def test_nothing_is_emitted_as_if_an_execution_had_ended(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def pretends(ctx: Context) -> None:
        ctx.emit("a lie", event="completed")

    await c.engine(pretends, bill, EVENTS, announcer=ListenerAnnouncer(c.store))
    await listening(client, "completed", of="pretends")
    with pytest.raises(ExecutionFailed, match="completed, failed, cancelled, needs_attention tell how an execution has ended"):
        await (await client.get(await c.post(pretends))).result()
    assert await bills(client) == []


@virtually
async def test_conditions_and_a_mapping_decide_on_the_event(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    await listening(
        client, "completed", where=({"ref": "@self.value.cents", "gt": 10}, {"ref": "@self.workflow", "eq": "order"}), mapping={"cents": "$.value.cents"}
    )
    await c.post_all(order, [(f"o{cents}", (cents,)) for cents in (5, 10, 15, 20)])
    assert sorted(await bills(client)) == [15, 20]


@virtually
async def test_nothing_is_started_by_a_trigger_that_is_paused_or_disabled_or_gone(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    paused, disabled, gone = [await listening(client, "completed", of="order", name=name) for name in ("p", "d", "g")]
    await client.triggers.pause(paused.id, "a fair")
    await client.triggers.disable(disabled.id)
    await client.triggers.delete(gone.id)
    await asyncio.sleep(1.5)
    await c.post(order, 5)
    assert await bills(client) == []
    assert await client.list(workflow=EVENTS_WORKFLOW) == [], "an event to which nobody listens starts nothing at all"
    await client.triggers.resume(paused.id)
    await asyncio.sleep(1.5)
    await c.post(order, 6, id="f")
    assert [one["id"] for one in await bills(client)] == ["f"], "what happened meanwhile is not made up for"


@virtually
async def test_an_engine_that_is_killed_at_any_time_starts_it_once(c: Cluster, client: AsyncClient) -> None:
    first = await engine(c)
    await listening(client, "completed", of="order")
    await c.post_all(order, [(f"o{number}", (number,)) for number in range(30)])
    for wait_s in (0.0, 0.001, 0.01, 0.1):
        await asyncio.sleep(wait_s)
        await first.kill()
        first = await engine(c)
    await asyncio.sleep(60)
    assert sorted(one["value"]["cents"] for one in await bills(client)) == list(range(30))


@virtually
async def test_a_chain_that_would_run_for_ever_is_stopped_and_named(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    made = await listening(client, "completed", of="bill")
    await listening(client, "completed", of="order", name="first")
    await c.post(order, 5)
    await asyncio.sleep(60)
    assert len(await client.list(workflow="bill")) == CHAIN_MAX
    stopped = await client.triggers.get(made.id)
    assert stopped.pause is not None and stopped.pause.breaker
    assert f"{made.id} → {made.id}" in stopped.pause.reason


@virtually
async def test_a_chain_that_a_condition_ends_is_not_stopped(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    made = await listening(client, "shop.closed", where=({"ref": "@self.cents", "gt": 10},))
    event = AnnouncedEvent("shop.closed", 1_800_000_000.0, data={"cents": 5}, chain=(made.id,) * CHAIN_MAX)
    await c.store.commit([Post(messages=(event_message("default", "e", event),))])
    assert await bills(client) == []
    (dispatch,) = await client.list(workflow=EVENTS_WORKFLOW)
    assert (await (await client.get(dispatch.key)).result())["passed"] == [made.id]
    assert (await client.triggers.get(made.id)).pause is None


@virtually
async def test_a_trigger_that_cannot_start_its_workflow_holds_up_no_other(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    await listening(client, "completed", of="order", name="broken", mapping={"cents": "$.value.cents", "unknown": "$.type"})
    await listening(client, "completed", of="order", name="sound", mapping={"cents": "$.value.cents"})
    await client.catalog.create(b"perdure: 1\nname: picky\ninput: {n: {type: integer}}\nsteps: [{id: a, set: {x: 1}}]\nvars: {x: 0}\n")
    await listening(client, "completed", of="order", name="picky", workflow="picky", mapping={"n": "$.type"})
    await c.post(order, 7)
    await asyncio.sleep(5)
    (dispatched,) = await client.list(workflow=EVENTS_WORKFLOW)
    result = await (await client.get(dispatched.key)).result()
    assert [one["code"] for one in result["failed"]] == ["bad_value"], "the definition does not take text for a number"
    assert [one.key.workflow for one in await client.list()].count("bill") == 2


# Events that are posted


CLOUD = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "shop.closed", "data": {"cents": 3}}


@virtually
async def test_a_trigger_whose_record_is_damaged_holds_up_no_other(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    made = sorted([(await listening(client, "completed", of="order", name=name)).id for name in ("one", "two")])
    kept = await c.store.record(TRIGGERS.key("default", made[0]))
    assert kept is not None
    await c.store.commit([Post(records=(RecordChange(kept.key, kept.version, kept.value[:-1] + b"\xc1", kept.attributes),))])
    await c.post(order, 5)
    assert len(await bills(client)) == 1
    (dispatch,) = await client.list(workflow=EVENTS_WORKFLOW)
    result = await (await client.get(dispatch.key)).result()
    assert [(one["trigger"], one["code"]) for one in result["failed"]] == [(made[0], "log_damaged")]


@virtually
async def test_an_event_that_is_posted_twice_starts_one_execution(c: Cluster, client: AsyncClient) -> None:
    await engine(c)
    await listening(client, "shop.closed", mapping={"cents": "$.data.cents"})
    assert [(await client.triggers.post_event(CLOUD)).created for _ in range(2)] == [True, False]
    assert (await client.triggers.post_event({**CLOUD, "id": "8"})).created
    assert await bills(client) == [3, 3]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"specversion": "0.3"}, "/specversion"),
        ({"id": ""}, "/id"),
        ({"source": None}, "/source"),
        ({"type": "x" * 2_000}, "/type"),
        ({"type": "failed"}, "/type"),
        ({"time": "yesterday"}, "/time"),
        ({"time": "2026-11-28T07:00:00"}, "/time"),
        ({"data_base64": "AA=="}, "/data_base64"),
        ({"data": "x" * 300_000}, "/data"),
    ],
)
async def test_an_event_that_is_none_is_refused(access: StoreAccess, change: dict[str, Any], where: str) -> None:
    async with AsyncClient(access.store) as client:
        with pytest.raises(BadValue) as refused:
            await client.triggers.post_event(CLOUD | change)
    assert refused.value.what == where


# Crashes


CRASHES = around_writes(range(1, 16))


@pytest.mark.parametrize("crash", [pytest.param(one, marks=[] if one.write in (2, 4) else pytest.mark.prove, id=one.spec) for one in CRASHES])
def test_a_kill_around_any_write_neither_loses_nor_doubles_what_an_event_starts(crash: CrashPoint) -> None:
    @virtually
    async def inside(c: Cluster, client: AsyncClient) -> None:
        setup = await engine(c)
        await listening(client, "completed", of="order")
        await listening(client, "order.paid", name="paid")
        await setup.stop()
        died = asyncio.Event()
        store = KilledAtWrite(c.store, crash, died)
        dying = Engine(store, [order.code, bill.code], built_in=(EVENTS_CODE,), announcer=ListenerAnnouncer(store))
        running = asyncio.create_task(dying.run())
        await c.post_all(order, [(f"o{number}", (number,)) for number in range(3)])
        await asyncio.sleep(20)
        assert died.is_set() or store.writes < crash.write, "the writes of three events and what they start"
        await kill([running, *dying._tasks])
        _ = running.cancelled() or running.exception()  # it has died of the fault that killed it
        await engine(c)
        await asyncio.sleep(60)
        found = [(one["type"], one["id"]) for one in await bills(client)]
        assert sorted(found) == [(type, f"o{number}") for type in ("completed", "order.paid") for number in range(3)]

    inside()
