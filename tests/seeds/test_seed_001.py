"""Seed 001, claims 1 to 143 as `requirements.md` numbers them: each here as a test, where else it is shown, or what of it is not built.

A row is one of the claims in graph/semantics, a case is an example of the seed that test_runs runs, and test_real_kinds with nothing standing in for a kind.

claim   where
1       what of it is in this release is said below
2       case 001_row; test_definitions_001: test_triggers_and_the_row_of_the_table_are_read; the table itself:
        test_records_001: test_the_row_of_a_workflow_is_kept_with_its_document_and_its_slug_is_unique_for_its_owner;
        not built: a document that is published does not give its row a display name, tags or `enabled`; its name is the slug, it has no tags and is enabled
3-7     test_definitions_001: test_triggers_and_the_row_of_the_table_are_read;
        test_curl_triggers_001: test_triggers_live_and_start_executions_by_curl_whenever_the_server_is_killed
8       service/triggers/test_trigger_specs: test_a_config_that_is_wrong_is_refused_with_its_place
9       test_run_001: test_an_execution_says_what_it_runs_and_how_it_stands; api/test_execution_reads: test_an_execution_says_what_was_done_and_who_began_it;
        its trigger: as 3; a session is made of nothing
10      test_an_id_starts_one_execution_however_many_ask below
11      test_each_try_is_remembered_with_its_number_and_nothing_of_it_is_overwritten below;
        api/test_execution_reads: test_a_step_has_all_its_attempts_with_input_and_output, test_steps_come_in_pages
12, 13  test_curl_proposals_001: test_a_proposal_is_made_reviewed_and_applied_by_curl_and_a_stale_one_fails;
        service/test_catalog: test_history_survives_deletion_and_numbers_go_on_from_it
14      service/triggers/test_schedule_crashes: test_each_tick_starts_one_execution_whichever_engines_die
15      case 001_single_step; row "with on_timeout: approve, time approves"; row "an approval for which the time is over is an error"
16      test_from_a_terminal_state_nothing_leads_away below;
        test_run_001: test_an_approval_halts_it_and_either_decision_leads_on_as_the_seed_says
17      service/proposals/test_proposal_changes: test_a_rejected_proposal_is_not_applied,
        test_an_approved_proposal_fails_when_its_definition_has_another_version
18      api/test_active_limits: test_a_person_may_have_so_many_in_progress_and_is_told_what_is_in_the_way,
        test_all_people_together_may_have_so_many
19-24, 26, 31 operations/test_on_catalog: what the catalog does over HTTP
25, 32, 33, 34, 37 api/test_route_aliases: test_a_workflow_is_run_by_its_slug_approved_by_its_resume_token_and_has_its_outputs
27-30   test_curl_proposals_001
35, 36  api/test_route_aliases: test_an_external_run_is_completed_by_its_runner_once, test_a_reported_failure_fails_the_run,
        test_nothing_is_reported_on_an_execution_that_is_run_by_an_engine, test_of_several_steps_outside_the_token_says_which
38      api/test_route_aliases: test_an_id_of_several_workflows_is_ambiguous_and_never_a_prefix
39      test_curl_001: test_the_release_workflow_goes_from_sync_to_approval_to_result_by_curl_whenever_it_is_killed
40, 41, 45-47 test_curl_triggers_001: test_triggers_live_and_start_executions_by_curl_whenever_the_server_is_killed
42-44   test_curl_triggers_001: test_a_trigger_of_its_own_is_created_changed_and_deleted_by_curl
48      api/test_route_aliases: test_what_is_parked_is_dispatched_again
52      test_commands_001: test_a_command_knows_that_it_is_of_a_workflow_and_of_which_execution; a session is made of nothing: an engine begins it
49, 50  test_run_001: test_an_approval_halts_it_and_either_decision_leads_on_as_the_seed_says; row "a cancelled execution is undone as well"
51      api/test_execution_reads: test_an_execution_says_what_was_done_and_who_began_it
53      runtime/test_engine: test_a_store_that_is_down_for_a_minute_loses_nothing_and_work_goes_on
54      format/test_canonical_form: test_the_hashes_of_format_version_1_never_change, test_the_hash_is_that_of_the_meaning
55, 56  api/test_route_aliases: test_a_workflow_is_run_by_its_slug_approved_by_its_resume_token_and_has_its_outputs,
        test_code_is_run_by_its_name_and_what_nobody_has_is_not_found; limits of active executions: as 18
57      as 10, and by what a client calls its request: as 39
58, 60  nothing is made before an execution but its row: runtime/test_engine; over HTTP as 39
59, 61  test_run_001: test_an_execution_says_what_it_runs_and_how_it_stands
62, 63  kinds/bash/test_bash_kind: test_it_has_nothing_of_the_engine_s_environment_and_a_directory_of_its_own
64      test_run_001: test_what_happens_is_told_in_events
65      kinds/bash/test_bash_kind: test_a_command_is_told_its_key_and_its_try
66      case 001_step_types
67      test_run_001: test_an_execution_says_what_it_runs_and_how_it_stands
68-70, 73, 76 test_curl_triggers_001: test_triggers_live_and_start_executions_by_curl_whenever_the_server_is_killed
71      api/test_webhooks: test_each_scheme_is_accepted_from_its_sender_and_refused_from_others, test_a_request_that_was_recorded_is_refused_later
72      service/triggers/test_webhook_payloads; the query as well: as 68
74      api/test_webhooks: test_a_delivery_starts_an_execution_and_its_repetition_finds_it, test_without_an_id_equal_requests_are_one_delivery
75      api/test_webhooks: test_when_too_many_have_not_ended_the_sender_is_asked_to_come_back,
        test_a_limit_of_active_executions_has_the_others_wait_in_a_queue
77, 78, 80, 81 service/triggers/test_schedule_clock: test_each_tick_starts_an_execution_that_knows_it; as 14
79, 84  service/triggers/test_schedule_times: test_ticks_are_those_of_the_vectors_where_two_libraries_agree,
        test_a_time_of_the_day_is_due_once_on_each_day_whatever_its_clocks_do
82      service/triggers/test_schedule_clock: test_a_tick_hands_its_prompt_to_the_handler_of_the_application
83      test_curl_triggers_001: test_triggers_live_and_start_executions_by_curl_whenever_the_server_is_killed
85-89   test_run_001: test_an_approval_halts_it_and_either_decision_leads_on_as_the_seed_says
90, 91  as 39; api/test_route_aliases: test_a_denied_approval_cancels_and_is_a_resume_as_well
92      test_run_001: test_a_decision_for_another_approval_changes_nothing
93, 94  test_run_001: test_an_approval_halts_it_and_either_decision_leads_on_as_the_seed_says
95      test_what_goes_on_after_a_wait_replays_results_and_runs_nothing_again below;
        test_run_001: test_what_was_done_before_an_approval_is_not_done_again_wherever_it_is_killed
96      test_run_001: test_an_approval_is_called_the_same_after_any_crash; the resume token as well: as 39
97      test_curl_proposals_001: test_who_proposes_does_not_review_and_a_workflow_that_does_not_allow_it_takes_no_proposals
98-101, 103-108 test_curl_proposals_001: test_a_proposal_is_made_reviewed_and_applied_by_curl_and_a_stale_one_fails
102     service/proposals/test_proposal_changes: test_a_proposal_expires_after_14_days_which_is_shown_and_is_no_status
109-114 api/test_route_aliases: test_a_rollback_is_to_a_workflow_hash;
        service/test_catalog: test_a_rollback_raises_the_version_and_leaves_a_trace_although_the_content_exists
115     test_definitions_001: test_a_command_has_two_minutes_and_never_more_than_ten;
        test_run_001: test_a_command_is_run_as_it_stands_and_has_its_values_from_its_environment;
        test_commands_001: test_the_example_of_its_types_runs_its_commands, test_output_is_cut_at_64k_characters,
        test_a_command_has_the_time_that_it_says_and_never_more_than_ten_minutes
116     case 001_step_types
117     test_run_001: test_an_agent_s_message_is_its_content_its_message_or_its_goal; case 001_step_types, with models that are asked over HTTP;
        graph/test_agent_verbs: test_a_message_reaches_the_agent_that_is_at_work, test_an_answer_that_does_not_come_in_time_is_a_timeout
118     case 001_conditional
119     case 001_parallel; row "with concurrency, so many branches at a time, in the order in which they are written";
        row "the first branch that fails, fails the block, and the others are dropped"; row "tools, sleeps and people run beside one another"
120     case 001_step_types
121     case 001_loops; test_definitions_001: test_loops_go_over_items_a_count_of_turns_or_as_long_as_a_condition_holds
122     case 001_subworkflow; row "cancelling an execution cancels the child that it waits for";
        row "recursion ends at the greatest depth, with an error that says so"
123     test_run_001: test_it_begins_fifty_steps_at_most_unless_its_policy_says_otherwise
124     case 001_conditional; test_definitions_001: test_what_a_step_stores_is_its_result_and_the_output_of_the_workflow
125     test_run_001: test_what_happens_is_told_in_events
126     cli: test_killed_at_its_approval_and_run_again_it_goes_on, test_a_denied_approval_ends_it_as_cancelled, test_a_definition_comes_from_standard_input
127     cli/test_proposal_commands: test_a_proposal_is_made_looked_at_reviewed_and_applied;
        service/proposals/test_proposal_workflow: test_an_agent_proposes_a_change_of_the_definition_for_future_executions
128     cli/test_exit_codes: test_every_code_is_explained, and the codes in every transcript
129     test_run_001: test_every_type_of_the_seed_is_known_and_no_other
130     test_definitions_001: test_steps_without_an_id_are_called_by_their_path
131     format/test_canonical_form: test_the_hash_is_that_of_the_meaning
132     test_definitions_001: test_what_the_validator_of_the_seed_refuses_is_an_error
133     test_run_001: test_every_type_of_the_seed_is_known_and_no_other; there is one validator, of which the command line, the SDK and engines make use
134     test_an_id_starts_one_execution_however_many_ask below
135     as 98
136     as 71
137     as 119
138     service/test_catalog_sync: test_a_set_is_applied_only_with_the_number_of_its_deletions
139     format/test_format_schema: test_it_is_a_schema_of_draft_2020_12
140     test_definitions_001: test_a_subworkflow_is_called_in_its_version_and_limits_are_read;
        kinds/agents/test_agent_patches: test_a_definition_that_does_not_allow_it_is_not_changed_and_the_agent_is_told
141     test_steps_can_be_watched_while_it_runs below
142     console/test_editor_page: test_edits_in_each_view_are_in_the_text_which_keeps_its_comments,
        test_publication_shows_the_changes_and_the_hash_before, test_what_two_people_have_saved_is_brought_together
143     operations/test_reachable_operations: test_a_python_client_reaches_each_operation_but_those_of_a_list
"""

