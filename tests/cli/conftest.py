"""A history for the commands to look at: executions in every state, made once by a real engine; each test has a copy of the file."""

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perdure import Context, Workflow, workflow
from perdure.async_client import AsyncClient
from perdure.async_handle import AsyncHandle
from perdure.core.errors import WorkflowError
from perdure.runtime.engine import Engine
from perdure.stores.sqlite.store import SqliteStore
from tests.cli.shell import APPROVAL_FLOWS, FLOWS, Shell


def flows(file: Path = FLOWS) -> ModuleType:
    """The workflows of the tests, as a module of their own."""
    name = f"tests_cli_{file.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


DUE = datetime(2026, 1, 31, 12, tzinfo=UTC)


@workflow(name="changing")
async def before(ctx: Context) -> None:
    await ctx.listen("never")


@workflow(name="changing")
async def after(ctx: Context) -> None:
    await ctx.sleep("1d")


async def until(handle: AsyncHandle[Any], *statuses: str) -> None:
    """Wait until the execution is in one of these."""
    while (await handle.status()).status not in statuses:
        await asyncio.sleep(0.01)


async def make(file: Path) -> None:
    """One execution in each state, in the file."""
    code = flows()
    store = SqliteStore(file)
    known: list[Workflow[..., Any]] = [one for one in vars(code).values() if isinstance(one, Workflow)]
    async with AsyncClient(store) as client:
        engine = Engine(store, [one.code for one in (*known, before)])
        running = asyncio.create_task(engine.run())
        await engine.ready()
        await client.run(code.greet.with_(id="ada", attributes={"customer": "c1", "score": 0.5}), "Ada")
        await client.run(code.branches.with_(id="tree"))
        await client.run(code.odd.with_(id="käse & brot/☕ \x1b[31m"), {"deep": [1, None]})
        for failing in (client.run(code.order.with_(id="failing"), "o2", 5000), client.run(code.late.with_(id="late"))):
            with pytest.raises(WorkflowError):
                await failing
        waiting = await client.start(code.order.with_(id="waiting", attributes={"customer": "c1", "cents": 500, "due": DUE, "vip": True}), "o1")
        await until(waiting, "waiting")
        paused = await client.start(code.order.with_(id="paused", attributes={"customer": "käse & brot", "cents": 900.5, "code": "500", "vip": False}), "o3")
        await until(paused, "waiting")
        await paused.pause("lunch", wait=True)
        cancelled = await client.start(code.order.with_(id="cancelled"), "o4")
        await cancelled.cancel("out of stock", wait=True)
        changed = await client.start(before.with_(id="changed"))
        await until(changed, "waiting")
        engine.stop()
        await running
        again = Engine(store, [after.code])
        running = asyncio.create_task(again.run())
        await changed.send("nothing")
        await until(changed, "needs_attention")
        again.stop()
        await running
        await client.start(client.workflow("nowhere").with_(id="pending"), 1)
    await store.close()


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that all copies are made of."""
    file = tmp_path_factory.mktemp("history") / "perdure.db"
    asyncio.run(make(file))
    return file


async def make_approvals_history(file: Path) -> None:
    """Approvals that wait and one that was decided, and many that failed, most of them alike."""
    code = flows(APPROVAL_FLOWS)
    store = SqliteStore(file)
    async with AsyncClient(store) as client:
        engine = Engine(store, [one.code for one in vars(code).values() if isinstance(one, Workflow)])
        running = asyncio.create_task(engine.run())
        await engine.ready()
        for number in range(1, 13):
            await until(await client.start(code.pays.with_(id=f"o{number}"), f"o{number}", 2000 + number), "failed")
        await until(await client.start(code.pays.with_(id="named"), order="named", cents=9000), "failed")
        await until(await client.start(code.breaks.with_(id="broken")), "failed")
        await until(await client.start(code.pays.with_(id="fine"), "fine", 5), "completed")
        for workflow, id, args in (
            (code.ships, "s1", (["ada", "group:ops"],)),
            (code.ships, "s2", ([], 2)),
            (code.asks_two, "two", ()),
            (code.asks, "done", ()),
        ):
            await until(await client.start(workflow.with_(id=id), *args), "waiting_approval")
        while len(await client.approvals()) < 5:
            await asyncio.sleep(0.01)
        await client.approve("s2", by="bob", value={"carrier": "dhl"}, comment="by mail")
        await client.approve("done", by="ada")
        await until(await client.get("done"), "completed")
        engine.stop()
        await running
    await store.close()


@pytest.fixture(scope="session")
def approvals_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that all desks are made of."""
    file = tmp_path_factory.mktemp("desk") / "perdure.db"
    asyncio.run(make_approvals_history(file))
    return file


@pytest.fixture
def approvals_shell(approvals_history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell where people are asked, and where much has failed."""
    copied(approvals_history, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_DB", raising=False)
    monkeypatch.setenv("PERDURE_USER", "ada")
    monkeypatch.setenv("PERDURE_SIGNING_SECRET", "a secret that is long enough")
    return Shell(f"sqlite:///{tmp_path}/perdure.db")


def copied(file: Path, directory: Path) -> None:
    """Have a copy of a history in a directory."""
    for part in file.parent.glob("perdure.db*"):
        if part.is_file():
            shutil.copy(part, directory / part.name)


@pytest.fixture
def shell(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell on a copy of the history, in an empty directory."""
    copied(history, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("PERDURE_DB", raising=False)
    yield Shell(f"sqlite:///{tmp_path}/perdure.db")
    sys.modules.pop("changed", None)
    sys.modules.pop("flows", None)  # which commands have imported by its path
