"""Claims about a process that nobody observes: it loads neither library, wraps no store, and an engine calls nothing."""

import subprocess
import sys

import pytest

from perdure.observe.observation import UNOBSERVED, observation_of
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.memory import MemoryStore

pytestmark = pytest.mark.slow

RUN = """
import sys
from perdure import Context, step, workflow
from perdure.api.service_api import ServiceApi
from perdure.observe.observation import observation_of
from perdure.runtime.server import serve

@step
async def double(number: int) -> int:
    return 2 * number

@workflow
async def doubles(ctx: Context, number: int) -> int:
    return await ctx.step(double, number)

assert doubles.run(4) == 8
assert observation_of({"metrics_listen": None, "otel": False}).observer is None
print(sorted({name.partition(".")[0] for name in sys.modules} & {"prometheus_client", "opentelemetry"}))
"""


def test_neither_library_is_loaded(tmp_path: object) -> None:
    done = subprocess.run([sys.executable, "-c", RUN], cwd=str(tmp_path), capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


async def test_there_is_no_observer_and_no_wrapped_store() -> None:
    store = MemoryStore()
    engine, worker = Engine(store, []), Worker(store, [], queues=["q"])
    assert engine.observer is None and engine.store is store and worker.store is store
    assert observation_of({}) == UNOBSERVED and UNOBSERVED.exposition(store) is None
