"""The waiting lines and limited queues of the memory store.

A waiting line orders what is ready as an index does in other stores. A limited queue knows when each of its lanes was served last, and decides what
a claim gets from it.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from math import inf
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

from perdure.core.envelopes import QueuedMessage
from perdure.core.paths import Address, Key, QueueAddress
from perdure.stores.fairness import LANE_MEMORY_S, Candidate, QueueState, choose_candidates, next_lane_turn, next_start_at, rate_used_until, starts_allowed
from perdure.stores.protocol import UNLIMITED, Claim, Head, QueueLimits, QueueStatus

T = TypeVar("T")

LimitedPart = tuple[str, str | None]
"""The part of a queue that limits are for: that of a tenant, or (None) of all tenants that have no limits of their own in it."""

NO_TIME = -inf
"""The place in line of a held execution without a wake-up time: before all others if its holder dies."""


def ready_at_s(head: Head) -> float | None:
    """Returns the time that an execution waits for: `NO_TIME` if it is held and waits for no time, None if it waits for nothing."""
    if head.wake_at_s is not None and head.message_at_s is not None:
        return min(head.wake_at_s, head.message_at_s)
    at_s = head.wake_at_s if head.message_at_s is None else head.message_at_s
    return at_s if at_s is not None or head.holder is None else NO_TIME


def line_position(head: Head) -> tuple[str | None, str, float] | None:
    """Returns the place of an execution in the waiting lines: holder, program and time. None if it waits for nothing."""
    at_s = ready_at_s(head)
    return None if at_s is None else (head.holder, head.program, at_s)


class WaitingLines(Generic[T]):
    """Things that wait, in one line for each holder (None: no holder) and name, ordered by the time they wait for, then by number."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, str], list[tuple[float, int, T]]] = {}

    def join(self, holder: str | None, name: str, at_s: float, number: int, thing: T) -> None:
        """Adds `thing` to the line of `holder` and `name`. Its number is unique."""
        insort(self._lines.setdefault((holder, name), []), (at_s, number, thing))

    def leave(self, holder: str | None, name: str, at_s: float, number: int) -> None:
        """Removes what was added with these arguments."""
        line = self._lines[holder, name]
        del line[bisect_left(line, (at_s, number), key=itemgetter(0, 1))]
        if not line:
            del self._lines[holder, name]

    def held(self, holder: str) -> list[T]:
        """Returns everything in the lines of `holder`."""
        return [thing for (other, _), line in self._lines.items() if other == holder for _, _, thing in line]

    def holders(self) -> set[str]:
        """Returns all that hold anything."""
        return {holder for holder, _ in self._lines if holder is not None}

    def next(self, names: Container[str], claimer: str | None) -> float | None:
        """Returns when the first thing under `names` becomes due that is free or held by `claimer`; None if nothing waits for a time."""
        lines = (line for (holder, name), line in self._lines.items() if name in names and holder in (None, claimer))
        return min((at_s for line in lines for at_s, _, _ in line[bisect_right(line, NO_TIME, key=itemgetter(0)) :][:1]), default=None)

    def waiting(self, names: Container[str], claimer: str | None) -> Iterator[T]:
        """Yields what waits for a time under `names` and is free or held by `claimer`, line by line."""
        for (holder, name), line in self._lines.items():
            if name in names and holder in (None, claimer):
                yield from (thing for _, _, thing in islice(line, bisect_right(line, NO_TIME, key=itemgetter(0)), None))

    def ready(self, names: Container[str], claimer: str | None, now_s: float) -> Iterator[T]:
        """Yields what is ready under `names`, longest waiting first: due, and free or held by `claimer`."""
        lines: list[Iterator[tuple[float, int, T]]] = []
        for (holder, name), line in self._lines.items():
            if name in names and holder in (None, claimer):
                lines.append(islice(line, bisect_right(line, NO_TIME, key=itemgetter(0)), bisect_right(line, now_s, key=itemgetter(0))))
        return (thing for _, _, thing in merge(*lines))


class HeadHolder(Protocol):
    """An execution of the store, as its queues see it."""

    head: Head
    number: int


MemoryQueuesT = TypeVar("MemoryQueuesT", bound=HeadHolder)


class _LaneRecord:
    """The time at which each lane was served last, and until when the rate is used up."""

    __slots__ = ("free_at_s", "lanes")

    def __init__(self) -> None:
        self.lanes: dict[str, float] = {}
        self.free_at_s = 0.0


