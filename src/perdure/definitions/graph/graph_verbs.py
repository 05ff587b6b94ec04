"""The verbs of nodes. Each function performs its verb once, and settles the node by a port.

The verb `loop` is the head of a cycle, and passes its body one batch of a list at a time. Reached from outside, or after its last batch, it reads the list
anew; reached from its body, it continues with the next batch of the same items. It settles by ``loop`` with a batch, and by ``done`` when none is left.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import msgspec

from perdure.code.child_executions import RESTARTED_STATUSES
from perdure.code.durations import duration_seconds
from perdure.core import error_codes, limits, values
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, ReceiveOperation, SendOperation, SleepOperation
from perdure.core.paths import Key, Path
from perdure.definitions.graph import agent_verbs
from perdure.definitions.graph.graph_program import BlockRun, GraphProgram
from perdure.definitions.graph.graph_run import GraphRun, VerbRun
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.ir import AFTER, ALWAYS
from perdure.definitions.graph.kind_runs import KindRun, KindTemplates, run_node_kind
from perdure.definitions.graph.node_scope import NodeOutcome, Output, combined_outcome
from perdure.definitions.graph.requirements import AGENT_VERBS
from perdure.definitions.graph.tool_calls import (
    ChildOptions,
    call_with_end_options,
    child_retry_policy,
    child_start,
    encode_call_arguments,
    may_restart_child,
    start_timeout,
    stop_timeout,
    tool_call,
    tool_step,
)


class LoopBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a `loop`: the items and the size of a batch, both fixed at the first batch, and the start of this batch (`len(items)`: no batch is left)."""

    items: tuple[Any, ...] = ()
    size: int = 1
    start: int = 0
    number: int = 0

    @property
    def done(self) -> bool:
        """Whether no batch is left."""
        return self.start >= len(self.items)

    @property
    def port(self) -> Literal["loop", "done"]:
        """The port by which the step settles."""
        return "done" if self.done else "loop"

    @property
    def data(self) -> dict[str, Any]:
        """The result of the step: the progress, and the batch."""
        return {"state": self._state(), "batch": self._batch()}

    @property
    def variables(self) -> dict[str, Any]:
        """The fields of ``@loop``; for batches of one, `item` and `index` are the only item and its number."""
        seen = {"items": list(self.items), "state": self._state(), "batch": self._batch()}
        return seen | {"item": self.items[self.start], "index": self.start} if self.size == 1 and not self.done else seen

    def next(self) -> "LoopBatch":
        """Returns the next batch; this one must not be the last."""
        return LoopBatch(self.items, self.size, min(self.start + self.size, len(self.items)), self.number + 1)

    def _state(self) -> dict[str, Any]:
        return {
            "currentIndex": self.start,
            "totalItems": len(self.items),
            "iterations": self.number,
            "batchesProcessed": self.number,
            "isComplete": self.done,
        }

    def _batch(self) -> dict[str, Any] | None:
        if self.done:
            return None
        items = list(self.items[self.start : self.start + self.size])
        return {"index": self.number, "size": len(items), "items": items, "startIndex": self.start, "endIndex": self.start + len(items) - 1}


