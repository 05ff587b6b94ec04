"""Runs a fired node for each item of its `each` and for each turn of its `repeat`, down to performing its verb.

The result of an expression is recorded beside the operation that it affects, under reserved names (``~items``, ``~again``), so a replay evaluates nothing.
Each turn of an endless loop begins with a record of what it needs from earlier turns: the results of the steps in the loop, the variables and the
counters. Earlier turns can therefore be forgotten, the log stays bounded, and a compacted log continues from that record.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from perdure.code.durations import duration_seconds
from perdure.core import error_codes, values
from perdure.core import events as e
from perdure.core.errors import ErrorInfo, TooLarge
from perdure.core.limits import VALUE_BYTES_MAX
from perdure.core.operations import CallOperation, Failure, KeepOperation, SleepOperation, SpawnOperation
from perdure.core.paths import Path
from perdure.core.undo_plan import UNDOABLE
from perdure.core.values import ENCODED_NONE
from perdure.definitions.graph.execution_end import note_undo_arguments
from perdure.definitions.graph.graph_run import GraphRun, VerbRun
from perdure.definitions.graph.ir import NOT_AFTER, RepeatOptions
from perdure.definitions.graph.kind_runs import with_transform
from perdure.definitions.graph.node_scope import Iteration, NodeOutcome, NodeScope, Output, schema_problem
from perdure.definitions.graph.policy_checks import check_use
from perdure.definitions.graph.token_walk import Firing

FAILED_PORTS = ("rejected", "timeout")
"""The ports by which an item counts as failed: it was rejected, or its time was over."""


class EachRun:
    """A node that runs once for each item of a list, with bounded concurrency."""

    def __init__(self, run: GraphRun, verb_run: VerbRun) -> None:
        self.run, self.verb_run = run, verb_run
        each = verb_run.node.each
        assert each is not None
        self.each = each
        self.items: list[Any] = []
        self.results: dict[int, Output] = {}
        self.begun: dict[int, Path] = {}
        self.next = self.active = self.failed = 0
        self.is_over = False

    def begin(self) -> None:
        """Evaluates the list, and starts its first items."""
        kept = self.run.log.judged((*self.verb_run.path, ("items", 0)), self._items)
        if isinstance(kept, Failure):
            self.verb_run.then(kept)
            return
        self.items = [] if kept is None else values.decode(self.run.log.raw(kept.value), list[Any], "the items of", self.verb_run.path)
        if not self.items:
            self._end()
        for _ in range(min(self.each.concurrency or len(self.items), len(self.items))):
            self._refill()

    def _items(self) -> KeepOperation | None:
        found = self.run.evaluated(self.each.items, self.verb_run.names)
        if found is None and self.run.dialect_rules.each_over_null_is_empty:
            found = []
        if not isinstance(found, list):
            raise self.run.failure(f"each needs a list, found {_short_text(found)}")
        limit = self.each.max or self.run.plan.ir.limits.max_fanout
        if len(found) > limit:
            raise self.run.failure(f"each over {len(found):,} items, and at most {limit:,} are allowed", error_codes.EXCEEDED_MAX_FANOUT)
        if self.each.batch:
            found = [found[start : start + self.each.batch] for start in range(0, len(found), self.each.batch)]
        if len(found) < self.each.enough:
            raise self.run.failure(f"each has {len(found):,} items, fewer than the {self.each.enough:,} that have to succeed", error_codes.TOO_FEW_SUCCEEDED)
        return KeepOperation(values.encode(found, "the items of", self.verb_run.path), label="items") if found else None

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
        path = self.begun[position] = (*self.verb_run.path, position)
        self.run.log.receipts.begin(path)
        inside = VerbRun(self.verb_run.firing, path, self.verb_run.names.inside(given, apart=True), partial(self._told, position))
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
                self.verb_run.then(how)
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
            why = f"{self.failed:,} of {len(self.items):,} items failed, so {self.each.enough:,} of them can no longer succeed"
            self.verb_run.then(Failure("exhausted", 1, ErrorInfo(error_codes.TOO_FEW_SUCCEEDED, why)))
        elif self.next < len(self.items):
            self._refill()
        elif self.active == 0:
            self._end()

    def _is_failed_port(self, port: str) -> bool:
        """Returns whether an item that settled by this port counts as failed."""
        return port in FAILED_PORTS and not (port == "rejected" and self.verb_run.node.on_rejected == "go_on")

    def _stop(self, lost: bool = False) -> None:
        self.is_over = True
        self.run.log.drop_under(self.verb_run.path, lost)
        for path in self.begun.values():
            self.run.log.give_back(path)
            self.run.log.receipts.end(path)
        self.run.log.receipts.forget(self.verb_run.path)

    def _end(self) -> None:
        self.is_over = True
        output = Output.many([self.results[position] for position in sorted(self.results)])
        if output.size_bytes > VALUE_BYTES_MAX:
            too_large = TooLarge(f"the results of the items of {self.verb_run.node.id}", output.size_bytes, VALUE_BYTES_MAX)
            self.verb_run.then(Failure("fatal", 1, ErrorInfo(error_codes.TOO_LARGE, str(too_large))))
        else:
            self.verb_run.then(NodeOutcome("success", output))


class RepeatRun:
    """A node that repeats its verb in turns."""

    def __init__(self, run: GraphRun, verb_run: VerbRun) -> None:
        self.run, self.verb_run, self.turn = run, verb_run, 0
        repeat = verb_run.node.repeat
        assert repeat is not None
        self.repeat = repeat
        self.state: Any = None
        self.before = Output()
        self.names = verb_run.names.inside({}, turn=Iteration())

    def begin(self) -> None:
        """Begins the first turn."""
        if self.repeat.state is not None:
            kept = self.run.log.judged((*self.verb_run.path, ("state", 0)), self._state)
            if isinstance(kept, Failure):
                self.verb_run.then(kept)
                return
            self.state = None if kept is None else values.decode(self.run.log.raw(kept.value), Any, "the state of", self.verb_run.path)
        if self.repeat.max == 0 and resumes_later(self.run, self.verb_run.path):
            self.run.log.wait_for_iteration(self.verb_run.path, self._go_on)
        else:
            self._begin_turn()

    def _go_on(self, event: e.IterationResumedEvent) -> None:
        """Continues with the turn that a compacted log begins with."""
        self.turn, self.before = event.turn, restore_iteration(self.run, event, self.names)
        self.state = self.before.value if event.turn else self.state
        self._perform()

    def _state(self) -> KeepOperation:
        return KeepOperation(values.encode(self.run.evaluated(self.repeat.state, self.verb_run.names), "the state of", self.verb_run.path), label="state")

    def _names(self, **result: Any) -> NodeScope:
        """Returns the scope of a turn; after the turn, with its `result`."""
        loop = {"index": self.turn, "state": self.state}
        given = {"index": self.turn, "loop": loop, "state": self.state, "last_turn": self.before.value}
        return self.names.inside(given | ({"self": result["result"]} if result else {}))

    def _begin_turn(self) -> None:
        if self.repeat.max == 0:
            ids = [id for body in self.verb_run.node.bodies for id in self.run.plan.ids_in(body)]
            begin_endless_iteration(self.run, self.verb_run.path, self.turn, ids, self.names, self.before, repeat=self.repeat)
        self._perform()

    def _perform(self) -> None:
        path: Path = (*self.verb_run.path, self.turn)
        if self.names.turn is not None:
            self.run.begin_iteration(self.names.turn)
        if self.repeat.max == 0:  # an endless turn records its beginning at its own path
            path = (*path, (self.verb_run.node.id, 1))
        perform_once(self.run, VerbRun(self.verb_run.firing, path, self._names(), self._told))

    def _told(self, how: NodeOutcome | Failure) -> None:
        self.run.pass_by(self.names, self.run.plan.ids_below(self.verb_run.firing.place))
        if isinstance(how, Failure) or how.port == "timeout":
            self.verb_run.then(how)
            return
        path = (*self.verb_run.path, self.turn)
        self.run.judge((*path, ("again", 0)), self.repeat.again, self._names(result=how.output.value), partial(self._judged, how))

    def _judged(self, how: NodeOutcome, holds: bool | KeepOperation | Failure | None) -> None:
        """Decides whether to repeat. `holds` is the result of the condition, or its note on replay."""
        if isinstance(holds, Failure):
            self.verb_run.then(holds)
            return
        path = (*self.verb_run.path, self.turn, ("again", 0))
        if isinstance(holds, bool):
            again = holds != self.repeat.until
            port = "max" if self.repeat.max and self.turn + 1 >= self.repeat.max else "again"
            holds = self.run.log.note(path, KeepOperation(label="again", port=port)) if again else None
        if not isinstance(holds, KeepOperation):
            self.verb_run.then(how)
        elif holds.port == "max":
            self._exhausted(how)
        else:
            self._wait(how)

    def _exhausted(self, how: NodeOutcome) -> None:
        if self.repeat.on_max == "go_on":
            self.verb_run.then(NodeOutcome("max", how.output))
        else:
            why = f"the condition of repeat was not met within {self.repeat.max:,} iterations; raise `max`, or say `on_max: go_on`"
            self.verb_run.then(Failure("exhausted", 1, ErrorInfo(error_codes.REPEAT_EXHAUSTED, why)))

    def _wait(self, how: NodeOutcome) -> None:
        path, names = (*self.verb_run.path, self.turn, ("delay", 0)), self._names(result=how.output.value)
        self.turn, self.state, self.before = self.turn + 1, how.output.value, how.output
        if self.repeat.delay is None:
            self.run.works.append(self._begin_turn)
            return
        asked = self.run.log.attempted(path, lambda: SleepOperation(duration_seconds(self.run.evaluated(self.repeat.delay, names), "delay")))
        if isinstance(asked, Failure):
            self.verb_run.then(asked)
        else:
            self.run.log.wait(path, lambda _: self._begin_turn())


def begin_node(run: GraphRun, verb_run: VerbRun) -> None:
    """Begins a node that has fired: once for each item, or once."""
    if verb_run.node.each is not None:
        EachRun(run, verb_run).begin()
    else:
        begin_iterations(run, verb_run)


def begin_iterations(run: GraphRun, verb_run: VerbRun) -> None:
    """Begins a node, or one item of it; if it repeats, with its first turn."""
    if verb_run.node.repeat is not None:
        RepeatRun(run, verb_run).begin()
    else:
        perform_once(run, verb_run)


def perform_once(run: GraphRun, verb_run: VerbRun) -> None:
    """Performs the verb of a node once. Its result is transformed, checked against the schema of the node, and recorded if the node is undone as a whole."""
    node = verb_run.node
    if node.commit:
        verb_run = verb_run._replace(then=partial(_note_commit, run, verb_run))
    if node.undo is not None:
        run.undo_scopes[verb_run.path] = verb_run.names
        verb_run = verb_run._replace(then=partial(_note_undoable, run, verb_run))
    if node.schema is not None:
        verb_run = verb_run._replace(then=partial(_check_schema, run, verb_run))
    if node.transform is not None:
        verb_run = with_transform(run, verb_run)
    check_use(run, verb_run, lambda: run.perform_verb(verb_run))


def _check_schema(run: GraphRun, verb_run: VerbRun, how: NodeOutcome | Failure) -> None:
    """Passes on the outcome of a node, or a failure if its result does not fit the schema of the node."""
    if isinstance(how, Failure) or how.port in NOT_AFTER:
        verb_run.then(how)
        return
    result = how.output

    def fits() -> KeepOperation | None:
        if why := schema_problem(verb_run.node.schema, result.value):
            raise run.failure(f"the result of {verb_run.node.id} does not fit its schema: {why}", error_codes.BAD_RESULT)
        return None

    wrong = run.log.judged((*verb_run.path, ("schema", 0)), fits)
    verb_run.then(wrong if isinstance(wrong, Failure) else how)


def _note_undoable(run: GraphRun, verb_run: VerbRun, how: NodeOutcome | Failure) -> None:
    """Records that a node has completed that is undone as a whole. A node whose operation is itself undone needs no record."""
    if isinstance(how, NodeOutcome) and how.port not in NOT_AFTER:
        known = run.execution.settled.get(verb_run.path)
        is_undone_itself = known is not None and isinstance(known.op, CallOperation | SpawnOperation) and bool(known.op.undo)
        if not is_undone_itself:
            _ = run.log.note((*verb_run.path, UNDOABLE), KeepOperation(how.output.raw, "undoable"))
        if lies_in_endless_loop(run, verb_run.path):
            note_undo_arguments(run, verb_run.path, how.output)
    verb_run.then(how)


def _note_commit(run: GraphRun, verb_run: VerbRun, how: NodeOutcome | Failure) -> None:
    """Records that nothing done so far is undone any more."""
    if isinstance(how, NodeOutcome) and how.port not in NOT_AFTER:
        _ = run.log.note((*verb_run.path, ("commit", 0)), KeepOperation(role="commit"))
    verb_run.then(how)


def _short_text(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


ITERATIONS_KEPT = 1
"""The number of turns that are kept before the current one, unless the definition sets it."""


class IterationStart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The beginning of a turn: results by id (encoded, port, kind), variables, the value from the turn before, and the counts before the first turn.

    The value from the turn before is the result of a `repeat`, or the error that the token at the head of a cycle carried. `passed_by` are the steps that it
    did not reach.
    The limits of hops and steps hold for one turn of such a loop, not for all.
    """

    outputs: dict[str, tuple[bytes, str, str]]
    variables: bytes = ENCODED_NONE
    before: bytes = ENCODED_NONE
    hops: int = 0
    steps: int = 0
    passed_by: tuple[str, ...] = ()


