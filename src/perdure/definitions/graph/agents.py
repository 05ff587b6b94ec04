"""Agents of a definition: child executions that do what a step says; and messages to them, or to a session that lasts as long as the execution.

What an agent does is a workflow that comes along with its definition; here it is started, told something, and waited for.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.code.child_executions import child_id
from perdure.core import limits, values
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, Operation, ReceiveOperation, SendOperation, SpawnOperation
from perdure.core.paths import Key, Path, idempotency_key, path_text
from perdure.definitions.graph import timing, working
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome, Output, combined_values
from perdure.definitions.graph.operation_log import FAILED
from perdure.definitions.graph.transforming import unknown_kind_error

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram

AGENT_MESSAGE = "agent_message"
"""The name of the messages that agents take."""

CONTENT_FIELDS = ("content", "message", "goal")
"""Where the text of a message stands: the first of these that does."""

ANSWER_TIMEOUT_S = 300.0
"""How long an answer is waited for unless it is said."""

PREVIEW_CHARACTERS_MAX = 1_900
"""More of an earlier result an agent is not told by its context."""

SESSION_SEGMENT = ("session", 0)
SENT_SEGMENT = ("said", 0)


def agent(run: "GraphProgram", doing: VerbRun) -> None:
    """An agent as a child execution, settled with its answer."""
    if _is_replaced(run, doing):
        return

    def made() -> Operation:
        op = _start_agent(run, child_id(idempotency_key(run.execution.key, doing.path)), _agent_task(run, doing), doing.path, awaited=True)
        return msgspec.structs.replace(op, undo=doing.node.undo is not None, grace_s=doing.node.grace_s)

    def ended(settlement: SettledOperation) -> None:
        how = run.log.result(settlement)
        timing.stop_timeout(run, doing)
        if isinstance(how, Failure):
            doing.then(how)
            return
        told: dict[str, Any] = how.output.value
        answer = Output.of(told.get("output"), "the answer of an agent")
        answer.meta = {"llm": {"model": told.get("model", "")}, "usage": told.get("spent", {}), "tools": told.get("tools", [])}
        doing.then(NodeOutcome("success", answer))

    op = run.log.attempted(doing.path, made)
    if isinstance(op, Failure):
        doing.then(op)
        return
    run.agents[doing.path] = op.id if isinstance(op, SpawnOperation) else ""
    timing.start_timeout(run, doing)
    run.log.wait(doing.path, ended)


def agent_message(run: "GraphProgram", doing: VerbRun) -> None:
    """A message to the agent that is at work in this execution, the one that began last; where none is, to a session that keeps what was said."""
    if _is_replaced(run, doing):
        return
    at_work = next((id for path, id in reversed(run.agents.items()) if run.log.waits_at(path)), "")
    id = at_work or child_id(idempotency_key(run.execution.key, (SESSION_SEGMENT,)))
    if not at_work and not run.has_session:
        opened = run.log.attempted((SESSION_SEGMENT,), lambda: _start_agent(run, id, {"session": True}, (SESSION_SEGMENT,), awaited=False))
        if isinstance(opened, Failure):
            doing.then(opened)
            return
        run.has_session = True
    reply_as, reply = f"answer to {path_text(doing.path)}", (*doing.path, ("answer", 0))
    config = _message_config(doing)

    def said() -> Operation:
        told = run.evaluated({name: value for name, value in config.items() if name in CONTENT_FIELDS}, doing.names)
        content = next((told[name] for name in CONTENT_FIELDS if told.get(name)), "")
        body: dict[str, Any] = {"content": _text(content), "interrupt": bool(config.get("interrupt"))}
        if config.get("await_response"):
            body |= {"reply_to": run.execution.key, "reply_as": reply_as}
        return SendOperation(Key(run.execution.key.tenant, run.workflow.agent, id), AGENT_MESSAGE, values.encode(body, "what is said to an agent", doing.path))

    sent = run.log.attempted((*doing.path, SENT_SEGMENT), said)
    if isinstance(sent, Failure):
        doing.then(sent)
    elif not config.get("await_response"):
        doing.then(NodeOutcome("success", Output.of({"sent": True, "agent": id}, "that it was sent")))
    else:
        _ = run.log.ask(reply, ReceiveOperation((reply_as,), timeout_s=_answer_timeout_s(doing, config)))
        run.log.wait(reply, lambda settlement: _take_answer(run, doing, id, settlement))


def end_agent_session(run: "GraphProgram") -> None:
    """Tell the session that nothing more will be said."""
    run.has_session = False
    to = Key(run.execution.key.tenant, run.workflow.agent, child_id(idempotency_key(run.execution.key, (SESSION_SEGMENT,))))
    _ = run.log.ask((SESSION_SEGMENT, ("over", 0)), SendOperation(to, AGENT_MESSAGE, values.encode({"is_over": True}, "that it is over")))


def _is_replaced(run: "GraphProgram", doing: VerbRun) -> bool:
    """Whether something else does this: what the engine was given for this kind of steps; or nothing can. On replay, as it was then."""
    kind = run.workflow.kinds.get(doing.node.kind)
    if run.log.replaying and run.log.upcoming((*doing.path, FAILED)) is None and not isinstance(run.log.upcoming(doing.path), CallOperation):
        return False
    if kind is not None:
        working.run_kind(run, doing, kind, working.KindTemplates(doing.node.config, doing.node.input, doing.node.env))
    elif not run.workflow.agent:
        doing.then(unknown_kind_error(run, doing, doing.node.kind))
    return kind is not None or not run.workflow.agent


def _start_agent(run: "GraphProgram", id: str, task: dict[str, Any], path: Path, awaited: bool) -> SpawnOperation:
    if run.execution.depth >= limits.DEPTH_MAX:
        raise run.failure(f"{path_text(path)} would be the {limits.DEPTH_MAX + 1}th execution under one another; a recursion has to end", "TooDeep")
    raw = values.encode(((task,), {}), "the task of", path)
    return SpawnOperation(run.workflow.agent, id, 0, raw, awaited, on_cancel="cancel" if awaited else "detach")


def _agent_task(run: "GraphProgram", doing: VerbRun) -> dict[str, Any]:
    """What the agent is to do, as its workflow takes it."""
    node, ir = doing.node, run.plan.ir
    config: dict[str, Any] = node.config if isinstance(node.config, dict) else {"prompt": node.config}
    plain: dict[str, Any] = {name: config[name] for name in ("schema", "budget", "temperature", "max_tokens", "repairs") if name in config}
    told = run.evaluated({name: config[name] for name in ("prompt", "model", "system", "instructions") if name in config}, doing.names)
    if "instructions" in told:
        told["system"] = "\n\n".join(str(told[name]) for name in ("system", "instructions") if told.get(name))
        del told["instructions"]
    task: dict[str, Any] = {**plain, **{name: str(value) for name, value in told.items()}}
    task |= {"tools": list(config.get("tools", ())), "approve": list(config.get("approve", ())), "step": node.id, "version": ir.version}
    if rule := node.retry or ir.retry:
        task["retry"] = msgspec.to_builtins(rule)
    if node.input is not None:
        task["input"] = run.evaluated(node.input, doing.names)
    if "context" in config:
        task["context"] = _agent_context(run, doing, config["context"])
    if node.choose:
        task |= {"choose": list(node.choose), "may_choose_none": bool(node.default)}
    if any(one.kind == AGENT_MESSAGE for one in ir.nodes):
        task["listens"] = True
    return task


def _agent_context(run: "GraphProgram", doing: VerbRun, wanted: Any) -> dict[str, Any]:
    """Earlier results by name: all that can be seen here, or those that are named."""
    if wanted is True:
        found = combined_values({id: output for id, output in doing.names.seen().items() if output.port != "skipped"}, "the context of an agent")
    elif isinstance(wanted, Mapping):
        found = run.evaluated(wanted, doing.names)
    else:
        listed = wanted if isinstance(wanted, list) else [wanted] if wanted else []
        found = dict(zip((str(one).lstrip("@") for one in listed), run.evaluated(listed, doing.names), strict=True))
    return {name: _preview(value) for name, value in found.items()}


def _preview(value: Any) -> Any:
    """A result as it is if it is short, else its beginning and by which hash it is known."""
    shown = _text(value)
    if len(shown) <= PREVIEW_CHARACTERS_MAX:
        return value
    return f"{shown[:PREVIEW_CHARACTERS_MAX]}… (cut: {len(shown):,} characters in all, sha256:{sha256(values.encode(value, 'a result')).hexdigest()[:16]})"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _message_config(doing: VerbRun) -> dict[str, Any]:
    config = doing.node.config
    return config if isinstance(config, dict) else {"content": config}


def _answer_timeout_s(doing: VerbRun, config: dict[str, Any]) -> float:
    if "await_timeout_ms" in config:
        return float(config["await_timeout_ms"]) / 1000
    return ANSWER_TIMEOUT_S if doing.node.timeout_s is None else doing.node.timeout_s


def _take_answer(run: "GraphProgram", doing: VerbRun, id: str, settlement: SettledOperation) -> None:
    if isinstance(settlement.outcome, Failure):
        late = Failure("timeout", 1, ErrorInfo("Timeout", f"{doing.node.id} was not answered in time; look at {run.workflow.agent} {id}"))
        wired = settlement.outcome.kind == "timeout" and run.plan.has_port(doing.firing.place, "timeout")
        doing.then(NodeOutcome("timeout", Output()) if wired else late if settlement.outcome.kind == "timeout" else settlement.outcome)
        return
    answer: dict[str, Any] = values.decode(run.log.raw(settlement.letters[0].body), dict[str, Any], "the answer of an agent")
    if "error" in answer:
        doing.then(Failure("fatal", 1, ErrorInfo("AgentFailed", f"the agent {run.workflow.agent} {id} could not answer {doing.node.id}: {answer['error']}")))
    else:
        doing.then(NodeOutcome("success", Output.of(answer.get("output"), "the answer of an agent")))
