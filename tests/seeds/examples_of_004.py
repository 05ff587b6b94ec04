"""The examples of seed 004, as they stand there, and its drawings as documents."""

from __future__ import annotations

from typing import Any

from tests.seeds.example import Example

PYTHON = "def evaluate(output, context):\n    \"\"\"\n    output: current node output\n    context: dict of all previous node outputs\n    \"\"\"\n    # Complex business logic\n    revenue = output.get('revenue', 0)\n    previous_revenue = context.get('last_month', {}).get('output', {}).get('revenue', 0)\n\n    growth_rate = (revenue - previous_revenue) / previous_revenue if previous_revenue > 0 else 0\n\n    # Multi-factor decision\n    if growth_rate > 0.2 and output.get('churn_rate', 1) < 0.05:\n        return True\n\n    return False\n"

BLOBS: dict[str, Any] = {
    **{f"sha256:{name}": {} for name in ("cfg001", "cfg002", "cfg003", "cfg004")},
    "cas://sha256:payment_config": {},
    "cas://sha256:schema123": {"type": "object", "required": ["ok"]},
    "cas://sha256:retry_schema": {"type": "object", "required": ["status"]},
    "cas://sha256:python_evaluator": PYTHON,
    "cas://sha256:transform_script": "export default ({input, from_version}) => ({...input, since: from_version})",
}
"""What its references to content stand for; the seed gives the Python only."""

