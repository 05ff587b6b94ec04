"""The view of an execution at any event: states of nodes, edges that were taken, steps by their verbs, tokens. What a definition needs and takes."""

from typing import Any

import pytest

from perdure import Definition, StepFailed, Vote
from perdure.core import log_format
from perdure.core.errors import ExecutionFailed
from perdure.definitions.graph import definition_input, execution_view
from perdure.definitions.graph.execution_view import ExecutionView
from perdure.definitions.graph.requirements import Requirement
from perdure.testing import World
from perdure.testing.replay_check import run_generator

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


def view_of(world: World, run: Any, number: int | None = None) -> ExecutionView:
    found = world.machine.read(run.key)
    assert found is not None
    events = log_format.decode_rows(found.payloads)
    there = run_generator(execution_view.view_at_event(run.key, events, number or len(events)), world.machine.payload)
    assert there is not None
    return there


def definition(text: str) -> Definition:
    return Definition.of(text, tools={"ECHO": echo})


def test_a_step_is_done_skipped_asking_untouched_or_not_taken(world: World) -> None:
    run = world.start(definition(TEXT))
    asking = view_of(world, run)
    assert asking.states == {"a": "completed", "far": "not_taken", "near": "skipped", "ask": "waiting_approval"}
    (child,) = run.children()
    child.send("vote", Vote("ada", True))
    assert run.result() == 1
    ended = view_of(world, run)
    assert ended.states == {"a": "completed", "far": "not_taken", "near": "skipped", "ask": "completed", "end": "completed"}
    ids = [node.id for node in ended.ir.nodes]
    taken = {(ids[edge.source], ids[edge.target]) for number, edge in enumerate(ended.ir.edges) if number in ended.taken}
    assert taken == {("a", "near"), ("near", "ask"), ("ask", "end")}
    assert view_of(world, run, 2).states == {"a": "performing"}


def test_what_failed_is_failed_and_what_would_have_followed_is_not_taken(world: World) -> None:
    text = "perdure: 1\nname: ways\nsteps:\n  - {id: a, tool: ECHO}\n  - {id: b, needs: [a], fail: 'no'}\n  - {id: c, needs: [b], tool: ECHO}\n"
    run = world.start(definition(text))
    with pytest.raises((ExecutionFailed, StepFailed)):
        run.result()
    assert view_of(world, run).states == {"a": "completed", "b": "failed", "c": "not_taken"}


def test_steps_are_seen_by_their_verbs_and_without_the_notes_of_the_walk(world: World) -> None:
    run = world.start(definition(TEXT))
    found = {step.path: (step.kind, step.target, step.state) for step in view_of(world, run).steps}
    assert found == {"a": ("tool", "ECHO", "completed"), "near": ("tool", "", "skipped"), "ask": ("approve", "", "waiting_approval")}


def test_an_expression_that_fails_is_the_error_of_its_step(world: World) -> None:
    text = "perdure: 1\nname: ways\nsteps:\n  - {id: a, tool: ECHO, with: {v: 1}}\n  - {id: b, tool: ECHO, with: {x: '@a.none'}, on_error: go_on}\n"
    run = world.start(definition(text))
    run.result()
    done, failed = view_of(world, run).steps
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
        Requirement("tool", "OTHER", "a"), Requirement("tool", "BACK", "a"), Requirement("workflow", "child", "d"), Requirement("workflow", "tell", ""),
    ]  # fmt: skip


def test_of_a_kind_the_extra_is_needed_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.definitions.kinds.kind_registry.EXTRA_MODULES", {"http": ("no_such_module",)})
    found = definition('perdure: 1\nname: needs\nsteps:\n  - {id: b, http: {url: "https://example.org"}}\n').lacks()
    assert found == [Requirement("extra", "http", "b")]


def test_an_input_is_completed_by_defaults_and_held_against_its_schema() -> None:
    text = "perdure: 1\nname: takes\ninput: {n: {type: integer}, m: {type: string, default: x}}\nsteps:\n  - {id: a, tool: ECHO}\n"
    ir = definition(text).ir
    assert definition_input.with_defaults(ir, {"n": 1}) == {"n": 1, "m": "x"}
    assert list(definition_input.completed_input_problems(ir, {"n": 1, "m": "x"})) == []
    assert list(definition_input.completed_input_problems(ir, {"m": 2})) == [
        "the input lacks n; takes takes m, n",
        'input m: at the top: 2 is not of type "string"',
    ]


