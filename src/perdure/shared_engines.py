"""The engines of `run` and `arun`: one per database and event loop, open while it is used and for some seconds after that.

`arun` uses the current event loop; `run` uses one loop in a daemon thread, whatever thread calls it. An engine advances only the executions that were run
through it and their descendants: each run adds a root, and removes it at its end. Workflows are registered as they are run; two different ones of one name
get different engines on one open store.

The loop may end at any time: `asyncio.run` cancels the task that keeps a store open, which then stops its engines and closes it. A forked child opens its own.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
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
"""How long a run lasts before other processes are notified of it at once, instead of with the next renewal of the lease."""

EXIT_S = 5.0
"""How long the end of the process waits for engines to be closed. Other processes take over what they hold in any case."""

VARIABLES = (
    "PERDURE_BLOB_STORE",
    "PERDURE_COMPRESS",
    "PERDURE_ENCRYPTION_KEYS",
    "PERDURE_ENCRYPTION_REQUIRED",
    "PERDURE_SECRETS_KEY",
    "PERDURE_SECRETS_KEY_FILE",
    "PERDURE_SECRETS_PATH",
)
"""The variables of the environment on which an open store and its source of secrets depend."""


async def run_workflow(code: Workflow, family: Sequence[Workflow], start: StartRequest, db: str | None) -> bytes:
    """Runs an execution to its end on the engine that this loop has for a database, and returns its encoded result.

    Raises:
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: it ended, or parked, without a result.
        StoreError: the store can't be opened, or has failed.
    """
    async with _shared_store(db) as shared, shared.engine(family, start.key) as one:
        return await one.until_failure(run_in_engine(one.engine, start, code))


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the loop in the thread of this module. If the caller is interrupted, the coroutine is cancelled, and cleans up before this raises."""
    return _engine_thread().call_to_end(work)


class StoreKey(NamedTuple):
    """The identity of an open store: its database, the file of that (None: it is in memory), and the variables on which the store depends."""

    url: str
    file: Path | None
    environment: tuple[str | None, ...]


def _store_key(db: str | None) -> StoreKey:
    url = configured_url(db)
    file = database_file(url)
    return StoreKey(url if file is None else f"sqlite:///{quote(str(file))}", file, tuple(map(os.environ.get, VARIABLES)))


def _file_identity(file: Path | None) -> tuple[int, int] | None:
    with suppress(OSError):  # there is no such file
        if file is not None:
            found = file.stat()
            return found.st_dev, found.st_ino
    return None


