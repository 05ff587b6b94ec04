"""Folds an execution incrementally from its log, commit by commit.

A tail that reads archives misses no event: it reads what a compaction has replaced from its archive. The most recently used folds are cached, so that
another look at a long execution reads only what is new.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from perdure.core import events as e
from perdure.core import log_format
from perdure.core.errors import NotFound
from perdure.core.execution import Execution
from perdure.core.paths import Key
from perdure.core.views import StepView
from perdure.service.log_archives import archived_rows
from perdure.stores.protocol import Head, Store

T = TypeVar("T")

EVENTS_AT_A_TIME = 500
"""After this many events, folding yields to the event loop."""

CACHED_EVENTS_MAX = 500_000
"""The number of events that all cached folds may have together; each takes about a hundred bytes."""

CACHED_FOLDS_MAX = 1_000
"""The number of cached folds."""


class LogTail:
    """Reads the rows of a log that come after `version`, which must be the last event of a commit, as far as they have been written.

    Rows that are compacted during the reading are read from their archive; with `read_archives`, so are those that were compacted before.
    """

    def __init__(self, store: Store, key: Key, version: int = 0, read_archives: bool = False) -> None:
        self.key = key
        self.version = version
        self.head: Head | None = None
        self._store = store
        self._read_archives = read_archives
        self._rows: deque[bytes] = deque()

    async def next(self) -> Sequence[e.Event] | None:
        """Returns the events of the next commit; None if there is none yet. A row that ends with a snapshot stands for everything before it.

        Raises:
            NotFound: there is no such execution.
        """
        if not self._rows:
            found = await self._store.read(self.key, after=self.version)
            if found is None:
                raise NotFound(self.key)
            self.head = found.head
            self._rows.extend(found.payloads)
        while self._rows:
            row = log_format.decode_row(self._rows.popleft())
            match row[-1]:
                case e.SnapshotEvent(version) if version <= self.version:
                    continue
                case e.SnapshotEvent(archive=str(archive)) if self._read_archives and (missed := await self._archive(archive)) is not None:
                    self._rows.extendleft(reversed(missed))
                case e.SnapshotEvent(version):
                    self.version = version
                    return row
                case _:
                    self.version += len(row)
                    return row
        self._read_archives = True
        return None

    async def _archive(self, sha256: str) -> Sequence[bytes] | None:
        """The archived rows after the present version; None if they were not kept."""
        raw = await self._store.blob(sha256)
        if raw is None:
            return None
        rows = archived_rows(sha256, raw)
        version = 0
        for number, row in enumerate(rows):
            events = log_format.decode_row(row)
            match events[-1]:
                case e.SnapshotEvent() as snapshot:
                    if snapshot.version > self.version:
                        return rows[number:]
                    version = snapshot.version
                case _:
                    if version >= self.version:
                        return rows[number:]
                    version += len(events)
        return []


class FoldedCommit(msgspec.Struct, Generic[T]):
    """The part of one commit that the reader took; `snapshot` is set if the commit is a compacted log."""

    taken: list[T]
    snapshot: e.SnapshotEvent | None


EventReader = Callable[[Execution, e.Event], Iterable[T]]
"""Folds an event into an execution and returns what its caller needs of the event."""


class ExecutionFold:
    """An execution, folded from its log as far as it was read. `cached_steps` are its steps as last computed, with the version at which that was."""

    def __init__(self, store: Store, key: Key) -> None:
        self.key = key
        self._store = store
        self._one_at_a_time = asyncio.Lock()
        self._reset()

    def _reset(self) -> None:
        self.execution = Execution(self.key)
        self._tail = LogTail(self._store, self.key)
        self._folded = 0
        self.cached_steps: tuple[int, list[StepView]] | None = None

    @property
    def head(self) -> Head | None:
        """The head, as of the last read of the log."""
        return self._tail.head

    async def more(self, take: EventReader[T]) -> FoldedCommit[T] | None:
        """Folds one more commit; returns None if there is none yet.

        Raises:
            NotFound: there is no such execution.
        """
        try:
            return await self._more(take)
        except BaseException:  # the interruption may have left a commit half folded
            self._reset()
            raise

    async def _more(self, take: EventReader[T]) -> FoldedCommit[T] | None:
        before = self._tail.head
        row = await self._tail.next()
        if before is not None and self._tail.head is not None and self._tail.head.created_at_s != before.created_at_s:
            self._reset()  # it was removed since, and another one has its key
            row = await self._tail.next()
        if row is None:
            return None
        snapshot = row[-1] if isinstance(row[-1], e.SnapshotEvent) else None
        if snapshot is not None:
            self.execution = Execution(self.key)
        taken: list[T] = []
        for event in row:
            taken.extend(take(self.execution, event))
            self._folded += 1
            if self._folded % EVENTS_AT_A_TIME == 0:
                await asyncio.sleep(0)
        return FoldedCommit(taken, snapshot)

    async def refresh(self) -> Execution:
        """Folds everything that has been written so far.

        Raises:
            NotFound: there is no such execution.
        """
        async with self._one_at_a_time:
            while await self.more(_apply_event) is not None:
                pass
            return self.execution

    async def view(self, look: Callable[[Execution], T], *, in_thread: bool = False) -> T:
        """Refreshes the fold and returns `look(execution)`. A large execution is looked at in a thread, and so is any with `in_thread`, for a slow look.

        Raises:
            NotFound: there is no such execution.
        """
        execution = await self.refresh()
        async with self._one_at_a_time:
            if not in_thread and len(execution.settled) + len(execution.open) <= EVENTS_AT_A_TIME:
                return look(execution)
            return await asyncio.to_thread(look, execution)


def _apply_event(execution: Execution, event: e.Event) -> Iterable[None]:
    execution.apply(event)
    return ()


class FoldCache:
    """The most recently used folds of one store, by execution. The growth of one is counted at its next use, that of the last one at the next use of any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[Key, ExecutionFold] = OrderedDict()
        self._counts: dict[Key, int] = {}
        self._events = 0

    def of(self, key: Key) -> ExecutionFold:
        """The fold of an execution, as far as it was read before."""
        last = next(reversed(self._kept), None)
        fold = self._kept.pop(key, None) or ExecutionFold(self._store, key)
        self._kept[key] = fold
        for one in {key, last or key}:
            events = self._kept[one].execution.logged_events
            self._events += events - self._counts.get(one, 0)
            self._counts[one] = events
        while len(self._kept) > 1 and (self._events > CACHED_EVENTS_MAX or len(self._kept) > CACHED_FOLDS_MAX):
            oldest, _ = self._kept.popitem(last=False)
            self._events -= self._counts.pop(oldest)
        return fold