EXAMPLES = [
    Example(
        "004_join",
        {"id": "merge_data", "type": "task", "dependencies": ["fetch_user", "fetch_orders"], "wait_for_all": True},
        True,
        "waits for fetch_user and fetch_orders, runs once with {fetch_user, fetch_orders}",
    ),
    Example(
        "004_task",
        {
            "node_id": "validate_customer",
            "type": "task",
            "config_ref": {"type_url": "svc.validate/Config@1", "cas_ref": "sha256:cfg001"},
            "dependencies": [],
            "dependents": ["kyc_check", "credit_check"],
            "retry": {"max_attempts": 3, "backoff_ms": 1000},
            "limits": {"deadline_s": 30, "max_hops": 100},
        },
        True,
        "three tries, 1 s apart and doubling; 30 s a try; then kyc_check and credit_check, both",
    ),
    Example(
        "004_loop",
        {
            "node_id": "call_external_api",
            "type": "task",
            "config_ref": {"type_url": "svc.http/Config@1", "cas_ref": "sha256:cfg002"},
            "dependencies": ["prepare_request"],
            "dependents": ["process_response"],
            "loop": {
                "enabled": True,
                "condition": {"type": "cel", "expression": "output.status != 200"},
                "max_iterations": 5,
                "loop_back_to": "call_external_api",
                "break_path": ["process_response"],
                "timeout_path": ["error_dlq"],
            },
        },
        True,
        "again as long as status is not 200, five times at most; then process_response; after the fifth failure error_dlq; success on the fifth is success",
    ),
    Example(
        "004_branch",
        {
            "node_id": "score_customer",
            "type": "task",
            "config_ref": {"type_url": "svc.scoring/Config@1", "cas_ref": "sha256:cfg003"},
            "dependencies": ["enrich_data"],
            "dependents": [],
            "branch": {
                "enabled": True,
                "type": "conditional",
                "rules": [
                    {
                        "condition": {"type": "cel", "expression": "output.score >= 80 && ctx.enrich_data.output.revenue > 100000"},
                        "next_nodes": ["enterprise_sales", "send_gift"],
                    },
                    {"condition": {"type": "cel", "expression": "output.score >= 50"}, "next_nodes": ["standard_sales"]},
                    {"condition": {"type": "cel", "expression": "output.score < 50"}, "next_nodes": ["nurture_campaign"]},
                ],
                "default": ["manual_review"],
            },
        },
        True,
        "score 90 and revenue 200000: enterprise_sales and send_gift; 60: standard_sales; 10: nurture_campaign; no score: manual_review",
    ),
    Example(
        "004_agent_branch",
        {
            "node_id": "qualify_lead_agent",
            "type": "agent",
            "config_ref": {"type_url": "svc.agent/Config@1", "cas_ref": "sha256:cfg004"},
            "dependencies": ["enrich_data"],
            "dependents": [],
            "branch": {
                "enabled": True,
                "type": "agent_driven",
                "available_next_nodes": ["enterprise_sales", "standard_sales", "nurture_campaign", "disqualify"],
                "default": ["manual_review"],
            },
            "agent_config": {"model": "gpt-4", "temperature": 0.3, "available_tools": ["search_database", "call_api"]},
        },
        True,
        "goes to those of the four that the agent names, else to manual_review; to name another one is an error",
    ),
    Example(
        "004_human",
        {
            "node_id": "manager_approval",
            "type": "human",
            "config_ref": {"type_url": "svc.human/Config@1", "cas_ref": "sha256:cfg004"},
            "dependencies": ["validate_high_value_deal"],
            "dependents": ["setup_enterprise_account"],
            "human_config": {
                "timeout_hours": 48,
                "approvers": ["sales-manager@company.com"],
                "escalation_policy": "auto_approve_after_timeout",
                "approval_ui_url": "https://approvals.company.com",
            },
        },
        True,
        "waits 48 h for sales-manager@company.com; approved, also by the end of that time: setup_enterprise_account; rejected: the path ends",
    ),
    Example(
        "004_cel",
        {"condition": {"type": "cel", "expression": "output.status != 200 && output.retry_count < 5"}},
        True,
        "status 500 and retry_count 4: holds; status 200: fails",
    ),
    Example(
        "004_cel_with_context",
        {"condition": {"type": "cel", "expression": "output.score >= 80 && ctx.enrich_data.output.revenue > 100000"}},
        True,
        "score 80 and a revenue of enrich_data of 100001: holds; of 100000: fails",
    ),
    Example(
        "004_schema_loop",
        {
            "loop": {
                "enabled": True,
                "condition": {
                    "type": "schema_validation",
                    "schema": {
                        "type": "object",
                        "required": ["status", "data"],
                        "properties": {"status": {"const": "success"}, "data": {"type": "array", "minItems": 1}},
                    },
                    "invert": True,
                },
                "max_iterations": 3,
            }
        },
        True,
        "again as long as {status: success, data: [at least one]} is not matched, three times at most",
    ),
    Example(
        "004_schema_from_blob",
        {"condition": {"type": "schema_validation", "schema_ref": "cas://sha256:schema123"}},
        True,
        "holds if the output matches the schema of BLOBS",
    ),
    Example(
        "004_jsonpath",
        {"condition": {"type": "jsonpath", "query": "$.data.customers[?(@.tier == 'enterprise')].length()", "operator": ">", "value": 0}},
        True,
        "holds if there is a customer whose tier is enterprise",
    ),
    Example(
        "004_jsonpath_sum",
        {"condition": {"type": "jsonpath", "query": "$.transactions[*].amount", "operator": "sum_gt", "value": 10000}},
        True,
        "holds if the amounts are more than 10000 together",
    ),
    Example(
        "004_cross_node",
        {
            "condition": {
                "type": "cross_node_comparison",
                "left": {"source": "current", "path": "output.final_score"},
                "operator": ">",
                "right": {"source": "context", "node": "initial_score", "path": "output.score"},
            }
        },
        True,
        "holds if final_score is more than the score of initial_score",
    ),
    Example(
        "004_cross_node_expression",
        {
            "condition": {
                "type": "cross_node_comparison",
                "expression": "(current.output.revenue - ctx.forecast.output.predicted_revenue) / ctx.forecast.output.predicted_revenue > 0.1",
            }
        },
        True,
        "revenue 112 where 100 was predicted: holds; 110: fails",
    ),
    Example(
        "004_composite_and",
        {
            "condition": {
                "type": "composite",
                "operator": "AND",
                "conditions": [
                    {"type": "cel", "expression": "output.status != 'success'"},
                    {"type": "jsonpath", "query": "$.errors.length()", "operator": "<", "value": 3},
                    {"type": "schema_validation", "schema_ref": "cas://sha256:retry_schema"},
                ],
            }
        },
        True,
        "holds if status is not success, there are fewer than 3 errors, and the schema of BLOBS is matched",
    ),
    Example(
        "004_composite_or",
        {
            "condition": {
                "type": "composite",
                "operator": "OR",
                "conditions": [
                    {"type": "cel", "expression": "output.score >= 80"},
                    {
                        "type": "cross_node_comparison",
                        "left": {"source": "context", "node": "referral_check", "path": "output.is_referral"},
                        "operator": "==",
                        "right": {"value": True},
                    },
                ],
            }
        },
        True,
        "holds if the score is at least 80, or is_referral of referral_check is true",
    ),
    Example(
        "004_python_sandbox",
        {"condition": {"type": "python_sandbox", "code_ref": "cas://sha256:python_evaluator", "timeout_ms": 1000, "max_memory_mb": 50}},
        True,
        "revenue 130 after 100 and churn_rate 0.01: holds; churn_rate 0.2: fails",
    ),
    Example(
        "004_payment",
        {
            "node_id": "call_payment_api",
            "type": "task",
            "config_ref": "cas://sha256:payment_config",
            "loop": {
                "enabled": True,
                "condition": {
                    "type": "composite",
                    "operator": "AND",
                    "conditions": [
                        {"type": "cel", "expression": "output.status != 'success'"},
                        {"type": "jsonpath", "query": "$.error_code", "operator": "in", "value": ["TIMEOUT", "RATE_LIMIT", "TEMP_ERROR"]},
                        {
                            "type": "cross_node_comparison",
                            "left": {"source": "current", "path": "output.amount"},
                            "operator": "==",
                            "right": {"source": "context", "node": "calculate_total", "path": "output.final_amount"},
                        },
                    ],
                },
                "max_iterations": 5,
                "loop_back_to": "call_payment_api",
                "break_path": ["confirm_payment"],
                "timeout_path": ["refund_customer"],
            },
            "branch": {
                "enabled": True,
                "type": "conditional",
                "rules": [
                    {
                        "condition": {"type": "cel", "expression": "output.status == 'success' && output.amount >= 1000"},
                        "next_nodes": ["send_premium_confirmation", "update_crm"],
                    },
                    {"condition": {"type": "cel", "expression": "output.status == 'success'"}, "next_nodes": ["send_standard_confirmation"]},
                ],
                "default": ["manual_review"],
            },
        },
        True,
        "again on TIMEOUT, RATE_LIMIT and TEMP_ERROR with the calculated amount, five times at most; then confirm_payment; after the fifth failure refund_customer",
    ),
    Example(
        "004_compensator",
        {
            "node_id": "charge_customer",
            "type": "task",
            "config": {"action": "stripe.charge"},
            "compensator": {"action": "stripe.refund", "timeout_sec": 60, "retry": 3},
        },
        True,
        "charged; if the execution fails later, stripe.refund is given what stripe.charge returned, 60 s and three tries",
    ),
    Example(
        "004_migration",
        {
            "node_id": "version_handover",
            "type": "migration",
            "config": {"from_version": "1.0", "to_version": "2.0", "transform": "cas://sha256:transform_script"},
        },
        True,
        "goes on in version 2.0, with what the transform makes of it",
    ),
    Example(
        "004_sequential",
        {
            "nodes": [{"id": "A", "type": "task"}, {"id": "B", "type": "task"}, {"id": "C", "type": "task"}],
            "edges": [{"from": "A", "to": "B"}, {"from": "B", "to": "C"}],
        },
        False,
        "A, B, C; tokens 1, 1, 1, 0",
    ),
    Example(
        "004_fan_out",
        {
            "nodes": [
                {"id": "A", "type": "task"},
                {"id": "B", "type": "task"},
                {"id": "C", "type": "task"},
                {"id": "D", "type": "task", "wait_for_all": True, "dependencies": ["B", "C"]},
            ],
            "edges": [{"from": "A", "to": "B"}, {"from": "A", "to": "C"}, {"from": "B", "to": "D"}, {"from": "C", "to": "D"}],
        },
        False,
        "A, then B and C, then D once with {B, C}; tokens 1, 2, 2, 1, 0",
    ),
    Example(
        "004_approval",
        {
            "nodes": [{"id": "A", "type": "task"}, {"id": "Approval", "type": "human"}, {"id": "B", "type": "task"}],
            "edges": [{"from": "A", "to": "Approval"}, {"from": "Approval", "to": "B"}],
        },
        False,
        "A, a person, B; tokens 1, 0 and one approval pending, 1, 0",
    ),
    Example(
        "004_exclusive",
        {
            "nodes": [
                {"id": name, "type": "task", "config": {"action": "ECHO", "score": "$inputs.score"}}
                for name in ("A", "high_value", "medium_value", "low_value")
            ],
            "edges": [
                {"from": "A", "to": "high_value", "condition": "output.score >= 80"},
                {"from": "A", "to": "medium_value", "condition": {"type": "cel", "expression": "output.score >= 50"}},
                {"from": "A", "to": "low_value"},
            ],
        },
        False,
        "one of the three runs, and the execution is completed",
    ),
    Example(
        "004_enrichment",
        {
            "metadata": {"name": "enrichment"},
            "nodes": {
                "start": {"type": "task", "dependents": ["fetch_weather", "fetch_traffic", "fetch_news"]},
                "fetch_weather": {
                    "type": "http",
                    "config": {"url": "https://weather.example/now", "params": {"city": "$nodes.start.city"}},
                    "dependencies": ["start"],
                    "dependents": ["combine"],
                },
                "fetch_traffic": {"type": "http", "config": {"url": "https://traffic.example/${$nodes.start.city}"}, "dependents": ["combine"]},
                "fetch_news": {"type": "search", "dependents": ["combine"]},
                "combine": {
                    "type": "function",
                    "wait_for_all": True,
                    "dependencies": ["fetch_weather", "fetch_traffic", "fetch_news"],
                    "dependents": ["display"],
                },
                "display": {"type": "task", "timeout_ms": 1500, "retry": {"max_attempts": 2, "backoff_ms": 500}},
            },
        },
        False,
        "the three at once, combine once with all three, display",
    ),
    Example(
        "004_loop_back",
        {
            "nodes": [
                {"id": "draft", "type": "task", "dependents": ["review"]},
                {
                    "id": "review",
                    "type": "task",
                    "dependencies": ["draft"],
                    "loop": {
                        "enabled": True,
                        "condition": {"type": "cel", "expression": "!output.good"},
                        "max_iterations": 3,
                        "loop_back_to": "draft",
                        "break_path": ["publish"],
                        "timeout_path": ["give_up", "tell"],
                    },
                },
                {"id": "publish", "type": "task"},
                {"id": "give_up", "type": "task"},
                {"id": "tell", "type": "task"},
            ]
        },
        False,
        "draft and review at most three times; good, also the third time: publish; never: give_up and tell",
    ),
    Example(
        "004_two_entries",
        {
            "nodes": [
                {"id": "A", "type": "task", "dependents": ["E"]},
                {"id": "B", "type": "task", "dependents": ["E"]},
                {"id": "C", "type": "task", "dependents": ["E"]},
                {"id": "E", "type": "task", "dependencies": ["A", "B", "C"], "wait_for_all": True},
            ]
        },
        False,
        "A, B and C begin at once; E runs once, when all three are done",
    ),
    Example(
        "004_each_token",
        {
            "nodes": [
                {"id": "A", "type": "task", "dependents": ["C"]},
                {"id": "B", "type": "task", "dependents": ["C"]},
                {"id": "C", "type": "task", "dependencies": ["A", "B"]},
            ]
        },
        False,
        "without wait_for_all C runs twice, once with what A returned and once with what B did",
    ),
    Example(
        "004_rejection",
        {
            "nodes": [
                {"id": "ask", "type": "human", "human_config": {"timeout_hours": 1}, "dependents": ["yes"], "rejection_path": ["no"]},
                {"id": "yes", "type": "task"},
                {"id": "no", "type": "task"},
            ]
        },
        False,
        "approved: yes; rejected, or nobody for an hour: no",
    ),
    Example(
        "004_endless",
        {
            "metadata": {"HasInfiniteLoopFlag": True, "max_hops": 50},
            "nodes": [{"id": "poll", "type": "task", "dependents": ["handle"]}, {"id": "handle", "type": "task", "dependents": ["poll"]}],
        },
        False,
        "goes round until its 50 hops are used up",
    ),
]

