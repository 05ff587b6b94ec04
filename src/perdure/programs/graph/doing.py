"""Doing: a node once it has fired. Each of a list, turn by turn, and the verb at the bottom; every way ends by telling how it went.

What an expression decided is remembered beside what it is about, under names of Perdure's own (``~items``, ``~again``), so a replay
evaluates nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.core import events as e
from perdure.core import values
from perdure.core.errors import ErrorInfo, TooLarge
from perdure.core.limits import VALUE_BYTES_MAX
from perdure.core.ops import Call, Err, Keep, Sleep, Spawn
from perdure.core.paths import Path
from perdure.core.undo import UNDOABLE
from perdure.programs.code.durations import seconds
from perdure.programs.graph.ir import NOT_AFTER
from perdure.programs.graph.names import Done, Names, Output, Turn, unfit
from perdure.programs.graph.walk import Firing

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance
    from perdure.programs.graph.ir import Node


Then = Callable[[Done | Err], None]


IN_VAIN = ("rejected", "timeout")
"""The ports by which an item counts as failed: a person said no, or the time was over."""


class Doing(NamedTuple):
    """One time that the verb of a node is done: for which firing, at which path, what it may read, and who is told how it went."""

    firing: Firing
    path: Path
    names: Names
    then: Then

    @property
    def node(self) -> "Node":
        """The node."""
        return self.firing.place.node


class Eaching:
    """A node done once for each of a list, so many at a time."""

    def __init__(self, run: "Instance", doing: Doing) -> None:
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
        if isinstance(kept, Err):
            self.doing.then(kept)
            return
        self.items = [] if kept is None else values.decode(self.run.log.raw(kept.value), list[Any], "the items of", self.doing.path)
        if not self.items:
            self._end()
        for _ in range(min(self.each.concurrency or len(self.items), len(self.items))):
            self._refill()

    def _items(self) -> Keep | None:
        found = self.run.evaluated(self.each.items, self.doing.names)
        if found is None and self.run.dialect in ("000", "003"):
            found = []
        if not isinstance(found, list):
            raise self.run.failure(f"each over {_short(found)}, which is no list")
        limit = self.each.max or self.run.plan.ir.limits.max_fanout
        if len(found) > limit:
            raise self.run.failure(f"each over {len(found):,} items, and at most {limit:,} are allowed", "exceeded_max_fanout")
        if self.each.batch:
            found = [found[start : start + self.each.batch] for start in range(0, len(found), self.each.batch)]
        if len(found) < self.each.enough:
            raise self.run.failure(f"each over {len(found):,} items, {self.each.enough:,} of which are to succeed", "NotEnough")
        return Keep(values.encode(found, "the items of", self.doing.path), label="items") if found else None

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
        inside = Doing(self.doing.firing, path, self.doing.names.inside(given, apart=True), partial(self._told, position))
        turns(self.run, inside)

    def _told(self, position: int, how: Done | Err) -> None:
        if self.is_over:
            return
        self.active -= 1
        self.run.log.receipts.end(self.begun.pop(position))
        if isinstance(how, Err) or self._is_in_vain(how.port):
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
            self.doing.then(Err("exhausted", 1, ErrorInfo("NotEnough", why)))
        elif self.next < len(self.items):
            self._refill()
        elif self.active == 0:
            self._end()

    def _is_in_vain(self, port: str) -> bool:
        """Whether an item that was left by this port counts as failed."""
        return port in IN_VAIN and not (port == "rejected" and self.doing.node.on_rejected == "go_on")

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
            self.doing.then(Err("fatal", 1, ErrorInfo("TooLarge", str(too_large))))
        else:
            self.doing.then(Done("success", output))


class Repeating:
    """A node done turn by turn."""

    def __init__(self, run: "Instance", doing: Doing) -> None:
        self.run, self.doing, self.turn = run, doing, 0
        repeat = doing.node.repeat
        assert repeat is not None
        self.repeat = repeat
        self.state: Any = None
        self.before = Output()
        self.names = doing.names.inside({}, turn=Turn())

    def begin(self) -> None:
        """Begin the first turn."""
        if self.repeat.state is not None:
            kept = self.run.log.judged((*self.doing.path, ("state", 0)), self._state)
            if isinstance(kept, Err):
                self.doing.then(kept)
                return
            self.state = None if kept is None else values.decode(self.run.log.raw(kept.value), Any, "the state of", self.doing.path)
        if self.repeat.max == 0 and self.run.endless.resumes(self.doing.path):
            self.run.log.wait_for_turn(self.doing.path, self._go_on)
        else:
            self._begin_turn()

    def _go_on(self, event: e.Turned) -> None:
        """Go on with the turn with which a compacted log begins."""
        self.turn, self.before = event.turn, self.run.endless.restored(event, self.names)
        self.state = self.before.value if event.turn else self.state
        self._perform()

    def _state(self) -> Keep:
        return Keep(values.encode(self.run.evaluated(self.repeat.state, self.doing.names), "the state of", self.doing.path), label="state")

    def _names(self, **result: Any) -> Names:
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
        perform(self.run, Doing(self.doing.firing, path, self._names(), self._told))

    def _told(self, how: Done | Err) -> None:
        self.run.pass_by(self.names, self.run.plan.ids_below(self.doing.firing.place))
        if isinstance(how, Err) or how.port == "timeout":
            self.doing.then(how)
            return
        path = (*self.doing.path, self.turn)
        self.run.judge((*path, ("again", 0)), self.repeat.again, self._names(result=how.output.value), partial(self._judged, how))

    def _judged(self, how: Done, holds: bool | Keep | Err | None) -> None:
        """Go on or not: `holds` is what was judged now, or the note of it in a replay."""
        if isinstance(holds, Err):
            self.doing.then(holds)
            return
        path = (*self.doing.path, self.turn, ("again", 0))
        if isinstance(holds, bool):
            again = holds != self.repeat.until
            port = "max" if self.repeat.max and self.turn + 1 >= self.repeat.max else "again"
            holds = self.run.log.note(path, Keep(label="again", port=port)) if again else None
        if not isinstance(holds, Keep):
            self.doing.then(how)
        elif holds.port == "max":
            self._exhausted(how)
        else:
            self._wait(how)

    def _exhausted(self, how: Done) -> None:
        if self.repeat.on_max == "go_on":
            self.doing.then(Done("max", how.output))
        else:
            why = f"after {self.repeat.max:,} turns, what was to be waited for has not come"
            self.doing.then(Err("exhausted", 1, ErrorInfo("RepeatExhausted", why)))

    def _wait(self, how: Done) -> None:
        path, names = (*self.doing.path, self.turn, ("delay", 0)), self._names(result=how.output.value)
        self.turn, self.state, self.before = self.turn + 1, how.output.value, how.output
        if self.repeat.delay is None:
            self.run.works.append(self._begin_turn)
            return
        asked = self.run.log.attempted(path, lambda: Sleep(seconds(self.run.evaluated(self.repeat.delay, names), "delay")))
        if isinstance(asked, Err):
            self.doing.then(asked)
        else:
            self.run.log.wait(path, lambda _: self._begin_turn())


def begin(run: "Instance", doing: Doing) -> None:
    """Do a node that has fired, all of it."""
    if doing.node.each is not None:
        Eaching(run, doing).begin()
    else:
        turns(run, doing)


def turns(run: "Instance", doing: Doing) -> None:
    """Do a node, or one item of it, turn by turn if it repeats."""
    if doing.node.repeat is not None:
        Repeating(run, doing).begin()
    else:
        perform(run, doing)


def perform(run: "Instance", doing: Doing) -> None:
    """Do the verb of a node once. What it comes to is made over, held against the schema of the node, and noted if it is undone as a whole."""
    node = doing.node
    if node.commit:
        doing = doing._replace(then=partial(_committed, run, doing))
    if node.undo is not None:
        run.undo_names[doing.path] = doing.names
        doing = doing._replace(then=partial(_completed, run, doing))
    if node.schema is not None:
        doing = doing._replace(then=partial(_checked, run, doing))
    if node.transform is not None:
        from perdure.programs.graph.transforming import transformed  # here, as it does nodes again

        doing = transformed(run, doing)
    from perdure.programs.graph.guarding import use  # here, as it has people asked, which takes a workflow

    use(run, doing, lambda: run.verbs.get(doing.node.kind, run.verbs[""])(run, doing))


def _checked(run: "Instance", doing: Doing, how: Done | Err) -> None:
    """Tell what a node has come to, unless it does not fit the schema of the node."""
    if isinstance(how, Err) or how.port in NOT_AFTER:
        doing.then(how)
        return
    result = how.output

    def fits() -> Keep | None:
        if why := unfit(doing.node.schema, result.value):
            raise run.failure(f"the result of {doing.node.id} does not fit its schema: {why}", "BadResult")
        return None

    wrong = run.log.judged((*doing.path, ("schema", 0)), fits)
    doing.then(wrong if isinstance(wrong, Err) else how)


def _completed(run: "Instance", doing: Doing, how: Done | Err) -> None:
    """Note that a node has completed that is undone as a whole: all but those whose operation is itself undone."""
    if isinstance(how, Done) and how.port not in NOT_AFTER:
        known = run.execution.settled.get(doing.path)
        is_undone_itself = known is not None and isinstance(known.op, Call | Spawn) and bool(known.op.undo)
        if not is_undone_itself:
            _ = run.log.note((*doing.path, UNDOABLE), Keep(how.output.raw, "undoable"))
        if run.endless.holds_turn(doing.path):
            run.ending.note_undoing(doing.path, how.output)
    doing.then(how)


def _committed(run: "Instance", doing: Doing, how: Done | Err) -> None:
    """Note that nothing done up to now is undone any more."""
    if isinstance(how, Done) and how.port not in NOT_AFTER:
        _ = run.log.note((*doing.path, ("commit", 0)), Keep(role="commit"))
    doing.then(how)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
