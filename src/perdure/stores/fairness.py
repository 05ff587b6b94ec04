"""Fairness: what of a queue is handed over next. The rule of every store, as a pure function; a store only finds those that come into question.

A queue holds things in lanes, which are served in turns: who is behind in a crowded lane does not wait longer than who is alone in
another. A lane waits since it was served, or since its first came, whichever is later; so those who come later, however many and in lanes
however new, never keep it waiting for ever. Before that, a higher priority comes first, whatever its lane. How many are held is counted
from what the living hold, never kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from math import floor, inf
from typing import NamedTuple

from perdure.stores.protocol import QueueLimits

LANE_TURN_S = 1e-6
"""By how much at least one turn is later than the one before it."""

LANE_MEMORY_S = 3600.0
"""How long it is remembered at least when a lane was served. What has waited for longer then counts from when it came."""

INTERVAL_ROUNDING = 1e-6
"""What times given as fractions may be off by, in intervals."""


class Candidate(NamedTuple):
    """Something that is ready in a queue: its number in the store, and since when it waits. What is not `fresh` was begun before, and is not held to a rate."""

    number: int
    lane: str
    priority: int
    at_s: float
    fresh: bool = True


class QueueState(NamedTuple):
    """How a queue stands: its limits, how many of each lane are held, when each lane was served last, and until when its rate is used up."""

    limits: QueueLimits
    held: Mapping[str, int]
    served: Mapping[str, float]
    free_at_s: float


def choose_candidates(state: QueueState, ready: Iterable[Candidate], now_s: float, most: int) -> list[Candidate]:
    """Those to be handed over, in their order: at most so many, as many as the limits leave room for. Of each lane and
    priority the first `most` that are fresh, and that are not, suffice."""
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
        while fresh <= 0 and line and line[-1].fresh:  # what goes on may pass what may not begin
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


def room_under_limits(limits: QueueLimits, held: Counter[str], most: int) -> int:
    """How many of at most so many the limits leave room for, whatever their lanes."""
    return most if limits.concurrency is None else min(most, limits.concurrency - held.total())


def next_lane_turn(turn: float, now_s: float) -> float:
    """When the turn after `turn` is: later than what came until now."""
    return max(now_s, turn) + LANE_TURN_S


class QueueRecord:
    """What a queue is to remember of what it hands over: its turn, until when the rates of executions and of work are used up, and the turns of lanes."""

    __slots__ = ("free_at_s", "lanes", "limits", "turn")

    def __init__(self, limits: QueueLimits, turn: float, *free_at_s: float) -> None:
        self.limits, self.turn, self.free_at_s = limits, turn, [*free_at_s]
        self.lanes: tuple[dict[str, float], dict[str, float]] = {}, {}

    def serve(self, lane: str, is_work: int, fresh: bool, now_s: float) -> None:
        """Note that one of a lane is handed over."""
        self.turn = self.lanes[is_work][lane] = next_lane_turn(self.turn, now_s)
        self.free_at_s[is_work] = rate_used_until(self.limits, self.free_at_s[is_work], now_s, int(fresh))


def starts_allowed(limits: QueueLimits, free_at_s: float, now_s: float) -> float:
    """How many may begin now, by the rate of the queue."""
    if limits.interval_s <= 0:
        return inf
    return max(0, floor(limits.burst - (max(free_at_s, now_s) - now_s) / limits.interval_s + INTERVAL_ROUNDING))


def rate_used_until(limits: QueueLimits, free_at_s: float, now_s: float, count: int) -> float:
    """Until when the rate is used up, after so many have begun now."""
    return max(free_at_s, now_s) + count * limits.interval_s if limits.interval_s > 0 else free_at_s


def next_start_at(limits: QueueLimits, free_at_s: float) -> float:
    """When the rate lets the next one begin."""
    return free_at_s - (limits.burst - 1) * limits.interval_s
