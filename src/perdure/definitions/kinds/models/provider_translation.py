"""Translates requests to the types of the client library, and its responses to answers. Nothing here waits."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.definitions.kinds.models import model_messages
from perdure.definitions.kinds.models.model_errors import ModelUnavailable
from perdure.definitions.kinds.models.model_messages import ChatAnswer, ChatMessage, ChatRequest, ModelUsage, ThinkingBlock, ToolCall
from perdure.definitions.kinds.models.model_sources import ModelPrice
from perdure.definitions.kinds.models.untrusted_text import untrusted

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ModelResponsePart
    from pydantic_ai.models import Model, ModelRequestParameters

ANSWER = "answer"
"""The tool by which data is answered where a model has no other way to be held to a schema; a _ follows where a tool is called so already."""

VALUE = "value"
"""Where the data stands if the schema is not one of an object, which is all that providers take."""


NAME_CHARACTERS_MAX = 64
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_-]")


def provider_names(request: ChatRequest) -> dict[str, str]:
    """The names under which a provider is given the tools of a request, by their own: providers take at most 64 of the characters A-Z, a-z, 0-9, _ and -.

    Tools that are no longer offered and stand in the conversation are among them. Each has a name of its own, the same in every request with the same tools.
    """
    called = [call.name for message in request.messages for call in message.calls]
    answered = [message.name for message in request.messages if message.role not in ("user", "assistant")]
    found: dict[str, str] = {}
    for name in dict.fromkeys((*(tool.name for tool in request.tools), *called, *answered)):
        plain = _UNNAMEABLE.sub("_", name)[:NAME_CHARACTERS_MAX] or "_"
        number, free = 1, plain
        while free in found.values():
            number += 1
            free = f"{plain[: NAME_CHARACTERS_MAX - len(str(number)) - 1]}_{number}"
        found[name] = free
    return found


def provider_messages(request: ChatRequest, provider: str) -> list[ModelMessage]:
    """The conversation so far, the system's words first, as `provider` gets it. What it has had before it gets again unchanged, so its cache applies."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart

    found: list[ModelMessage] = []
    names = provider_names(request)
    said: list[ModelRequestPart] = [SystemPromptPart(request.system)] if request.system else []
    for message in request.messages:
        if message.role != "assistant":
            said.append(_part(message, names))
            continue
        if said:
            found.append(ModelRequest(parts=said))
            said = []
        found.append(ModelResponse(parts=_answered(message, names, provider), provider_name=provider))
    if said:
        found.append(ModelRequest(parts=said))
    return found


def _part(message: ChatMessage, names: Mapping[str, str]) -> ModelRequestPart:
    from pydantic_ai.messages import BinaryContent, ToolReturnPart, UserPromptPart

    files = [BinaryContent(one.data, media_type=one.media_type) for one in message.attachments]
    if message.role == "user":
        return UserPromptPart([message.text, *files] if files else message.text)
    told = untrusted(message.text)
    return ToolReturnPart(names[message.name], [told, *files] if files else told, message.call_id, outcome="failed" if message.is_error else "success")


def _answered(message: ChatMessage, names: Mapping[str, str], provider: str) -> list[ModelResponsePart]:
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    own = [
        (block, ThinkingPart(block.text, id=block.id or None, signature=block.signature or None, provider_name=provider, provider_details=block.details))
        for block in message.thinking
        if block.provider == provider
    ]
    parts: list[ModelResponsePart] = [part for block, part in own if not (block.calls_before or block.after_text)]
    parts += [TextPart(message.text)] if message.text else []
    parts += [part for block, part in own if block.after_text and not block.calls_before]
    for number, call in enumerate(message.calls, 1):
        parts.append(ToolCallPart(names[call.name], call.args, call.id))
        parts += [part for block, part in own if block.calls_before == number]
    return parts


def provider_parameters(request: ChatRequest, model: Model) -> ModelRequestParameters:
    """The tools that the model may ask for, and the schema that it is held to: by the provider itself where it does that, else by a tool."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    names = provider_names(request)
    tools = [ToolDefinition(name=names[tool.name], description=tool.description, parameters_json_schema=tool.schema) for tool in request.tools]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    schema = object_schema_of(request.schema)
    if model.profile.get("supports_json_schema_output") and not (model.system == "anthropic" and _has_maps(schema)):
        return ModelRequestParameters(
            function_tools=tools, output_mode="native", output_object=OutputObjectDefinition(json_schema=schema, name=ANSWER), allow_text_output=True
        )
    answer = ToolDefinition(name=_answering(request), description="The answer.", parameters_json_schema=schema, kind="output")
    return ModelRequestParameters(function_tools=tools, output_mode="tool", output_tools=[answer], allow_text_output=False)


def _answering(request: ChatRequest) -> str:
    name = ANSWER
    taken = {*provider_names(request).values()}
    while name in taken:
        name += "_"
    return name


def _is_object(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object" or "properties" in schema


def object_schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object: this one, or one with this as its only property."""
    if _is_object(schema):
        return {"type": "object", **schema}
    inner = {name: value for name, value in schema.items() if name not in ("$defs", "definitions", "$schema")}
    outer: dict[str, Any] = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return {"type": "object", "properties": {VALUE: inner}, "required": [VALUE], "additionalProperties": False, **outer}