def first_batch(items: Any, size: Any) -> LoopBatch | str:
    """Returns the first batch of `items` (null: no items), or the reason why there is none."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return f"the batch size of loop is a whole number from 1, found {str(size)[:60]}"
    if items is not None and not isinstance(items, list):
        return f"loop needs a list, found {str(items)[:60]}"
    return LoopBatch(tuple(items or ()), size)


def _open_call(run: GraphRun, verb_run: VerbRun, name: str, made: Callable[[], Operation]) -> None:
    """Opens a call, and settles the node with the outcome of the call."""
    op = run.log.attempted(verb_run.path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
        return
    run.log.wait(verb_run.path, lambda settlement: verb_run.then(run.log.result(settlement)), tool_step(run, verb_run.node, name))


def _verb_input(run: GraphRun, verb_run: VerbRun) -> Any:
    return None if verb_run.node.input is None else run.evaluated(verb_run.node.input, verb_run.names)


def tool(run: GraphRun, verb_run: VerbRun) -> None:
    """Calls a step that the application registered."""
    name = str(verb_run.node.config)
    _open_call(run, verb_run, name, lambda: tool_call(run, verb_run, name))


def task(run: GraphRun, verb_run: VerbRun) -> None:
    """Puts work into a queue for workers, or performs it by a kind of this engine."""
    config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {"type": verb_run.node.config}
    name = str(config["type"])
    kind = None if "queue" in config else run.workflow.kinds.get(name)
    known = run.log.upcoming(verb_run.path)
    if kind is not None and not (isinstance(known, CallOperation) and known.queue and not kind.step.queue):  # the log has it on a queue
        KindRun(run, verb_run, kind, KindTemplates(config.get("config"), verb_run.node.input, verb_run.node.env, own_expressions=True)).begin()
        return
    judged = verb_run._replace(then=lambda how: verb_run.then(_check_port(run, verb_run, how)))

    def made() -> Operation:
        node = verb_run.node
        step = tool_step(run, node, name)
        given, secrets = run.given(node.input, verb_run.names)
        args, queue = encode_call_arguments(given, verb_run.path), str(config.get("queue") or name)
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
        return call_with_end_options(call, node)

    _open_call(run, judged, name, made)


def _check_port(run: GraphRun, verb_run: VerbRun, how: NodeOutcome | Failure) -> NodeOutcome | Failure:
    """The outcome of a task, or a failure if the task ended at a port that `next` of the node does not have although it has others."""
    node, place = verb_run.node, verb_run.firing.place
    if isinstance(how, Failure) or how.port == "success" or node.each is not None or node.repeat is not None or node.rules or node.choose:
        return how
    known = dict.fromkeys((*(edge for number in place.out if (edge := run.plan.edges[number].port) not in (AFTER, ALWAYS)), *node.ended))

    def leads_on() -> KeepOperation | None:
        if known and how.port not in known and not run.plan.by_port(place, how.port):
            why = f"{node.id} ended at the port {how.port!r}, which is not in its next ({', '.join(known)}); add it there, with [] if nothing follows"
            raise run.failure(why, error_codes.UNKNOWN_PORT)
        return None

    wrong = run.log.judged((*verb_run.path, ("port", 0)), leads_on)
    return wrong if isinstance(wrong, Failure) else how


def call(run: GraphRun, verb_run: VerbRun) -> None:
    """Calls a Python function, or starts another workflow as a child."""
    config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {"target": verb_run.node.config}
    target = str(config["target"])
    if target.startswith("py:"):
        _open_call(run, verb_run, target, lambda: tool_call(run, verb_run, target))
        return
    if bool(config.get("wait", True)):
        _wait_for_child(run, verb_run, ChildOptions(True, bool(config.get("undo")) or verb_run.node.undo is not None, verb_run.node.grace_s), 1)
    elif not isinstance(op := _start_child(run, verb_run, verb_run.path, ChildOptions(False)), Failure):
        started = {"workflow": getattr(op, "workflow", target), "id": getattr(op, "id", "")}
        verb_run.then(NodeOutcome("success", Output.of(started, "what was started")))


def _start_child(run: GraphRun, verb_run: VerbRun, path: Path, how: ChildOptions) -> Operation | Failure:
    """Starts a child; returns the failure if that is not possible."""
    config, blobs = verb_run.node.config, list[tuple[str, bytes]]()
    target = str(config["target"] if isinstance(config, dict) else config)

    def made() -> Operation:
        child = child_start(run, target, _verb_input(run, verb_run), path, how)
        blobs.extend(child.blobs)
        return child.op

    op = run.log.attempted(path, made, lambda: tuple(blobs))
    if isinstance(op, Failure):
        verb_run.then(op)
    return op


def _wait_for_child(run: GraphRun, verb_run: VerbRun, how: ChildOptions, times: int) -> None:
    """Waits for a child that was started for the `times`-th time; a failed one is started again as its retry policy says."""
    path = verb_run.path if times == 1 else (*verb_run.path, times, ("again", 0))

    def ended(settlement: SettledOperation) -> None:
        told, rule = run.log.result(settlement), child_retry_policy(verb_run.node)
        if not isinstance(told, Failure) or told.kind not in RESTARTED_STATUSES or times >= rule.max or not may_restart_child(verb_run.node, told.error):
            stop_timeout(run, verb_run)
            verb_run.then(told if isinstance(told, Failure) else NodeOutcome("success", told.output))
            return
        wait = (*verb_run.path, times, ("wait", 0))
        _ = run.log.ask(wait, SleepOperation(rule.delay_s(times, f"{run.execution.key}:{verb_run.path}:{times}")))
        run.log.wait(wait, lambda _: _wait_for_child(run, verb_run, how, times + 1))

    if not isinstance(_start_child(run, verb_run, path, how), Failure):
        if times == 1:
            start_timeout(run, verb_run)
        run.log.wait(path, ended)


def sleep(run: GraphRun, verb_run: VerbRun) -> None:
    """Waits, across restarts."""

    def made() -> Operation:
        until = verb_run.node.config.get("until") if isinstance(verb_run.node.config, dict) else None
        if until is None:
            return SleepOperation(duration_seconds(run.evaluated(verb_run.node.config, verb_run.names), "sleep"))
        when = run.evaluated(until, verb_run.names)
        return SleepOperation(until_s=float(when) if isinstance(when, int | float) else _parse_time(run, when))

    op = run.log.attempted(verb_run.path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
    else:
        run.log.wait(verb_run.path, lambda settlement: verb_run.then(run.log.result(settlement)))


def _parse_time(run: GraphRun, when: Any) -> float:
    try:
        return datetime.fromisoformat(when).timestamp()
    except (TypeError, ValueError) as error:
        raise run.failure(f"sleep until needs a time such as 2026-11-22T10:00:00Z, found {when!r}") from error


def listen(run: GraphRun, verb_run: VerbRun) -> None:
    """Waits for the first message, and with `gather` for further ones until that time is over."""
    config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {"names": verb_run.node.config}
    gather = config.get("gather")
    limit = int(config.get("limit") or (1 if gather is None else limits.MAILBOX_MESSAGES_MAX))
    bodies: list[Output] = []

    def asked(timeout: Any, most: int, is_first: bool) -> Operation:
        names = run.evaluated(config["names"], verb_run.names)
        timeout_s = None if timeout is None else duration_seconds(run.evaluated(timeout, verb_run.names), "timeout" if is_first else "gather")
        return ReceiveOperation(tuple(names) if isinstance(names, list) else (str(names),), most, not is_first, timeout_s)

    def received(settlement: SettledOperation, is_first: bool) -> None:
        if isinstance(settlement.outcome, Failure) and (is_first or settlement.outcome.kind != "timeout"):
            verb_run.then(NodeOutcome("timeout", Output()) if settlement.outcome.kind == "timeout" else settlement.outcome)
            return
        bodies.extend(Output(run.log.raw(message.body)) for message in settlement.messages)
        if is_first and gather is not None and len(bodies) < limit:
            wait((*verb_run.path, ("gather", 0)), gather, False)
        else:
            received = {str(place): body for place, body in enumerate(bodies[:1] if limit == 1 else bodies)}
            verb_run.then(
                combined_outcome("success", received, f"what {verb_run.node.id} has received", lambda found: found["0"] if limit == 1 else list(found.values()))
            )

    def wait(path: Path, timeout: Any, is_first: bool) -> None:
        op = run.log.attempted(path, lambda: asked(timeout, limit - len(bodies), is_first))
        if isinstance(op, Failure):
            verb_run.then(op)
        else:
            run.log.wait(path, lambda settlement: received(settlement, is_first))

    wait(verb_run.path, config.get("timeout", verb_run.node.timeout_s), True)


def emit(run: GraphRun, verb_run: VerbRun) -> None:
    """Sends a message to another execution, or adds an item to the stream of this one."""

    def made() -> Operation:
        config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {"body": verb_run.node.config}
        said = run.evaluated(config, verb_run.names)
        told = said["body"] if "body" in said else _verb_input(run, verb_run)
        body = values.encode(told, "the body of", verb_run.path)
        if "to" not in said:
            shown = body if "name" not in said else values.encode({"name": said["name"], "body": told}, "the item of", verb_run.path)
            return KeepOperation(shown, "stream", config.get("event", ""))
        to = said["to"]
        return SendOperation(Key(run.execution.key.tenant, str(to["workflow"]), str(to["id"])), str(said["name"]), body)

    op = run.log.attempted(verb_run.path, made)
    verb_run.then(op if isinstance(op, Failure) else NodeOutcome("success", Output()))


# Control flow.


def loop(run: GraphRun, verb_run: VerbRun) -> None:
    """Passes the next batch of a list to the steps of the cycle that begins here."""
    stay = verb_run.firing.frame.stay
    before = None if stay is None else stay.tick
    tick = before.next() if isinstance(before, LoopBatch) and not before.done else _first_loop_batch(run, verb_run)
    if isinstance(tick, Failure):
        verb_run.then(tick)
        return
    config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {}
    if not tick.done and tick.number >= config.get("max", tick.number + 1):
        verb_run.then(Failure("exhausted", 1, ErrorInfo(error_codes.LOOP_EXHAUSTED, f"{verb_run.node.id} has more than {config['max']:,} batches")))
        return
    if stay is not None:
        stay.tick = tick
        given: dict[str, Any] = {"loop": tick.variables}
        for name, called in (("item", config.get("as", "item")), ("index", config.get("index", "index"))):
            if name in tick.variables:
                given |= {name: tick.variables[name], str(called): tick.variables[name]}
        verb_run.firing.frame.scope = verb_run.names.inside(given)
    run.roots.loop = tick.variables
    verb_run.then(NodeOutcome(tick.port, Output.of(tick.data, "the batch")))


def _first_loop_batch(run: GraphRun, verb_run: VerbRun) -> LoopBatch | Failure:
    config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {"items": verb_run.node.config}

    def items() -> KeepOperation:
        found = run.evaluated({"items": config.get("items"), "batch": config.get("batch", 1)}, verb_run.names)
        begun = first_batch(found["items"], found["batch"])
        if isinstance(begun, str):
            raise run.failure(begun)
        return KeepOperation(values.encode(begun, "the items of", verb_run.path), label="items")

    kept = run.log.judged((*verb_run.path, ("items", 0)), items)
    if isinstance(kept, KeepOperation):
        begun: LoopBatch = values.decode(run.log.raw(kept.value), LoopBatch, "the items of", verb_run.path)
        return begun
    return LoopBatch() if kept is None else kept


def test(run: GraphRun, verb_run: VerbRun) -> None:
    """Evaluates a condition, whose result is the port."""

    def told(holds: Any) -> None:
        if isinstance(holds, Failure):
            verb_run.then(holds)
            return
        kept = run.log.note(verb_run.path, KeepOperation(values.encode(holds, "the answer"), port="true" if holds else "false"))
        verb_run.then(NodeOutcome(kept.port, Output(run.log.raw(kept.value))))

    run.judge(verb_run.path, verb_run.node.config, verb_run.names, told)


def set_(run: GraphRun, verb_run: VerbRun) -> None:
    """Sets variables for the steps that follow."""

    def made() -> KeepOperation:
        return KeepOperation(values.encode(run.evaluated(verb_run.node.config, verb_run.names), "the value of", verb_run.path))

    kept = run.log.attempted(verb_run.path, made)
    verb_run.then(
        kept
        if isinstance(kept, Failure)
        else NodeOutcome("success", Output(run.log.raw(kept.value)))
        if isinstance(kept, KeepOperation)
        else NodeOutcome("success", Output())
    )


def if_(program: GraphProgram, verb_run: VerbRun) -> None:
    """Performs one of two bodies."""
    run = program.run

    def told(holds: Any) -> None:
        if isinstance(holds, Failure):
            verb_run.then(holds)
            return
        kept = run.log.note(verb_run.path, KeepOperation(values.encode(holds, "the answer"), port="true" if holds else "false"))
        region = verb_run.node.bodies[0 if kept.port == "true" else 1]
        BlockRun(program, verb_run, "do").begin(region, port=kept.port)

    run.judge(verb_run.path, verb_run.node.config, verb_run.names, told)


def do(program: GraphProgram, verb_run: VerbRun) -> None:
    """Performs a body."""
    BlockRun(program, verb_run, "do").begin(verb_run.node.bodies[0])


def parallel(program: GraphProgram, verb_run: VerbRun) -> None:
    """Begins all branches at once."""
    config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {}
    BlockRun(program, verb_run, "parallel", int(config.get("concurrency") or 0), config.get("on_error") == "go_on").begin(verb_run.node.bodies[0])


def race(program: GraphProgram, verb_run: VerbRun) -> None:
    """Begins all branches; the first that succeeds wins."""
    BlockRun(program, verb_run, "race").begin(verb_run.node.bodies[0])


def return_(program: GraphProgram, verb_run: VerbRun) -> None:
    """Ends the execution with a result: the value of the verb, or `with` if that value is true."""
    run = program.run
    config = verb_run.node.config
    is_given = config is True and (verb_run.node.input is not None or run.dialect_rules.return_true_takes_input)
    template = verb_run.node.input if is_given else config
    kept = run.log.attempted(verb_run.path, lambda: KeepOperation(values.encode(run.evaluated(template, verb_run.names), "the result")))
    if isinstance(kept, KeepOperation):
        if run.passages is not None:
            run.passages.end_around(verb_run.firing.path, run.execution.now_s)
        program.ending.complete(Output(run.log.raw(kept.value)))
    elif isinstance(kept, Failure):
        verb_run.then(kept)


def fail(run: GraphRun, verb_run: VerbRun) -> None:
    """Fails the node with the type and message of the definition."""
    config = verb_run.node.config if isinstance(verb_run.node.config, dict) else {"message": verb_run.node.config}

    def refuse() -> KeepOperation | None:
        said = run.evaluated(config, verb_run.names)
        raise run.failure(str(said.get("message") or "the definition says so"), str(said.get("type") or error_codes.FAILED))

    error = run.log.judged((*verb_run.path, ("error", 0)), refuse)
    verb_run.then(error if isinstance(error, Failure) else Failure("fatal", 1, ErrorInfo(error_codes.FAILED, "")))


RUN_VERBS: dict[str, Callable[[GraphRun, VerbRun], None]] = {
    "tool": tool,
    "task": task,
    "call": call,
    "approve": agent_verbs.approve,
    "listen": listen,
    "emit": emit,
    "sleep": sleep,
    "loop": loop,
    "set": set_,
    "test": test,
    "fail": fail,
    **{name: agent_verbs.AGENT_ROLES[role] for name, role in AGENT_VERBS.items()},
}
"""The verbs that need the run alone. Verbs that are in neither table are performed by kinds."""

BLOCK_VERBS: dict[str, Callable[[GraphProgram, VerbRun], None]] = {"if": if_, "parallel": parallel, "race": race, "do": do, "return": return_}
"""The verbs that begin bodies or end the execution, for which they need the program."""


def perform_verb(program: GraphProgram, verb_run: VerbRun) -> None:
    """Performs the verb of a node once."""
    name = verb_run.node.kind
    if name in BLOCK_VERBS:
        BLOCK_VERBS[name](program, verb_run)
    else:
        RUN_VERBS.get(name, run_node_kind)(program.run, verb_run)


def new_graph_program(workflow: GraphWorkflow, key: Key) -> GraphProgram:
    """A program for an execution of `workflow`, to be fed its events."""
    return GraphProgram(workflow, key, perform_verb)
