"""Claims about children: how they are called, what becomes of them when nobody waits, how deep they go, how they talk with who started them."""

import asyncio
from typing import Any, Literal

import pytest

from perdure import ChildFailed, Context, Err, ExecutionFailed, Ok, Retry, Rollback, TooDeep, step, workflow
from perdure.core import events as e
from perdure.core import limits, messages
from perdure.core.errors import BadValue
from perdure.core.messages import CancelMessage
from perdure.core.paths import Key
from tests.code.engines import settle, virtually, world
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import MemoryDisk

did: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    did.clear()


@step
async def do(name: str) -> str:
    did.append(name)
    return name


@do.undo
async def undo_do(result: str, name: str) -> None:
    did.append(f"-{name}")


@workflow
async def child(ctx: Context, what: str) -> str:
    await ctx.step(do, what)
    if what == "fails":
        raise ValueError(what)
    if what == "waits":
        await ctx.listen("go")
    return what


@virtually
async def test_a_child_that_fails_is_an_error_of_the_call_or_data_as_it_is_wanted() -> None:
    @workflow
    async def parent(ctx: Context) -> list[Any]:
        found: list[Any] = [(await ctx.attempt(child, "fine")), await ctx.attempt("second", child, "fails")]
        try:
            await ctx.call(child, "fails")
        except ChildFailed as failed:
            found.append((failed.name, failed.kind, failed.error.message))
        return [
            [one.value if isinstance(one, Ok) else (one.kind, one.attempts, one.error.type) if isinstance(one, Err) else one for one in found],
            ctx.execution.depth,
            ctx.execution.parent,
        ]

    async with world(parent, child) as w:
        assert await w.run(parent) == [["fine", ["failed", 1, "ValueError"], ["call:child#2", "failed", "fails"]], 0, None]
        assert await w.opened(w.key(parent)) == ["call:child", "second", "call:child#2"]


@virtually
async def test_a_child_that_fails_is_started_anew_as_another_execution_as_often_as_wanted() -> None:
    @workflow
    async def recovers(ctx: Context, id: str) -> str:
        did.append(f"begun as {ctx.execution.id}")
        if len([one for one in did if one.startswith("begun")]) % 3:
            raise ValueError("not yet")
        return id

    @workflow
    async def parent(ctx: Context) -> list[Any]:
        patient = recovers.with_(retry=Retry(max=3, wait="10s", jitter=0.0), id="r")
        found: list[Any] = [await ctx.call(patient, "x"), (ctx.now().timestamp())]
        outcome = await ctx.attempt(child.with_(retry=Retry(max=2)), "fails")
        return [*found, outcome.attempts if isinstance(outcome, Err) else outcome]

    async with world(parent, recovers, child) as w:
        began_s = asyncio.get_running_loop().time()
        value, then_s, attempts = await w.run(parent)
        assert (value, attempts) == ("x", 2) and then_s - began_s >= 30  # 10 s, then 20
        assert list(dict.fromkeys(did))[:3] == ["begun as r", "begun as r#2", "begun as r#3"]
        for id in ("r", "r#2", "r#3"):
            assert (await w.fold(w.key(recovers, id))).ended is not None


@pytest.mark.parametrize("on_cancel", ["cancel", "terminate", "detach"])
@pytest.mark.parametrize("end", ["cancelled", "lost"])
def test_what_becomes_of_a_child_that_nobody_waits_for_is_said_where_it_is_called(on_cancel: Literal["cancel", "terminate", "detach"], end: str) -> None:
    @workflow
    async def parent(ctx: Context) -> str:
        called = child.with_(on_cancel=on_cancel, id="c")
        if end == "lost":
            await ctx.race(child=lambda c: c.call(called, "waits"), late=lambda c: c.sleep(5))
            return "lost"
        return await ctx.call(called, "waits")

    @virtually
    async def test() -> None:
        async with world(parent, child) as w:
            key = await w.start(parent)
            await settle(2.0)
            if end == "cancelled":
                await w.tell(key, CancelMessage("enough"))
            await settle(10.0)
            one = await w.fold(w.key(child, "c"))
            if on_cancel == "detach":
                assert one.status == "waiting"
                await w.send(one.key, "go")
                assert await w.result(one.key) == "waits"
            else:
                assert one.status == "cancelled"
                assert ("-waits" in did) == (on_cancel == "cancel"), "what is terminated is not undone"
            did.clear()

    test()


