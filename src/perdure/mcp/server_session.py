"""A connection to one MCP server, for all steps of a process: opened when it is first needed, opened anew after it broke, closed at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perdure.core.errors import MissingExtra
from perdure.mcp.server_configs import McpServer, with_secrets

logger = logging.getLogger("perdure.mcp")

CONNECT_S = 30.0
SUMMARY_CHARACTERS_MAX = 300
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
"""How long a server that can't be reached is left alone: doubled with each failure in a row."""

LOGS = Path(".perdure/mcp")
"""Where what programs write to standard error is kept, a file for each server."""

Progress = Callable[[float, float | None, str | None], Any]


class ServerUnavailable(Exception):
    """The server can't be reached, so the tool was certainly not called. The step is retried by its policy."""

    code = "mcp_unavailable"


class AnswerLost(Exception):
    """The connection broke, the time was over, or the answer could not be read: it is not known whether the tool has done its work."""

    code = "mcp_answer_lost"


class ServerSession:
    """The session of a process with one server; calls run side by side."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._client: Any = None
        self._opening = asyncio.Lock()
        self._failures, self._not_before_s = 0, 0.0

    async def call(self, tool: str, arguments: Mapping[str, Any], secrets: Mapping[str, str], progress: Progress) -> dict[str, Any]:
        """Calls a tool, and returns its answer as JSON of the protocol.

        Raises:
            ServerUnavailable: the server can't be reached.
            AnswerLost: there was no answer.
        """
        client = await self._opened(secrets)
        from mcp.shared.exceptions import MCPError  # imported here, as everything of the library, because most processes call no tool
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        try:
            answer = await client.call_tool_mcp(tool, dict(arguments), progress_handler=progress, timeout=self.server.timeout_s)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise AnswerLost(f"{self.server.name} did not answer to {tool} within {self.server.timeout_s:g} s") from error
            if error.code == CONNECTION_CLOSED:
                await self._drop(client)
                raise AnswerLost(f"{self.server.name} ended while {tool} was called") from error
            return {"isError": True, "content": [{"type": "text", "text": error.error.message}]}
        except ValueError as error:  # what the library raises about an answer that is not one of the protocol
            raise AnswerLost(f"what {self.server.name} answered to {tool} is no result of a tool: {_summary(error)[:SUMMARY_CHARACTERS_MAX]}") from error
        except (OSError, RuntimeError, EOFError) as error:
            await self._drop(client)
            raise AnswerLost(f"the connection to {self.server.name} broke while {tool} was called: {error}") from error
        found: dict[str, Any] = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        return found

    async def tools(self, secrets: Mapping[str, str]) -> list[dict[str, Any]]:
        """Lists the tools of the server, as JSON of the protocol.

        Raises:
            ServerUnavailable: the server can't be reached.
        """
        client = await self._opened(secrets)
        try:
            listed = await asyncio.wait_for(client.list_tools(), CONNECT_S)
        except Exception as error:  # a server may answer anything, and the library raises what its parts raise
            await self._drop(client)
            raise ServerUnavailable(f"{self.server.name} did not list its tools: {_summary(error)}") from error
        return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed]

    async def aclose(self) -> None:
        """Ends the connection, and with it the program."""
        if self._client is not None:
            await self._drop(self._client)

    async def _opened(self, secrets: Mapping[str, str]) -> Any:
        async with self._opening:
            if self._client is not None and self._client.is_connected():
                return self._client
            self._client = None
            if (left_s := self._not_before_s - time.monotonic()) > 0:
                raise ServerUnavailable(f"{self.server.name} could not be reached, and is tried again in {left_s:.1f} s")
            try:
                client = _new_client(self.server, secrets)
                await asyncio.wait_for(client.__aenter__(), CONNECT_S)
            except MissingExtra:
                raise
            except Exception as error:  # beginning a program or a connection may fail in any way
                self._failures += 1
                self._not_before_s = time.monotonic() + min(PAUSE_S * 2 ** (self._failures - 1), PAUSE_S_MAX)
                raise ServerUnavailable(f"the MCP server {self.server.name} can't be reached: {_summary(error)}{self._hint()}") from error
            self._failures = 0
            self._client = client
            return client

    def _hint(self) -> str:
        return f" (what it printed is in {LOGS / f'{self.server.name}.log'})" if self.server.transport == "stdio" else ""

    async def _drop(self, client: Any) -> None:
        """Closes a connection that is not used any more."""
        if self._client is client:
            self._client = None
        try:
            await asyncio.wait_for(client.close(), CONNECT_S)
        except Exception as error:  # it is closed as well as it can be
            logger.warning("the connection to the MCP server %s did not close: %s", self.server.name, _summary(error))


def _new_client(server: McpServer, secrets: Mapping[str, str]) -> Any:
    try:
        from fastmcp import Client
        from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
    except ImportError as error:
        raise MissingExtra("tools of MCP servers", "fastmcp", "mcp") from error
    if server.transport == "stdio":
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{server.name}.log"
        transport: Any = StdioTransport(server.command, list(server.args), with_secrets(server.env, secrets), server.cwd, keep_alive=False, log_file=log)
    elif server.transport == "sse":
        transport = SSETransport(server.url, headers=with_secrets(server.headers, secrets))
    else:
        transport = StreamableHttpTransport(server.url, headers=with_secrets(server.headers, secrets))
    return Client(transport, name=server.name, init_timeout=CONNECT_S)


def _summary(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
