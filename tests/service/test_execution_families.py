"""Claims about the family of an execution: now and at any event it says who has started it, and what it had started by then, each as it was at that time."""

from typing import Any

import pytest

from perdure import Context, step, workflow
from perdure.core import events as e
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.service import execution_families
from perdure.service.execution_families import ExecutionFamily, read_family
from perdure.testing import Run, World


@step
async def weigh(item: str) -> int:
    return len(item)


@workflow
async def parcel(ctx: Context, item: str) -> int:
    await ctx.sleep("1h")
    weight = await ctx.step(weigh, item)
    await ctx.sleep("1h")
    return weight


@workflow
async def order(ctx: Context) -> int:
    first = await ctx.call(parcel.with_(id="tea"), "tea")
    await ctx.sleep("1h")
    return first + await ctx.call(parcel.with_(id="cups"), "cups")


@workflow
async def day(ctx: Context) -> None:
    await ctx.call(order.with_(id="o"))


@workflow
async def rounds(ctx: Context) -> None:
    async for turn in ctx.loop("round", state=0, keep=2):
        turn.state += 1
        await turn.sleep("1m")
        if turn.state == 60:
            break


@workflow
async def keeper(ctx: Context) -> None:
    await ctx.call(rounds.with_(id="r"))


@workflow
async def many(ctx: Context) -> None:
    for number in range(4):
        await ctx.start(parcel.with_(id=f"p{number}"), "tea")


def family(world: World, run: Run[Any], at: int | None = None) -> ExecutionFamily:
    return world.call(read_family(world.access, run.key, at))


def shown(found: ExecutionFamily) -> list[tuple[str, str, int]]:
    return [(one.key.id, one.status, one.version) for one in found.children]


def numbers(run: Run[Any], kind: type[e.Event]) -> list[int]:
    return [number for number, event in enumerate(run._log(), 1) if isinstance(event, kind)]


def test_a_child_is_there_from_the_event_that_has_started_it_and_is_as_it_was_then(world: World) -> None:
    run = world.start(order)
    run.result()
    first, *_, last = numbers(run, e.OpenedEvent)
    begun = shown(family(world, run, first))
    assert [(id, status) for id, status, _ in begun] in ([("tea", "pending")], [("tea", "waiting")]), "it has begun at the same moment"
    tea_ended = numbers(run, e.SettledEvent)[0]
    (tea,) = family(world, run, tea_ended).children
    assert (tea.key.id, tea.status, tea.path) == ("tea", "completed", "call:parcel"), "the second one was not started yet"
    assert [one.key.id for one in family(world, run, last).children] == ["cups", "tea"]
    assert [one.status for one in family(world, run, last).children][1:] == ["completed"]
    assert {one.status for one in family(world, run).children} == {"completed"}


def test_the_version_of_a_member_leads_to_the_same_time(world: World) -> None:
    run = world.start(day)
    run.result()
    parent = world.run_of(order.key("o"))
    slept = numbers(parent, e.SettledEvent)[1]
    seen = family(world, parent, slept)
    assert seen.parent is not None and (seen.parent.key, seen.parent.status) == (run.key, "waiting")
    (there,) = family(world, run, seen.parent.version).children
    assert there.status == "waiting" and there.version <= slept and there.why.startswith("waits for its child parcel/tea")
    assert [one.status for one in there.children] == ["waiting"]


def test_what_a_compaction_has_removed_is_not_known(world: World) -> None:
    run = world.start(keeper)
    run.result()
    child = world.run_of(rounds.key("r"))
    assert any(isinstance(event, e.SnapshotEvent) for event in child._log()), "its log was compacted"
    (one,) = family(world, run, 2).children
    assert (one.key, one.status, one.version, one.children) == (child.key, "", 0, []) and "compacted" in one.unknown
    assert [(one.status, one.unknown) for one in family(world, run).children] == [("completed", "")]


def test_many_children_are_counted_and_not_all_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_families, "MEMBERS_MAX", 3)
    run = world.start(many)
    run.result()
    found = family(world, run)
    assert (len(found.children), found.omitted) == (3, 1)


def test_an_execution_that_nothing_has_started_has_no_parent(world: World) -> None:
    run = world.start(parcel, "tea")
    assert family(world, run) == ExecutionFamily(parent=None, children=[], omitted=0)
    with pytest.raises(BadValue, match="of its log"):
        family(world, run, 99)
    assert run.key == Key("default", "parcel", run.key.id)
