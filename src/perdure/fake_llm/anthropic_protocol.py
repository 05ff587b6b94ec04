"""Anthropic's Messages: a request read, an answer and an error written as that protocol has them."""

from __future__ import annotations

from collections.abc import Iterator
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
    text_pieces,
)
from perdure.fake_llm.openai_protocols import tool_arguments

ANTHROPIC_ERRORS: dict[str, tuple[int, str]] = {
    "invalid": (400, "invalid_request_error"),
    "rate_limit": (429, "rate_limit_error"),
    "overloaded": (529, "overloaded_error"),
    "server": (500, "api_error"),
    "context_length": (400, "invalid_request_error"),
    "auth": (401, "authentication_error"),
    "forbidden": (403, "permission_error"),
    "not_found": (404, "not_found_error"),
    "quota": (402, "billing_error"),
}
"""The form of each kind of error at the vendor: its status and type."""


def read_messages_request(body: dict[str, Any]) -> FakeRequest:
    """Reads a request.

    Raises:
        RequestRejected: the vendor would refuse it.
    """
    model = expect(body.get("model"), str, "model")
    _ = expect(body.get("max_tokens"), int, "max_tokens")
    turns = [RequestTurn("system", text_of(body["system"], "system"))] if body.get("system") else []
    for index, message in enumerate(expect(body.get("messages"), list, "messages")):
        turns += _turns(expect(message, dict, f"messages.{index}"), f"messages.{index}")
    tools = tuple(str(tool.get("name", "")) for tool in body.get("tools") or ())
    choice, shape = body.get("tool_choice") or {}, (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    if choice and not tools:
        raise RequestRejected(400, "tool_choice may only be specified while providing tools")
    forced = choice.get("name", "") or (tools[-1] if choice.get("type") == "any" else "")
    return FakeRequest("anthropic", model, checked_conversation(turns), tools, forced, shape.get("type") == "json_schema")


def _turns(message: dict[str, Any], where: str) -> Iterator[RequestTurn]:
    """A message, preceded by the tool results that it contains."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        raise RequestRejected(400, f'{where}.role: Input should be "user" or "assistant"')
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else expect(content, list, f"{where}.content")
    asks, said, thought = tuple[str, ...](), list[str](), ""
    for number, block in enumerate(blocks):
        match block.get("type"):
            case "tool_result":
                yield RequestTurn("tool", text_of(block.get("content"), where), answers=expect(block.get("tool_use_id"), str, f"{where}.{number}.tool_use_id"))
            case "tool_use":
                _ = expect(block.get("input"), dict, f"{where}.{number}.input")
                asks = (*asks, expect(block.get("id"), str, f"{where}.{number}.id"))
            case "thinking":
                thought += checked_thinking(expect(block.get("thinking"), str, f"{where}.{number}.thinking"), block.get("signature"), f"{where}.{number}")
            case "text":
                if not expect(block.get("text"), str, f"{where}.{number}.text").strip():
                    raise RequestRejected(400, f"{where}.{number}: text content blocks must be non-empty")
                said.append(block["text"])
    if said or asks:
        yield RequestTurn(role, "\n".join(said), asks, thinking=thought)


def write_messages_answer(seen: FakeRequest, reply: ScriptedReply, used: ScriptedUsage, number: int) -> dict[str, Any]:
    """Writes an answer."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": signature_of(reply.thinking)})
    if reply.text or reply.refusal:
        content.append({"type": "text", "text": reply.text or reply.refusal})
    for index, call in enumerate(reply.calls):
        content.append({"type": "tool_use", "id": call.id or f"toolu_{number}_{index}", "name": call.name, "input": call.args})
    stop = "refusal" if reply.refusal else {"length": "max_tokens", "filter": "refusal"}.get(reply.finish or "", "tool_use" if reply.calls else "end_turn")
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": seen.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": used.input - used.cache_read - used.cache_write,
            "cache_creation_input_tokens": used.cache_write,
            "cache_read_input_tokens": used.cache_read,
            "output_tokens": used.output,
            "service_tier": "standard",
        },
    }


def stream_messages_answer(message: dict[str, Any]) -> list[bytes]:
    """Writes an answer as the events of a stream, which the library of this vendor also requests for long answers."""
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(message["content"]):
        match block["type"]:
            case "text":
                empty, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in text_pieces(block["text"])]
            case "thinking":
                empty = {**block, "thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in text_pieces(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case _:
                empty, deltas = {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": tool_arguments(block["input"])}]
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": message["usage"]["output_tokens"]}})
    events.append({"type": "message_stop"})
    return [b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n" for event in events]


def anthropic_error(kind: str, message: str) -> dict[str, Any]:
    """Writes the body of an error."""
    return {"type": "error", "error": {"type": ANTHROPIC_ERRORS[kind][1], "message": message}, "request_id": "req_fake"}
