"""Verbs: what each kind of node does, once, and by which port it settles."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.code.child_executions import RESTARTED_STATUSES
from perdure.code.durations import duration_seconds
from perdure.core import limits, values
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, ReceiveOperation, SendOperation, SleepOperation
from perdure.core.paths import Key, Path
from perdure.definitions.graph import asking, timing, tools, working
from perdure.definitions.graph.bodies import BlockRun
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.ir import AFTER, ALWAYS
from perdure.definitions.graph.node_scope import NodeOutcome, Output, combined_outcome
from perdure.definitions.graph.ticks import LoopBatch, first_batch
from perdure.definitions.graph.tools import ChildOptions
from perdure.definitions.graph.transforming import unknown_kind_error

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


def _open_call(run: "GraphProgram", doing: VerbRun, name: str, made: Callable[[], Operation]) -> None:
    """Do work that somebody else performs, and settle as that does."""
    op = run.log.attempted(doing.path, made)
    if isinstance(op, Failure):
        doing.then(op)
        return
    run.log.wait(doing.path, lambda settlement: doing.then(run.log.result(settlement)), tools.tool_step(run, doing.node, name))


def _verb_input(run: "GraphProgram", doing: VerbRun) -> Any:
    return None if doing.node.input is None else run.evaluated(doing.node.input, doing.names)


def tool(run: "GraphProgram", doing: VerbRun) -> None:
    """A step that the app registered."""
    name = str(doing.node.config)
    _open_call(run, doing, name, lambda: tools.tool_call(run, doing, name))


def task(run: "GraphProgram", doing: VerbRun) -> None:
    """Work for whoever serves a queue, or of a kind that this engine has."""
    config = doing.node.config if isinstance(doing.node.config, dict) else {"type": doing.node.config}
    name = str(config["type"])
    kind = None if "queue" in config else run.workflow.kinds.get(name)
    known = run.log.upcoming(doing.path)
    if kind is not None and not (isinstance(known, CallOperation) and known.queue and not kind.step.queue):  # it was given to a queue then
        working.run_kind(run, doing, kind, working.KindTemplates(config.get("config"), doing.node.input, doing.node.env))
        return
    judged = doing._replace(then=lambda how: doing.then(_check_port(run, doing, how)))

    def made() -> Operation:
        node = doing.node
        step = tools.tool_step(run, node, name)
        given, secrets = run.given(node.input, doing.names)
        args, queue = tools.encode_call_arguments(given, doing.path), str(config.get("queue") or name)
        heartbeat = config.get("heartbeat")
        call = CallOperation(
            name,
            args,
            queue,
            step.rule,
            node.timeout_s,
            node.idempotent is not False,
            priority=int(config.get("priority") or 0),
            heartbeat_s=None if heartbeat is None else duration_seconds(heartbeat, "heartbeat"),
            secrets=secrets,
        )
        return tools.call_with_end_options(call, node)

    _open_call(run, judged, name, made)


def _check_port(run: "GraphProgram", doing: VerbRun, how: NodeOutcome | Failure) -> NodeOutcome | Failure:
    """How a worker has left a task; by a port of which the definition says nothing, though it tells others apart, it can't."""
    node, place = doing.node, doing.firing.place
    if isinstance(how, Failure) or how.port == "success" or node.each is not None or node.repeat is not None or node.rules or node.choose:
        return how
    known = dict.fromkeys((*(edge for number in place.out if (edge := run.plan.edges[number].port) not in (AFTER, ALWAYS)), *node.ended))

    def leads_on() -> KeepOperation | None:
        if known and how.port not in known and not run.plan.by_port(place, how.port):
            told = f"{node.id} was left by the port {how.port!r}, of which its next says nothing; it tells of {', '.join(known)}"
            raise run.failure(f"{told}: add it there, with [] if nothing follows", "UnknownPort")
        return None

    wrong = run.log.judged((*doing.path, ("port", 0)), leads_on)
    return wrong if isinstance(wrong, Failure) else how


def other(run: "GraphProgram", doing: VerbRun) -> None:
    """A kind of work, as what the engine was given for it does it."""
    node = doing.node
    kind = run.workflow.kinds.get(node.kind)
    if kind is None:
        doing.then(unknown_kind_error(run, doing, node.kind))
    else:
        working.run_kind(run, doing, kind, working.KindTemplates(node.config, node.input, node.env))