def _has_maps(schema: Any) -> bool:
    """Whether it contains objects with arbitrary keys, which one provider would take to be empty."""
    if isinstance(schema, list):
        return any(map(_has_maps, schema))
    if not isinstance(schema, dict):
        return False
    return schema.get("additionalProperties", False) is not False or any(map(_has_maps, schema.values()))


def model_answer(response: ModelResponse, request: ChatRequest, price: ModelPrice | None) -> ChatAnswer:
    """The answer for a response of the library.

    Raises:
        ModelUnavailable: the arguments of a tool call are not an object, or the provider reports a failure.
    """
    from pydantic_ai.messages import TextPart, ToolCallPart

    if response.finish_reason == "error":
        raise ModelUnavailable(f"{request.model}: the provider reported a failure in the middle of its answer")
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    asked = [part for part in response.parts if isinstance(part, ToolCallPart)]
    output = _answering(request) if request.schema is not None else ""
    calls = _calls([part for part in asked if part.tool_name != output], request, response.finish_reason == "length")
    data = None
    if request.schema is not None and not calls:
        given: Any = next((part.args for part in asked if part.tool_name == output), text)
        is_read, data = _data(given, request.schema)
        text = "" if is_read else given if isinstance(given, str) else str(given)
    finish = {"length": "length", "content_filter": "filter"}.get(response.finish_reason or "", "tool" if calls else "stop")
    found = ChatAnswer(
        text=text,
        data=data,
        calls=calls,
        finish=finish,  # type: ignore[arg-type]  # it is one of them
        model=response.model_name or "",
        provider=response.provider_name or "",
        thinking=_thinking(response.parts),
    )
    return msgspec.structs.replace(found, usage=_usage(response, price, found, request))


def _thinking(parts: Sequence[ModelResponsePart]) -> tuple[ThinkingBlock, ...]:
    """What the model thought, and where between its text and its calls it did."""
    from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

    found, calls, has_text = list[ThinkingBlock](), 0, False
    for part in parts:
        calls, has_text = calls + isinstance(part, ToolCallPart), has_text or (isinstance(part, TextPart) and bool(part.content))
        if isinstance(part, ThinkingPart):
            own = (part.id or "", part.signature or "", part.provider_name or "", part.provider_details)
            found.append(ThinkingBlock(part.content, *own, calls, has_text))
    return tuple(found)


def _calls(parts: Sequence[Any], request: ChatRequest, is_cut: bool) -> tuple[ToolCall, ...]:
    found = list[ToolCall]()
    own = {given: name for name, given in provider_names(request).items()}
    for part in parts:
        is_read, args = _decoded(part.args)
        if is_read and isinstance(args, dict):
            found.append(ToolCall(part.tool_call_id, own.get(part.tool_name, part.tool_name), args))
        elif not is_cut:  # the finish reason already tells that an answer was cut off
            raise ModelUnavailable(f"{request.model}: the model called {part.tool_name} with arguments that are not a JSON object: {str(part.args)[:200]}")
    return tuple(found)


def _decoded(given: Any) -> tuple[bool, Any]:
    if given is None or given == "":
        return True, {}
    if not isinstance(given, str):
        return True, given
    try:
        return True, msgspec.json.decode(given)
    except msgspec.DecodeError:
        return False, None


def _data(given: Any, schema: dict[str, Any]) -> tuple[bool, Any]:
    """Whether it is data, and which."""
    if given is None or given == "":
        return False, None
    is_read, data = _decoded(given)
    if is_read and not _is_object(schema):
        is_read = isinstance(data, dict) and VALUE in data
        data = data[VALUE] if is_read else None
    return is_read, data


def _usage(response: ModelResponse, price: ModelPrice | None, found: ChatAnswer, request: ChatRequest) -> ModelUsage:
    """The usage of a response: at the price of the source, else at the known price of the vendor, without asking a server."""
    from pydantic_ai.usage import RequestUsage

    told = response.usage
    counted = model_messages.checked_usage(ModelUsage(told.input_tokens, told.output_tokens, told.cache_read_tokens, told.cache_write_tokens), found, request)
    tokens = {name: getattr(counted, name) for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")}
    if any(getattr(told, name) != count for name, count in tokens.items()):
        response = dataclasses.replace(response, usage=RequestUsage(**tokens))
    cost = _cost(response) if price is None else cost_usd(price, counted)
    return model_messages.checked_usage(msgspec.structs.replace(counted, cost_usd=cost), found, request)


def cost_usd(price: ModelPrice, used: ModelUsage) -> float:
    """The cost of a usage at a price, in US dollars."""
    plain = used.input_tokens - used.cache_read_tokens - used.cache_write_tokens
    read = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    total = plain * price.input + used.cache_read_tokens * read + used.cache_write_tokens * written + used.output_tokens * price.output
    return round(total / 1_000_000, 12)


def _cost(response: ModelResponse) -> float | None:
    if not response.model_name:
        return None
    try:
        return round(float(response.cost().total_price), 12)
    except (LookupError, ValueError):  # the price of the model, or of this kind of usage, is not known
        return None
