"""What comes of the examples of seed 004, fragments of which are completed with steps that say what they are given."""

from typing import Any

from tests.definitions.graph.semantics.table import Broken, Skip, Voted
from tests.seeds.cases import ExampleCase, broken, given

FIVE = "call_external_api/~0 call_external_api/~1 call_external_api/~2 call_external_api/~3 call_external_api/~4"
PAID = "call_payment_api/~0 call_payment_api/~1 call_payment_api/~2 call_payment_api/~3 call_payment_api/~4"
UNUSED = "send_premium_confirmation update_crm send_standard_confirmation manual_review"
"""The branch of the payment, of which nothing comes as its loop says where it ends."""
ROUTES = ("enterprise_sales", "standard_sales", "nurture_campaign", "disqualify")
DEAL, BOSS = {"deal": 9}, "sales-manager@company.com"


def tried(status: str, code: str | None = None, amount: int = 5) -> dict[str, Any]:
    """What the payment API says."""
    return {"status": status, "error_code": code, "amount": amount}


def to(*ids: str) -> dict[str, Any]:
    """An agent that decides to go on there."""
    return {"agent": lambda config, input: {"next_nodes": list(ids), "reasoning": "the lead is large"}}


def judged(example: str, holds: bool, said: dict[str, Any], before: str = "") -> ExampleCase:
    """A condition about what a step says, in which the other step says the same."""
    end = "holds" if holds else "fails"
    return ExampleCase(f"{end} for {said}", example, said, ran=f"{before} checked {end}", result={end: said})


CONDITIONS = [
    judged("004_cel", True, {"status": 500, "retry_count": 4}),
    judged("004_cel", False, {"status": 500, "retry_count": 5}),
    judged("004_cel", False, {"status": 200, "retry_count": 0}),
    judged("004_cel", False, {"status": 500}),
    judged("004_cel_with_context", True, {"score": 80, "revenue": 100001}, "enrich_data"),
    judged("004_cel_with_context", False, {"score": 80, "revenue": 100000}, "enrich_data"),
    judged("004_cel_with_context", False, {"score": 79, "revenue": 100001}, "enrich_data"),
    judged("004_schema_from_blob", True, {"ok": None}),
    judged("004_schema_from_blob", False, {"no": True}),
    judged("004_jsonpath", True, {"data": {"customers": [{"tier": "free"}, {"tier": "enterprise"}]}}),
    judged("004_jsonpath", False, {"data": {"customers": [{"tier": "free"}]}}),
    judged("004_jsonpath", False, {"data": {}}),
    judged("004_jsonpath_sum", True, {"transactions": [{"amount": 9000}, {"amount": 1000.5}]}),
    judged("004_jsonpath_sum", False, {"transactions": [{"amount": 9000}, {"amount": 1000}]}),
    judged("004_cross_node", True, {"final_score": 8, "score": 7}, "initial_score"),
    judged("004_cross_node", False, {"final_score": 7, "score": 7}, "initial_score"),
    judged("004_cross_node_expression", True, {"revenue": 112, "predicted_revenue": 100}, "forecast"),
    judged("004_cross_node_expression", False, {"revenue": 110, "predicted_revenue": 100}, "forecast"),
    judged("004_composite_and", True, {"status": "failed", "errors": [1, 2]}),
    judged("004_composite_and", False, {"status": "success", "errors": []}),
    judged("004_composite_and", False, {"status": "failed", "errors": [1, 2, 3]}),
    judged("004_composite_or", True, {"score": 80, "is_referral": False}, "referral_check"),
    judged("004_composite_or", True, {"score": 10, "is_referral": True}, "referral_check"),
    judged("004_composite_or", False, {"score": 79, "is_referral": False}, "referral_check"),
    judged("004_python_sandbox", False, {"revenue": 130, "churn_rate": 0.01}),
]