def call(run: "GraphProgram", doing: VerbRun) -> None:
    """A Python function, or another workflow as a child."""
    config = doing.node.config if isinstance(doing.node.config, dict) else {"target": doing.node.config}
    target = str(config["target"])
    if target.startswith("py:"):
        _open_call(run, doing, target, lambda: tools.tool_call(run, doing, target))
        return
    if bool(config.get("wait", True)):
        _wait_for_child(run, doing, ChildOptions(True, bool(config.get("undo")) or doing.node.undo is not None, doing.node.grace_s), 1)
    elif not isinstance(op := _start_child(run, doing, doing.path, ChildOptions(False)), Failure):
        started = {"workflow": getattr(op, "workflow", target), "id": getattr(op, "id", "")}
        doing.then(NodeOutcome("success", Output.of(started, "what was started")))


def _start_child(run: "GraphProgram", doing: VerbRun, path: Path, how: ChildOptions) -> Operation | Failure:
    """Start a child; if that can't be, the node has settled so."""
    config, blobs = doing.node.config, list[tuple[str, bytes]]()
    target = str(config["target"] if isinstance(config, dict) else config)

    def made() -> Operation:
        child = tools.child_start(run, target, _verb_input(run, doing), path, how)
        blobs.extend(child.blobs)
        return child.op

    op = run.log.attempted(path, made, lambda: tuple(blobs))
    if isinstance(op, Failure):
        doing.then(op)
    return op


def _wait_for_child(run: "GraphProgram", doing: VerbRun, how: ChildOptions, times: int) -> None:
    """Wait for a child, started for the `times`-th time: one that has failed is started anew as often as the node says."""
    path = doing.path if times == 1 else (*doing.path, times, ("again", 0))

    def ended(settlement: SettledOperation) -> None:
        told, rule = run.log.result(settlement), tools.child_retry_policy(doing.node)
        if not isinstance(told, Failure) or told.kind not in RESTARTED_STATUSES or times >= rule.max or not tools.may_restart_child(doing.node, told.error):
            timing.stop_timeout(run, doing)
            doing.then(told if isinstance(told, Failure) else NodeOutcome("success", told.output))
            return
        wait = (*doing.path, times, ("wait", 0))
        _ = run.log.ask(wait, SleepOperation(rule.delay_s(times, f"{run.execution.key}:{doing.path}:{times}")))
        run.log.wait(wait, lambda _: _wait_for_child(run, doing, how, times + 1))

    if not isinstance(_start_child(run, doing, path, how), Failure):
        if times == 1:
            timing.start_timeout(run, doing)
        run.log.wait(path, ended)


def sleep(run: "GraphProgram", doing: VerbRun) -> None:
    """A wait, across restarts."""

    def made() -> Operation:
        until = doing.node.config.get("until") if isinstance(doing.node.config, dict) else None
        if until is None:
            return SleepOperation(duration_seconds(run.evaluated(doing.node.config, doing.names), "sleep"))
        when = run.evaluated(until, doing.names)
        return SleepOperation(until_s=float(when) if isinstance(when, int | float) else _parse_time(run, when))

    op = run.log.attempted(doing.path, made)
    if isinstance(op, Failure):
        doing.then(op)
    else:
        run.log.wait(doing.path, lambda settlement: doing.then(run.log.result(settlement)))


def _parse_time(run: "GraphProgram", when: Any) -> float:
    try:
        return datetime.fromisoformat(when).timestamp()
    except (TypeError, ValueError) as error:
        raise run.failure(f"sleep until {when!r}, which is no time such as 2026-11-22T10:00:00Z") from error


