"""Calls: how the work of a node becomes an operation.

A tool is a call of a step that the app registered, or a child execution of another workflow; a step of a kind is a call of the kind's own step. A result
may be transformed before others read it, by source text in a sandbox or by a template that sees it as ``@self``.

A node that uses a composite counts that use once. The execution that counts (see `perdure.code.builtin_workflows`) is started, unless it exists, in the
commit that opens the node's call; the use is a message in the commit that holds the call's result. So a use is counted if and only if its result is
recorded, and a replay counts nothing.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.code.builtin_workflows import DESCRIPTION, USED_SIGNAL
from perdure.code.child_executions import child_id
from perdure.code.declarations import Retry, Step
from perdure.core import limits, values
from perdure.core.attributes import checked_attributes
from perdure.core.errors import ErrorInfo, Fatal
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import COMPOSITE_WORKFLOW, CallOperation, Failure, KeepOperation, Operation, SendOperation, SleepOperation, SpawnOperation
from perdure.core.operations import RetryPolicy as RetryRule
from perdure.core.paths import Key, Path, idempotency_key, path_text
from perdure.core.values import Blob
from perdure.definitions.expr.secret_marks import mark_pointers
from perdure.definitions.format.verb_shapes import SOURCE_FIELDS, transform_source
from perdure.definitions.graph import ir
from perdure.definitions.graph import step_kind as kinds
from perdure.definitions.graph.graph_run import GraphRun, VerbRun
from perdure.definitions.graph.graph_workflow import WALK_VERSION, DefinitionRelease
from perdure.definitions.graph.node_scope import NodeOutcome, Output
from perdure.definitions.graph.step_kind import CompositeUse, Kind
from perdure.definitions.graph.version_ranges import best_version


def start_timeout(run: GraphRun, verb_run: VerbRun) -> None:
    """Give up what stands at the path of a node once its time is over, if it has one: by port ``timeout`` where that leads on, else as a failure."""
    if (timeout_s := verb_run.node.timeout_s) is None:
        return

    def over() -> None:
        run.log.drop_under(verb_run.path)
        late = Failure("timeout", 1, ErrorInfo("Timeout", f"{verb_run.node.id} has not ended within {timeout_s:g} s"))
        verb_run.then(NodeOutcome("timeout", Output()) if run.plan.has_port(verb_run.firing.place, "timeout") else late)

    _ = run.log.ask(_timeout_path(verb_run), SleepOperation(timeout_s))
    run.log.wait(_timeout_path(verb_run), lambda _: over())


def stop_timeout(run: GraphRun, verb_run: VerbRun) -> None:
    """Drop the timer of a node, as its outcome has arrived."""
    if run.log.waits_at(_timeout_path(verb_run)):
        run.log.drop(_timeout_path(verb_run))


def _timeout_path(verb_run: VerbRun) -> Path:
    return (*verb_run.path, ("timeout", 0))


class NewOperation(NamedTuple):
    """An operation, the blobs that it refers to, and the step that performs it."""

    op: Operation
    blobs: tuple[tuple[str, bytes], ...] = ()
    step: Any = None


def encode_call_arguments(given: Any, path: Path) -> bytes:
    """The encoded arguments of a call: a mapping is given by name, anything else as the only one."""
    args: tuple[Any, ...] = () if given is None or isinstance(given, dict) else (given,)
    return values.encode((args, given if isinstance(given, dict) else {}), "the arguments of step", path)


def step_with_retry(step: Step[Any, Any, Any], own: ir.RetryOptions | None, default: ir.RetryOptions | None) -> Step[Any, Any, Any]:
    """The step with the retry policy of the node, else of the definition, else its own."""
    rule = own or default
    if rule is None:
        return step
    changed = _stated_retry_options(rule)
    if rule.only or rule.fatal:
        before = step.retry.should_retry

        def should_retry(error: BaseException) -> bool:
            kinds = {kind.__name__ for kind in type(error).__mro__}
            may = kinds.isdisjoint(rule.fatal) and (not rule.only or not kinds.isdisjoint(rule.only))
            return may and (before is None or bool(before(error)))

        changed["should_retry"] = should_retry
    retry: Retry = dataclasses.replace(step.retry, **changed)
    return dataclasses.replace(step, retry=retry)


def child_retry_policy(node: ir.GraphNode) -> RetryRule:
    """How often and when a child that has failed is started anew: as its node says, else never. What the definition says of its steps, the child's own
    steps are tried again by.
    """
    return Retry(max=1).rule() if node.retry is None else Retry(**_stated_retry_options(node.retry)).rule()


def may_restart_child(node: ir.GraphNode, error: ErrorInfo) -> bool:
    """Whether the node allows that a child is started again after this type of error."""
    rule = node.retry
    return rule is not None and error.type not in rule.fatal and (not rule.only or error.type in rule.only)


def _stated_retry_options(rule: ir.RetryOptions) -> dict[str, Any]:
    """The retry options of a definition, as options of `Retry`."""
    names = {"max": rule.max, "wait": rule.wait_s, "factor": rule.factor, "max_wait": rule.max_wait_s}
    return {name: value for name, value in names.items() if value is not None}


def missing_tool_step(name: str, known: Mapping[str, object]) -> Step[Any, Any, Any]:
    """A step in place of a tool that this engine does not have: it fails for good with that reason."""
    here = ", ".join(sorted(known)[:20]) or "none"

    def refuse(*_: Any, **__: Any) -> Any:
        raise Fatal(f"the engine that runs here has no tool {name!r} (it has {here}); give it that tool, and retry the execution")

    return Step(refuse, name=name)


def tool_step(run: GraphRun, node: ir.GraphNode, name: str) -> Step[Any, Any, Any]:
    """The step behind a node, with the node's own options. Made once for each plan."""
    known = node.kind, name
    place = run.plan.by_id[node.id]
    cached = place.memory.get(str(known))
    tool = run.workflow.tool(name)
    if isinstance(cached, tuple) and cached[0] is tool:
        step: Step[Any, Any, Any] = cached[1]
        return step
    step = step_with_retry(missing_tool_step(name, run.workflow.tools) if tool is None else tool, node.retry, run.plan.ir.retry)
    if node.timeout_s is not None and not step.transaction:
        step = dataclasses.replace(step, timeout=node.timeout_s)
    if node.idempotent is not None:
        step = dataclasses.replace(step, idempotent=node.idempotent)
    place.memory[str(known)] = (tool, step)
    return step