def begin_endless_iteration(
    run: GraphRun, path: Path, turn: int, ids: Sequence[str], names: NodeScope, before: Output, *, repeat: RepeatOptions | None = None
) -> None:
    """Records the beginning of a turn, and forgets old turns."""
    keep = (0 if repeat is None else repeat.keep) or ITERATIONS_KEPT
    undo_before = turn - repeat.undo_keep if repeat is not None and repeat.undo_keep else 0
    hops, steps = run.counted.setdefault(path, (run.walk.hops, run.started_steps))
    run.walk.hops, run.started_steps = hops, steps

    def beginning() -> bytes:
        known = {id: names.outputs[id] for id in ids if id in names.outputs}
        outputs = {id: (output.raw, output.port, output.kind) for id, output in known.items()}
        variables = values.encode(run.roots.variables, "the variables")
        passed_by = () if names.turn is None else tuple(sorted(names.turn.passed_by))
        return values.encode(IterationStart(outputs, variables, before.raw, hops, steps, passed_by), "the state of loop", path)

    _ = run.log.note((*path, turn), KeepOperation(ENCODED_NONE if run.log.replaying else beginning(), "turn"))
    if turn > keep:
        run.log.trim(path, turn - keep, max(0, undo_before))
        _forget_undo_scopes(run, path, turn - keep)
        run.walk.forget()