LOOPS = [
    ExampleCase(
        "the schema is matched at once", "004_schema_loop", {"status": "success", "data": [1]}, ran="checked/~0", result={"status": "success", "data": [1]}
    ),
    ExampleCase("never matched: three times", "004_schema_loop", {"status": "success", "data": []}, ran="checked/~0 checked/~1 checked/~2"),
    ExampleCase(
        "at once: it goes on",
        "004_loop",
        answers={"svc.http": [{"status": 200}]},
        ran="prepare_request call_external_api/~0 process_response",
        result={"process_response": {"status": 200}},
    ),
    ExampleCase(
        "success on the fifth try is success",
        "004_loop",
        answers={"svc.http": [{"status": 500}] * 4 + [{"status": 200}]},
        ran=f"prepare_request {FIVE} process_response",
        result={"process_response": {"status": 200}},
    ),
    ExampleCase(
        "after the fifth failure the timeout path",
        "004_loop",
        answers={"svc.http": [{"status": 500}] * 5},
        ran=f"prepare_request {FIVE} error_dlq",
        result={"error_dlq": {"status": 500}},
    ),
    ExampleCase(
        "good the first time",
        "004_loop_back",
        does={"review": lambda **_: {"good": True}, "draft": lambda **_: {}},
        ran="draft/~0/draft draft/~0/review publish",
        result={"publish": {"good": True}},
    ),
    ExampleCase(
        "good the third time",
        "004_loop_back",
        answers={"review": [{"good": False}, {"good": False}, {"good": True}]},
        does={"draft": lambda **_: {}},
        ran="draft/~0/draft draft/~0/review draft/~1/draft draft/~1/review draft/~2/draft draft/~2/review publish",
        result={"publish": {"good": True}},
    ),
    ExampleCase(
        "never good: both ways of its timeout",
        "004_loop_back",
        does={"review": lambda **_: {"good": False}, "draft": lambda **_: {}},
        ran="draft/~0/draft draft/~0/review draft/~1/draft draft/~1/review draft/~2/draft draft/~2/review give_up tell",
        result={"give_up": {"good": False}, "tell": {"good": False}},
    ),
    ExampleCase("round until its hops are used up", "004_endless", failed="exceeded_max_hops: more than 50 transitions were taken"),
    ExampleCase(
        "paid at once",
        "004_payment",
        skipped=UNUSED,
        input={"final_amount": 5},
        answers={"call_payment_api": [tried("success")]},
        ran="calculate_total call_payment_api/~0 confirm_payment",
        result={"confirm_payment": tried("success")},
    ),
    ExampleCase(
        "every error that may pass, then paid with the last try",
        "004_payment",
        skipped=UNUSED,
        input={"final_amount": 5},
        answers={"call_payment_api": [tried("failed", code) for code in ("TIMEOUT", "RATE_LIMIT", "TEMP_ERROR", "TIMEOUT")] + [tried("success")]},
        ran=f"calculate_total {PAID} confirm_payment",
        result={"confirm_payment": tried("success")},
    ),
    ExampleCase(
        "after the fifth failure: the customer is refunded",
        "004_payment",
        skipped=UNUSED,
        input={"final_amount": 5},
        answers={"call_payment_api": [tried("failed", "TIMEOUT")] * 5},
        ran=f"calculate_total {PAID} refund_customer",
        result={"refund_customer": tried("failed", "TIMEOUT")},
    ),
    ExampleCase(
        "an error that will not pass is not tried again",
        "004_payment",
        skipped=UNUSED,
        input={"final_amount": 5},
        answers={"call_payment_api": [tried("failed", "CARD_DECLINED")]},
        ran="calculate_total call_payment_api/~0 confirm_payment",
        result={"confirm_payment": tried("failed", "CARD_DECLINED")},
    ),
    ExampleCase(
        "nor is another amount",
        "004_payment",
        skipped=UNUSED,
        input={"final_amount": 6},
        answers={"call_payment_api": [tried("failed", "TIMEOUT")]},
        ran="calculate_total call_payment_api/~0 confirm_payment",
    ),
]

