"""The tools of MCP servers, as these listed them: asked for once, then kept in ``.perdure/mcp/NAME.tools.json``, so an engine begins while a server is down.

A list is asked for anew if the configuration of its server has changed, or if the file is missing or can't be read. The first call of a process to a server
compares the lists: if the server has other tools now, a warning names them, and the new list is kept for the next start.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from perdure.core.errors import BadValue
from perdure.mcp.server_configs import McpServer
from perdure.mcp.server_session import LOGS, ServerSession

logger = logging.getLogger("perdure.mcp")

TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
TOOLS_MAX = 2_000
DESCRIPTION_CHARACTERS_MAX = 4_000
FORMAT = 1


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it. `may_repeat` says whether a call that was interrupted may be made again: it changes nothing, or nothing more."""

    name: str
    description: str = ""
    takes: dict[str, Any] = {}
    may_repeat: bool = False
    is_wrapped: bool = False


class ToolList(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a server with this configuration, and the hash of the list."""

    server: str
    tools: list[ListedTool]
    format: int = FORMAT

    @property
    def hash(self) -> str:
        """The hash of the list."""
        return sha256(msgspec.json.encode(self.tools, order="deterministic")).hexdigest()


def listed_tools(server: McpServer, answer: Sequence[Mapping[str, Any]]) -> ToolList:
    """The list of an answer to `tools/list`. Tools that the configuration leaves out, and those whose names are no names, are not in it.

    Raises:
        BadValue: there are too many.
    """
    if len(answer) > TOOLS_MAX:
        raise BadValue(f"the tools of the MCP server {server.name}", len(answer), f"{TOOLS_MAX:,} at most; name those that you need in its field `tools`")
    found = dict[str, ListedTool]()
    for one in answer:
        name = str(one.get("name", ""))
        if server.tools and name not in server.tools:
            continue
        if TOOL_NAME.fullmatch(name) is None or name in found:
            logger.warning("the MCP server %s lists a tool with the name %r, which is no name, or that of another one; it is left out", server.name, name[:80])
            continue
        found[name] = _listed(one, name)
    if lacking := [name for name in server.tools if name not in found]:
        raise BadValue(f"mcpServers.{server.name}.tools", lacking[0], f"a tool that the server has: {', '.join(sorted(map(str, found))[:20]) or 'none'}")
    return ToolList(server=config_hash(server), tools=[found[name] for name in sorted(found)])


def _listed(one: Mapping[str, Any], name: str) -> ListedTool:
    hints = one.get("annotations") or {}
    takes, gives = one.get("inputSchema") or {}, one.get("outputSchema") or {}
    return ListedTool(
        name=name,
        description=str(one.get("description") or one.get("title") or "")[:DESCRIPTION_CHARACTERS_MAX],
        takes=dict(takes) if isinstance(takes, Mapping) else {},
        may_repeat=hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True,
        is_wrapped=isinstance(gives, Mapping) and gives.get("x-fastmcp-wrap-result") is True,
    )


def kept_lists(servers: Iterable[McpServer]) -> dict[str, ToolList]:
    """The lists of servers by name: those that are kept, and for the others what the servers answer now, which is kept from then on.

    Secrets of a server that is asked are those of the environment, `PERDURE_SECRET_NAME`.

    Raises:
        ServerUnavailable: a server can't be reached.
        BadValue: a secret is not in the environment, or a list is not valid.
    """
    found = {one.name: kept for one in servers if (kept := _kept(one)) is not None}
    if missing := [one for one in servers if one.name not in found]:
        found |= _in_thread(missing)
    return found


def sign_in(server: McpServer) -> ToolList:
    """Lets a person sign in to a server in a browser, and asks it for its tools, which are kept.

    Raises:
        ServerUnavailable: the server can't be reached, or nobody signed in.
        BadValue: the list is not valid.
    """
    return _in_thread([server], opens_browser=True)[server.name]


def keep_list(server: McpServer, now: ToolList) -> bool:
    """Keeps a list; returns whether there was another one before."""
    before = _kept(server)
    if before is not None and before.hash == now.hash:
        return False
    path = _file(server)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}.tmp")
    written.write_bytes(msgspec.json.format(msgspec.json.encode(now)))
    written.replace(path)
    return before is not None


def secrets_of_environment(server: McpServer) -> dict[str, str]:
    """The secrets that a server is given, from the environment.

    Raises:
        BadValue: one is not there.
    """
    found = {name: os.environ.get(f"PERDURE_SECRET_{name}") for name in server.secrets}
    for name, value in found.items():
        if value is None:
            raise BadValue(f"the secret {name} of the MCP server {server.name}", "", f"set, to list its tools: PERDURE_SECRET_{name}")
    return {name: value for name, value in found.items() if value is not None}


def _kept(server: McpServer) -> ToolList | None:
    try:
        kept = msgspec.json.decode(_file(server).read_bytes(), type=ToolList)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("the list of the tools of the MCP server %s can't be read, and is asked for anew: %s", server.name, error)
        return None
    return kept if kept.server == config_hash(server) and kept.format == FORMAT else None


def _file(server: McpServer) -> Path:
    return LOGS / f"{server.name}.tools.json"


def config_hash(server: McpServer) -> str:
    """The hash of the configuration of a server."""
    return sha256(msgspec.json.encode(server, order="deterministic")).hexdigest()


def _in_thread(servers: Sequence[McpServer], *, opens_browser: bool = False) -> dict[str, ToolList]:
    """Asks servers on a loop of its own, since a loop may run here."""
    result: list[dict[str, ToolList] | BaseException] = []

    def ask() -> None:
        try:
            result.append(asyncio.run(_asked(servers, opens_browser)))
        except BaseException as error:  # the thread that waits raises it
            result.append(error)

    thread = threading.Thread(target=ask, name="perdure-mcp-lists")
    thread.start()
    thread.join()
    (found,) = result
    if isinstance(found, BaseException):
        raise found
    return found


async def _asked(servers: Sequence[McpServer], opens_browser: bool) -> dict[str, ToolList]:
    lists = await asyncio.gather(*(_ask(one, opens_browser) for one in servers))
    return {server.name: found for server, found in zip(servers, lists, strict=True)}


async def _ask(server: McpServer, opens_browser: bool) -> ToolList:
    session = ServerSession(server, opens_browser=opens_browser)
    try:
        found = listed_tools(server, await session.tools(secrets_of_environment(server)))
    finally:
        await session.aclose()
    _ = keep_list(server, found)
    return found
