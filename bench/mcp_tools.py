"""How fast models are answered over MCP: importing, listing a hundred tools, and a call, in this process and over HTTP.

python -m bench.mcp_tools
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from perdure import App, Context, workflow
from perdure.api.api_server import ApiServer, listening_socket, url_of
from perdure.api.service_api import DEFAULTS, ServiceApi
from perdure.mcp_server import McpEndpoint, PublishedWorkflows
from perdure.mcp_server.tool_service import ToolService
from perdure.runtime.garbage_collection import relaxed_garbage_collection
from perdure.service.access_keys import KeyRequest, create_key

ROUNDS = 20
LISTED = 100
BUDGET_MS = 100.0


@workflow
async def double(ctx: Context, n: int) -> int:
    """Doubles."""
    return 2 * n


def import_s(*names: str) -> float:
    """How long a new process takes to import modules, beyond its own start: the median of five."""

    def took(code: str) -> float:
        began_s = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began_s

    code = "; ".join(f"import {name}" for name in names)
    return median(took(code) for _ in range(5)) - median(took("pass") for _ in range(5))


async def times_ms(act: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """The median and the longest time of a call, after one that is not counted."""
    _ = await act()
    found = list[float]()
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        _ = await act()
        found.append((time.perf_counter() - began_s) * 1000)
    return median(found), max(found)


async def measure(directory: Path) -> list[tuple[str, float, float]]:
    """The times of listing and calling over HTTP with a key."""
    found = list[tuple[str, float, float]]()
    async with App([double], tools=[], db=f"sqlite:///{directory}/bench.db") as app:
        access = app.client.access
        own = len(ToolService()._tools)
        for number in range(LISTED - own - 1):  # one is that of the workflow of code
            document = {
                "perdure": 1,
                "name": f"made-{number}",
                "input": {"a": {"type": "string"}, "b": {"type": "integer"}},
                "steps": [{"id": "s", "set": {"v": 1}}],
                "vars": {"v": 0},
            }  # a document in one line
            _ = await app.client.catalog.create(document)
        service = ServiceApi(access, DEFAULTS._replace(rate_per_s=0.0), mcp=McpEndpoint(PublishedWorkflows(["all"])))
        listening = listening_socket("127.0.0.1", 0)
        server = ApiServer(service.app, listening)
        running = asyncio.create_task(server.run())
        await server.ready()
        key = (await create_key(access.store, "default", KeyRequest(name="bench", roles=("admin",)), "bench")).text
        began_s = time.perf_counter()
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}) as http,
            Client(streamable_http_client(f"{url_of(listening)}/mcp", http_client=http)) as client,
        ):
            tools = (await client.list_tools()).tools
            found.append((f"the first client, until it has {len(tools)} tools", (time.perf_counter() - began_s) * 1000, 0.0))
            assert len(tools) == LISTED, len(tools)
            found.append((f"list {len(tools)} tools", *await times_ms(client.list_tools)))
            found.append(("call list_executions", *await times_ms(lambda: client.call_tool("list_executions", {"limit": 10}))))
            found.append(
                ("call start_workflow, with the result", *await times_ms(lambda: client.call_tool("start_workflow", {"workflow": "double", "input": {"n": 2}})))
            )
        server.stop()
        await running
    return found


def main() -> None:
    """Measures, and prints a line for each time."""
    own = import_s("perdure.mcp_server", "perdure.mcp_server.tool_service")
    print(f"import of the tools, without the library of the protocol: {own * 1000:.0f} ms")
    print(f"import of the library of the protocol, when the first client comes: {import_s('mcp.server.streamable_http_manager') * 1000:.0f} ms")
    with tempfile.TemporaryDirectory() as directory, relaxed_garbage_collection():  # as in `perdure serve`
        found = asyncio.run(measure(Path(directory)))
    for name, usual, longest in found:
        print(f"{name}: {usual:.1f} ms" + (f", {longest:.1f} ms at most" if longest else ""))
    listed = next(usual for name, usual, _ in found if name.startswith("list "))
    if listed > BUDGET_MS:
        sys.exit(f"listing takes {listed:.0f} ms, more than {BUDGET_MS:.0f}")


if __name__ == "__main__":
    main()
