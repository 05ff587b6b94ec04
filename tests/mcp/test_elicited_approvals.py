"""Claims about what servers ask the users of their tools: people are asked by approvals, and the call goes on with their answer."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import App, Definition
from perdure.core.errors import DecisionRefused, HasEnded
from perdure.mcp import mcp_tools
from perdure.service.approvals import Approval
from perdure.stores.sqlite.store import SqliteStore

SERVER = Path(__file__).with_name("raw_server.py")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@asynccontextmanager
async def asking(given: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[tuple[App, Any]]:
    """An execution whose only step calls a tool that asks something."""
    config = {"command": sys.executable, "args": [str(SERVER)], "env": {"CALLS": str(Path.cwd() / "calls")}, "timeout": "2s", **more}
    steps = [{"id": "ask", "tool": "raw.asks", "with": given or {}, "on_error": "go_on"}]
    definition = Definition.of({"perdure": 1, "name": "flow", "steps": steps, "output": "@ask"}, tools=mcp_tools({"mcpServers": {"raw": config}}))
    async with App([definition], db="sqlite:///mcp.db") as app:
        yield app, await app.start(definition.with_(id="1"))


async def question(app: App) -> Approval:
    """The approval that waits."""
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        if found := await app.client.approvals():
            return found[0]
        await asyncio.sleep(0.05)
    raise AssertionError("nobody was asked")


@pytest.mark.slow
async def test_what_a_server_asks_is_an_approval_with_its_form_and_the_call_waits_longer_than_its_time() -> None:
    async with asking() as (app, handle):
        asked = await question(app)
        assert (asked.title, asked.form and asked.form["required"], asked.resource_id) == ("Which account?", ["account"], "flow/1")
        assert asked.details["asked by the tool"] == "raw.asks"
        await asyncio.sleep(2.5)  # the call itself may take 2 s
        await app.client.approve(asked, by="ada", value={"account": "savings", "copies": 2})
        assert await handle.result(timeout="30s") == {"action": "accept", "content": {"account": "savings", "copies": 2}}


async def test_who_rejects_declines() -> None:
    async with asking() as (app, handle):
        await app.client.reject(await question(app), by="ada")
        assert await handle.result(timeout="30s") == {"action": "decline"}


async def test_who_is_asked_listens_to_the_store_no_longer_than_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    listening: list[Callable[[], None]] = []
    on_change = SqliteStore.on_change

    def counted(store: SqliteStore, notify: Callable[[], None]) -> Callable[[], None]:
        end = on_change(store, notify)
        listening.append(end)

        def ended() -> None:
            listening.remove(end)
            end()

        return ended

    monkeypatch.setattr(SqliteStore, "on_change", counted)
    async with asking() as (app, handle):
        asked = await question(app)
        during = len(listening)
        await app.client.reject(asked, by="ada")
        _ = await handle.result(timeout="30s")
        assert len(listening) < during


async def test_an_address_is_shown() -> None:
    async with asking({"url": "https://example.com/sign-in"}) as (app, handle):
        asked = await question(app)
        assert (asked.deeplink, asked.form, asked.details["address"]) == ("https://example.com/sign-in", None, "https://example.com/sign-in")
        await app.client.approve(asked, by="ada")
        assert (await handle.result(timeout="30s"))["action"] == "accept"


@pytest.mark.slow
async def test_only_those_who_are_named_may_answer_and_only_in_time() -> None:
    async with asking(elicitation={"assignees": ["ada"], "timeout": "2s"}) as (app, handle):
        asked = await question(app)
        with pytest.raises(DecisionRefused):
            await app.client.approve(asked, by="eve", value={"account": "hers"})
        assert await handle.result(timeout="30s") == {"action": "cancel"}


async def test_without_elicitation_the_server_learns_that_nobody_can_be_asked() -> None:
    async with asking(elicitation=False) as (app, handle):
        found = await handle.result(timeout="30s")
        assert "action" not in found and found.get("code"), "an error of the protocol"
        assert not await app.client.approvals()


async def test_a_cancelled_call_withdraws_its_question() -> None:
    async with asking() as (app, handle):
        asked = await question(app)
        await handle.cancel()
        until_s = time.monotonic() + 20
        while await app.client.approvals() and time.monotonic() < until_s:
            await asyncio.sleep(0.05)
        assert not await app.client.approvals()
        with pytest.raises(HasEnded):
            await app.client.approve(asked, by="ada", value={"account": "late"})


@pytest.mark.prove
async def test_a_decision_that_was_made_while_no_engine_ran_is_the_answer_when_the_call_is_made_again(tmp_path: Path) -> None:
    config = {"command": sys.executable, "args": [str(SERVER)], "env": {"CALLS": str(tmp_path / "calls")}, "timeout": "20s"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"raw": config}}))
    command = [sys.executable, str(SERVER.with_name("killed_program.py")), "asks", "mcp.json"]
    killed = await asyncio.create_subprocess_exec(*command)
    async with App([], db="sqlite:///mcp.db", engine=False) as client:
        asked = await question(client)
        killed.kill()
        _ = await killed.wait()
        await client.client.approve(asked, by="ada", value={"account": "savings"}, wait=False)
    again = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await asyncio.wait_for(again.communicate(), 120)
    assert printed.decode().startswith("completed") and "savings" in printed.decode()
    assert (tmp_path / "calls").read_text().splitlines() == ['asks {"waits": 30}'] * 2
