"""Claims about what people have executions do: each message arrives once and whole, and what can't have an effect is refused."""

import asyncio
import re
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from perdure import (
    App,
    Context,
    DeadlineExceeded,
    ExecutionCancelled,
    ExecutionFailed,
    HasEnded,
    InputDiffers,
    NeedsAttention,
    NotFound,
    Retry,
    Signal,
    Timeout,
    step,
    workflow,
)
from perdure.async_client import client_on
from perdure.core import limits
from perdure.core.errors import BadName, BadValue, StoreUnavailable, TooLarge, Unencodable, WrongVerb
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.service import execution_operations
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.sync_client import AsyncClient
from perdure.testing.faults import NO_FAULTS, Faults, FaultyStore
from tests.runtime.cluster import Cluster, now_s, settle
from tests.service.cluster_client import virtually


@dataclass
class Order:
    id: str
    cents: int


@step
def hello(name: str) -> str:
    return f"Hello {name}"


@workflow
async def greet(ctx: Context, name: str, mark: str = "!") -> str:
    return await ctx.step(hello, name) + mark


@workflow(version=2, deadline="1h")
async def pay(ctx: Context, order: Order) -> int:
    return order.cents


@workflow
async def listener(ctx: Context, count: int = 1) -> list[Any]:
    return [await ctx.listen("go") for _ in range(count)]


@workflow
async def sleeper(ctx: Context, duration_s: float) -> str:
    await ctx.sleep(duration_s)
    return "awake"


@workflow
async def named_like_options(ctx: Context, id: str, delay: int) -> str:
    return f"{id} {delay}"


@workflow
async def size(ctx: Context, text: str) -> int:
    return len(text)


@workflow
async def undisturbed(ctx: Context) -> str:
    try:
        await ctx.sleep("1h")
    finally:
        await ctx.step(hello, "at the end")
    return "never"


approved = Signal("approved", Order)


# Starting.


