"""A store is moved from a file to Postgres and back with everything in it, while engines work, also by a command that is killed."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest
from click.testing import CliRunner, Result

from perdure.cli.command_list import root
from perdure.core import messages
from perdure.core.errors import StoreMoved
from perdure.runtime.change_watcher import ChangeWatcher
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.service.store_comparison import StoreComparer, compare_stores
from perdure.service.store_moves import MovedStore, StoreMover
from perdure.stores.postgres.store import PostgresStore
from perdure.stores.protocol import HeadFilter, Store
from perdure.stores.sqlite.store import SqliteStore
from perdure.sync_client import AsyncClient
from perdure.testing.conformance import Clock
from perdure.testing.conformance.feed_suite import contents
from tests.corpus import states
from tests.corpus.make_files import signalled, start, tell
from tests.corpus.states import PRESS, WORKFLOWS
from tests.service.full_store import fill, unpack_corpus
from tests.service.test_store_copies import BOXES, filled
from tests.stores.servers import DatabaseServer, postgres
from tests.tasks.worker_setup import perdure, program
from tests.test_corpus_files import LATER_S, RESULTS, _ending

pytestmark = [pytest.mark.real, pytest.mark.slow]

numbers = count()
FLOW = """
from pathlib import Path
from perdure import Context, step, workflow

@step
def ledger(line: str) -> None:
    with Path("ledger").open("a") as file:
        file.write(line + "\\n")

@workflow
async def ships(ctx: Context, order: str) -> str:
    await ctx.step(ledger, f"{order} packed")
    found = await ctx.approve("Ship it?", assignees=["ada"])
    await ctx.step(ledger, f"{order} shipped" if found else f"{order} kept")
    return f"{order} by {found.by}"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with postgres() as server:
        yield server


@pytest.fixture
def url(server: DatabaseServer) -> str:
    """An empty database."""
    name = f"moved_{next(numbers)}"

    async def create() -> None:
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return server.url.replace("/postgres?", f"/{name}?")


def run(*arguments: str) -> Result:
    """Runs the command."""
    return CliRunner().invoke(root, ["db", *arguments])


def sides(first: Store, second: Store) -> tuple[MovedStore, MovedStore]:
    return MovedStore(first, "the first"), MovedStore(second, "the second")


async def test_everything_is_moved_to_postgres_and_back_and_is_the_same(tmp_path: Path, url: str) -> None:
    unpack_corpus(tmp_path / "first.db")
    clock = Clock(3e9)
    first, between, last = SqliteStore(tmp_path / "first.db", clock), PostgresStore(url, clock), SqliteStore(tmp_path / "last.db", clock)
    await fill(first)
    for one, other in ((first, between), (between, last)):
        report = await StoreMover(*sides(one, other)).switch()
        assert report.switched and report.verified is not None, report.differences
        assert report.verified.folded > 80
    found = await compare_stores(StoreComparer(first, last, ("A", "B")), first, last)
    assert found.differences == [] and found.counts.blobs > 10 and found.counts.messages > 100 and found.counts.records > 20
    for store in (first, between, last):
        await store.close()


async def test_what_killed_processes_left_in_a_file_is_ended_on_postgres(tmp_path: Path, url: str) -> None:
    unpack_corpus(tmp_path / "first.db")
    first = SqliteStore(tmp_path / "first.db", lambda: time.time() + LATER_S)
    store = PostgresStore(url, lambda: time.time() + LATER_S)
    assert (await StoreMover(*sides(first, store)).switch()).switched
    # Before the engine runs: so much later, it removes messages to executions that nobody has started.
    await store.commit([tell("diverged", "retry", messages.RetryMessage("mended")), tell("paused", "resume", messages.ResumeMessage())])
    await store.commit([signalled(name, "wanted") for name in ("listening", "diverged", "heavy", "looped")])
    await store.commit([start(states.expected)])
    engine, worker = Engine(store, [one.code for one in WORKFLOWS]), Worker(store, [states.press], queues=[PRESS])
    running = [asyncio.create_task(engine.run()), asyncio.create_task(worker.run())]
    watch = ChangeWatcher(store)
    async with asyncio.timeout(120):
        ended = {head.key.workflow: await _ending(watch, store, head.key) for head in await store.heads(HeadFilter(limit=1_000))}  # type: ignore[arg-type]  # it only waits for the end
    assert ended == RESULTS
    watch.close()
    for member in (engine, worker):
        member.stop()
    await asyncio.gather(*running)
    await first.close()
    await store.close()


