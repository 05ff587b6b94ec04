"""Operations while they are open, in the order of opening and with their timers, and the record of each once it has settled.

The counts that the status of an execution depends on are kept up to date with each change, so that reading it costs the same however much is open.
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
    """An open operation. `attempt` numbers its attempts, interrupted ones included; `failures` counts those that failed.

    `by` is the holder that performs the present attempt itself. At `due_at_s` its timer is due. `events` counts its events in the log. The present attempt
    times out at `until_s`; `progress` is what it reported last. A dropped call may be answered until `grace_until_s`.
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
    due_at_s: float | None = None
    events: int = 1
    sent: int = 0
    until_s: float | None = None
    progress: Value = ENCODED_NONE
    grace_until_s: float | None = None

    @property
    def in_flight(self) -> bool:
        """Whether an attempt is being made or waits on its queue."""
        return self.state in ("waiting", "performing")


class SettledOperation(msgspec.Struct, frozen=True, gc=False):
    """A settled operation: its outcome, or the messages that it received, with the numbers of those that are completed.

    `attempt` counts the attempts that began; `events` its events in the log; `number` is its place in the order of opening.
    """

    op: Operation
    outcome: Outcome | None
    messages: tuple[ReceivedMessage, ...]
    opened_at_s: float
    at_s: float
    attempt: int
    events: int
    number: int = 0
    completed: tuple[int, ...] = ()


SPARE_TIMERS = 64
"""How many stale timers may stay in the heap before they are swept."""


class OperationTimers:
    """A heap of due times of the open operations `opened`. Each has one timer at most: the one set last.

    A stale entry stays in the heap until it comes up or is swept, because removing it from the middle would cost a search.
    """

    __slots__ = ("_heap", "_opened")

    def __init__(self, opened: Mapping[Path, PendingOperation]) -> None:
        self._opened = opened
        self._heap: list[tuple[float, int, Path]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, pending: PendingOperation, due_at_s: float | None) -> None:
        """Sets the timer of an operation, or with None removes it."""
        pending.due_at_s = due_at_s
        if due_at_s is None:
            return
        if len(self._heap) > SPARE_TIMERS + 2 * len(self._opened):  # most entries are stale; a sorted list is a heap
            self._heap = sorted((one.due_at_s, one.number, one.path) for one in self._opened.values() if one.due_at_s is not None and one is not pending)
        heappush(self._heap, (due_at_s, pending.number, pending.path))

    def next(self, busy: AbstractSet[Path], young: AbstractSet[Path] = frozenset()) -> PendingOperation | None:
        """Returns the operation that is due first, and among equals the one opened first; leaves out retries of `busy` paths and `young` attempts."""
        while self._heap:
            due_at_s, _, path = self._heap[0]
            pending = self._opened.get(path)
            if pending is None or pending.due_at_s != due_at_s:
                heappop(self._heap)
            elif path in (young if pending.state == "performing" else busy):
                return self._next_free(busy, young)
            else:
                return pending
        return None

    def _next_free(self, busy: AbstractSet[Path], young: AbstractSet[Path]) -> PendingOperation | None:
        free = [one for one in self._opened.values() if one.due_at_s is not None and one.path not in (young if one.state == "performing" else busy)]
        return min(free, key=lambda one: (one.due_at_s or 0.0, one.number), default=None)


