"""Seed 004, what it says of definitions: its examples, and its drawings, as definitions that compile."""

from typing import Any

import pytest

from perdure.dialects import detected_dialect, read_foreign
from tests.seeds.definitions import definition, ir, step
from tests.seeds.examples import Example
from tests.seeds.examples_of_004 import EXAMPLES, NO_DEFINITIONS

NAMED = {example.name: example for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_each_example_compiles_in_the_order_of_its_ports(example: Example) -> None:
    compiled = ir(example)
    assert compiled.dialect == "token_graph"
    assert compiled.order == "ports"
    assert compiled.limits.max_fanout == 10


@pytest.mark.parametrize("name", NO_DEFINITIONS)
def test_signals_jobs_and_events_are_no_definitions(name: str) -> None:
    assert detected_dialect(NO_DEFINITIONS[name]) is None


def test_a_loop_over_the_node_itself_is_repeat_and_its_last_try_may_succeed() -> None:
    made = step(definition(NAMED["004_loop"]), "call_external_api")
    assert made["repeat"] == {"while": {"ref": "@self.status", "neq": 200}, "max": 5, "on_max": "error_dlq"}
    assert made["next"] == "process_response"


def test_a_loop_back_is_a_rule_that_is_taken_one_time_less_and_its_exits_are_no_entries() -> None:
    made = step(definition(NAMED["004_loop_back"]), "review")
    assert made["next"] == [
        {"when": {"expr": "!self.good", "source": "!output.good"}, "to": "draft", "max": 2, "on_max": ["give_up", "tell"]},
        {"to": "publish"},
    ]
    compiled = ir(NAMED["004_loop_back"])
    assert [compiled.nodes[number].id for number in compiled.regions[0].entries] == ["draft"]


def test_rules_stand_in_their_order_with_the_default_behind_them() -> None:
    made = step(definition(NAMED["004_branch"]), "score_customer")
    assert made["next"] == [
        {"when": {"all": [{"ref": "@self.score", "gte": 80}, {"ref": "@enrich_data.revenue", "gt": 100000}]}, "to": ["enterprise_sales", "send_gift"]},
        {"when": {"ref": "@self.score", "gte": 50}, "to": "standard_sales"},
        {"when": {"ref": "@self.score", "lt": 50}, "to": "nurture_campaign"},
        {"to": "manual_review"},
    ]
    assert step(definition(NAMED["004_exclusive"]), "A")["next"] == [
        {"when": {"ref": "@self.score", "gte": 80}, "to": "high_value"},
        {"when": {"ref": "@self.score", "gte": 50}, "to": "medium_value"},
        {"to": "low_value"},
    ]


def test_an_agent_chooses_from_a_closed_list() -> None:
    made = step(definition(NAMED["004_agent_branch"]), "qualify_lead_agent")
    assert made["next"] == {"choose": ["enterprise_sales", "standard_sales", "nurture_campaign", "disqualify"], "default": "manual_review"}
    assert made["agent"]["tools"] == ["search_database", "call_api"]


def test_joins_wait_for_all_or_run_once_per_token() -> None:
    assert "join" not in step(definition(NAMED["004_join"]), "merge_data")
    assert step(definition(NAMED["004_join"]), "merge_data")["with"] == {"fetch_user": "@fetch_user", "fetch_orders": "@fetch_orders"}
    assert step(definition(NAMED["004_each_token"]), "C") == {"join": "each", "tool": "C", "with": "@last"}


def test_people_have_their_time_and_a_policy_for_its_end() -> None:
    asked = step(definition(NAMED["004_human"]), "manager_approval")["approve"]
    assert (asked["assignees"], asked["timeout"], asked["on_timeout"]) == (["sales-manager@company.com"], 172800, "approve")
    made = step(definition(NAMED["004_rejection"]), "ask")
    assert (made["approve"]["on_timeout"], made["next"]) == ("reject", {"approved": "yes", "rejected": "no"})


def test_an_undo_node_undoes_with_the_result_of_its_node() -> None:
    made = step(definition(NAMED["004_compensator"]), "charge_customer")
    assert made["undo"] == {"tool": "stripe.refund", "with": "@self", "timeout": 60, "retry": {"max": 3}}


def test_references_to_nodes_stand_whole_and_inside_of_text() -> None:
    made = definition(NAMED["004_enrichment"])
    assert step(made, "fetch_weather")["http"] == {"url": "https://weather.example/now", "query": {"city": "@start.city"}}
    assert step(made, "fetch_traffic")["http"] == {"url": "https://traffic.example/@{start.city}"}


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("cel", {"all": [{"ref": "@self.status", "neq": 200}, {"ref": "@self.retry_count", "lt": 5}]}),
        ("schema_from_blob", {"ref": "@self", "matches": {"type": "object", "required": ["ok"]}}),
        ("jsonpath", {"ref": "$.data.customers[?(@.tier == 'enterprise')].length()", "gt": 0}),
        ("jsonpath_sum", {"ref": "$.transactions[*].amount", "sum": {"gt": 10000}}),
        ("cross_node", {"ref": "@self.final_score", "gt": "@initial_score.score"}),
        (
            "cross_node_expression",
            {
                "expr": "dyn((double(self.revenue) - double(forecast.predicted_revenue)) / double(forecast.predicted_revenue)) > 0.1",
                "source": "(current.output.revenue - ctx.forecast.output.predicted_revenue) / ctx.forecast.output.predicted_revenue > 0.1",
            },
        ),
        ("composite_or", {"any": [{"ref": "@self.score", "gte": 80}, {"ref": "@referral_check.is_referral", "eq": True}]}),
    ],
)
def test_each_type_of_condition_is_a_row_or_cel(name: str, row: dict[str, Any]) -> None:
    assert step(definition(NAMED[f"004_{name}"]), "checked")["next"] == [{"when": row, "to": "holds"}, {"to": "fails"}]


def test_an_unknown_type_of_condition_is_an_error() -> None:
    found = read_foreign({"nodes": [{"id": "a", "branch": {"rules": [{"condition": {"type": "regex"}, "next_nodes": ["b"]}]}}, {"id": "b"}]})
    assert found
    (finding,) = found.findings
    assert "unknown condition type: regex" in finding.message


@pytest.mark.parametrize("flag", [False, True])
def test_a_workflow_that_never_ends_has_to_say_so(flag: bool) -> None:
    nodes = [{"id": "a", "dependents": ["b"]}, {"id": "b", "dependents": ["a"]}]
    found = read_foreign({"nodes": nodes, "metadata": {"HasInfiniteLoopFlag": flag}})
    assert found
    assert [one.code for one in found.findings] == ([] if flag else ["no_end"])
    assert ("max_hops" in found.document["limits"]) is not flag
