"""Working: steps of a kind, as calls of what does the work of that kind."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.core.ops import Call, Err
from perdure.programs.code.declare import Step
from perdure.programs.graph import ir, tools
from perdure.programs.graph.doing import Doing
from perdure.programs.graph.kind import Kind
from perdure.programs.graph.names import Done
from perdure.programs.graph.secrets import places, resolving
from perdure.programs.graph.transforming import fitting

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance

SOURCES = {"ts": "code", "python": "code", "bash": "command"}
"""The kinds of steps behind which stands a source text, in which an @ is an @; and under which name, if more is said."""


class Given(NamedTuple):
    """What a step of a kind is given, as templates."""

    config: Any
    input: Any
    env: Any


def work(run: "Instance", doing: Doing, kind: Kind, given: Given) -> None:
    """Have a step done as its kind does it, and settle as that does."""
    step = prepared(run, doing.node, kind, given)

    op = run.log.attempted(doing.path, lambda: called(doing, kind, step, arguments(run, doing, kind.name, given)))
    if isinstance(op, Err):
        doing.then(op)
        return

    def told(how: Done | Err) -> None:
        doing.then(settled(run, doing, Done(how.port, how.output.parted())) if isinstance(how, Done) else how)

    run.log.wait(doing.path, lambda settlement: told(run.log.result(settlement)), step)


def arguments(run: "Instance", doing: Doing, kind: str, given: Given) -> dict[str, Any]:
    """What a step of a kind is given, evaluated."""
    secrets = run.workflow.secrets is not None
    found = {"config": _config(run, doing, kind, given.config), "input": _value(run, doing, given.input, secrets)}
    if given.env is not None:
        found["env"] = _value(run, doing, given.env, secrets)
    return found


def called(doing: Doing, kind: Kind, step: Step[Any, Any, Any], values: dict[str, Any]) -> Call:
    """The call of what does the work of a kind, with these arguments."""
    node = doing.node
    again = kind.may_repeat(values["config"]) if node.idempotent is None else node.idempotent
    args = tools.arguments(values, doing.path)
    return Call(kind.name, args, step.queue, step.rule, step.timeout_s, again, undo="" if node.undo is None else "done")


def settled(run: "Instance", doing: Doing, how: Done) -> Done | Err:
    """What the work has come to, held against the step's schema; if that is still made over, it is then."""
    return fitting(run, doing, how) if doing.node.transform is None else how


def prepared(run: "Instance", node: ir.Node, kind: Kind, given: Given) -> Step[Any, Any, Any]:
    """The step behind a node of a kind, with the node's own options, which finds the secrets that it reads. Made once for each plan."""
    memory, key = run.plan.by_id[node.id].memory, f"kind {kind.name}"
    cached = memory.get(key)
    if isinstance(cached, tuple) and cached[0] is kind:
        step: Step[Any, Any, Any] = cached[1]
        return step
    step = tools.tuned(kind.step, node.retry, run.plan.ir.retry)
    if node.timeout_s is not None:
        step = dataclasses.replace(step, timeout=node.timeout_s)
    if run.workflow.secrets is not None and (
        where := [f"/{name}{place}" for name, value in given._asdict().items() for place in _places(run, kind, name, value)]
    ):
        step = resolving(step, where, run.workflow.secrets)
    memory[key] = (kind, step)
    return step


def _places(run: "Instance", kind: Kind, name: str, value: Any) -> list[str]:
    if value is None or (name == "config" and kind.name in SOURCES and not isinstance(value, Mapping)):
        return []
    return list(places(run.template(value)))


def _config(run: "Instance", doing: Doing, kind: str, config: Any) -> Any:
    """What stands behind the verb, evaluated but for a source text."""
    source, secrets = SOURCES.get(kind), run.workflow.secrets is not None
    if source is None:
        return _value(run, doing, config, secrets)
    if not isinstance(config, Mapping):
        return config
    return {**_value(run, doing, {name: value for name, value in config.items() if name != source}, secrets), source: config.get(source)}


def _value(run: "Instance", doing: Doing, value: Any, secrets: bool) -> Any:
    return None if value is None else run.evaluated(value, doing.names, secrets)