ROUTED = [
    ExampleCase(
        "large and rich: two ways",
        "004_branch",
        {"revenue": 200000},
        does={"svc.scoring": lambda **_: {"score": 90}},
        ran="enrich_data score_customer enterprise_sales send_gift",
    ),
    ExampleCase(
        "large and poor: the second rule",
        "004_branch",
        {"revenue": 100},
        does={"svc.scoring": lambda **_: {"score": 90}},
        ran="enrich_data score_customer standard_sales",
    ),
    ExampleCase(
        "60: the second rule",
        "004_branch",
        {"revenue": 200000},
        does={"svc.scoring": lambda **_: {"score": 60}},
        ran="enrich_data score_customer standard_sales",
    ),
    ExampleCase(
        "10: the third", "004_branch", {"revenue": 1}, does={"svc.scoring": lambda **_: {"score": 10}}, ran="enrich_data score_customer nurture_campaign"
    ),
    ExampleCase("no score: the default", "004_branch", {"revenue": 1}, does={"svc.scoring": lambda **_: {}}, ran="enrich_data score_customer manual_review"),
    *(ExampleCase(f"the agent says {name}", "004_agent_branch", does=to(name), ran=f"enrich_data qualify_lead_agent {name}") for name in ROUTES),
    ExampleCase(
        "the agent names two", "004_agent_branch", does=to("enterprise_sales", "disqualify"), ran="enrich_data qualify_lead_agent enterprise_sales disqualify"
    ),
    ExampleCase("the agent names none", "004_agent_branch", does=to(), ran="enrich_data qualify_lead_agent manual_review"),
    ExampleCase(
        "the agent names one that is not in its list",
        "004_agent_branch",
        does=to("enterprise_sales", "wire_money"),
        ran="enrich_data qualify_lead_agent",
        failed="qualify_lead_agent chose the step 'wire_money', which is not allowed; choose one of enterprise_sales, standard_sales",
    ),
    *(
        ExampleCase(f"{score}: {name}", "004_exclusive", {"score": score}, ran=f"A {name}", result={name: {"score": score}})
        for score, name in ((80, "high_value"), (79, "medium_value"), (50, "medium_value"), (49, "low_value"))
    ),
    ExampleCase(
        "approved: the account",
        "004_human",
        DEAL,
        script=(Skip("47h"), Voted("manager_approval", by=BOSS)),
        took=47 * 3600,
        ran="validate_high_value_deal manager_approval setup_enterprise_account",
    ),
    ExampleCase("nobody for 48 h: as well", "004_human", DEAL, took=48 * 3600, ran="validate_high_value_deal manager_approval setup_enterprise_account"),
    ExampleCase(
        "rejected: the path ends",
        "004_human",
        DEAL,
        script=(Voted("manager_approval", False, by=BOSS),),
        took=0,
        ran="validate_high_value_deal manager_approval",
    ),
    ExampleCase("approved: yes", "004_rejection", script=(Voted("ask"),), ran="ask yes"),
    ExampleCase("rejected: no", "004_rejection", script=(Voted("ask", approve=False),), ran="ask no"),
    ExampleCase("nobody for an hour: no", "004_rejection", took=3600, ran="ask no"),
    ExampleCase("a person between two steps", "004_approval", {"x": 1}, script=(Skip("5m"), Voted("Approval")), ran="A Approval B"),
]

JOINED = [
    ExampleCase(
        "once, with both, when the second is there",
        "004_join",
        {"x": 1},
        takes={"fetch_user": "1s", "fetch_orders": "3s"},
        ran="fetch_user fetch_orders merge_data",
        took=3,
        result={"fetch_user": {"x": 1}, "fetch_orders": {"x": 1}},
    ),
    ExampleCase("three tries, each later than the one before", "004_task", does={"svc.validate": broken}, tries={"validate_customer": 3}, failed="Broken: no"),
    ExampleCase("thirty seconds a try", "004_task", takes={"svc.validate": "31s"}, tries={"validate_customer": 3}, failed="30 s"),
    ExampleCase(
        "the third try succeeds, and both follow",
        "004_task",
        answers={"svc.validate": [Broken("no"), Broken("no"), 1]},
        ran="validate_customer kyc_check credit_check",
        took=None,
    ),
    ExampleCase("one after the other", "004_sequential", {"x": 1}, ran="A B C", result={"x": 1}),
    ExampleCase(
        "two at once, and once behind both", "004_fan_out", {"x": 1}, takes={"B": "1s", "C": "2s"}, ran="A B C D", took=2, result={"B": {"x": 1}, "C": {"x": 1}}
    ),
    ExampleCase(
        "three sources at once, and once with all of them",
        "004_enrichment",
        {"city": "Rome"},
        does={"http": lambda config, input=None: 200, "search": lambda **_: ["news"], "function": given},
        ran="start fetch_weather fetch_traffic fetch_news combine display",
        result={"fetch_weather": 200, "fetch_traffic": 200, "fetch_news": ["news"]},
    ),
    ExampleCase("all begin at once, and one waits for all", "004_two_entries", takes={"A": "1s", "B": "2s", "C": "3s"}, ran="A B C E", took=3),
    ExampleCase(
        "once for each token, with what that brought",
        "004_each_token",
        does={"A": lambda **_: {"by": "A"}, "B": lambda **_: {"by": "B"}},
        takes={"A": "1s", "B": "1s"},
        ran="A B C C#2",
    ),
    ExampleCase("charged", "004_compensator", {"amount": 5}, ran="charge_customer", result={"amount": 5}),
    ExampleCase(
        "goes on in the other version, with what is made of the input",
        "004_migration",
        {"x": 1},
        does={"ts": lambda config, input: {**input["input"], "since": input["from_version"]}},
        calls=("untitled@2.0.0",),
        ran="version_handover version_handover_to version_handover_end",
        result={"x": 1, "since": "1.0"},
        children=(("untitled", "completed", {"x": 1, "since": "1.0"}),),
    ),
    ExampleCase("the other version is not here", "004_migration", does={"ts": lambda config, input: {}}, failed="there is no version 2.0 of untitled"),
]

CASES = [*CONDITIONS, *LOOPS, *ROUTED, *JOINED]