def tool_call(run: GraphRun, verb_run: VerbRun, name: str) -> CallOperation:
    """The call of a tool with what it is given."""
    node, path = verb_run.node, verb_run.path
    step = tool_step(run, node, name)
    given, secrets = run.given(node.input, verb_run.names)
    op = CallOperation(
        name, encode_call_arguments(given, path), step.queue, step.rule, step.timeout_s, step.declares_repeat, heartbeat_s=step.heartbeat_s, secrets=secrets
    )
    op = call_with_end_options(msgspec.structs.replace(op, undo=step.undo_when, grace_s=step.grace_s), node)
    if step.transaction:
        op = msgspec.structs.replace(op, transaction=True)
    return op if step.line is None and not step.priority else step.placed(op, run.execution.key.tenant, (), given if isinstance(given, dict) else {})


def call_with_end_options(op: CallOperation, node: ir.GraphNode) -> CallOperation:
    """A call with what its node says of the end of the execution: whether it is then undone, and how long it may go on."""
    if node.undo is not None:
        op = msgspec.structs.replace(op, undo="in_doubt" if node.undo.in_doubt else "done")
    return op if node.grace_s is None else msgspec.structs.replace(op, grace_s=node.grace_s)


class ChildOptions(NamedTuple):
    """How a child is started."""

    awaited: bool = True
    undo: bool = False
    grace_s: float | None = None


def child_start(run: GraphRun, target: str, given: Any, path: Path, how: ChildOptions) -> NewOperation:
    """A child of another workflow: a definition of a version that is asked for (``name@^2``), or code."""
    name, _, wanted = target.partition("@")
    execution = run.execution
    if execution.depth >= limits.DEPTH_MAX:
        why = f"{path_text(path)} would be the {limits.DEPTH_MAX + 1}th execution under one another; a recursion has to end"
        raise run.failure(why, "TooDeep")
    releases = run.workflow.family.get(name)
    if releases is not None and (release := best_version(releases, wanted)) is None:
        there = ", ".join(one.version for one in releases)
        raise run.failure(f"there is no version {wanted} of {name}; there are {there}", "UnknownVersion")
    raw = values.encode(((), given if isinstance(given, dict) else {} if given is None else {"value": given}), "the input of", path)
    id = child_id(idempotency_key(execution.key, path))
    op = SpawnOperation(name, id, 0, raw, how.awaited, undo=how.undo and how.awaited, on_cancel="cancel" if how.awaited else "detach", grace_s=how.grace_s)
    if releases is None:
        return NewOperation(msgspec.structs.replace(op, version=int(wanted) if wanted.isdecimal() else 0))
    assert isinstance(release, DefinitionRelease)
    pinned = msgspec.structs.replace(
        op,
        version=WALK_VERSION,
        definition=Blob(release.sha256, len(release.raw)),
        deadline_s=release.deadline_s,
        grace_s=release.grace_s if how.grace_s is None else how.grace_s,
    )
    return NewOperation(pinned, ((release.sha256, release.raw),))


