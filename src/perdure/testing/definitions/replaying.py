"""Replays of definitions: the same log again, which leads to the same and evaluates no expression."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from perdure.core import events as e
from perdure.core.paths import Key
from perdure.expr.condition import Condition
from perdure.expr.template import Template
from perdure.programs.graph.declare import GraphWorkflow
from perdure.testing.definitions.told import Payload
from perdure.testing.replays import differences


def replayed(workflow: GraphWorkflow, key: Key, events: Sequence[e.Event], payload: Payload) -> list[str]:
    """What is not as it should be when a log is replayed."""
    with evaluating() as evaluated:
        problems = list(differences(workflow, key, key, events, payload))
    return problems + [f"a replay has evaluated {what}" for what in evaluated]


@contextmanager
def evaluating() -> Iterator[list[str]]:
    """What is evaluated meanwhile; what has no reference in it is not counted, as nothing can come of it but itself."""
    evaluated: list[str] = []
    before = Template.evaluate, Condition.evaluate

    def counted(evaluate: Callable[..., Any]) -> Callable[..., Any]:
        def count(one: Any, *given: Any, **named: Any) -> Any:
            if not getattr(one, "constant", False):
                evaluated.append(f"{type(one).__name__} of {', '.join(sorted(f'{read.root} {read.step}'.strip() for read in one.reads))}")
            return evaluate(one, *given, **named)

        return count

    Template.evaluate, Condition.evaluate = counted(before[0]), counted(before[1])  # type: ignore[method-assign]  # they are put back
    try:
        yield evaluated
    finally:
        Template.evaluate, Condition.evaluate = before  # type: ignore[method-assign]  # as they were
