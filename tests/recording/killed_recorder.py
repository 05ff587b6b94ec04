"""A recorder that is killed: ``killed_recorder.py CONFIG POINT``. It makes the calls of a script in the recording ``r1``, each under an id, and prints what
came of each.

Each write of the store and each call of a server is two points, before and after it. At the given one the process kills itself; with 0 it does not. It prints
the number of points that it has passed at the end.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.mcp.server_configs import read_servers
from perdure.mcp.server_session import ServerSession
from perdure.mcp.server_tools import recorded_tools
from perdure.mcp.tool_lists import kept_lists
from perdure.operations import on_recordings
from perdure.recording.recording_workflow import recording_workflow
from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import begin_engine
from perdure.service.store_access import StoreAccess
from perdure.stores.configured_store import open_store

CONFIG, POINT = sys.argv[1], int(sys.argv[2])
SCRIPT: list[tuple[str, str, dict[str, Any]]] = [
    ("1", "raw.add", {"a": 1, "b": "@input.b"}),
    ("2", "raw.charge", {"cents": "@add_1.total"}),
    ("3", "raw.put", {"again": "@add_1.total"}),
    ("4", "raw.fails", {"why": "closed"}),
    ("5", "raw.echo", {"text": "@add_1.total"}),
]
passed = 0


def pass_point() -> None:
    global passed
    passed += 1
    if passed == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def between_points(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def called(*args: Any, **kwargs: Any) -> Any:
        pass_point()
        result = await call(*args, **kwargs)
        pass_point()
        return result

    return called


async def main() -> None:
    servers = read_servers(CONFIG)
    store: Any = open_store("sqlite:///recording.db")
    store.commit = between_points(store.commit)
    session: Any = ServerSession
    session.call = between_points(session.call)
    engine = Engine(store, [recording_workflow(recorded_tools(servers, kept_lists(servers)))])
    running = await begin_engine(engine)
    access = StoreAccess(store, engine)
    await on_recordings.start(access, "default", "r1", input={"b": 41})
    for id, tool, arguments in SCRIPT:
        answer = await on_recordings.call(access, "default", "r1", tool, arguments, id)
        sys.stdout.write(json.dumps({"id": id, "step": answer.step, "error": answer.is_error, "content": answer.content}) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"points": passed}) + "\n")
    engine.stop()
    await running
    await store.close()


asyncio.run(main())
