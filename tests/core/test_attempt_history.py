"""Each try of a call that ever began is listed from the log, with how it ended; what hides one from people is found."""

from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Context, Fatal, Retry, step, workflow
from perdure.core import events as e
from perdure.core import log_format, views
from perdure.core.attempt_history import attempts_of_log
from perdure.core.errors import ErrorInfo
from perdure.core.operations import CallOperation, Failure
from perdure.core.paths import path_text
from perdure.core.replay import fold_events
from perdure.testing import World
from tests.core.scripted_execution import KEY
from tests.proof.attempt_checks import problems

tries: list[str] = []


@step(retry=Retry(max=3, wait="1s", jitter=0))
def shaky(fails: int) -> str:
    tries.append("shaky")
    if len(tries) <= fails:
        raise ValueError("not yet")
    return "done"


@step
async def long() -> None:
    """A step that a race gives up."""


@step
def reserve() -> str:
    return "reserved"


@reserve.undo
def release(reserved: str) -> None:
    """Take it back."""


@workflow
async def several(ctx: Context, fails: int) -> None:
    """A step that is undone, one that is tried again, one that loses a race, and a failure."""
    await ctx.step(reserve)

    async def slow(c: Context) -> None:
        await c.step(long)

    async def quick(c: Context) -> None:
        await c.sleep(1)

    await ctx.race(slow=slow, quick=quick)
    await ctx.step(shaky, fails)
    raise Fatal("it ends badly")


def ran(world: World, fails: int) -> tuple[Any, list[list[e.Event]]]:
    tries.clear()
    world.mock(long, takes="1h")
    run = world.start(several, fails)
    world.skip("1h")
    found = world.machine.read(run.key)
    assert found is not None
    return run, [list(log_format.decode_row(row)) for row in found.payloads]


def listed(run: Any, rows: Sequence[Sequence[e.Event]]) -> list[tuple[str, int, int, str]]:
    return [(path_text(one.path), one.reopened, one.number, one.ending) for one in attempts_of_log(run.key, [event for row in rows for event in row])]


def test_each_try_is_listed_with_how_it_ended(world: World) -> None:
    run, rows = ran(world, 1)
    assert listed(run, rows) == [
        ("reserve", 0, 1, "completed"),
        ("race/slow/long", 0, 1, "abandoned"),
        ("shaky", 0, 1, "failed"),
        ("shaky", 0, 2, "completed"),
        ("~undo/reserve", 0, 1, "completed"),
    ]
    assert problems(run.key, rows, world.machine.payload) == []


def test_what_is_taken_over_from_an_earlier_life_is_no_attempt_of_the_next(world: World) -> None:
    run, _ = ran(world, 9)
    tries[:] = ["", "", "", "", "", "", "", "", ""]
    run.retry()
    world.skip("1h")
    found = world.machine.read(run.key)
    assert found is not None
    rows = [list(log_format.decode_row(row)) for row in found.payloads]
    of_shaky = [one[1:] for one in listed(run, rows) if one[0] == "shaky"]
    assert of_shaky == [(0, 1, "failed"), (0, 2, "failed"), (0, 3, "failed"), (1, 1, "completed")]
    assert problems(run.key, rows, world.machine.payload) == []
    recalled = [event.subject for event in run.events() if event.type == "step.recalled"]
    started = [event.subject for event in run.events() if event.type == "step.started"]
    assert set(recalled).isdisjoint(started[-2:])


def test_a_try_that_was_taken_back_before_it_began_is_counted_nowhere() -> None:
    started, at = e.StartedEvent(1, 1.0, b"\x92\x90\x80", 0), (("reserve", 1),)
    again: list[e.Event] = [e.InterruptedEvent(at, 1, 2.0, 2.0), e.AttemptStartedEvent(at, 2, 2.0, "engine")]
    for before, tries_begun in (([], 0), (again, 1)):
        dropped: list[e.Event] = [
            e.DroppedEvent(at, 30.0),
            e.SettledEvent(at, Failure("cancelled", tries_begun, ErrorInfo("cancelled", "it was not begun")), 3.0),
        ]
        events: list[e.Event] = [started, e.OpenedEvent(at, CallOperation("reserve"), "engine"), *before, *dropped]
        (shown,) = views.step_views(fold_events(KEY, events))
        assert shown.attempt == len(attempts_of_log(KEY, events)) == tries_begun


@pytest.mark.parametrize("hidden", ["step.started", "step.retrying", "step.abandoned", "step.undone"])
def test_an_event_that_is_missing_is_found(world: World, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    run, rows = ran(world, 1)
    monkeypatch.setattr("tests.proof.attempt_checks.public_history", lambda *given: [event for event in views.public_history(*given) if event.type != hidden])
    assert problems(run.key, rows, world.machine.payload)


def test_a_step_that_is_missing_and_a_run_that_is_not_in_the_log_are_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run, rows = ran(world, 1)
    (found,) = problems(run.key, rows, world.machine.payload, {((("other", 1),), 1)})
    assert "ran, and is no attempt of the log" in found
    before = views.step_views
    monkeypatch.setattr(views, "step_views", lambda execution: before(execution)[1:])
    assert "attempt 1 of reserve is not among the steps" in problems(run.key, rows, world.machine.payload)[0]
