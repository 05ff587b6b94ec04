"""What comes of the examples of seed 000. What is written in JavaScript is played by Python that does the same."""

from typing import Any

from tests.definitions.graph.semantics.table import Anything, Broken
from tests.seeds.cases import ExampleCase, broken, given


def validate(config: str, input: dict[str, Any]) -> dict[str, Any]:
    """The code of the seed's step `validate`."""
    assert config.startswith("export default function(input)")
    ok = bool(input["email"])
    return {"ok": ok, "notOk": not ok, "error": None if ok else "Email required"}


def create_user(email: str) -> dict[str, Any]:
    """A tool that may be called with an address only."""
    assert email, "it is called although there is no address"
    return {"id": 7, "email": email}


CASES = [
    *(
        ExampleCase(
            f"runs if it is {eligible!r}: {runs}",
            "000_when_truthy",
            {"eligible": eligible},
            ran="validate checked" if runs else "validate",
            skipped="" if runs else "checked",
        )
        for eligible, runs in ((True, True), ("yes", True), ([0], True), (3, True), (False, False), ("", False), (0, False), (None, False), ([], True))
    ),
    ExampleCase("true is eligible", "000_when_eq", {"eligible": True}, ran="validate checked", result={"eligible": True}),
    ExampleCase("what is only truthy is not", "000_when_eq", {"eligible": 1}, ran="validate", skipped="checked"),
    ExampleCase("nothing said is not", "000_when_eq", ran="validate", skipped="checked"),
    ExampleCase("one is more than none", "000_when_gt", {"count": 1}, ran="fetch checked"),
    ExampleCase("none is not more than none", "000_when_gt", {"count": 0}, ran="fetch", skipped="checked"),
    ExampleCase("high is not low", "000_when_neq", {"priority": "high"}, ran="classify checked"),
    ExampleCase("low is low", "000_when_neq", {"priority": "low"}, ran="classify", skipped="checked"),
    ExampleCase(
        "no address: it returns the error, and no user is created",
        "000_early_exit",
        {"email": ""},
        does={"ts": validate, "CREATE_USER": create_user},
        ran="validate exit_if_invalid",
        result={"error": "Email required"},
    ),
    ExampleCase(
        "nothing given: the same",
        "000_early_exit",
        does={"ts": validate, "CREATE_USER": create_user},
        ran="validate exit_if_invalid",
        result={"error": "Email required"},
    ),
    ExampleCase(
        "an address: the user is created, and the exit is skipped",
        "000_early_exit",
        {"email": "ann@example.com"},
        does={"ts": validate, "CREATE_USER": create_user},
        ran="validate create_user",
        skipped="exit_if_invalid",
        result={"create_user": {"id": 7, "email": "ann@example.com"}},
    ),
    ExampleCase(
        "references of every spelling",
        "000_references",
        {"user": "u1"},
        ran="get-user inputData greet",
        result={"text": "u1, mail ops@example.com", "key": "1", "all": {"first": "b", "second": "c"}, "gone": None},
    ),
    ExampleCase(
        "two at a time",
        "000_for_each",
        {"contacts": [{"email": name} for name in "abcde"]},
        takes={"SEND": "1s"},
        took=3,
        at_once=2,
        ran="send/~0 send/~1 send/~2 send/~3 send/~4 count",
        result={"sent": [{"to": name, "nth": nth} for nth, name in enumerate("abcde")]},
    ),
    ExampleCase(
        "an item that fails is null at its place",
        "000_for_each",
        {"contacts": [{"email": name} for name in "abc"]},
        answers={"send/~1": [Broken("no")]},
        result={"sent": [{"to": "a", "nth": 0}, None, {"to": "c", "nth": 2}]},
    ),
    ExampleCase("no contacts", "000_for_each", {"contacts": []}, ran="count", result={"sent": []}),
    ExampleCase("contacts that nobody gave are none", "000_for_each", ran="count", result={"sent": []}),
    ExampleCase("done: what it found is the result", "000_bail", {"done": True}, ran="look look_bail", result={"done": True}),
    ExampleCase("not done: the work follows", "000_bail", {"done": False}, ran="look work", skipped="look_bail", result=Anything()),
    ExampleCase("without go, a and c are skipped, and b sees null", "000_skips_cascade", ran="b", skipped="a c"),
    ExampleCase("with go, all run", "000_skips_cascade", {"go": True}, ran="a b c", result={"b": {"a": {"x": 1}}, "c": {"x": 1}}),
    ExampleCase("it fails, is null, and the next runs", "000_goes_on", does={"FAILS": broken, "ECHO": given}, ran="shaky next", result={"of": None}),
]
