"""The values of tools: what references read of an answer, which is what a step of a definition has as its result.

Structured content is the value. Else a single text is, read as JSON if it is an object or a list. Anything else is the list of its parts, each with its `type`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.recording.recording_messages import ToolAnswer


def value_of_answer(answer: ToolAnswer) -> Any:
    """Returns the value of an answer that is no error."""
    structured, parts = answer.structured_content, answer.content
    if structured is not msgspec.UNSET:
        return structured["result"] if answer.is_wrapped and isinstance(structured, Mapping) and structured.keys() == {"result"} else structured
    return value_of_parts(parts)


def value_of_parts(parts: Sequence[Any]) -> Any:
    """Returns the value of the content of an answer."""
    if len(parts) == 1 and isinstance(parts[0], Mapping) and parts[0].get("type") == "text":
        return _plain(str(parts[0].get("text", "")))
    return [_part(one) for one in parts] if parts else None


def preset_answer(result: Any) -> ToolAnswer:
    """Returns an answer whose value is the result that was given: text as text, anything else as structured content and as JSON."""
    if isinstance(result, str) and _plain(result) is result:
        return ToolAnswer([{"type": "text", "text": result}], is_preset=True)
    text = {"type": "text", "text": json.dumps(result, ensure_ascii=False)}
    if isinstance(result, Mapping) and result.keys() != {"result"}:
        return ToolAnswer([text], dict(result), is_preset=True)
    return ToolAnswer([text], {"result": result}, is_wrapped=True, is_preset=True)


def _plain(text: str) -> Any:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _part(part: Any) -> Any:
    return {name: value for name, value in part.items() if name not in ("_meta", "annotations")} if isinstance(part, Mapping) else part
