"""Reads the public events of executions commit by commit, and keeps the places where readers have stopped."""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from perdure.core import events as e
from perdure.core import views
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.views import PublicEvent
from perdure.service.execution_folds import ExecutionFold
from perdure.stores.protocol import Store

KEPT_EVENTS_MAX = 500_000
"""The number of events that all kept tails may have folded together; each takes about a hundred bytes."""

KEPT_TAILS_MAX = 200
"""The number of kept tails."""


class HistoryTail:
    """The public events of an execution, read as far as its log has been written.

    `recent` are those of the commit that was folded last. All others so far have ids up to `passed`.
    """

    def __init__(self, store: Store, key: Key) -> None:
        self.fold = ExecutionFold(store, key)
        self.recent: list[PublicEvent] = []
        self.passed = 0

    async def advance(self) -> bool:
        """Folds one more commit; returns whether there was one.

        After a compaction, ids are computed so that they are never lower than the original ones.

        Raises:
            NotFound: there is no such execution.
        """
        before = self.fold.execution.status
        grown = await self.fold.more(_public_events)
        if grown is None:
            return False
        execution = self.fold.execution
        self.passed = self.recent[-1].id if self.recent else self.passed
        shift = 0 if grown.snapshot is None else grown.snapshot.version - grown.snapshot.event_count
        self.recent = [event if shift == 0 else msgspec.structs.replace(event, id=event.id + shift) for event in grown.taken]
        if execution.status in views.WAITING_STATUSES and execution.status != before:
            why = views.status_reason(execution)
            self.recent.append(PublicEvent(execution.version, "execution.waiting", execution.key, execution.now_s, data={"why": why}))
        return True


def _public_events(execution: Execution, event: e.Event) -> Iterable[PublicEvent]:
    found = list(views.public_events(execution, event))
    execution.apply(event)
    return found


class HistoryCache:
    """The tails at which readers have stopped, one of each execution, those that were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, HistoryTail] = OrderedDict()

    def take(self, key: Key, after: int) -> HistoryTail | None:
        """Takes the tail of an execution, for one reader, if it still has all events behind `after`."""
        tail = self._kept.get(key)
        if tail is None or after < tail.passed:
            return None
        return self._kept.pop(key)

    def keep(self, tail: HistoryTail) -> None:
        """Keeps a tail for the next reader."""
        self._kept[tail.fold.key] = tail
        self._kept.move_to_end(tail.fold.key)
        events = sum(one.fold.execution.logged_events for one in self._kept.values())
        while len(self._kept) > 1 and (events > KEPT_EVENTS_MAX or len(self._kept) > KEPT_TAILS_MAX):
            _, oldest = self._kept.popitem(last=False)
            events -= oldest.fold.execution.logged_events
