"""What the result of an MCP tool becomes: one rule for every server.

Structured content is the value. Else a single text is, read as JSON if it is an object or a list. Anything else is the list of its parts, each with its `type`:
text, images and audio in base64 with their `mimeType`, and resources. An answer that says that it is an error fails the step.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.core.error_text import shorten_text

MESSAGE_CHARACTERS_MAX = 2_000


class McpToolFailed(Exception):
    """A tool answered that it failed; the message is what it said. The step is retried by its policy."""

    code = "mcp_tool_failed"


def value_of_result(answer: Mapping[str, Any], *, is_wrapped: bool = False) -> Any:
    """Returns the value of an answer to `tools/call`, as JSON of the protocol. With `is_wrapped`, structured content has the value under ``result``.

    Raises:
        McpToolFailed: the answer is an error.
    """
    parts = answer.get("content")
    parts = parts if isinstance(parts, Sequence) and not isinstance(parts, str) else []
    if answer.get("isError"):
        raise McpToolFailed(shorten_text(_said(parts) or "the tool failed and said nothing", MESSAGE_CHARACTERS_MAX))
    structured = answer.get("structuredContent")
    if structured is not None:
        return structured["result"] if is_wrapped and isinstance(structured, Mapping) and structured.keys() == {"result"} else structured
    if len(parts) == 1 and _type(parts[0]) == "text":
        return _plain(str(parts[0].get("text", "")))
    return [_part(one) for one in parts] if parts else None


def _said(parts: Sequence[Any]) -> str:
    return "\n".join(str(one.get("text", "")) for one in parts if _type(one) == "text").strip()


def _type(part: Any) -> str:
    return str(part.get("type", "")) if isinstance(part, Mapping) else ""


def _plain(text: str) -> Any:
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _part(part: Any) -> Any:
    return {name: value for name, value in part.items() if name not in ("_meta", "annotations")} if isinstance(part, Mapping) else part