class _LimitedQueue:
    """A queue that has limits, or a tenant's part of it."""

    __slots__ = ("executions", "limits", "turn", "work")

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.turn = 0.0
        self.executions, self.work = _LaneRecord(), _LaneRecord()

    def serve(self, served: _LaneRecord, lane: str, fresh: bool, now_s: float) -> None:
        """Records that something of a lane was handed over."""
        self.turn = next_lane_turn(self.turn, now_s)
        served.lanes.pop(lane, None)  # the dict stays in order of turns, so the oldest lanes come first
        served.lanes[lane] = self.turn
        for oldest in tuple(islice(served.lanes, 2)):
            if served.lanes[oldest] < now_s - LANE_MEMORY_S:
                del served.lanes[oldest]
        served.free_at_s = rate_used_until(self.limits, served.free_at_s, now_s, int(fresh))

    def state(self, served: _LaneRecord, held: Mapping[str, int]) -> QueueState:
        """Returns the state that `choose_candidates` needs."""
        return QueueState(self.limits, held, served.lanes, served.free_at_s)

    def next(self, served: _LaneRecord, times_s: Iterable[tuple[float, bool]], now_s: float) -> Iterator[float]:
        """Yields the times at which the queue may hand over more although nothing changes: when something becomes due, and when its rate allows another start.

        `times_s` holds the due time of each thing that waits, and whether it is fresh.
        """
        for at_s, fresh in times_s:
            if at_s > now_s:
                yield at_s
            elif fresh and starts_allowed(self.limits, served.free_at_s, now_s) < 1:
                yield next_start_at(self.limits, served.free_at_s)


