"""Builds the operations for tools and children that nodes call.

A tool is a call of a step that the application registered, or a child execution of another workflow.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.code.child_executions import child_id
from perdure.code.declarations import Retry, Step
from perdure.core import error_codes, limits, values
from perdure.core.attributes import checked_attributes
from perdure.core.errors import ErrorInfo, Fatal
from perdure.core.operations import CallOperation, Failure, Operation, RetriedErrors, SleepOperation, SpawnOperation
from perdure.core.operations import RetryPolicy as RetryRule
from perdure.core.paths import Path, idempotency_key, path_text
from perdure.core.pinned_calls import PinnedCall
from perdure.core.program import CATALOG_PROGRAM
from perdure.core.values import Blob
from perdure.definitions.graph import ir
from perdure.definitions.graph.graph_run import GraphRun, VerbRun
from perdure.definitions.graph.graph_workflow import WALK_VERSION, DefinitionRelease, version_attributes
from perdure.definitions.graph.node_scope import NodeOutcome, Output
from perdure.definitions.graph.version_ranges import best_version


def start_timeout(run: GraphRun, verb_run: VerbRun) -> None:
    """Starts the timeout of a node, if it has one. When it expires, it drops the operations at the node's path and settles the node by port ``timeout``, or
    fails it if that port leads nowhere."""
    if (timeout_s := verb_run.node.timeout_s) is None:
        return

    def over() -> None:
        run.log.drop_under(verb_run.path)
        late = Failure("timeout", 1, ErrorInfo(error_codes.TIMEOUT, f"{verb_run.node.id} did not end within {timeout_s:g} s"))
        verb_run.then(NodeOutcome("timeout", Output()) if run.plan.has_port(verb_run.firing.place, "timeout") else late)

    _ = run.log.ask(_timeout_path(verb_run), SleepOperation(timeout_s))
    run.log.wait(_timeout_path(verb_run), lambda _: over())


def stop_timeout(run: GraphRun, verb_run: VerbRun) -> None:
    """Drops the timer of a node, because its outcome has arrived."""
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
    """Returns the encoded arguments of a call: a mapping is passed by name, any other value as the only argument."""
    args: tuple[Any, ...] = () if given is None or isinstance(given, dict) else (given,)
    return values.encode((args, given if isinstance(given, dict) else {}), "the arguments of step", path)


def step_with_retry(step: Step[Any, Any, Any], own: ir.RetryOptions | None, default: ir.RetryOptions | None) -> Step[Any, Any, Any]:
    """Returns the step with the retry policy of the node, else of the definition, else its own."""
    rule = own or default
    if rule is None:
        return step
    changed = _stated_retry_options(rule)
    if rule.only or rule.fatal:
        before = step.retry.should_retry

        def should_retry(error: BaseException) -> bool:
            kinds = {name for kind in type(error).__mro__ for name in (kind.__name__, error_codes.error_code(kind))}
            may = kinds.isdisjoint(rule.fatal) and (not rule.only or not kinds.isdisjoint(rule.only))
            return may and (before is None or bool(before(error)))

        changed["should_retry"] = should_retry
    retry: Retry = dataclasses.replace(step.retry, **changed)
    errors = RetriedErrors(tuple(rule.only), tuple(rule.fatal), adds=True) if rule.only or rule.fatal else step.errors
    return dataclasses.replace(step, retry=retry, errors=errors)


def child_retry_policy(node: ir.GraphNode) -> RetryRule:
    """Returns the retry policy of a failed child: that of its node, else no retries. The retry policy of the definition applies to steps, and so to the
    steps of the child.
    """
    return Retry(max=1).rule() if node.retry is None else Retry(**_stated_retry_options(node.retry)).rule()


def may_restart_child(node: ir.GraphNode, error: ErrorInfo) -> bool:
    """Returns whether the node allows another start of the child after this type of error."""
    rule = node.retry
    return rule is not None and error.type not in rule.fatal and (not rule.only or error.type in rule.only)


def _stated_retry_options(rule: ir.RetryOptions) -> dict[str, Any]:
    """The retry options of a definition, as options of `Retry`."""
    names = {"max": rule.max, "wait": rule.wait_s, "factor": rule.factor, "max_wait": rule.max_wait_s}
    return {name: value for name, value in names.items() if value is not None}


def missing_tool_step(name: str, known: Mapping[str, object]) -> Step[Any, Any, Any]:
    """Returns a step in place of a tool that this engine does not have; it fails for good, and says so."""
    here = ", ".join(sorted(known)[:20]) or "none"

    def refuse(*_: Any, **__: Any) -> Any:
        raise Fatal(f"the engine that runs here has no tool {name!r} (it has {here}); give it that tool, and retry the execution")

    return Step(refuse, name=name)


def tool_step(run: GraphRun, node: ir.GraphNode, name: str) -> Step[Any, Any, Any]:
    """Returns the step of a node, with the node's own options; made once for each plan."""
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
    """Returns the call of a tool with the node's input."""
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
    """Adds to a call the options of its node for the end of the execution: whether the call is undone then, and how long it may continue."""
    if node.undo is not None:
        op = msgspec.structs.replace(op, undo="in_doubt" if node.undo.in_doubt else "done")
    return op if node.grace_s is None else msgspec.structs.replace(op, grace_s=node.grace_s)


