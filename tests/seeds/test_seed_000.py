"""Seed 000, claims 1 to 80 as `requirements.md` numbers them: each here as a test, where else it is shown, or what of it is not built.

A row is one of the claims in graph/semantics, a case is an example of the seed that test_runs runs, and test_real_kinds with nothing standing in for a kind.

claim   where
1, 9    test_run_000: test_what_goes_round_in_references_is_refused
2       service/triggers/test_event_triggers: test_an_execution_that_completes_starts_another_one, test_an_engine_that_is_killed_at_any_time_starts_it_once;
        steps are begun by decisions, with no event between
3       code/test_step: test_each_step_costs_one_commit; graph/semantics: test_it_does_the_same_wherever_its_process_is_killed
4       test_definitions_000: test_each_example_compiles_in_the_order_of_its_references; case 000_early_exit
5, 6    test_run_000: test_steps_begin_together_unless_one_refers_to_another
7       test_run_000: test_an_execution_keeps_the_steps_that_it_was_created_with
8       test_run_000: test_when_all_steps_are_done_it_has_succeeded
10      test_run_000: test_a_tool_is_called_and_its_result_made_over_by_code; case 000_references
11      mcp/test_mcp_tools: test_tools_are_steps_and_their_results_are_values, test_what_a_tool_refuses_fails_the_step_with_its_words
12      case 000_early_exit, whose code test_real_kinds: test_an_example_comes_to_what_it_states_with_all_that_is_real runs in the sandbox;
        kinds/test_ts_kind: test_the_default_export_is_called_with_the_input
13, 33  case 000_early_exit; test_definitions_000: test_the_early_exit_returns_its_input_and_is_ordered_by_what_it_looks_at
14, 15  case 000_references; test_definitions_000: test_references_are_whole_words_in_all_their_spellings
16, 17  case 000_for_each; test_definitions_000: test_a_failed_item_is_null_unless_the_step_says_that_it_fails
18, 19  test_definitions_000: test_the_four_conditions_are_rows_with_at_most_one_operator
20, 22  test_run_000: test_a_condition_of_another_shape_is_refused
21, 30  case 000_when_truthy; test_run_000: test_exists_is_an_operator_too
23, 24  row "a condition is judged once all that it reads is there, before the step's input is made"
25      test_run_000: test_a_skipped_step_is_null_and_told_of
26, 31  case 000_when_truthy, case 000_when_eq, case 000_when_gt, case 000_when_neq
27      test_definitions_000: test_the_early_exit_returns_its_input_and_is_ordered_by_what_it_looks_at
28      case 000_skips_cascade; row "skips cascade through conditions that need the step"
29      console/test_unit_tests: test_the_unit_tests_of_the_console_pass, of which condition-rows.test.ts is about this form
32      test_run_000: test_a_condition_of_another_shape_is_refused
34, 35  case 000_early_exit; row "return: true gives what stands in with"
36      row "a return ends the execution with its result, while others are in flight"
37      case 000_early_exit: it says so for no address, an empty one and one
38      row "a skipped return ends nothing"; case 000_early_exit
39, 51  recording/test_recorded_definition: test_a_recording_is_saved_as_a_draft_and_as_versions;
        recording_proxy/test_recording_server: test_a_client_presets_saves_and_ends_the_recording
40, 41  recording_proxy/test_recording_server: test_calls_are_recorded_and_answered_with_what_the_server_gave
42      recording/test_recording_workflow: test_calls_are_steps_and_references_are_forwarded_as_values
43      recording/test_recording_workflow: test_a_step_is_named_after_its_tool_without_its_server,
        test_parallel_calls_are_numbered_by_arrival_and_wait_for_those_that_they_name
44      recording/test_found_references: test_a_value_is_found_where_it_came_from;
        recording/test_recorded_definition: test_what_is_suggested_is_accepted_one_by_one
45, 49, 53 a recording is an execution like any other: recording/test_recording_workflow: test_a_recording_continues_in_another_engine_from_its_log
46, 50  recording/test_recording_workflow: test_a_recording_ends_when_it_is_ended_and_then_takes_no_call
47      recording/test_recorded_definition: test_a_definition_does_with_other_input_what_was_recorded
48, 52  recording/test_recording_workflow: test_presets_take_the_place_of_calls_and_are_visible_as_such
54      test_run_000: test_what_goes_round_in_references_is_refused
55      test_run_000: test_a_workflow_may_call_itself_each_time_in_an_execution_of_its_own;
        the tool of that name: mcp_server/test_tool_service: test_aliases_can_always_be_called_and_are_listed_only_if_that_is_wanted
56      test_run_000: test_a_workflow_may_call_itself_each_time_in_an_execution_of_its_own;
        row "recursion ends at the greatest depth, with an error that says so"
57, 62  test_a_step_that_takes_longer_than_any_lease_is_left_alone below: who lives is asked of processes, never of steps
58, 59  test_run_000: test_a_tool_has_thirty_seconds_and_code_has_ten;
        code/test_step: test_a_timeout_bounds_each_try_and_the_task_of_the_try_is_cancelled
60, 61  test_a_deadline_that_has_passed_fails_the_execution below
63      test_a_deadline_passes_also_while_a_step_hangs_and_while_nobody_runs below
64      test_what_was_running_at_a_crash_is_found_and_goes_on below; with real processes: runtime/test_cluster_kill, runtime/test_kill
65      test_a_claim_is_given_once_however_often_it_is_asked_for below; perdure.testing.conformance.lease_suite
66      test_an_answer_counts_once below
67      test_a_start_that_comes_twice_starts_once below; tests.proof.simulator, which delivers everything twice now and then
68      test_after_a_crash_a_step_runs_again_only_if_it_bears_that below
69      the log has its own events; what they stand for: created = Started, execute = Opened and Tried, completed = Settled
70      test_tidy: test_the_package_keeps_the_rules
71-74   format/test_format_schema: test_the_examples_fit_as_written_and_in_canonical_form; as 18, 13 and 27
75-79   as 23, 27, 34, 35 and 25
80      test_run_000: test_a_skipped_step_is_null_and_told_of
"""