@pytest.mark.slow
@virtually
async def test_a_recursion_ends_at_a_depth_and_says_so() -> None:
    @workflow
    async def deeper(ctx: Context, depth: int) -> int:
        assert ctx.execution.depth == depth
        return await ctx.call(deeper, depth + 1)

    @workflow
    async def nested(ctx: Context, levels: int) -> int:
        return 0 if levels == 0 else 1 + await ctx.call(nested.with_(id=f"level {levels}"), levels - 1)

    async with world(deeper, nested) as w:
        error = await w.failure(deeper, 0)
        assert error.type == "child_failed" and error.message.endswith(
            f"it would have more than {limits.DEPTH_MAX} ancestors. End the recursion, or use a loop"
        )
        assert await w.run(nested, 20, id="n") == 20
        assert max(len(head.key.id) for head in await w.store.heads()) <= 200


@pytest.mark.slow
@virtually
async def test_a_child_that_would_be_too_deep_is_not_started() -> None:
    @workflow
    async def recursive(ctx: Context) -> str:
        try:
            return await ctx.call(recursive)
        except TooDeep as deep:
            return f"{deep.depth_max} deep"

    async with world(recursive) as w:
        assert await w.run(recursive) == f"{limits.DEPTH_MAX} deep"


@virtually
async def test_parent_and_child_send_each_other_messages() -> None:
    @workflow
    async def asks(ctx: Context) -> str:
        boss = ctx.execution.parent
        assert boss is not None
        await ctx.send(boss, "question", "how much?")
        return f"got {await ctx.listen('answer')}"

    @workflow
    async def boss(ctx: Context) -> list[Any]:
        async def answers(c: Context) -> str:
            question = await c.listen("question")
            await c.send(asks.key("a"), "answer", 42)
            return str(question)

        found: list[Any] = list(await ctx.join(lambda c: c.call(asks.with_(id="a")), answers))
        detached = await ctx.start(asks.with_(id="b"))
        assert detached == asks.key("b")
        question = await ctx.listen("question")
        await ctx.send(detached, "answer", 43)
        return [*found, question, await ctx.call(asks.with_(id="b"))]

    async with world(boss, asks) as w:
        assert await w.run(boss) == ["got 42", "how much?", "how much?", "got 43"]
        told = [event for event in await w.events(w.key(boss)) if isinstance(event, e.SettledEvent)]
        assert len(told) == 2, "it is told of each child once"


@virtually
async def test_an_option_that_means_nothing_is_refused_where_it_is_written() -> None:
    with pytest.raises(BadValue, match="on_cancel: 'shoot' is not one of cancel, terminate, detach"):
        child.with_(on_cancel="shoot")  # type: ignore[arg-type]  # that is the claim
    with pytest.raises(BadValue):
        child.with_(retry=Retry(max=0))
    with pytest.raises(BadValue):
        child.with_(deadline="soon")


@virtually
async def test_a_child_of_two_parents_runs_once_and_tells_each_of_them_once() -> None:
    @workflow
    async def parent(ctx: Context, number: int) -> str:
        return f"{number}: {await ctx.call(child.with_(id='shared'), 'waits')}"

    async with world(parent, child) as w:
        did.clear()
        keys = [await w.start(parent, number, id=str(number)) for number in range(3)]
        await settle(1.0)
        await w.send(w.key(child, "shared"), "go")
        assert [await w.result(key) for key in keys] == ["0: waits", "1: waits", "2: waits"]
        assert did.count("waits") == 1


@workflow
async def briefly(ctx: Context, wait_s: float, on_cancel: Literal["cancel", "terminate", "detach"] = "cancel") -> str:
    """Waits for the shared child, and then no longer."""
    won = await ctx.race(child=lambda c: c.call(child.with_(id="shared", on_cancel=on_cancel), "waits"), late=lambda c: c.sleep(wait_s))
    return won.name


