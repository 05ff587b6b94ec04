"""A graph program in memory: one walk over a definition, fed the events of its execution, asking for operations.

Live, what it asks for becomes commands, and each choice that an expression makes is kept beside what it is about. On replay the choices are read
where they stand, and nothing is evaluated. Warm or cold, the same events lead to the same state.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from perdure.core import events as e
from perdure.core.errors import Diverged, ErrorInfo, ExpressionFailed, ProgrammingError
from perdure.core.execution import Execution
from perdure.core.operations import Failure as Err
from perdure.core.operations import KeepOperation
from perdure.core.paths import Key, Path
from perdure.core.program import ProgramCommand
from perdure.definitions.expr import condition, secret_marks, template
from perdure.definitions.expr.condition import CompiledCondition
from perdure.definitions.expr.template import Expressions, Template
from perdure.definitions.format.dialect_rules import RULES, DialectRules
from perdure.definitions.graph import doing, guarding, patching
from perdure.definitions.graph.bodies import BlockRun
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.ending import ExecutionEnd
from perdure.definitions.graph.endless import EndlessLoops
from perdure.definitions.graph.graph_run import PassageRecord, RunRoots
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.node_scope import Iteration, NodeOutcome, NodeScope, Output
from perdure.definitions.graph.operation_log import MISSING, UNJUDGED, NodeFailure, OperationLog
from perdure.definitions.graph.plan import GraphPlan, plan_of_definition
from perdure.definitions.graph.requirements import required_capabilities
from perdure.definitions.graph.routing import Router
from perdure.definitions.graph.token_walk import Firing, Frame, TokenWalk, TooManyTransitions, UnsafeLoopError
from perdure.definitions.graph.verbs import VERBS

IMMEDIATE_VERBS = frozenset(("test", "set", "loop", "if", "return", "fail", "do", "parallel", "race"))
"""The verbs that settle at once, or only hold others: they go before any work is opened, so that a return ends the execution before that."""


class GraphProgram:
    """One walk. Satisfies `perdure.core.program.Program`."""

    __slots__ = (
        "_divergence",
        "_failing",
        "agents",
        "clock",
        "closed",
        "ending",
        "endless",
        "execution",
        "finished",
        "has_session",
        "is_begun",
        "log",
        "passages",
        "plan",
        "results_bytes",
        "roots",
        "routing",
        "started_steps",
        "undo_scopes",
        "walk",
        "workflow",
        "works",
    )

    verbs = VERBS  # doing nodes, and blocks that do nodes again, know them from here

    def __init__(self, workflow: GraphWorkflow, key: Key) -> None:
        self.workflow = workflow
        self.execution = Execution(key)
        self.closed = False
        self._divergence: Diverged | None = None
        self.log = OperationLog()
        self.is_begun = False
        self.passages: PassageRecord | None = None
        self._failing: tuple[ErrorInfo, Path] | None = None
        self.plan: GraphPlan
        self.roots: RunRoots
        self.walk: TokenWalk
        self.routing: Router
        self.endless: EndlessLoops
        self.ending: ExecutionEnd
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.works: deque[Callable[[], None]] = deque()
        self.agents: dict[Path, str] = {}
        self.undo_scopes: dict[Path, NodeScope] = {}
        self.finished = self.has_session = False
        self.started_steps = self.results_bytes = self.clock = 0
        self.log.clear()

    # as a program

    @property
    def awake(self) -> bool:
        """Whether it has begun, or would not any more."""
        return self.is_begun or self._divergence is not None

    @property
    def steps(self) -> Mapping[Path, Any]:
        """What performs the calls that are open, by their paths."""
        return self.log.steps

    @property
    def required(self) -> frozenset[str] | None:
        """The capabilities that its definition needs; None before it is known by which one it goes."""
        return required_capabilities(self.workflow, self.plan.ir) if self.is_begun else None

    @property
    def dialect_rules(self) -> DialectRules:
        """The rules of the dialect in which its definition was written."""
        return RULES[self.plan.ir.dialect]

    @property
    def keeps_archives(self) -> bool:
        """Whether what compaction replaces is kept, as its definition says."""
        return self.is_begun and self.plan.ir.archive

    def unfit(self, definition: bytes) -> tuple[str, ...]:
        """Why it can't go on by another definition; empty, if it can."""
        return patching.patch_problems(self, definition)

    def refuse(self, diverged: Diverged) -> None:
        """Go no further."""
        self._divergence = diverged
        self.close()

    def close(self) -> None:
        """Leave memory."""
        self.closed = True
        self.log.clear()

    def feed(self, execution: Execution, event: e.Event, remembered: deque[e.Event] | None, values: Mapping[str, bytes]) -> Sequence[ProgramCommand]:
        """Take one given event; return what the definition wants because of it."""
        if self._divergence is not None:
            raise self._divergence
        self.execution = execution
        self.log.begin_event(remembered, values)
        try:
            self._take(event)
            self._drive()
            self._leave_passages()
        except Diverged as diverged:
            self.refuse(diverged)
            raise
        return self.log.commands

    def _take(self, event: e.Event) -> None:
        match event:
            case e.SettledEvent(path) | e.ReceivedEvent(path) | e.RecalledEvent(path):
                settlement = self.execution.settled[path]
                if isinstance(settlement.outcome, Err) and settlement.outcome.kind == "rollback" and not self.ending.is_begun:
                    self.log.forget(path)
                    self.ending.fail(settlement.outcome, path)  # whatever would handle a failure of this step
                else:
                    self.log.told(path, settlement)
            case e.StartedEvent() | e.ReopenedEvent():
                self._begin_anew()
                self._begin()
            case e.IterationResumedEvent():
                self.log.turned(event)
            case e.PatchedEvent(definition, refused=()):
                patching.apply_patch(self, plan_of_definition(definition.sha256, self.log.payloads))
            case e.CancellingEvent() if not self.finished:
                self.ending.cancel()
            case e.StoppedEvent() if not self.finished:
                self.ending.stop()
            case e.UndoingEvent() if self.execution.completed is not None:
                self.finished = False
                self.ending = ExecutionEnd(self)
                self.ending.undo(self.execution.completed.status, self.execution.completed.outcome)

    def _begin(self) -> None:
        definition, started = self.execution.definition, self.execution.started
        if definition is None or started is None:
            name = self.execution.key.workflow
            why = f"it was started by the name {name!r} alone, as a workflow of code is, and here {name!r} is a definition"
            raise Diverged((), (f"{why}; terminate it, and start the definition itself: client.start(Definition.load(FILE)), or perdure start FILE.yaml",))
        self.plan = plan_of_definition(definition.sha256, self.log.payloads)
        self.is_begun = True
        self.ending = ExecutionEnd(self)
        self.roots = RunRoots(self, self.log.raw(started.input))
        self.walk = TokenWalk(self.plan)
        if self.passages is not None:
            self.passages, self.walk.trace = PassageRecord(), {}
        self.routing = Router(self)
        self.endless = EndlessLoops(self)
        wrong = self.log.judged((("input", 0),), self.roots.check) or guarding.check_start(self) or self.roots.vary()
        if isinstance(wrong, Err):
            self.ending.fail(wrong)
            return
        _ = self.walk.begin(0, None, (), NodeScope(self.roots, outputs=self.roots.outputs))

    def _drive(self) -> None:
        """Go on until nothing is left to do. What settles at once goes before any work is opened."""
        while not self.finished and not self.closed and self.is_begun:
            if self.walk.ready:
                self._fire(self.walk.ready.popleft())
            elif self.walk.drained:
                self._drained(self.walk.drained.popleft())
            elif self.works:
                self.works.popleft()()
            else:
                return

    def _leave_passages(self) -> None:
        if self.passages is not None and self.is_begun:
            self.passages.leave(self.walk.left, self.execution.now_s)
            self.walk.left = []

    # nodes

    def _fire(self, firing: Firing) -> None:
        if firing.settled or not firing.frame.is_wanted:
            return
        self._begin_cycle_turn(firing)
        body = firing.frame.block
        if (isinstance(body, BlockRun) and body.holds(firing)) or self.endless.holds(firing):
            return
        self.begin_firing(firing)

    def begin_firing(self, firing: Firing) -> None:
        """Begin what has fired, unless it is not to be done."""
        self.started_steps += 1
        if self.started_steps > (limit := self.plan.ir.limits.max_steps):
            why = f"more than {limit:,} steps were begun; raise limits.max_steps, or end the loop"
            self.ending.fail(Err("fatal", 1, ErrorInfo("exceeded_max_steps", why)), firing.path)
            return
        if self.passages is not None:
            self.passages.begin(firing.path, firing.place.node, self.execution.opened.count + self.log.asked, self.execution.now_s)
        names = self.names(firing)
        if firing.place.node.when is not None:
            self._judge_skip(firing, names)
        else:
            self._begin_node(firing, names)

    def names(self, firing: Firing) -> NodeScope:
        """What a node that has fired may read: behind a port ``error``, also the error."""
        names = firing.frame.scope
        assert isinstance(names, NodeScope)
        return names.inside({"error": firing.error}) if firing.place.number in self.plan.behind_errors else names

    def _judge_skip(self, firing: Firing, names: NodeScope) -> None:
        def told(holds: bool | KeepOperation | Err | None) -> None:
            if isinstance(holds, bool) and not holds:
                holds = self.log.note(firing.path, KeepOperation(port="skipped", label="when"))
            if isinstance(holds, Err):
                self._settled(firing, holds)
            elif isinstance(holds, KeepOperation):
                self._settled(firing, NodeOutcome("skipped", Output(port="skipped")))
            else:
                self._begin_node(firing, names)

        self.judge(firing.path, firing.place.node.when, names, told)

    def _begin_node(self, firing: Firing, names: NodeScope) -> None:
        one = VerbRun(firing, firing.path, names, lambda how: self._settled(firing, how))
        if firing.place.node.kind in IMMEDIATE_VERBS:
            doing.begin_node(self, one)
        else:
            self.works.append(lambda: doing.begin_node(self, one) if not firing.settled and firing.frame.is_wanted else None)

    def _settled(self, firing: Firing, how: NodeOutcome | Err) -> None:
        """A node has settled: keep its result, and go on by its edges."""
        if not firing.settled and firing.frame.is_wanted and not self.finished:
            self.routing.settled(firing, how)

    def note_settled(self, firing: Firing, how: NodeOutcome | Err) -> None:
        """Note what a node has come to, if passages are kept."""
        if self.passages is not None:
            self.passages.settle(firing.path, how)

    def follow(self, firing: Firing, output: Output, taken: Sequence[int], port: str = "success", *, chosen: str = "") -> None:
        """Go on from a node that has settled with `output`, by these edges: those of its `port`, or of what was `chosen`."""
        if self.ending.is_begun:
            return
        place, frame = firing.place, firing.frame
        if (refused := guarding.check_transition(self, firing, taken)) is not None:
            self.fail(firing, refused)
            return
        limit = self.plan.ir.limits.max_fanout
        try:
            if len(taken) > limit:
                raise NodeFailure(ErrorInfo("exceeded_max_fanout", f"{place.node.id} leads to {len(taken):,} steps at once, and at most {limit:,} are allowed"))
            self.walk.settle(firing, taken, port, chosen, output.value if port == "error" else None)
            self._pass_by()
        except UnsafeLoopError as unsafe:
            edge = self.plan.edges[unsafe.args[0]]
            names = f"{self.plan.places[edge.source].node.id} -> {self.plan.places[edge.target].node.id}"
            why = f"a second token came over {names} in one turn; join: each on {self.plan.places[edge.target].node.id} runs it for every token"
            self.ending.fail(Err("fatal", 1, ErrorInfo("unsafe_loop", why)), firing.path)
        except TooManyTransitions:
            limit = self.plan.ir.limits.max_hops
            why = f"more than {limit:,} hops were made; bound the loop, or raise limits.max_hops"
            self.ending.fail(Err("fatal", 1, ErrorInfo("exceeded_max_hops", why)), firing.path)
        except NodeFailure as failure:
            self.ending.fail(Err(failure.kind, 1, failure.info), firing.path)
        else:
            if isinstance(frame.block, BlockRun):
                frame.block.took(firing, output)

    def store(self, firing: Firing, output: Output) -> None:
        """Keep the result of a node where those who may read it find it."""
        node, names = firing.place.node, firing.frame.scope
        self.clock += 1
        output.kind, output.stored = node.kind, self.clock
        if isinstance(names, NodeScope):
            names.keep(node.id, output)
            self.pass_by(names, self.plan.ids_below(firing.place))
        self.roots.last = output
        self.results_bytes += output.size_bytes
        if 0 < (limit := self.plan.ir.limits.max_bytes) < self.results_bytes:
            why = f"the results take {self.results_bytes:,} bytes, and at most {limit:,} are allowed; keep less, or raise limits.max_bytes"
            self.ending.fail(Err("fatal", 1, ErrorInfo("exceeded_max_bytes", why)), firing.path)
        if node.kind == "set" and output.port != "skipped" and isinstance(output.value, dict):
            self.roots.variables = {**self.roots.variables, **output.value}

    def pass_by(self, names: NodeScope, ids: Iterable[str]) -> None:
        """Have steps that the present turn of a cycle or repetition has not reached, and will not reach, read as null in it."""
        if (turn := names.turn) is not None:
            turn.pass_by(id for id in ids if (known := names.outputs.get(id)) is not None and known.stored < turn.since)

    def _pass_by(self) -> None:
        """The nodes that will not fire in their passage are passed by, with all inside of them; of cycles that are left, those that no turn has reached."""
        for frame, place in self.walk.passed_by:
            if isinstance(names := frame.scope, NodeScope):
                self.pass_by(names, self.plan.ids_of(place))
        self.walk.passed_by.clear()

    def begin_turn(self, turn: Iteration) -> None:
        """Begin a turn of a cycle or of a repetition."""
        self.clock += 1
        turn.since = self.clock

    def _begin_cycle_turn(self, firing: Firing) -> None:
        """What fires at the head of a cycle begins a turn of it."""
        frame, stay = firing.frame, firing.frame.stay
        if stay is None or firing.place.cycle != stay.region:
            return
        if stay.scope is None and isinstance(names := frame.scope, NodeScope):
            stay.scope = names.inside({}, turn=Iteration())
        if isinstance(names := stay.scope, NodeScope) and names.turn is not None:
            frame.scope = names
            self.begin_turn(names.turn)

    def _drained(self, frame: Frame) -> None:
        if not frame.is_wanted:
            return
        if isinstance(frame.block, BlockRun):
            frame.block.drained()
        elif frame.outer is None:
            self.ending.complete_without_return()

    def finish(self, status: Any, outcome: Any) -> None:
        """End the execution."""
        if self.has_session and status != "failed":  # what has failed may be retried, and the session with it
            end_session(self)
        self.finished = True
        self.log.end(status, outcome, self.ending.failed_at if status == "failed" else ())

    def fail(self, firing: Firing, error: Err) -> None:
        """A node has failed, and nothing stands in for it: what holds it fails."""
        self.note_settled(firing, error)
        if self._failing is None or self._failing[0] != error.error or self._failing[1][: len(firing.path)] != firing.path:
            self._failing = error.error, firing.path  # a block that fails because of a step in it is not what has failed
        body = firing.frame.block
        if isinstance(body, BlockRun):
            body.failed(firing, error)
        else:
            self.ending.fail(error, self._failing[1])

    # what expressions say

    def template(self, value: Any, is_of_kind: bool = False) -> Template:
        """A value template of the definition, compiled; of a kind, it has no expressions in it but those of the kind itself."""
        return template.compile_template(value, self.missing(in_condition=False), "none" if is_of_kind and self.expressions == "cel" else self.expressions)

    @property
    def expressions(self) -> Expressions:
        """Which expressions values of the definition may have in them."""
        return self.dialect_rules.expressions

    def evaluated(self, value: Any, names: NodeScope, may_have_secrets: bool = False, is_of_kind: bool = False) -> Any:
        """What a value template comes to, with what stands for secrets in their places if it may have them; see `template`.

        Raises:
            ExpressionFailed: something is missing that has to be there.
            Failure: it reads a secret, and may not have any; what stands for one must not go out instead.
        """
        compiled = self.template(value, is_of_kind)
        if not may_have_secrets and any(read.root == "secrets" for read in compiled.reads):
            why = (
                "it reads a secret, and what it comes to is kept; secrets are given by name, in `with`, to what does work: a tool, a function, a kind of steps"
            )
            raise self.failure(why, "NoSecrets")
        return compiled.evaluate(names)

    def given(self, value: Any, names: NodeScope) -> tuple[Any, tuple[str, ...]]:
        """What a call is given, as its template says, and where in it marks stand for secrets, as JSON pointers.

        Raises:
            ExpressionFailed: something is missing that has to be there.
            Failure: it reads a secret, and is not given by name.
        """
        if value is None:
            return None, ()
        made = self.evaluated(value, names, isinstance(value, dict))
        return made, tuple(secret_marks.mark_pointers(made)) if isinstance(made, dict) and self.reads_secrets(value) else ()

    def reads_secrets(self, value: Any) -> bool:
        """Whether a value template reads any."""
        return any(read.root == "secrets" for read in self.template(value).reads)

    def condition(self, value: Any, names: NodeScope) -> CompiledCondition:
        """A condition of the definition, compiled. ``$`` in it is the step's own result where there is one, else all steps."""
        return condition.compile_condition(value, self.missing(in_condition=True), "self" if names.has("self") else "steps", self.expressions)

    def missing(self, *, in_condition: bool) -> Any:
        """What a missing value comes to in the dialect of the definition."""
        return self.dialect_rules.missing_in_condition if in_condition else self.dialect_rules.missing_in_value

    def failure(self, why: str, type: str = "BadValue") -> NodeFailure:
        """An error of a definition's own making."""
        return NodeFailure(ErrorInfo(type, why))

    def judge(self, path: Path, value: Any, names: NodeScope, told: Callable[[bool | KeepOperation | Err | None], None]) -> None:
        """Judge a condition, and tell what holds; on replay, tell the note that stands at `path`, or that there is none."""
        compiled = self.condition(value, names)
        if compiled.python:
            doing_python(self, path, (compiled, names), told)
        else:
            told(self.judged(path, compiled, names))

    def judged(self, path: Path, compiled: CompiledCondition, names: NodeScope, python: Sequence[bool] = ()) -> bool | KeepOperation | Err | None:
        """What `judge` tells of a condition whose parts in Python are known."""
        if self.log.replaying:
            self.log.skip_warning((*path, MISSING))
            failed = self.log.judged((*path, UNJUDGED), lambda: None)
            op = self.log.upcoming(path) if failed is None else None
            if isinstance(op, KeepOperation) and op.port in ("skipped", "again", "max"):
                return self.log.note(path, op)
            return failed
        missing: list[str] = []
        holds: bool | Exception
        try:
            holds = compiled.evaluate(names, python, lambda where, what: missing.append(what))
        except (ExpressionFailed, ProgrammingError) as error:
            holds = error
        if missing:
            self.log.note_warning((*path, MISSING), f"the condition does not hold, as something is missing: {'; '.join(missing)}")
        return holds if isinstance(holds, bool) else self.log.fails((*path, UNJUDGED), holds)


def end_session(run: GraphProgram) -> None:
    """Have the session of agents of an execution end with it."""
    from perdure.definitions.graph.agents import end_agent_session

    end_agent_session(run)


def doing_python(run: GraphProgram, path: Path, what: tuple[CompiledCondition, NodeScope], told: Callable[[Any], None]) -> None:
    """Judge a condition some of which is Python: that runs in the sandbox, as a call, and then the rest is judged."""
    from perdure.definitions.graph.graph_run import judge_python

    judge_python(run, path, what, told)