@virtually
async def test_a_start_is_durable_before_any_engine_runs_and_ends_as_its_type_says(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(greet.with_(id="k"), "Ada", mark="?")
    assert (handle.key, handle.id, handle.created) == (greet.key("k"), "k", True)
    assert (await c.head(greet.key("k"))).program == "greet@1"
    await c.engine(greet)
    assert await handle.result() == "Hello Ada?"


@virtually
async def test_a_start_beside_an_engine_that_has_not_joined_goes_to_the_store(c: Cluster, client: AsyncClient) -> None:
    """Such an engine does not know the time of the store, nor its epoch: what it would commit could be lost."""
    engine = Engine(c.store, [greet.code])
    beside = client_on(StoreAccess(c.store, engine))
    with pytest.raises(StoreUnavailable, match="not joined"):
        await engine.start(greet.key("refused"), b"")
    handle = await beside.start(greet.with_(id="early"), "Ada")
    assert len(await c.store.messages(handle.key)) == 1
    running = asyncio.create_task(engine.run())
    assert await handle.result() == "Hello Ada!"
    engine.stop()
    await running


@virtually
async def test_an_id_is_made_up_where_none_is_given(c: Cluster, client: AsyncClient) -> None:
    handles = [await client.start(greet, "Ada") for _ in range(3)]
    assert len({handle.id for handle in handles}) == 3 and all(handle.created for handle in handles)


@virtually
async def test_a_start_of_an_id_that_exists_returns_it_and_sends_nothing(c: Cluster, client: AsyncClient) -> None:
    assert (await client.start(greet.with_(id="k"), "Ada")).created
    again = await client.start(greet.with_(id="k"), "Grace")
    assert not again.created and await c.messages(again.key) == 1
    await c.engine(greet)
    assert await again.result() == "Hello Ada!"
    assert not (await client.start(greet.with_(id="k"), "Grace")).created
    assert await c.messages(again.key) == 0
    assert await client.run(greet.with_(id="k"), "Grace") == "Hello Ada!"


@virtually
async def test_of_starts_of_one_id_at_the_same_moment_one_makes_it(c: Cluster, client: AsyncClient) -> None:
    await c.engine(greet)
    others = [AsyncClient(c.store) for _ in range(4)]
    handles = await asyncio.gather(*(other.start(greet.with_(id="k"), f"name {number}") for number, other in enumerate([*others, client] * 3)))
    assert sorted(handle.created for handle in handles) == [False] * 14 + [True]
    assert len({await handle.result() for handle in handles}) == 1
    assert len([event for event in await c.events(greet.key("k")) if type(event).__name__ == "StartedEvent"]) == 1


@pytest.mark.parametrize("moment", ["before an engine", "while it runs", "after its end"])
def test_a_strict_start_with_another_input_is_an_error_and_with_the_same_none(moment: str) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        if moment != "before an engine":
            await c.engine(listener)
        first = await client.start(listener.with_(id="k", strict=True), 1)
        await settle(1)
        if moment == "after its end":
            await first.send("go")
            await first.result()
        for _ in range(2):
            with pytest.raises(InputDiffers, match="the execution default/listener/k was started with another input"):
                await client.start(listener.with_(id="k", strict=True), 2)
            assert not (await client.start(listener.with_(id="k", strict=True), 1)).created
            assert not (await client.start(listener.with_(id="k"), 2)).created

    world()


@virtually
async def test_a_strict_start_compares_large_inputs_too(c: Cluster, client: AsyncClient) -> None:
    large = "x" * limits.BLOB_BYTES_MIN
    handle = await client.start(size.with_(id="k", strict=True), large)
    assert not (await client.start(size.with_(id="k", strict=True), large)).created
    with pytest.raises(InputDiffers):
        await client.start(size.with_(id="k", strict=True), large + "y")
    await c.engine(size)
    assert await handle.result() == len(large)
    with pytest.raises(InputDiffers):
        await client.start(size.with_(id="k", strict=True), "small")


@virtually
async def test_of_strict_starts_at_the_same_moment_those_with_another_input_fail(c: Cluster, client: AsyncClient) -> None:
    await c.engine(listener)
    answers = await asyncio.gather(*(client.start(listener.with_(id="k", strict=True), count % 2) for count in range(6)), return_exceptions=True)
    assert [isinstance(answer, InputDiffers) for answer in answers].count(True) == 3


@pytest.mark.slow
@virtually
async def test_a_delayed_start_begins_by_the_time_of_the_store(c: Cluster, client: AsyncClient) -> None:
    await c.engine(greet)
    began_s = now_s()
    handle = await client.start(greet.with_(id="k", delay="2h"), "Ada")
    await asyncio.sleep(7000)
    assert (await handle.status()).status == "pending"
    assert "it starts at 2001-09-09" in (await handle.status()).why
    assert await handle.result() == "Hello Ada!"
    assert 7200 <= now_s() - began_s < 7202


@virtually
async def test_a_delayed_start_can_be_cancelled_before_it_begins(c: Cluster, client: AsyncClient) -> None:
    await c.engine(greet)
    handle = await client.start(greet.with_(delay="2h"), "Ada")
    await handle.cancel("not needed", wait=True)
    with pytest.raises(ExecutionCancelled, match="not needed"):
        await handle.result()


@virtually
async def test_a_deadline_is_the_workflows_or_the_one_that_is_given(c: Cluster, client: AsyncClient) -> None:
    await c.engine(sleeper, pay)
    with pytest.raises(DeadlineExceeded):
        await client.run(sleeper.with_(deadline="10s"), 100.0)
    own = await client.start(pay, Order("o", 5))
    given = await client.start(pay.with_(deadline="2h"), Order("o", 5))
    await settle(1)
    deadlines = [(await c.fold(handle.key)).deadline_at_s for handle in (own, given)]
    assert deadlines[0] is not None and deadlines[1] is not None and round(deadlines[1] - deadlines[0]) == 3600


@virtually
async def test_a_workflow_is_pinned_to_its_version_and_a_name_to_none(c: Cluster, client: AsyncClient) -> None:
    pinned, loose = await client.start(pay, Order("o", 5)), await client.start("pay", Order("o", 7))
    assert [(await c.head(one.key)).program for one in (pinned, loose)] == ["pay@2", "pay@"]
    await c.engine(pay)
    assert await pinned.result() == 5 and await loose.result() == 7
    assert [(await one.status()).workflow_version for one in (pinned, loose)] == [2, 2]


@virtually
async def test_what_the_workflow_does_not_take_is_refused_and_nothing_started(c: Cluster, client: AsyncClient) -> None:
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        (("Ada", "!", "?"), {}),
        (("Ada",), {"nom": "Ada"}),
        ((5,), {}),
        (("Ada",), {"mark": None}),
    ]
    for args, kwargs in wrong:
        with pytest.raises(BadValue, match="the arguments of greet"):
            await client.start(greet.with_(id="k"), *args, **kwargs)
    with pytest.raises(Unencodable):
        await client.start(client.workflow("greet").with_(id="k"), object())
    with pytest.raises(TooLarge):
        await client.start(greet.with_(id="k"), "x" * (limits.VALUE_BYTES_MAX + 1))
    assert await client.list() == []


