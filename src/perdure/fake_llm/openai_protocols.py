"""OpenAI's Chat Completions: a request read, an answer and an error written as that protocol has them.

OpenAI's Responses: a request read and an answer written as that protocol has them. Its errors are those of Chat Completions.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.fake_llm.fake_script import (
    FakeRequest,
    RequestRejected,
    RequestTurn,
    ScriptedReply,
    ScriptedUsage,
    checked_conversation,
    checked_thinking,
    expect,
    signature_of,
    text_of,
)

OPENAI_ERRORS: dict[str, tuple[int, str, str | None]] = {
    "invalid": (400, "invalid_request_error", None),
    "rate_limit": (429, "requests", "rate_limit_exceeded"),
    "overloaded": (503, "server_error", None),
    "server": (500, "server_error", None),
    "context_length": (400, "invalid_request_error", "context_length_exceeded"),
    "auth": (401, "invalid_request_error", "invalid_api_key"),
    "forbidden": (403, "invalid_request_error", None),
    "not_found": (404, "invalid_request_error", "model_not_found"),
    "quota": (429, "insufficient_quota", "insufficient_quota"),
}
"""The form of each kind of error at the vendor: its status, type and code."""


def read_chat_request(body: dict[str, Any]) -> FakeRequest:
    """Reads a request.

    Raises:
        RequestRejected: the vendor would refuse it.
    """
    model = expect(body.get("model"), str, "model")
    turns = [_chat_turn(expect(one, dict, f"messages[{index}]"), index) for index, one in enumerate(expect(body.get("messages"), list, "messages"))]
    tools = tuple(expect(tool.get("function"), dict, "tools").get("name", "") for tool in body.get("tools") or ())
    choice, shape = body.get("tool_choice"), body.get("response_format") or {}
    if choice and not tools:
        raise RequestRejected(400, "tool_choice is only allowed when tools are specified")
    forced = choice["function"]["name"] if isinstance(choice, dict) and "function" in choice else tools[-1] if choice == "required" else ""
    if shape.get("type") == "json_schema":
        _ = expect(expect(shape.get("json_schema"), dict, "response_format.json_schema").get("schema"), dict, "response_format.json_schema.schema")
    return FakeRequest("openai-chat", model, checked_conversation(turns), tools, forced, shape.get("type") in ("json_schema", "json_object"))


def _chat_turn(message: dict[str, Any], index: int) -> RequestTurn:
    where = f"messages[{index}]"
    text = text_of(message.get("content"), f"{where}.content")
    match message.get("role"):
        case "system" | "developer":
            return RequestTurn("system", text)
        case "user":
            return RequestTurn("user", text)
        case "tool":
            return RequestTurn("tool", text, answers=expect(message.get("tool_call_id"), str, f"{where}.tool_call_id"))
        case "assistant":
            calls = message.get("tool_calls") or []
            for call in calls:
                _ = expect(call["function"]["arguments"], str, f"{where}.tool_calls.function.arguments")
            ids = tuple(expect(call.get("id"), str, f"{where}.tool_calls.id") for call in calls)
            return RequestTurn("assistant", text, ids, thinking=str(message.get("reasoning_content") or ""))
    raise RequestRejected(400, f"{where}.role: {message.get('role')!r} is none")


def write_chat_answer(seen: FakeRequest, reply: ScriptedReply, used: ScriptedUsage, number: int) -> dict[str, Any]:
    """Writes an answer."""
    calls = [
        {"id": call.id or f"call_{number}_{index}", "type": "function", "function": {"name": call.name, "arguments": tool_arguments(call.args)}}
        for index, call in enumerate(reply.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal or None, "annotations": []}
    if calls:
        message["tool_calls"] = calls
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    finish = {"length": "length", "filter": "content_filter"}.get(reply.finish or "", "tool_calls" if calls else "stop")
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000 + number,
        "model": seen.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": used.input,
            "completion_tokens": used.output,
            "total_tokens": used.input + used.output,
            "prompt_tokens_details": {"cached_tokens": used.cache_read, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def tool_arguments(args: dict[str, Any] | str) -> str:
    """The arguments of a tool call, as JSON text or unchanged."""
    return args if isinstance(args, str) else msgspec.json.encode(args).decode()


def openai_error(kind: str, message: str) -> dict[str, Any]:
    """Writes the body of an error."""
    _, type_, code = OPENAI_ERRORS[kind]
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def read_responses_request(body: dict[str, Any]) -> FakeRequest:
    """Reads a request.

    Raises:
        RequestRejected: the vendor would refuse it.
    """
    model, given = expect(body.get("model"), str, "model"), body.get("input")
    turns = [RequestTurn("system", body["instructions"])] if body.get("instructions") else []
    if isinstance(given, str):
        turns.append(RequestTurn("user", given))
    else:
        turns += _joined([_responses_turn(expect(one, dict, f"input[{index}]"), index) for index, one in enumerate(expect(given, list, "input"))])
    tools = tuple(str(tool.get("name", "")) for tool in body.get("tools") or () if tool.get("type") == "function")
    choice, shape = body.get("tool_choice"), (body.get("text") or {}).get("format") or {}
    forced = choice["name"] if isinstance(choice, dict) and "name" in choice else tools[-1] if choice == "required" and tools else ""
    if shape.get("type") == "json_schema":
        _ = expect(shape.get("schema"), dict, "text.format.schema")
    return FakeRequest("openai", model, checked_conversation(turns), tools, forced, shape.get("type") in ("json_schema", "json_object"))


def _responses_turn(item: dict[str, Any], index: int) -> RequestTurn:
    where = f"input[{index}]"
    match item.get("type", "message"), item.get("role"):
        case "reasoning", _:
            thought = "".join(str(one.get("text", "")) for one in expect(item.get("summary"), list, f"{where}.summary"))
            return RequestTurn("assistant", thinking=checked_thinking(thought, item.get("encrypted_content"), where))
        case "function_call", _:
            _ = expect(item.get("arguments"), str, f"{where}.arguments")
            return RequestTurn("assistant", asks=(expect(item.get("call_id"), str, f"{where}.call_id"),))
        case "function_call_output", _:
            return RequestTurn("tool", text_of(item.get("output"), f"{where}.output"), answers=expect(item.get("call_id"), str, f"{where}.call_id"))
        case "message", "system" | "developer":
            return RequestTurn("system", text_of(item.get("content"), f"{where}.content"))
        case "message", "user":
            return RequestTurn("user", text_of(item.get("content"), f"{where}.content"))
        case "message", "assistant":
            return RequestTurn("assistant", text_of(item.get("content"), f"{where}.content"))
    raise RequestRejected(400, f"{where}: type {item.get('type')!r} with role {item.get('role')!r} is none")


def _joined(turns: list[RequestTurn]) -> list[RequestTurn]:
    """Each answer as one turn: here its text and each tool that it asks for are items of their own."""
    found: list[RequestTurn] = []
    for turn in turns:
        if turn.role == "assistant" and found and found[-1].role == "assistant":
            before = found[-1]
            found[-1] = RequestTurn("assistant", before.text + turn.text, before.asks + turn.asks, thinking=before.thinking + turn.thinking)
        else:
            found.append(turn)
    return found


def write_responses_answer(seen: FakeRequest, reply: ScriptedReply, used: ScriptedUsage, number: int) -> dict[str, Any]:
    """Writes an answer."""
    output: list[dict[str, Any]] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        output.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": signature_of(reply.thinking)})
    said = {"type": "refusal", "refusal": reply.refusal} if reply.refusal else {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
    if reply.refusal or reply.text:
        output.append({"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": [said]})
    for index, call in enumerate(reply.calls):
        id = call.id or f"call_{number}_{index}"
        item = {"type": "function_call", "id": f"fc_{number}_{index}", "call_id": id, "name": call.name, "arguments": tool_arguments(call.args)}
        output.append({**item, "status": "completed"})
    cut = {"length": "max_output_tokens", "filter": "content_filter"}.get(reply.finish or "")
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000 + number,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": None,
        "metadata": {},
        "model": seen.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": used.input,
            "input_tokens_details": {"cached_tokens": used.cache_read},
            "output_tokens": used.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": used.input + used.output,
        },
    }
