"""What the result of an MCP tool becomes: one rule for every server.

Structured content is the value. Else a single text is, read as JSON if it is an object or a list. Anything else is the list of its parts, each with its `type`:
text, images and audio in base64 with their `mimeType`, and resources. An answer that says that it is an error fails the step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.error_text import shorten_text
from perdure.recording.recording_messages import ToolAnswer
from perdure.recording.tool_values import value_of_answer

MESSAGE_CHARACTERS_MAX = 2_000


class McpToolFailed(Exception):
    """A tool answered that it failed; the message is what it said. The step is retried by its policy."""

    code = "mcp_tool_failed"


def value_of_result(answer: Mapping[str, Any], *, is_wrapped: bool = False) -> Any:
    """Returns the value of an answer to `tools/call`, as JSON of the protocol. With `is_wrapped`, structured content has the value under ``result``.

    Raises:
        McpToolFailed: the answer is an error.
    """
    if answer.get("isError"):
        raise McpToolFailed(error_of_result(answer))
    structured = answer.get("structuredContent")
    return value_of_answer(ToolAnswer(_parts(answer), msgspec.UNSET if structured is None else structured, is_wrapped))


def error_of_result(answer: Mapping[str, Any]) -> str:
    """Returns what an answer says that is an error."""
    return shorten_text(_said(_parts(answer)) or "the tool failed and said nothing", MESSAGE_CHARACTERS_MAX)


def _parts(answer: Mapping[str, Any]) -> list[Any]:
    parts = answer.get("content")
    return list(parts) if isinstance(parts, Sequence) and not isinstance(parts, str) else []


def _said(parts: Sequence[Any]) -> str:
    return "\n".join(str(one.get("text", "")) for one in parts if isinstance(one, Mapping) and one.get("type") == "text").strip()
