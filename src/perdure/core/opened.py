"""What is open: the operations that have not settled, how each stands, and which is due first.

How many some holder performs, wait for a person, or are in flight though nobody waits for them, is counted as it changes, so that asking costs nothing.
"""

from collections.abc import Set as AbstractSet

from perdure.core.ops import Call, Op, asks_a_person
from perdure.core.paths import UNDO, Path
from perdure.core.promise import Promise, State
from perdure.core.timers import Timers


class Opened:
    """The open operations by path, in the order of opening."""

    __slots__ = ("asked", "count", "in_grace", "open", "performed", "timers")

    def __init__(self) -> None:
        self.open: dict[Path, Promise] = {}
        self.count = 0
        self.performed = 0
        self.asked = 0
        self.in_grace = 0
        self.timers = Timers(self.open)

    def add(self, path: Path, op: Op, at_s: float, by: str | None = None, sent: int = 0) -> Promise:
        """Open an operation; `count` has its number."""
        promise = self.open[path] = Promise(path, op, self.count, at_s, by=by, sent=sent)
        self.asked += asks_a_person(op)
        return promise

    def remove(self, path: Path) -> Promise:
        """It is open no longer."""
        promise = self.open.pop(path)
        self.performed -= promise.state == "performing"
        self.asked -= asks_a_person(promise.op)
        self.in_grace -= promise.grace_until_s is not None
        return promise

    def clear(self) -> None:
        """None is open any more."""
        self.open.clear()
        self.performed = self.asked = self.in_grace = 0

    def stand(self, promise: Promise, state: State, by: str | None = None) -> None:
        """Let an operation be in another state."""
        self.performed += (state == "performing") - (promise.state == "performing")
        promise.state, promise.by = state, by

    def perform(self, promise: Promise, by: str | None, at_s: float) -> None:
        """A try begins: by a holder itself, or on a queue."""
        self.stand(promise, "waiting" if by is None else "performing", by)
        timeout_s = promise.op.timeout_s if isinstance(promise.op, Call) else None
        promise.until_s = None if timeout_s is None else at_s + timeout_s
        self.beat(promise, at_s)

    def beat(self, promise: Promise, at_s: float) -> None:
        """The present try is alive: it is due when its time is over, or when it has said nothing for too long."""
        silent_s = promise.op.heartbeat_s if isinstance(promise.op, Call) and promise.by is not None else None
        if promise.until_s is None and promise.grace_until_s is None and silent_s is None:
            self.timers.set(promise, None)
            return
        times_s = (promise.until_s, promise.grace_until_s, None if silent_s is None else at_s + silent_s)
        self.timers.set(promise, min((due_s for due_s in times_s if due_s is not None), default=None))

    def give_grace(self, promise: Promise, until_s: float) -> None:
        """Nobody waits for it any more, but the present try may be answered until then."""
        self.in_grace += promise.grace_until_s is None
        promise.grace_until_s = until_s
        promise.events += 1
        self.timers.set(promise, until_s if promise.due_s is None else min(promise.due_s, until_s))

    def cancelled(self) -> list[Promise]:
        """Those that nobody waits for any more, and that may still be answered."""
        return [promise for promise in self.open.values() if promise.grace_until_s is not None] if self.in_grace else []

    def wait_again(self, promise: Promise, state: State, due_s: float) -> None:
        """A try is over, and the next one is due later."""
        self.stand(promise, state)
        promise.events += 1
        self.timers.set(promise, due_s)

    def park(self, promise: Promise) -> None:
        """It is not tried again until somebody wants that."""
        self.stand(promise, "parked")
        self.timers.set(promise, None)

    def unpark(self, at_s: float) -> None:
        """What was parked is due, and its interruptions are counted anew; of what undoes something, its tries."""
        for promise in self.open.values():
            if promise.state == "parked":
                promise.state = "interrupted"
                promise.interruptions = 0
                promise.failures = 0 if promise.path[0] == UNDO else promise.failures
                self.timers.set(promise, at_s)

    def performing(self) -> list[Promise]:
        """Those that some holder performs itself, as far as is known."""
        return [promise for promise in self.open.values() if promise.state == "performing" and promise.by is not None]

    def due_first(self, busy: AbstractSet[Path] = frozenset(), young: AbstractSet[Path] = frozenset()) -> Promise | None:
        """The one that is due first, the one opened first among equals; neither a retry of what is still `busy`, nor a try that is `young`."""
        return self.timers.next(busy, young)
