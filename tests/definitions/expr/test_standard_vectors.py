"""What others have written down as right: the cases of CEL and of JSONPath in ../shared, with exact scores and the reason of each that fails."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadExpression
from perdure.definitions.expr import cel, jsonpath
from perdure.definitions.expr.plain_values import MissingValueError, json_equal
from tests.definitions.expr.scope import StubScope

VECTORS = Path(__file__).parents[4] / "shared/data/vectors"
CEL, JSONPATH = VECTORS / "cel/cases.json", VECTORS / "jsonpath/cases.json"

pytestmark = pytest.mark.real


def plain(typed: dict[str, Any]) -> Any:
    """A value of the cases as plain data."""
    match typed["t"]:
        case "double":
            return float(typed["v"])
        case "list":
            return [plain(one) for one in typed["v"]]
        case "map":
            pairs = typed["v"].items() if isinstance(typed["v"], dict) else typed["v"]
            return {key if isinstance(key, str) else plain(key): plain(value) for key, value in pairs}
        case _:
            return typed["v"]


def same(found: Any, expected: Any) -> bool:
    """Equal, and of one kind; or neither is a number."""
    return (json_equal(found, expected) and type(found) is type(expected)) or (found != found and expected != expected)


def why(case: dict[str, Any]) -> str:
    """Why a case of CEL does not come out as it says; empty if it does."""
    expected = case["expect"]
    try:
        found = cel.compile_cel(case["expr"]).evaluate(StubScope(**{name: plain(value) for name, value in case["bindings"].items()}))
    except BadExpression as bad:
        return "" if "error" in expected else reason(case, bad.what)
    except MissingValueError as absent:
        return "" if "error" in expected else reason(case, absent.what)
    return "" if "value" in expected and same(found, plain(expected["value"])) else f"gives {found!r}"


def reason(case: dict[str, Any], said: str) -> str:
    """Why a case is refused or fails."""
    if case["tier"] == "ext":
        return "an extension that is not enabled"
    if "no matching overload" in said:
        return "kinds are checked when it is compiled"
    return "functions are looked up when it is compiled" if "undeclared reference" in said else said


@pytest.mark.skipif(not CEL.exists(), reason="there is no ../shared")
def test_the_cases_of_cel() -> None:
    cases = json.loads(CEL.read_text())
    reasons = Counter((case["tier"], why(case)) for case in cases)
    print(reasons)  # noqa: T201  # the score is what one runs this for
    assert len(cases) == 461
    assert reasons == {
        ("core", ""): 304,
        ("core", "kinds are checked when it is compiled"): 5,
        ("core", "functions are looked up when it is compiled"): 9,
        ("core", "'a.b.c': 'a' has no result here"): 2,
        ("ext", ""): 33,
        ("ext", "an extension that is not enabled"): 108,
    }


@pytest.mark.skipif(not JSONPATH.exists(), reason="there is no ../shared")
def test_the_cases_of_jsonpath() -> None:
    cases = json.loads(JSONPATH.read_text())["tests"]
    failed = [case["name"] for case in cases if not fits(case)]
    print(f"JSONPath: {len(cases) - len(failed)} of {len(cases)}")  # noqa: T201  # the score is what one runs this for
    assert len(cases) == 348
    assert failed == []


def fits(case: dict[str, Any]) -> bool:
    """Whether a case of JSONPath comes out as it says."""
    try:
        found = jsonpath.compile_jsonpath(case["selector"]).find(case["document"])
    except BadExpression:
        return bool(case.get("invalid_selector", False))
    return "invalid_selector" not in case and any(json_equal(found, right) for right in case.get("results", [case.get("result")]))
