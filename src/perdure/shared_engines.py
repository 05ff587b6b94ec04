"""The engines of `run` and `arun`: one per database and event loop, open while it is used and for some seconds after that.

`arun` uses the loop that runs, `run` one loop in a daemon thread of this module, whatever thread calls it. An engine advances only what was run through
it, and what that has started: its roots grow with each run and shrink when the run is over. Workflows are added as they are run; two of one name that
differ are given to different engines on one open store.

The loop may be closed at any time: `asyncio.run` cancels the task that keeps an engine, which then closes it in good order. A forked child begins anew.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from perdure.code.declarations import CodeWorkflow
from perdure.code.declared_queues import Queue
from perdure.core.errors import StoreUnavailable
from perdure.core.paths import Key
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.loop_thread import LoopThread
from perdure.runtime.engine import Engine
from perdure.runtime.garbage_collection import relaxed_garbage_collection
from perdure.runtime.local_engine import begin_engine
from perdure.runtime.registrations import declare_queues, declared_queues
from perdure.runtime.workflow_programs import Workflow
from perdure.service.execution_operations import StartRequest
from perdure.service.local_run import run_in_engine
from perdure.service.secrets.secret_resolver import secret_resolver_for
from perdure.stores.configured_store import configured_url, database_file, open_store

T = TypeVar("T")
logger = logging.getLogger("perdure.engine")

IDLE_S = 5.0
"""How long an engine stays open after its last run."""

PUBLISH_S = 1.0
"""After so long, a run is told to other processes, which else learn of it when the lease is renewed."""

EXIT_S = 5.0
"""How long the end of the process waits for engines to be closed. What they hold is free with the process anyway."""

VARIABLES = (
    "PERDURE_COMPRESS",
    "PERDURE_ENCRYPTION_KEYS",
    "PERDURE_ENCRYPTION_REQUIRED",
    "PERDURE_SECRETS_KEY",
    "PERDURE_SECRETS_KEY_FILE",
    "PERDURE_SECRETS_PATH",
)
"""What of the environment an open store depends on."""


async def run_workflow(code: Workflow, family: Sequence[Workflow], start: StartRequest, db: str | None) -> bytes:
    """Run an execution to its end on the engine of this loop for a database; return its encoded result.

    Raises:
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: how it ended, or why it does not go on.
        StoreError: the store can't be opened, or has failed.
    """
    async with _shared_store(db) as shared, shared.engine(family, start.key) as one:
        return await one.until_failure(run_in_engine(one.engine, start, code))


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop of this module's thread. An interrupted caller interrupts it there, and waits until it has given back what it held."""
    return _engine_thread().call_to_end(work)


class StoreKey(NamedTuple):
    """What distinguishes open stores: the database, which file that is, and what the environment says of it."""

    url: str
    file: Path | None
    environment: tuple[str | None, ...]


def _store_key(db: str | None) -> StoreKey:
    url = configured_url(db)
    file = database_file(url)
    return StoreKey(url if file is None else f"sqlite:///{quote(str(file))}", file, tuple(map(os.environ.get, VARIABLES)))


def _file_identity(file: Path | None) -> tuple[int, int] | None:
    with suppress(OSError):  # which says that it is not there
        if file is not None:
            found = file.stat()
            return found.st_dev, found.st_ino
    return None


