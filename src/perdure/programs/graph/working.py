"""Working: steps of a kind, as calls of what does the work of that kind."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.core.ops import Call, Err
from perdure.expr.marks import places
from perdure.programs.code.declare import Step
from perdure.programs.format.sources import SOURCES
from perdure.programs.graph import counting, ir, tools
from perdure.programs.graph import kind as kinds
from perdure.programs.graph.doing import Doing
from perdure.programs.graph.kind import Count, Kind
from perdure.programs.graph.names import Done

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance


class Given(NamedTuple):
    """What a step of a kind is given, as templates."""

    config: Any
    input: Any
    env: Any


def work(run: "Instance", doing: Doing, kind: Kind, given: Given) -> None:
    """Have a step done as its kind does it, and settle as that does."""
    step = prepared(run, doing.node, kind)
    counts = list[Count]()

    def made() -> Call:
        written = given._replace(config=kinds.written(kind, given.config))
        found = arguments(run, doing, kind.name, written)
        counts.extend(one for one in (kinds.counted(kind, written.config, found.values["config"]),) if one is not None)
        return called(doing, kind, step, found)

    op = run.log.attempted(doing.path, made)
    if isinstance(op, Err):
        doing.then(op)
        return
    counted = counting.begun(run, doing, counts[0] if counts else None)

    def told(how: Done | Err) -> None:
        if isinstance(how, Done) and counted:
            counting.used(run, doing, counted)
        doing.then(Done(how.port, how.output.parted()) if isinstance(how, Done) else how)

    run.log.wait(doing.path, lambda settlement: told(run.log.result(settlement)), step)


class Arguments(NamedTuple):
    """What a step of a kind is given, evaluated, and where in it something stands for a secret."""

    values: dict[str, Any]
    secrets: tuple[str, ...] = ()


def arguments(run: "Instance", doing: Doing, kind: str, given: Given) -> Arguments:
    """What a step of a kind is given, evaluated."""
    found = {"config": _config(run, doing, kind, given.config), "input": _value(run, doing, given.input)}
    if given.env is not None:
        found["env"] = _value(run, doing, given.env)
    return Arguments(found, tuple(places(found)) if _reads_secrets(run, kind, given) else ())


def called(doing: Doing, kind: Kind, step: Step[Any, Any, Any], given: Arguments) -> Call:
    """The call of what does the work of a kind, with these arguments."""
    node = doing.node
    again = kind.may_repeat(given.values["config"]) if node.idempotent is None else node.idempotent
    call = Call(kind.name, tools.arguments(given.values, doing.path), step.queue, step.rule, step.timeout_s, again, secrets=given.secrets)
    return tools.at_the_end(msgspec.structs.replace(call, grace_s=step.grace_s), node)


def prepared(run: "Instance", node: ir.Node, kind: Kind) -> Step[Any, Any, Any]:
    """The step behind a node of a kind, with the node's own options. Made once for each plan."""
    memory, key = run.plan.by_id[node.id].memory, f"kind {kind.name}"
    cached = memory.get(key)
    if isinstance(cached, tuple) and cached[0] is kind:
        step: Step[Any, Any, Any] = cached[1]
        return step
    step, rule = kind.step, node.retry or run.plan.ir.retry
    if rule is not None and step.retry.fatal:
        step = dataclasses.replace(step, retry=dataclasses.replace(step.retry, fatal=()))
    step = tools.tuned(step, node.retry, run.plan.ir.retry)
    if node.timeout_s is not None:
        step = dataclasses.replace(step, timeout=node.timeout_s)
    memory[key] = (kind, step)
    return step


def _reads_secrets(run: "Instance", kind: str, given: Given) -> bool:
    """Whether what a step is given has secrets in it; a source text has none."""
    source = SOURCES.get(kind)
    config = given.config
    if source is not None:
        config = {name: value for name, value in config.items() if name != source} if isinstance(config, Mapping) else None
    return any(value is not None and run.reads_secrets(value) for value in (config, given.input, given.env))


def _config(run: "Instance", doing: Doing, kind: str, config: Any) -> Any:
    """What stands behind the verb, evaluated but for a source text."""
    source = SOURCES.get(kind)
    if source is None:
        has_own = doing.node.kind in ("pipeline", "task")
        return None if config is None else run.evaluated(config, doing.names, may_have_secrets=True, is_of_kind=has_own)
    if not isinstance(config, Mapping):
        return config
    return {**_value(run, doing, {name: value for name, value in config.items() if name != source}), source: config.get(source)}


def _value(run: "Instance", doing: Doing, value: Any) -> Any:
    return None if value is None else run.evaluated(value, doing.names, may_have_secrets=True)
