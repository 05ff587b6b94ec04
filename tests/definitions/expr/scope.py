"""A scope for tests, and how errors are asked for."""

from collections.abc import Callable
from typing import Any

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr.plain_values import MissingValueError
from perdure.definitions.expr.references import ExpressionRead


class StubScope:
    """Roots and steps as they are given; a step that is None was skipped."""

    def __init__(self, roots: dict[str, Any] | None = None, **steps: Any) -> None:
        self.roots, self.steps = roots or {}, {name.replace("__", "-"): value for name, value in steps.items()}
        self.asked: list[str] = []

    def root(self, name: str) -> Any:
        self.asked.append(f"@{name}")
        return self.roots[name]

    def step(self, id: str) -> Any:
        self.asked.append(id)
        return self.steps[id]

    def envelope(self, id: str) -> Any:
        data = self.steps[id]
        return {"type": "tool", "data": data, "meta": {"finish": "stop"}, "port": "skipped" if data is None else "success"}


def of_step(name: str, *path: str | int, where: str = "") -> ExpressionRead:
    """What a reference to a step's data reads."""
    return ExpressionRead("step", name, path, where)


def of_root(name: str, *path: str | int, where: str = "") -> ExpressionRead:
    """What a reference to a root reads."""
    return ExpressionRead(name, "", path, where)


def outcome(ask: Callable[[], Any]) -> Any:
    """What is answered, or "refused": in a few words, by an error of expressions. Any other error goes on."""
    try:
        return ask()
    except (BadExpression, ExpressionFailed, MissingValueError) as refused:
        if len(str(refused)) > 600:
            raise AssertionError(f"an error says too much: {refused}") from refused
        return "refused"
