"""Images and files in conversations: which of a tool's results are attachments, and what is told of them in text."""

import base64
from typing import Any, NamedTuple

from perdure.definitions.kinds.models.model_messages import Attachment


class ParsedResult(NamedTuple):
    """The result of a tool, apart: plain data, and what goes to the model as images or files."""

    value: Any
    attachments: tuple[Attachment, ...] = ()


def parse_result(value: Any) -> ParsedResult:
    """Returns a result with its attachments apart: an `Attachment`, an image or audio of an MCP server, or a list with some of these.

    In the place of each stands what it is.
    """
    parts = list(value) if isinstance(value, list | tuple) else [value]
    found = [attachment_of(part) for part in parts]
    if not any(found):
        return ParsedResult(value)
    told = [part if one is None else described(one) for part, one in zip(parts, found, strict=True)]
    return ParsedResult(told if isinstance(value, list | tuple) else told[0], tuple(one for one in found if one is not None))


def described(one: Attachment) -> str:
    """Returns what an attachment is, in words."""
    return f"[attached: {f'{one.name}, ' if one.name else ''}{one.media_type}, {len(one.data):,} bytes]"


def attachment_of(part: Any) -> Attachment | None:
    """Returns a part as an attachment, if it is one; also one that was decoded as plain data, since its step does not declare what it returns."""
    match part:
        case Attachment():
            return part
        case {"media_type": str(media_type), "data": bytes(data), **rest} if rest.keys() <= {"name"}:
            return Attachment(media_type, data, str(rest.get("name", "")))
        case {"type": "image" | "audio", "data": str(text), "mimeType": str(media_type)}:
            raw = _decoded(text)
            return None if raw is None else Attachment(media_type, raw)
    return None


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # also for characters that are not ASCII
        return None