class _SharedEngine:
    """An engine on a shared store, with the roots that are run through it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.runs = Counter[Key]()
        self.family: list[Workflow] = []
        self.beginning = asyncio.create_task(begin_engine(engine))

    @property
    def failed(self) -> bool:
        """Whether it has ended, so that another one has to be made."""
        if not self.beginning.done():
            return False
        return self.beginning.cancelled() or self.beginning.exception() is not None or self.beginning.result().done()

    def fits(self, family: Sequence[Workflow]) -> bool:
        """Whether it can know these besides what it knows."""
        known = {one.name: one for one in self.family}
        return not self.failed and all(one.name not in known or _is_same(known[one.name], one) for one in family)

    def register(self, family: Sequence[Workflow]) -> None:
        """Add workflows; if it runs nothing, they may replace those of their names."""
        names = {one.name for one in family}
        added = [one for one in family if not any(_is_same(one, known) for known in self.family)]
        if added:
            kept = [one for one in self.family if one.name not in names or any(_is_same(one, new) for new in family)]
            self.engine.register([*kept, *added])
            self.family = [*kept, *added]

    async def until_failure(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns or raises, unless the engine fails: then its error.

        Raises:
            StoreUnavailable: the engine was stopped, as its loop ends.
        """
        running = self.beginning.result()
        task = asyncio.ensure_future(work)
        try:
            _ = await asyncio.wait((task, running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                _ = await asyncio.wait((task,))
        if running.done() and not running.cancelled() and (error := running.exception()) is not None:
            raise error
        if task.cancelled():
            raise StoreUnavailable("the engine was stopped while it was waited for, as its event loop ends; run it again with its id, and it goes on")
        return task.result()

    async def close(self) -> None:
        """Stop it; what it does is given back."""
        self.engine.stop()
        self.beginning.cancel()
        _ = await asyncio.wait((self.beginning,))
        if not self.beginning.cancelled() and self.beginning.exception() is None:
            _ = await asyncio.wait((self.beginning.result(),))
            if (task := self.beginning.result()).done() and not task.cancelled() and (error := task.exception()) is not None and not self.runs:
                logger.warning("an engine failed while nothing was run in it: %s. The next run opens another", error)


class _SharedStore:
    """A store that is open on one loop, with the engines on it. `kept` is the task that closes it all in the end."""

    def __init__(self, key: StoreKey, forget: Callable[[_SharedStore], None]) -> None:
        self.store = open_store(key.url)
        self.identity = _file_identity(key.file)
        self.engines: list[_SharedEngine] = []
        self.uses = 0
        self._declared: dict[str, Queue] = {}
        self._forget = forget
        self._timer: asyncio.TimerHandle | None = None
        self._end = asyncio.Event()
        self._tuning = ExitStack()
        self._tuning.enter_context(relaxed_garbage_collection())
        self.kept = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        try:
            _ = await self._end.wait()
        finally:
            self.drop()
            for one in self.engines:
                await one.close()
            await self.store.close()
            self._tuning.close()

    def drop(self) -> None:
        """Give it to no further run."""
        self._forget(self)
        if self._timer is not None:
            self._timer.cancel()

    def close_soon(self) -> None:
        """Close it, unless something is run here, now that it is given to no further run."""
        if not self.uses:
            self._end.set()

    def begin_use(self) -> None:
        """Keep it open until `end_use`."""
        self.uses += 1
        if self._timer is not None:
            self._timer.cancel()

    def end_use(self, is_kept: bool) -> None:
        """Close it after a while if nothing else is run here; at once if it is not kept for others."""
        self.uses -= 1
        if not self.uses:
            if is_kept:
                self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._expire)
            else:
                self._end.set()

    def _expire(self) -> None:
        self.drop()
        self._end.set()

    @asynccontextmanager
    async def engine(self, family: Sequence[Workflow], root: Key) -> AsyncIterator[_SharedEngine]:
        """An engine that knows the workflows and advances this root as long as the block lasts."""
        one = self._engine_for(family, root)
        one.runs[root] += 1
        one.engine.admit(root)
        publishing = asyncio.get_running_loop().call_later(PUBLISH_S, _publish, one.engine)
        try:
            _ = await asyncio.shield(one.beginning)
            await self._declare(family)
            yield one
        finally:
            publishing.cancel()
            one.runs[root] -= 1
            if not one.runs[root]:
                del one.runs[root]
                if one.failed:
                    self.engines.remove(one) if one in self.engines else None
                else:
                    await one.engine.dismiss(root)
                    one.engine.publish()

    def _engine_for(self, family: Sequence[Workflow], root: Key) -> _SharedEngine:
        self.engines = [one for one in self.engines if not one.failed]
        chosen = next((one for one in self.engines if one.fits(family)), None)
        if chosen is None:
            chosen = next((one for one in self.engines if not one.runs and one.engine.is_empty), None)
        if chosen is None:
            engine = Engine(self.store, family, roots=(root,), threaded=True, secrets=secret_resolver_for(self.store))
            chosen = _SharedEngine(engine)
            chosen.family = list(family)
            self.engines.append(chosen)
        else:
            chosen.register(family)
        return chosen

    async def _declare(self, family: Sequence[Workflow]) -> None:
        """Give the store the limits that these workflows declare for their queues."""
        wanted = [queue for queue in declared_queues(family, ()) if self._declared.get(queue.name) != queue]
        if wanted:
            await declare_queues(self.store, wanted)
            self._declared.update((queue.name, queue) for queue in wanted)


def _publish(engine: Engine) -> None:
    if engine.joined and not engine.stopping:
        _ = engine.spawn(engine.publish_now())


def _is_same(one: Workflow, other: Workflow) -> bool:
    """Whether two are one workflow, whatever options `with_` has given them."""
    match one, other:
        case CodeWorkflow(), CodeWorkflow():
            return one.fn is other.fn and (one.name, one.version, one.replays, one.archive) == (other.name, other.version, other.replays, other.archive)
        case GraphWorkflow(), GraphWorkflow():
            return one.release == other.release and one.tools is other.tools and one.kinds is other.kinds and one.policy is other.policy
        case _:
            return False


class _Registry:
    """The open stores of this process, by loop and key."""

    def __init__(self) -> None:
        self.stores: dict[tuple[asyncio.AbstractEventLoop, StoreKey], _SharedStore] = {}
        self.thread: LoopThread | None = None
        self.lock = Lock()
        self.is_watched = False

    def take(self, loop: asyncio.AbstractEventLoop, key: StoreKey) -> _SharedStore:
        """The store of a loop, opened if it is not open yet, or if its file is another one by now. The loop is the running one."""
        self._drop_dead_loops()
        with self.lock:
            if not self.is_watched:
                atexit.register(_close_at_exit)
                self.is_watched = True
        found = self.stores.get((loop, key))
        if found is not None and found.identity != _file_identity(key.file):
            found.drop()
            found.close_soon()
            found = None
        if found is None:
            found = self.stores[loop, key] = _SharedStore(key, self._forget)
        return found

    def _forget(self, store: _SharedStore) -> None:
        for place in [place for place, one in list(self.stores.items()) if one is store]:
            self.stores.pop(place, None)

    def _drop_dead_loops(self) -> None:
        """Close the stores of loops that were closed without their tasks: nothing runs there any more."""
        for place, dead in list(self.stores.items()):
            if place[0].is_closed() and self.stores.pop(place, None) is dead:
                _silence(dead, place[0])
                _ = asyncio.get_running_loop().create_task(dead.store.close())


_registry = _Registry()
_inherited: list[_Registry] = []
"""What a forked child has of its parent, and must neither use nor finalize."""


@asynccontextmanager
async def _shared_store(db: str | None) -> AsyncIterator[_SharedStore]:
    key = _store_key(db)
    is_kept = key.file is not None  # a store in memory is a new one for each run
    registry = _registry
    shared = registry.take(asyncio.get_running_loop(), key) if is_kept else _SharedStore(key, lambda _: None)
    shared.begin_use()
    try:
        yield shared
    finally:
        is_kept = is_kept and shared in registry.stores.values()
        shared.end_use(is_kept)
        if not is_kept and not shared.uses:
            _ = await asyncio.wait((shared.kept,))


def _engine_thread() -> LoopThread:
    with _registry.lock:
        if _registry.thread is None or _registry.thread.closed:
            _registry.thread = LoopThread("perdure-engine")
        return _registry.thread


async def _close_stores_of_loop() -> None:
    """Close all that is open on this loop."""
    loop = asyncio.get_running_loop()
    kept = [one.kept for place, one in list(_registry.stores.items()) if place[0] is loop]
    for one in kept:
        one.cancel()
    if kept:
        _ = await asyncio.wait(kept, timeout=EXIT_S)


def _close_at_exit() -> None:
    thread = _registry.thread
    if thread is not None and not thread.closed:
        with suppress(Exception):  # the process ends, and what is open with it
            thread.call(_close_stores_of_loop())
            thread.close()
    for loop, _ in list(_registry.stores):
        if loop.is_closed() or loop.is_running():
            continue
        with suppress(Exception):  # as above; it may be a loop that can't be run any more
            loop.run_until_complete(_close_stores_of_loop())
    for place, dead in _registry.stores.items():
        _silence(dead, place[0])


def _silence(dead: _SharedStore, loop: asyncio.AbstractEventLoop) -> None:
    """Let the tasks of a loop that nobody runs any more vanish without a complaint about each: the loop's owner has not asked for them."""
    for one in dead.engines:
        if one.engine.threads is not None:
            one.engine.threads.shutdown()
    for task in asyncio.all_tasks(loop):
        if getattr(getattr(task.get_coro(), "cr_code", None), "co_filename", "").startswith(str(Path(__file__).parent)):
            vars_of: Any = task
            vars_of._log_destroy_pending = False


def _begin_anew() -> None:
    """In a forked child, no thread and no loop of the parent runs."""
    global _registry  # one per process, and the child needs another
    _inherited.append(_registry)
    _registry = _Registry()


os.register_at_fork(after_in_child=_begin_anew)
