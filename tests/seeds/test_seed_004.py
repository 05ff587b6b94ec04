"""Seed 004, claims 1 to 167 as `requirements.md` numbers them: each here as a test, where else it is shown, or what of it is not built.

A row is one of the claims in graph/semantics, a case is an example of the seed that test_runs runs, and test_real_kinds with nothing standing in for a kind.

claim   where
1, 26   who holds an execution decides for it, and nobody stands between the steps: runtime/test_engine
2, 43, 44 graph/test_token_counters: test_the_counter_is_zero_when_all_is_done_and_never_before
3       what is large is kept by its hash, as definitions are: perdure.testing.conformance; test_an_execution_goes_on_by_the_version_that_it_began_with below
4       both are stores: stores/test_redis_store, stores/test_postgres_store; test_who_takes_over_goes_on_with_what_another_has_begun;
        not built: one of the two before the other, and a measurement of Redis
5       kinds/test_kind_registry: test_a_kind_that_a_package_brings_runs_checks_its_config_and_is_shown
6       graph/semantics: test_it_does_the_same_leaving_memory_at_each_wait
7       case 004_agent_branch, whose model test_real_kinds asks over HTTP; graph/test_agent_verbs: test_the_context_is_what_the_step_names
8, 9    graph/semantics: test_it_does_the_same_wherever_its_process_is_killed
10      case 004_human, case 004_approval
11, 32, 40 api/test_route_aliases: test_runs_are_started_by_a_tag_and_patched; test_a_patch_of_the_running_execution_is_seen_by_the_very_next_decision below
12      runtime/test_cluster_kill: engines of one store share its executions
13      test_a_result_that_comes_twice_moves_its_token_once below
14      kinds and tools are given by who runs them: case 004_agent_branch, case 004_migration
15      API: test_runs_over_http_004: test_a_run_of_a_tag_has_its_counter_and_its_applied_keys_as_of_each_event; people: as 95;
        workers: runtime/test_worker: test_several_workers_share_a_queue_each_within_its_limit;
        large values apart: stores/test_separate_blobs: test_a_large_blob_is_apart_and_a_small_one_is_not; Redis and Postgres: as 4;
        not built: large values in S3 or MinIO; they are in a directory
16, 17  api/test_route_aliases: test_runs_are_started_by_a_tag_and_patched
18      operations/test_on_catalog; what a version is made of is read with it
19      test_definitions_004: test_each_example_compiles_in_the_order_of_its_ports
20, 21  test_an_execution_goes_on_by_the_version_that_it_began_with below
22, 23, 68 test_the_counter_begins_with_a_token_for_each_entry below
24, 25  test_the_counter_of_the_sequential_flow_is_one_until_the_end below
27-30   row "a task goes to a queue by its type, with its input, and any worker may do it"; case 004_enrichment
31      row "a step that fails for good fails the execution, and what has not begun never does"
33      docs/benchmarks.md: a step takes less than 1 ms, and two engines on one Postgres do more than 10,000 steps a second
34      nobody stands between the steps, as 1, so there is nothing to migrate from
35      test_what_stood_at_any_event_comes_from_the_log_alone below
36, 42  runtime/test_cluster_kill; row "all branches begin at once, and the result has each by its id"
37      who sent a token to whom: test_the_counter_of_the_fan_out_is_that_of_the_seed_with_its_tokens_held_at_the_join below;
        hops: row "max_hops bounds how many edges are gone along"
38      a token is no message here: it is in the decision that moves it
39      graph/test_token_counters: test_the_counter_is_zero_when_all_is_done_and_never_before
41      kinds/agents/test_agent_patches: test_the_execution_goes_on_by_what_its_agent_adds, test_killed_anywhere_it_is_changed_once
45, 47  test_a_result_that_comes_twice_moves_its_token_once below
46      test_in_a_loop_no_two_tokens_are_called_the_same below
48      test_wherever_its_process_is_killed_no_token_is_lost_and_none_is_new below
49      test_the_counter_of_the_fan_out_is_that_of_the_seed_with_its_tokens_held_at_the_join below
50-54   row "without output and with several ends, the result is theirs by id, those that were reached"; case 004_loop_back
55      case 004_exclusive
56, 57  nothing is checked for: an execution has ended when nothing in it is live; what stands still for long: as 153
58, 59  test_definitions_004: test_a_workflow_that_never_ends_has_to_say_so; case 004_endless
60, 62, 63 case 004_join; test_without_waiting_for_all_a_node_runs_once_for_each_token_with_what_that_brought below;
        test_a_join_of_three_holds_its_tokens_until_the_last_is_there_and_sees_all below
61, 64, 65 test_a_join_of_three_holds_its_tokens_until_the_last_is_there_and_sees_all below
66      case 004_join, case 004_enrichment; test_a_join_of_three_holds_its_tokens_until_the_last_is_there_and_sees_all below
67      row "behind an exclusive choice, a join waits only for the way that was taken"
69      graph/test_token_counters: test_results_are_there_from_the_event_on_by_which_a_step_has_settled
70      test_the_counter_of_the_approval_is_zero_while_it_is_pending_and_the_execution_goes_on below
71, 95  test_an_approval_keeps_who_may_decide_what_about_and_until_when below
72      row "a task goes to a queue by its type, with its input, and any worker may do it"
73, 74  what a log and its head hold; perdure.testing.conformance
75, 76  test_the_counter_of_the_fan_out_is_that_of_the_seed_with_its_tokens_held_at_the_join below;
        over HTTP: test_runs_over_http_004: test_a_run_of_a_tag_has_its_counter_and_its_applied_keys_as_of_each_event
77      code/test_approval: test_a_person_approves_with_a_form_and_the_workflow_gets_its_type,
        test_when_the_time_is_over_that_is_what_was_said_for_it, test_an_approval_that_is_cancelled_is_a_child_that_failed
78      what stood at any event is in the log: test_what_stood_at_any_event_comes_from_the_log_alone below
79      kinds/test_kind_registry: test_a_kind_that_a_package_brings_runs_checks_its_config_and_is_shown, test_own_kinds_are_called_as_they_are_registered
80      case 004_task, case 004_agent_branch, case 004_human, case 004_loop, case 004_branch
81, 82  case 004_task
83, 86  case 004_loop, case 004_loop_back, case 004_schema_loop
84      the turn stands in the path of each try: case 004_loop
85      case 004_loop: the fifth try succeeds, and the fifth fails
87-91   case 004_branch; test_definitions_004: test_rules_stand_in_their_order_with_the_default_behind_them
92      case 004_agent_branch; test_the_counter_of_the_agent_grows_by_as_many_as_it_names below
93      test_definitions_004: test_an_agent_chooses_from_a_closed_list
94      case 004_human; test_definitions_004: test_people_have_their_time_and_a_policy_for_its_end;
        test_token_graph: test_the_end_of_an_approval_follows_its_policy
96, 97  case 004_rejection
98      test_the_decision_goes_to_what_follows below;
        over HTTP: test_runs_over_http_004: test_a_run_waits_for_a_decision_that_counts_once_and_leads_on_by_its_path
99      test_wherever_its_process_is_killed_no_token_is_lost_and_none_is_new below
100     test_a_second_decision_is_refused_and_changes_nothing below
101     expr/test_cel: test_it_has_a_value
102     case 004_cel, case 004_cel_with_context
103     case 004_schema_from_blob, case 004_schema_loop
104     case 004_jsonpath, case 004_jsonpath_sum; test_cel_conditions: test_the_other_types_are_rows_and_groups
105     case 004_cross_node, case 004_cross_node_expression
106     case 004_composite_and, case 004_composite_or
107     test_python_sees_what_the_nodes_before_came_to below; case 004_python_sandbox;
        kinds/test_python_conditions: test_there_is_nothing_to_reach_and_no_end_of_memory, test_it_has_a_second
108     test_definitions_004: test_an_unknown_type_of_condition_is_an_error
109     expr/test_cel: test_what_is_neither_true_nor_false_is_no_condition
110     expr/test_cel: test_it_is_compiled_once
111     docs/benchmarks.md, "Expressions": each is below its figure
112     case 004_payment
113     there is one way: an agent is an execution of its own, by whose end its step goes on:
        graph/test_agent_verbs: test_an_agent_is_told_what_its_step_says_and_settles_with_its_answer
114     graph/test_agent_verbs: test_an_agent_is_told_what_its_step_says_and_settles_with_its_answer, test_the_context_is_what_the_step_names
115     graph/test_agent_verbs: test_an_agent_is_told_what_its_step_says_and_settles_with_its_answer;
        kinds/agents/test_agent_workflow: test_what_it_used_can_be_seen_while_it_works
116     kinds/agents/test_built_in_tools: test_a_pipeline_runs_as_its_kind_does_and_only_its_result_is_told;
        kinds/pipeline/test_operation_arguments: test_there_are_eleven_primitives;
        kinds/pipeline/test_pipeline_kind: test_a_pipeline_as_the_seed_writes_it_runs_as_it_stands
117     kinds/agents/test_agent_patches: test_the_execution_goes_on_by_what_its_agent_adds, test_a_definition_is_only_proposed;
        the patch of the seed: test_a_node_that_the_patch_of_the_seed_puts_behind_one_that_is_done_runs_at_once below
118     kinds/agents/test_built_in_tools: test_tools_are_found_by_words_the_best_first_and_only_those_that_may_be_used
119     kinds/agents/test_api_tools: test_openapi_action_calls_any_operation_as_the_seed_writes_it;
        as a node: dialects/test_token_graph: test_a_node_is_a_verb_with_its_input
120     kinds/agents/test_built_in_tools: test_work_is_delegated_to_another_agent_by_its_name, test_the_interpreter_is_the_sandboxed_python
121     what an agent came to is the result of its execution: graph/test_agent_verbs: test_an_agent_is_told_what_its_step_says_and_settles_with_its_answer;
        kinds/agents/test_agent_workflow: test_every_request_holds_all_that_was_said_and_the_log_what_is_new
122     what every agent is told first never changes: kinds/agents/test_agent_conversation: test_the_digest_is_of_all_that_was_said_and_the_same_for_the_same
123     as 125
124     kinds/pipeline/test_composites: test_from_the_second_use_on_a_pipeline_is_a_composite_that_is_called_by_its_name
125     test_the_counter_of_the_agent_grows_by_as_many_as_it_names below
126, 127 test_the_counter_of_the_approval_is_zero_while_it_is_pending_and_the_execution_goes_on below
128, 129 case 004_human: nobody for 48 h; it says that nobody decided (`expired`, by nobody)
130, 131 test_what_stood_at_any_event_comes_from_the_log_alone below
132     the four flows: test_the_counter_of_the_sequential_flow_is_one_until_the_end,
        test_the_counter_of_the_fan_out_is_that_of_the_seed_with_its_tokens_held_at_the_join,
        test_the_counter_of_the_approval_is_zero_while_it_is_pending_and_the_execution_goes_on,
        test_the_counter_of_the_agent_grows_by_as_many_as_it_names below
133     not built: a measurement of Redis
134     docs/benchmarks.md: there is one way to write, durable with each decision: 11,000 steps a second by one engine
135     workers by types: runtime/test_worker: test_a_worker_takes_only_from_its_queues; docs/benchmarks.md has what engines do;
        not built: a test with a Redis of several servers
136     as 24, 49 and 45; over HTTP: test_runs_over_http_004: test_a_run_of_a_tag_has_its_counter_and_its_applied_keys_as_of_each_event
137     as 87, 92 and 95; over HTTP: test_runs_over_http_004: test_a_run_waits_for_a_decision_that_counts_once_and_leads_on_by_its_path
138     as 130, 79, 151 and 152; node types over HTTP: api/test_route_aliases: test_the_kinds_of_steps_have_their_schemas
139     as 144, 145 and 149; what is durable in Redis is its own setting; replicas: stores/postgres/test_failover;
        api/test_every_route: test_each_role_may_what_the_table_says_and_no_more; api/test_server_access: test_each_caller_has_a_rate_of_their_own;
        runtime/test_server: test_told_to_stop_it_ends_what_is_in_flight_and_the_next_goes_on_from_there; api/test_api_app: test_health_and_readiness
140     test_wherever_its_process_is_killed_no_token_is_lost_and_none_is_new below
141     row "max_fanout bounds how many steps one leads to"; row "a choice outside of the list fails the step, and the error names what is allowed";
        definitions/graph/test_policy_checks: test_where_it_may_not_go_it_does_not_go, test_what_is_denied_is_not_done,
        test_a_person_is_asked_before_and_with_what_it_is_about, test_a_kind_says_itself_what_its_steps_may_do
142     row "max_hops bounds how many edges are gone along"; row "max_fanout bounds the items of an each";
        row "max_bytes bounds what all results take"; as 149; throttling: runtime/test_queues: test_a_rate_lets_them_begin_one_after_the_other;
        not built: an agent that summarises what is too large; such an execution fails
143     test_runs_over_http_004: test_a_run_does_not_exist_for_another_tenant_whose_runs_may_have_the_same_id;
        runtime/test_tenants: test_an_engine_serves_its_tenants_and_no_others; test_a_blob_store_keeps_blobs_by_tenant_and_name;
        encryption notices what was changed or moved, as a signature would: stores/test_encoded_store:
        test_a_message_that_is_moved_to_another_address_or_key_is_refused_and_delays_no_other, test_a_change_of_any_bit_of_a_row_is_noticed;
        not built: keys of encryption for each tenant, as one key is for all; a signature of tokens in a store that is not encrypted
144     row "by default a step has three tries, a second and two apart"; row "an error named fatal is not tried again"; case 004_task
145     service/test_dead_letter_groups: test_what_failed_alike_is_one_group_the_latest_first,
        test_what_is_discarded_is_cancelled_without_running_and_its_parent_is_not_told_again
146     service/test_dead_letter_groups: test_what_is_requeued_goes_on_from_what_failed,
        test_what_is_requeued_with_edits_begins_anew_once_and_the_other_is_discarded
147     the log is written before anything is done: perdure.testing.conformance; nothing that was acknowledged is lost:
        stores/postgres/test_failover: test_in_failovers_to_a_synchronous_standby_nothing_acknowledged_is_lost_and_no_settled_step_runs_twice;
        docs/benchmarks.md: after a kill all goes on within seconds
148     row "cancelling an execution cancels the child that it waits for"
149     row "the deadline ends the execution, whatever it waits for, and what was done is undone"
150     case 004_compensator; test_what_was_charged_is_given_back_when_the_execution_fails below;
        row "what was done last is undone first, each with its own result";
        row "an undo that fails is tried again, and the rest is undone all the same"
151     observe/test_metrics: test_each_metric_of_the_table_is_exposed_with_its_labels, test_executions_steps_retries_and_ends_are_counted;
        test_alerts_004: test_the_metrics_of_the_seed_are_there_with_its_buckets;
        not built: the labels run_id, fan_out, from_node and to_node; latency is by queue, divergence counts executions whose code differs
152     observe/test_traces: test_each_attempt_has_a_span_in_that_of_its_execution, test_a_failed_execution_has_its_error,
        test_one_trace_leads_from_a_client_to_the_request_of_a_step_through_three_processes; not built: the number of the hop in a span
153     test_alerts_004: test_the_alerts_of_the_seed_have_its_thresholds_and_times;
        observe/test_deploy_files: test_each_expression_asks_for_what_is_there, test_each_alert_says_what_happened_and_what_to_do
154     service/test_retention: test_what_ended_long_ago_goes_and_its_id_status_and_times_stay,
        test_an_archive_has_each_before_it_goes_and_it_can_be_imported_from_there; months:
        stores/test_postgres_months: test_a_month_of_which_nothing_is_left_is_removed_and_what_is_kept_can_still_be_read; all fields are encrypted alike:
        stores/test_encoded_workflows: test_what_workflows_say_is_in_no_file_and_in_no_backup
155     test_an_execution_goes_on_by_the_version_that_it_began_with below; definitions/graph/test_plan_patch: test_a_step_that_has_not_begun_is_changed;
        case 004_migration; test_token_graph_migration: test_it_goes_on_with_what_the_transform_makes_of_all_so_far,
        test_wherever_its_process_is_killed_it_is_handed_over_once, test_the_highest_version_that_fits_is_meant_and_stays_the_one
156     test_a_result_that_comes_twice_moves_its_token_once below; not built: a test of 1,000 a second for 60 seconds
157     test_what_stood_at_any_event_comes_from_the_log_alone below; perdure show --tokens --at: cli/test_definition_commands
158     every decision is in the store before it has effects: perdure.testing.conformance
159     service/test_retention: test_what_ended_long_ago_goes_and_its_id_status_and_times_stay
160     kinds/agents/test_built_in_tools: test_tools_are_found_by_words_the_best_first_and_only_those_that_may_be_used
161     console/test_approval_pages: test_an_approval_is_answered_by_a_key_on_a_telephone, test_of_two_people_the_second_is_told_that_it_was_decided
162     row "a result that does not fit the step's schema fails the step";
        definitions/graph/test_definition_input: test_what_a_definition_does_not_take_is_refused_before_there_is_an_execution,
        test_what_was_started_without_its_definition_at_hand_fails_before_anything_is_done
163     as 143
164     runtime/test_queues: test_no_more_executions_run_than_a_queue_allows_over_all_engines, test_a_rate_lets_them_begin_one_after_the_other;
        api/test_active_limits: test_all_people_together_may_have_so_many
165     service/test_model_costs: test_costs_are_summed_by_workflow_step_and_model; not built: what the database costs by workflow
166     this table
167     format/test_canonical_form: test_the_hashes_of_format_version_1_never_change; an execution keeps the version by which it is walked
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import Step, Vote
from perdure.code.results import Decision
from perdure.core import events as e
from perdure.core import messages, values
from perdure.core.operations import Success
from perdure.definition_workflow import Definition
from perdure.definitions.format.definition_edits import patch_document
from perdure.definitions.graph.agent_verbs import merged_decision
from perdure.definitions.graph.execution_view import TokenCounts, view_at_event
from perdure.testing import Run, World
from perdure.testing.replay_check import run_generator
from tests.definitions.graph.semantics.table import Skip, Voted, befall, events
from tests.runtime.cluster import Cluster, settle
from tests.runtime.test_engine import virtually
from tests.seeds.cases import broken, given, made
from tests.seeds.definitions import definition
from tests.seeds.example import Example
from tests.seeds.examples import EXAMPLES, PATCH

NAMED = {example.name: example for example in EXAMPLES}
ROUTED = Example(
    "routed",
    {
        "nodes": [
            {"id": "A", "type": "task"},
            {
                "id": "Agent",
                "type": "agent",
                "branch": {"enabled": True, "type": "agent_driven", "available_next_nodes": ["high_value_sales", "send_gift", "no"]},
            },
            *({"id": name, "type": "task"} for name in ("high_value_sales", "send_gift", "no")),
        ],
        "edges": [{"from": "A", "to": "Agent"}],
    },
    False,
    "tokens 1, 1, 2, 1, 0",
)
PROCESS: dict[str, Any] = {
    "metadata": {"name": "process"},
    "nodes": [{"id": "process_data", "type": "task"}, {"id": "wait", "type": "human"}, {"id": "end", "type": "task"}],
    "edges": [{"from": "process_data", "to": "wait"}, {"from": "wait", "to": "end"}],
}


def defined(example: Example, **does: Any) -> Definition:
    """The definition that an example is, in which all is played."""
    return made(definition(example), does)


def stood(world: World, run: Run[Any]) -> list[TokenCounts]:
    """How it stood at its beginning, and after each of its steps."""
    found = events(world, run)
    numbers = [number for number, event in enumerate(found, 1) if isinstance(event, e.StartedEvent | e.SettledEvent)]
    views = [run_generator(view_at_event(run.key, found, number), world.machine.payload) for number in numbers]
    return [one.tokens for one in views if one is not None]


def in_turn(world: World, example: Example, *order: str, **does: Any) -> list[TokenCounts]:
    """How an example stood after each of its steps, which end in this order."""
    for number, name in enumerate(order):
        world.mock(name, calls=does.get(name, given), takes=(number + 1) / 10)
    made = defined(example, **does)
    run = world.start(made)
    _ = run.result()
    return stood(world, run)


def test_the_counter_of_the_sequential_flow_is_one_until_the_end(world: World) -> None:
    assert [one.counter for one in in_turn(world, NAMED["004_sequential"], "A", "B", "C")] == [1, 1, 1, 0]


def test_the_counter_of_the_fan_out_is_that_of_the_seed_with_its_tokens_held_at_the_join(world: World) -> None:
    found = in_turn(world, NAMED["004_fan_out"], "A", "B", "C", "D")
    assert [one.counter for one in found] == [1, 2, 2, 1, 0]
    assert [one.joins for one in found] == [{}, {}, {"D": ["B"]}, {}, {}]
    assert found[2].applied[-1] == "emit:B->D"
    assert found[3].applied[-3:] == ["emit:C->D", "consume:B->D", "consume:C->D"]


def test_the_counter_of_the_approval_is_zero_while_it_is_pending_and_the_execution_goes_on(world: World) -> None:
    made = defined(NAMED["004_approval"])
    run = world.start(made)
    world.skip("5m")
    assert (run.status, stood(world, run)[-1].counter, stood(world, run)[-1].approvals) == ("waiting_approval", 0, 1)
    befall(world, run, Voted("Approval"))
    assert [(one.counter, one.approvals) for one in stood(world, run)] == [(1, 0), (0, 1), (1, 0), (0, 0)]
    assert run.status == "completed"


def test_the_counter_of_the_agent_grows_by_as_many_as_it_names(world: World) -> None:
    made = defined(ROUTED, agent=lambda config, input: {"next_nodes": ["high_value_sales", "send_gift"], "reasoning": "it is large"})
    world.mock("high_value_sales", calls=given, takes=1)
    world.mock("send_gift", calls=given, takes=2)
    run = world.start(made)
    _ = run.result()
    found = stood(world, run)
    assert [one.counter for one in found] == [1, 1, 2, 1, 0]
    assert found[2].applied[-4:] == ["emit:Agent->high_value_sales", "emit:Agent->send_gift", "consume:Agent->high_value_sales", "consume:Agent->send_gift"]
    assert found[-1].outputs["Agent"]["reasoning"] == "it is large"


def test_the_counter_begins_with_a_token_for_each_entry(world: World) -> None:
    found = in_turn(world, NAMED["004_two_entries"], "A", "B", "C", "E")
    assert [one.counter for one in found] == [3, 3, 3, 1, 0]
    assert [one.joins for one in found] == [{}, {"E": ["A"]}, {"E": ["A", "B"]}, {}, {}]


def test_a_join_of_three_holds_its_tokens_until_the_last_is_there_and_sees_all(world: World) -> None:
    does = {"http": given, "search": lambda **_: ["news"], "function": given}
    found = in_turn(
        world,
        NAMED["004_enrichment"],
        "start",
        "fetch_news",
        "fetch_traffic",
        "fetch_weather",
        "combine",
        "display",
        **does,
        start=lambda **_: {"city": "Rome"},
    )
    assert [one.counter for one in found] == [1, 3, 3, 3, 1, 1, 0]
    assert [one.joins for one in found][2:5] == [{"combine": ["fetch_news"]}, {"combine": ["fetch_news", "fetch_traffic"]}, {}]
    assert set(found[-1].outputs["combine"]) == {"fetch_weather", "fetch_traffic", "fetch_news"}


@pytest.mark.parametrize(("takes", "order"), [((1, 1), "AB"), ((1, 2), "AB"), ((2, 1), "BA"), ((0, 0), "AB")])
def test_without_waiting_for_all_a_node_runs_once_for_each_token_with_what_that_brought(world: World, takes: tuple[int, int], order: str) -> None:
    for name, seconds in zip("AB", takes, strict=True):
        world.mock(name, returns={"by": name}, takes=seconds)
    run = world.start(defined(NAMED["004_each_token"]))
    _ = run.result()
    assert [run.step(path).kwargs["by"] for path in ("C", "C#2")] == list(order)


def test_in_a_loop_no_two_tokens_are_called_the_same(world: World) -> None:
    made = defined(NAMED["004_loop_back"], draft=lambda **_: {}, review=lambda **_: {"good": False})
    run = world.start(made)
    _ = run.result()
    found = stood(world, run)
    assert [one.counter for one in found] == [1] * 6 + [2, 1, 0]
    applied = found[-1].applied
    assert len(applied) == len(set(applied))
    assert sum(key.startswith("emit:") for key in applied) == sum(key.startswith("consume:") for key in applied) == 7


def test_what_stood_at_any_event_comes_from_the_log_alone(world: World) -> None:
    made = defined(NAMED["004_fan_out"])
    run = world.start(made)
    _ = run.result()
    before = stood(world, run)
    world.crash()
    assert stood(world, run) == before
    assert before[-1].outputs == {"A": None, "B": None, "C": None, "D": {"B": None, "C": None}}


def test_a_result_that_comes_twice_moves_its_token_once() -> None:
    @virtually
    async def claim(c: Cluster) -> None:
        both = definition(NAMED["004_fan_out"])
        flow = Definition.of(both, tools={name: Step(given, name=name, queue="elsewhere" if name == "B" else "") for name in "ABCD"}, name="flow")
        engine = await c.engine(flow)
        assert await c.start(engine, flow, {"x": 1})
        await settle(1)
        key = flow.key("e")
        (opened,) = [event for event in await c.events(key) if isinstance(event, e.OpenedEvent) and event.path == (("B", 1),)]
        for answer in ("first", "second"):
            await c.tell(key, messages.SettleMessage(opened.path, 1, Success(values.encode(answer, "answer"))))
        assert await c.result(engine, flow) == {"B": "first", "C": {"x": 1}}
        assert (await c.settled(key)).count("B") == 1

    claim()


def test_an_approval_keeps_who_may_decide_what_about_and_until_when(world: World) -> None:
    run = world.start(defined(NAMED["004_human"]), {"deal": 9})
    (asked,) = run.children()
    request = asked.query("approval")["request"]
    assert (request["assignees"], request["details"], request["timeout_s"]) == (["sales-manager@company.com"], {"deal": 9}, 48 * 3600)
    assert [one.path for one in run.steps()] == ["validate_high_value_deal", "manager_approval"]


def test_a_second_decision_is_refused_and_changes_nothing(world: World) -> None:
    run = world.start(defined(NAMED["004_approval"]), {"deal": 9})
    (asked,) = run.children()
    assert asked.ask("vote", Vote("ada", True, "fine")) == {"taken": True, "why": "", "decided": True}
    with pytest.raises(Exception, match="has ended"):
        asked.send("vote", Vote("bob", False))
    decided = {"decision": "approve", "comments": "fine", "decided_by": "ada", "decided_at": decided_at(run), "means": "message"}
    assert run.result() == {"deal": 9, **decided}


def decided_at(run: Run[Any]) -> str:
    """When the approval of a run was decided."""
    (asked,) = run.children()
    at_s: float = asked.result()["at_s"]
    return f"{datetime.fromtimestamp(at_s, UTC).isoformat()}".replace("+00:00", "Z")


def test_the_end_of_an_approvals_time_is_a_decision_of_the_system_in_the_payload(world: World) -> None:
    run = world.start(defined(NAMED["004_rejection"]), {"deal": 9})
    world.skip("1h")
    decided = {"decision": "timeout", "comments": "", "decided_by": "system", "decided_at": decided_at(run), "means": "timeout"}
    assert run.step("no").kwargs == {"deal": 9, **decided}
    said: Decision[Any] = Decision(True, {"channel": "beta"}, "ada", "fine", at_s=0.5, means="link")
    for payload, found in (([1, 2], {"payload": [1, 2]}), (None, {}), ({"decision": "?", "a": 1}, {"a": 1})):
        decided = {"decision": "approve", "comments": "fine", "decided_by": "ada", "decided_at": "1970-01-01T00:00:00.500000Z", "means": "link"}
        assert merged_decision(payload, said) == {**found, **decided, "form": {"channel": "beta"}}


def test_the_decision_goes_to_what_follows(world: World) -> None:
    run = world.start(defined(NAMED["004_rejection"]))
    befall(world, run, Voted("ask", False, comment="too dear"))
    assert run.step("no").kwargs == {"decision": "reject", "comments": "too dear", "decided_by": "ada", "decided_at": decided_at(run), "means": "message"}


def test_python_sees_what_the_nodes_before_came_to(world: World) -> None:
    nodes = [
        {"id": "last_month", "type": "task", "config": {"action": "LAST"}, "dependents": ["now"]},
        {"id": "now", "type": "task", "config": {"action": "NOW"}, "branch": _branch()},
        {"id": "holds", "type": "task"},
        {"id": "fails", "type": "task"},
    ]
    run = world.start(
        defined(Example("", {"nodes": nodes}, False, ""), LAST=lambda **_: {"revenue": 100}, NOW=lambda **_: {"revenue": 130, "churn_rate": 0.01})
    )
    _ = run.result()
    assert [one.path for one in run.steps() if one.kind == "call"][-1] == "holds"


def _branch() -> dict[str, Any]:
    return {"enabled": True, "rules": [{**NAMED["004_python_sandbox"].document, "next_nodes": ["holds"]}], "default": ["fails"]}


def test_a_patch_of_the_running_execution_is_seen_by_the_very_next_decision(world: World) -> None:
    run = world.start(made(definition(Example("", PROCESS, False, "")), {"email": given}))
    patched = patch_document(PROCESS, [*PATCH[:1], {"op": "add", "path": "/edges/-", "value": {"from": "wait", "to": "send_email"}}])
    run.patch(made(definition(Example("", patched, False, "")), {"email": given}))
    befall(world, run, Voted("wait"))
    assert run.step("send_email").kwargs == {"to": "ops@example.com"}
    assert run.status == "completed"


def test_a_node_that_the_patch_of_the_seed_puts_behind_one_that_is_done_runs_at_once(world: World) -> None:
    run = world.start(made(definition(Example("", PROCESS, False, "")), {"email": given}))
    run.patch(made(definition(Example("", patch_document(PROCESS, PATCH), False, "")), {"email": given}))
    assert run.status == "waiting_approval"
    assert run.step("send_email").kwargs == {"to": "ops@example.com"}


def test_an_execution_goes_on_by_the_version_that_it_began_with(world: World) -> None:
    run = world.start(made(definition(Example("", PROCESS, False, ""))))
    other = {**PROCESS, "nodes": [*PROCESS["nodes"][:2], {"id": "end", "type": "task", "config": {"action": "OTHER"}}]}
    world.restart(made(definition(Example("", other, False, "")), {"end": given}))  # an engine has the tools of all versions
    befall(world, run, Voted("wait"))
    assert run.step("end").target == "end"


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=60)
@pytest.mark.parametrize("name", ["004_fan_out", "004_loop_back", "004_approval"])
def test_wherever_its_process_is_killed_no_token_is_lost_and_none_is_new(world: World, name: str) -> None:
    made = defined(NAMED[name], draft=lambda **_: {}, review=lambda **_: {"good": False})
    run = world.start(made)
    if name == "004_approval":
        befall(world, run, Skip("5m"))
        befall(world, run, Voted("Approval"))
    _ = run.result()
    assert {"004_fan_out": [1, 2, 2, 1, 0], "004_loop_back": [1] * 6 + [2, 1, 0], "004_approval": [1, 0, 1, 0]}[name] == [
        one.counter for one in stood(world, run)
    ]


def test_what_was_charged_is_given_back_when_the_execution_fails(world: World) -> None:
    nodes = [{**NAMED["004_compensator"].document, "dependents": ["ship"]}, {"node_id": "ship", "type": "task", "retry": {"max_attempts": 1}}]
    made = defined(Example("", {"nodes": nodes}, False, ""), ship=broken, **{"stripe.charge": lambda **_: {"id": "ch_1"}})
    run = world.start(made)
    with pytest.raises(Exception, match="Broken: no"):
        run.result()
    assert run.step("~undo/charge_customer").kwargs == {"id": "ch_1"}