@virtually
async def test_options_that_mean_nothing_are_refused_and_nothing_started(c: Cluster, client: AsyncClient) -> None:
    bad_names: list[dict[str, Any]] = [{"id": ""}, {"id": 5}, {"id": "x" * 1025}, {"id": "\ud800"}, {"tenant": ""}]
    for options in bad_names:
        with pytest.raises(BadName):
            await client.start(greet.with_(**options), "Ada")
    bad_values: list[dict[str, Any]] = [{"delay": -1}, {"delay": "soon"}, {"deadline": float("inf")}, {"deadline": "x"}]
    for options in bad_values:
        with pytest.raises(BadValue):
            await client.start(greet.with_(**options), "Ada")
    with pytest.raises(BadName):
        await client.start("", "Ada")
    with pytest.raises(BadName):
        await client.start(5, "Ada")  # type: ignore[call-overload]  # it is wrong on purpose
    assert await client.list() == []


@virtually
async def test_arguments_may_be_named_like_options(c: Cluster, client: AsyncClient) -> None:
    await c.engine(named_like_options)
    handle = await client.start(named_like_options.with_(id="k"), id="mine", delay=5)
    assert handle.id == "k" and await handle.result() == "mine 5"
    by_name = await client.start(client.workflow("named_like_options").with_(id="l", deadline="1h"), id="mine", delay=6)
    assert by_name.id == "l" and await by_name.result() == "mine 6"
    with pytest.raises(BadValue, match="missing a required argument: 'id'"):
        await client.start(named_like_options.with_(id="k", delay=5))  # type: ignore[call-overload]  # that is the claim


@virtually
async def test_an_option_among_the_arguments_is_refused_with_the_call_that_is_meant(c: Cluster, client: AsyncClient) -> None:
    options: list[tuple[dict[str, Any], str]] = [
        ({"id": "k"}, "client.start(greet.with_(id='k'), 'Ada')"),
        ({"delay": "1h", "tenant": "acme"}, "client.start(greet.with_(delay='1h', tenant='acme'), 'Ada')"),
        ({"mark": "?", "connection": object()}, "client.start(greet.with_(connection=...), 'Ada', mark='?')"),
    ]
    for given, meant in options:
        with pytest.raises(WrongVerb, match=re.escape(f"Pass options by with_: {meant}")):
            await client.start(greet, "Ada", **given)
    with pytest.raises(WrongVerb, match=re.escape("client.run(greet.with_(id='k'), 'Ada')")):
        await client.run(greet, "Ada", id="k")  # type: ignore[call-arg]  # that is the claim
    assert await client.list() == []


@virtually
async def test_an_option_that_has_no_effect_on_a_start_is_refused(c: Cluster, client: AsyncClient) -> None:
    options: list[tuple[dict[str, Any], str]] = [
        ({"undo": True}, "undo= is for children: ctx.call(greet.with_(undo=...), ...)"),
        ({"name": "a", "id": "k"}, "name= is for children"),
        ({"db": "memory:"}, "db= is for greet.with_(db=...).run(...)"),
    ]
    for given, why in options:
        for one in (greet, client.workflow("greet")):
            with pytest.raises(WrongVerb, match=re.escape(why)):
                await client.start(one.with_(**given), "Ada")
    assert await client.list() == []


