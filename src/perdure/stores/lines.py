"""Lines: what waits, in the order in which it is handed over. The memory store's answer to what other stores ask an index."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Container, Iterator
from heapq import merge
from itertools import islice
from math import inf
from operator import itemgetter
from typing import Generic, TypeVar

from perdure.stores.base import Head

T = TypeVar("T")

NO_TIME = -inf
"""The place in line of a held execution that waits for no time: before all others, should its holder die."""


def ready_at_s(head: Head) -> float | None:
    """The time that an execution waits for; `NO_TIME` if it is held and waits for none, None if it waits for nothing."""
    if head.wake_at_s is not None and head.mail_at_s is not None:
        return min(head.wake_at_s, head.mail_at_s)
    at_s = head.wake_at_s if head.mail_at_s is None else head.mail_at_s
    return at_s if at_s is not None or head.holder is None else NO_TIME


def place_in_line(head: Head) -> tuple[str | None, str, float] | None:
    """Where an execution waits: by whom it is held, which program it needs, what time it waits for; None if it waits for nothing."""
    at_s = ready_at_s(head)
    return None if at_s is None else (head.holder, head.program, at_s)


class Lines(Generic[T]):
    """Things that wait, in one line for each holder (None: nobody) and name, ordered by the time they wait for, then by number."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, str], list[tuple[float, int, T]]] = {}

    def join(self, holder: str | None, name: str, at_s: float, number: int, thing: T) -> None:
        """Put `thing`, whose number nothing else has, into the line of `holder` and `name`."""
        insort(self._lines.setdefault((holder, name), []), (at_s, number, thing))

    def leave(self, holder: str | None, name: str, at_s: float, number: int) -> None:
        """Take out what joined with these words."""
        line = self._lines[holder, name]
        del line[bisect_left(line, (at_s, number), key=itemgetter(0, 1))]
        if not line:
            del self._lines[holder, name]

    def held(self, holder: str) -> list[T]:
        """All that waits in lines of `holder`."""
        return [thing for (other, _), line in self._lines.items() if other == holder for _, _, thing in line]

    def next(self, names: Container[str], claimer: str | None) -> float | None:
        """When the first of what waits under `names`, held by nobody or `claimer`, is due; None if nothing waits for a time."""
        lines = (line for (holder, name), line in self._lines.items() if name in names and holder in (None, claimer))
        return min((at_s for line in lines for at_s, _, _ in line[bisect_right(line, NO_TIME, key=itemgetter(0)) :][:1]), default=None)

    def waiting(self, names: Container[str], claimer: str | None) -> Iterator[T]:
        """What waits for a time under `names`, held by nobody or `claimer`; the first of each line first."""
        for (holder, name), line in self._lines.items():
            if name in names and holder in (None, claimer):
                yield from (thing for _, _, thing in islice(line, bisect_right(line, NO_TIME, key=itemgetter(0)), None))

    def ready(self, names: Container[str], claimer: str | None, is_dead: Callable[[str], bool], now_s: float) -> Iterator[T]:
        """What waits under `names`, longest first: due, and held by nobody or `claimer`; or, due or not, held by the dead."""
        lines: list[Iterator[tuple[float, int, T]]] = []
        for (holder, name), line in self._lines.items():
            if name not in names:
                continue
            if holder is None or holder == claimer:
                lines.append(islice(line, bisect_right(line, NO_TIME, key=itemgetter(0)), bisect_right(line, now_s, key=itemgetter(0))))
            elif is_dead(holder):
                lines.append(iter(line))
        return (thing for _, _, thing in merge(*lines))
