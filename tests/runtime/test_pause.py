"""Claims about pauses as engines see them: nothing begins, what is in flight ends and is remembered, time waits, and whoever waits for an end is told."""

import asyncio
from typing import Any

import pytest

from perdure import Context, Definition, ExecutionFailed, Retry, step, workflow
from perdure.core import events as e
from perdure.core import messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.messages import CancelMessage, ExecutionMessage, PauseMessage, ResumeMessage, SignalMessage
from perdure.core.messages import RetryMessage as Again
from perdure.core.operations import Success
from perdure.stores.protocol import Post
from tests.runtime.cluster import NEVER_S, Cluster, settle
from tests.runtime.test_engine import begun, do, done, key, listener, sleeper, three, virtually


@step(retry=Retry(max=3, wait=2.0, jitter=0.0))
async def fails_once(name: str) -> str:
    begun.append(name)
    if begun.count(name) == 1:
        raise ConnectionError("at first")
    return name


@workflow
async def retrying(ctx: Context) -> str:
    return await ctx.step(fails_once, "a")


@workflow
async def cleaning(ctx: Context) -> None:
    try:
        await ctx.sleep(1000)
    finally:
        await ctx.step(do, "clean")


@workflow
async def giving_up(ctx: Context) -> None:
    raise LookupError("no such order")


@workflow
async def hearing(ctx: Context) -> Any:
    return [await ctx.listen("a", timeout=10, default="late"), await ctx.listen("b", timeout=1000)]


@pytest.fixture(autouse=True)
def fresh() -> None:
    begun.clear()
    done.clear()


async def tell(c: Cluster, of: Any, *told: ExecutionMessage) -> None:
    """Send messages, and let everything happen that happens now."""
    for message in told:
        await c.tell(key(of), message)
    await settle()


@virtually
async def test_what_is_in_flight_ends_and_the_next_step_begins_when_it_is_resumed(c: Cluster) -> None:
    engine = await c.engine(three, poll_s=NEVER_S)
    assert await c.start(engine, three, 10.0)
    await asyncio.sleep(5)
    await tell(c, three, PauseMessage("lunch"))
    await asyncio.sleep(100)
    assert (begun, done) == (["a"], ["a"]) and (await c.head(key(three))).status == "paused"
    await tell(c, three, ResumeMessage())
    assert begun == ["a", "b"]
    assert await c.result(engine, three) == ["a", "b", "c"]


@virtually
async def test_an_engine_that_comes_during_a_pause_begins_nothing_and_loses_nothing(c: Cluster) -> None:
    first = await c.engine(three)
    assert await c.start(first, three, 10.0)
    await asyncio.sleep(5)
    await tell(c, three, PauseMessage())
    await first.kill()
    second = await c.engine(three)
    await asyncio.sleep(100)
    assert begun == ["a"] and (await c.head(key(three))).holder is None
    await tell(c, three, ResumeMessage())
    assert await c.result(second, three) == ["a", "b", "c"] and begun == ["a", "a", "b", "c"]


@virtually
async def test_what_was_remembered_during_a_pause_is_there_after_a_crash(c: Cluster) -> None:
    first = await c.engine(three)
    assert await c.start(first, three, 10.0)
    await asyncio.sleep(5)
    await tell(c, three, PauseMessage())
    await asyncio.sleep(10)
    await first.kill()
    second = await c.engine(three)
    await asyncio.sleep(20)
    await tell(c, three, ResumeMessage())
    assert await c.result(second, three) == ["a", "b", "c"] and begun == ["a", "b", "c"]


@virtually
async def test_timers_and_retries_wait_for_the_resume(c: Cluster) -> None:
    engine = await c.engine(sleeper, retrying, poll_s=NEVER_S)
    assert await c.start(engine, sleeper, 10.0) and await c.start(engine, retrying)
    await settle()
    for of in (sleeper, retrying):
        await tell(c, of, PauseMessage())
    await asyncio.sleep(60)
    known = [*await c.events(key(sleeper)), *await c.events(key(retrying))]
    assert begun == ["a"] and not any(isinstance(event, e.SettledEvent | e.AttemptStartedEvent) for event in known)
    for of in (sleeper, retrying):
        await tell(c, of, ResumeMessage())
    assert (await c.result(engine, sleeper), await c.result(engine, retrying)) == ("awake", "a") and begun == ["a", "a"]


@virtually
async def test_messages_wait_for_the_resume_and_win_over_what_timed_out_meanwhile(c: Cluster) -> None:
    engine = await c.engine(hearing, poll_s=NEVER_S)
    assert await c.start(engine, hearing)
    await settle()
    await tell(c, hearing, PauseMessage())
    await asyncio.sleep(5)
    await c.send(key(hearing), "a", "in time")
    await c.send(key(hearing), "b", "early")
    await asyncio.sleep(60)
    await tell(c, hearing, ResumeMessage())
    assert await c.result(engine, hearing) == ["in time", "early"]


