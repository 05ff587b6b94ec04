"""The counter, the applied keys, what waits at joins and what came of the steps can be read at any event of a log, and say what the design says."""

from typing import Any

import pytest

from perdure.core import events as e
from perdure.core.paths import UNDO
from perdure.definitions.graph.execution_view import TokenCounts, view_at_event
from perdure.testing import Run, World
from perdure.testing.replay_check import run_generator
from tests.definitions.graph.semantics import cycles, each, joins, parallel, races, repeat
from tests.definitions.graph.semantics.table import Row, Skip, Voted, events, play

FORK = Row(
    "A leads to B and C, which lead to D",
    """
    order: ports
    steps:
      - {id: A, tool: SAY, next: [B, C]}
      - {id: B, tool: SAY, with: {value: b}, next: D}
      - {id: C, tool: SAY, with: {value: c}, next: D}
      - {id: D, tool: SAY, with: {value: d}}
    """,
    takes={"B": "1s", "C": "2s"},
)
ASKS = Row(
    "A leads to an approval, and that to B",
    """
    order: ports
    steps:
      - {id: A, tool: SAY, next: ok}
      - {id: ok, approve: {title: "Go on?"}, next: {approved: B, rejected: []}}
      - {id: B, tool: SAY}
    """,
    script=(Skip("1h"), Voted("ok")),
)
ALIVE = [pytest.param(row, id=row.claim) for row in (*joins.ROWS, *cycles.ROWS[:6])]
ALL = [pytest.param(row, id=row.claim) for module in (cycles, each, parallel, races, repeat) for row in module.ROWS if not row.slow]


def past(world: World, run: Run[Any]) -> list[TokenCounts]:
    """How an execution stood after each of its events."""
    found = events(world, run)
    views = [run_generator(view_at_event(run.key, found, number), world.machine.payload) for number in range(1, len(found) + 1)]
    return [one.tokens for one in views if one is not None]


def ends(world: World, run: Run[Any], stood: list[TokenCounts]) -> list[TokenCounts]:
    """How it stood at its beginning, and after each of its steps."""
    return [one for one, event in zip(stood, events(world, run), strict=True) if isinstance(event, e.StartedEvent | e.SettledEvent)]


def test_the_counter_of_a_fork_and_its_join_reads_1_2_2_1_0(world: World) -> None:
    run = play(world, FORK)
    stood = ends(world, run, past(world, run))
    assert [one.counter for one in stood] == [1, 2, 2, 1, 0]
    assert [one.joins for one in stood] == [{}, {}, {"D": ["B"]}, {}, {}]
    assert [one.open for one in stood] == [["A"], ["B", "C"], ["C"], ["D"], []]


def test_the_counter_around_an_approval_reads_1_0_and_one_pending_1_0(world: World) -> None:
    run = play(world, ASKS)
    stood = past(world, run)
    read = [(one.counter, one.approvals) for one in stood]
    assert list(dict.fromkeys(read)) == [(1, 0), (0, 1), (0, 0)]
    assert [pair for pair, before in zip(read, [None, *read], strict=False) if pair != before] == [(1, 0), (0, 1), (1, 0), (0, 0)]


def test_each_token_is_applied_once_and_in_its_order(world: World) -> None:
    run = play(world, FORK)
    applied = [one.applied for one in ends(world, run, past(world, run))]
    assert applied[0] == []
    assert applied[1] == ["emit:A->B", "emit:A->C", "consume:A->B", "consume:A->C"]
    assert applied[2] == [*applied[1], "emit:B->D"]
    assert applied[3] == [*applied[2], "emit:C->D", "consume:B->D", "consume:C->D"]
    assert applied[4] == applied[3]


def test_results_are_there_from_the_event_on_by_which_a_step_has_settled(world: World) -> None:
    run = play(world, FORK)
    outputs = [one.outputs for one in ends(world, run, past(world, run))]
    assert outputs == [{}, {"A": None}, {"A": None, "B": "b"}, {"A": None, "B": "b", "C": "c"}, {"A": None, "B": "b", "C": "c", "D": "d"}]


def balanced(world: World, row: Row) -> None:
    """Hold a row to what is true of the tokens of every execution."""
    run = play(world, row)
    stood = past(world, run)
    over = run.status in ("completed", "failed", "cancelled")
    for before, one in zip([None, *stood], stood, strict=False):
        assert one.counter >= 0, one
        assert before is None or one.applied[: len(before.applied)] == before.applied, "what was applied stays applied"
        assert len(one.applied) == len(set(one.applied)), "no token twice"
        consumed = {key.removeprefix("consume:") for key in one.applied if key.startswith("consume:")}
        assert consumed <= {key.removeprefix("emit:") for key in one.applied if key.startswith("emit:")}, "only what was emitted"
        if one is not stood[-1] or not over:
            assert one.counter + one.approvals > 0 or ended_within(events(world, run)[one.number :]), f"nothing goes on after event {one.number}"
    if over:
        assert stood[-1].counter == 0
        assert stood[-1].approvals == 0


def ended_within(left: list[e.Event]) -> bool:
    """Whether nothing but its end comes any more, and what that takes: undoing, and who is told of a failure."""
    return any(isinstance(event, e.EndedEvent) for event in left) and not any(
        isinstance(event, e.SettledEvent | e.ReceivedEvent) and event.path[0] not in (UNDO, ("on_failure", 0)) for event in left
    )


@pytest.mark.parametrize("row", ALIVE)
def test_the_counter_is_zero_when_all_is_done_and_never_before(world: World, row: Row) -> None:
    balanced(world, row)


@pytest.mark.prove
@pytest.mark.parametrize("row", ALL)
def test_it_is_so_in_every_row_of_the_table(world: World, row: Row) -> None:
    balanced(world, row)


@pytest.mark.perdure(always_suspend=True)
def test_an_execution_that_leaves_memory_at_each_wait_stands_the_same(world: World) -> None:
    run = play(world, FORK)
    assert [one.counter for one in ends(world, run, past(world, run))] == [1, 2, 2, 1, 0]
