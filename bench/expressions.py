"""What an expression costs once it is compiled, beside what it stands on, by turns in the same run: the bare library, or Python written by hand.

The expressions are those of definitions as people write them, on what a step returns: some fields, and a list of some items. Last, a large value beside the
fields that are asked for, which should cost nothing.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jsonpath
import jsonschema_rs
import pydantic_monty
from cel_expr_python import cel as library  # type: ignore[import-untyped]  # its types have no marker

from perdure.definitions.expr.condition import compile_condition
from perdure.definitions.expr.template import compile_template as template
from perdure.definitions.kinds.sandbox import monty_pool, python_conditions

ROUNDS = 9
SELF = {"status": "success", "score": 90, "amount": 1500.5, "data": [1, 2, 3], "transactions": [{"id": number, "amount": number * 1.5} for number in range(20)]}
STEPS: dict[str, Any] = {"enrich": {"revenue": 200_000.5}, "initial": {"score": 80}}
LARGE = {**SELF, "rows": [{"id": number, "name": "x" * 20} for number in range(10_000)]}
SCHEMA = {
    "type": "object",
    "required": ["status", "data"],
    "properties": {"status": {"const": "success"}, "data": {"type": "array", "minItems": 1}},
}
CEL = "self.score >= 80.0 && enrich.revenue > 100000"
PATH = "$.transactions[?@.amount > 3].amount"
PYTHON = """
def evaluate(output, context):
    growth = output["score"] / context["initial"]["score"]
    return growth > 1.1 and output["status"] == "success"
"""
PAYMENT = {
    "all": [
        {"ref": "@self.status", "neq": "failed"},
        {"ref": "@self.status", "in": ["success", "partial"]},
        {"any": [{"ref": "@self.amount", "gte": 1000}, {"ref": "@self.score", "gt": "@initial.score"}]},
    ]
}


class Given:
    """What expressions read here."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def root(self, name: str) -> Any:
        if name != "self":
            raise KeyError(name)
        return self.own

    def step(self, id: str) -> Any:
        return STEPS[id]

    def envelope(self, id: str) -> Any:
        return {"type": "tool", "data": STEPS[id], "meta": {}, "port": "success"}


SCOPE, WIDE = Given(SELF), Given(LARGE)


def bare_cel() -> Callable[[], Any]:
    """The library alone, given all of both roots."""
    expression = library.NewEnv(variables={"self": library.Type.DYN, "enrich": library.Type.DYN}).compile(CEL)
    given = {"self": SELF, "enrich": STEPS["enrich"]}
    return lambda: expression.eval(data=given).value()


def bare_path() -> Callable[[], Any]:
    """The library alone."""
    path = jsonpath.JSONPathEnvironment(strict=True).compile(PATH)
    return lambda: sum(path.findall(SELF)) > 100  # type: ignore[arg-type]  # they are numbers


def bare_python(pool: pydantic_monty.Monty) -> Callable[[], Any]:
    """A session of the sandbox without limits."""

    def run() -> Any:
        with pool.checkout() as session:
            return session.feed_run(f"{PYTHON}\nevaluate(output, context)", inputs={"output": SELF, "context": STEPS})

    return run


def of(condition: Any, scope: Given = SCOPE) -> Callable[[], Any]:
    """A condition, looked up and evaluated, as the walk does."""
    return lambda: compile_condition(condition).evaluate(scope)


def kept(condition: Any, scope: Given = SCOPE) -> Callable[[], Any]:
    """A condition that is kept compiled."""
    evaluate = compile_condition(condition).evaluate
    return lambda: evaluate(scope)


def measured(sides: dict[str, Callable[[], Any]], times: int) -> dict[str, list[float]]:
    """Microseconds of each side, by turns, after one round that is not counted."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name, side in sides.items():
            began_s = time.perf_counter()
            for _ in range(times):
                side()
            found[name] += [(time.perf_counter() - began_s) / times * 1e6] if number else []
    return found


def main() -> None:
    """Measure and print."""
    pool = pydantic_monty.Monty()
    validator = jsonschema_rs.validator_for(SCHEMA)
    value = template({"to": "@self.status", "text": "score @{self.score} of @{initial.score}", "fixed": [1, 2, 3]})
    with pool:
        kinds: list[tuple[str, str, int, dict[str, Callable[[], Any]]]] = [
            (
                "CEL",
                "25 µs",
                2000,
                {"library": bare_cel(), "kept": kept({"expr": CEL}), "looked up": of({"expr": CEL}), "large beside": kept({"expr": CEL}, WIDE)},
            ),
            (
                "JSON Schema",
                "25 µs",
                2000,
                {
                    "library": lambda: validator.is_valid(SELF),
                    "kept": kept({"ref": "@self", "matches": SCHEMA}),
                    "looked up": of({"ref": "@self", "matches": SCHEMA}),
                },
            ),
            (
                "JSONPath, sum of 17 of 20",
                "100 µs",
                500,
                {"library": bare_path(), "kept": kept({"ref": PATH, "sum": {"gt": 100}}), "looked up": of({"ref": PATH, "sum": {"gt": 100}})},
            ),
            (
                "a row across steps",
                "25 µs",
                5000,
                {
                    "by hand": lambda: SCOPE.root("self")["score"] > SCOPE.step("initial")["score"],
                    "kept": kept({"ref": "@self.score", "gt": "@initial.score"}),
                    "looked up": of({"ref": "@self.score", "gt": "@initial.score"}),
                    "large beside": kept({"ref": "@self.score", "gt": "@initial.score"}, WIDE),
                },
            ),
            ("four rows in groups", "", 5000, {"kept": kept(PAYMENT), "looked up": of(PAYMENT)}),
            ("a template of three references", "", 5000, {"kept": lambda: value.evaluate(SCOPE)}),
            ("Python", "2 ms", 100, {"library": bare_python(pool), "kept": lambda: python_conditions.evaluate_conditions([PYTHON], SELF, STEPS)}),
        ]
        print(f"evaluations, median of {ROUNDS} rounds by turns; Python {sys.version.split()[0]}")
        for title, goal, times, sides in kinds:
            print(f"{title}{f' (at most {goal})' if goal else ''}")
            found = measured(sides, times)
            first = next(iter(found.values()))
            for name, its in found.items():
                ratio = statistics.median(one / base for one, base in zip(its, first, strict=True))
                print(f"  {name:14} {statistics.median(its):8.2f} µs  {ratio:6.2f}×")
    monty_pool.close_monty_pool()


if __name__ == "__main__":
    main()
