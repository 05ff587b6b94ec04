"""Policy checks: a policy is applied where something is about to be done. A refusal is recorded, and so is a question to a person."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from perdure.code.approval_requests import ApprovalRequest, ApprovalVerdict, approval_operation
from perdure.code.child_executions import child_id
from perdure.core import error_codes, values
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import Failure, KeepOperation, Operation
from perdure.core.paths import Path, idempotency_key
from perdure.definitions.graph.graph_run import GraphRun, VerbRun
from perdure.definitions.graph.ir import GraphNode
from perdure.definitions.graph.policy import NO_POLICY
from perdure.definitions.graph.step_kind import Capabilities
from perdure.definitions.graph.token_walk import Firing

POLICY_NOTE = ("policy", 0)
"""The segment, below an operation, of the note that a policy forbids it or that a person is asked."""

UNGUARDED_VERBS = frozenset(("approve", "listen", "emit", "sleep", "loop", "set", "test", "if", "parallel", "race", "do", "return", "fail"))
"""The verbs that use no tool and no kind of an engine."""

VERBS_OF_NO_KIND = UNGUARDED_VERBS | {"tool", "call"}
"""The verbs for which only a policy states capabilities."""


def check_start(run: GraphRun) -> Failure | None:
    """Returns the failure of an execution that a policy forbids to start, or None."""

    def judge() -> KeepOperation | None:
        if run.workflow.policy is not NO_POLICY:
            verdict = run.workflow.policy.judge("start", {**_facts(run), "input": run.roots.root("input")})
            if verdict.deny:
                raise run.failure(f"{run.plan.ir.name} may not be started: {verdict.deny}", error_codes.UNAUTHORIZED)
        return None

    refused = run.log.judged((POLICY_NOTE,), judge)
    return refused if isinstance(refused, Failure) else None


def check_use(run: GraphRun, verb_run: VerbRun, go: Callable[[], None]) -> None:
    """Calls `go` if a node may do its work. If a person has to be asked, calls it after the approval."""
    if verb_run.node.kind in UNGUARDED_VERBS:
        go()
        return
    kept = run.log.judged((*verb_run.path, POLICY_NOTE), lambda: _judge_use(run, verb_run))
    if isinstance(kept, Failure):
        verb_run.then(kept)
    elif kept is None:
        go()
    else:
        _ask_approval(run, verb_run, values.decode(run.log.raw(kept.value), ApprovalRequest, "what is asked"), go)


def check_transition(run: GraphRun, firing: Firing, taken: Sequence[int]) -> Failure | None:
    """Returns the failure of a node that a policy forbids to take these edges, or None."""
    refused = run.log.judged((*firing.path, POLICY_NOTE), lambda: _judge_transition(run, firing, taken))
    return refused if isinstance(refused, Failure) else None


def _facts(run: GraphRun) -> dict[str, Any]:
    key, ir = run.execution.key, run.plan.ir
    return {"workflow": ir.name, "version": ir.version, "tenant": key.tenant, "id": key.id}


def check_without_person(run: GraphRun, tool: str, given: Any, node: GraphNode | None = None) -> None:
    """Checks an undo or the call of `on_failure` against the policy. No person is asked then, so a use that needs approval is refused.

    Raises:
        NodeFailure: the use is not allowed.
    """
    facts = {**_facts(run), "step": "" if node is None else node.id, "kind": "tool", "tool": tool}
    if run.workflow.policy is not NO_POLICY and _approval_question(run, facts, lambda: given):
        raise run.failure(
            f"{facts['step'] or 'on_failure'} may not use {tool}: its use needs an approval, which is not possible during an undo. Allow it in the policy",
            error_codes.UNAUTHORIZED,
        )


def _judge_use(run: GraphRun, verb_run: VerbRun) -> KeepOperation | None:
    node = verb_run.node
    if run.workflow.policy is NO_POLICY and node.kind in VERBS_OF_NO_KIND:
        return None
    facts = {**_facts(run), "step": node.id, "kind": node.kind, "tool": _tool_of_node(node)}

    def given() -> Any:
        return None if node.input is None else run.evaluated(node.input, verb_run.names, may_have_secrets=True)

    asks = _approval_question(run, facts, given)
    if not asks:
        return None
    details = {"step": node.id, "tool": facts["tool"], "kind": node.kind, "input": given()}
    return KeepOperation(values.encode(ApprovalRequest(asks, details), "what is asked", verb_run.path), label="policy")


def _approval_question(run: GraphRun, facts: dict[str, Any], given: Callable[[], Any]) -> str:
    """Returns the question to a person before something is used; empty if it may be used at once.

    Raises:
        NodeFailure: it may not be used.
    """
    policy, step, tool = run.workflow.policy, facts["step"] or "on_failure", facts["tool"]
    asks = ""
    for one in _capabilities(run, facts):
        if one.allowed_tools is not None and tool and tool not in one.allowed_tools:
            allowed = ", ".join(one.allowed_tools) or "none"
            raise run.failure(f"{step} tried to use {tool!r}, which is unauthorized; allowed are {allowed}", error_codes.UNAUTHORIZED)
        if one.requires_approval:
            asks = f"May {step} use {tool or facts['kind']}?"
    if policy is NO_POLICY:
        return asks
    verdict = policy.judge("tool", {**facts, "input": given()})
    if verdict.deny:
        raise run.failure(f"{step} may not use {tool or facts['kind']}: {verdict.deny}", error_codes.UNAUTHORIZED)
    return verdict.ask or asks


def _tool_of_node(node: GraphNode) -> str:
    """Returns the tool, the workflow, or the type of work that a node uses; empty if its kind uses none."""
    match node.kind, node.config:
        case "tool" | "call" | "task", str(name):
            return name
        case "call", {"target": name}:
            return str(name)
        case "task", {"type": name}:
            return str(name)
    return ""


def _capabilities(run: GraphRun, facts: dict[str, Any]) -> Iterator[Capabilities]:
    """Yields the capabilities stated for a step: by its kind, if the engine was given that kind, and by the policy."""
    name = facts["tool"] if facts["kind"] == "task" else facts["kind"]
    if facts["kind"] not in VERBS_OF_NO_KIND and (kind := run.workflow.kinds.get(name)) is not None:
        yield kind.capabilities
    yield from run.workflow.policy.of(facts)


def _judge_transition(run: GraphRun, firing: Firing, taken: Sequence[int]) -> KeepOperation | None:
    node, places = firing.place.node, run.plan.places
    if not taken or (run.workflow.policy is NO_POLICY and node.kind in VERBS_OF_NO_KIND):
        return None
    facts = {**_facts(run), "step": node.id, "kind": node.kind, "tool": _tool_of_node(node)}
    targets = [places[run.plan.edges[edge].target].node for edge in taken]
    for one in _capabilities(run, facts):
        if one.max_fanout is not None and len(targets) > one.max_fanout:
            why = f"{node.id} leads to {len(targets):,} steps at once, and at most {one.max_fanout:,} are allowed"
            raise run.failure(why, error_codes.EXCEEDED_MAX_FANOUT)
        for target in targets:
            if one.can_emit_to is not None and not {target.id, target.kind} & set(one.can_emit_to):
                allowed = ", ".join(one.can_emit_to) or "none"
                raise run.failure(f"{node.id} may not lead to {target.id!r}; allowed are {allowed}", error_codes.UNAUTHORIZED)
    for target in targets if run.workflow.policy is not NO_POLICY else ():
        verdict = run.workflow.policy.judge("transition", {**facts, "to": target.id, "to_kind": target.kind})
        if verdict.deny:
            raise run.failure(f"{node.id} may not lead to {target.id}: {verdict.deny}", error_codes.UNAUTHORIZED)
    return None


def _ask_approval(run: GraphRun, verb_run: VerbRun, request: ApprovalRequest, go: Callable[[], None]) -> None:
    path: Path = (*verb_run.path, ("approval", 0))

    def made() -> Operation:
        execution = run.execution
        return approval_operation(request, child_id(idempotency_key(execution.key, path)), execution.key, execution.now_s, path)

    def decided(settlement: SettledOperation) -> None:
        how = run.log.result(settlement)
        if isinstance(how, Failure):
            verb_run.then(how)
            return
        verdict: ApprovalVerdict = values.decode(how.output.raw, ApprovalVerdict, "the verdict of", path)
        if verdict.approved:
            go()
            return
        last = verdict.votes[-1] if verdict.votes else None
        by = f" by {last.by}{f': {last.comment}' if last.comment else ''}" if last else ""
        verb_run.then(Failure("fatal", 1, ErrorInfo(error_codes.NOT_APPROVED, f"the work of {verb_run.node.id} was not approved{by}")))

    op = run.log.attempted(path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
    else:
        run.log.wait(path, decided)