@virtually
async def test_a_message_that_comes_with_the_resume_wins_over_what_timed_out_meanwhile(c: Cluster) -> None:
    engine = await c.engine(hearing, poll_s=NEVER_S)
    assert await c.start(engine, hearing)
    await settle()
    await tell(c, hearing, PauseMessage())
    await asyncio.sleep(60)
    told: dict[str, ExecutionMessage] = {
        "resume": ResumeMessage(),
        "a": SignalMessage("a", values.encode("with the resume", "a body")),
        "b": SignalMessage("b", values.encode("behind it", "a body")),
    }
    await c.store.commit([Post(messages=tuple(OutgoingMessage(key(hearing), name, messages.encode_message(message)) for name, message in told.items()))])
    await settle()
    assert await c.result(engine, hearing) == ["with the resume", "behind it"]


@virtually
async def test_what_is_paused_before_it_begins_begins_when_it_is_resumed(c: Cluster) -> None:
    await tell(c, three, PauseMessage())
    await c.post(three, 1.0)
    engine = await c.engine(three, poll_s=NEVER_S)
    await asyncio.sleep(10)
    assert begun == []
    await tell(c, three, ResumeMessage())
    assert await c.result(engine, three) == ["a", "b", "c"]


@virtually
async def test_what_is_paused_unwinds_when_it_is_cancelled(c: Cluster) -> None:
    engine = await c.engine(cleaning, poll_s=NEVER_S)
    assert await c.start(engine, cleaning)
    await settle()
    await tell(c, cleaning, PauseMessage(), CancelMessage("enough"))
    assert done == ["clean"] and (await c.head(key(cleaning))).status == "cancelled"


@virtually
async def test_a_waiting_client_is_notified_of_an_end_a_pause_a_resume_and_a_retry(c: Cluster) -> None:
    engine = await c.engine(giving_up, listener, poll_s=NEVER_S)
    notified: list[str] = []
    silence = c.store.on_change(lambda: notified.append("news"))
    assert await c.start(engine, listener)
    await settle()
    assert notified == []
    for told in (PauseMessage(), ResumeMessage(), PauseMessage(), ResumeMessage()):
        await tell(c, listener, told)
        assert notified.pop() and not notified, told
    await c.send(key(listener), "go")
    await settle()
    assert notified.pop() and not notified
    assert await c.start(engine, giving_up)
    await settle()
    assert notified.pop() and not notified
    await tell(c, giving_up, Again())
    assert notified.pop() and not notified
    silence()


@step
async def charge(name: str, takes_s: float) -> str:
    begun.append(name)
    await asyncio.sleep(takes_s)
    return name


@step
async def refund(name: str) -> None:
    begun.append(f"refund {name}")


@charge.undo
async def refund_charge(name: str, *_: object) -> None:
    await refund.fn(name)


@step(retry=Retry(max=1))
async def checked(fails: bool) -> None:
    begun.append("checked")
    if fails:
        raise LookupError("no such order")


@workflow
async def racing(ctx: Context, fails: bool) -> str:
    async def fast(branch: Context) -> str:
        return await branch.step(charge, "fast", 10.0)

    async def slow(branch: Context) -> str:
        return await branch.step(charge, "slow", 20.0)

    won = await ctx.race(fast=fast, slow=slow)
    await ctx.step(checked, fails)
    return won.value


RACING = Definition.of(
    """
perdure: 1
name: racing
order: listed
input: {fails: {type: boolean}}
steps:
  - id: first
    race:
      - {id: fast, tool: charge, with: {name: fast, takes_s: 10}, undo: {tool: refund, with: {name: fast}}}
      - {id: slow, tool: charge, with: {name: slow, takes_s: 20}, undo: {tool: refund, with: {name: slow}}}
  - {id: check, tool: checked, with: {fails: "@input.fails"}}
output: "@first.value"
""",
    tools=[charge, refund, checked],
)


@pytest.mark.parametrize("idle_s", [0.0, 1e9], ids=["evicted", "warm"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("race", [racing, RACING], ids=["code", "definition"])
def test_of_branches_that_have_all_ended_during_a_pause_the_first_wins_and_the_others_are_remembered(race: Any, fails: bool, idle_s: float) -> None:
    """When it is resumed, the first outcome ends the race before the program is told the second, which has settled as well and may have to be undone."""

    @virtually
    async def world(c: Cluster) -> None:
        engine = await c.engine(race, idle_s=idle_s)
        assert await engine.engine.start(key(racing), race.code.codec.encode_args((), {"fails": fails}, "input"))
        await asyncio.sleep(5)
        await tell(c, racing, PauseMessage())
        await asyncio.sleep(100)
        await tell(c, racing, ResumeMessage())
        if fails:
            with pytest.raises(ExecutionFailed, match="no such order"):
                await c.result(engine, race)
        else:
            assert await c.result(engine, race) == "fast"
        ended = [event for event in await c.events(key(racing)) if isinstance(event, e.SettledEvent) and isinstance(event.outcome, Success)]
        assert len(ended) >= 2 and begun[:3] == ["fast", "slow", "checked"]
        assert sorted(begun[3:]) == (["refund fast", "refund slow"] if fails else [])
        assert [event.reason for event in await c.events(key(racing)) if isinstance(event, e.ParkedEvent)] == ["paused"]

    world()
