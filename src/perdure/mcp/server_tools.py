"""Tools of MCP servers as steps, named after their server: ``files.read_file``.

What a call that was interrupted becomes is decided by what the server says of the tool: one that changes nothing, or nothing more, is called again; of any
other one it is not known whether it has done its work, and the step ends as interrupted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from perdure.code.declarations import Retry, Step
from perdure.code.function_codec import FunctionCodec
from perdure.code.step_environment import Resource, current_resources, step_info
from perdure.core.errors import BadExpression, BadValue, Fatal
from perdure.definitions.expr import json_schema
from perdure.definitions.kinds.deployment import Deployment
from perdure.mcp.asked_models import AskedModel
from perdure.mcp.call_channels import NO_CHANNELS, AskedCaller, CallChannel, CallChannels
from perdure.mcp.elicited_approvals import Asked, AskedPeople
from perdure.mcp.server_configs import McpServer, read_servers
from perdure.mcp.server_session import AnswerLost, ServerSession, ServerUnavailable
from perdure.mcp.tool_lists import ListedTool, ToolList, config_hash, keep_list, kept_lists, listed_tools
from perdure.mcp.tool_results import error_of_result, value_of_result
from perdure.recording.recording_messages import ToolAnswer, ToolCallFailed
from perdure.recording.recording_workflow import ToolFinder

logger = logging.getLogger("perdure.mcp")

GRACE_S = 10.0
"""How much longer than a call, and what people are asked meanwhile, its step may take: for the connection to be opened and the answer to be read."""


NO_MODELS: Mapping[str, Any] = MappingProxyType({})
"""No model by a name of its own; a vendor's own, such as ``anthropic:MODEL``, needs none."""


class McpInDoubt(Fatal):
    """There was no answer, so it is not known whether the tool has done its work, which may not be done twice."""

    code = "in_doubt"


class McpArgumentsRefused(Fatal):
    """The arguments do not fit the schema of the tool, which was not called."""

    code = "bad_value"


class _ToolCodec(FunctionCodec):
    """The codec of a tool, whose arguments are described by its own schema."""

    def __init__(self, fn: Callable[..., Any], takes: Mapping[str, Any]) -> None:
        super().__init__(fn, 0)
        self._takes = takes

    def schema(self) -> dict[str, Any]:
        """See `FunctionCodec.schema`."""
        return {"type": "object", "properties": {}, **self._takes}


@dataclasses.dataclass(frozen=True)
class McpTool(Step[..., Any, Any]):
    """A tool of a server as a step. `takes` is the JSON Schema of its arguments."""

    takes: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def codec(self) -> FunctionCodec:
        """The codec of the arguments."""
        return _ToolCodec(self.fn, self.takes)


def mcp_tools(source: str | Path | Mapping[str, Any], models: Mapping[str, Any] = NO_MODELS) -> list[Step[..., Any, Any]]:
    """Returns the tools of the servers in a configuration as steps: ``App(tools=[*mcp_tools("mcp.json")])``. See `server_configs` for its form.

    The lists of tools are kept in ``.perdure/mcp``; a server without one is asked now. A call takes 30 s at most unless its server has another `timeout`.
    The program of a server is begun by the first call, once in a process, and ends with the engine or worker. `models` are those that servers may ask, if
    their `sampling` names one (see `Deployment.models`).

    Raises:
        BadValue: the configuration is not valid.
        ServerUnavailable: a server whose list is not kept can't be reached.
    """
    servers = read_servers(source)
    lists = kept_lists(servers)
    return [_step(server, tool, server_sessions(server, lists[server.name]), models) for server in servers for tool in lists[server.name].tools]


def recorded_tools(
    servers: Sequence[McpServer], lists: Mapping[str, ToolList], channels: CallChannels = NO_CHANNELS, models: Mapping[str, Any] = NO_MODELS
) -> ToolFinder:
    """Returns what finds the tools of servers as the steps of recordings, by their names. Their results are whole answers, and failures are not repeated.

    `channels` are to those who call in this process, and `models` those that servers may ask.
    """
    known = {f"{server.name}.{tool.name}": (server, tool) for server in servers for tool in lists[server.name].tools}

    def find(name: str, call_id: str) -> Step[..., Any, Any] | None:
        if (found := known.get(name)) is None:
            return None
        server, tool = found
        return _recorded_step(server, tool, server_sessions(server, lists[server.name]), models, channels, call_id)

    return find


_sessions: dict[tuple[str, str], Resource[_CheckedSession]] = {}
"""By the configuration of a server and the hash of its list: the session that each engine or worker opens once, however often the tools were asked for."""


def server_sessions(server: McpServer, known: ToolList) -> Resource[_CheckedSession]:
    """Returns the session with a server that the steps of an engine or worker share."""
    return _sessions.setdefault((config_hash(server), known.hash), _session(server, known))


def _session(server: McpServer, known: ToolList) -> Resource[_CheckedSession]:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[_CheckedSession]:
        session = _CheckedSession(server, known)
        try:
            yield session
        finally:
            await session.aclose()

    return Resource(f"mcp:{server.name}", opened)