def _forget_undo_scopes(run: GraphRun, path: Path, before: int) -> None:
    """Forgets the scopes of undos of steps in turns before this one."""
    depth, names = len(path), run.undo_scopes
    for one in [one for one in names if one[:depth] == path and len(one) > depth and isinstance(turn := one[depth], int) and turn < before]:
        del names[one]


def lies_in_endless_loop(run: GraphRun, path: Path) -> bool:
    """Returns whether a path is in a turn that may be forgotten."""
    return any(path[:end] in run.counted for end in range(1, len(path)))


def resumes_later(run: GraphRun, path: Path) -> bool:
    """Returns whether the log was compacted, so that the loop continues from a later turn."""
    return path in run.execution.resumes


def restore_iteration(run: GraphRun, event: e.IterationResumedEvent, names: NodeScope) -> Output:
    """Restores the beginning of a turn; returns the value from the turn before."""
    known: IterationStart = values.decode(run.log.raw(event.value), IterationStart, "the state of loop", event.path)
    for id, (raw, port, kind) in known.outputs.items():
        names.outputs[id] = Output(raw, port, kind)
    if names.turn is not None:
        names.turn.pass_by(known.passed_by)
    run.roots.variables = values.decode(known.variables, dict, "the variables") or {}
    run.counted[event.path] = run.walk.hops, run.started_steps = known.hops, known.steps
    run.walk.forget()
    return Output(known.before)