class ChildOptions(NamedTuple):
    """The options with which a child is started."""

    awaited: bool = True
    undo: bool = False
    grace_s: float | None = None


def check_depth(run: GraphRun, path: Path) -> None:
    """Raises a failure if a child that is started at `path` would be nested too deeply."""
    if run.execution.depth >= limits.DEPTH_MAX:
        why = f"{path_text(path)} would start a child at depth {limits.DEPTH_MAX + 1}, and {limits.DEPTH_MAX} is the limit; end the recursion earlier"
        raise run.failure(why, error_codes.TOO_DEEP)


def child_start(run: GraphRun, target: str, given: Any, path: Path, how: ChildOptions) -> NewOperation:
    """Starts a child of another workflow: what the start of the execution has pinned for this call, a definition that the engine has been given, in the
    requested version if there is one (``name@^2``), or code.
    """
    name, _, wanted = target.partition("@")
    execution = run.execution
    check_depth(run, path)
    if (pinned := next((one for one in execution.calls if one.target == target), None)) is not None:
        return NewOperation(_pinned_child(run, pinned, given, path, how))
    releases = run.workflow.family.get(name)
    if releases is not None and (release := _release_among(releases, wanted)) is None:
        there = ", ".join(one.version for one in releases)
        raise run.failure(f"there is no version {wanted} of {name}; there are {there}", error_codes.UNKNOWN_VERSION)
    op = _child_operation(run, name, given, path, how)
    if releases is None:
        return NewOperation(msgspec.structs.replace(op, version=int(wanted) if wanted.isdecimal() else 0))
    assert isinstance(release, DefinitionRelease)
    started = msgspec.structs.replace(
        op,
        version=WALK_VERSION,
        definition=Blob(release.sha256, len(release.raw)),
        deadline_s=release.deadline_s,
        grace_s=release.grace_s if how.grace_s is None else how.grace_s,
    )
    return NewOperation(started, ((release.sha256, release.raw),))


def _release_among(releases: Sequence[DefinitionRelease], wanted: str) -> DefinitionRelease | None:
    """The release that a call wants: of a hash, or else the highest in a range."""
    if wanted.startswith("sha256:"):
        return next((one for one in releases if one.sha256.startswith(wanted.removeprefix("sha256:"))), None)
    return best_version(releases, wanted)


def _child_operation(run: GraphRun, workflow: str, given: Any, path: Path, how: ChildOptions) -> SpawnOperation:
    raw = values.encode(((), given if isinstance(given, dict) else {} if given is None else {"value": given}), "the input of", path)
    id, undo = child_id(idempotency_key(run.execution.key, path)), how.undo and how.awaited
    return SpawnOperation(workflow, id, 0, raw, how.awaited, undo=undo, on_cancel="cancel" if how.awaited else "detach", grace_s=how.grace_s)


def _pinned_child(run: GraphRun, pinned: PinnedCall, given: Any, path: Path, how: ChildOptions) -> SpawnOperation:
    """A child of a definition of the catalog. It may call what its parent may call, and is found by its version as an execution that was started is."""
    return msgspec.structs.replace(
        _child_operation(run, pinned.workflow, given, path, how),
        version=WALK_VERSION,
        program=CATALOG_PROGRAM,
        definition=pinned.definition,
        deadline_s=pinned.deadline_s,
        grace_s=pinned.grace_s if how.grace_s is None else how.grace_s,
        attributes=checked_attributes(version_attributes(pinned.version, pinned.definition.sha256)),
    )


def failure_notification(run: GraphRun, target: str, path: Path, given: Any) -> NewOperation:
    """Returns the operation that reports a failure to a tool or to another workflow."""
    tool = run.workflow.tool(target)
    if tool is not None and all(one.target != target for one in run.execution.calls):
        return NewOperation(
            CallOperation(target, encode_call_arguments(given, path), tool.queue, tool.rule, tool.timeout_s, tool.may_repeat, transaction=tool.transaction),
            (),
            tool,
        )
    return child_start(run, target, given, path, ChildOptions())
