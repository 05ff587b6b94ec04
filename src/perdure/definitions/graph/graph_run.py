"""The run of a definition: the state of one execution, and the evaluation of its expressions.

`RunRoots` holds what every expression may read. `PassageRecord` notes when each node began and how it ended; it is kept only for views of an execution.
Conditions in Python run in a sandbox, as calls whose answers are recorded like any other.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from perdure.code.declarations import Retry, Step
from perdure.core import error_codes, values
from perdure.core.carried import TRIGGER_CARRIED
from perdure.core.errors import ErrorInfo, ExpressionFailed, Fatal, ProgrammingError
from perdure.core.execution import Execution
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation
from perdure.core.paths import Key, Path
from perdure.definitions.expr import condition, secret_marks, template
from perdure.definitions.expr.condition import CompiledCondition
from perdure.definitions.expr.condition_rows import ConditionRow, condition_rows
from perdure.definitions.expr.secret_marks import SecretMark, secret_mark
from perdure.definitions.expr.template import Expressions, Template
from perdure.definitions.format.dialect_rules import RULES, DialectRules
from perdure.definitions.graph.definition_input import completed_input_problems, with_defaults
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.ir import GraphNode
from perdure.definitions.graph.node_scope import Iteration, NodeOutcome, NodeScope, Output, combined_values
from perdure.definitions.graph.operation_log import MISSING, UNJUDGED, NodeFailure, OperationLog
from perdure.definitions.graph.plan import GraphPlan
from perdure.definitions.graph.token_walk import Firing, TokenWalk


class Passage:
    """One run of a node, from its firing to its end. It has settled if it has a `port` or an `error`; it ended at `ended_at_s`.

    One that ended without settling was dropped. `number` counts the operations that were opened before it.
    """

    __slots__ = ("began_at_s", "ended_at_s", "error", "node", "number", "port")

    def __init__(self, node: GraphNode, number: int, at_s: float) -> None:
        self.node, self.number, self.began_at_s = node, number, at_s
        self.ended_at_s: float | None = None
        self.port: str | None = None
        self.error: ErrorInfo | None = None

    @property
    def has_settled(self) -> bool:
        """Whether the node has a result or an error."""
        return self.port is not None or self.error is not None


class JudgedCondition(NamedTuple):
    """A condition that the walk has judged: its path, the number of its rule (-1: it is none), whether it held, and its rows with the values of then."""

    path: Path
    rule: int
    source: Any
    holds: bool | None
    rows: list[ConditionRow]


class PassageRecord:
    """The passages of one walk by path, in the order in which they began; with `explained`, the conditions that the node whose passage this is has judged."""

    __slots__ = ("conditions", "explained", "known")

    def __init__(self, explained: Path | None = None) -> None:
        self.explained = explained
        self.known: dict[Path, Passage] = {}
        self.conditions: list[JudgedCondition] = []

    def explains(self, path: Path) -> bool:
        """Whether what is judged at a path belongs to the node that is explained, to no node within it, and is no rule, which a replay does not judge."""
        node = self.explained
        if node is None or path[: len(node)] != node:
            return False
        return all(isinstance(segment, int) or (segment[1] == 0 and segment[0] != RULE) for segment in path[len(node) :])

    def judge(self, path: Path, compiled: CompiledCondition, names: NodeScope, *, python: Sequence[bool] = (), rule: int = -1) -> None:
        """Records a condition of the node that is explained, row by row."""
        self.conditions.append(JudgedCondition(path, rule, compiled.source, *condition_rows(compiled, names, python)))

    def begin(self, path: Path, node: GraphNode, number: int, at_s: float) -> None:
        """Records that a node begins, after the operation of this number."""
        self.known[path] = Passage(node, number, at_s)

    def settle(self, path: Path, how: NodeOutcome | Failure) -> None:
        """Records the result or the error of a node. It stays open while an error handler runs, or while Python evaluates its routes."""
        passage = self.known[path]
        if isinstance(how, Failure):
            passage.error = how.error
        else:
            passage.port = how.port

    def leave(self, paths: Iterable[Path], at_s: float) -> None:
        """Records that nodes are no longer open: they have settled, or were dropped."""
        for path in paths:
            passage = self.known.get(path)  # a node that was dropped before it began has no passage
            if passage is not None and passage.ended_at_s is None:
                passage.ended_at_s = at_s

    def end_around(self, path: Path, at_s: float) -> None:
        """Records that the node at a path completes the execution, and with it the blocks around it."""
        for end in range(1, len(path) + 1):
            passage = self.known.get(path[:end])
            if passage is not None and not passage.has_settled:
                passage.port = "success"
            self.leave((path[:end],), at_s)


class SecretMarks:
    """The marks of secrets by name. A mark is replaced by the secret only where a call is performed."""

    def __getitem__(self, name: str) -> SecretMark:
        return secret_mark(name)

    def get(self, name: str, _: Any = None) -> SecretMark:
        """Returns the mark of a secret."""
        return self[name]


class RunRoots:
    """The roots of references in one execution. `outputs` are the results of the steps outside of any `each`."""

    def __init__(self, run: "GraphRun", raw: bytes) -> None:
        self.run = run
        self.outputs: dict[str, Output] = {}
        self.last: Output | None = None
        self.loop: dict[str, Any] | None = None
        positional, named = values.decode(raw, tuple[list[Any], dict[str, Any]], "the input")
        given = {**(positional[0] if positional and isinstance(positional[0], dict) else {}), **named}
        self.input: dict[str, Any] = with_defaults(run.plan.ir, given)
        self.variables: dict[str, Any] = {}

    def check(self) -> KeepOperation | None:
        """Checks the input against the inputs that the definition declares."""
        for why in completed_input_problems(self.run.plan.ir, self.input):
            raise self.run.failure(why, error_codes.BAD_INPUT)
        return None

    def vary(self) -> Failure | None:
        """Sets the variables to their initial values. Values with references are evaluated and recorded."""
        run, given = self.run, self.run.plan.ir.variables
        if not isinstance(given, dict):
            return None
        template, names = run.template(given), NodeScope(self)
        if template.constant:
            self.variables = template.evaluate(names)
            return None
        kept = run.log.judged((("vars", 0),), lambda: KeepOperation(values.encode(run.evaluated(given, names), "the variables"), label="vars"))
        if isinstance(kept, KeepOperation):
            self.variables = values.decode(run.log.raw(kept.value), dict[str, Any], "the variables")
        return kept if isinstance(kept, Failure) else None

    def root(self, name: str) -> Any:
        """The value of a root; raises KeyError if there is no root of this name."""
        match name:
            case "input":
                return self.input
            case "vars":
                return self.variables
            case "secrets":
                return SecretMarks()
            case "execution":
                return self._execution()
            case "last":
                return None if self.last is None else self.last.value
            case "lastOutput":
                return None if self.last is None else self.last.envelope
            case "loop" if self.loop is not None:
                return self.loop
            case "trigger":
                return self._trigger()
            case "steps":
                return {id: {"output": output.envelope} for id, output in self.outputs.items()}
        raise KeyError(name)

    def name_of(self, id: str) -> str:
        """The display name of a step; empty if it has none."""
        place = self.run.plan.by_id.get(id)
        return "" if place is None else place.node.name

    def is_out(self, id: str) -> bool:
        """Whether a step without a result can't have one any more: it was passed by, or the block around it has ended."""
        plan, walk = self.run.plan, self.run.walk
        place = plan.by_id.get(id)
        if place is None:
            return False
        if plan.ir.order != "ports" or not walk.open:
            return True  # the step comes before its reader, so without a result it was passed by
        while True:
            if any((arrivals := frame.arrivals.get(place.number)) is not None and arrivals.is_dead for frame in walk.frames()):
                return True
            region = plan.regions[place.node.region]
            if region.kind == "body" and plan.places[region.head].node.id in self.outputs:
                return True
            if region.head < 0 or plan.places[region.head] is place:
                return False
            place = plan.places[region.head]

    def _trigger(self) -> dict[str, Any]:
        raw = next((value for name, value in self.run.execution.carried if name == TRIGGER_CARRIED), None)
        return {} if raw is None else values.decode(raw, dict[str, Any], "what is known of the trigger")

    def _execution(self) -> dict[str, Any]:
        execution = self.run.execution
        started = execution.started
        return {
            "id": execution.key.id,
            "execution_id": execution.key.id,
            "workflow": execution.key.workflow,
            "tenant": execution.key.tenant,
            "depth": execution.depth,
            "started_at_s": None if started is None else started.at_s,
            "now_s": execution.now_s,
        }


