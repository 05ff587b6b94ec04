"""Claims about approvals: people decide, or time does; an approval holds up its own place and nothing else."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure import ChildFailed, Context, Timeout, step, workflow
from perdure.code.approval_requests import ApprovalState, Notice
from perdure.core import values
from perdure.core.errors import BadValue
from perdure.core.execution import Execution
from perdure.core.messages import CancelMessage
from perdure.core.operations import APPROVAL_WORKFLOW, SpawnOperation
from perdure.core.paths import Key
from tests.code.engines import MemoryEngine, settle, virtually, world
from tests.crash_budgets import Budget, crash_budgets
from tests.proof.crash_search import Play, ScriptStage, crash_at_every_write
from tests.proof.disks import MemoryDisk

told: list[tuple[str, tuple[str, ...]]] = []


@dataclass
class Ship:
    carrier: str
    cents: int = 0


@step
async def tell(notice: Notice) -> None:
    told.append((notice.kind, notice.to))


def open_approvals(execution: Execution) -> list[Key]:
    children = [pending.op for pending in execution.open.values() if isinstance(pending.op, SpawnOperation)]
    return [Key("default", APPROVAL_WORKFLOW, child.id) for child in children if child.workflow == APPROVAL_WORKFLOW]


async def the_one(w: MemoryEngine, key: Key) -> Key:
    await settle(1.0)
    (approval,) = open_approvals(await w.fold(key))
    return approval


async def shown(w: MemoryEngine, approval: Key) -> ApprovalState:
    found: ApprovalState = values.decode((await w.fold(approval)).state["approval"], ApprovalState, "shown")  # type: ignore[arg-type]  # it is small
    return found


async def vote(w: MemoryEngine, approval: Key, by: str, approve: bool = True, **more: Any) -> None:
    await w.send(approval, "vote", {"by": by, "approve": approve, **more})
    await settle(1.0)


@workflow
async def ships(ctx: Context) -> list[Any]:
    found = await ctx.approve("Ship it?", form=Ship, assignees=["ada", "group:ops"], details={"order": "o1"})
    return [bool(found), found.value, found.by, found.comment, found.expired, [one.by for one in found.votes]]


@virtually
async def test_a_person_approves_with_a_form_and_the_workflow_gets_its_type() -> None:
    async with world(ships) as w:
        key = await w.start(ships)
        approval = await the_one(w, key)
        assert (await w.fold(key)).status == "waiting_approval"
        look = await shown(w, approval)
        assert look.request.title == "Ship it?" and look.assignees == ("ada", "group:ops") and look.request.details == {"order": "o1"}
        assert look.request.form is not None and "carrier" in str(look.request.form)
        await vote(w, approval, "ada", value={"carrier": "dhl", "cents": 5}, comment="fine")
        assert await w.result(key) == [True, {"carrier": "dhl", "cents": 5}, "ada", "fine", False, ["ada"]]


@virtually
async def test_only_assignees_and_members_of_their_groups_decide_and_each_once() -> None:
    @workflow
    async def quorum(ctx: Context) -> list[str]:
        found = await ctx.approve("Pay?", assignees=["ada", "group:ops", "bob"], quorum=3)
        return [one.by for one in found.votes]

    async with world(quorum) as w:
        key = await w.start(quorum)
        approval = await the_one(w, key)
        for by, groups in (("eve", ()), ("eve", ("dev",)), ("ada", ()), ("ada", ()), ("", ("ops",)), ("carl", ("dev", "ops")), ("Eve", ())):
            await vote(w, approval, by, groups=groups)
        assert [one.by for one in (await shown(w, approval)).votes] == ["ada", "carl"]
        await vote(w, approval, "bob")
        assert await w.result(key) == ["ada", "carl", "bob"]


@virtually
async def test_one_against_it_denies_whatever_the_quorum() -> None:
    @workflow
    async def quorum(ctx: Context) -> list[Any]:
        found = await ctx.approve("Pay?", quorum=3)
        return [found.approved, found.by, found.comment]

    async with world(quorum) as w:
        key = await w.start(quorum)
        approval = await the_one(w, key)
        await vote(w, approval, "ada")
        await vote(w, approval, "bob", approve=False, comment="too dear")
        assert await w.result(key) == [False, "bob", "too dear"]
        assert (await w.fold(approval)).ended.outcome.port == "rejected"  # type: ignore[union-attr]  # it has ended well


@pytest.mark.parametrize("on_timeout", ["fail", "approve", "reject"])
def test_when_the_time_is_over_that_is_what_was_said_for_it(on_timeout: Any) -> None:
    @workflow
    async def waits(ctx: Context) -> list[Any]:
        began = ctx.now()
        try:
            found = await ctx.approve("Ship it?", form=Ship, timeout="1h", on_timeout=on_timeout)
        except Timeout as late:
            return [str(late), (ctx.now() - began).total_seconds() >= 3600]
        return [found.approved, found.expired, found.value]

    @virtually
    async def test() -> None:
        async with world(waits) as w:
            late: list[Any] = ["approve:Ship it?: timed out after 3600 s", True]
            assert await w.run(waits) == (late if on_timeout == "fail" else [on_timeout == "approve", True, None])

    test()


@pytest.mark.slow
@virtually
async def test_people_are_reminded_and_others_are_asked_after_a_while() -> None:
    @workflow
    async def asks(ctx: Context) -> list[Any]:
        found = await ctx.approve("Ship it?", assignees=["ada"], remind="1h", escalate="150m", escalate_to=["boss"], timeout="1d", notify=tell)
        return [found.by, found.approved]

    async with world(asks) as w:
        told.clear()
        key = await w.start(asks)
        approval = await the_one(w, key)
        await vote(w, approval, "boss")
        await settle(4.5 * 3600)
        await vote(w, approval, "boss")
        assert await w.result(key) == ["boss", True]
        ada, both = ("ada",), ("ada", "boss")
        assert told == [("asked", ada), ("reminder", ada), ("reminder", ada), ("escalated", both), ("reminder", both), ("reminder", both)]
        streamed = [event for event in await w.events(approval) if "stream" in str(event)]
        assert len(streamed) == 6


@virtually
async def test_what_does_not_fit_the_form_is_asked_for_again_with_the_reason() -> None:
    async with world(ships) as w:
        key = await w.start(ships)
        first = await the_one(w, key)
        await vote(w, first, "ada", value={"cents": "many"})
        second = await the_one(w, key)
        assert second != first and "Ship" not in (await shown(w, first)).request.refused
        assert "carrier" in (await shown(w, second)).request.refused or "cents" in (await shown(w, second)).request.refused
        await vote(w, second, "ada", value={"carrier": "ups"})
        assert (await w.result(key))[:2] == [True, {"carrier": "ups"}]


@virtually
async def test_an_approval_in_a_join_a_race_or_a_loop_holds_up_nothing_else() -> None:
    @workflow
    async def many(ctx: Context) -> list[Any]:
        async def quick(c: Context) -> str:
            await c.sleep(5)
            return "quick"

        joined = await ctx.join(lambda c: c.approve("Join?"), quick)
        won = await ctx.race(asked=lambda c: c.approve("Race?"), quick=quick)
        turns = 0
        async for turn in ctx.loop("turns", state=0):
            turns += bool(await turn.approve("Turn?"))
            if turn.number == 1:
                break
        return [bool(joined[0]), joined[1], won.name, turns]

    async with world(many) as w:
        key = await w.start(many)
        first = await the_one(w, key)
        await settle(10)
        await vote(w, first, "ada")
        second = await the_one(w, key)
        await settle(10)
        assert (await w.fold(second)).status == "cancelled", "the approval that lost the race is withdrawn"
        await vote(w, await the_one(w, key), "ada")
        await vote(w, await the_one(w, key), "ada", approve=False)
        assert await w.result(key) == [True, "quick", "quick", 1]


@virtually
async def test_an_approval_that_is_cancelled_is_a_child_that_failed() -> None:
    @workflow
    async def asks(ctx: Context) -> str:
        try:
            await ctx.approve("Ship it?")
        except ChildFailed as failed:
            return failed.kind
        return ""

    async with world(asks) as w:
        key = await w.start(asks)
        await w.tell(await the_one(w, key), CancelMessage("withdrawn"))
        assert await w.result(key) == "cancelled"


@virtually
async def test_an_option_that_means_nothing_is_an_error_of_the_code() -> None:
    wrong: list[dict[str, Any]] = [
        {"title": " "},
        {"on_timeout": "explode"},
        {"quorum": 0},
        {"quorum": 2, "assignees": ["ada"]},
        {"assignees": "ada"},
        {"assignees": [7]},
        {"timeout": "soon"},
        {"colour": "red"},
        {"form": asyncio.Future},
    ]

    @workflow
    async def asks(ctx: Context) -> int:
        refused = 0
        for options in wrong:
            try:
                await ctx.approve(**{"title": "Ship it?", **options})
            except BadValue:
                refused += 1
        return refused

    async with world(asks) as w:
        assert await w.run(asks) == len(wrong)


def timeless(result: Any) -> Any:
    """A result without the times of a decision and its votes, which a crash may shift."""
    return {**result, "at_s": 0, "votes": [{**one, "at_s": 0} for one in result["votes"]]} if isinstance(result, dict) else result


@workflow
async def asked_twice(ctx: Context) -> list[Any]:
    found = await ctx.approve("One?", form=Ship, notify=tell, remind="34s", timeout="100s", on_timeout="approve")  # late by 32 s, there are still two reminders
    second = await ctx.approve("Two?", assignees=["ada", "bob"], quorum=2)
    return [found.approved, found.expired, [one.by for one in second.votes]]


@pytest.mark.slow
@crash_budgets
@pytest.mark.parametrize("always_suspend", [False, True])
def test_killed_at_any_write_an_approval_is_decided_once(always_suspend: bool, budget: Budget) -> None:
    async def script(stage: ScriptStage) -> None:
        key = await stage.start(asked_twice)
        await asyncio.sleep(150.0)
        approval = Key(key.tenant, APPROVAL_WORKFLOW, f"{key}:approve:Two?")
        await stage.send(approval, "vote", {"by": "ada", "approve": True})
        await stage.send(approval, "vote", {"by": "ada", "approve": True})
        await stage.send(approval, "vote", {"by": "bob", "approve": True})

    from perdure.code.builtin_workflows import APPROVAL_CODE
    from perdure.workflow_function import Workflow

    builtin: Workflow[Any, Any] = Workflow(APPROVAL_CODE, lambda: ())
    report = crash_at_every_write(Play([asked_twice, builtin], script, always_suspend=always_suspend, shown=timeless), MemoryDisk, **budget)
    assert not report.problems, "\n".join(report.problems)