import asyncio
from typing import Any

import pytest

from perdure import Context, DeadlineExceeded, StepFailed, step, workflow
from perdure.core import events as e
from perdure.core import messages, values
from perdure.core.operations import Failure, Success
from perdure.core.paths import Key
from perdure.stores.protocol import Claim
from perdure.testing.virtual_time import run
from tests.runtime.cluster import Cluster, settle
from tests.runtime.test_engine import virtually

LEASE_S = 15.0
begun: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_begun() -> None:
    begun.clear()


@step
async def work(name: str, takes_s: float = 0.0) -> str:
    begun.append(name)
    await asyncio.sleep(takes_s)
    return name


@step(idempotent=False)
async def pay(name: str, takes_s: float) -> str:
    begun.append(name)
    await asyncio.sleep(takes_s)
    return name


@workflow
async def two(ctx: Context, takes_s: float) -> list[str]:
    return [await ctx.step(work, "a"), await ctx.step(work, "b", takes_s)]


@workflow
async def paid(ctx: Context, takes_s: float) -> str:
    return await ctx.step(pay, "paid", takes_s)


@workflow(deadline="60s", grace=0)
async def hurried(ctx: Context, takes_s: float) -> str:
    return await ctx.step(work, "late", takes_s)


async def restarted(c: Cluster, *workflows: Any) -> Any:
    """Kill every process, and begin another when the store takes them for dead."""
    for process in c.processes:
        await process.kill()
    await asyncio.sleep(LEASE_S + 1)
    return await c.engine(*workflows)


@pytest.mark.slow
@virtually
async def test_a_step_that_takes_longer_than_any_lease_is_left_alone(c: Cluster) -> None:
    first, second = await c.engine(two), await c.engine(two)
    assert await c.start(first, two, 20 * LEASE_S)
    assert await c.result(second, two) == ["a", "b"]
    assert begun == ["a", "b"]
    assert not [event for event in await c.events(two.key("e")) if isinstance(event, e.InterruptedEvent)]


