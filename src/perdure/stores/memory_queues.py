"""The queues of the memory store: which have limits, how far each has served its lanes, and what a claim may have of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from perdure.core.mail import Mail
from perdure.core.paths import Address, Key, Queue
from perdure.stores.base import UNLIMITED, Claim, Head, Limits, QueueStand
from perdure.stores.fairness import SERVED_S, Candidate, Stand, allowed, choose, next_free_at, next_turn, used
from perdure.stores.lines import NO_TIME, ready_at_s


class HasHead(Protocol):
    """An execution of the store."""

    head: Head
    number: int


T = TypeVar("T", bound=HasHead)


class _Served:
    """When each lane was served last, and until when the rate is used up."""

    __slots__ = ("free_at_s", "lanes")

    def __init__(self) -> None:
        self.lanes: dict[str, float] = {}
        self.free_at_s = 0.0


class _Queue:
    """One queue that has limits."""

    __slots__ = ("executions", "limits", "turn", "work")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.turn = 0.0
        self.executions, self.work = _Served(), _Served()

    def serve(self, served: _Served, lane: str, fresh: bool, now_s: float) -> None:
        """Note that one of a lane is handed over."""
        self.turn = next_turn(self.turn, now_s)
        served.lanes.pop(lane, None)  # behind all that were served before
        served.lanes[lane] = self.turn
        for oldest in tuple(islice(served.lanes, 2)):
            if served.lanes[oldest] < now_s - SERVED_S:
                del served.lanes[oldest]
        served.free_at_s = used(self.limits, served.free_at_s, now_s, int(fresh))

    def stand(self, served: _Served, held: Mapping[str, int]) -> Stand:
        """How it stands, as fairness wants to know."""
        return Stand(self.limits, held, served.lanes, served.free_at_s)

    def next(self, served: _Served, times_s: Iterable[tuple[float, bool]], now_s: float) -> Iterator[float]:
        """When it may hand over more, though nothing changes: what is due later, and what its rate holds up. `times_s` says what is fresh."""
        for at_s, fresh in times_s:
            if at_s > now_s:
                yield at_s
            elif fresh and allowed(self.limits, served.free_at_s, now_s) < 1:
                yield next_free_at(self.limits, served.free_at_s)


class Queues:
    """The queues that have limits."""

    def __init__(
        self, executions: Mapping[Key, HasHead], mail: Mapping[Address, Mapping[str, Mail]], leases: Mapping[int, str], lives: Callable[[str | None], bool]
    ) -> None:
        self._queues: dict[str, _Queue] = {}
        self._executions, self._mail, self._leases, self._lives = executions, mail, leases, lives

    def limit(self, name: str, limits: Limits | None) -> None:
        """Give a queue limits, or take them."""
        if limits is None:
            self._queues.pop(name, None)
        elif name in self._queues:
            self._queues[name].limits = limits
        else:
            self._queues[name] = _Queue(limits)

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __contains__(self, name: str) -> bool:
        return name != "" and name in self._queues

    def stands(self, now_s: float) -> list[QueueStand]:
        """See `Store.queues`."""
        names = {one.head.queue for one in self._executions.values() if one.head.queue} | {to.name for to in self._mail if isinstance(to, Queue)}
        return [self._stand(name, now_s) for name in sorted({*self._queues, *names})]

    def _stand(self, name: str, now_s: float) -> QueueStand:
        free = [one.head for one in self._executions.values() if name and one.head.queue == name and not self._lives(one.head.holder)]
        waiting = sum(head.holder is not None or ((at_s := ready_at_s(head)) is not None and at_s <= now_s) for head in free)
        executions, leased = self._held(name).total(), self._leased(name).total()
        work = sum(len(box) for to, box in self._mail.items() if isinstance(to, Queue) and to.name == name)
        limits = self._queues[name].limits if name in self._queues else UNLIMITED
        return QueueStand(name, limits, executions, leased, waiting, work - leased)

    def _held(self, name: str) -> Counter[str]:
        """How many executions of a queue the living hold, by lane."""
        return Counter(one.head.lane for one in self._executions.values() if name and one.head.queue == name and self._lives(one.head.holder))

    def _leased(self, name: str) -> Counter[str]:
        """How many pieces of its work the living have leased, by lane."""
        boxes = (box for to, box in self._mail.items() if isinstance(to, Queue) and to.name == name)
        return Counter(mail.lane for box in boxes for mail in box.values() if self._lives(self._leases.get(mail.number)))

    def executions(self, ready: Iterator[T], claim: Claim, now_s: float) -> Iterable[T]:
        """Of what is ready, in its order, what the queues allow; what the claimer holds already is asked of none."""
        if not self._queues:
            return ready
        found = list(ready)
        free = [one for one in found if one.head.holder == claim.holder or not self._limits(one.head)]
        for name, queue in self._queues.items():
            waiting = {one.number: one for one in found if self._limits(one.head) and one.head.queue == name and one.head.holder != claim.holder}
            candidates = [Candidate(number, one.head.lane, one.head.priority, _time(one.head), one.head.version == 0) for number, one in waiting.items()]
            chosen = choose(queue.stand(queue.executions, self._held(name)), candidates, now_s, claim.limit)
            free += [waiting[one.number] for one in chosen]
        return sorted(free, key=lambda one: (_time(one.head), one.number))

    def work(self, ready: Iterator[Mail], claim: Claim, now_s: float) -> Iterable[Mail]:
        """Of work that is ready, in its order, what the queues allow."""
        if not self._queues:
            return ready
        found = list(ready)
        free = [one for one in found if _name(one) not in self._queues]
        for name, queue in self._queues.items():
            waiting = {one.number: one for one in found if _name(one) == name}
            candidates = [Candidate(number, one.lane, one.priority, one.due_at_s, one.deliveries == 0) for number, one in waiting.items()]
            chosen = choose(queue.stand(queue.work, self._leased(name)), candidates, now_s, claim.limit)
            free += [waiting[one.number] for one in chosen]
        return sorted(free, key=lambda one: (one.due_at_s, one.number))

    def _limits(self, head: Head) -> bool:
        """Whether an execution is in a queue that has limits; most are in none."""
        return head.queue != "" and head.queue in self._queues

    def begin(self, heads: Sequence[Head], work: Sequence[Mail], now_s: float) -> None:
        """Note what is handed over that was not held."""
        if not self._queues:
            return
        for head in heads:
            if (queue := self._queues.get(head.queue)) is not None and head.queue:
                queue.serve(queue.executions, head.lane, head.version == 0, now_s)
        for mail in work:
            if (queue := self._queues.get(_name(mail))) is not None:
                queue.serve(queue.work, mail.lane, mail.deliveries == 0, now_s)

    def next_execution(self, waiting: Iterable[HasHead], claim: Claim, now_s: float) -> float | None:
        """When the first of these could be handed over, as far as time decides that."""
        found = [(one.head, self._limits(one.head) and one.head.holder != claim.holder) for one in waiting]
        return self._next([(head.queue if limited else None, _time(head), head.version == 0) for head, limited in found], "executions", now_s)

    def next_work(self, waiting: Iterable[Mail], now_s: float) -> float | None:
        """The same of work."""
        return self._next([(_name(one), one.due_at_s, one.deliveries == 0) for one in waiting], "work", now_s)

    def _next(self, waiting: Iterable[tuple[str | None, float, bool]], what: str, now_s: float) -> float | None:
        plain: float | None = None
        limited: dict[str, list[tuple[float, bool]]] = {}
        for name, at_s, fresh in waiting:
            if name is not None and name in self._queues:
                limited.setdefault(name, []).append((at_s, fresh))
            else:
                plain = at_s if plain is None else min(plain, at_s)
        times_s = [at_s for name, found in limited.items() for at_s in self._queues[name].next(getattr(self._queues[name], what), found, now_s)]
        return min((*times_s, *(() if plain is None else (plain,))), default=None)


def _name(work: Mail) -> str:
    to = work.to
    assert isinstance(to, Queue), "only work is leased"
    return to.name


def _time(head: Head) -> float:
    at_s = ready_at_s(head)
    return NO_TIME if at_s is None else at_s