def failure_notification(run: GraphRun, target: str, path: Path, given: Any) -> NewOperation:
    """The operation that reports a failure to a tool or to another workflow."""
    tool = run.workflow.tool(target)
    if tool is not None:
        return NewOperation(
            CallOperation(target, encode_call_arguments(given, path), tool.queue, tool.rule, tool.timeout_s, tool.may_repeat, transaction=tool.transaction),
            (),
            tool,
        )
    return child_start(run, target, given, path, ChildOptions())


def begin_use_count(run: GraphRun, verb_run: VerbRun, count: CompositeUse | None) -> str:
    """Have what counts the uses begin; return its name, empty if nothing is counted. On replay, as it is remembered."""
    path = (*verb_run.path, ("composite", 0))
    if run.log.replaying:
        remembered = run.log.upcoming(path)
        return "" if remembered is None else _composite_name(run.log.ask(path, remembered))
    return "" if count is None else _composite_name(run.log.ask(path, _first_use_operation(count, verb_run)))


def _first_use_operation(count: CompositeUse, verb_run: VerbRun) -> Operation:
    if count.input is None:
        return KeepOperation(label=count.name)
    raw = values.encode(((count.input,), {}), "the composite of", verb_run.path)
    return SpawnOperation(COMPOSITE_WORKFLOW, count.name, 1, raw, awaited=False, on_cancel="detach", attributes=checked_attributes({DESCRIPTION: count.about}))


def _composite_name(op: Operation) -> str:
    match op:
        case SpawnOperation(id=name) | KeepOperation(label=name):
            return name
    return ""


def count_use(run: GraphRun, verb_run: VerbRun, name: str) -> None:
    """Count one use of what was begun."""
    _ = run.log.ask((*verb_run.path, ("used", 0)), SendOperation(Key(run.execution.key.tenant, COMPOSITE_WORKFLOW, name), USED_SIGNAL.name))


class KindTemplates(NamedTuple):
    """The inputs of a step of a kind, as templates."""

    config: Any
    input: Any
    env: Any


