"""The view of an execution of a definition: its steps, the states of its nodes and its tokens, as they were after any event of its log.

Lists of steps, pictures and counters are all read from one view. It is made by replaying the log to that event over the pinned definition. Nothing is
evaluated, and only the log is needed, so a view does not depend on the tools, kinds or policies of the process that makes it.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from perdure.core import events as e
from perdure.core import values, views
from perdure.core.errors import Diverged, ErrorInfo, NotReplayable
from perdure.core.execution import Execution
from perdure.core.loop_iterations import is_in_trimmed_iteration
from perdure.core.operation_state import PendingOperation, SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation, Operation, SpawnOperation, awaits_approval, operation_target
from perdure.core.paths import UNDO, Key, Path, path_text
from perdure.core.replay import LoadBlob, continue_replay, replay_program
from perdure.core.views import StepState, StepView
from perdure.definitions.graph.graph_program import GraphProgram
from perdure.definitions.graph.graph_run import JudgedCondition, Passage, PassageRecord
from perdure.definitions.graph.graph_verbs import new_graph_program
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.definitions.graph.ir import IR, GraphNode
from perdure.definitions.graph.plan import GraphPlan, takes_edge
from perdure.definitions.graph.shown_graph import MOST_ACTIVE, PictureState
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.graph.token_walk import NodeSettled, TokenWalk

NO_TARGET = frozenset(("approve", "sleep", "set", "test", "if", "return", "fail", "do", "parallel", "race"))
"""The verbs whose operation adds nothing to their name."""


class TokenCounts(msgspec.Struct, frozen=True):
    """The tokens after event `number`. `counter` counts the tokens on edges and the nodes that run, and approvals that wait apart. For each join, the steps
    that have reached it. Then the keys that were applied, in order; the open nodes by path; the results of steps by id.
    """

    number: int
    counter: int
    approvals: int
    joins: dict[str, list[str]]
    applied: list[str]
    open: list[str]
    outputs: dict[str, Any]


class ExecutionView(msgspec.Struct, frozen=True):
    """An execution after event `number` of its log.

    `ir` is the definition that it ran by. `steps` are its operations and the nodes that have begun, in the order in which they began. `states` has the state
    of each node by id; of one that has begun several times, the state of the open passage, or else of the last. `taken` are the numbers of the edges
    that tokens have moved along.
    """

    number: int
    ir: IR
    steps: list[StepView]
    states: dict[str, PictureState]
    taken: frozenset[int]
    tokens: TokenCounts


def view_at_event(key: Key, events: Sequence[e.Event], number: int) -> Generator[LoadBlob, bytes, ExecutionView | None]:
    """Returns the view after event `number` of a log, counted from 1; None if the execution has not begun by then.

    The commands that an event caused were written with it, so a view shows both or neither.

    Raises:
        NotReplayable: the log does not replay.
    """
    following = ViewReplay(key)
    try:
        yield from following.begin(events, number, until=e.end_of_commands(events, number))
        return following.view(number)
    finally:
        following.close()


def conditions_at_event(key: Key, events: Sequence[e.Event], number: int, path: Path) -> Generator[LoadBlob, bytes, "NodeConditions"]:
    """Returns the conditions that the node whose passage is at `path` has judged by event `number` of a log. They are evaluated again on the values of then.

    Raises:
        NotReplayable: the log does not replay.
    """
    following = ViewReplay(key, path)
    try:
        yield from following.begin(events, number, until=e.end_of_commands(events, number))
        return following.conditions(path)
    finally:
        following.close()


class NodeConditions(NamedTuple):
    """The node of a passage (None: there is no such passage), the conditions that it has judged, in order, and the rule that it took: as recorded, or empty."""

    node: GraphNode | None
    judged: list[JudgedCondition]
    taken: str


class ViewReplay:
    """Follows an execution of a definition: it replays the log, then what is added to it, and makes the view of the present state.

    With `explained`, it also evaluates again what the node of that passage has judged.
    """

    def __init__(self, key: Key, explained: Path | None = None) -> None:
        self.execution = Execution(key)
        self._program = new_graph_program(GraphWorkflow(key.workflow, kinds=_AS_RECORDED, agent=f"{key.workflow}.agent"), key)
        self._program.run.passages = PassageRecord(explained)

    def begin(self, events: Sequence[e.Event], number: int, until: int | None = None) -> Generator[LoadBlob, bytes, None]:
        """Replays the first `until` of the events of a log, which is as of event `number`.

        Raises:
            NotReplayable: the log does not replay.
        """
        self._expect_same((yield from replay_program(self.execution, events, self._program, awake=True, until=until)), number)

    def go_on(self, events: Sequence[e.Event]) -> Generator[LoadBlob, bytes, None]:
        """Replays whole commits that were added. See `continue_replay`.

        Raises:
            NotReplayable: the log does not replay.
        """
        self._expect_same((yield from continue_replay(self.execution, events, self._program)), self.execution.version)

    def _expect_same(self, diverged: Diverged | None, number: int) -> None:
        if diverged is not None:
            raise NotReplayable(self.execution.key, number, diverged.diff)

    def view(self, number: int) -> ExecutionView | None:
        """Returns the view, as that after event `number`; None if the execution has not begun."""
        return _ViewBuilder(self.execution, self._program, number).made() if self._program.is_begun else None

    def conditions(self, path: Path) -> NodeConditions:
        """Returns what the node that is explained has judged."""
        run = self._program.run
        assert run.passages is not None
        passage = run.passages.known.get(path)
        taken = next((one.chosen for one in run.walk.happened if isinstance(one, NodeSettled) and one.path == path), "")
        return NodeConditions(None if passage is None else passage.node, run.passages.conditions, taken)

    def close(self) -> None:
        """Closes the program."""
        self._program.close()


def problems_of_patch(key: Key, events: Sequence[e.Event], definition: bytes) -> Generator[LoadBlob, bytes, tuple[str, ...]]:
    """Returns the reasons why an execution with this log can't continue with another definition; empty if it can. They are those that an engine finds.

    Raises:
        NotReplayable: the log does not replay.
    """
    execution, program = Execution(key), new_graph_program(GraphWorkflow(key.workflow, kinds=_AS_RECORDED, agent=f"{key.workflow}.agent"), key)
    try:
        diverged = yield from replay_program(execution, events, program, awake=True)
        if isinstance(diverged, Diverged):
            raise NotReplayable(key, len(events), diverged.diff)
        return program.unfit(definition)
    finally:
        program.close()


class _Recorded(Mapping[str, Kind]):
    """Every kind, for a replay: the results of its steps are in the log."""

    def __getitem__(self, name: str) -> Kind:
        return _recorded(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@cache
def _recorded(name: str) -> Kind:
    def refuse(*_: Any) -> Any:
        raise AssertionError(f"a view performs nothing, and was asked to perform {name}")

    return Kind(name, refuse)


_AS_RECORDED = _Recorded()


class _ViewBuilder:
    """Builds one view."""

    def __init__(self, execution: Execution, program: GraphProgram, number: int) -> None:
        assert program.run.passages is not None
        self.execution, self.program, self.number = execution, program, number
        self.plan: GraphPlan = program.run.plan
        self.walk: TokenWalk = program.run.walk
        self.passages = {path: one for path, one in program.run.passages.known.items() if not is_in_trimmed_iteration(path, execution.trimmed)}
        self.is_over = execution.ended is not None or program.ending.is_begun
        self.open_under = _by_prefix(execution.open)

    def made(self) -> ExecutionView:
        """Returns the view."""
        nodes = {path: self._passage(path, passage) for path, passage in self.passages.items()}
        over = [one for one in self.walk.happened if isinstance(one, NodeSettled)]
        taken = frozenset(edge for one in over for edge in self._taken(one))
        return ExecutionView(self.number, self.plan.ir, self._steps(nodes), self._states(nodes), taken, self._tokens(nodes))

    # Nodes.

    def _passage(self, path: Path, passage: Passage) -> StepView:
        """Returns the view of a node that has begun."""
        own = self.execution.open.get(path)
        known = own or self.execution.settled.get(path)
        error = passage.error
        if not passage.has_settled and isinstance(known, SettledOperation) and isinstance(known.outcome, Failure):
            error = known.outcome.error
        state, port = self._state(path, passage), passage.port or ""
        return StepView(
            path_text(path),
            passage.node.kind,
            "" if known is None else _target(passage.node, known.op),
            state,
            1 if known is None else known.attempt,
            passage.began_at_s,
            None if state in MOST_ACTIVE else self.execution.now_s if passage.ended_at_s is None else passage.ended_at_s,
            None if own is None else own.due_at_s,
            error,
            "" if port in ("success", "skipped", "error") else port,
        )

    def _state(self, path: Path, passage: Passage) -> StepState:
        inner = self.open_under.get(path, ())
        is_wanted = path in self.walk.open and not self.is_over
        if is_wanted or any(pending.grace_until_s is not None for pending in inner):
            found = {views.pending_state(pending) for pending in inner}
            return next((state for state in MOST_ACTIVE if state in found), "waiting")
        if passage.error is not None:
            return "failed"
        if passage.port is not None:
            return "skipped" if passage.port == "skipped" else "failed" if passage.port == "error" else "completed"
        known = self.execution.settled.get(path)
        return "abandoned" if known is not None and views.settled_state(known) == "abandoned" else "cancelled"

    def _states(self, nodes: Mapping[Path, StepView]) -> dict[str, PictureState]:
        """Returns the state of each node that has one, by id."""
        states: dict[str, PictureState] = dict.fromkeys(self.plan.by_id, "not_taken") if self.is_over else {}
        for frame in self.walk.frames():
            states |= {self.plan.places[number].node.id: "not_taken" for number, arrivals in frame.arrivals.items() if arrivals.is_dead}
        for path, step in nodes.items():
            id, before = _id(path), states.get(_id(path))
            if before not in MOST_ACTIVE or (step.state in MOST_ACTIVE and MOST_ACTIVE.index(step.state) < MOST_ACTIVE.index(before)):
                states[id] = step.state
        return states

    # Steps.

    def _steps(self, nodes: Mapping[Path, StepView]) -> list[StepView]:
        """Returns the nodes that have begun and the operations, in the order in which they began. Notes of the walk are left out, except open ones and calls;
        an error in a note is shown at the operation that it is about."""
        found = {path: (self.passages[path].number, 0, step) for path, step in nodes.items()}
        operations: list[tuple[Path, PendingOperation | SettledOperation]] = [*self.execution.settled.items(), *self.execution.open.items()]
        for path, known in operations:
            if path in found:
                continue
            if isinstance(known, SettledOperation) and (error := _noted_error(path, known)) is not None:
                path = _beside(path)
                if path not in nodes and (node := self._node(path)) is not None:
                    number, order, step = found.get(path) or (
                        known.number,
                        1,
                        StepView(path_text(path), node.kind, "", "failed", 1, known.opened_at_s, known.at_s),
                    )
                    found[path] = number, order, msgspec.structs.replace(step, state="failed", error=error)
            elif (shown := self._operation(path, known)) is not None:
                found[path] = known.number, 1, shown
        return [step for _, _, step in sorted(found.values(), key=lambda one: one[:2])]

    def _operation(self, path: Path, known: PendingOperation | SettledOperation) -> StepView | None:
        """Returns the view of an operation of an item, of an iteration, beside a node, or of an undo; None if it is not shown."""
        node = None if path[0] == UNDO else self._node(path)
        view, is_open = views.step_view(path, known), isinstance(known, PendingOperation)
        if node is None:
            return view if is_open or path == (UNDO,) or path[0] != UNDO or not _is_note(path) else None
        if not _is_note(path):
            return msgspec.structs.replace(view, kind=node.kind, target=_target(node, known.op))
        return view if is_open or isinstance(known.op, CallOperation) or (isinstance(known.op, SpawnOperation) and known.op.awaited) else None

    def _node(self, path: Path) -> GraphNode | None:
        """The node to which an operation belongs: the innermost one in whose passage it lies."""
        name = next((segment[0] for segment in reversed(path) if isinstance(segment, tuple) and segment[1] > 0), "")
        place = self.plan.by_id.get(name)
        return None if place is None else place.node

    # Tokens.

    def _taken(self, one: NodeSettled) -> Iterator[int]:
        """The numbers of the edges over which a node that has settled led on."""
        for number in self.plan.by_id[_id(one.path)].out:
            edge = self.plan.edges[number]
            if self.plan.places[edge.target].node.id in one.to and (one.chosen or takes_edge(edge.port, one.port)):
                yield number

    def _tokens(self, nodes: Mapping[Path, StepView]) -> TokenCounts:
        places, edges, joins = self.plan.places, self.plan.edges, dict[str, list[str]]()
        on_edges = [] if self.is_over else [edge for _, edge in self.walk.waiting()]
        for edge in on_edges:
            joins.setdefault(places[edges[edge].target].node.id, []).append(places[edges[edge].source].node.id)
        is_open = [path for path, step in nodes.items() if step.settled_at_s is None]
        around = {path[:end] for path in is_open for end in range(len(path))}
        asked = [] if self.is_over else [path for path, pending in self.execution.open.items() if awaits_approval(pending.op)]
        asking = {path[:end] for path in asked for end in range(len(path) + 1)}
        working = [path for path in is_open if path not in around and path not in asking]
        outputs = {id: output.value for id, output in self.program.run.roots.outputs.items()}
        shown = [path_text(path) for path in is_open]
        return TokenCounts(self.number, len(on_edges) + len(working), len(asked), joins, self.walk.traced, shown, outputs)


def _target(node: GraphNode, op: Operation) -> str:
    return "" if isinstance(op, KeepOperation) or node.kind in NO_TARGET else operation_target(op)


def _id(path: Path) -> str:
    """The id of the node whose passage has this path."""
    segment = path[-1]
    return segment[0] if isinstance(segment, tuple) else str(segment)


def _is_note(path: Path) -> bool:
    """Whether the path is that of a note beside a node; an iteration or an item is not a note."""
    return isinstance(path[-1], tuple) and path[-1][1] == 0


def _beside(path: Path) -> Path:
    """Returns the path that a note is about."""
    while path and _is_note(path):
        path = path[:-1]
    return path


def _noted_error(path: Path, known: SettledOperation) -> ErrorInfo | None:
    """Returns the error that was noted at a path, if there is one and it is not in a blob."""
    op = known.op
    if path[0] != UNDO and _is_note(path) and isinstance(op, KeepOperation) and op.label == "error" and isinstance(op.value, bytes):
        error: ErrorInfo = values.decode(op.value, ErrorInfo, "an error")
        return error
    return None


def _by_prefix(open: Mapping[Path, PendingOperation]) -> dict[Path, list[PendingOperation]]:
    """The open operations at or below each path."""
    found: dict[Path, list[PendingOperation]] = {}
    for path, pending in open.items():
        for end in range(1, len(path) + 1):
            found.setdefault(path[:end], []).append(pending)
    return found
