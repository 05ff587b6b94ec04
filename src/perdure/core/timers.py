"""Timers: which open operation is due first. An operation has one timer at most, and the latest one set counts."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush

from perdure.core.paths import Path
from perdure.core.promise import Promise

SPARE = 64
"""How many timers of what is over are kept before they are swept."""


class Timers:
    """A heap of due times over the open operations, `opened`. What is over stays in it until it comes up, or is swept."""

    __slots__ = ("_heap", "_opened")

    def __init__(self, opened: Mapping[Path, Promise]) -> None:
        self._opened = opened
        self._heap: list[tuple[float, int, Path]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, promise: Promise, due_s: float | None) -> None:
        """Let `promise` be due at this time, or at none."""
        promise.due_s = due_s
        if due_s is None:
            return
        if len(self._heap) > SPARE + 2 * len(self._opened):  # most are of what has settled; a sorted list is a heap
            self._heap = sorted((one.due_s, one.number, one.path) for one in self._opened.values() if one.due_s is not None and one is not promise)
        heappush(self._heap, (due_s, promise.number, promise.path))

    def next(self, busy: AbstractSet[Path], young: AbstractSet[Path] = frozenset()) -> Promise | None:
        """The operation that is due first, the one opened first among equals; neither a retry of what is still `busy`, nor a try that is `young`."""
        while self._heap:
            due_s, _, path = self._heap[0]
            promise = self._opened.get(path)
            if promise is None or promise.due_s != due_s:
                heappop(self._heap)
            elif path in (young if promise.state == "performing" else busy):
                return self._next_free(busy, young)
            else:
                return promise
        return None

    def _next_free(self, busy: AbstractSet[Path], young: AbstractSet[Path]) -> Promise | None:
        free = [one for one in self._opened.values() if one.due_s is not None and one.path not in (young if one.state == "performing" else busy)]
        return min(free, key=lambda one: (one.due_s or 0.0, one.number), default=None)
