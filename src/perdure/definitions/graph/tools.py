"""Tools: what the work of a node comes to as an operation: a call of a step that the app registered, or a child of another workflow."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from perdure.code.child_executions import child_id
from perdure.code.declarations import Retry, Step
from perdure.core import limits, values
from perdure.core.errors import ErrorInfo, Fatal
from perdure.core.operations import CallOperation, Operation, SpawnOperation
from perdure.core.operations import RetryPolicy as RetryRule
from perdure.core.paths import Path, idempotency_key, path_text
from perdure.core.values import Blob
from perdure.definitions.graph import ir
from perdure.definitions.graph.graph_workflow import WALK_VERSION, DefinitionRelease
from perdure.definitions.graph.version_ranges import best_version

if TYPE_CHECKING:
    from perdure.definitions.graph.doing import VerbRun
    from perdure.definitions.graph.instance import GraphProgram


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
    """A step that is tried again as a node says, else as the definition says, else as the step itself says."""
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
    """Whether a child may be started anew after this error, as its node names types of errors."""
    rule = node.retry
    return rule is not None and error.type not in rule.fatal and (not rule.only or error.type in rule.only)


def _stated_retry_options(rule: ir.RetryOptions) -> dict[str, Any]:
    """What a definition says about trying again, as options of `Retry`."""
    names = {"max": rule.max, "wait": rule.wait_s, "factor": rule.factor, "max_wait": rule.max_wait_s}
    return {name: value for name, value in names.items() if value is not None}


def missing_tool_step(name: str, known: Mapping[str, object]) -> Step[Any, Any, Any]:
    """What stands for a tool that is not here: it fails for good, and says so."""
    here = ", ".join(sorted(known)[:20]) or "none"

    def refuse(*_: Any, **__: Any) -> Any:
        raise Fatal(f"the engine that runs here has no tool {name!r} (it has {here}); give it that tool, and retry the execution")

    return Step(refuse, name=name)


def tool_step(run: "GraphProgram", node: ir.GraphNode, name: str) -> Step[Any, Any, Any]:
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


def tool_call(run: "GraphProgram", doing: "VerbRun", name: str) -> CallOperation:
    """The call of a tool with what it is given."""
    node, path = doing.node, doing.path
    step = tool_step(run, node, name)
    given, secrets = run.given(node.input, doing.names)
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


def child_start(run: "GraphProgram", target: str, given: Any, path: Path, how: ChildOptions) -> NewOperation:
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


def failure_notification(run: "GraphProgram", target: str, path: Path, given: Any) -> NewOperation:
    """Whom a failure is told: a tool, or another workflow."""
    tool = run.workflow.tool(target)
    if tool is not None:
        return NewOperation(
            CallOperation(target, encode_call_arguments(given, path), tool.queue, tool.rule, tool.timeout_s, tool.may_repeat, transaction=tool.transaction),
            (),
            tool,
        )
    return child_start(run, target, given, path, ChildOptions())
