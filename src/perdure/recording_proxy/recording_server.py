"""The MCP server of a recording, by the library of the protocol. Importing this module takes one to two seconds, so it is imported when a client comes.

A call of a tool is recorded, and answered with what the tool has answered. Everything else passes through: progress, questions of servers and cancellation of
calls, resources and prompts. A few tools of its own show the recording, preset results, and save or end it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

import mcp_types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from perdure.core import values
from perdure.core.errors import PerdureError
from perdure.core.paths import Key
from perdure.definitions.expr.json_schema import schema_problems
from perdure.definitions.expr.plain_values import shortened
from perdure.mcp.call_channels import CallChannels
from perdure.mcp.elicited_approvals import Answer, Question
from perdure.operations import on_recordings
from perdure.operations.on_recordings import ToolCallAnswer, tool_call_answer
from perdure.recording import recording_requests
from perdure.recording.recording_messages import CallRequest
from perdure.recording.recording_view import RecordedCall
from perdure.recording_proxy.connected_servers import ConnectedServers
from perdure.recording_proxy.listed_names import listed_names, with_references
from perdure.service.server_description import package_version
from perdure.service.store_access import StoreAccess

logger = logging.getLogger("perdure.mcp")

INSTRUCTIONS = """Each call of a tool is recorded as a step and can be repeated later with other input. A step is named after its tool and counted per tool, \
failed calls too: the first call of get_user is get_user_1, the second get_user_2. Where an argument comes from an earlier result, or from the input of the \
recording, pass a reference in place of the value, as the whole text: "@get_user_1.id", "@list_items_1.items[0].name", "@input.customer". A reference is \
replaced by its value before the tool is called. Begin a text that really starts with @ with two: "@@alice". recording_status shows the steps so far."""

CALL_ID, STEP = "perdure/callId", "perdure/step"
"""Fields of `_meta`: in a request, the id of the call, under which it is made once; in an answer, the step that the call has become."""

RequestId = str | int | None
"""The id of a request in the protocol, which its client has chosen."""

_TEXT = {"type": "string"}
OWN_TOOLS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "recording_status": ("Shows the recording: its input, and its latest steps with their states.", {}),
    "recording_preset": (
        "Gives the result of a call without making it: of a step to come or that has failed (step), or of a tool, as a new step (tool and arguments).",
        {"result": {}, "step": _TEXT, "tool": _TEXT, "arguments": {"type": "object"}},
    ),
    "recording_input": ("Sets values of @input.", {"values": {"type": "object"}}),
    "recording_save": (
        "Saves the recording as a definition under a name, or with draft as a draft. Calls that have failed are left out.",
        {"name": _TEXT, "draft": {"type": "boolean"}, "order": {"enum": ["recorded", "references"]}},
    ),
    "recording_end": ("Ends the recording. It takes no more calls.", {}),
}
REQUIRED = {"recording_preset": ["result"], "recording_input": ["values"], "recording_save": ["name"]}

STATUS_CALLS, LINE_CHARACTERS_MAX, INPUT_CHARACTERS_MAX = 50, 600, 4000
"""How much the status shows: so many of the latest calls, each and the title with so many characters, and so many of the input."""
ARGUMENT_CHARACTERS_MAX = 200


def _input_schema(name: str) -> dict[str, Any]:
    """Returns the schema of the arguments of an own tool."""
    return {"type": "object", "properties": OWN_TOOLS[name][1], "required": REQUIRED.get(name, []), "additionalProperties": False}


class _ClientChannel:
    """The client that has made a call."""

    def __init__(self, context: ServerRequestContext[Any], *, takes_questions: bool) -> None:
        self._context, self.takes_questions = context, takes_questions

    async def report(self, done: float, total: float | None, message: str | None) -> None:
        """Tells of the progress."""
        try:
            await self._context.session.report_progress(done, total, message)
        except Exception as error:  # the client has gone; the call goes on, and is recorded
            logger.debug("progress did not reach the client: %s", error)

    async def ask(self, question: Question) -> Answer:
        """Asks the client; one that takes no questions declines."""
        session, id = self._context.session, self._context.request_id
        try:
            if question.url:
                found = await session.elicit_url(question.message, question.url, uuid4().hex, related_request_id=id)
            else:
                found = await session.elicit_form(question.message, dict(question.form or {"type": "object", "properties": {}}), related_request_id=id)
        except Exception as error:  # of the library: the client takes no questions, or has gone
            logger.warning("what a server asked could not be put to the client, and is declined: %s", error)
            return Answer("decline")
        return Answer(found.action, found.content)


class RecordingServer:
    """The server of one recording. `author` is who saves definitions.

    `access_for` returns the access for an operation, and raises Forbidden if the client may not call it; by default it may call all. Unless the client
    `takes_questions`, what servers ask becomes approvals.
    """

    def __init__(
        self,
        access: StoreAccess,
        key: Key,
        servers: ConnectedServers,
        channels: CallChannels,
        author: str,
        *,
        access_for: Callable[[Callable[..., Any]], StoreAccess] | None = None,
        takes_questions: bool = True,
    ) -> None:
        self._access, self._key, self._servers, self._channels, self._author = access, key, servers, channels, author
        self._access_for = access_for or (lambda _: access)
        self._takes_questions = takes_questions
        self._tools = {f"{server.name}.{tool.name}": tool for server in servers.servers for tool in servers.lists[server.name].tools}
        self._names = listed_names(self._tools, OWN_TOOLS)
        self._endings: set[asyncio.Task[None]] = set()
        self._open: dict[RequestId, str] = {}
        self.server: Server[Any] = Server(
            "perdure-recording",
            version=package_version(),
            title="Perdure: a recording",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    # Tools.

    async def _list_tools(self, _: ServerRequestContext[Any], __: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListToolsResult:
        found = [
            mcp_types.Tool(name=name, description=self._tools[full].description, input_schema=with_references(self._tools[full].takes))
            for name, full in self._names.items()
        ]
        found += [mcp_types.Tool(name=name, description=about[0], input_schema=_input_schema(name)) for name, about in OWN_TOOLS.items()]
        return mcp_types.ListToolsResult(tools=found)

    async def _call_tool(self, context: ServerRequestContext[Any], params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        try:
            if params.name in OWN_TOOLS:
                given = params.arguments or {}
                if problems := schema_problems(_input_schema(params.name), given):
                    takes = ", ".join(f"{name} (required)" if name in REQUIRED.get(params.name, []) else name for name in OWN_TOOLS[params.name][1])
                    what = f"{params.name} has done nothing, since its arguments do not fit its schema: {'; '.join(problems)}"
                    return _text(f"{what}. Call it again with {takes or 'no arguments'}", is_error=True)
                return _text(await self._own_tool(params.name, given))
            full = self._names.get(params.name) or (params.name if params.name in self._tools else "")
            if not full:
                return _text(f"there is no tool {params.name!r}", is_error=True)
            return await self._record(context, full, params.arguments or {})
        except PerdureError as error:
            return _text(str(error), is_error=True)

    async def _record(self, context: ServerRequestContext[Any], tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        given = str(_meta(context).get(CALL_ID) or "")
        request = CallRequest(id=given or uuid4().hex, tool=tool, arguments=arguments)
        self._open[context.request_id] = request.id
        try:
            with self._channels.opened(self._key, request.id, _ClientChannel(context, takes_questions=self._takes_questions)):
                found = await recording_requests.call_tool(self._access, self._key, request, is_new=not given)
        except asyncio.CancelledError:
            self._cancel(request.id)
            raise
        finally:
            _ = self._open.pop(context.request_id, None)  # a client that uses an id twice has two requests under it
        return _result(tool_call_answer(found))

    def is_open(self, request_id: RequestId) -> bool:
        """Returns whether a request of this id waits for the answer of a tool."""
        return request_id in self._open

    def cancel(self, request_id: RequestId) -> None:
        """Has the call of a request end, whose client does not want it any more. The request is answered with what the call has become."""
        self._cancel(self._open[request_id])

    def _cancel(self, id: str) -> None:
        """Has a call end that its client has cancelled."""

        async def end() -> None:
            with suppress(PerdureError):  # the recording has ended, and the call with it
                await recording_requests.cancel_call(self._access, self._key, id)

        task = asyncio.create_task(end())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _own_tool(self, name: str, given: dict[str, Any]) -> str:
        access, tenant, id = self._access_for, self._key.tenant, self._key.id
        match name:
            case "recording_status":
                return await self._status()
            case "recording_preset":
                raw = values.encode(given["result"], "the result")
                tool, arguments = given.get("tool", ""), given.get("arguments", {})
                preset = await on_recordings.preset(
                    access(on_recordings.preset), tenant, id, raw, step=given.get("step", ""), tool=self._names.get(tool, tool), arguments=arguments
                )
                return f"{preset.step} has this result, and is marked as preset"
            case "recording_input":
                await on_recordings.set_input(access(on_recordings.set_input), tenant, id, given["values"])
                return "the input is set"
            case "recording_save":
                order, draft = given.get("order", "recorded"), given.get("draft", False)
                saved = await on_recordings.save(access(on_recordings.save), tenant, id, given["name"], self._author, order=order, draft=draft)
                return f"saved as {saved.slug}" + (f"@{saved.version}" if saved.version else "") + (", as a draft" if saved.has_draft else "")
            case _:
                await on_recordings.end(access(on_recordings.end), tenant, id)
                return "the recording has ended; it can still be saved"

    async def _status(self) -> str:
        access, tenant, id = self._access_for(on_recordings.read), self._key.tenant, self._key.id
        found = await on_recordings.read(access, tenant, id, limit=STATUS_CALLS)
        if (hidden := found.calls_in_all - STATUS_CALLS) > 0:
            found = await on_recordings.read(access, tenant, id, hidden, STATUS_CALLS)
        title = f" ({shortened(found.title, LINE_CHARACTERS_MAX)})" if found.title else ""
        lines = [f"recording {id}{title}, {'open' if found.open else 'ended'}", f"@input: {_json(found.input, INPUT_CHARACTERS_MAX)}"]
        if hidden > 0:
            lines.append(f"{hidden} earlier calls are not shown. perdure recording show {id} shows them")
        return "\n".join([*lines, *map(_status_line, found.calls)])

    # What is not recorded.

    async def _list_resources(self, _: ServerRequestContext[Any], __: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListResourcesResult:
        return mcp_types.ListResourcesResult.model_validate({"resources": await self._servers.resources()})

    async def _list_templates(self, _: ServerRequestContext[Any], __: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListResourceTemplatesResult:
        return mcp_types.ListResourceTemplatesResult.model_validate({"resourceTemplates": await self._servers.resource_templates()})

    async def _read_resource(self, _: ServerRequestContext[Any], params: mcp_types.ReadResourceRequestParams) -> Any:
        return await _forwarded(self._servers.read_resource(str(params.uri)))

    async def _list_prompts(self, _: ServerRequestContext[Any], __: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListPromptsResult:
        return mcp_types.ListPromptsResult.model_validate({"prompts": await self._servers.prompts()})

    async def _get_prompt(self, _: ServerRequestContext[Any], params: mcp_types.GetPromptRequestParams) -> Any:
        return await _forwarded(self._servers.get_prompt(params.name, params.arguments))


def _status_line(call: RecordedCall) -> str:
    state = f"{call.state}, preset" if call.is_preset else call.state
    line = f"@{call.step} = {call.tool}({_json(call.arguments, ARGUMENT_CHARACTERS_MAX)}): {state}{f': {call.error}' if call.error else ''}"
    return shortened(line, LINE_CHARACTERS_MAX)


def _json(value: Any, characters_max: int) -> str:
    return shortened(msgspec.json.encode(value).decode(), characters_max)


async def _forwarded(asked: Any) -> Any:
    try:
        return await asked
    except PerdureError as error:
        raise MCPError(mcp_types.INVALID_PARAMS, str(error)) from error


def _meta(context: ServerRequestContext[Any]) -> Mapping[str, Any]:
    found = (context.params or {}).get("_meta")
    return found if isinstance(found, Mapping) else {}


def _text(text: str, *, is_error: bool = False) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=text)], is_error=is_error)


def _result(answer: ToolCallAnswer) -> mcp_types.CallToolResult:
    """An answer in the form of the protocol, with the step beside it."""
    found: dict[str, Any] = {"content": answer.content, "isError": answer.is_error, "_meta": {STEP: answer.step}}
    if isinstance(answer.structured_content, Mapping):
        found["structuredContent"] = answer.structured_content
    return mcp_types.CallToolResult.model_validate(found)
