"""Sends what a stream yields while it goes on: as server-sent events, or to Perdure's own client as frames of MessagePack.

Nothing is read ahead of the reader: the next thing is read when the one before was handed to the connection. While nothing comes, a comment is sent every
`HEARTBEAT_S`, so that neither side takes the connection for dead.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from perdure.api.http_requests import ApiRequest, AsgiSend
from perdure.api.json_forms import form_of
from perdure.api.problems import problem_of
from perdure.core.errors import PerdureError
from perdure.operations import wire_codec
from perdure.operations.operation_table import Operation

HEARTBEAT_S = 15.0
SERVER_SENT = "text/event-stream"


Over = asyncio.Task[PerdureError | None]
"""Ends when a request is over: None if its client has gone, else the error that it is given."""


async def send_stream(request: ApiRequest, send: AsgiSend, operation: Operation, found: AsyncGenerator[Any, None], over: Over) -> None:
    """Sends everything that `found` yields, until it ends or the request is over."""
    frames = wire_codec.FRAMES in request.header("accept")
    headers = [(b"content-type", (wire_codec.FRAMES if frames else SERVER_SENT).encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    encode = wire_codec.frame_of if frames else (lambda one: server_sent_event(operation, one))
    try:
        async for part in _parts(found, over, wire_codec.HEARTBEAT if frames else b": wait\n\n", encode, frames):
            await send({"type": "http.response.body", "body": part, "more_body": True})
    finally:
        over.cancel()
        _ = await asyncio.gather(over, return_exceptions=True)
        await found.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _parts(found: AsyncGenerator[Any, None], over: Over, heartbeat: bytes, encode: Any, frames: bool) -> AsyncGenerator[bytes, None]:
    coming: asyncio.Future[Any] | None = None
    try:
        while not over.done():
            coming = coming or asyncio.ensure_future(anext(found))
            _ = await asyncio.wait((coming, over), timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                if not over.done():
                    yield heartbeat
                continue
            try:
                yield encode(coming.result())
            except StopAsyncIteration:
                return
            except PerdureError as error:
                yield _last_part(error, frames)
                return
            coming = None
        if (over_by := over.result()) is not None:
            yield _last_part(over_by, frames)
    finally:
        if coming is not None and not coming.done():
            coming.cancel()
            _ = await asyncio.gather(coming, return_exceptions=True)


def _last_part(error: PerdureError, frames: bool) -> bytes:
    return wire_codec.error_frame(error) if frames else b"event: error\ndata: " + msgspec.json.encode(problem_of(error)) + b"\n\n"


def server_sent_event(operation: Operation, one: Any) -> bytes:
    """Returns one thing of a stream as a server-sent event. Its id is the number after which a reader goes on."""
    kind = getattr(one, "type", "")
    named = f"event: {kind}\n".encode() if kind else b""
    return f"id: {wire_codec.number_of(one)}\n".encode() + named + b"data: " + msgspec.json.encode(form_of(operation.result).write(one)) + b"\n\n"