def listen(run: "GraphProgram", doing: VerbRun) -> None:
    """A wait for messages: for the first, and with `gather` for further ones, so long."""
    config = doing.node.config if isinstance(doing.node.config, dict) else {"names": doing.node.config}
    gather = config.get("gather")
    limit = int(config.get("limit") or (1 if gather is None else limits.MAILBOX_MESSAGES_MAX))
    bodies: list[Output] = []

    def asked(timeout: Any, most: int, is_first: bool) -> Operation:
        names = run.evaluated(config["names"], doing.names)
        timeout_s = None if timeout is None else duration_seconds(run.evaluated(timeout, doing.names), "timeout" if is_first else "gather")
        return ReceiveOperation(tuple(names) if isinstance(names, list) else (str(names),), most, not is_first, timeout_s)

    def received(settlement: SettledOperation, is_first: bool) -> None:
        if isinstance(settlement.outcome, Failure) and (is_first or settlement.outcome.kind != "timeout"):
            doing.then(NodeOutcome("timeout", Output()) if settlement.outcome.kind == "timeout" else settlement.outcome)
            return
        bodies.extend(Output(run.log.raw(letter.body)) for letter in settlement.letters)
        if is_first and gather is not None and len(bodies) < limit:
            wait((*doing.path, ("gather", 0)), gather, False)
        else:
            letters = {str(place): body for place, body in enumerate(bodies[:1] if limit == 1 else bodies)}
            doing.then(
                combined_outcome("success", letters, f"what {doing.node.id} has received", lambda found: found["0"] if limit == 1 else list(found.values()))
            )

    def wait(path: Path, timeout: Any, is_first: bool) -> None:
        op = run.log.attempted(path, lambda: asked(timeout, limit - len(bodies), is_first))
        if isinstance(op, Failure):
            doing.then(op)
        else:
            run.log.wait(path, lambda settlement: received(settlement, is_first))

    wait(doing.path, config.get("timeout", doing.node.timeout_s), True)


def emit(run: "GraphProgram", doing: VerbRun) -> None:
    """A message to another execution, or an item of the execution's own stream."""

    def made() -> Operation:
        config = doing.node.config if isinstance(doing.node.config, dict) else {"body": doing.node.config}
        said = run.evaluated(config, doing.names)
        told = said["body"] if "body" in said else _verb_input(run, doing)
        body = values.encode(told, "the body of", doing.path)
        if "to" not in said:
            shown = body if "name" not in said else values.encode({"name": said["name"], "body": told}, "the item of", doing.path)
            return KeepOperation(shown, "stream")
        to = said["to"]
        return SendOperation(Key(run.execution.key.tenant, str(to["workflow"]), str(to["id"])), str(said["name"]), body)

    op = run.log.attempted(doing.path, made)
    doing.then(op if isinstance(op, Failure) else NodeOutcome("success", Output()))


# control


def loop(run: "GraphProgram", doing: VerbRun) -> None:
    """The next batch of a list, for the steps of the cycle that begins here."""
    stay = doing.firing.frame.stay
    before = None if stay is None else stay.tick
    tick = before.next() if isinstance(before, LoopBatch) and not before.done else _first_loop_batch(run, doing)
    if isinstance(tick, Failure):
        doing.then(tick)
        return
    config = doing.node.config if isinstance(doing.node.config, dict) else {}
    if not tick.done and tick.number >= config.get("max", tick.number + 1):
        doing.then(Failure("exhausted", 1, ErrorInfo("LoopExhausted", f"{doing.node.id} has more than {config['max']:,} batches")))
        return
    if stay is not None:
        stay.tick = tick
        given: dict[str, Any] = {"loop": tick.variables}
        for name, called in (("item", config.get("as", "item")), ("index", config.get("index", "index"))):
            if name in tick.variables:
                given |= {name: tick.variables[name], str(called): tick.variables[name]}
        doing.firing.frame.scope = doing.names.inside(given)
    run.roots.loop = tick.variables
    doing.then(NodeOutcome(tick.port, Output.of(tick.data, "the batch")))


def _first_loop_batch(run: "GraphProgram", doing: VerbRun) -> LoopBatch | Failure:
    config = doing.node.config if isinstance(doing.node.config, dict) else {"items": doing.node.config}

    def items() -> KeepOperation:
        found = run.evaluated({"items": config.get("items"), "batch": config.get("batch", 1)}, doing.names)
        begun = first_batch(found["items"], found["batch"])
        if isinstance(begun, str):
            raise run.failure(begun)
        return KeepOperation(values.encode(begun, "the items of", doing.path), label="items")

    kept = run.log.judged((*doing.path, ("items", 0)), items)
    if isinstance(kept, KeepOperation):
        begun: LoopBatch = values.decode(run.log.raw(kept.value), LoopBatch, "the items of", doing.path)
        return begun
    return LoopBatch() if kept is None else kept


def test(run: "GraphProgram", doing: VerbRun) -> None:
    """A condition, whose answer is the port."""

    def told(holds: Any) -> None:
        if isinstance(holds, Failure):
            doing.then(holds)
            return
        kept = run.log.note(doing.path, KeepOperation(values.encode(holds, "the answer"), port="true" if holds else "false"))
        doing.then(NodeOutcome(kept.port, Output(run.log.raw(kept.value))))

    run.judge(doing.path, doing.node.config, doing.names, told)