class _SharedEngine:
    """An engine on a shared store, with the number of runs of each root."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.runs = Counter[Key]()
        self.family: list[Workflow] = []
        self.beginning = asyncio.create_task(self._begin())

    async def _begin(self) -> asyncio.Task[None]:
        running = await begin_engine(self.engine)
        running.add_done_callback(self._note_end)
        return running

    def _note_end(self, running: asyncio.Task[None]) -> None:
        if not running.cancelled() and (error := running.exception()) is not None and not self.runs:  # its runs raise the error
            logger.warning("the engine of run() has failed while it was idle: %s. The next run opens another one", error)

    @property
    def failed(self) -> bool:
        """Whether the engine has ended, so that another one is needed."""
        if not self.beginning.done():
            return False
        return self.beginning.cancelled() or self.beginning.exception() is not None or self.beginning.result().done()

    def fits(self, family: Sequence[Workflow]) -> bool:
        """Whether these workflows can be registered beside those that the engine knows."""
        known = {one.name: one for one in self.family}
        return not self.failed and all(one.name not in known or _is_same(known[one.name], one) for one in family)

    def register(self, family: Sequence[Workflow]) -> None:
        """Registers workflows. They replace others of their names, which is allowed if nothing runs here."""
        names = {one.name for one in family}
        added = [one for one in family if not any(_is_same(one, known) for known in self.family)]
        if added:
            kept = [one for one in self.family if one.name not in names or any(_is_same(one, new) for new in family)]
            self.engine.register([*kept, *added])
            self.family = [*kept, *added]

    async def until_failure(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits `work`, unless the engine fails before: then its error is raised.

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
            raise StoreUnavailable("the event loop of this run has ended before its execution. Run it again with its id to continue")
        return task.result()

    async def close(self) -> None:
        """Stops the engine, which gives back its attempts in flight."""
        self.engine.stop()
        self.beginning.cancel()
        _ = await asyncio.wait((self.beginning,))
        if not self.beginning.cancelled() and self.beginning.exception() is None:
            _ = await asyncio.wait((self.beginning.result(),))


class _SharedStore:
    """A store that is open on one loop, with the engines on it. `kept` is the task that closes all in the end. If it is `shared`, later runs may use it."""

    def __init__(self, key: StoreKey, forget: Callable[[_SharedStore], None] | None = None) -> None:
        self.store = open_store(key.url)
        self.shared = forget is not None
        self.identity = _file_identity(key.file)
        self.engines: list[_SharedEngine] = []
        self.uses = 0
        self._declared: dict[str, Queue] = {}
        self._forget = forget
        self._timer: asyncio.TimerHandle | None = None
        self._end = asyncio.Event()
        self.relaxing = ExitStack()
        self.relaxing.enter_context(relaxed_garbage_collection())
        self.kept = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        try:
            _ = await self._end.wait()
        finally:
            self.drop()
            for one in self.engines:
                await one.close()
            await self.store.close()
            self.relaxing.close()

    def drop(self) -> None:
        """Closes the store as soon as nothing runs here; later runs open another one."""
        self.shared = False
        if self._forget is not None:
            self._forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if not self.uses:
            self._end.set()

    def begin_use(self) -> None:
        """Keeps the store open until `end_use`."""
        self.uses += 1
        if self._timer is not None:
            self._timer.cancel()

    async def end_use(self) -> None:
        """After the last use, closes the store when it has been idle for `IDLE_S`; at once, and waits for that, if no later run may use it."""
        self.uses -= 1
        if self.uses:
            return
        if self.shared:
            self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.drop)
        else:
            self._end.set()
            _ = await asyncio.wait((self.kept,))

    @asynccontextmanager
    async def engine(self, family: Sequence[Workflow], root: Key) -> AsyncIterator[_SharedEngine]:
        """Gives an engine that knows the workflows, and that advances this root for the duration of the block."""
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
                if not one.failed:
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
        """Sets the limits that these workflows declare for their queues."""
        wanted = [queue for queue in declared_queues(family, ()) if self._declared.get(queue.name) != queue]
        if wanted:
            await declare_queues(self.store, wanted)
            self._declared.update((queue.name, queue) for queue in wanted)


def _publish(engine: Engine) -> None:
    if engine.joined and not engine.stopping:
        _ = engine.spawn(engine.publish_now())


def _is_same(one: Workflow, other: Workflow) -> bool:
    """Whether two objects are one workflow, apart from the options of `with_`, which a start carries."""
    match one, other:
        case CodeWorkflow(), CodeWorkflow():
            return one.fn is other.fn and (one.name, one.version, one.replays, one.archive) == (other.name, other.version, other.replays, other.archive)
        case GraphWorkflow(), GraphWorkflow():
            return replace(one, calling=other.calling, deadline_s=other.deadline_s, grace_s=other.grace_s) == other
        case _:
            return False


class _Registry:
    """The open stores of this process, by loop and key."""

    def __init__(self) -> None:
        self.stores: dict[tuple[asyncio.AbstractEventLoop, StoreKey], _SharedStore] = {}
        self.thread: LoopThread | None = None
        self.lock = Lock()
        self.is_watched = False
        self.closing: set[asyncio.Task[None]] = set()

    def take(self, loop: asyncio.AbstractEventLoop, key: StoreKey) -> _SharedStore:
        """Returns the store of the current loop; opens it if it is not open, or if its file was replaced."""
        self._drop_dead_loops()
        with self.lock:
            if not self.is_watched:
                atexit.register(_close_at_exit)
                self.is_watched = True
        found = self.stores.get((loop, key))
        if found is not None and found.identity != _file_identity(key.file):
            found.drop()
            found = None
        if found is None:
            found = self.stores[loop, key] = _SharedStore(key, self._forget)
        return found

    def _forget(self, store: _SharedStore) -> None:
        for place in [place for place, one in list(self.stores.items()) if one is store]:
            self.stores.pop(place, None)

    def _drop_dead_loops(self) -> None:
        """Closes the stores of loops that were closed before their tasks had ended."""
        for place, dead in list(self.stores.items()):
            if place[0].is_closed() and self.stores.pop(place, None) is dead:
                _silence(dead, place[0])
                dead.relaxing.close()
                closing = asyncio.get_running_loop().create_task(dead.store.close())
                self.closing.add(closing)
                closing.add_done_callback(self.closing.discard)


_registry = _Registry()
_inherited: list[_Registry] = []
"""Registries of the parent, in a forked child. They are kept here so that they are not finalized."""


@asynccontextmanager
async def _shared_store(db: str | None) -> AsyncIterator[_SharedStore]:
    key = _store_key(db)
    store = _SharedStore(key) if key.file is None else _registry.take(asyncio.get_running_loop(), key)  # each run has its own store in memory
    store.begin_use()
    try:
        yield store
    finally:
        await store.end_use()


def _engine_thread() -> LoopThread:
    with _registry.lock:
        if _registry.thread is None or _registry.thread.closed:
            _registry.thread = LoopThread("perdure-engine")
        return _registry.thread


async def _close_stores_of_loop() -> None:
    """Closes the stores that are open on this loop."""
    loop = asyncio.get_running_loop()
    kept = [one.kept for place, one in list(_registry.stores.items()) if place[0] is loop]
    for one in kept:
        one.cancel()
    if kept:
        _ = await asyncio.wait(kept, timeout=EXIT_S)


def _close_at_exit() -> None:
    thread = _registry.thread
    if thread is not None and not thread.closed:
        with suppress(StoreUnavailable, RuntimeError):  # the thread or its loop has ended already
            thread.call(_close_stores_of_loop())
            thread.close()
    for loop, _ in list(_registry.stores):
        if loop.is_closed() or loop.is_running():
            continue
        with suppress(RuntimeError):  # the loop can't run any more
            loop.run_until_complete(_close_stores_of_loop())
    for place, dead in _registry.stores.items():
        _silence(dead, place[0])


def _silence(dead: _SharedStore, loop: asyncio.AbstractEventLoop) -> None:
    """Suppresses the warnings about the pending tasks of a loop that no longer runs: its owner does not know of them."""
    for one in dead.engines:
        if one.engine.threads is not None:
            one.engine.threads.shutdown()
    for task in asyncio.all_tasks(loop):
        if getattr(getattr(task.get_coro(), "cr_code", None), "co_filename", "").startswith(str(Path(__file__).parent)):
            vars_of: Any = task
            vars_of._log_destroy_pending = False


def _begin_anew() -> None:
    """Replaces the registry in a forked child, where no thread and no loop of the parent runs."""
    global _registry  # one per process, and the child needs another
    _inherited.append(_registry)
    _registry = _Registry()


os.register_at_fork(after_in_child=_begin_anew)
