"""Claims about the log by pages: in both directions all events once, each under the number that `at` takes, with its cause, what it touched, and no values."""

from typing import Any

import pytest

from perdure import Context, step, workflow
from perdure.core.errors import BadValue, NotFound
from perdure.core.paths import Key
from perdure.operations import on_executions
from perdure.service.log_pages import LoggedEvent, LogPage
from perdure.testing import Run, World


@step
async def work(name: str) -> str:
    return f"secret of {name}"


@workflow
async def works(ctx: Context, secret: str) -> str:
    await ctx.step("first", work, secret)
    ctx.set("seen", secret)
    message: str = await ctx.listen("go")
    return message


@workflow
async def turns(ctx: Context) -> None:
    """Forgets what is complete."""
    async for turn in ctx.loop("laps", state=0, keep=2):
        turn.state += 1
        await turn.step("a", work, "a")
        if turn.state == 40:
            break
    await ctx.sleep("1h")


def page(world: World, run: Run[Any], **options: Any) -> LogPage:
    return world.call(on_executions.log(world.access, run.key, **options))


def ended(world: World) -> Run[str]:
    run = world.start(works, "hush")
    run.send("go", "hush too")
    run.result()
    return run


def test_pages_forward_and_backward_have_every_event_once(world: World) -> None:
    run = ended(world)
    whole = page(world, run, after=0, limit=1000).items
    assert [one.number for one in whole] == list(range(1, len(whole) + 1)) and len(whole) == len(run._log())
    forward, after = list[LoggedEvent](), 0
    while True:
        found = page(world, run, after=after, limit=2)
        forward += found.items
        if found.next is None:
            break
        after = found.next
    backward, before = list[LoggedEvent](), None
    while True:
        found = page(world, run, before=before, limit=2)
        backward = [*found.items, *backward]
        if found.previous is None:
            break
        before = found.previous
    assert forward == backward == whole
    assert (found.first, found.last) == (1, len(whole))


def test_an_event_says_what_happened_because_of_what_and_what_it_touched(world: World) -> None:
    items = page(world, ended(world), after=0).items
    assert (items[0].type, items[0].text, items[0].cause, items[0].touched) == ("started", "started", 1, ["first"])
    opened = items[1]
    assert (opened.type, opened.path, opened.text, opened.cause, opened.touched) == ("opened", "first", "attempt 1 begins: work(…)", 1, [])
    settled = next(one for one in items if one.type == "settled")
    assert (settled.text, settled.cause) == ("returned", settled.number) and settled.touched[0] == "first" and "listen:go" in settled.touched
    assert items[-1].type == "ended" and items[-1].text == "completed"


def test_values_are_there_on_request_alone(world: World) -> None:
    run = ended(world)
    assert b"hush" not in repr(page(world, run, after=0)).encode()
    with_values = page(world, run, after=0, payloads=True).items
    assert [one.type for one in with_values if one.payload is not None and b"hush" in repr(one.payload).encode()] >= ["started", "opened", "settled"]


def test_of_a_compacted_log_the_first_number_that_is_kept_is_told(world: World) -> None:
    run = world.start(turns)
    found = page(world, run, after=0, limit=1000)
    head = world.machine.heads()[0]
    assert found.last == head.version == found.items[-1].number and found.items[0].number == found.first
    if found.first > 1:
        assert found.items[0].type == "snapshot"
        with pytest.raises(BadValue, match=f"{found.first} to {found.last}"):
            world.call(on_executions.traces(world.access, run.key, found.first - 1))
    world.call(on_executions.traces(world.access, run.key, found.first))


def test_what_is_wrong_is_refused(world: World) -> None:
    run = ended(world)
    for wrong in ({"after": -1}, {"before": 0}, {"limit": 0}, {"after": 1, "before": 3}):
        with pytest.raises(BadValue):
            page(world, run, **wrong)
    with pytest.raises(NotFound):
        world.call(on_executions.log(world.access, Key("default", "works", "none")))
    assert page(world, run, after=10_000).items == [] and page(world, run, before=1).items == []
