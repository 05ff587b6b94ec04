"""The MCP servers behind a proxy: what they have besides tools is forwarded over the same sessions that the tools use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from perdure.core.errors import BadValue, NotFound
from perdure.mcp.server_configs import McpServer
from perdure.mcp.server_session import ServerSession, ServerUnavailable
from perdure.mcp.server_tools import server_sessions
from perdure.mcp.tool_lists import ToolList
from perdure.runtime.call_secrets import secret_finder
from perdure.runtime.engine import Engine

T = TypeVar("T")
logger = logging.getLogger("perdure.mcp")

Described = dict[str, Any]
"""A resource, a template or a prompt, as JSON of the protocol."""


class ConnectedServers:
    """Servers, the lists of their tools, and the engine whose steps use them."""

    def __init__(self, servers: Sequence[McpServer], lists: Mapping[str, ToolList], engine: Engine, tenant: str) -> None:
        self.servers, self.lists = servers, lists
        self._engine, self._tenant = engine, tenant
        self._server_of: dict[str, McpServer] = {}

    async def resources(self) -> list[Described]:
        """The resources of all servers that have some."""
        return await self._listed("resources", lambda client: client.list_resources(), "uri")

    async def resource_templates(self) -> list[Described]:
        """The templates of resources of all servers."""
        return await self._listed("resource templates", lambda client: client.list_resource_templates(), "uriTemplate")

    async def prompts(self) -> list[Described]:
        """The prompts of all servers."""
        return await self._listed("prompts", lambda client: client.list_prompts(), "name")

    async def read_resource(self, uri: str) -> Any:
        """Reads a resource from the server that has listed it, or else from the first that has it."""
        return await self._first("a resource", uri, lambda client: client.read_resource_mcp(uri))

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None) -> Any:
        """Gets a prompt from the server that has listed it, or else from the first that has it."""
        return await self._first("a prompt", name, lambda client: client.get_prompt_mcp(name, dict(arguments or {})))

    async def _listed(self, what: str, ask: Callable[[Any], Awaitable[Sequence[Any]]], name: str) -> list[Described]:
        found: list[Described] = []
        for server in self.servers:
            try:
                async with self._client(server) as client:
                    listed = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in await ask(client)]
            except Exception as error:  # a server that has none answers with an error; one that can't be reached has none now
                logger.debug("the MCP server %s lists no %s: %s", server.name, what, error)
                continue
            found += [one for one in listed if self._server_of.setdefault(str(one.get(name)), server) is server]
        return found

    async def _first(self, what: str, name: str, ask: Callable[[Any], Awaitable[T]]) -> T:
        known = self._server_of.get(name)
        failed: Exception | None = None
        for server in self.servers if known is None else (known,):
            try:
                async with self._client(server) as client:
                    return await ask(client)
            except Exception as error:  # it may be any error of a server, or that it has nothing of this name
                failed = error
        raise NotFound(f"no server has {what} {name!r}" if failed is None else f"{what} {name!r} can't be had: {failed}")

    @asynccontextmanager
    async def _client(self, server: McpServer) -> AsyncIterator[Any]:
        session: ServerSession = await self._engine.resources.get(server_sessions(server, self.lists[server.name]))
        find = secret_finder(self._engine.secrets, self._tenant)
        secrets = {name: await asyncio.to_thread(find, name) for name in server.secrets}
        if lacking := [name for name, value in secrets.items() if value is None]:
            raise ServerUnavailable(f"the secret {lacking[0]} of the MCP server {server.name} is not set. Set it: perdure secret set {lacking[0]}")
        async with session.client({name: value for name, value in secrets.items() if value is not None}) as client:
            yield client


def chosen_servers(servers: Sequence[McpServer]) -> Sequence[McpServer]:
    """Returns the servers that a proxy is given.

    Raises:
        BadValue: there are none.
    """
    if not servers:
        raise BadValue("--tools", "no server", "a file such as mcp.json with a server that is not disabled: its tools are what is recorded")
    return servers
