"""Recording: how much longer a tool call takes that is recorded, in the process that holds the recording and from another one.

    python bench/recording.py [DIRECTORY]

The tool is one of an MCP server over standard input and output that answers at once. The bare call and the recorded one take turns on one server, so that
both see the same machine. The database is SQLite with its usual fsync, in DIRECTORY (default: that for temporary files). Beside it stands what one fsync of
the disk takes, since a recorded call waits for two: one before it is forwarded, one before its answer is returned.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perdure.core.paths import Key
from perdure.mcp.server_configs import read_servers
from perdure.mcp.server_session import ServerSession
from perdure.mcp.server_tools import recorded_tools
from perdure.mcp.tool_lists import kept_lists
from perdure.operations import on_execution_changes
from perdure.recording import recording_requests
from perdure.recording.recording_messages import CallRequest, RecordingOrder
from perdure.recording.recording_workflow import recording_workflow
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine
from perdure.runtime.workflow_programs import encode_input
from perdure.service.execution_operations import StartRequest
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import open_store

CALLS, ROUNDS = 100, 5
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    match asked["method"]:
        case "initialize":
            answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
        case "tools/list":
            takes = {"type": "object", "properties": {"id": {"type": "integer"}}}
            answer = {"tools": [{"name": "get_user", "inputSchema": takes, "annotations": {"readOnlyHint": True}}]}
        case "tools/call":
            found = {"id": asked["params"]["arguments"]["id"], "name": "Ada"}
            answer = {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}
        case _:
            answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


async def timed(call: Callable[[int], Awaitable[Any]], times: int) -> list[float]:
    """Returns how many seconds each call took."""
    found = []
    for number in range(times):
        began_s = time.perf_counter()
        _ = await call(number)
        found.append(time.perf_counter() - began_s)
    return found


def fsyncs(directory: Path, times: int) -> list[float]:
    """Returns how many seconds each fsync of a small write took."""
    found, file = [], os.open(directory / "fsync", os.O_RDWR | os.O_CREAT)
    for number in range(times):
        os.pwrite(file, b"x" * 4096, number * 4096)
        began_s = time.perf_counter()
        os.fdatasync(file)
        found.append(time.perf_counter() - began_s)
    os.close(file)
    return found


async def elsewhere(url: str, key: Key) -> None:
    """Calls as another process does, each time that it reads a line, and prints the times."""
    access = StoreAccess(open_store(url))
    for line in iter(sys.stdin.readline, ""):
        print(*await timed(caller(access, key, line.strip()), CALLS), flush=True)
    await access.aclose()
    await access.store.close()


def caller(access: StoreAccess, key: Key, name: str) -> Callable[[int], Awaitable[Any]]:
    """Returns a function that makes the recorded calls of a round."""
    return lambda number: recording_requests.call_tool(access, key, CallRequest(id=f"{name}:{number}", tool="s.get_user", arguments={"id": 7}))


async def main(directory: Path) -> None:
    """Measures, and prints what was found."""
    server_file = directory / "server.py"
    server_file.write_text(SERVER)
    os.chdir(directory)
    servers = read_servers({"mcpServers": {"s": {"command": sys.executable, "args": [str(server_file)]}}})
    tools = recorded_tools(servers, kept_lists(servers))
    url = f"sqlite:///{directory / 'recording.db'}"
    store = open_store(url)
    engine = Engine(store, [recording_workflow(tools)])
    running = await begin_engine(engine)
    access, key, bare = StoreAccess(store, engine), recording_requests.recording_key("default", "s1"), ServerSession(servers[0])
    code = engine.known[key.workflow]
    _ = await on_execution_changes.start(access, StartRequest(key=key, input=encode_input(code, (RecordingOrder(),), {}, "start")))
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, __file__, "elsewhere", url, *key, stdin=pipe, stdout=pipe)

    async def call_elsewhere(name: str) -> list[float]:
        assert other.stdin is not None and other.stdout is not None
        other.stdin.write(f"{name}\n".encode())
        return [float(one) for one in (await other.stdout.readline()).split()]

    def measures(name: str) -> dict[str, Callable[[], Awaitable[list[float]]]]:
        return {
            "bare": lambda: timed(lambda number: bare.call("get_user", {"id": 7}, {}, lambda *_: None), CALLS),
            "in the process": lambda: timed(caller(access, key, name), CALLS),
            "from another": lambda: call_elsewhere(f"other {name}"),
            "fsync": lambda: asyncio.to_thread(fsyncs, directory, CALLS),
        }

    for measure in measures("warm").values():
        _ = await measure()
    took: dict[str, list[float]] = {name: [] for name in measures("")}
    for turn in range(ROUNDS):
        for name, measure in measures(f"round {turn}").items():
            took[name] += await measure()
    for name, times in took.items():
        over = f", {1000 * (statistics.median(times) - statistics.median(took['bare'])):.2f} ms more than bare" if name not in ("bare", "fsync") else ""
        print(f"{name:>15}: median {1000 * statistics.median(times):.2f} ms, 95% {1000 * statistics.quantiles(times, n=20)[-1]:.2f} ms{over}")
    if other.stdin is not None:
        other.stdin.close()
    _ = await other.wait()
    await bare.aclose()
    engine.stop()
    await running
    await store.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["elsewhere"]:
        asyncio.run(elsewhere(sys.argv[2], Key(*sys.argv[3:])))
    else:
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as place:
            asyncio.run(main(Path(place)))
