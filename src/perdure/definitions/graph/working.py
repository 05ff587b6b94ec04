"""Working: steps of a kind, as calls of what does the work of that kind."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.code.declarations import Step
from perdure.core.operations import CallOperation, Failure
from perdure.definitions.expr.secret_marks import mark_pointers
from perdure.definitions.format.verb_shapes import SOURCE_FIELDS
from perdure.definitions.graph import counting, ir, tools
from perdure.definitions.graph import step_kind as kinds
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome
from perdure.definitions.graph.step_kind import CompositeUse, Kind

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


class KindTemplates(NamedTuple):
    """What a step of a kind is given, as templates."""

    config: Any
    input: Any
    env: Any


def run_kind(run: "GraphProgram", doing: VerbRun, kind: Kind, given: KindTemplates) -> None:
    """Have a step done as its kind does it, and settle as that does."""
    step = kind_step(run, doing.node, kind)
    counts = list[CompositeUse]()

    def made() -> CallOperation:
        written = given._replace(config=kinds.written_config(kind, given.config))
        found = evaluate_kind_arguments(run, doing, kind.name, written)
        counts.extend(one for one in (kinds.composite_use(kind, written.config, found.values["config"]),) if one is not None)
        return kind_call(doing, kind, step, found)

    op = run.log.attempted(doing.path, made)
    if isinstance(op, Failure):
        doing.then(op)
        return
    counted = counting.begin_use_count(run, doing, counts[0] if counts else None)

    def told(how: NodeOutcome | Failure) -> None:
        if isinstance(how, NodeOutcome) and counted:
            counting.count_use(run, doing, counted)
        doing.then(NodeOutcome(how.port, how.output.parted()) if isinstance(how, NodeOutcome) else how)

    run.log.wait(doing.path, lambda settlement: told(run.log.result(settlement)), step)


class KindArguments(NamedTuple):
    """What a step of a kind is given, evaluated, and where in it something stands for a secret."""

    values: dict[str, Any]
    secrets: tuple[str, ...] = ()


def evaluate_kind_arguments(run: "GraphProgram", doing: VerbRun, kind: str, given: KindTemplates) -> KindArguments:
    """What a step of a kind is given, evaluated."""
    found = {"config": _kind_config(run, doing, kind, given.config), "input": _evaluated_or_none(run, doing, given.input)}
    if given.env is not None:
        found["env"] = _evaluated_or_none(run, doing, given.env)
    return KindArguments(found, tuple(mark_pointers(found)) if _reads_secrets(run, kind, given) else ())


def kind_call(doing: VerbRun, kind: Kind, step: Step[Any, Any, Any], given: KindArguments) -> CallOperation:
    """The call of what does the work of a kind, with these arguments."""
    node = doing.node
    again = kind.may_repeat(given.values["config"]) if node.idempotent is None else node.idempotent
    call = CallOperation(kind.name, tools.encode_call_arguments(given.values, doing.path), step.queue, step.rule, step.timeout_s, again, secrets=given.secrets)
    return tools.call_with_end_options(msgspec.structs.replace(call, grace_s=step.grace_s), node)


def kind_step(run: "GraphProgram", node: ir.GraphNode, kind: Kind) -> Step[Any, Any, Any]:
    """The step behind a node of a kind, with the node's own options. Made once for each plan."""
    memory, key = run.plan.by_id[node.id].memory, f"kind {kind.name}"
    cached = memory.get(key)
    if isinstance(cached, tuple) and cached[0] is kind:
        step: Step[Any, Any, Any] = cached[1]
        return step
    step, rule = kind.step, node.retry or run.plan.ir.retry
    if rule is not None and step.retry.fatal:
        step = dataclasses.replace(step, retry=dataclasses.replace(step.retry, fatal=()))
    step = tools.step_with_retry(step, node.retry, run.plan.ir.retry)
    if node.timeout_s is not None:
        step = dataclasses.replace(step, timeout=node.timeout_s)
    memory[key] = (kind, step)
    return step


def _reads_secrets(run: "GraphProgram", kind: str, given: KindTemplates) -> bool:
    """Whether what a step is given has secrets in it; a source text has none."""
    source = SOURCE_FIELDS.get(kind)
    config = given.config
    if source is not None:
        config = {name: value for name, value in config.items() if name != source} if isinstance(config, Mapping) else None
    return any(value is not None and run.reads_secrets(value) for value in (config, given.input, given.env))


def _kind_config(run: "GraphProgram", doing: VerbRun, kind: str, config: Any) -> Any:
    """What stands behind the verb, evaluated but for a source text."""
    source = SOURCE_FIELDS.get(kind)
    if source is None:
        has_own = doing.node.kind in ("pipeline", "task")
        return None if config is None else run.evaluated(config, doing.names, may_have_secrets=True, is_of_kind=has_own)
    if not isinstance(config, Mapping):
        return config
    return {**_evaluated_or_none(run, doing, {name: value for name, value in config.items() if name != source}), source: config.get(source)}


def _evaluated_or_none(run: "GraphProgram", doing: VerbRun, value: Any) -> Any:
    return None if value is None else run.evaluated(value, doing.names, may_have_secrets=True)
