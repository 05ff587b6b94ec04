"""The verbs that a child execution performs by asking an agent or a person: `agent`, `agent_message` and `approve`.

The verdict of an approval decides the port; people are asked again if the filled-in form does not fit. A message goes to the running agent, or to a
session that lasts as long as the execution.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec

from perdure.code.approval_requests import ApprovalRequest, ApprovalVerdict, approval_operation, due_at, with_subject
from perdure.code.child_executions import child_id
from perdure.code.durations import duration_seconds
from perdure.code.results import Decision
from perdure.core import error_codes, values
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, Operation, ReceiveOperation, SendOperation, SpawnOperation
from perdure.core.paths import Key, Path, idempotency_key, path_text
from perdure.definitions.format.verb_shapes import AGENT_MESSAGE
from perdure.definitions.graph.graph_run import GraphRun, VerbRun
from perdure.definitions.graph.kind_runs import run_node_kind
from perdure.definitions.graph.node_scope import NodeOutcome, Output, combined_values, full_schema, schema_problem
from perdure.definitions.graph.operation_log import FAILED
from perdure.definitions.graph.requirements import AGENT_VERBS
from perdure.definitions.graph.tool_calls import check_depth, start_timeout, stop_timeout


def approve(run: GraphRun, verb_run: VerbRun) -> None:
    """Asks people, and settles the node with their decision."""
    _open_approval(run, verb_run, verb_run.path, 1, "")


def _open_approval(run: GraphRun, verb_run: VerbRun, path: Path, times: int, refused: str) -> None:
    def made() -> Operation:
        asked, execution = _approval_request_of_node(run, verb_run, refused), run.execution
        return approval_operation(asked, child_id(idempotency_key(execution.key, path)), execution.key, execution.now_s, path)

    def decided(settlement: SettledOperation) -> None:
        how = run.log.result(settlement)
        if isinstance(how, Failure):
            verb_run.then(how)
            return
        verdict: ApprovalVerdict = values.decode(how.output.raw, ApprovalVerdict, "the verdict of", path)
        decision = verdict.decision()
        again = (*verb_run.path, ("again", times + 1))
        if decision.approved and not decision.expired and (why := _form_problem(run, verb_run, again, decision.value)):
            _open_approval(run, verb_run, again, times + 1, why)
            return
        told = merged_decision(verdict.details, decision) if run.dialect_rules.decision_merged_into_payload else _decision_record(decision)
        verb_run.then(NodeOutcome(_port_of_verdict(verb_run, verdict), Output.of(told, "the decision")))

    op = run.log.attempted(path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
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
    """Returns the result of the step where tokens carry a payload: the payload with the decision in it, in the field names of that dialect."""
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


def _port_of_verdict(verb_run: VerbRun, verdict: ApprovalVerdict) -> str:
    if verdict.expired and _approval_config(verb_run).get("on_timeout", "fail") == "fail":
        return "timeout"
    return "approved" if verdict.approved else "rejected"


def _approval_config(verb_run: VerbRun) -> dict[str, Any]:
    config = verb_run.node.config
    return config if isinstance(config, dict) else {"title": config}


def _form_problem(run: GraphRun, verb_run: VerbRun, again: Path, filled: Any) -> str:
    """Returns why a filled-in form does not fit; empty if it does. On replay, it did not fit if people were asked again."""
    form = full_schema(_approval_config(verb_run).get("form"))
    if form is None:
        return ""
    if run.log.replaying:
        return "as before" if run.log.upcoming(again) is not None else ""
    return schema_problem(form, filled)


def _approval_request_of_node(run: GraphRun, verb_run: VerbRun, refused: str) -> ApprovalRequest:
    given = _approval_config(verb_run)
    form = given.get("form")
    said: dict[str, Any] = run.evaluated({name: value for name, value in given.items() if name != "form"}, verb_run.names)

    def times_s(name: str) -> float | None:
        return None if said.get(name) is None else duration_seconds(said[name], f"approve({name})")

    timeout_s = times_s("timeout")
    try:
        asked = ApprovalRequest(
            str(said.get("title") or verb_run.node.name or verb_run.node.id),
            said.get("details"),
            full_schema(form),
            tuple(map(str, said.get("assignees") or ())),
            int(said.get("quorum") or 1),
            times_s("remind"),
            times_s("escalate"),
            tuple(map(str, said.get("escalate_to") or ())),
            verb_run.node.timeout_s if timeout_s is None else timeout_s,
            said.get("on_timeout", "fail"),
            refused=refused,
            returns_details=run.dialect_rules.decision_merged_into_payload,
        )
        resource = said.get("resource")
        about = None if resource is None else (str(resource.get("type", "")), str(resource.get("id", "")))
        due_at_s, links = due_at(said.get("due"), run.execution.now_s), (str(said.get("route_hint") or ""), str(said.get("deep_link") or ""))
        return with_subject(asked, said.get("priority") or "normal", due_at_s, about, *links)
    except (AttributeError, TypeError, ValueError) as error:
        raise run.failure(f"{verb_run.node.id} can't ask for this approval: {error}") from error


CONTENT_FIELDS = ("content", "message", "goal")
"""The fields that may hold the text of a message, by precedence."""

ANSWER_TIMEOUT_S = 300.0
"""The default wait for an answer."""

PREVIEW_CHARACTERS_MAX = 1_900
"""The most characters of an earlier result in the context of an agent."""

SESSION_SEGMENT = ("session", 0)
SENT_SEGMENT = ("sent", 0)


def agent(run: GraphRun, verb_run: VerbRun) -> None:
    """Runs an agent as a child execution, and settles the node with its answer."""
    if _is_replaced(run, verb_run):
        return

    def made() -> Operation:
        op = _start_agent(run, child_id(idempotency_key(run.execution.key, verb_run.path)), _agent_task(run, verb_run), verb_run.path, awaited=True)
        return msgspec.structs.replace(op, undo=verb_run.node.undo is not None, grace_s=verb_run.node.grace_s)

    def ended(settlement: SettledOperation) -> None:
        how = run.log.result(settlement)
        stop_timeout(run, verb_run)
        if isinstance(how, Failure):
            verb_run.then(how)
            return
        told: dict[str, Any] = how.output.value
        answer = Output.of(told.get("output"), "the answer of an agent")
        answer.meta = {"llm": {"model": told.get("model", "")}, "usage": told.get("spent", {}), "tools": told.get("tools", [])}
        answer.meta |= {"preview": result_preview(told.get("output")), "session_id": child_id(idempotency_key(run.execution.key, verb_run.path))}
        verb_run.then(NodeOutcome("success", answer))

    op = run.log.attempted(verb_run.path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
        return
    run.agents[verb_run.path] = op.id if isinstance(op, SpawnOperation) else ""
    start_timeout(run, verb_run)
    run.log.wait(verb_run.path, ended)


def agent_message(run: GraphRun, verb_run: VerbRun) -> None:
    """Sends a message to the agent of this execution that began last; if none runs, to a session that keeps the conversation."""
    if _is_replaced(run, verb_run):
        return
    at_work = next((id for path, id in reversed(run.agents.items()) if run.log.waits_at(path)), "")
    id = at_work or child_id(idempotency_key(run.execution.key, (SESSION_SEGMENT,)))
    if not at_work and not run.has_session:
        opened = run.log.attempted((SESSION_SEGMENT,), lambda: _start_agent(run, id, {"session": True}, (SESSION_SEGMENT,), awaited=False))
        if isinstance(opened, Failure):
            verb_run.then(opened)
            return
        run.has_session = True
    reply_as, reply = f"answer to {path_text(verb_run.path)}", (*verb_run.path, ("answer", 0))
    config = _message_config(verb_run)

    def said() -> Operation:
        told = run.evaluated({name: value for name, value in config.items() if name in CONTENT_FIELDS}, verb_run.names)
        content = next((told[name] for name in CONTENT_FIELDS if told.get(name)), "")
        body: dict[str, Any] = {"content": _text(content), "interrupt": bool(config.get("interrupt"))}
        if config.get("await_response"):
            body |= {"reply_to": run.execution.key, "reply_as": reply_as}
        raw = values.encode(body, "what is said to an agent", verb_run.path)
        return SendOperation(Key(run.execution.key.tenant, run.workflow.agent, id), AGENT_MESSAGE, raw)

    sent = run.log.attempted((*verb_run.path, SENT_SEGMENT), said)
    if isinstance(sent, Failure):
        verb_run.then(sent)
    elif not config.get("await_response"):
        verb_run.then(NodeOutcome("success", Output.of({"sent": True, "agent": id}, "that it was sent")))
    else:
        _ = run.log.ask(reply, ReceiveOperation((reply_as,), timeout_s=_answer_timeout_s(verb_run, config)))
        run.log.wait(reply, lambda settlement: _take_answer(run, verb_run, id, settlement))


AGENT_ROLES = {"task": agent, "message": agent_message}
"""The verbs that the agent workflow of a definition performs, by the roles that the format gives them."""


def end_agent_session(run: GraphRun) -> None:
    """Sends the session the message that no more messages follow."""
    run.has_session = False
    to = Key(run.execution.key.tenant, run.workflow.agent, child_id(idempotency_key(run.execution.key, (SESSION_SEGMENT,))))
    _ = run.log.ask((SESSION_SEGMENT, ("ended", 0)), SendOperation(to, AGENT_MESSAGE, values.encode({"is_over": True}, "that it is over")))


def _is_replaced(run: GraphRun, verb_run: VerbRun) -> bool:
    """Whether the engine has a kind that replaces the built-in verb, or has no agent workflow. On replay, as it was recorded."""
    has_kind = verb_run.node.kind in run.workflow.kinds
    if run.log.replaying and run.log.upcoming((*verb_run.path, FAILED)) is None and not isinstance(run.log.upcoming(verb_run.path), CallOperation):
        return False
    if has_kind or not run.workflow.agent:
        run_node_kind(run, verb_run)
        return True
    return False


def _start_agent(run: GraphRun, id: str, task: dict[str, Any], path: Path, awaited: bool) -> SpawnOperation:
    check_depth(run, path)
    raw = values.encode(((task,), {}), "the task of", path)
    return SpawnOperation(run.workflow.agent, id, 0, raw, awaited, on_cancel="cancel" if awaited else "detach")


def _agent_task(run: GraphRun, verb_run: VerbRun) -> dict[str, Any]:
    """Returns the task of the agent in the form that its workflow takes."""
    node, ir = verb_run.node, run.plan.ir
    config: dict[str, Any] = node.config if isinstance(node.config, dict) else {"prompt": node.config}
    plain: dict[str, Any] = {name: config[name] for name in ("schema", "budget", "temperature", "max_tokens", "repairs", "stream") if name in config}
    told = run.evaluated({name: config[name] for name in ("prompt", "model", "system", "instructions") if name in config}, verb_run.names)
    if "instructions" in told:
        told["system"] = "\n\n".join(str(told[name]) for name in ("system", "instructions") if told.get(name))
        del told["instructions"]
    task: dict[str, Any] = {**plain, **{name: str(value) for name, value in told.items()}}
    tools = config.get("tools", ())
    task |= {"tools": [one for one in tools if isinstance(one, str)], "approve": list(config.get("approve", ())), "step": node.id, "version": ir.version}
    if apis := [one for one in tools if not isinstance(one, str)]:
        task["apis"] = [{**one, "openapi": {"url": one["openapi"]} if isinstance(one["openapi"], str) else one["openapi"]} for one in apis]
    if rule := node.retry or ir.retry:
        task["retry"] = msgspec.to_builtins(rule)
    if node.input is not None:
        task["input"] = run.evaluated(node.input, verb_run.names)
    if "context" in config:
        task["context"] = _agent_context(run, verb_run, config["context"])
    if node.choose:
        task |= {"choose": list(node.choose), "may_choose_none": bool(node.default)}
    if any(AGENT_VERBS.get(one.kind) == "message" for one in ir.nodes):
        task["listens"] = True
    return task


def _agent_context(run: GraphRun, verb_run: VerbRun, wanted: Any) -> dict[str, Any]:
    """Returns earlier results by name: all that are in scope, or the named ones."""
    if wanted is True:
        found = combined_values({id: output for id, output in verb_run.names.seen().items() if output.port != "skipped"}, "the context of an agent")
    elif isinstance(wanted, Mapping):
        found = run.evaluated(wanted, verb_run.names)
    else:
        listed = wanted if isinstance(wanted, list) else [wanted] if wanted else []
        found = dict(zip((str(one).lstrip("@") for one in listed), run.evaluated(listed, verb_run.names), strict=True))
    return {name: _preview(value) for name, value in found.items()}


SAMPLE_ROWS = 3
"""How many rows of a list are in its preview."""


def result_preview(value: Any) -> dict[str, Any]:
    """Returns the preview of a result: its type, and of a list the number of its rows and the first of them."""
    match value:
        case list():
            return {"type": "dataset", "row_count": len(value), "sample": [_preview(one) for one in value[:SAMPLE_ROWS]]}
        case dict():
            return {"type": "object", "sample": {name: _preview(one) for name, one in list(value.items())[:SAMPLE_ROWS]}}
        case str():
            return {"type": "text", "sample": _preview(value)}
    return {"type": "value", "sample": value}


def _preview(value: Any) -> Any:
    """Returns a short result unchanged; of a long one, its beginning and its hash."""
    shown = _text(value)
    if len(shown) <= PREVIEW_CHARACTERS_MAX:
        return value
    return f"{shown[:PREVIEW_CHARACTERS_MAX]}… (cut: {len(shown):,} characters in all, sha256:{sha256(values.encode(value, 'a result')).hexdigest()[:16]})"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _message_config(verb_run: VerbRun) -> dict[str, Any]:
    config = verb_run.node.config
    return config if isinstance(config, dict) else {"content": config}


def _answer_timeout_s(verb_run: VerbRun, config: dict[str, Any]) -> float:
    if "await_timeout_ms" in config:
        return float(config["await_timeout_ms"]) / 1000
    return ANSWER_TIMEOUT_S if verb_run.node.timeout_s is None else verb_run.node.timeout_s


def _take_answer(run: GraphRun, verb_run: VerbRun, id: str, settlement: SettledOperation) -> None:
    if isinstance(settlement.outcome, Failure):
        late = Failure(
            "timeout", 1, ErrorInfo(error_codes.TIMEOUT, f"{verb_run.node.id} received no answer in time. Look at the execution {id} of {run.workflow.agent}")
        )
        wired = settlement.outcome.kind == "timeout" and run.plan.has_port(verb_run.firing.place, "timeout")
        verb_run.then(NodeOutcome("timeout", Output()) if wired else late if settlement.outcome.kind == "timeout" else settlement.outcome)
        return
    answer: dict[str, Any] = values.decode(run.log.raw(settlement.messages[0].body), dict[str, Any], "the answer of an agent")
    if "error" in answer:
        why = f"the agent {run.workflow.agent} {id} could not answer {verb_run.node.id}: {answer['error']}"
        verb_run.then(Failure("fatal", 1, ErrorInfo(error_codes.AGENT_FAILED, why)))
    else:
        verb_run.then(NodeOutcome("success", Output.of(answer.get("output"), "the answer of an agent")))
