"""Asking for an approval: a child execution, whose verdict says by which port the step settles. What does not fit the form is asked for again."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from perdure.code.approval_requests import ApprovalRequest, ApprovalVerdict
from perdure.code.child_executions import child_id
from perdure.code.durations import duration_seconds
from perdure.code.results import Decision
from perdure.core import values
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import APPROVAL_WORKFLOW, Failure, Operation, SpawnOperation
from perdure.core.paths import Path, idempotency_key
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome, Output, full_schema, schema_problem

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


def approve(run: "GraphProgram", doing: VerbRun) -> None:
    """Ask, and settle as what was decided."""
    _open_approval(run, doing, doing.path, 1, "")


def _open_approval(run: "GraphProgram", doing: VerbRun, path: Path, times: int, refused: str) -> None:
    def made() -> Operation:
        raw = values.encode(((_approval_request_of_node(run, doing, refused),), {}), "what is asked", path)
        return SpawnOperation(APPROVAL_WORKFLOW, child_id(idempotency_key(run.execution.key, path)), 1, raw)

    def decided(settlement: SettledOperation) -> None:
        how = run.log.result(settlement)
        if isinstance(how, Failure):
            doing.then(how)
            return
        verdict: ApprovalVerdict = values.decode(how.output.raw, ApprovalVerdict, "the verdict of", path)
        decision = verdict.decision()
        again = (*doing.path, ("again", times + 1))
        if decision.approved and not decision.expired and (why := _form_problem(run, doing, again, decision.value)):
            _open_approval(run, doing, again, times + 1, why)
            return
        told = merged_decision(verdict.details, decision) if run.dialect_rules.decision_merged_into_payload else _decision_record(decision)
        doing.then(NodeOutcome(_port_of_verdict(doing, verdict), Output.of(told, "the decision")))

    op = run.log.attempted(path, made)
    if isinstance(op, Failure):
        doing.then(op)
    else:
        run.log.wait(path, decided)


def _decision_record(decision: Decision[Any]) -> dict[str, Any]:
    """The result of the step: the record of the decision."""
    return {
        "approved": decision.approved,
        "form": decision.value,
        "by": decision.by,
        "comment": decision.comment,
        "expired": decision.expired,
        "at_s": decision.at_s,
        "means": decision.means,
    }


def merged_decision(details: Any, decision: Decision[Any]) -> dict[str, Any]:
    """The result of the step where tokens carry a payload: that, with the record of the decision in it, in the words of that dialect."""
    payload = details if isinstance(details, dict) else {} if details is None else {"payload": details}
    return {
        **payload,
        **({} if decision.value is None else {"form": decision.value}),
        "decision": "approve" if decision.approved else "timeout" if decision.expired else "reject",
        "comments": decision.comment,
        "decided_by": decision.by or "system",
        "decided_at": datetime.fromtimestamp(decision.at_s, UTC).isoformat().replace("+00:00", "Z"),
        "means": decision.means,
    }


def _port_of_verdict(doing: VerbRun, verdict: ApprovalVerdict) -> str:
    if verdict.expired and _approval_config(doing).get("on_timeout", "fail") == "fail":
        return "timeout"
    return "approved" if verdict.approved else "rejected"


def _approval_config(doing: VerbRun) -> dict[str, Any]:
    config = doing.node.config
    return config if isinstance(config, dict) else {"title": config}


def _form_problem(run: "GraphProgram", doing: VerbRun, again: Path, filled: Any) -> str:
    """Why what was filled in is of no use; empty, if it is. On replay, it was of none if it was asked for again."""
    form = full_schema(_approval_config(doing).get("form"))
    if form is None:
        return ""
    if run.log.replaying:
        return "as before" if run.log.upcoming(again) is not None else ""
    return schema_problem(form, filled)


def _approval_request_of_node(run: "GraphProgram", doing: VerbRun, refused: str) -> ApprovalRequest:
    given = _approval_config(doing)
    form = given.get("form")
    said: dict[str, Any] = run.evaluated({name: value for name, value in given.items() if name != "form"}, doing.names)

    def times_s(name: str) -> float | None:
        return None if said.get(name) is None else duration_seconds(said[name], f"approve({name})")

    timeout_s = times_s("timeout")
    try:
        return ApprovalRequest(
            str(said.get("title") or doing.node.name or doing.node.id),
            said.get("details"),
            full_schema(form),
            tuple(map(str, said.get("assignees") or ())),
            int(said.get("quorum") or 1),
            times_s("remind"),
            times_s("escalate"),
            tuple(map(str, said.get("escalate_to") or ())),
            doing.node.timeout_s if timeout_s is None else timeout_s,
            said.get("on_timeout", "fail"),
            refused=refused,
            returns_details=run.dialect_rules.decision_merged_into_payload,
        )
    except (TypeError, ValueError) as error:
        raise run.failure(f"{doing.node.id} asks for something that can't be asked: {error}") from error
