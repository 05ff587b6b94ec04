"""Sends what a stream yields while it goes on: as server-sent events, or to Perdure's own client as frames of MessagePack.

No more than `AHEAD_BYTES_MAX` is read ahead of the reader, so a slow one costs no more memory than others. One that reads nothing at all loses its connection,
and goes on behind the id of the last event that it has. While nothing comes, a comment is sent every `HEARTBEAT_S`, so that neither side takes the connection
for dead.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from perdure.api.http_requests import ApiRequest, AsgiSend
from perdure.api.json_forms import form_of
from perdure.api.problems import problem_of
from perdure.core.errors import PerdureError
from perdure.operations import wire_codec
from perdure.operations.operation_table import Operation

HEARTBEAT_S = 15.0
WAIT = b": wait\n\n"
"""A comment, which tells the reader that the connection is there."""
SERVER_SENT = "text/event-stream"

AHEAD_BYTES_MAX = 32 * 1024
"""After this much, the reader has to take some before more is read."""


Over = asyncio.Task[PerdureError | None]
"""Ends when a request is over: None if its client has gone, else the error that it is given."""


async def send_stream(request: ApiRequest, send: AsgiSend, operation: Operation, found: AsyncGenerator[Any, None], over: Over) -> None:
    """Sends everything that `found` yields, until it ends or the request is over."""
    frames = wire_codec.FRAMES in request.header("accept")
    headers = [(b"content-type", (wire_codec.FRAMES if frames else SERVER_SENT).encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if not frames:  # some proxies keep the headers back until something follows them
        await send({"type": "http.response.body", "body": WAIT, "more_body": True})

    def last_part(error: PerdureError) -> bytes:
        return wire_codec.error_frame(error) if frames else b"event: error\ndata: " + msgspec.json.encode(problem_of(error, request.places)) + b"\n\n"

    ahead = _ReadAhead(found, wire_codec.frame_of if frames else lambda one: server_sent_event(operation, one), last_part, frames)
    reading = asyncio.create_task(ahead.read())
    try:
        async for part in _parts(ahead, reading, over, wire_codec.HEARTBEAT if frames else WAIT):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if not reading.done() and (error := over.result()) is not None:
            await send({"type": "http.response.body", "body": last_part(error), "more_body": True})
    finally:
        reading.cancel()
        over.cancel()
        _ = await asyncio.gather(reading, over, return_exceptions=True)
        await found.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class _ReadAhead:
    """A buffer of encoded items of a stream that were read ahead and not sent yet."""

    def __init__(self, found: AsyncGenerator[Any, None], encode: Callable[[Any], bytes], last_part: Callable[[PerdureError], bytes], frames: bool) -> None:
        self._found, self._encode, self._last_part, self._frames = found, encode, last_part, frames
        self._parts: list[bytes] = []
        self._size_bytes = 0
        self._number = -1
        self._room = asyncio.Event()
        self.arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read(self) -> None:
        """Reads until the stream ends."""
        try:
            async for one in self._found:
                number, before = wire_codec.number_of(one), self._number
                if number != before and self._size_bytes >= AHEAD_BYTES_MAX:  # those of one number are taken together
                    self._room.clear()
                    _ = await self._room.wait()
                if number == before and self._parts and not self._frames:
                    self._parts[-1] = without_id(self._parts[-1])
                self._number = number
                self._add(self._encode(one))
        except PerdureError as error:
            self._add(self._last_part(error))

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size_bytes += len(part)
        if not self.arrived.done():
            self.arrived.set_result(None)

    def take(self) -> bytes:
        """Returns what there is, and makes room for more."""
        part = b"".join(self._parts)
        self._parts.clear()
        self._size_bytes = 0
        if self.arrived.done():
            self.arrived = asyncio.get_running_loop().create_future()
        self._room.set()
        return part


async def _parts(ahead: _ReadAhead, reading: "asyncio.Task[None]", over: Over, heartbeat: bytes) -> AsyncGenerator[bytes, None]:
    while not over.done():
        _ = await asyncio.wait((ahead.arrived, reading, over), timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED)
        if part := ahead.take():
            yield part
        elif reading.done():
            reading.result()  # a defect is reported by the server
            return
        elif not over.done():
            yield heartbeat


def without_id(event: bytes) -> bytes:
    """Returns a server-sent event without its id, for one that others of its number follow: a reader that has only this one is sent it again, and they."""
    return event.partition(b"\n")[2]


def server_sent_event(operation: Operation, one: Any) -> bytes:
    """Returns one thing of a stream as a server-sent event. Its id is the number after which a reader goes on."""
    kind = getattr(one, "type", "")
    named = f"event: {kind}\n".encode() if kind else b""
    return f"id: {wire_codec.number_of(one)}\n".encode() + named + b"data: " + msgspec.json.encode(form_of(operation.result).write(one)) + b"\n\n"
