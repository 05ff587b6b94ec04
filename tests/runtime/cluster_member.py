"""A member of a cluster, as a process: ``python -m tests.runtime.cluster_member ROLE SETTINGS``, the settings being JSON, in the directory of its stage."""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from perdure.core.errors import HasEnded, StoreUnavailable
from perdure.runtime.engine import Engine
from perdure.runtime.server import serve
from perdure.runtime.worker import Worker
from perdure.stores.configured_store import open_store
from perdure.sync_client import AsyncClient, AsyncHandle
from tests.runtime import measured_timers
from tests.runtime.flows import LARGE_BYTES, PRESS, WORKFLOWS, first, kind, listener, press, second, slow_on_a_queue, third
from tests.runtime.processes import open_any_store
from tests.stores.sqlite import planted_table_version

T = TypeVar("T")

RESULTS = "results.json"
UNAVAILABLE_S = 0.1
"""How long the client waits before it repeats a call."""


async def engine(url: str, queues: list[str]) -> None:
    """Serve until told to stop."""
    await serve([one.code for one in WORKFLOWS], [press, slow_on_a_queue], queues=queues, db=url, ready=lambda _: _say("ready"))


async def timing(url: str) -> None:
    """An engine and a worker for timers, until told to stop."""
    await serve([one.code for one in measured_timers.WORKFLOWS], [measured_timers.stuck], queues=[measured_timers.QUEUE], db=url, ready=lambda _: _say("ready"))


async def client(url: str, executions: int, every_s: float) -> None:
    """Start so many executions, send them their messages one by one, and write down their results. Killed and begun again, it does the same again.

    So it does while the store is unavailable.
    """
    store = open_any_store(url)
    async with AsyncClient(store) as asked:
        handles = [await _started(asked, number) for number in range(executions)]
        _say("started")
        listeners = [(number, handle) for number, handle in enumerate(handles) if kind(number) is listener]
        for name, handle in listeners:
            await _tell(handle, first, name)
        for name, handle in listeners:
            await asyncio.sleep(every_s)
            await _tell(handle, second, f"{name:08d}" * (LARGE_BYTES // 8))
        for name, handle in listeners:
            await _tell(handle, third, -name)
        _say("told")
        results = await asyncio.gather(*(_insist(handle.result) for handle in handles))
    await store.close()
    _write_down(results)


async def leased(url: str, lease_s: float, engine: bool = True, worker: bool = False, idle_s: float = 60.0) -> None:
    """An engine, or a worker, or both, with such a lease, until told to stop; told SIGUSR1, it gives back the memory that it does not need, and says
    how many executions are in it."""
    store = open_any_store(url)
    engines = [Engine(store, [one.code for one in WORKFLOWS], lease_s=lease_s, idle_s=idle_s, threaded=True)] if engine else []
    workers = [Worker(store, [press, slow_on_a_queue], queues=[PRESS], lease_s=lease_s, threaded=True)] if worker else []
    members: list[Engine | Worker] = [*engines, *workers]

    def stop() -> None:
        for member in members:
            member.stop(10.0)

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _trim, engines)
    running = [asyncio.create_task(member.run()) for member in members]
    for one in engines:
        await one.ready()
    _say("ready")
    await asyncio.gather(*running)
    await store.close()


def _trim(engines: list[Engine]) -> None:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _say(f"in memory: {sum(len(one._residents) for one in engines)}")


async def teller(url: str) -> None:
    """Tell again and again what time it is on the monotonic clock and on the store's, while others use the file."""
    store = open_store(url)
    while True:
        before_s = time.monotonic()
        moment = await store.store_time()
        _say(f"{before_s} {moment.now_s}")
        await asyncio.sleep(0.05)


async def opener(url: str) -> None:
    """Open the file by a version of the tables that is yet to come, and keep it open."""
    planted_table_version.plant(pytest.MonkeyPatch())
    _say("opening")
    store = open_store(url)
    _say("opened")
    store.on_wake(lambda: None)
    await store.renew("opener", 60)
    await asyncio.sleep(3600)


def _write_down(results: list[Any]) -> None:
    unfinished = Path(f"{RESULTS}.{os.getpid()}")
    unfinished.write_text(json.dumps(results))
    unfinished.rename(RESULTS)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def _tell(handle: AsyncHandle[Any], signal: Any, body: Any) -> None:
    """Send a message once, however often this is done. An execution that has ended has had it."""
    try:
        await _insist(lambda: handle.send(signal, body, key=signal.name))
    except HasEnded:
        return


async def _started(asked: AsyncClient, number: int) -> AsyncHandle[Any]:
    return await _insist(lambda: asked.start(kind(number).with_(id=str(number)), number))


async def _insist(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the store is available."""
    while True:
        try:
            return await call()
        except StoreUnavailable as error:
            sys.stderr.write(f"the client repeats a call: {error}\n")
            await asyncio.sleep(UNAVAILABLE_S)


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "engine": engine,
    "leased": leased,
    "client": client,
    "teller": teller,
    "opener": opener,
    "timing": timing,
}

if __name__ == "__main__":
    asyncio.run(ROLES[sys.argv[1]](**json.loads(sys.argv[2])))