@pytest.mark.parametrize("id", ["a/b", "a b", "Ünïcödé-数据-🙂", "../..", "@latest", "%2F", "x" * 1024, "'; DROP TABLE heads; --", "\n"])
def test_an_id_may_be_any_text(id: str) -> None:
    @virtually
    async def world(c: Cluster, client: AsyncClient) -> None:
        await c.engine(greet)
        assert await client.run(greet.with_(id=id), "Ada") == "Hello Ada!"
        assert (await client.get(id)).key == (await client.get(id, greet)).key == Key("default", "greet", id)
        assert await client.find(str(greet.key(id))) == greet.key(id)

    world()


@virtually
async def test_one_id_in_two_tenants_is_two_executions(c: Cluster, client: AsyncClient) -> None:
    await c.engine(greet)
    assert await client.run(greet.with_(id="k"), "Ada") == "Hello Ada!"
    assert await client.run(greet.with_(id="k", tenant="other"), "Grace") == "Hello Grace!"
    assert [one.key.tenant for one in await client.list(tenant="other")] == ["other"]


# Sending.


@virtually
async def test_messages_arrive_in_order_with_their_bodies(c: Cluster, client: AsyncClient) -> None:
    await c.engine(listener)
    handle = await client.start(listener, 3)
    large = "x" * limits.BLOB_BYTES_MIN
    for body in (None, {"number": 2}, large):
        await handle.send("go", body)
    assert await handle.result() == [None, {"number": 2}, large]


