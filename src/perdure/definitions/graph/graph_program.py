"""The program of a definition: one walk over its graph, fed the events of its execution, asking for operations.

Live, operations become commands, and each choice of an expression is recorded beside the operation that it is about. On replay the choices are read from
the log and nothing is evaluated, so the same events lead to the same state, with the program in memory or rebuilt.

`Router` decides where a settled node leads: by its port, or by its rules, in the order in which they are written. `BlockRun` is one passage through
the body of a block, which settles when everything in it has ended or its outcome is decided.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from perdure.core import error_codes, values
from perdure.core import events as e
from perdure.core.errors import Diverged, ErrorInfo
from perdure.core.execution import Execution
from perdure.core.operations import Failure, KeepOperation, SleepOperation
from perdure.core.paths import Key, Path
from perdure.core.program import ProgramCommand
from perdure.core.replay_cursor import ReplayCursor
from perdure.core.values import ENCODED_NONE
from perdure.definitions.graph.agent_verbs import end_agent_session
from perdure.definitions.graph.execution_end import ExecutionEnd
from perdure.definitions.graph.graph_run import RULE, GraphRun, VerbRun
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.ir import NOT_AFTER
from perdure.definitions.graph.node_scope import Iteration, NodeOutcome, NodeScope, Output, combined_outcome
from perdure.definitions.graph.operation_log import NodeFailure
from perdure.definitions.graph.plan import GraphPlan, plan_of_definition
from perdure.definitions.graph.plan_patch import patch_problems, patched_walk
from perdure.definitions.graph.policy_checks import check_start, check_transition
from perdure.definitions.graph.requirements import required_capabilities
from perdure.definitions.graph.token_walk import Firing, Frame, TooManyTransitions, UnsafeLoopError
from perdure.definitions.graph.verb_runs import begin_node, holds_cycle_turn

IMMEDIATE_VERBS = frozenset(("test", "set", "loop", "if", "return", "fail", "do", "parallel", "race"))
"""The verbs that settle at once or only contain other steps. They run before any operation is opened, so that a return ends the execution first."""

PerformVerb = Callable[["GraphProgram", VerbRun], None]
"""Performs the verb of a node once."""

NEXT_NOTE = ("next", 0)
"""The path segment, below a node, of the note that records which way its rules or its own choice took."""


class GraphProgram:
    """The program of one execution of a definition. Satisfies `perdure.core.program.Program`."""

    __slots__ = ("_divergence", "_failing", "closed", "ending", "finished", "is_begun", "routing", "run")

    def __init__(self, workflow: GraphWorkflow, key: Key, perform: PerformVerb) -> None:
        self.run = GraphRun(workflow, key, lambda verb_run: perform(self, verb_run))
        self.closed = self.finished = self.is_begun = False
        self._divergence: Diverged | None = None
        self._failing: tuple[ErrorInfo, Path] | None = None
        self.routing: Router
        self.ending: ExecutionEnd

    # The methods of a program.

    @property
    def awake(self) -> bool:
        """Whether the program has begun, or can no longer begin."""
        return self.is_begun or self._divergence is not None

    @property
    def steps(self) -> Mapping[Path, Any]:
        """The steps that perform the pending calls, by path."""
        return self.run.log.steps

    @property
    def required(self) -> frozenset[str] | None:
        """The capabilities that its definition needs; None before the definition is known."""
        if not self.is_begun:
            return None
        workflow, plan, calls = self.run.workflow, self.run.plan, self.run.execution.calls
        match plan.memory.get("required"):
            case (found, frozenset() as needs) if found is workflow and not calls:
                return needs
        needs = required_capabilities(workflow, plan.ir, calls)
        if not calls:
            plan.memory["required"] = (workflow, needs)
        return needs

    @property
    def keeps_archives(self) -> bool:
        """Whether compaction keeps an archive, as the definition says."""
        return self.is_begun and self.run.plan.ir.archive

    def unfit(self, definition: bytes) -> tuple[str, ...]:
        """The reasons why it cannot continue with another definition; empty if it can."""
        return patch_problems(self.run.plan, self.run.walk, definition)

    def refuse(self, diverged: Diverged) -> None:
        """Stops, because the log does not match."""
        self._divergence = diverged
        self.close()

    def close(self) -> None:
        """Releases everything held in memory."""
        self.closed = True
        self.run.log.clear()

    def feed(self, execution: Execution, event: e.Event, recorded: ReplayCursor | None, values: Mapping[str, bytes]) -> Sequence[ProgramCommand]:
        """Takes one external event; returns the commands that follow from it."""
        if self._divergence is not None:
            raise self._divergence
        self.run.execution = execution
        self.run.log.begin_event(recorded, values, execution.settled)
        try:
            self._take(event)
            self._drive()
            self._leave_passages()
        except Diverged as diverged:
            self.refuse(diverged)
            raise
        return self.run.log.commands

    def _take(self, event: e.Event) -> None:
        match event:
            case e.SettledEvent(path) | e.ReceivedEvent(path) | e.RecalledEvent(path):
                settlement = self.run.execution.settled[path]
                if isinstance(settlement.outcome, Failure) and settlement.outcome.kind == "rollback" and not self.ending.is_begun:
                    self.run.log.forget(path)
                    self.ending.fail(settlement.outcome, path)  # no handler of the step may handle this failure
                else:
                    self.run.log.told(path, settlement)
            case e.StartedEvent() | e.ReopenedEvent():
                self.run.begin_anew()
                self.finished = False
                self._begin()
            case e.IterationResumedEvent():
                self.run.log.turned(event)
            case e.PatchedEvent(definition, refused=()):
                self._apply_patch(plan_of_definition(definition.sha256, self.run.log.payloads))
            case e.CancellingEvent() if not self.finished:
                self.ending.cancel()
            case e.StoppedEvent() if not self.finished:
                self.ending.stop()
            case e.UndoingEvent() if self.run.execution.completed is not None:
                self.finished = False
                self.ending = ExecutionEnd(self.run, self.finish)
                self.ending.undo(self.run.execution.completed.status, self.run.execution.completed.outcome)

    def _apply_patch(self, plan: GraphPlan) -> None:
        """Continues with another plan, which fits."""
        run = self.run
        run.walk = patched_walk(run.walk, plan)
        run.plan = plan
        for frame in run.walk.frames():
            if isinstance(frame.block, BlockRun) and frame.stay is None:
                frame.block.frame, frame.block.region = frame, frame.region

    def _begin(self) -> None:
        definition, started = self.run.execution.definition, self.run.execution.started
        if definition is None or started is None:
            name = self.run.execution.key.workflow
            why = f"the execution was started as the code workflow {name!r}, and here {name!r} is a definition"
            raise Diverged((), (f"{why}; terminate it, and start the definition: client.start(Definition.load(FILE)), or perdure start FILE.yaml",))
        self.run.begin(plan_of_definition(definition.sha256, self.run.log.payloads), self.run.log.raw(started.input))
        self.is_begun = True
        self.ending = ExecutionEnd(self.run, self.finish)
        self.routing = Router(self)
        wrong = self.run.log.judged((("input", 0),), self.run.roots.check) or check_start(self.run) or self.run.roots.vary()
        if isinstance(wrong, Failure):
            self.ending.fail(wrong)
            return
        _ = self.run.walk.begin(0, None, (), NodeScope(self.run.roots, outputs=self.run.roots.outputs))

    def _drive(self) -> None:
        """Advances until nothing is left to do. Nodes that settle at once go first, before any work is opened."""
        while not self.finished and not self.closed and self.is_begun:
            if self.run.walk.ready:
                self._fire(self.run.walk.ready.popleft())
            elif self.run.walk.drained:
                self._drained(self.run.walk.drained.popleft())
            elif self.run.works:
                self.run.works.popleft()()
            else:
                return

    def _leave_passages(self) -> None:
        if self.run.passages is not None and self.is_begun:
            self.run.passages.leave(self.run.walk.left, self.run.execution.now_s)
            self.run.walk.left = []

    # Nodes.

    def _fire(self, firing: Firing) -> None:
        if firing.settled or not firing.frame.is_wanted:
            return
        self._begin_cycle_iteration(firing)
        body = firing.frame.block
        if (isinstance(body, BlockRun) and body.holds(firing)) or holds_cycle_turn(self.run, firing, self.begin_firing):
            return
        self.begin_firing(firing)

    def begin_firing(self, firing: Firing) -> None:
        """Begins a node that has fired, unless its `when` skips it."""
        self.run.started_steps += 1
        if self.run.started_steps > (limit := self.run.plan.ir.limits.max_steps):
            why = f"more than {limit:,} steps were started; raise limits.max_steps, or end the loop"
            self.ending.fail(Failure("fatal", 1, ErrorInfo(error_codes.EXCEEDED_MAX_STEPS, why)), firing.path)
            return
        if self.run.passages is not None:
            self.run.passages.begin(firing.path, firing.place.node, self.run.execution.opened.count + self.run.log.asked, self.run.execution.now_s)
        names = self.run.names(firing)
        if firing.place.node.when is not None:
            self._judge_skip(firing, names)
        else:
            self._begin_node(firing, names)

    def _judge_skip(self, firing: Firing, names: NodeScope) -> None:
        def told(holds: bool | KeepOperation | Failure | None) -> None:
            if isinstance(holds, bool) and not holds:
                holds = self.run.log.note(firing.path, KeepOperation(port="skipped", label="when"))
            if isinstance(holds, Failure):
                self._settled(firing, holds)
            elif isinstance(holds, KeepOperation):
                self._settled(firing, NodeOutcome("skipped", Output(port="skipped")))
            else:
                self._begin_node(firing, names)

        self.run.judge(firing.path, firing.place.node.when, names, told)

    def _begin_node(self, firing: Firing, names: NodeScope) -> None:
        one = VerbRun(firing, firing.path, names, lambda how: self._settled(firing, how))
        if firing.place.node.kind in IMMEDIATE_VERBS:
            begin_node(self.run, one)
        else:
            self.run.works.append(lambda: begin_node(self.run, one) if not firing.settled and firing.frame.is_wanted else None)

    def _settled(self, firing: Firing, how: NodeOutcome | Failure) -> None:
        """Keeps the result of a node that has settled, and follows its edges."""
        if not firing.settled and firing.frame.is_wanted and not self.finished:
            self.routing.settled(firing, how)

    def follow(self, firing: Firing, output: Output, taken: Sequence[int], port: str = "success", *, chosen: str = "") -> None:
        """Continues from a node that has settled with `output`, by these edges: those of its `port`, or those that were `chosen`."""
        if self.ending.is_begun:
            return
        place, frame = firing.place, firing.frame
        if (refused := check_transition(self.run, firing, taken)) is not None:
            self.fail(firing, refused)
            return
        limit = self.run.plan.ir.limits.max_fanout
        try:
            if len(taken) > limit:
                raise NodeFailure(
                    ErrorInfo(error_codes.EXCEEDED_MAX_FANOUT, f"{place.node.id} leads to {len(taken):,} steps at once, and at most {limit:,} are allowed")
                )
            self.run.walk.settle(firing, taken, port, chosen, output.value if port == "error" else None)
            self._pass_by()
        except UnsafeLoopError as unsafe:
            edge = self.run.plan.edges[unsafe.args[0]]
            names = f"{self.run.plan.places[edge.source].node.id} -> {self.run.plan.places[edge.target].node.id}"
            why = f"a second token came over {names} in one iteration; join: each on {self.run.plan.places[edge.target].node.id} runs it for every token"
            self.ending.fail(Failure("fatal", 1, ErrorInfo(error_codes.UNSAFE_LOOP, why)), firing.path)
        except TooManyTransitions:
            limit = self.run.plan.ir.limits.max_hops
            why = f"more than {limit:,} transitions were taken; bound the loop, or raise limits.max_hops"
            self.ending.fail(Failure("fatal", 1, ErrorInfo(error_codes.EXCEEDED_MAX_HOPS, why)), firing.path)
        except NodeFailure as failure:
            self.ending.fail(Failure(failure.kind, 1, failure.info), firing.path)
        else:
            if isinstance(frame.block, BlockRun):
                frame.block.took(firing, output)

    def store(self, firing: Firing, output: Output) -> None:
        """Keeps the result of a node in the scope where other nodes read it."""
        node, names = firing.place.node, firing.frame.scope
        self.run.clock += 1
        output.kind, output.stored = node.kind, self.run.clock
        if isinstance(names, NodeScope):
            names.keep(node.id, output)
            self.run.pass_by(names, self.run.plan.ids_below(firing.place))
        self.run.roots.last = output
        self.run.results_bytes += output.size_bytes
        if 0 < (limit := self.run.plan.ir.limits.max_bytes) < self.run.results_bytes:
            why = f"the results take {self.run.results_bytes:,} bytes, and at most {limit:,} are allowed; return less, or raise limits.max_bytes"
            self.ending.fail(Failure("fatal", 1, ErrorInfo(error_codes.EXCEEDED_MAX_BYTES, why)), firing.path)
        if node.kind == "set" and output.port != "skipped" and isinstance(output.value, dict):
            self.run.roots.variables = {**self.run.roots.variables, **output.value}

    def _pass_by(self) -> None:
        """Marks nodes that will not fire in their passage as passed by, with all inside of them; of cycles that are left, those that no iteration reached."""
        for frame, place in self.run.walk.passed_by:
            if isinstance(names := frame.scope, NodeScope):
                self.run.pass_by(names, self.run.plan.ids_of(place))
        self.run.walk.passed_by.clear()

    def _begin_cycle_iteration(self, firing: Firing) -> None:
        """Begins an iteration of a cycle when its head fires."""
        frame, stay = firing.frame, firing.frame.stay
        if stay is None or firing.place.cycle != stay.region:
            return
        if stay.scope is None and isinstance(names := frame.scope, NodeScope):
            stay.scope = names.inside({}, turn=Iteration())
        if isinstance(names := stay.scope, NodeScope) and names.turn is not None:
            frame.scope = names
            self.run.begin_iteration(names.turn)

    def _drained(self, frame: Frame) -> None:
        if not frame.is_wanted:
            return
        if isinstance(frame.block, BlockRun):
            frame.block.drained()
        elif frame.outer is None:
            self.ending.complete_without_return()

    def finish(self, status: Any, outcome: Any) -> None:
        """Ends the execution."""
        if self.run.has_session and status != "failed":  # a failed execution may be retried, and its session continues then
            end_agent_session(self.run)
        self.finished = True
        self.run.log.end(status, outcome, self.ending.failed_at if status == "failed" else ())

    def fail(self, firing: Firing, error: Failure) -> None:
        """Fails the block or the execution that contains a failed node, because nothing handles the failure."""
        self.run.note_settled(firing, error)
        if self._failing is None or self._failing[0] != error.error or self._failing[1][: len(firing.path)] != firing.path:
            self._failing = error.error, firing.path  # the step that failed, not the block around it
        body = firing.frame.block
        if isinstance(body, BlockRun):
            body.failed(firing, error)
        else:
            self.ending.fail(error, self._failing[1])


class Router:
    """Decides where nodes that have settled lead."""

    def __init__(self, program: "GraphProgram") -> None:
        self.program, self.run = program, program.run

    def settled(self, firing: Firing, how: NodeOutcome | Failure) -> None:
        """Follows the edges of a node that has settled, or handles its failure."""
        place = firing.place
        self.run.note_settled(firing, how)
        if isinstance(how, Failure):
            self._failed(firing, how)
        elif how.port == "rejected" and not self.run.plan.has_port(place, "rejected") and self.run.dialect_rules.rejection_fails:
            self._rejected(firing, how)
        elif how.port == "timeout" and not self.run.plan.has_port(place, "timeout"):
            self._failed(firing, Failure("timeout", 1, ErrorInfo(error_codes.TIMEOUT, f"{place.node.id} received no message in time")))
        else:
            how.output.port = how.port
            self._go_on(firing, how.output, how.port)

    def _failed(self, firing: Firing, error: Failure) -> None:
        node, plan, names = firing.place.node, self.run.plan, self.run.names(firing)
        self.run.note_settled(firing, error)
        told = {"type": error.error.type, "message": error.error.message, "kind": error.kind}
        if isinstance(node.on_error, int):
            path = (*firing.path, ("on_error", 0))
            self.run.pass_by(names, self.run.plan.ids_below(firing.place))
            stand_in = VerbRun(firing, path, names.inside({"error": told}), lambda how: self._error_body_ended(firing, how))
            BlockRun(self.program, stand_in, "do", is_timed=False).begin(node.on_error)
        elif plan.has_port(firing.place, "error"):
            output = Output.of(told, "an error")
            output.port = "error"
            self.program.store(firing, output)
            self.program.follow(firing, output, self.run.walk.by_port(firing, "error"), "error")
        elif node.on_error == "go_on":
            self._go_on(firing, Output(port="error"), "success")
        else:
            self.program.fail(firing, error)

    def _error_body_ended(self, firing: Firing, how: NodeOutcome | Failure) -> None:
        if isinstance(how, Failure):
            self.program.fail(firing, how)
        else:
            self._go_on(firing, how.output, "success")

    def _rejected(self, firing: Firing, how: NodeOutcome) -> None:
        verdict: Any = how.output.value
        by, comment = (verdict.get("by"), verdict.get("comment")) if isinstance(verdict, dict) else (None, None)
        why = f"{firing.place.node.id} was rejected" + (f" by {by}" if by else "") + (f": {comment}" if comment else "")
        match firing.place.node.on_rejected:
            case "go_on":
                how.output.port = how.port
                self._go_on(firing, how.output, "success")
            case "fail":
                self._failed(firing, Failure("fatal", 1, ErrorInfo(error_codes.REJECTED, why)))
            case "cancel":
                self.program.ending.reject(why)

    def _go_on(self, firing: Firing, output: Output, port: str) -> None:
        node = firing.place.node
        self.program.store(firing, output)  # before its rules, which may read it
        if port in NOT_AFTER or not (node.rules or node.choose):
            self.program.follow(firing, output, self.run.walk.by_port(firing, port), port)
        elif node.choose:
            self._choose(firing, output)
        else:
            self._evaluate_rules(firing, output, 0)

    # Rules.

    def _evaluate_rules(self, firing: Firing, output: Output, start: int) -> None:
        """Evaluates the rules from `start` on; the first that holds is taken. On replay, the recorded one is taken."""
        run, rules = self.run, firing.place.node.rules
        names = run.names(firing).inside({"self": output.value})
        if start == 0:
            self._explain_rules(firing, names)
        for number in range(start, len(rules)):
            if self._is_noted(firing, output):
                return
            path, condition = (*firing.path, (RULE, number)), rules[number].when
            if condition is None:
                holds: bool | KeepOperation | Failure | None = None if run.log.replaying else True
            elif (compiled := run.condition(condition, names)).python:
                run.judge(path, condition, names, partial(self._continue_rules, firing, output, number))
                return
            else:
                holds = run.judged(path, compiled, names)
            if self._is_decided(firing, output, number, holds):
                return
        if not self._is_noted(firing, output):
            self._take(firing, output, "")

    def _explain_rules(self, firing: Firing, names: NodeScope) -> None:
        """Records the conditions of the rules of the node that is explained. A replay takes the rule that the log has, and judges none."""
        passages = self.run.passages
        if passages is not None and passages.explained == firing.path:
            for number, rule in enumerate(firing.place.node.rules):
                if rule.when is not None:
                    passages.judge(firing.path, self.run.condition(rule.when, names), names, rule=number)

    def _continue_rules(self, firing: Firing, output: Output, number: int, holds: bool | KeepOperation | Failure | None) -> None:
        """Continues once the result of a rule in Python is known."""
        if not self._is_decided(firing, output, number, holds):
            self._evaluate_rules(firing, output, number + 1)

    def _is_noted(self, firing: Firing, output: Output) -> bool:
        """Takes the rule that the log records, on replay; returns whether there is one."""
        path = (*firing.path, NEXT_NOTE)
        noted = self.run.log.upcoming(path)
        if not isinstance(noted, KeepOperation):
            return False
        self._take(firing, output, self.run.log.note(path, noted).label)
        return True

    def _is_decided(self, firing: Firing, output: Output, number: int, holds: bool | KeepOperation | Failure | None) -> bool:
        """Takes a rule if it holds; returns whether it decided the route."""
        run = self.run
        if isinstance(holds, Failure):
            self._failed(firing, holds)
        elif holds is True and (taken := self._usable(firing, number)):
            targets = [run.plan.places[run.plan.edges[edge].target].node.id for edge in self._edges(firing, taken)]
            _ = run.log.ask((*firing.path, NEXT_NOTE), KeepOperation(values.encode(targets, "where to go on"), label=taken))
            self._take(firing, output, taken)
        else:
            return False
        return True

    def _usable(self, firing: Firing, number: int) -> str:
        """Returns the note of rule `number` if it is taken: its number, with ``max`` if it is used up. Empty if the next rule has to be evaluated."""
        rule = firing.place.node.rules[number]
        if not rule.max or self.run.walk.uses(firing, str(number), rule.edges) < rule.max:
            return str(number)
        return f"{number} max" if rule.on_max else ""

    def _edges(self, firing: Firing, noted: str) -> Sequence[int]:
        """Returns the edges of a recorded rule."""
        if not noted:
            return ()
        number, _, is_max = noted.partition(" ")
        rule = firing.place.node.rules[int(number)]
        return rule.on_max if is_max else rule.edges

    def _take(self, firing: Firing, output: Output, noted: str) -> None:
        self.program.follow(firing, output, self._edges(firing, noted), chosen=noted or "none")

    def _choose(self, firing: Firing, output: Output) -> None:
        """Follows the edges that the node's result names, which must be in the closed list."""
        node, plan = firing.place.node, self.run.plan

        def chosen() -> KeepOperation:
            named = output.value
            if isinstance(named, dict):
                named = named.get("next", named.get("next_nodes"))
            ids = [named] if isinstance(named, str) else named if isinstance(named, list) else []
            for id in ids:
                if id not in node.choose:
                    allowed = ", ".join(node.choose)
                    raise self.run.failure(
                        f"{node.id} chose the step {str(id)[:60]!r}, which is not allowed; choose one of {allowed}", error_codes.UNAUTHORIZED
                    )
            return KeepOperation(values.encode(list(dict.fromkeys(ids)), "where to go on"), label="choose")

        kept = self.run.log.judged((*firing.path, NEXT_NOTE), chosen)
        if isinstance(kept, Failure):
            self._failed(firing, kept)
            return
        ids = [] if kept is None else values.decode(self.run.log.raw(kept.value), list[str], "where to go on")
        edges = [number for number in firing.place.out if not plan.edges[number].port and plan.places[plan.edges[number].target].node.id in ids]
        self.program.follow(firing, output, edges if ids else node.default, chosen="choose")


