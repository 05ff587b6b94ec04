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
from tests.examples.trace_engine import TASKS_AT_A_TIME, definition
from tests.runtime.processes import ProcessDirectory, record, until
from tests.stores.servers import PostgresServer, postgres

SMALL = ROOT / "examples/data/photo-mosaic.json"
LARGEST = max(REAL, key=lambda file: file.stat().st_size, default=SMALL)
ENGINES, TAKES_S, END_S = 2, 4.0, 240.0
IN_FLIGHT = ENGINES * TASKS_AT_A_TIME
"""How many attempts may be in flight when the server is killed. Such an attempt is handed out again if it can't be known whether its worker has it."""


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


@pytest.mark.real
@pytest.mark.parametrize(
    "file",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(LARGEST, id="largest", marks=pytest.mark.skipif(not REAL, reason="there are no input files beside the project")),
    ],
)
def test_two_engines_do_every_task_behind_its_parents_and_none_again_that_was_recorded_though_the_server_is_killed(
    server: PostgresServer, tmp_path: Path, file: Path
) -> None:
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
    ended = {task.id: [number for number, line in enumerate(done) if line == f"ended {task.id}"] for task in tasks}
    assert all(ended.values()) and len(done) <= 2 * (len(tasks) + IN_FLIGHT), "what was not in flight is done once"
    for task in tasks:
        began = [number for number, line in enumerate(done) if line == f"began {task.id}"]
        assert all(ended[parent][0] < began[0] for parent in task.parents), task.id
        recorded = min((done.index(f"began {child.id}") for child in tasks if task.id in child.parents), default=len(done))
        assert began[-1] < recorded, f"{task.id} began again after a task that needs it had begun"
    assert len(processes) == ENGINES, "both took part"
    record(
        f"{file.stem}: {len(tasks)} tasks on {ENGINES} engines, of which they did {sorted(count // 2 for count in processes.values())}; the server was killed"
    )
