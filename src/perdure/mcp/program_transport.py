"""The connection with the program of a server: lines of JSON over its standard input and output.

The program is supervised: it ends with all that it has started when the connection ends, also after a kill -9 of this process. A line that is longer than an
answer may be ends it as well. This module imports the library, so it is imported with the first connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import anyio
from fastmcp.client.transports.base import ClientTransport, TransportOptions
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from perdure.supervision.child_process import ChildProcess

logger = logging.getLogger("perdure.mcp")

ANSWER_BYTES_MAX = 16_000_000
"""How long a line of a server may be, and an event of one over HTTP."""

LOG_BYTES_MAX = 10_000_000
"""How much of what a program prints is kept; then the file is begun anew, and the one before is kept as ``.1``."""


class ProgramTransport(ClientTransport):
    """Begins the program of a server for one connection. `end_reason` says why this side ended it; empty if it did not."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: str | None, log: Path) -> None:
        self._command, self._environment, self._cwd, self._log = command, {**get_default_environment(), **environment}, cwd, log
        self.end_reason = ""

    @asynccontextmanager
    async def connect_session(self, *, transport_options: TransportOptions | None = None, **session_kwargs: Any) -> AsyncGenerator[Any]:
        """See `ClientTransport.connect_session`."""
        options = transport_options or TransportOptions()
        child = await ChildProcess.start(self._command, self._environment, piped=True, cwd=self._cwd, line_bytes_max=ANSWER_BYTES_MAX)
        received, to_session = anyio.create_memory_object_stream[Any](0)[::-1]
        from_session, sent = anyio.create_memory_object_stream[Any](0)[::-1]
        process = child.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        tasks = [
            asyncio.create_task(self._read(process.stdout, to_session)),
            asyncio.create_task(_write(process.stdin, from_session, to_session)),
            asyncio.create_task(keep_log(process.stderr, self._log)),
        ]
        try:
            async with options.session_class(received, sent, **session_kwargs) as session:
                yield session
        finally:
            process.stdin.close()
            try:
                _ = await child.end()
            finally:
                for task in tasks:
                    _ = task.cancel()
                _ = await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, lines: asyncio.StreamReader, to_session: Any) -> None:
        """Passes on what the program says, until it says no more, or too much."""
        async with to_session:
            try:
                while line := await lines.readline():
                    await to_session.send(_message(line))
            except ValueError:  # how a stream of asyncio says that a line is too long
                self.end_reason = f"it answered with a line of more than {ANSWER_BYTES_MAX:,} bytes"
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the session is over


async def keep_log(printed: asyncio.StreamReader, path: Path) -> None:
    """Appends to a log what a program prints, until that prints no more. All is read, even if it can't be kept, or the program would wait for a reader."""
    log: _ProgramLog | None = _ProgramLog(path)
    try:
        while chunk := await printed.read(65_536):
            if log is not None:
                try:
                    log.append(chunk)
                except OSError as error:
                    logger.warning("what the MCP server prints can't be kept in %s any more: %s", path, error)
                    log.close()
                    log = None
    finally:
        if log is not None:
            log.close()


class _ProgramLog:
    """A log of bounded size. Several programs append to it, and whichever finds it full begins it anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None

    def append(self, chunk: bytes) -> None:
        """Appends a chunk, to another file if this one would become too large."""
        if self._file is None:
            self._file = self._opened()
        now = os.fstat(self._file.fileno())
        if now.st_size + len(chunk) > LOG_BYTES_MAX:
            self.close()
            if self._path.exists() and os.path.samestat(self._path.stat(), now):  # otherwise another program has begun it anew
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file = self._opened()
        _ = self._file.write(chunk)

    def close(self) -> None:
        """Closes the file; a file that is closed stays so."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> FileIO:
        return FileIO(self._path, "a", opener=lambda path, flags: os.open(path, flags, 0o600))


async def _write(to_program: asyncio.StreamWriter, from_session: Any, to_session: Any) -> None:
    try:
        async with from_session:
            async for one in from_session:
                to_program.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await to_program.drain()
    except (ConnectionError, anyio.ClosedResourceError):
        await to_session.aclose()  # the program may still run: the session sees that the connection has ended


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
