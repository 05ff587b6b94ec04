"""Tokens: how a graph execution stood at any event of its log: the counter, what waits at joins, which tokens moved, what the steps had come to.

The counter is the live tokens on edges and the nodes that have fired and not settled, approvals counted apart; it is zero when all is done.
"""

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from perdure.core import events as e
from perdure.core.execution import Execution
from perdure.core.folding import fold
from perdure.core.ops import asks_a_person
from perdure.core.paths import Key, Path, text
from perdure.core.rebuild import Load, rebuild
from perdure.programs.graph.declare import GraphWorkflow
from perdure.programs.graph.instance import Instance
from perdure.programs.graph.log import PrefixEnd


class Tokens(msgspec.Struct, frozen=True):
    """How it stood after event `number`: tokens on edges and nodes at work; approvals that wait; for each join, by whom it was reached already;
    which keys were applied, in their order; which nodes are open; what the steps came to, by id."""

    number: int
    counter: int
    approvals: int
    joins: dict[str, list[str]]
    applied: list[str]
    open: list[str]
    outputs: dict[str, Any]


def at(workflow: GraphWorkflow, key: Key, events: Sequence[e.Event], number: int) -> Generator[Load, bytes, Tokens]:
    """How the execution stood after event `number` of its log, counted from 1. Nothing is evaluated, and nothing is asked for.

    What was asked for because of an event came to be with it: between the two, nothing ever stood.
    """
    end = number
    while end < len(events) and type(events[end]) in e.ASKED:
        end += 1
    instance, execution = yield from rebuilt(workflow, key, events, end)
    return _stand(instance, execution, number)


def rebuilt(workflow: GraphWorkflow, key: Key, events: Sequence[e.Event], number: int) -> Generator[Load, bytes, tuple[Instance, Execution]]:
    """The walk as it was after event `number` of a log, and the execution; the walk goes no further."""
    prefix = list(events[:number])
    execution, instance = Execution(key), Instance(workflow, key)
    instance.log.is_prefix = instance.is_traced = True
    try:
        _ = yield from rebuild(execution, prefix, instance, awake=True)
    except PrefixEnd:  # the log goes on here, in what was asked for at that moment
        pass
    finally:
        instance.close()
    return instance, fold(key, prefix)


def _stand(instance: Instance, execution: Execution, number: int) -> Tokens:
    if not instance.is_begun or execution.ended is not None:
        outputs = {} if not instance.is_begun else {id: output.value for id, output in instance.roots.outputs.items()}
        applied = [] if not instance.is_begun else instance.walk.traced
        return Tokens(number, 0, 0, {}, applied, [], outputs)
    walk, plan = instance.walk, instance.plan
    joins: dict[str, list[str]] = {}
    waiting = 0
    for _, edge in walk.waiting():
        waiting += 1
        joins.setdefault(plan.places[plan.edges[edge].target].node.id, []).append(plan.places[plan.edges[edge].source].node.id)
    asked = {path for path, promise in execution.open.items() if asks_a_person(promise.op)}
    inner = [path for path in walk.open if not any(_is_under(other, path) for other in walk.open)]
    working = [path for path in inner if not any(_is_under(one, path) or one == path for one in asked)]
    outputs = {id: output.value for id, output in instance.roots.outputs.items()}
    return Tokens(number, waiting + len(working), len(asked), joins, walk.traced, [text(path) for path in walk.open], outputs)


def _is_under(path: Path, above: Path) -> bool:
    return len(path) > len(above) and path[: len(above)] == above