OnOutcome = Callable[[NodeOutcome | Failure], None]
"""Takes the outcome of a node."""


class VerbRun(NamedTuple):
    """One run of the verb of a node: its firing, its path, the names that it may read, and the callback that takes its outcome."""

    firing: Firing
    path: Path
    names: NodeScope
    then: OnOutcome

    @property
    def node(self) -> GraphNode:
        """The node."""
        return self.firing.place.node


class GraphRun:
    """The state of one execution of a definition, and the evaluation of its expressions.

    `works` are the nodes that are about to begin work; `perform_verb` does the verb of a node and is set by the program. `undo_scopes` holds, by the path of
    a step that can be undone, what its undo may read. `counted` holds, by the path of an endless loop, the transitions and steps counted before its first turn.
    """

    __slots__ = (
        "agents",
        "clock",
        "counted",
        "execution",
        "has_session",
        "log",
        "passages",
        "perform_verb",
        "plan",
        "results_bytes",
        "roots",
        "started_steps",
        "undo_scopes",
        "walk",
        "workflow",
        "works",
    )

    def __init__(self, workflow: GraphWorkflow, key: Key, perform_verb: Callable[["VerbRun"], None]) -> None:
        self.workflow = workflow
        self.execution = Execution(key)
        self.perform_verb = perform_verb
        self.log = OperationLog()
        self.passages: PassageRecord | None = None
        self.plan: GraphPlan
        self.roots: RunRoots
        self.walk: TokenWalk
        self.begin_anew()

    def begin_anew(self) -> None:
        """Resets the state, before the execution starts or is reopened."""
        self.works: deque[Callable[[], None]] = deque()
        self.agents: dict[Path, str] = {}
        self.undo_scopes: dict[Path, NodeScope] = {}
        self.counted: dict[Path, tuple[int, int]] = {}
        self.has_session = False
        self.started_steps = self.results_bytes = self.clock = 0
        self.log.clear()

    def begin(self, plan: GraphPlan, raw_input: bytes) -> None:
        """Begins a walk over `plan`."""
        self.plan = plan
        self.roots = RunRoots(self, raw_input)
        self.walk = TokenWalk(plan)
        if self.passages is not None:
            self.passages, self.walk.trace = PassageRecord(self.passages.explained), {}

    @property
    def dialect_rules(self) -> DialectRules:
        """The rules of the dialect in which its definition was written."""
        return RULES[self.plan.ir.dialect]

    def names(self, firing: Firing) -> NodeScope:
        """Returns the names that a node may read: after a port ``error``, also the error."""
        names = firing.frame.scope
        assert isinstance(names, NodeScope)
        return names.inside({"error": firing.error}) if firing.place.number in self.plan.behind_errors else names

    def note_settled(self, firing: Firing, how: NodeOutcome | Failure) -> None:
        """Records the outcome of a node, if passages are kept."""
        if self.passages is not None:
            self.passages.settle(firing.path, how)

    def pass_by(self, names: NodeScope, ids: Iterable[str]) -> None:
        """Makes steps read as null that the current iteration has not reached and will not reach."""
        if (turn := names.turn) is not None:
            turn.pass_by(id for id in ids if (known := names.outputs.get(id)) is not None and known.stored < turn.since)

    def begin_iteration(self, turn: Iteration) -> None:
        """Begins an iteration of a cycle or of a `repeat`."""
        self.clock += 1
        turn.since = self.clock

    def template(self, value: Any, is_of_kind: bool = False) -> Template:
        """Compiles a value template of the definition; one of a kind may contain only the expressions of the kind itself."""
        return template.compile_template(value, self.missing(in_condition=False), "none" if is_of_kind and self.expressions == "cel" else self.expressions)

    @property
    def expressions(self) -> Expressions:
        """Which expressions the values of the definition may contain."""
        return self.dialect_rules.expressions

    def evaluated(self, value: Any, names: NodeScope, may_have_secrets: bool = False, is_of_kind: bool = False) -> Any:
        """Evaluates a value template (see `template`), with marks in place of secrets if it may contain secrets.

        Raises:
            ExpressionFailed: a required value is missing.
            NodeFailure: it reads a secret where none is allowed; its mark must not be used as a value.
        """
        compiled = self.template(value, is_of_kind)
        if not may_have_secrets and "secrets" in compiled.roots:
            why = "a value that is recorded reads a secret; pass secrets only in the `with` of a step that does work: a tool, a function or a kind"
            raise self.failure(why, error_codes.SECRETS_UNAVAILABLE)
        return compiled.evaluate(names)

    def given(self, value: Any, names: NodeScope) -> tuple[Any, tuple[str, ...]]:
        """Evaluates the template of a call's input; returns the input and the JSON pointers of the marks of secrets in it.

        Raises:
            ExpressionFailed: a required value is missing.
            NodeFailure: it reads a secret, and is not a mapping of names.
        """
        if not isinstance(value, dict):
            return None if value is None else self.evaluated(value, names), ()
        compiled = self.template(value)
        made = compiled.evaluate(names)
        return made, tuple(secret_marks.mark_pointers(made)) if "secrets" in compiled.roots and isinstance(made, dict) else ()

    def reads_secrets(self, value: Any) -> bool:
        """Whether a value template reads secrets."""
        return "secrets" in self.template(value).roots

    def condition(self, value: Any, names: NodeScope) -> CompiledCondition:
        """Compiles a condition of the definition. ``$`` in it is the step's own result if there is one, else all steps."""
        return condition.compile_condition(value, self.missing(in_condition=True), "self" if names.has("self") else "steps", self.expressions)

    def missing(self, *, in_condition: bool) -> Any:
        """The meaning of a missing value in the dialect of the definition."""
        return self.dialect_rules.missing_in_condition if in_condition else self.dialect_rules.missing_in_value

    def failure(self, why: str, type: str = error_codes.BAD_VALUE) -> NodeFailure:
        """Returns a failure that the definition itself causes."""
        return NodeFailure(ErrorInfo(type, why))

    def judge(self, path: Path, value: Any, names: NodeScope, told: Callable[[bool | KeepOperation | Failure | None], None]) -> None:
        """Judges a condition and passes the result to `told`; on replay, passes the note at `path`, or None if there is none."""
        compiled = self.condition(value, names)
        if compiled.python:
            judge_python(self, path, (compiled, names), told)
        else:
            told(self.judged(path, compiled, names))

    def judged(self, path: Path, compiled: CompiledCondition, names: NodeScope, python: Sequence[bool] = ()) -> bool | KeepOperation | Failure | None:
        """Returns the result that `judge` passes on, once the Python parts of the condition are known."""
        if self.passages is not None and self.passages.explains(path):
            self.passages.judge(path, compiled, names, python=python)
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
            self.log.note_warning((*path, MISSING), f"the condition counts as false, because values are missing: {'; '.join(missing)}")
        return holds if isinstance(holds, bool) else self.log.fails((*path, UNJUDGED), holds)


