"""What comes of the examples of the format's own description."""

from typing import Any

from perdure.definitions.graph.step_kind import KindResult
from tests.definitions.graph.semantics.table import ANYTHING, Skip, Voted
from tests.seeds.cases import ExampleCase, given
from tests.seeds.cases_of_000 import create_user

PEOPLE = [{"email": "bob@example.com"}, {"email": "cy@example.com"}]
NIGHT = "test gate gate/images/amd64 gate/images/arm64 gate/sign_off gate/smoke/~0 gate/smoke/~1 gate/publish"
ASKED = {"id": 5, "text": "It broke", "messages": ["a", "b", "c"]}
OPS = "ops@company.com"


def validate(config: str, input: dict[str, Any]) -> dict[str, Any]:
    """The code of the step `validate`."""
    assert config.startswith("export default function (input")
    ok = bool(input["email"])
    return {"ok": ok, "error": None if ok else "Email required"}


def shell(exit_code: int) -> dict[str, Any]:
    """A shell in which every command ends so."""
    return {
        "bash": lambda config, input=None, env=None: {"exit_code": exit_code, "stdout": f"{config if isinstance(config, str) else config['command']} {env}"}
    }


def confident(confidence: float) -> dict[str, Any]:
    """A model that is so sure."""
    return {"llm": lambda config, input=None: KindResult({"label": "bug", "confidence": confidence}, {"finish": "stop"})}


def charge(*answers: dict[str, Any]) -> dict[str, list[Any]]:
    """What CHARGE says, one for each turn."""
    return {"CHARGE": [{"id": "ch_1", "amount": 1500, "error_code": None, **answer} for answer in answers]}


def paying(claim: str, status: list[str], ran: str, amount: int = 1500, **more: Any) -> ExampleCase:
    """A payment that comes to these states, one after the other."""
    turns = charge(*({"status": one, "amount": amount, "error_code": "TIMEOUT" if one == "failed" else None} for one in status))
    does = {"TOTAL": lambda **_: {"final_amount": amount}, "agent": lambda config, input=None: {"next": "fraud"}} | more.pop("does", {})
    called = " ".join(f"call_payment_api/~{number}" for number in range(len(status)))
    return ExampleCase(claim, "format_payment", answers=turns, does=does, ran=f"calculate_total {called} {ran}", **more)


def condition(number: int, holds: bool, said: dict[str, Any]) -> ExampleCase:
    """One of the conditions, of which all other steps say the same."""
    end = "holds" if holds else "fails"
    return ExampleCase(f"{end} for {said}", f"format_condition_{number}", said, result=ANYTHING, targets={end: "ECHO"})