@virtually
async def test_a_child_that_another_parent_waits_for_goes_on_when_who_created_it_stops_waiting() -> None:
    async with world(briefly, child) as w:
        creator, other = await w.start(briefly, 5.0, id="creator"), await w.start(briefly, 100.0, id="other")
        assert await w.result(creator) == "late"
        await settle(5.0)
        assert (await w.fold(w.key(child, "shared"))).status == "waiting"
        await w.send(w.key(child, "shared"), "go")
        assert await w.result(other) == "child"


@pytest.mark.parametrize("first", ["a parent", "a person"])
def test_a_child_that_a_parent_merely_joined_goes_on_when_that_stops_waiting(first: str) -> None:
    @virtually
    async def claim() -> None:
        async with world(briefly, child) as w:
            creator = await w.start(briefly, 100.0, id="creator") if first == "a parent" else await w.start(child, "waits", id="shared")
            await settle(1.0)
            assert await w.result(await w.start(briefly, 5.0, id="joiner")) == "late"
            await settle(5.0)
            assert (await w.fold(w.key(child, "shared"))).status == "waiting"
            await w.send(w.key(child, "shared"), "go")
            assert await w.result(creator) == ("child" if first == "a parent" else "waits")

    claim()


@pytest.mark.parametrize("on_cancel", ["cancel", "terminate", "detach"])
def test_once_who_created_a_child_and_all_others_have_stopped_waiting_it_ends_as_its_creator_wants(on_cancel: str) -> None:
    @virtually
    async def claim() -> None:
        async with world(briefly, child) as w:
            did.clear()
            creator, other = await w.start(briefly, 5.0, on_cancel, id="creator"), await w.start(briefly, 10.0, id="other")
            assert (await w.result(creator), await w.result(other)) == ("late", "late")
            await settle(5.0)
            shared = await w.fold(w.key(child, "shared"))
            assert shared.status == ("waiting" if on_cancel == "detach" else "cancelled")
            assert ("-waits" in did) == (on_cancel == "cancel")

    claim()


@workflow
async def family(ctx: Context) -> list[Any]:
    """Children in a join, one that fails and is started anew, one that is undone, one that is detached."""
    again = child.with_(retry=Retry(max=2, wait=1.0, jitter=0.0), id="again")
    found: list[Any] = list(await ctx.join(lambda c: c.call(child, "a"), lambda c: c.attempt(again, "fails")))
    await ctx.start(child.with_(id="detached"), "d")
    await ctx.call(child.with_(undo=True, id="undone"), "u")
    raise Rollback(f"{len(found)} found")


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_any_write_a_parent_has_each_child_as_often_as_undisturbed(always_suspend: bool, budget: Budget) -> None:
    async def script(stage: ScriptStage) -> None:
        await stage.start(family)

    report = crash_at_every_write(Play([family, child], script, always_suspend=always_suspend), MemoryDisk, **budget)
    assert not report.problems, "\n".join(report.problems)
    assert report.repeated


@virtually
async def test_a_parent_that_is_retried_has_a_child_that_failed_go_on_from_what_failed() -> None:
    broken = True
    did.clear()

    @step(retry=Retry(max=1))
    async def fragile(name: str) -> str:
        did.append(f"fragile {name}")
        if broken:
            raise ValueError("broken")
        return name

    @step
    async def note(name: str) -> str:
        did.append(name)
        return name

    @workflow
    async def fine(ctx: Context) -> str:
        return await ctx.step(note, "fine")

    @workflow
    async def middle(ctx: Context) -> str:
        await ctx.step(note, "middle")
        return await ctx.step(fragile, "x")

    @workflow
    async def parent(ctx: Context) -> list[str]:
        await ctx.step(note, "parent")
        return await ctx.map(lambda c, n: c.call(middle) if n else c.call(fine), [0, 1, 2])

    async with world(parent, middle, fine) as w:
        key = await w.start(parent)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        broken = False
        await w.tell(key, messages.RetryMessage())
        await asyncio.sleep(60)
        assert await w.result(key) == ["fine", "x", "x"]
        assert sorted(did) == ["fine", "fragile x", "fragile x", "fragile x", "fragile x", "middle", "middle", "parent"]


