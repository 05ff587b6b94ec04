"""Claims about what a test can do as people can: decide on approvals, and fork, rerun or preset an execution."""

import itertools
from dataclasses import dataclass

import pytest

from perdure import AlreadyDecided, AlreadyExists, Ambiguous, Context, DecisionRefused, Definition, ExecutionFailed, NotFound, Retry, step, workflow
from perdure.core.errors import BadValue
from perdure.testing import Stuck
from perdure.testing.world import World


@dataclass(frozen=True)
class Limit:
    cents: int


@step
def load(name: str) -> str:
    return f"{name} of the step"


@workflow
async def raising(ctx: Context, name: str = "a") -> str:
    who = await ctx.step(load, name)
    said = await ctx.approve("Raise it?", form=Limit, assignees=["ada", "group:risk"], timeout="2d", on_timeout="reject")
    return f"{who}: {said.value.cents} by {said.by}" if said.approved else f"{who}: no, says {said.by or 'time'} ({said.comment})"


@workflow
async def two(ctx: Context) -> list[bool]:
    both = await ctx.join(first=lambda c: c.approve("First?"), second=lambda c: c.approve("Second?"))
    return [both["first"].approved, both["second"].approved]


def test_a_test_decides_for_an_approval_with_its_form(world: World) -> None:
    run = world.start(raising)
    assert run.status == "waiting_approval"
    run.approve(by="bob", groups=["risk"], value=Limit(5))
    assert run.result() == "a of the step: 5 by bob"


def test_a_test_decides_against_an_approval(world: World) -> None:
    run = world.start(raising)
    run.reject(by="ada", comment="too early")
    assert run.result() == "a of the step: no, says ada (too early)"


def test_a_decision_is_checked_as_that_of_a_person_is(world: World) -> None:
    run = world.start(raising)
    with pytest.raises(DecisionRefused):
        run.approve(by="eve", value=Limit(5))
    with pytest.raises(BadValue, match="what was filled in"):
        run.approve(by="ada", value={"cents": "many"})
    world.skip("2d")
    assert run.result().endswith("no, says time ()")


def test_a_second_decision_says_who_decided_before_and_when(world: World) -> None:
    run = world.start(raising)
    world.skip("1h")
    run.approve(by="ada", value=Limit(5))
    said = rf"the approval 'Raise it\?' was decided already: approved by ada at {world.now:%Y-%m-%d %H:%M:%S}"
    with pytest.raises(AlreadyDecided, match=said) as refused:
        run.reject(by="bob", groups=["risk"])
    assert (refused.value.by, refused.value.approved, refused.value.at_s) == ("ada", True, world.now.timestamp())


def test_one_of_several_approvals_is_meant_by_its_place(world: World) -> None:
    run = world.start(two)
    with pytest.raises(Ambiguous):
        run.approve(by="ada")
    run.approve(by="ada", path="first/approve:First?")
    run.reject(by="ada", path="second/approve:Second?")
    assert run.result() == [True, False]


def test_a_decision_without_an_approval_is_refused_with_what_is_waited_for(world: World) -> None:
    @workflow
    async def listening(ctx: Context) -> None:
        await ctx.listen("go")

    run = world.start(listening)
    with pytest.raises(NotFound, match="waits for listen:go"):
        run.approve(by="ada")
    run.send("go")


def test_what_waits_for_a_decision_that_only_the_test_can_give_says_how(world: World) -> None:
    @workflow
    async def asking(ctx: Context) -> bool:
        return (await ctx.approve("Ship it?")).approved

    run = world.start(asking)
    with pytest.raises(Stuck, match=r"decide: run\.approve\(by=...\) or run\.reject\(by=...\)"):
        run.result()


def test_an_approval_of_a_definition_is_decided_alike(world: World) -> None:
    document = {"perdure": 1, "name": "ask", "steps": [{"id": "a", "approve": {"title": "Ship it?"}}], "output": "@a.approved"}
    run = world.start(Definition.of(document))
    run.approve(by="ada")
    assert run.result() is True


