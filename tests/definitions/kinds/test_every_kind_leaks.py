"""Under load, every kind of steps gives back what it takes: processes, descriptors, memory and connections, also what was ended in the middle."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.definitions.kinds.bash import fork_server_client
from perdure.definitions.kinds.sandbox import monty_pool, sandbox_pool
from perdure.stores.memory import MemoryStore
from tests.definitions.kinds.http.misbehaving_server import MisbehavingServer
from tests.definitions.kinds.kind_table import KINDS, KindEnvironment, KindRow, working

pytest.importorskip("httpx2", reason="requests take the package httpx2: pip install 'perdure[http]'")
pytest.importorskip("pydantic_ai", reason="models take the package pydantic-ai-slim: pip install 'perdure[agents]'")
pytest.importorskip("quickjs", reason="sandboxes take their packages: pip install 'perdure[sandbox]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

FEW, MANY, AT_ONCE = 30, 500, 20
ENDED_OF = 20
"""Of how many steps one is ended by its time."""

GROWTH_BYTES_MAX = 40_000_000
SOON_S = 10.0


def children() -> set[int]:
    """The processes that this one has begun and that are left, zombies included."""
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def descriptors() -> dict[str, str]:
    """What this process has open."""
    found = {}
    for one in Path("/proc/self/fd").iterdir():
        try:
            found[one.name] = str(one.readlink())
        except OSError:  # it was that of the listing
            continue
    return found


def resident_bytes() -> int:
    """How much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def load(row: KindRow, directory: Path, count: int) -> None:
    """So many steps of a kind, and some more that their time ends."""
    async with MisbehavingServer() as server:
        place = KindEnvironment(server.url(), directory).served_by(server)
        each = {"in": list(range(count)), "concurrency": AT_ONCE}
        ended = {"in": list(range(count // ENDED_OF)), "concurrency": AT_ONCE, "on_error": "null"}
        limits = {"max_steps": 10 * count}
        done = {"id": "a", **row.echo(place), "each": each}
        slow = {"id": "b", "needs": ["a"], **row.slow(place), "each": ended, "timeout": 0.5, "retry": {"max": 1}}
        definition = place.definition(done, slow, {"id": "c", "needs": ["b"], "return": "@a"}, limits=limits)
        async with working(MemoryStore(), definition) as client:
            found = await client.run(definition, value="x")
        assert [row.value_of(one) for one in found] == ["x"] * count


def give_back() -> None:
    """End what is kept for the next step."""
    sandbox_pool.close_pool()
    monty_pool.close_monty_pool()
    fork_server_client.stop_fork_server()
    gc.collect()


def soon(what: Callable[[], object]) -> bool:
    """Whether something comes to hold."""
    ends_s = time.monotonic() + SOON_S
    while not what() and time.monotonic() < ends_s:
        time.sleep(0.01)
    return bool(what())


def loaded(row: KindRow, directory: Path, count: int, resident: int) -> int:
    """Load it, after it was warmed up; nothing may be left. How many bytes more it has than before."""
    asyncio.run(load(row, directory / "warm", resident))
    give_back()
    before, open_before, began_bytes = children(), descriptors(), resident_bytes()
    asyncio.run(load(row, directory / "load", count))
    give_back()
    assert soon(lambda: children() <= before), "no process is left"
    assert soon(lambda: len(descriptors()) <= len(open_before)), {one for one in descriptors().values() if one not in open_before.values()}
    return resident_bytes() - began_bytes


@pytest.fixture(autouse=True)
def _directories(tmp_path: Path) -> None:
    for name in ("warm", "load"):
        (tmp_path / name).mkdir()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bash", "http", "ts", "python"])
def test_after_some_steps_nothing_is_left(kind: str, tmp_path: Path) -> None:
    loaded(KINDS[kind], tmp_path, FEW, 1)


@pytest.mark.prove
@pytest.mark.parametrize("row", KINDS.values(), ids=KINDS)
def test_after_many_steps_nothing_is_left_and_no_memory_is_held(row: KindRow, tmp_path: Path) -> None:
    more_bytes = loaded(row, tmp_path, MANY, MANY // 2)
    assert more_bytes < GROWTH_BYTES_MAX
    print(f"{row.kind}: {more_bytes:,} bytes more after {MANY} steps")  # noqa: T201  # a proof shows what it found