def set_(run: "GraphProgram", doing: VerbRun) -> None:
    """Variables, from here on."""
    kept = run.log.attempted(doing.path, lambda: KeepOperation(values.encode(run.evaluated(doing.node.config, doing.names), "the value of", doing.path)))
    doing.then(
        kept
        if isinstance(kept, Failure)
        else NodeOutcome("success", Output(run.log.raw(kept.value)))
        if isinstance(kept, KeepOperation)
        else NodeOutcome("success", Output())
    )


def if_(run: "GraphProgram", doing: VerbRun) -> None:
    """One of two bodies."""

    def told(holds: Any) -> None:
        if isinstance(holds, Failure):
            doing.then(holds)
            return
        kept = run.log.note(doing.path, KeepOperation(values.encode(holds, "the answer"), port="true" if holds else "false"))
        region = doing.node.bodies[0 if kept.port == "true" else 1]
        BlockRun(run, doing, "do").begin(region, port=kept.port)

    run.judge(doing.path, doing.node.config, doing.names, told)


def do(run: "GraphProgram", doing: VerbRun) -> None:
    """A body."""
    BlockRun(run, doing, "do").begin(doing.node.bodies[0])


def parallel(run: "GraphProgram", doing: VerbRun) -> None:
    """Branches that all begin at once."""
    config = doing.node.config if isinstance(doing.node.config, dict) else {}
    BlockRun(run, doing, "parallel", int(config.get("concurrency") or 0), config.get("on_error") == "go_on").begin(doing.node.bodies[0])


def race(run: "GraphProgram", doing: VerbRun) -> None:
    """Branches of which the first that succeeds wins."""
    BlockRun(run, doing, "race").begin(doing.node.bodies[0])


def return_(run: "GraphProgram", doing: VerbRun) -> None:
    """The end of the execution, with a result: what stands in `with`, if all that is said is true."""
    config = doing.node.config
    is_given = config is True and (doing.node.input is not None or run.dialect_rules.return_true_takes_input)
    template = doing.node.input if is_given else config
    kept = run.log.attempted(doing.path, lambda: KeepOperation(values.encode(run.evaluated(template, doing.names), "the result")))
    if isinstance(kept, KeepOperation):
        if run.passages is not None:
            run.passages.end_around(doing.firing.path, run.execution.now_s)
        run.ending.complete(Output(run.log.raw(kept.value)))
    elif isinstance(kept, Failure):
        doing.then(kept)


def fail(run: "GraphProgram", doing: VerbRun) -> None:
    """A failure of one's own."""
    config = doing.node.config if isinstance(doing.node.config, dict) else {"message": doing.node.config}

    def refuse() -> KeepOperation | None:
        said = run.evaluated(config, doing.names)
        raise run.failure(str(said.get("message") or "the definition says so"), str(said.get("type") or "Failed"))

    error = run.log.judged((*doing.path, ("error", 0)), refuse)
    doing.then(error if isinstance(error, Failure) else Failure("fatal", 1, ErrorInfo("Failed", "")))


def approve(run: "GraphProgram", doing: VerbRun) -> None:
    """A person decides."""
    from perdure.definitions.graph.approving import approve as asked  # here, as it is a workflow itself

    asked(run, doing)


def agent(run: "GraphProgram", doing: VerbRun) -> None:
    """A model decides which tools to use."""
    from perdure.definitions.graph import agents  # here, as few definitions have any

    agents.agent(run, doing)


def agent_message(run: "GraphProgram", doing: VerbRun) -> None:
    """A message to the agent that is at work, or to a session."""
    from perdure.definitions.graph import agents

    agents.agent_message(run, doing)


VERBS: dict[str, Callable[["GraphProgram", VerbRun], None]] = {
    "tool": tool,
    "task": task,
    "call": call,
    "agent": agent,
    "agent_message": agent_message,
    "approve": approve,
    "llm": asking.llm,
    "listen": listen,
    "emit": emit,
    "sleep": sleep,
    "loop": loop,
    "set": set_,
    "test": test,
    "if": if_,
    "parallel": parallel,
    "race": race,
    "do": do,
    "return": return_,
    "fail": fail,
    "": other,
}
