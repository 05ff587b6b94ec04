"""The server of `bench.http_api`: the API on one port, and on another one, in the same process, an application that answers what it is asked at once."""

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from perdure import App, Context, Signal, step, workflow
from perdure.api.api_app import ApiApp
from perdure.api.api_server import ApiServer, listening_socket, url_of
from perdure.api.http_requests import AsgiReceive, AsgiScope, AsgiSend
from perdure.api.loopback_access import LoopbackAccess
from perdure.core import events as e
from perdure.core import log_format, values
from perdure.core.operations import Success
from perdure.core.paths import Key
from perdure.core.program import program_name
from perdure.stores.protocol import Commit
from perdure.stores.sqlite.store import SqliteStore

TOKEN = "a token of the benchmark"
AT_ONCE = 1_000


@step
async def add(a: int, b: int) -> int:
    """The one step."""
    return a + b


@workflow
async def calc(ctx: Context, a: int, b: int = 1) -> int:
    """An execution of one step."""
    return await ctx.step(add, a, b)


never = Signal("never", int)


@workflow
async def listen(ctx: Context) -> int:
    """Waits for a message that never comes."""
    return await ctx.listen(never)


@workflow
async def talk(ctx: Context, count: int) -> int:
    """Emits many values."""
    for number in range(count):
        ctx.emit({"number": number})
    return count


class TrivialApp:
    """Answers a POST with what its body says, a GET with a constant, and ``/in-process`` with how long a start takes without HTTP."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.is_stopping = False

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Answers one request."""
        body = b'{"workflow":"calc","id":"x","status":"completed"}'
        if scope["path"] == "/in-process":
            body = json.dumps({"p50_s": await self._in_process()}).encode()
        elif scope["method"] == "POST":
            raw = b""
            while True:
                message = await receive()
                raw += message.get("body", b"")
                if not message.get("more_body", False):
                    break
            body = msgspec.json.encode({"workflow": "calc", "id": msgspec.json.decode(raw)["id"], "created": True})
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _in_process(self) -> float:
        taken: list[float] = []
        for _ in range(200):
            began_s = time.perf_counter()
            handle = await self._app.client.start(calc, 3, 4)
            taken.append(time.perf_counter() - began_s)
            _ = await handle.result()
        return statistics.median(taken)


async def fill(file: Path, count: int) -> None:
    """Writes executions that have ended, as an engine does."""
    store = SqliteStore(file, synchronous="OFF")
    epoch, program = (await store.store_time()).epoch, program_name("filled", 1)
    begun = e.StartedEvent(1, 1.0e9, values.encode(([1], {}), "an input"))
    row = log_format.encode_row([begun, e.EndedEvent("completed", Success(values.encode(1, "a result")), 1.0e9)])
    for first in range(0, count, AT_ONCE):
        changes = [
            Commit(
                key=(key := Key("default", "filled", f"f{number}")),
                epoch=epoch,
                holder="",
                version=0,
                program=program,
                root=key,
                creates=True,
                row=row,
                count=2,
                status="failed" if number % 100 == 0 else "completed",
                release=True,
            )
            for number in range(first, min(first + AT_ONCE, count))
        ]
        _ = await store.commit(changes)
    await store.close()


async def main(file: Path, count: int) -> None:
    """Serves until it is ended."""
    await fill(file, count)
    async with App([calc, talk, listen], db=f"sqlite:///{file}") as app:
        handle = await app.client.start(listen.with_(id="l"))
        while (await handle.status()).open == 0:  # noqa: ASYNC110  # it begins at once
            await asyncio.sleep(0.01)
        access = app.client._access.on_store("the benchmark")
        sockets = [listening_socket("127.0.0.1", 0) for _ in range(2)]
        apps: list[Any] = [ApiApp(access, LoopbackAccess(TOKEN)), TrivialApp(app)]
        servers = [ApiServer(one, listening) for one, listening in zip(apps, sockets, strict=True)]
        running = [asyncio.create_task(server.run()) for server in servers]
        for server in servers:
            await server.ready()
        sys.stdout.write(json.dumps([url_of(one) for one in sockets]) + "\n")
        sys.stdout.flush()
        _ = await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
