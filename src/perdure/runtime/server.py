"""Runs an engine, and a worker if there are queues to serve, until a signal stops the process."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from perdure.code.declarations import Step
from perdure.code.declared_queues import Queue
from perdure.core.errors import StoreMoved
from perdure.runtime.call_secrets import SecretSource
from perdure.runtime.engine import Engine
from perdure.runtime.garbage_collection import relaxed_garbage_collection
from perdure.runtime.holder import HOLDER_LEASE_S, MOVE_GRACE_S
from perdure.runtime.observed_store import ObservedStore
from perdure.runtime.observer import Observer
from perdure.runtime.registrations import worker_limits
from perdure.runtime.worker import CALLS_AT_A_TIME, Worker
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.configured_store import opened_store
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import Store

logger = logging.getLogger("perdure.serve")

SHUTDOWN_GRACE_S = 30.0
"""How long attempts in flight may take to end after the first stop signal."""

CUT_OFF_S = 8.0
"""How long members that stop may outlast the grace, so that they give back what they hold, before they are cancelled: a database may not answer."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ServerMember(Protocol):
    """A part of a serving process that runs until it is stopped."""

    async def run(self) -> None:
        """Runs until cancelled or stopped."""
        ...

    async def ready(self) -> None:
        """Waits until the member serves."""
        ...

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. What is in flight may end within `grace_s`, which a later call may shorten."""
        ...


async def serve(
    workflows: Iterable[Workflow],
    steps: Iterable[Step[Any, Any, Any]] = (),
    *,
    queues: Iterable[str] = (),
    tenants: Iterable[str] | None = None,
    declares: Iterable[Queue] = (),
    concurrency: int | None = None,
    db: str | Store | None = None,
    codec: PayloadCodec | None = None,
    grace_s: float = SHUTDOWN_GRACE_S,
    lease_s: float = HOLDER_LEASE_S,
    ready: Callable[[Engine | None], None] = lambda _: None,
    secrets: Callable[[Store], SecretSource] | None = None,
    task_server: Callable[[Store, SecretSource | None], ServerMember] | None = None,
    beside: Callable[[Store, Engine | None], ServerMember] | None = None,
    has_engine: bool = True,
    observer: Observer | None = None,
    listeners: Iterable[Callable[[Store], ServerMember]] = (),
    engine_options: Callable[[Store], Mapping[str, Any]] = lambda _: {},
) -> None:
    """Advances executions of `workflows`, and performs calls of `queues` with `steps`, until SIGTERM or Ctrl-C. Calls `ready` when it has joined the store.

    With `tenants`, only executions and calls of these are served. `concurrency` limits how many calls of the queues are performed at a time, apart from queues
    that declare a `worker_concurrency`. `secrets` makes the source of secrets from the store, which may hold a vault. `beside` makes one more member that
    takes on work from outside, such as an API: it is stopped first, and the others when it has ended. Without `has_engine`, no execution is advanced in this
    process. The `observer` is told what all members do, and `listeners` make members that show it. `engine_options` makes further options of the engine.
    If the process is killed, others take over what it had: at once on a file, and on a server `lease_s` after it last renewed its lease. After the first
    signal nothing new begins, and what is in flight may end within `grace_s`; a second signal stops at once. What has not ended continues elsewhere or later.

    With `task_server`, the member that it makes leases the tasks of the queues to other programs. Without workflows there is then no engine.

    Raises:
        StoreError: the store of `db` can't be opened. One that was open already stays open.
    """
    names, known, declared = frozenset(queues), list(workflows), list(declares)
    async with opened_store(db, codec) as opened:
        store = opened if observer is None else ObservedStore.of(opened, observer)
        found = None if secrets is None else secrets(store)
        mine = frozenset[str]() if task_server or concurrency else names - worker_limits(declared).keys()
        shared: dict[str, Any] = {"tenants": tenants, "declares": declared, "lease_s": lease_s, "threaded": True, "secrets": found, "observer": observer}
        engine = Engine(store, known, queues=mine, **engine_options(store), **shared) if has_engine and (known or task_server is None) else None
        members: list[Engine | Worker | ServerMember] = [] if engine is None else [engine]
        if task_server is not None:
            members.append(task_server(store, found))
        elif names:
            members.append(Worker(store, steps, queues=names, limit=concurrency or CALLS_AT_A_TIME, **shared))
        members += [make(store) for make in listeners]
        with relaxed_garbage_collection():
            await _run_until_signal(members, None if beside is None else beside(store, engine), lambda: ready(engine), grace_s)


async def _run_until_signal(others: list[Engine | Worker | ServerMember], front: ServerMember | None, ready: Callable[[], object], grace_s: float) -> None:
    """Runs all members until a signal stops them, or one of them has ended. A stop with grace begins with `front`, which takes on work for the others."""
    loop, members = asyncio.get_running_loop(), [*others, *([] if front is None else [front])]
    ends_s: list[float] = []
    cut_offs: list[asyncio.TimerHandle] = []

    def stop(left_s: float) -> None:
        has_joined = joined.done() or any(isinstance(member, Engine) and member.joined for member in members)
        left_s = left_s if has_joined else 0.0  # before that, nothing is in flight
        ends_s.append(loop.time() + left_s)
        for member in members if front is None or not left_s else [front]:
            member.stop(left_s)
        cut_offs.append(loop.call_later(left_s + CUT_OFF_S, cut_off))

    def cut_off() -> None:
        if left := [task for task in running if not task.done()]:
            logger.warning("the database does not answer, or a step does not end: stopping without giving back what is held. Others go on with it")
        for member in members:
            member.stop()
        for task in left:
            _ = task.cancel()

    async def all_ready() -> None:
        for member in members:
            if not isinstance(member, Worker):
                await member.ready()
        ready()

    with _stop_on_signal(stop, grace_s):
        running = [asyncio.create_task(member.run()) for member in members]
        joined = asyncio.create_task(all_ready())
        _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        joined.cancel()
        failed = [error for task in running if task.done() and not task.cancelled() and (error := task.exception()) is not None]
        left_s = max(min(ends_s, default=loop.time() + grace_s) - loop.time(), 0.0)
        for member in members:
            member.stop(MOVE_GRACE_S if failed and all(isinstance(error, StoreMoved) for error in failed) else 0.0 if failed else left_s)
        try:
            if failed:
                raise failed[0]
            await _all_ended(running)
        finally:
            for later in cut_offs:
                later.cancel()


async def _all_ended(running: list[asyncio.Task[None]]) -> None:
    """Waits until all members have ended, some of which may have been cancelled. The first failure is raised at once."""
    left = set(running)
    while left:
        ended, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            if not task.cancelled():
                task.result()


@contextmanager
def _stop_on_signal(stop: Callable[[float], object], grace_s: float) -> Iterator[None]:
    """Handles stop signals for the duration of a block: the first stops with grace, each further one without."""
    loop = asyncio.get_running_loop()
    left = [grace_s]

    def stop_on(number: int) -> None:
        if grace := left.pop() if left else 0.0:
            logger.warning("%s: stopping within %g s. A second signal stops at once", signal.Signals(number).name, grace)
        else:
            logger.warning("%s: stopping at once", signal.Signals(number).name)
        stop(grace)

    def handle(number: int, _: object) -> None:
        loop.call_soon_threadsafe(stop_on, number)

    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread only
        return
    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