PATCH: list[dict[str, Any]] = [
    {"op": "add", "path": "/nodes/-", "value": {"id": "send_email", "type": "task", "config": {"action": "email", "to": "ops@example.com"}}},
    {"op": "add", "path": "/edges/-", "value": {"from": "process_data", "to": "send_email"}},
]
"""The patch of the seed: one node and one edge more."""

NO_DEFINITIONS: dict[str, dict[str, Any]] = {
    "completion_signal": {
        "run_id": "run_123",
        "node_id": "process_data",
        "result_ref": "cas://sha256:abc...",
        "status": "completed",
        "metadata": {"execution_time_ms": 1234, "retries": 0},
    },
    "agent_job": {
        "version": "1.0",
        "job_id": "550e8400-...",
        "run_id": "run-2024-001",
        "node_id": "agent_analyze_data",
        "workflow_tag": "main",
        "user_id": "sdutt",
        "prompt": "fetch flight prices NYC to LAX, sort by price, show top 3",
        "context": {
            "previous_results": [{"node_id": "fetch_data", "result_ref": "cas://sha256:abc123", "preview": {"count": 150}}],
            "session_id": "sess-xyz789",
        },
        "timeout_sec": 300,
        "retry_count": 0,
    },
    "agent_result": {
        "version": "1.0",
        "job_id": "550e8400-...",
        "status": "completed",
        "result_ref": "artifact://uuid-result-id",
        "result_preview": {"type": "dataset", "row_count": 3, "sample": [{"airline": "Delta", "price": 299}]},
        "metadata": {"tool_calls": [{"tool": "execute_pipeline", "args": {"pipeline": []}}], "tokens_used": 1523, "cache_hit": True, "llm_model": "gpt-4o"},
    },
    "execute_pipeline": {
        "tool": "execute_pipeline",
        "args": {
            "session_id": "sess-123",
            "pipeline": [
                {"step": "http_request", "url": "api.flights.com/search", "params": {"origin": "NYC", "dest": "LAX"}},
                {"step": "table_sort", "field": "price", "order": "asc"},
                {"step": "top_k", "k": 3},
            ],
        },
    },
    "search_tools": {"tool": "search_tools", "args": {"query": "flight price comparison", "limit": 10}},
    "openapi_action": {
        "tool": "openapi_action",
        "args": {
            "openapi_url": "https://api.weather.com/openapi.json",
            "operation_id": "getCurrentWeather",
            "params": {"city": "New York"},
            "auth_profile": "weatherapi",
        },
    },
    "delegate_to_agent": {"tool": "delegate_to_agent", "args": {"agent_type": "code_interpreter", "inputs": {"code": "import pandas as pd\n..."}}},
    "event": {
        "event_id": "018d-event-001",
        "run_id": "018d-run-123",
        "event_type": "node.consumed",
        "sequence_num": 1,
        "timestamp": "2025-10-13T10:00:01.123Z",
        "event_data": {"node_id": "validate_customer", "token_id": "018d-token-002", "counter_before": 1, "counter_after": 0, "hop": 1, "attempt": 1},
    },
    "token": {"run_id": "run_123", "wf_version": "1.0", "token_id": "..."},
    "event_consumed": {
        "event_type": "node.consumed",
        "sequence_num": 1,
        "node_id": "validate_customer",
        "token_id": "018d-token-002",
        "counter_before": 1,
        "counter_after": 0,
        "timestamp": "2025-10-13T10:00:01.123Z",
    },
    "event_emitted": {
        "event_type": "node.emitted",
        "sequence_num": 2,
        "node_id": "validate_customer",
        "to_nodes": ["kyc_check", "credit_check"],
        "counter_before": 0,
        "counter_after": 2,
        "output_cas_ref": "cas://sha256:abc123",
        "timestamp": "2025-10-13T10:00:02.456Z",
    },
    "patch_workflow": {
        "tool": "patch_workflow",
        "args": {
            "workflow_tag": "main",
            "patch_spec": {
                "operations": [
                    {"op": "add", "path": "/nodes/-", "value": {"id": "send_email", "type": "task", "config": {"action": "email", "to": "ops@example.com"}}},
                    {"op": "add", "path": "/edges/-", "value": {"from": "process_data", "to": "send_email"}},
                ],
                "description": "Add email notification",
            },
        },
    },
}
"""What the seed shows beside definitions: signals, jobs, events, calls of an agent's tools."""
