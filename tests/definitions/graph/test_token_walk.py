"""The counter, the applied keys, what waits at joins and what came of the steps, at any event of a log."""

from typing import Any

from perdure import Definition, Vote
from perdure.core import log_format
from perdure.definitions.graph.execution_view import TokenCounts, view_at_event
from perdure.testing import World
from perdure.testing.replay_check import run_generator

FORK = """
perdure: 1
name: fork
order: ports
steps:
  - {id: A, tool: ECHO, next: [B, C]}
  - {id: B, tool: ECHO, next: D}
  - {id: C, tool: ECHO, next: D}
  - {id: D, tool: ECHO, with: {b: "@B"}}
"""


def history(world: World, run: Any) -> list[TokenCounts]:
    found = world.machine.read(run.key)
    assert found is not None
    events = log_format.decode_rows(found.payloads)
    views = [run_generator(view_at_event(run.key, events, number), world.machine.payload) for number in range(1, len(events) + 1)]
    return [one.tokens for one in views if one is not None]


def changes(values: list[Any]) -> list[Any]:
    return [value for number, value in enumerate(values) if number == 0 or value != values[number - 1]]


def test_the_counter_of_a_fork_and_join_reads_1_2_1_0(world: World) -> None:
    definition = Definition.of(FORK, tools={"ECHO": lambda **given: given})
    run = world.start(definition)
    assert run.result() == {"b": {}}
    past = history(world, run)
    assert changes([one.counter for one in past]) == [1, 2, 1, 0]
    assert {"D": ["B"]} in [one.joins for one in past]
    assert past[-1].applied == [
        "emit:A->B", "emit:A->C", "consume:A->B", "consume:A->C", "emit:B->D", "emit:C->D", "consume:B->D", "consume:C->D",
    ]  # fmt: skip
    assert past[-1].outputs["D"] == {"b": {}}


def test_an_approval_is_counted_apart(world: World) -> None:
    text = """
perdure: 1
name: ask
order: ports
steps:
  - {id: A, tool: ECHO, next: ok}
  - {id: ok, approve: {title: "Go on?"}, next: {approved: B}}
  - {id: B, tool: ECHO}
"""
    definition = Definition.of(text, tools={"ECHO": lambda **given: given})
    run = world.start(definition)
    (child,) = run.children()
    child.send("vote", Vote("ada", True))
    assert run.result() == {}
    assert changes([(one.counter, one.approvals) for one in history(world, run)]) == [(1, 0), (0, 1), (1, 0), (0, 0)]
