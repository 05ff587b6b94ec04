"""Seed 003, claims 1 to 63 as `requirements.md` numbers them: each here as a test, where else it is shown, or what of it is not built.

A row is one of the claims in graph/semantics, a case is an example of the seed that test_runs runs, and test_real_kinds with nothing standing in for a kind.

claim   where
1, 9    test_an_expression_finds_what_the_seed_says_of_it_and_nothing_else below
2, 3    test_steps_and_the_last_output_are_envelopes below
4       test_the_loop_is_only_there_once_a_loop_has_ticked below
5       expr/test_braces: test_the_organization_is_the_tenant_and_else_what_is_called_so
6       expr/test_braces: test_names_are_of_the_loop_then_variables_then_the_input_then_null
7       expr/test_braces: test_a_secret_is_a_mark_alone_within_text_and_in_lists;
        definitions/graph/test_secrets: test_a_tool_is_given_the_secret_and_no_log_has_it
8       test_variables_of_the_workflow_are_there_from_the_beginning below
10, 11  test_steps_and_the_last_output_are_envelopes below
12      kinds/models/test_llm_kind: test_a_step_is_its_data_and_its_envelope_what_that_came_by
13      test_steps_and_the_last_output_are_envelopes below
14      a node settles by a port, with a result or an error: test_the_ports_of_each_type_are_those_of_the_seed below;
        threadId: an agent is an execution, by its id:
        graph/test_agent_verbs: test_without_an_agent_at_work_a_session_keeps_what_was_said_and_ends_with_the_execution
15      test_a_step_that_fails_fails_the_execution_unless_its_port_leads_on below
16      test_only_a_loop_writes_the_loop below
17, 18  test_the_ports_of_each_type_are_those_of_the_seed below
19, 20  test_an_approval_is_recorded_waited_for_and_goes_on_by_its_port below
21-24   definitions/graph/test_loop_ticks: test_the_sixth_tick_of_the_seed_s_example_is_as_it_says, test_with_batches_of_one_item_and_index_are_there
25-27   definitions/graph/test_loop_ticks: test_the_last_batch_may_be_smaller_and_then_it_is_done
28      test_a_loop_puts_out_its_state_and_its_batch below
29      definitions/graph/test_batch_loops: test_without_items_it_is_done_at_once_and_without_a_body_it_ticks_by_itself; case 003_inline
30-33   expr/test_braces: test_the_examples_of_the_seed_come_to_what_they_say
34      test_what_was_set_stays_across_a_crash below
35      test_the_batch_is_there_after_a_crash_too below
36      dialects/test_port_graph: test_a_step_after_which_nothing_stands_ends_and_so_do_null_and_noop; case 003_inline
37      dialects/test_port_graph: test_a_loop_without_a_body_leads_to_itself;
        definitions/graph/test_batch_loops: test_each_batch_is_seen_once_and_what_follows_sees_how_it_ended
38      case 003_inline
39, 40  test_records_003: test_a_definition_is_kept_for_its_organization_with_its_configuration_and_its_steps
41      test_records_003: test_an_execution_is_found_by_its_definition_and_its_status_and_has_what_the_seed_keeps_of_it
42      test_records_003: test_an_approval_is_found_by_its_approver_its_execution_and_what_it_is_about_and_keeps_the_decision;
        dialects/test_port_graph: test_an_approval_has_its_subject_its_priority_and_where_it_is_shown;
        not built: the dueDate of an approval in a document of this seed is only a detail; the list of approvals has those that wait, and decided ones
        are listed as executions
43      test_an_execution_keeps_the_definition_that_it_began_with below
44      case 003_inline
45, 48  test_variables_of_the_workflow_are_there_from_the_beginning below
46      kinds are given their configuration with its references filled in, and the input: case 003_inline
47      test_an_approval_is_recorded_waited_for_and_goes_on_by_its_port below
49      test_a_secret_is_in_no_argument_that_a_log_has below
50      test_steps_and_the_last_output_are_envelopes below
51      expr/test_braces: test_the_examples_of_the_seed_come_to_what_they_say, in which the output of a trigger is given;
        the output of a step of the type trigger says in meta.trigger what has started the execution, if a trigger has:
        test_records_003: test_an_execution_is_found_by_its_definition_and_its_status_and_has_what_the_seed_keeps_of_it;
        not built: its data is null in place of a text that it has been executed; what the trigger has given is the input
52      expr/test_braces: test_the_examples_of_the_seed_come_to_what_they_say; a model says so itself: test_what_a_model_answers_is_as_the_seed_shows_it below
53, 54  test_the_sixth_tick_is_seen_by_the_body_as_the_seed_shows_it below
55, 57  test_a_definition_runs_though_nobody_has_stored_it below
56, 59  dialects/test_port_graph: test_the_seed_s_inline_workflow_is_a_definition_in_order_of_ports
58      case 003_inline has a step of each type
60      as 12
61, 62  test_only_a_loop_writes_the_loop below
63      the items of a loop are kept once, however many its ticks: test_the_items_of_a_loop_are_kept_once below
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from perdure import ExecutionFailed
from perdure.definitions.graph.step_kind import KindResult
from perdure.testing import Run, World
from tests.definitions.graph.semantics.table import Voted, befall
from tests.seeds.cases import broken, given, made
from tests.seeds.definitions import definition
from tests.seeds.example import Example
from tests.seeds.examples_003 import ITEMS, LOOP


def step(name: str, kind: str, config: Any, **following: Any) -> dict[str, Any]:
    """A step as it stands in a document."""
    return {"stepSlug": name, "name": name.upper(), "stepType": kind, "config": config, "nextSteps": following}


def asks(name: str, parameters: Any, **following: Any) -> dict[str, Any]:
    """An action that says what it is given."""
    return step(name, "action", {"type": "ECHO", "parameters": parameters}, **following)


def started(world: World, *steps: dict[str, Any], does: Mapping[str, Callable[..., Any]] | None = None, input: Any = None, **config: Any) -> Run[Any]:
    """A workflow of these steps, at work."""
    title = config.pop("title", "some")
    document = definition(Example("", {"workflowConfig": {"name": title, "config": config}, "stepsConfig": list(steps)}, False, ""))
    return world.start(made(document, does or {}), input or {})


LOOPED = [step("each", "loop", {"items": "{{ input.items }}", "batchSize": 2}, loop="body"), asks("body", {"loop": "{{ loop }}"}, success="each")]


def test_an_expression_finds_what_the_seed_says_of_it_and_nothing_else(world: World) -> None:
    names = ("lastOutput", "input", "size", "nobody", "vars", "execution")
    run = started(world, asks("a", {}, success="b"), asks("b", {name: f"{{{{ {name} }}}}" for name in names}), input={"x": 1}, variables={"size": 50})
    found = run.result()
    assert (found["lastOutput"]["type"], found["input"]) == ("action", {"x": 1})
    assert (found["size"], found["nobody"], found["vars"], found["execution"]) == (50, None, None, None)


def test_steps_and_the_last_output_are_envelopes(world: World) -> None:
    run = started(world, asks("a", {"x": 1}, success="b"), asks("b", {"of": "{{ steps.a }}", "last": "{{ lastOutput }}", "first": "{{ steps.b }}"}))
    output = {"type": "action", "data": {"x": 1}, "meta": {}}
    found = run.result()
    assert {name: found["of"]["output"][name] for name in output} == output
    assert "name" not in found["of"]["output"]
    assert (found["of"]["stepType"], found["of"]["name"]) == ("action", "A")
    assert found["last"] == found["of"]["output"]
    assert found["first"] is None


def test_the_loop_is_only_there_once_a_loop_has_ticked(world: World) -> None:
    run = started(world, asks("a", {"loop": "{{ loop }}"}, success="each"), *LOOPED, input={"items": [1]})
    assert run.status == "completed"
    assert run.step("a").kwargs == {"loop": None}
    assert run.step("body").kwargs["loop"]["batch"]["items"] == [1]


def test_variables_of_the_workflow_are_there_from_the_beginning(world: World) -> None:
    run = started(world, asks("a", {"size": "{{ size }}", "x": "{{ x }}", "own": "{{ input.size }}"}), input={"x": 1, "size": 7}, variables={"size": 50})
    assert run.result() == {"size": 50, "x": 1, "own": 7}


def test_a_step_that_fails_fails_the_execution_unless_its_port_leads_on(world: World) -> None:
    bad = step("bad", "action", {"type": "FAILS"}, success="never")
    alone = started(world, bad, asks("never", {}), does={"FAILS": broken}, retryPolicy={"maxRetries": 0})
    with pytest.raises(ExecutionFailed, match="Broken: no"):
        alone.result()
    routed = {**bad, "nextSteps": {"success": "never", "failure": "told"}}
    run = started(
        world,
        routed,
        asks("never", {}),
        asks("told", {"why": "{{ lastOutput.data.message }}"}),
        does={"FAILS": broken},
        title="routed",
        retryPolicy={"maxRetries": 0},
    )
    assert run.result() == {"told": {"why": "no"}}


def test_only_a_loop_writes_the_loop(world: World) -> None:
    says = {"loop": {"item": "forged"}, "variables": {"loop": 1}}
    run = started(world, step("a", "action", {"type": "SAYS"}, success="b"), asks("b", {"loop": "{{ loop }}"}), does={"SAYS": lambda **_: says})
    assert run.result() == {"loop": None}


def test_the_ports_of_each_type_are_those_of_the_seed(world: World) -> None:
    steps = [
        step("begin", "trigger", {"type": "manual"}, success="ask"),
        step("ask", "llm", {"model": "m", "userPrompt": "?"}, success="yes"),
        step("yes", "condition", {"expression": "true"}, true="no", false="never"),
        step("no", "condition", {"expression": "false"}, true="never", false="each"),
        step("each", "loop", {"items": [1]}, loop="body", done="sign"),
        asks("body", {}, success="each"),
        step("sign", "approval", {"approverMemberId": "m1"}, approved="again", rejected="never"),
        step("again", "approval", {"approverMemberId": "m1"}, approved="never", rejected="end"),
        asks("end", {"all": "well"}),
        asks("never", {}),
    ]
    run = started(world, *steps)
    befall(world, run, Voted("sign", by="m1"))
    befall(world, run, Voted("again", False, by="m1"))
    assert run.result() == {"end": {"all": "well"}}


def test_an_approval_is_recorded_waited_for_and_goes_on_by_its_port(world: World) -> None:
    run = started(world, step("sign", "approval", {"approverMemberId": "m1", "title": "Well?"}, approved="a", rejected="b"), asks("a", {}), asks("b", {}))
    assert run.status == "waiting_approval"
    (asked,) = run.children()
    assert (asked.key.workflow, asked.status) == ("perdure.approval", "waiting")
    world.skip("400d")
    assert run.status == "waiting_approval"
    befall(world, run, Voted("sign", False, by="m1"))
    assert [one.path for one in run.steps() if one.kind == "call"] == ["b"]


def test_a_loop_puts_out_its_state_and_its_batch(world: World) -> None:
    run = started(world, LOOPED[0], asks("body", {"last": "{{ lastOutput }}", "own": "{{ steps.each.output.data }}"}, success="each"), input={"items": [1, 2]})
    assert run.status == "completed"
    found = run.step("body").kwargs
    assert found["last"]["type"] == "loop"
    assert found["last"]["data"] == found["own"]
    assert set(found["own"]) == {"state", "batch"}
    assert found["own"]["batch"]["items"] == [1, 2]


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=60)
def test_what_was_set_stays_across_a_crash(world: World) -> None:
    keep = step("keep", "action", {"type": "set_variables", "parameters": {"variables": [{"name": "size", "value": "{{ size + 1 }}"}]}}, success="each")
    steps = [keep, {**LOOPED[0], "nextSteps": {"loop": "body", "done": "end"}}, LOOPED[1], asks("end", {"size": "{{ size }}", "seen": "{{ steps.body.name }}"})]
    run = started(world, *steps, input={"items": [1, 2, 3]}, variables={"size": 50})
    assert run.result() == {"size": 51, "seen": "BODY"}


@pytest.mark.perdure(always_suspend=True)
def test_the_batch_is_there_after_a_crash_too(world: World) -> None:
    first = asks("first", {}, success="body")
    world.mock("first", calls=given, takes="1h")
    run = started(world, {**LOOPED[0], "nextSteps": {"loop": "first"}}, first, LOOPED[1], input={"items": [1, 2, 3]})
    world.skip("90m")
    world.crash()
    world.skip("90m")
    assert [one.kwargs["loop"]["batch"]["items"] for one in run.steps() if one.path.endswith("body")] == [[1, 2], [3]]


def test_an_execution_keeps_the_definition_that_it_began_with(world: World) -> None:
    steps = [step("sign", "approval", {"approverMemberId": "m1"}, approved="a"), asks("a", {"it": "old"})]
    run = started(world, *steps)
    new = Example("", {"workflowConfig": {"name": "some"}, "stepsConfig": [steps[0], asks("a", {"it": "new"})]}, False, "")
    world.restart(made(definition(new)))
    befall(world, run, Voted("sign", by="m1"))
    assert run.result() == {"it": "old"}


def test_a_secret_is_in_no_argument_that_a_log_has(world: World) -> None:
    run = started(world, asks("a", {"token": "{{ secrets.TOKEN }}"}), secrets={"TOKEN": "hush-hush"})
    assert run.result() == {"token": "***"}, "the tool was given it, and what it says of it is hidden"
    found = world.machine.read(run.key)
    assert found is not None and b"@secret" in b"".join(found.payloads)


@pytest.mark.slow
def test_the_sixth_tick_is_seen_by_the_body_as_the_seed_shows_it(world: World) -> None:
    run = started(world, *LOOPED, input={"items": ITEMS})
    assert run.status == "completed"
    seen = [one.kwargs["loop"] for one in run.steps() if one.path.endswith("body")]
    assert len(seen) == 50
    assert seen[5] == LOOP


def test_a_definition_runs_though_nobody_has_stored_it(world: World) -> None:
    run = started(world, asks("a", {"x": 1}))
    assert run.result() == {"x": 1}
    assert [event.data["definition"] for event in run.events() if event.type == "execution.created"]


def test_the_items_of_a_loop_are_kept_once(world: World) -> None:
    items = [f"item number {number}" for number in range(20)]
    body = asks("body", {"at": "{{ loop.state.currentIndex }}"}, success="each")
    run = started(world, LOOPED[0], body, input={"items": items})
    assert run.status == "completed"
    log = world.machine.read(run.key)
    assert log is not None
    assert b"".join(log.payloads).count(b"item number 7") == 2, "in the input, and with the loop"


def test_what_a_model_answers_is_as_the_seed_shows_it(world: World) -> None:
    meta = {"llm": {"model": "gpt-4o", "temperature": 0.2}}
    asked = step("ask", "llm", {"model": "gpt-4o", "temperature": 0.2, "userPrompt": "Well?"}, success="tell")
    run = started(world, asked, asks("tell", {"last": "{{ lastOutput }}"}), does={"llm": lambda config, input=None: KindResult({"text": "42"}, meta)})
    assert {"type": "llm", "data": {"answer": "42"}, "meta": meta}.items() <= run.result()["last"].items()