@virtually
async def test_a_deadline_that_has_passed_fails_the_execution(c: Cluster) -> None:
    engine = await c.engine(hurried)
    assert await c.start(engine, hurried, 59.0)
    assert await c.result(engine, hurried) == "late"
    assert await c.start(engine, hurried, 61.0, id="late")
    with pytest.raises(DeadlineExceeded):
        await c.result(engine, hurried, id="late")


@pytest.mark.parametrize("somebody_runs", [True, False])
def test_a_deadline_passes_also_while_a_step_hangs_and_while_nobody_runs(somebody_runs: bool) -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        engine = await c.engine(hurried)
        assert await c.start(engine, hurried, 1e6)
        if not somebody_runs:
            await engine.stop()
            await asyncio.sleep(100)
            engine = await c.engine(hurried)
        with pytest.raises(DeadlineExceeded):
            await c.result(engine, hurried)
        head = await c.head(hurried.key("e"))
        assert head.ended_at_s is not None
        assert head.ended_at_s - head.created_at_s == pytest.approx(60 if somebody_runs else 100, abs=1)

    claim()


@virtually
async def test_what_was_running_at_a_crash_is_found_and_goes_on(c: Cluster) -> None:
    first = await c.engine(two)
    for number in range(20):
        assert await c.start(first, two, 5.0, id=str(number))
    await asyncio.sleep(1)
    engine = await restarted(c, two)
    for number in range(20):
        assert await c.result(engine, two, id=str(number)) == ["a", "b"]
    assert (begun.count("a"), begun.count("b")) == (20, 40), "what had settled ran once, what was in flight twice"


def test_a_claim_is_given_once_however_often_it_is_asked_for() -> None:
    async def world() -> None:
        c = Cluster()
        key = await c.post(two, 0.0)
        moment = await c.store.renew("first", LEASE_S)
        await c.store.renew("second", LEASE_S)

        async def asked(holder: str) -> list[Key]:
            claimed = await c.store.claim(Claim(holder=holder, epoch=moment.epoch, programs=frozenset(two.code.programs)))
            return [one.head.key for one in claimed.executions]

        assert [await asked("first"), await asked("first"), await asked("second"), await asked("first")] == [[key], [], [], []]

    run(world)


@virtually
async def test_an_answer_counts_once(c: Cluster) -> None:
    @workflow
    async def queued(ctx: Context) -> str:
        return await ctx.step(work.with_(queue="elsewhere"), "x")

    engine = await c.engine(queued)
    assert await c.start(engine, queued)
    await settle(1)
    (opened,) = [event for event in await c.events(queued.key("e")) if isinstance(event, e.OpenedEvent)]
    for answer in ("first", "second"):
        await c.tell(queued.key("e"), messages.SettleMessage(opened.path, 1, Success(values.encode(answer, "answer"))))
    assert await c.result(engine, queued) == "first"
    assert await c.settled(queued.key("e")) == ["work"]


@virtually
async def test_a_start_that_comes_twice_starts_once(c: Cluster) -> None:
    engine = await c.engine(two)
    for _ in range(2):
        await c.post(two, 0.0)
    assert not await c.start(engine, two, 1.0)
    assert await c.result(engine, two) == ["a", "b"]
    assert begun == ["a", "b"]
    assert sum(isinstance(event, e.StartedEvent) for event in await c.events(two.key("e"))) == 1


@virtually
async def test_after_a_crash_a_step_runs_again_only_if_it_bears_that(c: Cluster) -> None:
    first = await c.engine(two, paid)
    assert await c.start(first, two, 5.0)
    assert await c.start(first, paid, 5.0)
    await asyncio.sleep(1)
    engine = await restarted(c, two, paid)
    assert await c.result(engine, two) == ["a", "b"]
    with pytest.raises(Exception, match="interrupted"):
        await c.result(engine, paid)
    assert begun == ["a", "b", "paid", "b"]
    (settled,) = [event for event in await c.events(paid.key("e")) if isinstance(event, e.SettledEvent)]
    assert isinstance(settled.outcome, Failure)
    assert settled.outcome.kind == "interrupted"
    assert StepFailed.__name__ in str((await c.fold(paid.key("e"))).ended)