import asyncio

import pytest

from perdure import AsyncClient, Context, ExecutionFailed, Retry, step, workflow
from perdure.core import events as e
from perdure.core import messages
from tests.runtime.cluster import Cluster, settle
from tests.runtime.test_engine import virtually

begun: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_begun() -> None:
    begun.clear()


@step(retry=Retry(max=3, wait="1s", jitter=0))
async def unsteady(fails: int) -> int:
    begun.append("unsteady")
    if len(begun) <= fails:
        raise OSError(f"failed {len(begun)}")
    return len(begun)


@workflow
async def trying(ctx: Context, fails: int) -> int:
    return await ctx.step(unsteady, fails)


@workflow
async def gated(ctx: Context) -> list[int]:
    before = await ctx.step(unsteady, 0)
    await ctx.listen("go")
    return [before, await ctx.step("after", unsteady, 0)]


@virtually
async def test_each_try_is_remembered_with_its_number_and_nothing_of_it_is_overwritten(c: Cluster) -> None:
    engine = await c.engine(trying)
    assert await c.start(engine, trying, 2)
    assert await c.result(engine, trying) == 3
    events = await c.events(trying.key("e"))
    failed = [(event.attempt, event.error.message) for event in events if isinstance(event, e.RetryingEvent)]
    assert failed == [(1, "failed 1"), (2, "failed 2")]
    assert [event.attempt for event in events if isinstance(event, e.AttemptStartedEvent)] == [2, 3]