async def test_an_execution_that_waits_for_an_approval_goes_on_at_the_other_side(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.py").write_text(FLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    ships: Any = __import__("flow").ships
    file = tmp_path / "first.db"
    source = f"sqlite:///{file}"
    async with program(*perdure("worker", "flow.py"), cwd=tmp_path, env={**os.environ, "PERDURE_DB": source}) as worker:
        async with AsyncClient(source) as client:
            handles = [await client.start(ships.with_(id=str(number)), f"order {number}") for number in range(5)]
            while len(await client.approvals("ada")) < 5:  # it is another process that has to come so far
                await asyncio.sleep(0.05)
            await client.approve("0", by="ada")
            await handles[0].result()
        assert (await asyncio.to_thread(run, "copy", source, url)).exit_code == 0
        moving = await asyncio.to_thread(run, "copy", source, url, "--switch", "--json")
        assert moving.exit_code == 0, moving.output
        report = json.loads(moving.stdout)
        assert report["switched"] and report["interrupted"] == [] and report["verified"]["folded"] >= 10
        assert await worker.process.wait() == 50
    assert any("is being moved to postgresql://" in line for line in worker.said), worker.said
    store = PostgresStore(url)
    engine = Engine(store, [ships.code])
    running = asyncio.create_task(engine.run())
    async with AsyncClient(store) as client:
        assert len(await client.approvals("ada")) == 4
        for number in range(1, 5):
            await client.approve(str(number), by="ada")
        assert [await (await client.get(str(number), ships)).result() for number in range(5)] == [f"order {number} by ada" for number in range(5)]
    engine.stop()
    await running
    lines = (tmp_path / "ledger").read_text().splitlines()
    assert sorted(lines) == sorted(f"order {number} {what}" for number in range(5) for what in ("packed", "shipped"))
    with pytest.raises(StoreMoved, match="was moved to postgresql://"):
        await SqliteStore(file).renew("late", 1)
    await store.close()


TOO_SHORT_S = 0.1
"""A time within which no command starts, so each switch is killed at least once."""


@pytest.mark.parametrize("seed", range(3))
def test_a_switch_that_is_killed_at_random_instants_is_completed_and_has_everything(seed: int, tmp_path: Path, url: str) -> None:
    file, random = tmp_path / "first.db", Random(seed)
    blobs = [f"blob {number}" for number in range(150)]

    async def fill_file() -> None:
        store = SqliteStore(file)
        world = await filled(store, Clock(), executions=150)
        await world.store.renew("one", 0)
        await store.close()

    async def compare() -> None:
        clock = Clock(4e9)  # all times have come
        opened, into = SqliteStore(file, clock), PostgresStore(url, clock)
        assert await contents(into, BOXES, blobs) == await contents(opened, BOXES, blobs)
        await opened.close()
        await into.close()

    asyncio.run(fill_file())
    command = [*perdure("db", "copy", f"sqlite:///{file}", url, "--switch", "--drain", "0")]
    kills = 0
    while (left := _ended_within(command, (0.3 + random.random()) * (1.0 + kills) / 2 if kills else TOO_SHORT_S)) is None:
        kills += 1
    assert left == 0 and kills > 0
    asyncio.run(compare())


def _ended_within(command: list[str], seconds: float) -> int | None:
    """Runs a command and kills it after a while; returns its exit code, None if it was killed."""
    child = os.spawnv(os.P_NOWAIT, command[0], command)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
