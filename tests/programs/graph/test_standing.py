"""How the steps stand and which edges were taken, at any event; steps by their verbs, with notes folded into them; what a definition needs and takes."""

from typing import Any

import pytest

from perdure import Definition, StepFailed, Vote
from perdure.core import log
from perdure.core.errors import ExecutionFailed
from perdure.core.folding import fold
from perdure.core.views import StepView
from perdure.programs.graph import inputs, seen, standing
from perdure.programs.graph.needs import Need
from perdure.testing import World
from perdure.testing.replays import driven

TEXT = """
perdure: 1
name: ways
order: ports
steps:
  - {id: a, tool: ECHO, with: {v: 1}, next: [{when: {ref: "@self.v", gt: 5}, to: far}, {to: near}]}
  - {id: far, tool: ECHO}
  - {id: near, tool: ECHO, when: {ref: "@a.v", gt: 5}, next: {skipped: ask}}
  - {id: ask, approve: {title: "Go on?"}, next: {approved: end, rejected: []}}
  - {id: end, return: "@a.v"}
"""


def echo(**given: Any) -> Any:
    return given


def stood(world: World, run: Any, number: int | None = None) -> standing.Standing:
    found = world.machine.read(run.key)
    assert found is not None
    events = log.decode_all(found.rows)
    there = driven(standing.at(definition(TEXT).graph, run.key, events, number or len(events)), world.machine.payload)
    assert there is not None
    return there


def seen_of(world: World, run: Any, text: str) -> list[StepView]:
    found = world.machine.read(run.key)
    assert found is not None
    return seen.steps(fold(run.key, log.decode_all(found.rows)), definition(text).ir)


def definition(text: str) -> Definition:
    return Definition.of(text, tools={"ECHO": echo})


def test_a_step_is_done_skipped_asking_untouched_or_not_taken(world: World) -> None:
    run = world.start(definition(TEXT))
    asking = stood(world, run)
    assert asking.states == {"a": "done", "far": "dead", "near": "skipped", "ask": "waiting_approval"}
    (child,) = run.children()
    child.send("vote", Vote("ada", True))
    assert run.result() == 1
    ended = stood(world, run)
    assert ended.states == {"a": "done", "far": "dead", "near": "skipped", "ask": "done", "end": "done"}
    ids = [node.id for node in ended.ir.nodes]
    taken = {(ids[edge.source], ids[edge.target]) for number, edge in enumerate(ended.ir.edges) if number in ended.taken}
    assert taken == {("a", "near"), ("near", "ask"), ("ask", "end")}
    assert stood(world, run, 2).states == {"a": "running"}


def test_what_failed_is_failed_and_what_would_have_followed_is_not_taken(world: World) -> None:
    text = "perdure: 1\nname: ways\nsteps:\n  - {id: a, tool: ECHO}\n  - {id: b, needs: [a], fail: 'no'}\n  - {id: c, needs: [b], tool: ECHO}\n"
    run = world.start(definition(text))
    with pytest.raises((ExecutionFailed, StepFailed)):
        run.result()
    assert stood(world, run).states == {"a": "done", "b": "failed", "c": "dead"}


def test_steps_are_seen_by_their_verbs_and_without_the_notes_of_the_walk(world: World) -> None:
    run = world.start(definition(TEXT))
    found = {step.path: (step.kind, step.target, step.state) for step in seen_of(world, run, TEXT)}
    assert found == {"a": ("tool", "ECHO", "completed"), "near": ("tool", "", "skipped"), "ask": ("approve", "", "waiting")}


def test_an_expression_that_fails_is_the_error_of_its_step(world: World) -> None:
    text = "perdure: 1\nname: ways\nsteps:\n  - {id: a, tool: ECHO, with: {v: 1}}\n  - {id: b, tool: ECHO, with: {x: '@a.none'}, on_error: go_on}\n"
    run = world.start(definition(text))
    run.result()
    done, failed = seen_of(world, run, text)
    assert (done.path, failed.path, failed.state) == ("a", "b", "failed")
    assert failed.error is not None and "none" in failed.error.message


def test_what_is_needed_and_not_given_is_listed_step_by_step() -> None:
    text = """
perdure: 1
name: needs
order: listed
on_failure: {call: tell}
steps:
  - {id: a, tool: OTHER, undo: {tool: BACK}}
  - {id: b, http: {url: "https://example.org"}}
  - {id: c, parallel: [{id: d, call: child@^2}, {id: e, tool: ECHO}, {id: f, call: needs}]}
"""
    assert definition(text).lacks() == [
        Need("tool", "OTHER", "a"), Need("tool", "BACK", "a"), Need("workflow", "child", "d"), Need("workflow", "tell", ""),
    ]  # fmt: skip


def test_of_a_kind_the_extra_is_needed_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.steps.registry.EXTRAS", {"http": ("no_such_module",)})
    found = definition('perdure: 1\nname: needs\nsteps:\n  - {id: b, http: {url: "https://example.org"}}\n').lacks()
    assert found == [Need("extra", "http", "b")]


def test_an_input_is_completed_by_defaults_and_held_against_its_schema() -> None:
    text = "perdure: 1\nname: takes\ninput: {n: {type: integer}, m: {type: string, default: x}}\nsteps:\n  - {id: a, tool: ECHO}\n"
    ir = definition(text).ir
    assert inputs.completed(ir, {"n": 1}) == {"n": 1, "m": "x"}
    assert list(inputs.wrong(ir, {"n": 1, "m": "x"})) == []
    assert list(inputs.wrong(ir, {"m": 2})) == ["the input lacks n; takes takes m, n", 'input m: at the top: 2 is not of type "string"']
