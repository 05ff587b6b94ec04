"""Claims about the connections of a process to a server: each is used with one set of secrets only, and few that are not in use stay open."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Definition
from perdure.async_client import AsyncClient
from perdure.core.secret_masks import SecretFinder
from perdure.mcp import mcp_tools
from perdure.mcp.server_configs import McpServer, read_servers
from perdure.mcp.server_session import UNUSED_CONNECTIONS_MAX, ServerSession, ServerUnavailable
from perdure.runtime.engine import Engine
from perdure.stores.memory import MemoryStore

SERVER = Path(__file__).with_name("raw_server.py")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(**more: Any) -> dict[str, Any]:
    env = {"CALLS": str(Path.cwd() / "calls"), "API_KEY": "@{secrets.KEY}"}
    return {"mcpServers": {"raw": {"command": sys.executable, "args": [str(SERVER)], "env": env, "timeout": "20s", **more}}}


def server() -> McpServer:
    (found,) = read_servers(config())
    return found


@asynccontextmanager
async def opened(server: McpServer) -> AsyncIterator[ServerSession]:
    session = ServerSession(server)
    try:
        yield session
    finally:
        await session.aclose()


async def key(session: ServerSession, secret: str, waits_s: float = 0.0) -> tuple[str, int]:
    """The secret that the server of a call has, and the number of its process."""
    answer = await session.call("key", {"waits_s": waits_s}, {"KEY": secret}, lambda *_: None)
    found = json.loads(answer["content"][0]["text"])
    return found["reversed"][::-1], found["process"]


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < until_s, "it did not happen within 30 s"
        await asyncio.sleep(0.05)


class TenantKeys:
    """Finds the key of each tenant, which may be changed."""

    def __init__(self) -> None:
        self.keys = {"acme": "key-of-acme", "globex": "key-of-globex"}

    def of(self, tenant: str) -> SecretFinder:
        return lambda _: self.keys[tenant]


@pytest.mark.slow
async def test_steps_of_each_tenant_are_performed_by_a_server_with_its_secrets_also_after_these_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SECRET_KEY", "key-of-the-list")
    steps = [{"id": "key", "tool": "raw.key", "with": {"waits_s": 0.2}}]
    definition = Definition.of({"perdure": 1, "name": "flow", "steps": steps, "output": "@key.reversed"}, tools=mcp_tools(config()))
    store, tenants = MemoryStore(), TenantKeys()
    engine = Engine(store, [definition.code], secrets=tenants)
    running = asyncio.create_task(engine.run())
    await engine.ready()
    try:
        async with AsyncClient(store) as client:

            async def keys(number: str) -> list[str]:
                handles = [await client.start(definition.with_(id=number, tenant=tenant)) for tenant in ("acme", "globex")]
                return [found[::-1] for found in await asyncio.gather(*(handle.result("30s") for handle in handles))]

            assert await keys("1") == ["key-of-acme", "key-of-globex"]
            assert await keys("2") == ["key-of-acme", "key-of-globex"]
            tenants.keys["acme"] = "next-key-of-acme"
            assert await keys("3") == ["next-key-of-acme", "key-of-globex"]
    finally:
        engine.stop()
        await running


async def test_calls_with_the_same_secrets_share_a_connection_and_others_run_beside_them() -> None:
    async with opened(server()) as session:
        first, second, other = await asyncio.gather(key(session, "one", 0.2), key(session, "one"), key(session, "two"))
        assert first == second and (first[0], other[0]) == ("one", "two") and first[1] != other[1]
    assert not is_running(first[1]) and not is_running(other[1])


@pytest.mark.slow
async def test_of_connections_that_are_not_in_use_those_are_closed_whose_last_call_began_the_longest_ago() -> None:
    async with opened(server()) as session:
        kept = await key(session, "kept")
        oldest = await key(session, "oldest")
        waiting = asyncio.create_task(key(session, "waiting", 3.0))
        for number in range(UNUSED_CONNECTIONS_MAX - 1):
            await key(session, f"other-{number}")
            assert await key(session, "kept") == kept
        await until(lambda: not is_running(oldest[1]))
        assert await key(session, "kept") == kept
        assert (await waiting)[0] == "waiting"


async def test_a_server_that_refuses_one_set_of_secrets_is_open_to_others_at_once() -> None:
    about = server()
    refusing = f"import os, sys; os.environ['API_KEY'] != 'bad' or sys.exit(1); os.execv(sys.executable, [sys.executable, {str(SERVER)!r}])"
    async with opened(McpServer(name="raw", transport="stdio", command=sys.executable, args=("-c", refusing), env=about.env)) as session:
        with pytest.raises(ServerUnavailable, match="can't be reached"):
            await key(session, "bad")
        with pytest.raises(ServerUnavailable, match="is tried again in"):
            await key(session, "bad")
        assert (await key(session, "good"))[0] == "good"