CASES = [
    ExampleCase(
        "no address: it returns the error",
        "format_signup",
        does={"ts": validate, "CREATE_USER": create_user},
        ran="validate exit_if_invalid",
        result={"error": "Email required"},
    ),
    ExampleCase(
        "an address: the user is created, and all are invited",
        "format_signup",
        {"email": "ann@example.com", "contacts": PEOPLE},
        does={"ts": validate, "CREATE_USER": create_user},
        ran="validate create_user invite/~0 invite/~1",
        skipped="exit_if_invalid",
        result={"user": 7, "invited": [{"to": one["email"], "from": 7, "nth": nth} for nth, one in enumerate(PEOPLE)]},
    ),
    ExampleCase(
        "five at a time",
        "format_signup",
        {"email": "ann@example.com", "contacts": PEOPLE * 6},
        does={"ts": validate, "CREATE_USER": create_user},
        takes={"SEND_EMAIL": "1s"},
        skipped="exit_if_invalid",
        took=3,
        at_once=5,
    ),
    ExampleCase(
        "tests pass: images, approval, two looks at its health, and what publishes it",
        "format_nightly_release",
        does=shell(0) | {"agent": given},
        answers={"HEALTH_CHECK": [{"healthy": False}, {"healthy": True}]},
        calls=("publish-release@2.3.0",),
        script=(Skip("1h"), Voted("gate/sign_off", form={"channel": "beta"}), Skip("1m")),
        ran=NIGHT,
        took=3630,
        children=(("perdure.approval", "completed", ANYTHING), ("publish-release", "completed", {"channel": "beta"})),
        result={"channel": "beta"},
    ),
    ExampleCase(
        "nobody approves: its own time, four hours, is over before that of the approval",
        "format_nightly_release",
        does=shell(0) | {"agent": given},
        calls=("publish-release@2.3.0",),
        failed="the execution did not end within 14400 s of its start",
        took=4 * 3600,
    ),
    ExampleCase(
        "somebody rejects it: cancelled",
        "format_nightly_release",
        does=shell(0) | {"agent": given},
        calls=("publish-release@2.3.0",),
        script=(Voted("gate/sign_off", False, comment="too late"),),
        cancelled="sign_off was rejected by ada: too late",
    ),
    ExampleCase(
        "tests fail: an agent looks into it, and is told what they said",
        "format_nightly_release",
        does=shell(1) | {"agent": lambda config, input=None: config["prompt"]},
        calls=("publish-release@2.3.0",),
        ran="test gate gate/triage",
        result="Find why this failed: pytest -q --json-report {'BRANCH': 'main'}",
    ),
    ExampleCase(
        "not sure: a person labels, and the replies go two at a time",
        "format_support_triage",
        ASKED,
        does=confident(0.5),
        script=(Skip("1h"), Voted("human", by="support", form={"label": "question"})),
        ran="classify sure human replies/~0 replies/~1 close",
        result={"id": 5, "last": [{"messages": ["a", "b"], "label": "bug"}, {"messages": ["c"], "label": "bug"}]},
    ),
    ExampleCase(
        "rejected: the ticket is closed",
        "format_support_triage",
        ASKED,
        does=confident(0.5),
        script=(Voted("human", False, by="support"),),
        ran="classify sure human close",
    ),
    ExampleCase(
        "sure of it, and the model has said all: the replies follow at once",
        "format_support_triage",
        ASKED,
        does=confident(0.9),
        ran="classify sure replies/~0 replies/~1 close",
        result={"id": 5, "last": [{"messages": ["a", "b"], "label": "bug"}, {"messages": ["c"], "label": "bug"}]},
    ),
    paying("much: two ways that meet", ["success"], "send_premium update_crm merge"),
    paying("little: a plain word of thanks", ["success"], "send_standard", amount=999),
    paying("with the second try", ["failed", "success"], "send_premium update_crm merge"),
    paying("never: refunded", ["failed"] * 5, "refund_customer"),
    paying("for another reason: an agent says whom to ask", ["declined"], "route fraud"),
    paying(
        "the agent says nothing: a person looks, and approves",
        ["declined"],
        "route manual_review send_standard",
        does={"agent": lambda config, input=None: None},
        script=(Skip("10m"), Voted("manual_review", by=OPS)),
    ),
    paying(
        "the person says no: refunded",
        ["declined"],
        "route manual_review refund_customer",
        does={"agent": lambda config, input=None: None},
        script=(Voted("manual_review", False, by=OPS),),
    ),
    paying(
        "nobody looks: its own time, half an hour, is over before theirs, and what was charged is given back",
        ["declined"],
        "route manual_review",
        does={"agent": lambda config, input=None: None},
        failed="the execution did not end within 1800 s of its start",
        undone="call_payment_api/~0",
        took=1800,
    ),
    condition(1, True, {"ok": "yes"}),
    condition(1, False, {"ok": None}),
    condition(2, True, {"count": 1}),
    condition(2, False, {"count": 0}),
    ExampleCase(
        "holds for more than before", "format_condition_3", answers={"initial": [{"score": 1}], "checked": [{"score": 2}]}, ran="initial checked holds"
    ),
    ExampleCase("fails for as much", "format_condition_3", answers={"initial": [{"score": 2}], "checked": [{"score": 2}]}, ran="initial checked fails"),
    condition(4, True, {"status": "failed"}),
    condition(4, False, {"status": "failed", "data": 1}),
    condition(5, True, {"transactions": [{"amount": 10001}]}),
    condition(5, False, {"transactions": [{"amount": 10000}]}),
    condition(6, True, {"score": 80.0, "revenue": 100001}),
    condition(6, False, {"score": 79.5, "revenue": 100001}),
    condition(7, True, {"x": 1}),
]