class MemoryQueues:
    """The queues that have limits."""

    def __init__(
        self,
        executions: Mapping[Key, HeadHolder],
        message: Mapping[Address, Mapping[str, QueuedMessage]],
        leases: Mapping[int, str],
        lives: Callable[[str | None], bool],
    ) -> None:
        self._queues: dict[LimitedPart, _LimitedQueue] = {}
        self._executions, self._messages, self._leases, self._lives = executions, message, leases, lives

    def limit(self, name: str, limits: QueueLimits | None, tenant: str | None) -> None:
        """Sets the limits of a queue; None removes them."""
        part = name, tenant
        if limits is None:
            self._queues.pop(part, None)
        elif part in self._queues:
            self._queues[part].limits = limits
        else:
            self._queues[part] = _LimitedQueue(limits)

    def limits_of(self, part: LimitedPart) -> QueueLimits | None:
        """Returns the limits of a part of a queue; None if it has none of its own."""
        queue = self._queues.get(part)
        return None if queue is None else queue.limits

    def limited(self) -> list[LimitedPart]:
        """Returns what has limits."""
        return [*self._queues]

    def has_limits(self, head: Head) -> bool:
        """Whether limits apply to an execution."""
        return self._part_of(head) is not None

    def __bool__(self) -> bool:
        return bool(self._queues)

    def _part(self, name: str, tenant: str) -> LimitedPart | None:
        """Returns the part of a queue whose limits apply to a tenant, if there are any."""
        return next((part for part in ((name, tenant), (name, None)) if part in self._queues), None)

    def _part_of(self, head: Head) -> LimitedPart | None:
        return self._part(head.queue, head.key.tenant) if head.queue else None  # most executions are in no queue

    def _part_of_work(self, work: QueuedMessage) -> LimitedPart | None:
        to = work.to
        assert isinstance(to, QueueAddress), "only work is leased"
        return self._part(to.name, to.tenant)

    def statuses(self, now_s: float) -> list[QueueStatus]:
        """See `Store.queues`."""
        names = {one.head.queue for one in self._executions.values() if one.head.queue} | {to.name for to in self._messages if isinstance(to, QueueAddress)}
        parts = {*self._queues, *((name, None) for name in (*names, *(name for name, _ in self._queues)))}
        return [self._status(part, now_s) for part in sorted(parts, key=lambda part: (part[0], part[1] is not None, part[1]))]

    def _status(self, part: LimitedPart, now_s: float) -> QueueStatus:
        free = [head for head in self._heads(part) if not self._lives(head.holder)]
        waiting = sum(head.holder is not None or ((at_s := ready_at_s(head)) is not None and at_s <= now_s) for head in free)
        executions, leased, work = self._held(part).total(), self._leased(part).total(), self._work(part)
        oldest_at_s = min((one.due_at_s for one in work if one.number not in self._leases and one.due_at_s <= now_s), default=None)
        return QueueStatus(part[0], self.limits_of(part) or UNLIMITED, executions, leased, waiting, len(work) - leased, part[1], oldest_at_s)

    def _heads(self, part: LimitedPart) -> list[Head]:
        """Returns the executions of a part of a queue."""
        name, tenant = part
        heads = (one.head for one in self._executions.values() if one.head.queue == name != "")
        return [head for head in heads if (head.key.tenant if (name, head.key.tenant) in self._queues else None) == tenant]

    def _work(self, part: LimitedPart) -> list[QueuedMessage]:
        """Returns the tasks of a part of a queue."""
        name, tenant = part
        boxes = ((to, box) for to, box in self._messages.items() if isinstance(to, QueueAddress) and to.name == name)
        return [message for to, box in boxes if (to.tenant if (name, to.tenant) in self._queues else None) == tenant for message in box.values()]

    def _held(self, part: LimitedPart) -> Counter[str]:
        """Counts the executions of a part of a queue that live holders hold, by lane."""
        return Counter(head.lane for head in self._heads(part) if self._lives(head.holder))

    def _leased(self, part: LimitedPart) -> Counter[str]:
        """Counts the tasks of a part of a queue that live holders lease, by lane."""
        return Counter(message.lane for message in self._work(part) if self._lives(self._leases.get(message.number)))

    def executions(self, ready: Iterator[MemoryQueuesT], claim: Claim, now_s: float) -> Iterable[MemoryQueuesT]:
        """Returns the ready executions that the queues allow, in order. The limits do not apply to what the claimer holds already."""
        if not self._queues:
            return ready
        found = list(ready)
        free = [one for one in found if one.head.holder == claim.holder or self._part_of(one.head) is None]
        for part, queue in self._queues.items():
            waiting = {one.number: one for one in found if self._part_of(one.head) == part and one.head.holder != claim.holder}
            candidates = [Candidate(number, one.head.lane, one.head.priority, ready_time(one.head), one.head.version == 0) for number, one in waiting.items()]
            chosen = choose_candidates(queue.state(queue.executions, self._held(part)), candidates, now_s, claim.limit)
            free += [waiting[one.number] for one in chosen]
        return sorted(free, key=lambda one: (ready_time(one.head), one.number))

    def work(self, ready: Iterator[QueuedMessage], claim: Claim, now_s: float) -> Iterable[QueuedMessage]:
        """Returns the ready tasks that the queues allow, in order."""
        if not self._queues:
            return ready
        found = list(ready)
        free = [one for one in found if self._part_of_work(one) is None]
        for part, queue in self._queues.items():
            waiting = {one.number: one for one in found if self._part_of_work(one) == part}
            candidates = [Candidate(number, one.lane, one.priority, one.due_at_s, one.deliveries == 0) for number, one in waiting.items()]
            chosen = choose_candidates(queue.state(queue.work, self._leased(part)), candidates, now_s, claim.limit)
            free += [waiting[one.number] for one in chosen]
        return sorted(free, key=lambda one: (one.due_at_s, one.number))

    def begin(self, heads: Sequence[Head], work: Sequence[QueuedMessage], now_s: float) -> None:
        """Records the executions and tasks that are handed over and were not held by the claimer before."""
        if not self._queues:
            return
        for head in heads:
            if (part := self._part_of(head)) is not None:
                queue = self._queues[part]
                queue.serve(queue.executions, head.lane, head.version == 0, now_s)
        for message in work:
            if (part := self._part_of_work(message)) is not None:
                queue = self._queues[part]
                queue.serve(queue.work, message.lane, message.deliveries == 0, now_s)

    def next_execution(self, waiting: Iterable[HeadHolder], claim: Claim, now_s: float) -> float | None:
        """Returns when the first of these executions could be handed over, as far as that depends on time."""
        heads = (one.head for one in waiting)
        found = [(None if head.holder == claim.holder else self._part_of(head), ready_time(head), head.version == 0) for head in heads]
        return self._next(found, "executions", now_s)

    def next_work(self, waiting: Iterable[QueuedMessage], now_s: float) -> float | None:
        """Returns when the first of these tasks could be handed over, as far as that depends on time."""
        return self._next([(self._part_of_work(one), one.due_at_s, one.deliveries == 0) for one in waiting], "work", now_s)

    def _next(self, waiting: Iterable[tuple[LimitedPart | None, float, bool]], what: str, now_s: float) -> float | None:
        plain: float | None = None
        limited: dict[LimitedPart, list[tuple[float, bool]]] = {}
        for part, at_s, fresh in waiting:
            if part is not None:
                limited.setdefault(part, []).append((at_s, fresh))
            else:
                plain = at_s if plain is None else min(plain, at_s)
        times_s = [at_s for part, found in limited.items() for at_s in self._queues[part].next(getattr(self._queues[part], what), found, now_s)]
        return min((*times_s, *(() if plain is None else (plain,))), default=None)


def ready_time(head: Head) -> float:
    """Returns the time since when an execution waits, as a number that compares."""
    at_s = ready_at_s(head)
    return NO_TIME if at_s is None else at_s
