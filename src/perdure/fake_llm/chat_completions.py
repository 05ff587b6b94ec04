"""OpenAI's Chat Completions: a request read, an answer and an error written as that protocol has them."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.fake_llm.script import Reply, Used
from perdure.fake_llm.seen import Refused, Seen, Turn, text_of, want, whole

ERRORS: dict[str, tuple[int, str, str | None]] = {
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
"""What the vendor has for each kind of error: its status, type and code."""


def read(body: dict[str, Any]) -> Seen:
    """A request.

    Raises:
        Refused: the vendor would not take it.
    """
    model = want(body.get("model"), str, "model")
    turns = [_turn(want(one, dict, f"messages[{index}]"), index) for index, one in enumerate(want(body.get("messages"), list, "messages"))]
    tools = tuple(want(tool.get("function"), dict, "tools").get("name", "") for tool in body.get("tools") or ())
    choice, shape = body.get("tool_choice"), body.get("response_format") or {}
    if choice and not tools:
        raise Refused(400, "tool_choice is only allowed when tools are specified")
    forced = choice["function"]["name"] if isinstance(choice, dict) and "function" in choice else tools[-1] if choice == "required" else ""
    if shape.get("type") == "json_schema":
        _ = want(want(shape.get("json_schema"), dict, "response_format.json_schema").get("schema"), dict, "response_format.json_schema.schema")
    return Seen("openai-chat", model, whole(turns), tools, forced, shape.get("type") in ("json_schema", "json_object"))


def _turn(message: dict[str, Any], index: int) -> Turn:
    where = f"messages[{index}]"
    text = text_of(message.get("content"), f"{where}.content")
    match message.get("role"):
        case "system" | "developer":
            return Turn("system", text)
        case "user":
            return Turn("user", text)
        case "tool":
            return Turn("tool", text, answers=want(message.get("tool_call_id"), str, f"{where}.tool_call_id"))
        case "assistant":
            calls = message.get("tool_calls") or []
            for call in calls:
                _ = want(call["function"]["arguments"], str, f"{where}.tool_calls.function.arguments")
            return Turn("assistant", text, tuple(want(call.get("id"), str, f"{where}.tool_calls.id") for call in calls))
    raise Refused(400, f"{where}.role: {message.get('role')!r} is none")


def write(seen: Seen, reply: Reply, used: Used, number: int) -> dict[str, Any]:
    """An answer."""
    calls = [
        {"id": call.id or f"call_{number}_{index}", "type": "function", "function": {"name": call.name, "arguments": arguments(call.args)}}
        for index, call in enumerate(reply.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal or None, "annotations": []}
    if calls:
        message["tool_calls"] = calls
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


def arguments(args: dict[str, Any] | str) -> str:
    """The arguments of a tool, as JSON text or as they stand."""
    return args if isinstance(args, str) else msgspec.json.encode(args).decode()


def error(kind: str, message: str) -> dict[str, Any]:
    """The body of an error."""
    _, type_, code = ERRORS[kind]
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}