class BlockRun:
    """One passage through the body of a block. `kind` is do, parallel or race; at most `concurrency` of its entries run at a time (0: all).

    `port` is the port by which the block settles when its body succeeds. With `is_timed`, the timeout of the block limits it.
    """

    def __init__(self, program: "GraphProgram", verb_run: VerbRun, kind: str, concurrency: int = 0, go_on: bool = False, is_timed: bool = True) -> None:
        self.program, self.run = program, program.run
        self.verb_run, self.kind = verb_run, kind
        self.concurrency, self.go_on, self.is_timed = concurrency, go_on, is_timed
        self.port = "success"
        self.frame: Frame | None = None
        self.held: deque[Firing] = deque()
        self.active = 0
        self.branches: dict[Path, None] = {}
        self.outputs: dict[str, Output] = {}
        self.error: Failure | None = None
        self.is_over = False

    def begin(self, region: int, names: NodeScope | None = None, port: str = "success") -> None:
        """Begins the passage with the steps of `region`."""
        self.port, timeout_s = port, self.verb_run.node.timeout_s if self.is_timed else None
        if timeout_s is not None:
            _ = self.run.log.attempted(self._timer, lambda: SleepOperation(timeout_s))
            self.run.log.wait(self._timer, lambda _: self._timed_out())
            self._begin_branch(self.verb_run.path)
        self.region = region
        self.frame = self.run.walk.begin(region, self.verb_run.firing.frame, self.verb_run.path, names or self.verb_run.names, self)

    @property
    def _timer(self) -> Path:
        return (*self.verb_run.path, ("timeout", 0))

    # Events of its steps.

    def holds(self, firing: Firing) -> bool:
        """Whether a branch has to wait until another one ends. If not, it begins."""
        if firing.frame is not self.frame or self.kind == "do":
            return False
        if self.concurrency and self.active >= self.concurrency:
            self.held.append(firing)
            return True
        self.active += 1
        self._begin_branch(firing.path)
        return False

    def took(self, firing: Firing, output: Output) -> None:
        """Takes the result of a step that has settled."""
        if self.is_over:
            return
        self.outputs[firing.place.node.id] = output
        if firing.frame is not self.frame:
            return
        if self.kind == "parallel":
            self._end_branch(firing.path)
        if self.concurrency:
            self._next()
        if self.kind == "race" and output.port not in ("skipped", "error", "rejected", "timeout"):
            self._win(firing, output)

    def failed(self, firing: Firing, error: Failure) -> None:
        """Handles the failure of a step that no error port or handler takes."""
        if self.is_over:
            return
        if firing.frame is self.frame and (self.kind == "race" or (self.kind == "parallel" and self.go_on)):
            self.error = error
            output = Output(port="error")
            self.program.store(firing, output)
            self.program.follow(firing, output, ())
            return
        self._end_branch(firing.path)
        self._end_branch(self.verb_run.path)
        self._end()
        self.verb_run.then(error)

    def drained(self) -> None:
        """Settles the block, because nothing in it is running any more."""
        if self.is_over:
            return
        self._end(is_drained=True)
        if self.kind == "race" and self.error is not None:
            self.verb_run.then(self.error)
        elif self.kind == "race":
            self.verb_run.then(NodeOutcome("success", Output.of({"winner": None, "value": None}, "the result of a race")))
        elif self.kind == "parallel":
            self.verb_run.then(combined_outcome(self.port, dict(self._outputs()), f"the results of the branches of {self.verb_run.node.id}"))
        else:
            last = [output for _, output in self._outputs()[-1:]]
            self.verb_run.then(NodeOutcome(self.port, Output(last[0].raw if last else ENCODED_NONE)))

    # Its end.

    def _win(self, firing: Firing, output: Output) -> None:
        self._end_branch(firing.path)
        self._end_branch(self.verb_run.path)
        self._end(lost=True)
        winner = firing.place.node.id
        self.verb_run.then(combined_outcome("success", {"value": output}, f"the result of {self.verb_run.node.id}", lambda found: {"winner": winner, **found}))

    def _timed_out(self) -> None:
        self._end()
        why = f"{self.verb_run.node.id} did not end within {self.verb_run.node.timeout_s:g} s"
        if self.run.plan.has_port(self.verb_run.firing.place, "timeout"):
            self.verb_run.then(NodeOutcome("timeout", Output()))
        else:
            self.verb_run.then(Failure("timeout", 1, ErrorInfo(error_codes.TIMEOUT, why)))

    def _end(self, is_drained: bool = False, lost: bool = False) -> None:
        self.is_over = True
        if self.frame is not None:
            self.run.walk.drop(self.frame, is_drained)
        if not is_drained:
            self.run.log.drop_under(self.verb_run.path, lost)
        elif self.run.log.waits_at(self._timer):
            self.run.log.drop(self._timer)
        for branch in list(self.branches):  # branches that are left have lost the race, or were cancelled
            if not is_drained:
                self.run.log.give_back(branch)
            self._end_branch(branch)
        if not is_drained:
            self.run.log.receipts.forget(self.verb_run.path)

    def _begin_branch(self, path: Path) -> None:
        self.branches[path] = None
        self.run.log.receipts.begin(path)

    def _end_branch(self, path: Path) -> None:
        if path in self.branches:
            del self.branches[path]
            self.run.log.receipts.end(path)

    def _next(self) -> None:
        self.active -= 1
        if self.held:
            self.run.walk.ready.append(self.held.popleft())

    def _outputs(self) -> Sequence[tuple[str, Output]]:
        """The results of the steps directly in it, in the order in which they are written; null of those that were not reached this time."""
        return [(id, self.outputs.get(id) or Output()) for id in self.run.plan.ids_directly_in(self.region)]
