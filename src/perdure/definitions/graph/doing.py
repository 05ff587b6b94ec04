"""Doing: a node once it has fired. Each of a list, turn by turn, and the verb at the bottom; every way ends by telling how it went.

What an expression decided is remembered beside what it is about, under names of Perdure's own (``~items``, ``~again``), so a replay
evaluates nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.code.durations import duration_seconds
from perdure.core import events as e
from perdure.core import values
from perdure.core.errors import ErrorInfo, TooLarge
from perdure.core.limits import VALUE_BYTES_MAX
from perdure.core.operations import CallOperation, Failure, KeepOperation, SleepOperation, SpawnOperation
from perdure.core.paths import Path
from perdure.core.undo_plan import UNDOABLE
from perdure.definitions.graph.ir import NOT_AFTER
from perdure.definitions.graph.node_scope import Iteration, NodeOutcome, NodeScope, Output, schema_problem
from perdure.definitions.graph.token_walk import Firing

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram
    from perdure.definitions.graph.ir import GraphNode


OnOutcome = Callable[[NodeOutcome | Failure], None]


FAILED_PORTS = ("rejected", "timeout")
"""The ports by which an item counts as failed: a person said no, or the time was over."""


class VerbRun(NamedTuple):
    """One time that the verb of a node is done: for which firing, at which path, what it may read, and who is told how it went."""

    firing: Firing
    path: Path
    names: NodeScope
    then: OnOutcome

    @property
    def node(self) -> "GraphNode":
        """The node."""
        return self.firing.place.node


class EachRun:
    """A node done once for each of a list, so many at a time."""

    def __init__(self, run: "GraphProgram", doing: VerbRun) -> None:
        self.run, self.doing = run, doing
        each = doing.node.each
        assert each is not None
        self.each = each
        self.items: list[Any] = []
        self.results: dict[int, Output] = {}
        self.begun: dict[int, Path] = {}
        self.next = self.active = self.failed = 0
        self.is_over = False

    def begin(self) -> None:
        """Find out what to go through, and begin with the first ones."""
        kept = self.run.log.judged((*self.doing.path, ("items", 0)), self._items)
        if isinstance(kept, Failure):
            self.doing.then(kept)
            return
        self.items = [] if kept is None else values.decode(self.run.log.raw(kept.value), list[Any], "the items of", self.doing.path)
        if not self.items:
            self._end()
        for _ in range(min(self.each.concurrency or len(self.items), len(self.items))):
            self._refill()

    def _items(self) -> KeepOperation | None:
        found = self.run.evaluated(self.each.items, self.doing.names)
        if found is None and self.run.dialect_rules.each_over_null_is_empty:
            found = []
        if not isinstance(found, list):
            raise self.run.failure(f"each over {_short_text(found)}, which is no list")
        limit = self.each.max or self.run.plan.ir.limits.max_fanout
        if len(found) > limit:
            raise self.run.failure(f"each over {len(found):,} items, and at most {limit:,} are allowed", "exceeded_max_fanout")
        if self.each.batch:
            found = [found[start : start + self.each.batch] for start in range(0, len(found), self.each.batch)]
        if len(found) < self.each.enough:
            raise self.run.failure(f"each over {len(found):,} items, {self.each.enough:,} of which are to succeed", "NotEnough")
        return KeepOperation(values.encode(found, "the items of", self.doing.path), label="items") if found else None

    def _refill(self) -> None:
        if self.next < len(self.items):
            self.active += 1
            self.run.works.append(partial(self._start, self.next))
            self.next += 1

    def _start(self, position: int) -> None:
        if self.is_over:
            return
        item = self.items[position]
        loop: dict[str, Any] = {"index": position, "item": item, "total": len(self.items)}
        if self.each.batch:
            first = position * self.each.batch
            loop["batch"] = {"index": position, "size": len(item), "items": item, "startIndex": first, "endIndex": first + len(item) - 1}
        given = {"item": item, "index": position, "loop": loop, self.each.name: item, self.each.index: position}
        path = self.begun[position] = (*self.doing.path, position)
        self.run.log.receipts.begin(path)
        inside = VerbRun(self.doing.firing, path, self.doing.names.inside(given, apart=True), partial(self._told, position))
        begin_iterations(self.run, inside)

    def _told(self, position: int, how: NodeOutcome | Failure) -> None:
        if self.is_over:
            return
        self.active -= 1
        self.run.log.receipts.end(self.begun.pop(position))
        if isinstance(how, Failure) or self._is_failed_port(how.port):
            self.failed += 1
            if self.each.on_error == "fail" and not self.each.enough:
                self._stop()
                self.doing.then(how)
                return
            if self.each.on_error == "null":
                self.results[position] = Output()
        else:
            self.results[position] = how.output
        succeeded, left = self.next - self.active - self.failed, len(self.items) - self.next + self.active
        if self.each.enough and succeeded >= self.each.enough:
            self._stop(lost=True)
            self._end()
        elif self.each.enough and succeeded + left < self.each.enough:
            self._stop()
            why = f"{self.failed:,} of {len(self.items):,} failed, so {self.each.enough:,} can't succeed any more"
            self.doing.then(Failure("exhausted", 1, ErrorInfo("NotEnough", why)))
        elif self.next < len(self.items):
            self._refill()
        elif self.active == 0:
            self._end()

    def _is_failed_port(self, port: str) -> bool:
        """Whether an item that was left by this port counts as failed."""
        return port in FAILED_PORTS and not (port == "rejected" and self.doing.node.on_rejected == "go_on")

    def _stop(self, lost: bool = False) -> None:
        self.is_over = True
        self.run.log.drop_under(self.doing.path, lost)
        for path in self.begun.values():
            self.run.log.give_back(path)
            self.run.log.receipts.end(path)
        self.run.log.receipts.forget(self.doing.path)

    def _end(self) -> None:
        self.is_over = True
        output = Output.many([self.results[position] for position in sorted(self.results)])
        if output.size_bytes > VALUE_BYTES_MAX:
            too_large = TooLarge(f"the results of the items of {self.doing.node.id}", output.size_bytes, VALUE_BYTES_MAX)
            self.doing.then(Failure("fatal", 1, ErrorInfo("TooLarge", str(too_large))))
        else:
            self.doing.then(NodeOutcome("success", output))


class RepeatRun:
    """A node done turn by turn."""

    def __init__(self, run: "GraphProgram", doing: VerbRun) -> None:
        self.run, self.doing, self.turn = run, doing, 0
        repeat = doing.node.repeat
        assert repeat is not None
        self.repeat = repeat
        self.state: Any = None
        self.before = Output()
        self.names = doing.names.inside({}, turn=Iteration())

    def begin(self) -> None:
        """Begin the first turn."""
        if self.repeat.state is not None:
            kept = self.run.log.judged((*self.doing.path, ("state", 0)), self._state)
            if isinstance(kept, Failure):
                self.doing.then(kept)
                return
            self.state = None if kept is None else values.decode(self.run.log.raw(kept.value), Any, "the state of", self.doing.path)
        if self.repeat.max == 0 and self.run.endless.resumes(self.doing.path):
            self.run.log.wait_for_turn(self.doing.path, self._go_on)
        else:
            self._begin_turn()

    def _go_on(self, event: e.IterationResumedEvent) -> None:
        """Go on with the turn with which a compacted log begins."""
        self.turn, self.before = event.turn, self.run.endless.restored(event, self.names)
        self.state = self.before.value if event.turn else self.state
        self._perform()

    def _state(self) -> KeepOperation:
        return KeepOperation(values.encode(self.run.evaluated(self.repeat.state, self.doing.names), "the state of", self.doing.path), label="state")

    def _names(self, **result: Any) -> NodeScope:
        """What can be read in a turn; after it, its `result` too."""
        loop = {"index": self.turn, "state": self.state}
        given = {"index": self.turn, "loop": loop, "state": self.state, "last_turn": self.before.value}
        return self.names.inside(given | ({"self": result["result"]} if result else {}))

    def _begin_turn(self) -> None:
        if self.repeat.max == 0:
            ids = [id for body in self.doing.node.bodies for id in self.run.plan.ids_in(body)]
            self.run.endless.begin(self.doing.path, self.turn, ids, self.names, self.before, self.repeat)
        self._perform()

    def _perform(self) -> None:
        path: Path = (*self.doing.path, self.turn)
        if self.names.turn is not None:
            self.run.begin_turn(self.names.turn)
        if self.repeat.max == 0:  # what the turn begins with stands at its own path
            path = (*path, (self.doing.node.id, 1))
        perform_once(self.run, VerbRun(self.doing.firing, path, self._names(), self._told))

    def _told(self, how: NodeOutcome | Failure) -> None:
        self.run.pass_by(self.names, self.run.plan.ids_below(self.doing.firing.place))
        if isinstance(how, Failure) or how.port == "timeout":
            self.doing.then(how)
            return
        path = (*self.doing.path, self.turn)
        self.run.judge((*path, ("again", 0)), self.repeat.again, self._names(result=how.output.value), partial(self._judged, how))

    def _judged(self, how: NodeOutcome, holds: bool | KeepOperation | Failure | None) -> None:
        """Go on or not: `holds` is what was judged now, or the note of it in a replay."""
        if isinstance(holds, Failure):
            self.doing.then(holds)
            return
        path = (*self.doing.path, self.turn, ("again", 0))
        if isinstance(holds, bool):
            again = holds != self.repeat.until
            port = "max" if self.repeat.max and self.turn + 1 >= self.repeat.max else "again"
            holds = self.run.log.note(path, KeepOperation(label="again", port=port)) if again else None
        if not isinstance(holds, KeepOperation):
            self.doing.then(how)
        elif holds.port == "max":
            self._exhausted(how)
        else:
            self._wait(how)

    def _exhausted(self, how: NodeOutcome) -> None:
        if self.repeat.on_max == "go_on":
            self.doing.then(NodeOutcome("max", how.output))
        else:
            why = f"after {self.repeat.max:,} turns, what was to be waited for has not come"
            self.doing.then(Failure("exhausted", 1, ErrorInfo("RepeatExhausted", why)))

    def _wait(self, how: NodeOutcome) -> None:
        path, names = (*self.doing.path, self.turn, ("delay", 0)), self._names(result=how.output.value)
        self.turn, self.state, self.before = self.turn + 1, how.output.value, how.output
        if self.repeat.delay is None:
            self.run.works.append(self._begin_turn)
            return
        asked = self.run.log.attempted(path, lambda: SleepOperation(duration_seconds(self.run.evaluated(self.repeat.delay, names), "delay")))
        if isinstance(asked, Failure):
            self.doing.then(asked)
        else:
            self.run.log.wait(path, lambda _: self._begin_turn())


def begin_node(run: "GraphProgram", doing: VerbRun) -> None:
    """Do a node that has fired, all of it."""
    if doing.node.each is not None:
        EachRun(run, doing).begin()
    else:
        begin_iterations(run, doing)


def begin_iterations(run: "GraphProgram", doing: VerbRun) -> None:
    """Do a node, or one item of it, turn by turn if it repeats."""
    if doing.node.repeat is not None:
        RepeatRun(run, doing).begin()
    else:
        perform_once(run, doing)


def perform_once(run: "GraphProgram", doing: VerbRun) -> None:
    """Do the verb of a node once. What it comes to is made over, held against the schema of the node, and noted if it is undone as a whole."""
    node = doing.node
    if node.commit:
        doing = doing._replace(then=partial(_note_commit, run, doing))
    if node.undo is not None:
        run.undo_scopes[doing.path] = doing.names
        doing = doing._replace(then=partial(_note_undoable, run, doing))
    if node.schema is not None:
        doing = doing._replace(then=partial(_check_schema, run, doing))
    if node.transform is not None:
        from perdure.definitions.graph.transforming import with_transform  # here, as it does nodes again

        doing = with_transform(run, doing)
    from perdure.definitions.graph.guarding import check_use  # here, as it has people asked, which takes a workflow

    check_use(run, doing, lambda: run.verbs.get(doing.node.kind, run.verbs[""])(run, doing))


def _check_schema(run: "GraphProgram", doing: VerbRun, how: NodeOutcome | Failure) -> None:
    """Tell what a node has come to, unless it does not fit the schema of the node."""
    if isinstance(how, Failure) or how.port in NOT_AFTER:
        doing.then(how)
        return
    result = how.output

    def fits() -> KeepOperation | None:
        if why := schema_problem(doing.node.schema, result.value):
            raise run.failure(f"the result of {doing.node.id} does not fit its schema: {why}", "BadResult")
        return None

    wrong = run.log.judged((*doing.path, ("schema", 0)), fits)
    doing.then(wrong if isinstance(wrong, Failure) else how)


def _note_undoable(run: "GraphProgram", doing: VerbRun, how: NodeOutcome | Failure) -> None:
    """Note that a node has completed that is undone as a whole: all but those whose operation is itself undone."""
    if isinstance(how, NodeOutcome) and how.port not in NOT_AFTER:
        known = run.execution.settled.get(doing.path)
        is_undone_itself = known is not None and isinstance(known.op, CallOperation | SpawnOperation) and bool(known.op.undo)
        if not is_undone_itself:
            _ = run.log.note((*doing.path, UNDOABLE), KeepOperation(how.output.raw, "undoable"))
        if run.endless.lies_in_endless_loop(doing.path):
            run.ending.note_undo_arguments(doing.path, how.output)
    doing.then(how)


def _note_commit(run: "GraphProgram", doing: VerbRun, how: NodeOutcome | Failure) -> None:
    """Note that nothing done up to now is undone any more."""
    if isinstance(how, NodeOutcome) and how.port not in NOT_AFTER:
        _ = run.log.note((*doing.path, ("commit", 0)), KeepOperation(role="commit"))
    doing.then(how)


def _short_text(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
