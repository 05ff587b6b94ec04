"""Promises: an operation while it is open, and what is kept of it once it has settled.

Timers: which open operation is due first. An operation has one timer at most, and the latest one set counts.

What is open: the operations that have not settled, how each stands, and which is due first.

How many some holder performs, wait for a person, or are in flight though nobody waits for them, is counted as it changes, so that asking costs nothing.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from typing import Literal

import msgspec

from perdure.core.mailbox import ReceivedMessage
from perdure.core.operations import CallOperation, Operation, Outcome, awaits_approval
from perdure.core.paths import UNDO, Path
from perdure.core.values import ENCODED_NONE, Value

PendingState = Literal["waiting", "performing", "retrying", "interrupted", "parked"]


class PendingOperation(msgspec.Struct, gc=False):
    """An open operation. `attempt` numbers its tries, interrupted ones included; `failures` counts those that failed.

    `by` is the holder that performs the present try itself; at `due_s` time alone makes it go on; `events` counts what it takes in the log. The present
    try has until `until_s`; `progress` is what was said last of how far it is. One that nobody waits for any more may be answered until `grace_until_s`.
    """

    path: Path
    op: Operation
    number: int
    opened_at_s: float
    state: PendingState = "waiting"
    attempt: int = 1
    failures: int = 0
    interruptions: int = 0
    by: str | None = None
    due_s: float | None = None
    events: int = 1
    sent: int = 0
    until_s: float | None = None
    progress: Value = ENCODED_NONE
    grace_until_s: float | None = None

    @property
    def in_flight(self) -> bool:
        """Whether a try is being made, or waits on its queue."""
        return self.state in ("waiting", "performing")


class SettledOperation(msgspec.Struct, frozen=True, gc=False):
    """A settled operation: its outcome, or the messages that it received, with the numbers of those that were completed since.

    `attempt` counts the tries that were begun; `events` what it takes in the log; `number` is its place in the order of opening.
    """

    op: Operation
    outcome: Outcome | None
    letters: tuple[ReceivedMessage, ...]
    opened_at_s: float
    at_s: float
    attempt: int
    events: int
    number: int = 0
    completed: tuple[int, ...] = ()


SPARE_TIMERS = 64
"""How many timers of what is over are kept before they are swept."""


class OperationTimers:
    """A heap of due times over the open operations, `opened`. What is over stays in it until it comes up, or is swept."""

    __slots__ = ("_heap", "_opened")

    def __init__(self, opened: Mapping[Path, PendingOperation]) -> None:
        self._opened = opened
        self._heap: list[tuple[float, int, Path]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, pending: PendingOperation, due_s: float | None) -> None:
        """Let `promise` be due at this time, or at none."""
        pending.due_s = due_s
        if due_s is None:
            return
        if len(self._heap) > SPARE_TIMERS + 2 * len(self._opened):  # most are of what has settled; a sorted list is a heap
            self._heap = sorted((one.due_s, one.number, one.path) for one in self._opened.values() if one.due_s is not None and one is not pending)
        heappush(self._heap, (due_s, pending.number, pending.path))

    def next(self, busy: AbstractSet[Path], young: AbstractSet[Path] = frozenset()) -> PendingOperation | None:
        """The operation that is due first, the one opened first among equals; neither a retry of what is still `busy`, nor a try that is `young`."""
        while self._heap:
            due_s, _, path = self._heap[0]
            pending = self._opened.get(path)
            if pending is None or pending.due_s != due_s:
                heappop(self._heap)
            elif path in (young if pending.state == "performing" else busy):
                return self._next_free(busy, young)
            else:
                return pending
        return None

    def _next_free(self, busy: AbstractSet[Path], young: AbstractSet[Path]) -> PendingOperation | None:
        free = [one for one in self._opened.values() if one.due_s is not None and one.path not in (young if one.state == "performing" else busy)]
        return min(free, key=lambda one: (one.due_s or 0.0, one.number), default=None)


class PendingOperations:
    """The open operations by path, in the order of opening."""

    __slots__ = ("asked", "count", "in_grace", "open", "performed", "timers")

    def __init__(self) -> None:
        self.open: dict[Path, PendingOperation] = {}
        self.count = 0
        self.performed = 0
        self.asked = 0
        self.in_grace = 0
        self.timers = OperationTimers(self.open)

    def add(self, path: Path, op: Operation, at_s: float, by: str | None = None, sent: int = 0) -> PendingOperation:
        """Open an operation; `count` has its number."""
        pending = self.open[path] = PendingOperation(path, op, self.count, at_s, by=by, sent=sent)
        self.asked += awaits_approval(op)
        return pending

    def remove(self, path: Path) -> PendingOperation:
        """It is open no longer."""
        pending = self.open.pop(path)
        self.performed -= pending.state == "performing"
        self.asked -= awaits_approval(pending.op)
        self.in_grace -= pending.grace_until_s is not None
        return pending

    def clear(self) -> None:
        """None is open any more."""
        self.open.clear()
        self.performed = self.asked = self.in_grace = 0

    def stand(self, pending: PendingOperation, state: PendingState, by: str | None = None) -> None:
        """Let an operation be in another state."""
        self.performed += (state == "performing") - (pending.state == "performing")
        pending.state, pending.by = state, by

    def perform(self, pending: PendingOperation, by: str | None, at_s: float) -> None:
        """A try begins: by a holder itself, or on a queue."""
        self.stand(pending, "waiting" if by is None else "performing", by)
        timeout_s = pending.op.timeout_s if isinstance(pending.op, CallOperation) else None
        pending.until_s = None if timeout_s is None else at_s + timeout_s
        self.beat(pending, at_s)

    def beat(self, pending: PendingOperation, at_s: float) -> None:
        """The present try is alive: it is due when its time is over, or when it has said nothing for too long."""
        silent_s = pending.op.heartbeat_s if isinstance(pending.op, CallOperation) and pending.by is not None else None
        if pending.until_s is None and pending.grace_until_s is None and silent_s is None:
            self.timers.set(pending, None)
            return
        times_s = (pending.until_s, pending.grace_until_s, None if silent_s is None else at_s + silent_s)
        self.timers.set(pending, min((due_s for due_s in times_s if due_s is not None), default=None))

    def give_grace(self, pending: PendingOperation, until_s: float) -> None:
        """Nobody waits for it any more, but the present try may be answered until then."""
        self.in_grace += pending.grace_until_s is None
        pending.grace_until_s = until_s
        pending.events += 1
        self.timers.set(pending, until_s if pending.due_s is None else min(pending.due_s, until_s))

    def cancelled(self) -> list[PendingOperation]:
        """Those that nobody waits for any more, and that may still be answered."""
        return [pending for pending in self.open.values() if pending.grace_until_s is not None] if self.in_grace else []

    def wait_again(self, pending: PendingOperation, state: PendingState, due_s: float) -> None:
        """A try is over, and the next one is due later."""
        self.stand(pending, state)
        pending.events += 1
        self.timers.set(pending, due_s)

    def park(self, pending: PendingOperation) -> None:
        """It is not tried again until somebody wants that."""
        self.stand(pending, "parked")
        self.timers.set(pending, None)

    def unpark(self, at_s: float) -> None:
        """What was parked is due, and its interruptions are counted anew; of what undoes something, its tries."""
        for pending in self.open.values():
            if pending.state == "parked":
                pending.state = "interrupted"
                pending.interruptions = 0
                pending.failures = 0 if pending.path[0] == UNDO else pending.failures
                self.timers.set(pending, at_s)

    def performing(self) -> list[PendingOperation]:
        """Those that some holder performs itself, as far as is known."""
        return [pending for pending in self.open.values() if pending.state == "performing" and pending.by is not None]

    def due_first(self, busy: AbstractSet[Path] = frozenset(), young: AbstractSet[Path] = frozenset()) -> PendingOperation | None:
        """The one that is due first, the one opened first among equals; neither a retry of what is still `busy`, nor a try that is `young`."""
        return self.timers.next(busy, young)
