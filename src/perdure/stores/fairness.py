"""The fairness rule: what a queue hands over next. It is one pure function for every store; a store only finds the candidates.

A queue has lanes, which are served in turns, so a crowded lane does not delay the others. A lane waits since it was last served or since its first
candidate came, whichever is later; therefore later arrivals, however many and in however many new lanes, cannot starve it. A higher priority comes
first, whatever its lane. The number of things held is counted anew from what live holders hold; no counter is stored that could drift.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import islice
from math import floor, inf
from typing import NamedTuple

from perdure.stores.protocol import QueueLimits

LANE_TURN_S = 1e-6
"""The least time between two turns."""

LANE_MEMORY_S = 3600.0
"""How long a store remembers, at least, when a lane was served. Afterwards the lane counts as waiting since its first candidate came."""

INTERVAL_ROUNDING = 1e-6
"""The tolerance for rounding errors in times, as a fraction of the interval."""


class Candidate(NamedTuple):
    """Something that is ready in a queue: its number in the store, and since when it waits. The rate applies only if it is `fresh`: not begun before."""

    number: int
    lane: str
    priority: int
    at_s: float
    fresh: bool = True


class QueueState(NamedTuple):
    """The state of a queue: its limits, how many of each lane are held, when each lane was served last, and until when its rate is used up."""

    limits: QueueLimits
    held: Mapping[str, int]
    served: Mapping[str, float]
    free_at_s: float


def choose_candidates(state: QueueState, ready: Iterable[Candidate], now_s: float, most: int) -> list[Candidate]:
    """Returns the candidates to hand over, in order: at most `most`, and no more than the limits leave room for.

    A store needs to find only the first `most` fresh and the first `most` other candidates of each lane and priority.
    """
    limits, held = state.limits, Counter(state.held)
    room = room_under_limits(limits, held, most)
    lanes: dict[tuple[int, str], list[Candidate]] = {}
    for one in sorted(ready, key=lambda one: (-one.priority, one.at_s, one.number), reverse=True):
        lanes.setdefault((one.priority, one.lane), []).append(one)

    def head(priority: int, lane: str, line: list[Candidate]) -> tuple[int, int, float, float, int, str]:
        first = line[-1]
        return -priority, held[lane], max(state.served.get(lane, -inf), first.at_s), first.at_s, first.number, lane

    heads = [head(priority, lane, line) for (priority, lane), line in lanes.items()]
    heapify(heads)
    fresh = starts_allowed(limits, state.free_at_s, now_s)
    chosen: list[Candidate] = []
    while heads and len(chosen) < room:
        falling, behind, _, _, _, lane = heads[0]
        line = lanes[-falling, lane]
        if held[lane] > behind:  # the lane was served at another priority meanwhile
            heapreplace(heads, head(-falling, lane, line))
            continue
        while fresh <= 0 and line and line[-1].fresh:  # what was begun before may overtake what may not begin yet
            line.pop()
        if not line or (limits.per_lane is not None and behind >= limits.per_lane):
            heappop(heads)
            continue
        one = line.pop()
        held[lane] += 1
        fresh -= one.fresh
        chosen.append(one)
        if line:
            heapreplace(heads, head(-falling, lane, line))
        else:
            heappop(heads)
    return chosen


def take_turns(ready: Iterable[tuple[float, int, str]], served: Mapping[str, float], most: int) -> list[tuple[float, int, str]]:
    """Returns up to `most` of what is ready, each given by the time since when it waits, its number and its tenant: the tenants in turns, so that a crowded
    tenant does not delay the others. Within a tenant, what has waited longest comes first.

    A tenant waits since it was last `served` or since its first candidate came, whichever is later. A store needs to find only the first `most` of each tenant.
    """
    lines: dict[str, list[tuple[float, int, str]]] = {}
    for one in sorted(ready):
        lines.setdefault(one[2], []).append(one)
    order = sorted(lines.values(), key=lambda line: (max(served.get(line[0][2], -inf), line[0][0]), line[0]))
    rounds = (line[turn] for turn in range(max(map(len, order), default=0)) for line in order if turn < len(line))
    return list(islice(rounds, most))


def room_under_limits(limits: QueueLimits, held: Counter[str], most: int) -> int:
    """Returns for how many, up to `most`, the concurrency limit of the queue leaves room. It ignores the limits of lanes."""
    return most if limits.concurrency is None else min(most, limits.concurrency - held.total())


def next_lane_turn(turn: float, now_s: float) -> float:
    """Returns the turn after `turn`. It is later than everything that has come until now."""
    return max(now_s, turn) + LANE_TURN_S


class QueueRecord:
    """The values to store after a queue handed over a task: its turn, until when the rates of executions and of tasks are used up, and lane turns."""

    __slots__ = ("free_at_s", "lanes", "limits", "turn")

    def __init__(self, limits: QueueLimits, turn: float, *free_at_s: float) -> None:
        self.limits, self.turn, self.free_at_s = limits, turn, [*free_at_s]
        self.lanes: tuple[dict[str, float], dict[str, float]] = {}, {}

    def serve(self, lane: str, is_work: int, fresh: bool, now_s: float) -> None:
        """Note that one of a lane is handed over."""
        self.turn = self.lanes[is_work][lane] = next_lane_turn(self.turn, now_s)
        self.free_at_s[is_work] = rate_used_until(self.limits, self.free_at_s[is_work], now_s, int(fresh))


def starts_allowed(limits: QueueLimits, free_at_s: float, now_s: float) -> float:
    """Returns how many may begin now under the rate of the queue."""
    if limits.interval_s <= 0:
        return inf
    return max(0, floor(limits.burst - (max(free_at_s, now_s) - now_s) / limits.interval_s + INTERVAL_ROUNDING))


def rate_used_until(limits: QueueLimits, free_at_s: float, now_s: float, count: int) -> float:
    """Returns until when the rate is used up after `count` have begun now."""
    return max(free_at_s, now_s) + count * limits.interval_s if limits.interval_s > 0 else free_at_s


def next_start_at(limits: QueueLimits, free_at_s: float) -> float:
    """Returns when the rate allows the next start."""
    return free_at_s - (limits.burst - 1) * limits.interval_s