def holds_cycle_turn(run: GraphRun, firing: Firing, begin: Callable[[Firing], None]) -> bool:
    """Returns whether a turn of a cycle must not begin, because a compacted log continues from a later one. Otherwise records its beginning."""
    stay = firing.frame.stay
    if stay is None or firing.place.cycle != stay.region:
        return False
    if stay.turn == 0 and resumes_later(run, stay.path):  # even if only a patch has made the cycle endless
        run.log.wait_for_iteration(stay.path, lambda event: begin(_skip_turns(run, firing, event)))
        return True
    if run.plan.is_endless(stay.region):
        before = Output() if firing.error is None else Output.of(firing.error, "an error")
        begin_endless_iteration(run, stay.path, stay.turn, run.plan.ids_in(stay.region), _scope_of(firing), before)
    return False


def _skip_turns(run: GraphRun, firing: Firing, event: e.IterationResumedEvent) -> Firing:
    """Moves the first firing of a cycle to a later turn. Its frame and stay are others than when it began to wait, if a patch came in between."""
    stay = firing.frame.stay
    assert stay is not None
    firing.error = restore_iteration(run, event, _scope_of(firing)).value
    run.walk.skip_to(firing, stay, event.turn)
    return firing


def _scope_of(firing: Firing) -> NodeScope:
    names = firing.frame.scope
    assert isinstance(names, NodeScope)
    return names