class PendingOperations:
    """The open operations by path, in the order of opening.

    `count` counts all that were ever opened; `performed` those that a holder performs now; `asked` those that wait for an approval; `in_grace` those that
    were dropped and may still be answered.
    """

    __slots__ = ("asked", "count", "in_grace", "open", "performed", "timers")

    def __init__(self) -> None:
        self.open: dict[Path, PendingOperation] = {}
        self.count = 0
        self.performed = 0
        self.asked = 0
        self.in_grace = 0
        self.timers = OperationTimers(self.open)

    def add(self, path: Path, op: Operation, at_s: float, by: str | None = None, sent: int = 0) -> PendingOperation:
        """Adds an open operation, numbered `count`."""
        pending = self.open[path] = PendingOperation(path, op, self.count, at_s, by=by, sent=sent)
        self.asked += awaits_approval(op)
        return pending

    def remove(self, path: Path) -> PendingOperation:
        """Removes an operation that is no longer open."""
        pending = self.open.pop(path)
        if pending.state == "performing":
            self.performed -= 1
        if type(pending.op) is not CallOperation:
            self.asked -= awaits_approval(pending.op)
        if pending.grace_until_s is not None:
            self.in_grace -= 1
        return pending

    def clear(self) -> None:
        """Removes all operations."""
        self.open.clear()
        self.performed = self.asked = self.in_grace = 0

    def add_call(self, path: Path, op: CallOperation, at_s: float, by: str | None, sent: int) -> None:
        """Adds an open call, whose first attempt begins: performed by the holder `by`, or on a queue."""
        if op.timeout_s is not None or op.heartbeat_s is not None:
            self.perform(self.add(path, op, at_s, by, sent), by, at_s)
        elif by is None:
            self.open[path] = PendingOperation(path, op, self.count, at_s, sent=sent)
        else:
            self.open[path] = PendingOperation(path, op, self.count, at_s, "performing", by=by, sent=sent)
            self.performed += 1

    def set_state(self, pending: PendingOperation, state: PendingState, by: str | None = None) -> None:
        """Changes the state of an operation."""
        self.performed += (state == "performing") - (pending.state == "performing")
        pending.state, pending.by = state, by

    def perform(self, pending: PendingOperation, by: str | None, at_s: float) -> None:
        """Begins an attempt: performed by the holder `by`, or on a queue."""
        self.set_state(pending, "waiting" if by is None else "performing", by)
        timeout_s = pending.op.timeout_s if isinstance(pending.op, CallOperation) else None
        pending.until_s = None if timeout_s is None else at_s + timeout_s
        self.record_heartbeat(pending, at_s)

    def record_heartbeat(self, pending: PendingOperation, at_s: float) -> None:
        """Records a sign of life of the present attempt: it is due at its timeout, or when its heartbeat is overdue."""
        silent_s = pending.op.heartbeat_s if isinstance(pending.op, CallOperation) and pending.by is not None else None
        if pending.until_s is None and pending.grace_until_s is None and silent_s is None:
            self.timers.set(pending, None)
            return
        times_s = (pending.until_s, pending.grace_until_s, None if silent_s is None else at_s + silent_s)
        self.timers.set(pending, min((due_at_s for due_at_s in times_s if due_at_s is not None), default=None))

    def give_grace(self, pending: PendingOperation, until_s: float) -> None:
        """Keeps a dropped call open, so that its present attempt may be answered until then."""
        self.in_grace += pending.grace_until_s is None
        pending.grace_until_s = until_s
        pending.events += 1
        self.timers.set(pending, until_s if pending.due_at_s is None else min(pending.due_at_s, until_s))

    def cancelled(self) -> list[PendingOperation]:
        """Returns the dropped calls that may still be answered."""
        return [pending for pending in self.open.values() if pending.grace_until_s is not None] if self.in_grace else []

    def wait_again(self, pending: PendingOperation, state: PendingState, due_at_s: float) -> None:
        """Ends an attempt; the next one is due later."""
        self.set_state(pending, state)
        pending.events += 1
        self.timers.set(pending, due_at_s)

    def park(self, pending: PendingOperation) -> None:
        """Parks an operation: it is not attempted again until the execution is resumed."""
        self.set_state(pending, "parked")
        self.timers.set(pending, None)

    def unpark(self, at_s: float) -> None:
        """Makes parked operations due, and counts their interruptions anew; for undo handlers also their failures."""
        for pending in self.open.values():
            if pending.state == "parked":
                pending.state = "interrupted"
                pending.interruptions = 0
                pending.failures = 0 if pending.path[0] == UNDO else pending.failures
                self.timers.set(pending, at_s)

    def performing(self) -> list[PendingOperation]:
        """Returns the calls that a holder performs itself, as far as the log says."""
        return [pending for pending in self.open.values() if pending.state == "performing" and pending.by is not None]

    def due_first(self, busy: AbstractSet[Path] = frozenset(), young: AbstractSet[Path] = frozenset()) -> PendingOperation | None:
        """Returns the operation that is due first, and among equals the one opened first; see `DecisionContext` for `busy` and `young`."""
        return self.timers.next(busy, young)