def _step(server: McpServer, tool: ListedTool, sessions: Resource[_CheckedSession], models: Mapping[str, Any]) -> Step[..., Any, Any]:
    async def call(**arguments: Any) -> Any:
        return value_of_result(await _asked_server(server, tool, sessions, arguments, models), is_wrapped=tool.is_wrapped)

    call.__doc__ = tool.description
    retry = Retry() if tool.may_repeat else Retry(max=1)
    return McpTool(call, f"{server.name}.{tool.name}", retry=retry, timeout=_timeout_s(server), idempotent=tool.may_repeat, takes=tool.takes)


def _recorded_step(
    server: McpServer, tool: ListedTool, sessions: Resource[_CheckedSession], models: Mapping[str, Any], channels: CallChannels, call_id: str
) -> Step[..., Any, Any]:
    async def call(**arguments: Any) -> ToolAnswer:
        channel = channels.of(step_info().execution, call_id)
        answer = await _asked_server(server, tool, sessions, arguments, models, channel)
        if answer.get("isError"):
            raise ToolCallFailed(error_of_result(answer), answer)
        return ToolAnswer(answer.get("content") or [], answer.get("structuredContent", msgspec.UNSET), tool.is_wrapped)

    # Who records sees the failure, and decides whether to call again. A server that can't be reached was certainly not called.
    options: dict[str, Any] = {"retry": Retry(only=(ServerUnavailable,)), "timeout": _timeout_s(server), "idempotent": tool.may_repeat}
    return McpTool(call, f"{server.name}.{tool.name}", raises=(ToolCallFailed,), takes=tool.takes, **options)


def _timeout_s(server: McpServer) -> float:
    asked_s = (server.elicitation.timeout_s if server.elicitation.is_allowed else 0.0) + (0.0 if server.sampling is None else server.sampling.timeout_s)
    return server.timeout_s + asked_s + GRACE_S


async def _asked_server(
    server: McpServer,
    tool: ListedTool,
    sessions: Resource[_CheckedSession],
    arguments: Mapping[str, Any],
    models: Mapping[str, Any],
    channel: CallChannel | None = None,
) -> dict[str, Any]:
    """Calls a tool within a step, and returns its answer as JSON of the protocol. With a `channel`, whoever called is told of the progress, and is asked."""
    _check(tool, arguments)
    info = step_info()
    secrets = {name: await asyncio.to_thread(info.secret, name) for name in server.secrets}
    if lacking := [name for name, value in secrets.items() if value is None]:
        raise Fatal(f"the secret {lacking[0]} of the MCP server {server.name} is not set. Set it: perdure secret set {lacking[0]}")

    async def progress(done: float, total: float | None, message: str | None) -> None:
        info.heartbeat({"progress": done, "total": total, "message": (message or "")[:200]})
        if channel is not None:
            await channel.report(done, total, message)

    session = await sessions
    given = {name: value for name, value in secrets.items() if value is not None}
    asked: Asked = AskedPeople(server, tool.name, info, current_resources.get().store)
    if channel is not None and channel.takes_questions:
        asked = AskedCaller(channel, info)
    model = None if server.sampling is None else AskedModel(server.name, server.sampling, info, Deployment(models=models))
    try:
        return await session.call(tool.name, arguments, given, progress, asked, model)
    except AnswerLost as error:
        if tool.may_repeat:
            raise
        raise McpInDoubt(f"{error}. It may have done its work; {server.name} does not say that it may be called twice") from error


def _check(tool: ListedTool, arguments: Mapping[str, Any]) -> None:
    if tool.takes and (problems := _problems(tool.takes, arguments)):
        raise McpArgumentsRefused(f"{tool.name} does not take this: {'; '.join(problems[:5])}")


def _problems(takes: dict[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    try:
        return json_schema.schema_problems(takes, dict(arguments))
    except BadExpression:  # the server describes its tool by what is no schema; it checks the arguments itself
        return []


class _CheckedSession(ServerSession):
    """A session that looks once whether the tools of the server are those that are known."""

    def __init__(self, server: McpServer, known: ToolList) -> None:
        super().__init__(server)
        self._known, self._has_looked = known, False

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        secrets: Mapping[str, str],
        progress: Any,
        people: Asked | None = None,
        model: AskedModel | None = None,
    ) -> dict[str, Any]:
        """See `ServerSession.call`."""
        if not self._has_looked:
            self._has_looked = True
            await self._look(secrets)
        return await super().call(tool, arguments, secrets, progress, people, model)

    async def _look(self, secrets: Mapping[str, str]) -> None:
        try:
            now = listed_tools(self.server, await self.tools(secrets))
        except BadValue as error:  # its tools are those that are known, as long as the server performs them
            logger.warning("the MCP server %s has other tools than its configuration takes, and is used as it was listed: %s", self.server.name, error)
            return
        if now.hash == self._known.hash:
            return
        _ = await asyncio.to_thread(keep_list, self.server, now)
        before, after = ({one.name: one for one in known.tools} for known in (self._known, now))
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        logger.warning(
            "the tools of the MCP server %s have changed since they were listed: %s. The next start of this program takes them as they are now",
            self.server.name,
            ", ".join(changed[:20]),
        )