@virtually
async def test_from_a_terminal_state_nothing_leads_away(c: Cluster) -> None:
    engine = await c.engine(trying)
    assert await c.start(engine, trying, 0)
    assert await c.result(engine, trying) == 1
    before = await c.events(trying.key("e"))
    for message in (
        messages.CancelMessage("no"),
        messages.PauseMessage("no"),
        messages.ResumeMessage("no"),
        messages.TerminateMessage("no"),
        messages.RetryMessage("no"),
    ):
        await c.tell(trying.key("e"), message)
    await settle(1)
    assert await c.events(trying.key("e")) == before
    assert await c.result(engine, trying) == 1


@virtually
async def test_what_goes_on_after_a_wait_replays_results_and_runs_nothing_again(c: Cluster) -> None:
    first = await c.engine(gated)
    assert await c.start(first, gated)
    await settle(1)
    await first.kill()
    second = await c.engine(gated)
    await c.send(gated.key("e"), "go")
    assert await c.result(second, gated) == [1, 2]
    assert begun == ["unsteady", "unsteady"]


@virtually
async def test_an_id_starts_one_execution_however_many_ask(c: Cluster) -> None:
    engines = [await c.engine(trying), await c.engine(trying)]
    created = await asyncio.gather(*(c.start(engines[number % 2], trying, 0) for number in range(10)))
    assert sum(created) == 1
    assert await c.result(engines[0], trying) == 1
    assert begun == ["unsteady"]


@virtually
async def test_steps_can_be_watched_while_it_runs(c: Cluster) -> None:
    _ = await c.engine(gated, trying)
    async with AsyncClient(c.store) as client:
        handle = await client.start(gated.with_(id="k"))
        seen: list[str] = []
        async for event in handle.events(follow=True):
            seen.append(event.type)
            if event.type == "execution.waiting":
                assert "completed" in [one.state for one in await handle.steps()]
                await handle.send("go")
        assert await handle.result() == [1, 2]
        failing = await client.start(trying.with_(id="f"), 9)
        with pytest.raises(ExecutionFailed):
            await failing.result()
    assert seen.index("step.completed") < seen.index("execution.waiting") < seen.index("execution.completed")