@virtually
async def test_a_message_sent_twice_with_its_key_arrives_once_and_without_one_twice(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(listener, 3)
    for _ in range(2):
        await handle.send("go", "keyed", key="k")
    assert await c.messages(handle.key) == 2
    await c.engine(listener)
    await settle(1)
    await handle.send("go", "keyed again", key="k")
    for _ in range(2):
        await handle.send("go", "not keyed")
    assert await handle.result() == ["keyed", "not keyed", "not keyed"]


@virtually
async def test_a_message_to_what_does_not_exist_is_refused_unless_it_may_come(c: Cluster, client: AsyncClient) -> None:
    await client.start(listener.with_(id="k"), 1)
    handle = await client.get("k", listener)
    handle.key = listener.key("later")
    with pytest.raises(NotFound, match="there is no execution default/listener/later"):
        await handle.send("go", 1)
    await handle.send("go", 2, may_come=True)
    await c.engine(listener)
    assert await client.run(listener.with_(id="later"), 1) == [2]


@virtually
async def test_what_is_asked_of_an_execution_that_has_ended_is_refused(c: Cluster, client: AsyncClient) -> None:
    await c.engine(listener)
    handle = await client.start(listener.with_(id="k"), 1)
    await handle.send("go")
    await handle.result()
    version = (await handle.status()).version
    for asked in (handle.send("go"), handle.ask("go"), handle.cancel(), handle.terminate(), handle.pause(), handle.resume()):
        with pytest.raises(HasEnded, match=r"default/listener/k has ended \(completed\)"):
            await asked
    assert await c.messages(handle.key) == 0 and (await handle.status()).version == version


stock: list[str] = []


@step(retry=Retry(max=1))
async def take(what: str) -> str:
    stock.append(f"-{what}")
    return what


@take.undo
async def put_back(_: str, what: str) -> None:
    if what == "broken":
        raise OSError("it is broken")
    stock.append(f"+{what}")


@workflow
async def taking(ctx: Context, what: str) -> str:
    taken = await ctx.step(take, what)
    if what == "refused":
        raise ValueError("no")
    return taken


@virtually
async def test_what_has_completed_is_undone_once_and_keeps_its_result(c: Cluster, client: AsyncClient) -> None:
    stock.clear()
    engine = await c.engine(taking, listener)
    handle = await client.start(taking, "a")
    assert await handle.result() == "a"
    for _ in range(2):
        await handle.undo("wrong", wait=True)
        assert stock == ["-a", "+a"]
    assert await handle.result() == "a"
    assert [event.type async for event in handle.events() if "undo" in event.type] == ["execution.undoing", "step.undone"]
    refused = await client.start(taking, "refused")
    with pytest.raises(ExecutionFailed):
        await refused.result()
    with pytest.raises(HasEnded, match="undo would have no effect"):
        await refused.undo()
    with pytest.raises(BadValue, match="cancel one that has not ended"):
        await (await client.start(listener, 1)).undo()
    await engine.stop()


@virtually
async def test_whoever_waits_for_an_undoing_that_fails_is_told(c: Cluster, client: AsyncClient) -> None:
    await c.engine(taking)
    handle = await client.start(taking, "broken")
    assert await handle.result() == "broken"
    with pytest.raises(NeedsAttention, match="take could not be undone: OSError: it is broken"):
        await handle.undo(wait=True, timeout="60s")


@virtually
async def test_a_cancel_leaves_what_was_done_if_that_is_wanted(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def holding(ctx: Context) -> None:
        await ctx.step(take, "held")
        await ctx.listen("never")

    stock.clear()
    await c.engine(holding)
    for undo in (True, False):
        handle = await client.start(holding)
        await asyncio.sleep(5)
        await handle.cancel(undo=undo, wait=True)
    assert stock == ["-held", "+held", "-held"]


@virtually
async def test_a_message_that_can_not_be_kept_is_refused(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(listener, 1)
    with pytest.raises(Unencodable):
        await handle.send("go", object())
    for name in ("", "x" * 1025):
        with pytest.raises(BadName):
            await handle.send(name)
    with pytest.raises(BadName):
        await handle.send("go", key="")
    assert await c.messages(handle.key) == 1


@virtually
async def test_a_body_that_is_not_of_the_signals_type_is_refused(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(listener, 1)
    bodies: list[Any] = [None, 5, {"id": "o"}]
    for bad in bodies:
        with pytest.raises(BadValue, match=r"the body of approved: .* is not what the signal takes"):
            await handle.send(approved, bad)
    assert await c.messages(handle.key) == 1


@virtually
async def test_a_failed_execution_is_retried_from_what_failed(c: Cluster, client: AsyncClient) -> None:
    done: list[str] = []

    @step
    def once() -> None:
        done.append("once")

    @step(retry=Retry(max=1))
    def flaky() -> str:
        done.append("flaky")
        if len(done) < 4:
            raise LookupError("not yet")
        return "well"

    @workflow
    async def flaking(ctx: Context) -> str:
        await ctx.step(once)
        return await ctx.step(flaky)

    await c.engine(flaking)
    handle = await client.start(flaking)
    with pytest.raises(ExecutionFailed, match="not yet"):
        await handle.result()
    await handle.retry("again", wait=True)
    with pytest.raises(ExecutionFailed, match="not yet"):
        await handle.result()
    await handle.retry()
    assert await handle.result() == "well"
    assert done == ["once", "flaky", "flaky", "flaky"]
    with pytest.raises(HasEnded, match="retry would have no effect"):
        await handle.retry()


@virtually
async def test_a_signal_is_sent_by_its_name(c: Cluster, client: AsyncClient) -> None:
    @workflow
    async def approving(ctx: Context) -> int:
        return (await ctx.listen(approved)).cents

    await c.engine(approving)
    handle = await client.start(approving)
    await handle.send(approved, Order("o", 12))
    assert await handle.result() == 12


# Ending, pausing.


@virtually
async def test_a_cancel_lets_the_workflow_unwind_and_a_terminate_does_not(c: Cluster, client: AsyncClient) -> None:
    await c.engine(undisturbed)
    ends = await client.start(undisturbed.with_(id="cancelled")), await client.start(undisturbed.with_(id="terminated"))
    await settle(1)
    await ends[0].cancel("changed our mind", wait=True)
    await ends[1].terminate("now", wait=True)
    for handle, reason in zip(ends, ("changed our mind", "now"), strict=True):
        with pytest.raises(ExecutionCancelled, match=reason):
            await handle.result()
    assert [await c.settled(handle.key) for handle in ends] == [["hello"], []]
    for handle in ends:
        await handle.cancel()
        await handle.terminate()
        with pytest.raises(HasEnded):
            await handle.pause()


@virtually
async def test_a_cancel_is_durable_when_it_returns_and_waits_for_an_engine(c: Cluster, client: AsyncClient) -> None:
    process = await c.engine(sleeper)
    handle = await client.start(sleeper, 5.0)
    await settle(1)
    await process.stop()
    for _ in range(3):
        await handle.cancel("early")
    assert await c.messages(handle.key) == 1
    with pytest.raises(Timeout, match=r"the end of default/sleeper/.*: timed out after 3 s"):
        await handle.cancel(wait=True, timeout=3)
    await c.engine(sleeper)
    with pytest.raises(ExecutionCancelled, match="early"):
        await handle.result()


@virtually
async def test_a_paused_execution_does_nothing_until_it_is_resumed(c: Cluster, client: AsyncClient) -> None:
    await c.engine(sleeper)
    handle = await client.start(sleeper, 10.0)
    await settle(1)
    await handle.pause("wait a moment", wait=True)
    status = await handle.status()
    assert status.status == "paused" and "wait a moment" in status.why
    waiting = asyncio.create_task(handle.result())
    await asyncio.sleep(100)
    assert not waiting.done()
    await handle.resume(wait=True)
    assert await waiting == "awake"


@virtually
async def test_pauses_and_resumes_take_effect_in_their_order_also_without_an_engine(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(sleeper, 10.0)
    for asked in (handle.pause, handle.resume, handle.pause):
        await asked()
    await c.engine(sleeper)
    await asyncio.sleep(100)
    assert (await handle.status()).status == "paused"
    await handle.pause(wait=True)
    await handle.resume()
    await handle.resume(wait=True)
    assert await handle.result() == "awake"


@virtually
async def test_a_paused_execution_can_be_cancelled(c: Cluster, client: AsyncClient) -> None:
    await c.engine(sleeper)
    handle = await client.start(sleeper, 10.0)
    await handle.pause(wait=True)
    await handle.cancel("enough", wait=True)
    with pytest.raises(ExecutionCancelled, match="enough"):
        await handle.result()


@virtually
async def test_resuming_in_vain_says_why(c: Cluster, client: AsyncClient) -> None:
    @workflow(name="changing")
    async def before(ctx: Context) -> None:
        await ctx.listen("go")

    @workflow(name="changing")
    async def after(ctx: Context) -> None:
        await ctx.listen("come")

    first = await c.engine(before)
    handle = await client.start(before.with_(id="k"))
    await settle(1)
    await first.stop()
    await c.engine(after)
    await handle.send("come")
    with pytest.raises(NeedsAttention, match="diverged"):
        await handle.result()
    with pytest.raises(NeedsAttention, match="diverged"):
        await handle.resume(wait=True)
    await handle.resume()
    with pytest.raises(NeedsAttention, match="diverged"):
        await handle.result()


@virtually
async def test_what_does_not_exist_can_not_be_told_anything(c: Cluster, client: AsyncClient) -> None:
    handle = await client.start(sleeper, 1.0)
    handle.key = sleeper.key("nowhere")
    for asked in (handle.cancel(), handle.terminate(), handle.pause(), handle.resume(), handle.result(), handle.ask("go")):
        with pytest.raises(NotFound, match="default/sleeper/nowhere"):
            await asked


async def test_a_start_ends_in_time_while_the_database_takes_no_changes_and_is_found_by_its_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_operations, "BEGIN_S", 0.2)
    store = FaultyStore(MemoryStore(), Random(0), NO_FAULTS)
    async with App([greet], db=store) as app:
        store.faults = Faults(fail_before=1.0, failing=frozenset(("commit",)))
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"greet/g within 0\.2 s: the database takes no changes.*start it again with the same id"):
                await app.client.start(greet.with_(id="g"), "Ada")
        store.faults = NO_FAULTS
        monkeypatch.setattr(execution_operations, "BEGIN_S", 20.0)
        async with asyncio.timeout(30):
            handle = await app.client.start(greet.with_(id="g"), "Ada")
            assert await handle.result() == "Hello Ada!"
        assert [one.attempt for one in await handle.steps()] == [1]
