"""The streams of OpenAI's protocols: an answer as the events in which it comes when it is requested with `stream`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from perdure.fake_llm.fake_script import text_pieces


def stream_chat_answer(answer: dict[str, Any]) -> list[bytes]:
    """Writes an answer of Chat Completions as chunks, the last of which has the usage."""
    (choice,) = answer["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in text_pieces(message.get("reasoning_content") or "")]
    deltas += [{"content": piece} for piece in text_pieces(message["content"] or "")]
    deltas += [{"refusal": message["refusal"]}] if message["refusal"] else []
    deltas += [{"tool_calls": [{"index": index, **call}]} for index, call in enumerate(message.get("tool_calls") or ())]
    about = {**{name: answer[name] for name in ("id", "created", "model", "service_tier", "system_fingerprint")}, "object": "chat.completion.chunk"}
    chunks: list[dict[str, Any]] = [{**about, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]} for delta in deltas]
    chunks.append({**about, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}]})
    chunks.append({**about, "choices": [], "usage": answer["usage"]})
    return [*(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]


def stream_responses_answer(answer: dict[str, Any]) -> list[bytes]:
    """Writes an answer of Responses as events."""
    begun = {**answer, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(answer["output"]):
        events += [{"output_index": index, **event} for event in _item_events(item)]
    events.append({"type": "response.incomplete" if answer["incomplete_details"] else "response.completed", "response": answer})
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return [b"event: " + event["type"].encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n" for event in numbered]


def _item_events(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    about = {"item_id": item["id"]}
    match item["type"]:
        case "message":
            yield {"type": "response.output_item.added", "item": {**item, "content": [], "status": "in_progress"}}
            for number, part in enumerate(item["content"]):
                kind = "output_text" if part["type"] == "output_text" else "refusal"
                field = "text" if kind == "output_text" else "refusal"
                place = {**about, "content_index": number}
                yield {**place, "type": "response.content_part.added", "part": {**part, field: ""}}
                for piece in text_pieces(part[field]):
                    yield {**place, "type": f"response.{kind}.delta", "delta": piece, **({"logprobs": []} if kind == "output_text" else {})}
                yield {**place, "type": f"response.{kind}.done", field: part[field], **({"logprobs": []} if kind == "output_text" else {})}
                yield {**place, "type": "response.content_part.done", "part": part}
        case "function_call":
            yield {"type": "response.output_item.added", "item": {**item, "arguments": "", "status": "in_progress"}}
            yield {**about, "type": "response.function_call_arguments.delta", "delta": item["arguments"]}
            yield {**about, "type": "response.function_call_arguments.done", "arguments": item["arguments"], "name": item["name"]}
        case "reasoning":
            yield {"type": "response.output_item.added", "item": {**item, "summary": []}}
            for number, part in enumerate(item["summary"]):
                place = {**about, "summary_index": number}
                yield {**place, "type": "response.reasoning_summary_part.added", "part": {**part, "text": ""}}
                for piece in text_pieces(part["text"]):
                    yield {**place, "type": "response.reasoning_summary_text.delta", "delta": piece}
                yield {**place, "type": "response.reasoning_summary_text.done", "text": part["text"]}
                yield {**place, "type": "response.reasoning_summary_part.done", "part": part}
    yield {"type": "response.output_item.done", "item": item}