@pytest.mark.slow
def test_a_fork_takes_over_what_was_done_and_a_rerun_does_it_anew(world: World) -> None:
    numbers = itertools.count(1)
    mock = world.mock(load, calls=lambda name: f"{name} {next(numbers)}")
    run = world.start(raising, "b")
    before = run.steps()[0].result
    fork, again, other = run.fork(), run.rerun(id="again"), run.fork(from_step="load", input=["c"], id="other")
    assert [fork.id, again.id, other.id] == ["2", "again", "other"]
    for one in (run, fork, again, other):
        one.approve(by="ada", value=Limit(1))
    assert fork.result() == run.result() == f"{before}: 1 by ada" and len(mock.calls) == 3
    assert again.result().startswith("b") and other.result().startswith("c")
    with pytest.raises(AlreadyExists):
        run.rerun(id="again")
    with pytest.raises(BadValue, match="the arguments of raising"):
        run.fork(input=[1, 2, 3])


@pytest.mark.slow
def test_a_result_is_given_by_hand_in_place_of_a_step(world: World) -> None:
    world.mock(load, raises=OSError("down"))
    run = world.start(raising)
    with pytest.raises(ExecutionFailed):
        run.result()
    run.preset("load", "by hand")
    run.retry()
    run.reject(by="ada")
    assert run.result().startswith("by hand: no")


@pytest.mark.slow
def test_the_same_test_gives_the_same_seeds_to_what_is_repeated() -> None:
    @workflow
    async def drawing(ctx: Context) -> float:
        return ctx.random.random()

    def drawn() -> tuple[float, float]:
        with World(seed=7) as world:
            run = world.start(drawing)
            return run.rerun().result(), run.fork().result()

    assert drawn() == drawn()


@step(retry=Retry(max=1))
def ship(name: str) -> str:
    return f"{name} is shipped"


@workflow
async def shipping(ctx: Context, name: str) -> str:
    return await ctx.step(ship, name)


@pytest.mark.perdure(crash_at="every")
def test_a_retry_gets_the_next_answer_of_a_mock_wherever_the_process_is_killed(world: World) -> None:
    world.mock(ship, answers=[ValueError("no"), "shipped"])
    run = world.start(shipping, "a")
    assert run.status == "failed"
    run.retry()
    assert run.result() == "shipped"


@step(retry=Retry(max=2, wait="1m"))
def order(token: str, name: str) -> None:
    assert token and name


@workflow
async def ordering(ctx: Context) -> int:
    limit = await ctx.external(Limit, order, "car")
    return limit.cents


@workflow
async def ordering_two(ctx: Context) -> list[int]:
    return await ctx.map(lambda c, name: c.external(int, order.with_(name=name), name), ["a", "b"])


def test_a_test_completes_a_step_as_whoever_has_the_token_does(world: World) -> None:
    run = world.start(ordering)
    with pytest.raises(Stuck, match=r"complete the step: run.complete\(result\) or run.fail\(error\)"):
        run.result()
    run.fail("no car")
    with pytest.raises(NotFound, match=r"no step of default/ordering/.* waits for its completion"):
        run.complete(Limit(1))
    world.skip("1m")
    run.complete(Limit(2))
    assert run.result() == 2
    both = world.start(ordering_two)
    with pytest.raises(Ambiguous, match=r"a step of .* that waits for its completion"):
        both.complete(1)
    both.complete(2, path="map:item/item#2")
    both.complete(1)
    assert both.result() == [1, 2]


@pytest.mark.perdure(crash_at="every")
def test_a_step_that_is_completed_from_outside_survives_every_crash(world: World) -> None:
    run = world.start(ordering)
    run.fail("no car")
    world.skip("1m")
    run.complete(Limit(3))
    assert run.result() == 3