RULE = "rule"
"""The name beside a node at which its rules are judged, with the number of each."""

PYTHON_CONDITION = "perdure.python"
"""The name of the calls that evaluate conditions in Python."""


def judge_python(run: GraphRun, path: Path, what: tuple[CompiledCondition, NodeScope], told: Callable[[Any], None]) -> None:
    """Judges the Python parts of a condition by a call in the sandbox, then the rest, and passes on the result."""
    condition, names = what
    place = (*path, ("python", 0))

    def made() -> Operation:
        output = _root_or_none(names, "self")
        context = {id: {"output": value} for id, value in combined_values(names.seen(), "what a condition in Python sees").items()}
        args = values.encode(((list(condition.python), output, context), {}), "what a condition sees", path)
        return CallOperation(PYTHON_CONDITION, args, retry=Retry(max=1).rule(), timeout_s=10.0)

    def answered(settlement: SettledOperation) -> None:
        how = run.log.result(settlement)
        if isinstance(how, Failure):
            told(how)
        else:
            told(run.judged(path, condition, names, how.output.value))

    op = run.log.attempted(place, made)
    if isinstance(op, Failure):
        told(op)
    else:
        kind = run.workflow.kinds.get(PYTHON_CONDITION)
        run.log.wait(place, answered, _NO_SANDBOX_STEP if kind is None else kind.step)


def _root_or_none(names: NodeScope, root: str) -> Any:
    try:
        return names.root(root)
    except KeyError:
        return None


def _refuse_python(*_: Any) -> None:
    raise Fatal('conditions in Python need a sandbox, which is not installed. Install it: pip install "perdure[sandbox]"')


_NO_SANDBOX_STEP: Step[Any, Any, Any] = Step(_refuse_python, name=PYTHON_CONDITION)
