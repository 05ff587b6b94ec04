"""Follows executions that people look at again and again: their operations with all attempts and, of a definition, the view of its nodes.

A tail reads only what was added to the log since the last look, and replays only that. The tails that were used last are kept in memory. Whoever looks at an
execution as it was earlier reads the log instead (`past_states`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from perdure.core import events as e
from perdure.core.errors import NotFound
from perdure.core.execution import Execution
from perdure.core.paths import Key, Path
from perdure.core.replay import STARTS_ANEW, LoadBlob
from perdure.core.step_attempts import AttemptRecorder, StepAttempt
from perdure.definitions.graph.execution_view import ExecutionView, ViewReplay
from perdure.runtime.blob_loader import BlobCache, run_in_threads, run_with_blobs
from perdure.service.execution_folds import ExecutionFold
from perdure.stores.protocol import Head, Store

T = TypeVar("T")

FEW_EVENTS = 100
"""So many events are replayed at once on the event loop; more, in a thread."""

KEPT_EVENTS_MAX = 200_000
"""The number of events that all kept tails may have together. The program of a definition takes more memory for each than a fold."""

KEPT_TAILS_MAX = 100
"""The number of kept tails."""


class ExecutionTail:
    """One execution, as far as its log was read. Use it within `ExecutionTails.use`, so that one reader uses it at a time."""

    def __init__(self, store: Store, key: Key) -> None:
        self.key = key
        self.lock = asyncio.Lock()
        self.cached: dict[str, Any] = {}
        self._store, self._blobs = store, BlobCache(store)
        self._replay: ViewReplay | None = None
        self._reset()

    def _reset(self) -> None:
        self.close()
        self._fold = ExecutionFold(self._store, self.key)
        self._folded: Execution | None = None
        self._recorder = AttemptRecorder()
        self._added: list[e.Event] = []
        self._replay = None
        self.cached.clear()

    @property
    def execution(self) -> Execution:
        """The state."""
        return self._fold.execution

    @property
    def head(self) -> Head:
        """The head of the last read."""
        assert self._fold.head is not None, "it was refreshed"
        return self._fold.head

    @property
    def attempts(self) -> dict[Path, list[StepAttempt]]:
        """The attempts of calls, by path."""
        return self._recorder.attempts

    async def refresh(self) -> None:
        """Reads what was added to the log. Everything in `cached` is dropped if there was anything.

        Raises:
            NotFound: there is no such execution.
        """
        while await self._fold.more(self._take) is not None:
            self.cached.clear()

    def _take(self, execution: Execution, event: e.Event) -> Iterable[None]:
        if execution is not self._folded:  # the log was compacted, or the execution is another one of this key
            self.close()
            self._folded, self._recorder, self._added, self._replay = execution, AttemptRecorder(), [], None
        self._recorder.record(execution, event)
        execution.apply(event)
        self._added.append(event)
        return ()

    async def view(self) -> ExecutionView | None:
        """The view of a definition; None of code, and of what has not begun.

        Raises:
            NotReplayable: the log does not replay over the definition.
        """
        if self.execution.definition is None:
            self._added = []
            return None
        if "view" not in self.cached:
            try:
                self.cached["view"] = await self._replayed()
            except BaseException:  # the program may be anywhere
                self._reset()
                raise
        found: ExecutionView | None = self.cached["view"]
        return found

    async def _replayed(self) -> ExecutionView | None:
        if self._replay is not None and not STARTS_ANEW.isdisjoint(map(type, self._added)):
            self._reset()
            await self.refresh()
        added, self._added = self._added, []
        if self._replay is None:
            self._replay = ViewReplay(self.key)
            replaying = self._replay.begin(added, self.execution.version)
        else:
            replaying = self._replay.go_on(added)
        await self._run(replaying, len(added))
        return await self._computed(self._replay.view, self.execution.version)

    async def _run(self, replaying: Generator[LoadBlob, bytes, None], events: int) -> None:
        if events <= FEW_EVENTS:
            await run_with_blobs(self._blobs, replaying)
        else:
            await run_in_threads(self._blobs, replaying)

    async def look(self, make: Callable[[Execution, dict[Path, list[StepAttempt]], ExecutionView | None, int], T]) -> T:
        """Returns what `make` makes of the execution, its attempts, its view and its version.

        Raises:
            NotReplayable: the log does not replay over the definition.
        """
        view = await self.view()
        return await self._computed(make, self.execution, self.attempts, view, self.execution.version)

    async def _computed(self, make: Callable[..., T], *args: Any) -> T:
        """Returns the result of `make`, which may take some time if the execution is large. It is called in a thread then."""
        return make(*args) if self.execution.logged_events <= FEW_EVENTS else await asyncio.to_thread(make, *args)

    def close(self) -> None:
        """Closes the program of a definition."""
        if self._replay is not None:
            self._replay.close()


class ExecutionTails:
    """The tails of one store that were used last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[Key, ExecutionTail] = OrderedDict()

    @asynccontextmanager
    async def use(self, key: Key) -> AsyncGenerator[ExecutionTail, None]:
        """Gives the block the tail of an execution, which has everything that was written.

        Raises:
            NotFound: there is no such execution.
        """
        tail = self._kept.pop(key, None) or ExecutionTail(self._store, key)
        self._kept[key] = tail
        try:
            async with tail.lock:
                await tail.refresh()
                yield tail
        except NotFound:
            if self._kept.get(key) is tail:
                del self._kept[key]
            raise
        finally:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        events = sum(one.execution.logged_events for one in self._kept.values())
        while len(self._kept) > 1 and (events > KEPT_EVENTS_MAX or len(self._kept) > KEPT_TAILS_MAX):
            _, oldest = self._kept.popitem(last=False)
            events -= oldest.execution.logged_events
            if not oldest.lock.locked():
                oldest.close()
