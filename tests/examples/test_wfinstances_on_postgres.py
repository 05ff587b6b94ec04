"""The largest scientific workflow on two engines and one Postgres, which is killed in the middle: every task is done once, and behind its parents."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples import wfinstances
from perdure.stores.postgres.store import PostgresStore
from perdure.sync_client import AsyncClient
from tests.examples.test_wfinstances import REAL, ROOT
from tests.examples.trace_engine import definition
from tests.runtime.processes import ProcessDirectory, record, until
from tests.stores.servers import PostgresServer, postgres

SMALL = ROOT / "examples/data/photo-mosaic.json"
ENGINES, TAKES_S, END_S = 2, 4.0, 240.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres(max_connections=60) as server:
        yield server


async def result(url: str, file: Path, scale: float, ledger: Path) -> object:
    """Start it if it was not, and wait for its end."""
    store = PostgresStore(url)
    workflow, _ = definition(file, scale, ledger)
    async with AsyncClient(store) as client, asyncio.timeout(END_S):
        found = await (await client.start(workflow.with_(id="1"))).result()
    await store.close()
    return found


async def start(url: str, file: Path, scale: float, ledger: Path) -> None:
    """Start it."""
    store = PostgresStore(url)
    workflow, _ = definition(file, scale, ledger)
    async with AsyncClient(store) as client:
        await client.start(workflow.with_(id="1"))
    await store.close()


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(SMALL, marks=pytest.mark.real, id="small"),
        pytest.param(max(REAL, key=lambda file: file.stat().st_size, default=SMALL), marks=pytest.mark.real, id="largest"),
    ],
)
def test_two_engines_do_every_task_once_and_behind_its_parents_though_the_server_is_killed(server: PostgresServer, tmp_path: Path, file: Path) -> None:
    scale = TAKES_S / wfinstances.bound_s(wfinstances.load(file, 1.0), 8)
    tasks, ledger = wfinstances.load(file, scale), tmp_path / "ledger"
    with ProcessDirectory(tmp_path / "stage", server.url) as stage:
        engines = [stage.begin("tests.examples.trace_engine", file, scale, server.url, ledger) for _ in range(ENGINES)]
        for engine in engines:
            engine.until_said("ready")
        asyncio.run(start(server.url, file, scale, ledger))
        until(lambda: ledger.read_text().count("ended") > len(tasks) // 2, "half of the tasks have ended", END_S)
        server.kill()
        server.start()
        asyncio.run(result(server.url, file, scale, ledger))
        for engine in engines:
            engine.end()
    lines = [line.rsplit(" ", 1) for line in ledger.read_text().splitlines()]
    done, processes = [line for line, _ in lines], Counter(process for _, process in lines)
    assert Counter(done) == Counter(f"{what} {task.id}" for task in tasks for what in ("began", "ended")), "each once"
    for task in tasks:
        assert all(done.index(f"ended {parent}") < done.index(f"began {task.id}") for parent in task.parents), task.id
    assert len(processes) == ENGINES, "both took part"
    record(
        f"{file.stem}: {len(tasks)} tasks on {ENGINES} engines, of which they did {sorted(count // 2 for count in processes.values())}; the server was killed"
    )