@pytest.mark.slow
@virtually
async def test_a_child_that_was_undone_with_its_parent_is_done_again_when_that_is_retried() -> None:
    refuses = True
    did.clear()

    @workflow
    async def parent(ctx: Context) -> str:
        nonlocal refuses
        done = await ctx.call(child.with_(undo=True), "paid")
        if refuses:
            raise Rollback("not now")
        return done

    async with world(parent, child) as w:
        key = await w.start(parent)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        assert did == ["paid", "-paid"]
        await w.tell(key, messages.RetryMessage())
        await asyncio.sleep(60)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        assert did == ["paid", "-paid", "paid", "-paid"]
        refuses = False
        await w.tell(key, messages.RetryMessage())
        await asyncio.sleep(60)
        assert await w.result(key) == "paid"
        assert did == ["paid", "-paid", "paid", "-paid", "paid"]


@pytest.mark.slow
@virtually
async def test_a_child_that_was_cancelled_with_its_failed_parent_goes_on_when_that_is_retried() -> None:
    did.clear()

    @step
    async def note(name: str) -> str:
        did.append(name)
        return name

    @workflow
    async def slow(ctx: Context) -> str:
        await ctx.step(note, "begun")
        await ctx.sleep("1h")
        return await ctx.step(note, "slow")

    @workflow(deadline="10m")
    async def parent(ctx: Context) -> str:
        return await ctx.call(slow)

    async with world(parent, slow) as w:
        key = await w.start(parent)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        await asyncio.sleep(60)
        assert sorted([(await w.fold(head.key)).status for head in await w.store.heads()]) == ["cancelled", "failed"]
        await w.tell(key, messages.RetryMessage())
        await asyncio.sleep(60)
        assert await w.result(key) == "slow"
        assert did == ["begun", "slow"]


@pytest.mark.slow
@virtually
async def test_a_child_that_somebody_cancelled_stays_so_when_its_parent_is_retried() -> None:
    @workflow
    async def slow(ctx: Context) -> None:
        await ctx.sleep("1h")

    @workflow
    async def parent(ctx: Context) -> None:
        await ctx.call(slow.with_(id="slow"))

    async with world(parent, slow) as w:
        key = await w.start(parent)
        await asyncio.sleep(60)
        await w.tell(Key("default", "slow", "slow"), CancelMessage("no longer"))
        for _ in range(2):
            with pytest.raises(ExecutionFailed, match="no longer"):
                await w.result(key)
            await w.tell(key, messages.RetryMessage())
            await asyncio.sleep(60)


@pytest.mark.slow
@virtually
async def test_the_loser_of_a_race_stays_cancelled_when_its_parent_is_retried() -> None:
    broken = True
    did.clear()

    @step
    async def note(name: str) -> str:
        did.append(name)
        return name

    @step(retry=Retry(max=1))
    async def fragile() -> str:
        if broken:
            raise ValueError("broken")
        return "mended"

    @workflow
    async def racer(ctx: Context, hours: int) -> int:
        await ctx.step(note, f"begun {hours}")
        await ctx.sleep(hours * 3600.0)
        await ctx.step(note, f"done {hours}")
        return hours

    @workflow
    async def parent(ctx: Context) -> list[object]:
        won = await ctx.race(one=lambda c: c.call(racer, 1), two=lambda c: c.call(racer, 2))
        return [won.value, await ctx.step(fragile)]

    async with world(parent, racer) as w:
        key = await w.start(parent)
        with pytest.raises(ExecutionFailed):
            await w.result(key)
        broken = False
        await w.tell(key, messages.RetryMessage())
        await asyncio.sleep(60)
        assert await w.result(key) == [1, "mended"]
        await asyncio.sleep(3 * 3600)
        assert did == ["begun 1", "begun 2", "done 1"]


@virtually
async def test_a_second_parent_is_told_of_a_child_that_has_failed_and_does_not_have_it_go_on() -> None:
    did.clear()

    @step(retry=Retry(max=1))
    async def fragile() -> str:
        did.append("tried")
        raise ValueError("broken")

    @workflow
    async def only(ctx: Context) -> str:
        return await ctx.step(fragile)

    @workflow
    async def parent(ctx: Context) -> str:
        return await ctx.call(only.with_(id="only"))

    async with world(parent, only) as w:
        for id in ("first", "second"):
            with pytest.raises(ExecutionFailed):
                await w.result(await w.start(parent, id=id))
        assert did == ["tried"]