def run_kind(run: GraphRun, verb_run: VerbRun, kind: Kind, given: KindTemplates) -> None:
    """Call the step of a kind, and settle the node with its outcome."""
    step = kind_step(run, verb_run.node, kind)
    counts = list[CompositeUse]()

    def made() -> CallOperation:
        written = given._replace(config=kinds.written_config(kind, given.config))
        found = evaluate_kind_arguments(run, verb_run, kind.name, written)
        counts.extend(one for one in (kinds.composite_use(kind, written.config, found.values["config"]),) if one is not None)
        return kind_call(verb_run, kind, step, found)

    op = run.log.attempted(verb_run.path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
        return
    counted = begin_use_count(run, verb_run, counts[0] if counts else None)

    def told(how: NodeOutcome | Failure) -> None:
        if isinstance(how, NodeOutcome) and counted:
            count_use(run, verb_run, counted)
        verb_run.then(NodeOutcome(how.port, how.output.parted()) if isinstance(how, NodeOutcome) else how)

    run.log.wait(verb_run.path, lambda settlement: told(run.log.result(settlement)), step)


class KindArguments(NamedTuple):
    """The evaluated inputs of a step of a kind, and the JSON pointers of secrets in them."""

    values: dict[str, Any]
    secrets: tuple[str, ...] = ()


def evaluate_kind_arguments(run: GraphRun, verb_run: VerbRun, kind: str, given: KindTemplates) -> KindArguments:
    """Evaluate the inputs of a step of a kind."""
    found = {"config": _kind_config(run, verb_run, kind, given.config), "input": _evaluated_or_none(run, verb_run, given.input)}
    if given.env is not None:
        found["env"] = _evaluated_or_none(run, verb_run, given.env)
    return KindArguments(found, tuple(mark_pointers(found)) if _reads_secrets(run, kind, given) else ())


def kind_call(verb_run: VerbRun, kind: Kind, step: Step[Any, Any, Any], given: KindArguments) -> CallOperation:
    """The call of what does the work of a kind, with these arguments."""
    node = verb_run.node
    again = kind.may_repeat(given.values["config"]) if node.idempotent is None else node.idempotent
    call = CallOperation(kind.name, encode_call_arguments(given.values, verb_run.path), step.queue, step.rule, step.timeout_s, again, secrets=given.secrets)
    return call_with_end_options(msgspec.structs.replace(call, grace_s=step.grace_s), node)


def kind_step(run: GraphRun, node: ir.GraphNode, kind: Kind) -> Step[Any, Any, Any]:
    """The step behind a node of a kind, with the node's own options. Made once for each plan."""
    memory, key = run.plan.by_id[node.id].memory, f"kind {kind.name}"
    cached = memory.get(key)
    if isinstance(cached, tuple) and cached[0] is kind:
        step: Step[Any, Any, Any] = cached[1]
        return step
    step, rule = kind.step, node.retry or run.plan.ir.retry
    if rule is not None and step.retry.fatal:
        step = dataclasses.replace(step, retry=dataclasses.replace(step.retry, fatal=()))
    step = step_with_retry(step, node.retry, run.plan.ir.retry)
    if node.timeout_s is not None:
        step = dataclasses.replace(step, timeout=node.timeout_s)
    memory[key] = (kind, step)
    return step


def _reads_secrets(run: GraphRun, kind: str, given: KindTemplates) -> bool:
    """Whether what a step is given has secrets in it; a source text has none."""
    source = SOURCE_FIELDS.get(kind)
    config = given.config
    if source is not None:
        config = {name: value for name, value in config.items() if name != source} if isinstance(config, Mapping) else None
    return any(value is not None and run.reads_secrets(value) for value in (config, given.input, given.env))


def _kind_config(run: GraphRun, verb_run: VerbRun, kind: str, config: Any) -> Any:
    """What stands behind the verb, evaluated but for a source text."""
    source = SOURCE_FIELDS.get(kind)
    if source is None:
        has_own = verb_run.node.kind in ("pipeline", "task")
        return None if config is None else run.evaluated(config, verb_run.names, may_have_secrets=True, is_of_kind=has_own)
    if not isinstance(config, Mapping):
        return config
    return {**_evaluated_or_none(run, verb_run, {name: value for name, value in config.items() if name != source}), source: config.get(source)}


def _evaluated_or_none(run: GraphRun, verb_run: VerbRun, value: Any) -> Any:
    return None if value is None else run.evaluated(value, verb_run.names, may_have_secrets=True)


def with_transform(run: GraphRun, verb_run: VerbRun) -> VerbRun:
    """The same run of a verb, with its result transformed before it is passed on."""
    return verb_run._replace(then=lambda how: _transform(run, verb_run, how))


def _transform(run: GraphRun, verb_run: VerbRun, how: NodeOutcome | Failure) -> None:
    if isinstance(how, Failure):
        verb_run.then(how)
        return
    done = how
    path = (*verb_run.path, ("transform", 0))
    source_of = transform_source(verb_run.node.transform)
    if source_of is None:
        _transform_by_template(run, verb_run, done, path)
        return
    kind, source = source_of
    found = run.workflow.kinds.get(kind)
    if found is None:
        verb_run.then(unknown_kind_error(run, verb_run._replace(path=path), kind))
        return
    step = found.step

    def made() -> CallOperation:
        args = encode_call_arguments({"config": source, "input": done.output.value}, path)
        return CallOperation(kind, args, step.queue, step.rule, step.timeout_s)

    def told(settlement: SettledOperation) -> None:
        result = run.log.result(settlement)
        if isinstance(result, NodeOutcome):
            result.output.meta = done.output.meta
            verb_run.then(NodeOutcome(done.port, result.output))
        else:
            verb_run.then(result)

    op = run.log.attempted(path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
    else:
        run.log.wait(path, told, step)


def _transform_by_template(run: GraphRun, verb_run: VerbRun, done: NodeOutcome, path: Path) -> None:
    names = verb_run.names.inside({"self": done.output.value})
    kept = run.log.attempted(
        path, lambda: KeepOperation(values.encode(run.evaluated(verb_run.node.transform, names), "what is made of the result of", verb_run.path))
    )
    if isinstance(kept, KeepOperation):
        verb_run.then(NodeOutcome(done.port, Output(run.log.raw(kept.value), meta=done.output.meta)))
    elif isinstance(kept, Failure):
        verb_run.then(kept)


def unknown_kind_error(run: GraphRun, verb_run: VerbRun, kind: str) -> Failure:
    """The failure of a node whose kind this engine does not have."""

    def refuse() -> KeepOperation | None:
        raise run.failure(f"this engine has nothing that does {kind}; give it one, and retry the execution", "UnknownKind")

    error = run.log.judged((*verb_run.path, ("error", 0)), refuse)
    return error if isinstance(error, Failure) else Failure("fatal", 1, ErrorInfo("UnknownKind", kind))
