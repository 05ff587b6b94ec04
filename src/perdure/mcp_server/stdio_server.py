"""Serves the protocol over standard input and output: to the program that has begun this process, until that closes the input.

Standard output has messages of the protocol alone. `take_standard_streams` therefore has to be called before any other code runs: what that prints, or a
program that it begins, goes to standard error, and reads an empty input.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, BinaryIO, NamedTuple

from perdure.core.errors import MissingExtra
from perdure.mcp_server.operation_requests import OperationRequests
from perdure.mcp_server.published_workflows import PublishedWorkflows

logger = logging.getLogger("perdure.mcp_server")

LINE_BYTES_MAX = 16 * 1024 * 1024
"""The longest message."""

LINES_WAITING_MAX = 64
LOOK_S = 3.0
"""The time between two looks whether the workflows that are tools have changed."""


class StandardStreams(NamedTuple):
    """Standard input and output as they were."""

    source: BinaryIO
    sink: BinaryIO


def take_standard_streams() -> StandardStreams:
    """Takes standard input and output for the protocol. Whatever else reads from them or writes to them has an empty input, and standard error."""
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return StandardStreams(source, sink)


class _Lines:
    """The lines of a stream as text. A thread reads them, which does not keep the process from ending. A line that is too long is empty."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self._loop = source, asyncio.get_running_loop()
        self._found: asyncio.Queue[str | None] = asyncio.Queue(LINES_WAITING_MAX)
        threading.Thread(target=self._read, name="perdure-mcp-input", daemon=True).start()

    def _read(self) -> None:
        is_rest = False
        while line := self._source.readline(LINE_BYTES_MAX):
            is_whole = line.endswith(b"\n")
            if not is_rest:
                self._put(line.decode(errors="replace") if is_whole or len(line) < LINE_BYTES_MAX else "\n")
            is_rest = not is_whole
        self._put(None)

    def _put(self, line: str | None) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._found.put(line), self._loop).result()
        except RuntimeError:  # the loop has ended, and with it the need for lines
            return

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._found.get()) is not None:
            yield line


class _Sink:
    """Writes text to a stream, in a thread."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink

    async def write(self, text: str) -> None:
        await asyncio.to_thread(self._write, text.encode(errors="replace"))

    def _write(self, raw: bytes) -> None:
        view = memoryview(raw)
        while view:
            view = view[self._sink.write(view) or 0 :]

    async def flush(self) -> None:
        """Does nothing: the stream has no buffer."""


MessageServer = Callable[[Any, Any], Coroutine[Any, Any, None]]
"""Serves a client, given the streams of its messages and of those to it, until the client has gone."""


class StdioServer:
    """Serves the client at the other end of the standard streams, as a member of a process. It has ended when the client closes the input."""

    def __init__(self, streams: StandardStreams, serve: MessageServer) -> None:
        self._streams, self._serve_messages = streams, serve
        self._serving: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def ready(self) -> None:
        """Returns at once: a client is answered as soon as `run` has begun."""

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return. Calls under way end with it; what they have asked for is durable, or has not happened."""
        self._is_stopped = True
        if self._serving is not None:
            self._serving.cancel()

    async def run(self) -> None:
        """Serves until the client closes the input, or until stopped.

        Raises:
            MissingExtra: the library of the protocol is not installed.
        """
        self._serving = asyncio.create_task(self._serve())
        if self._is_stopped:
            self._serving.cancel()
        try:
            await self._wait_for_end(self._serving)
        except* BrokenPipeError:  # the task group of the library raises it within an exception group
            logger.info("the client has gone")

    async def _wait_for_end(self, serving: asyncio.Task[None]) -> None:
        try:
            await serving
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise

    async def _serve(self) -> None:
        try:
            from mcp.server.stdio import stdio_server
        except ImportError as missing:
            raise MissingExtra("MCP", missing.name or "mcp", "mcp") from missing
        source: Any = _Lines(self._streams.source)
        sink: Any = _Sink(self._streams.sink)
        async with stdio_server(source, sink) as (read, write):
            await self._serve_messages(read, write)


def tools_of_perdure(requests: OperationRequests, published: PublishedWorkflows, *, lists_aliases: bool = False) -> MessageServer:
    """Returns what serves the tools of Perdure. A client is told when the workflows that are tools change."""

    async def serve(read: Any, write: Any) -> None:
        from perdure.mcp_server.protocol_server import ProtocolServer
        from perdure.mcp_server.tool_service import ToolService

        service = ToolService(published, lists_aliases=lists_aliases)
        server = ProtocolServer(service, lambda _: requests, tells_changes=bool(published))
        watching = asyncio.create_task(_watch(server, requests, published)) if published else None
        try:
            await server.server.run(read, write, server.options)
        finally:
            if watching is not None:
                watching.cancel()
                _ = await asyncio.gather(watching, return_exceptions=True)

    return serve


async def _watch(server: Any, requests: OperationRequests, published: PublishedWorkflows) -> None:
    """Tells the client when the workflows that are tools are others, or have another input or description."""
    from perdure.mcp_server.operation_requests import RequestRefused

    known: list[tuple[str, str, Any]] | None = None
    while True:
        try:
            now = [(one.name, one.description, one.input_schema) for one in await published.tools(requests)]
        except RequestRefused as refused:
            logger.debug("the workflows can't be listed now: %s", refused)
        else:
            if known is not None and now != known:
                await server.tell_change()
            known = now
        await asyncio.sleep(LOOK_S)