BLOCKS = """
perdure: 1
name: blocks
order: listed
steps:
  - {id: many, python: "def main(input):\\n    return 1", each: {in: [1, 2]}}
  - {id: fetched, http: "https://x.example"}
  - id: branch
    if: true
    then:
      - {id: not_now, tool: ECHO, when: false}
      - {id: asked, approve: {title: "Go on?"}}
"""


def of_kinds(text: str) -> Definition:
    return Definition.of(text, tools={"ECHO": echo}, kinds={"python": lambda config, input: 1, "http": lambda config, input: {"ok": True}})


def test_steps_of_kinds_and_steps_in_blocks_are_in_the_picture_as_they_are(world: World) -> None:
    run = world.start(of_kinds(BLOCKS))
    shown = view_of(world, run)
    assert shown.states == {
        "many": "completed",
        "fetched": "completed",
        "branch": "waiting_approval",
        "not_now": "skipped",
        "asked": "waiting_approval",
    }
    assert shown.tokens.open == ["branch", "branch/asked"] and (shown.tokens.counter, shown.tokens.approvals) == (0, 1)
    assert shown.tokens.outputs["fetched"] == {"ok": True}


def test_what_is_given_up_is_shown_as_cancelled_and_what_was_in_flight_as_abandoned(world: World) -> None:
    text = """
perdure: 1
name: ends
order: ports
steps:
  - {id: begin, set: {x: 1}, next: [waits, listens, works, stops]}
  - {id: waits, sleep: 1h}
  - {id: listens, listen: {names: [never]}}
  - {id: works, task: {type: work, queue: elsewhere}}
  - {id: stops, sleep: 5, next: block}
  - {id: block, do: [{id: end, return: done}]}
"""
    world.mock("work", takes="1h")
    run = world.start(definition(text))
    world.skip("5s")
    assert run.result() == "done"
    states = {step.path: step.state for step in view_of(world, run).steps}
    assert states == {
        "begin": "completed",
        "waits": "cancelled",
        "listens": "cancelled",
        "works": "abandoned",
        "stops": "completed",
        "block": "completed",
        "block/end": "completed",
    }


def test_after_a_patch_the_view_has_the_new_definition(world: World) -> None:
    text = "perdure: 1\nname: ways\nsteps:\n  - {id: a, sleep: 1h}\n  - {id: b, needs: [a], tool: ECHO}\n"
    run = world.start(definition(text))
    before = len(run._log())
    run.patch(definition(text + "  - {id: c, needs: [a], tool: ECHO}\n"))
    assert [node.id for node in view_of(world, run, before).ir.nodes] == ["a", "b"]
    assert [node.id for node in view_of(world, run).ir.nodes] == ["a", "b", "c"]
    assert view_of(world, run).states == {"a": "waiting"}
    world.skip("1h")
    assert view_of(world, run).states == {"a": "completed", "b": "completed", "c": "completed"}


def test_a_failure_that_is_handled_is_shown_as_one(world: World) -> None:
    text = (
        "perdure: 1\nname: ways\norder: listed\nsteps:\n  - {id: a, fail: 'no', on_error: go_on}\n  - {id: b, fail: 'no', on_error: [{id: c, set: {x: 1}}]}\n"
    )
    run = world.start(definition(text))
    run.result()
    assert view_of(world, run).states == {"a": "failed", "b": "failed", "c": "completed"}


def test_a_rejection_and_a_timeout_have_the_same_port_in_the_step_and_in_its_edges(world: World) -> None:
    text = """
perdure: 1
name: asks
order: ports
steps:
  - {id: one, approve: {title: "Now?"}, next: {rejected: two}}
  - {id: two, approve: {title: "Later?", timeout: 5}, next: {timeout: end}}
  - {id: end, return: 1}
"""
    run = world.start(definition(text))
    (child,) = run.children()
    child.send("vote", Vote("ada", False))
    world.skip("5s")
    assert run.result() == 1
    assert [(step.path, step.port) for step in view_of(world, run).steps] == [("one", "rejected"), ("two", "timeout"), ("end", "")]
    assert {event.type for event in run.events() if event.subject in ("one", "two")} >= {"approval.rejected", "approval.expired"}
