"""Runs an engine, and a worker if there are queues to serve, until a signal stops the process."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from perdure.code.declarations import Step
from perdure.code.declared_queues import Queue
from perdure.runtime.call_secrets import SecretSource
from perdure.runtime.engine import Engine
from perdure.runtime.garbage_collection import relaxed_garbage_collection
from perdure.runtime.worker import Worker
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.configured_store import opened_store
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import Store

logger = logging.getLogger("perdure.serve")

SHUTDOWN_GRACE_S = 30.0
"""How long steps in flight may take to end, once the process has been told to stop."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ServerMember(Protocol):
    """What runs in a process that serves, until it is stopped."""

    async def run(self) -> None:
        """Run until cancelled or stopped."""
        ...

    async def ready(self) -> None:
        """Wait until it does what it is there for."""
        ...

    def stop(self, grace_s: float = 0.0) -> None:
        """Make `run` return; what is in flight may end within `grace_s`. A later call may shorten that."""
        ...


async def serve(
    workflows: Iterable[Workflow],
    steps: Iterable[Step[Any, Any, Any]] = (),
    *,
    queues: Iterable[str] = (),
    declares: Iterable[Queue] = (),
    db: str | Store | None = None,
    codec: PayloadCodec | None = None,
    grace_s: float = SHUTDOWN_GRACE_S,
    ready: Callable[[Engine | None], None] = lambda _: None,
    secrets: Callable[[Store], SecretSource] | None = None,
    lends: Callable[[Store, SecretSource | None], ServerMember] | None = None,
) -> None:
    """Advance executions of `workflows`, and do calls on `queues` with `steps`, until SIGTERM or Ctrl-C; `ready` is called once it has joined the store.
    `secrets` says what finds those that calls are given, for a store that may keep some.

    With `lends`, what that makes of the store lends the work of the queues to others, and nobody does it here; without workflows there is then no engine.

    At the first signal nothing new is begun, and what is in flight may end within `grace_s`; at the second it stops at once. What has not
    ended goes on in another process, or in the next.

    Raises:
        StoreError: the store of `db` can't be opened. One that was open already stays open.
    """
    names, known = frozenset(queues), list(workflows)
    async with opened_store(db, codec) as store:
        found, mine = None if secrets is None else secrets(store), () if lends else names
        engine = Engine(store, known, queues=mine, declares=declares, threaded=True, secrets=found) if known or lends is None else None
        members: list[Engine | Worker | ServerMember] = [] if engine is None else [engine]
        if lends is not None:
            members.append(lends(store, found))
        elif names:
            members.append(Worker(store, steps, queues=names, threaded=True, secrets=found))
        with relaxed_garbage_collection():
            await _run_until_signal(members, lambda: ready(engine), grace_s)


async def _run_until_signal(members: list[Engine | Worker | ServerMember], ready: Callable[[], object], grace_s: float) -> None:
    """Run all until a signal stops them, or one of them has ended."""

    def stop(left_s: float) -> None:
        for member in members:
            member.stop(left_s)

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
        stop(0.0 if any(task.done() and task.exception() for task in running) else grace_s)
        _ = await asyncio.gather(*running)


@contextmanager
def _stop_on_signal(stop: Callable[[float], object], grace_s: float) -> Iterator[None]:
    """While this lasts, a first signal stops with grace, and any further one without."""
    loop = asyncio.get_running_loop()
    left = [grace_s]

    def told(number: int) -> None:
        grace = left.pop() if left else 0.0
        logger.warning("%s: %s", signal.Signals(number).name, f"stopping within {grace:g} s; once more stops at once" if grace else "stopping at once")
        stop(grace)

    def heard(number: int, _: object) -> None:
        loop.call_soon_threadsafe(told, number)

    if threading.current_thread() is not threading.main_thread():
        yield  # signals come to the main thread alone
        return
    before = {number: signal.signal(number, heard) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
