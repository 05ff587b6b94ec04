"""OpenAI's Responses: a request read and an answer written as that protocol has them. Its errors are those of Chat Completions."""

from __future__ import annotations

from typing import Any

from perdure.fake_llm.chat_completions import arguments
from perdure.fake_llm.script import Reply, Used
from perdure.fake_llm.seen import Refused, Seen, Turn, text_of, want, whole


def read(body: dict[str, Any]) -> Seen:
    """A request.

    Raises:
        Refused: the vendor would not take it.
    """
    model, given = want(body.get("model"), str, "model"), body.get("input")
    turns = [Turn("system", body["instructions"])] if body.get("instructions") else []
    if isinstance(given, str):
        turns.append(Turn("user", given))
    else:
        turns += _joined([_turn(want(one, dict, f"input[{index}]"), index) for index, one in enumerate(want(given, list, "input"))])
    tools = tuple(str(tool.get("name", "")) for tool in body.get("tools") or () if tool.get("type") == "function")
    choice, shape = body.get("tool_choice"), (body.get("text") or {}).get("format") or {}
    forced = choice["name"] if isinstance(choice, dict) and "name" in choice else tools[-1] if choice == "required" and tools else ""
    if shape.get("type") == "json_schema":
        _ = want(shape.get("schema"), dict, "text.format.schema")
    return Seen("openai", model, whole(turns), tools, forced, shape.get("type") in ("json_schema", "json_object"))


def _turn(item: dict[str, Any], index: int) -> Turn:
    where = f"input[{index}]"
    match item.get("type", "message"), item.get("role"):
        case "function_call", _:
            _ = want(item.get("arguments"), str, f"{where}.arguments")
            return Turn("assistant", asks=(want(item.get("call_id"), str, f"{where}.call_id"),))
        case "function_call_output", _:
            return Turn("tool", text_of(item.get("output"), f"{where}.output"), answers=want(item.get("call_id"), str, f"{where}.call_id"))
        case "message", "system" | "developer":
            return Turn("system", text_of(item.get("content"), f"{where}.content"))
        case "message", "user":
            return Turn("user", text_of(item.get("content"), f"{where}.content"))
        case "message", "assistant":
            return Turn("assistant", text_of(item.get("content"), f"{where}.content"))
    raise Refused(400, f"{where}: type {item.get('type')!r} with role {item.get('role')!r} is none")


def _joined(turns: list[Turn]) -> list[Turn]:
    """Each answer as one turn: here its text and each tool that it asks for are items of their own."""
    found: list[Turn] = []
    for turn in turns:
        if turn.role == "assistant" and found and found[-1].role == "assistant":
            found[-1] = Turn("assistant", found[-1].text + turn.text, found[-1].asks + turn.asks)
        else:
            found.append(turn)
    return found


def write(seen: Seen, reply: Reply, used: Used, number: int) -> dict[str, Any]:
    """An answer."""
    output: list[dict[str, Any]] = []
    said = {"type": "refusal", "refusal": reply.refusal} if reply.refusal else {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
    if reply.refusal or reply.text:
        output.append({"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": [said]})
    for index, call in enumerate(reply.calls):
        id = call.id or f"call_{number}_{index}"
        item = {"type": "function_call", "id": f"fc_{number}_{index}", "call_id": id, "name": call.name, "arguments": arguments(call.args)}
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
