"""Requests to models and their answers: plain data, the same for all providers, as logs hold it.

The usage that a provider reports is checked, and estimated where it is missing or impossible, because budgets depend on it.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that a model may ask for: `schema` is the JSON Schema of its arguments, an object."""

    name: str
    description: str = ""
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call of a model; `id` is the provider's, by which the result is returned."""

    id: str
    name: str
    args: dict[str, Any] = {}


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """An image, or another file that models read, such as a PDF: its media type, its content, and the name under which they are told of it."""

    media_type: str
    data: bytes
    name: str = ""


class ThinkingBlock(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of what a model thought before it answered. Only the provider that wrote it gets it back, unchanged, with the `id` and the `signature` by which
    it recognizes it. `calls_before` tool calls of the answer come before it, and with `after_text` the text does.
    """

    text: str = ""
    id: str = ""
    signature: str = ""
    provider: str = ""
    details: dict[str, Any] | None = None
    calls_before: int = 0
    after_text: bool = False


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation, with images and files unless it is an assistant's. An assistant's may ask for tools (`calls`), and have what it thought
    before; a tool's is the result of the call `call_id`, `is_error` if it failed.
    """

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    is_error: bool = False
    thinking: tuple[ThinkingBlock, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class ModelUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The usage of an answer: tokens (`input_tokens` includes those read from and written to the provider's cache) and cost; `cost_usd` None: the price is
    unknown.

    `is_estimated`: the provider reported no tokens, or impossible numbers.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    is_estimated: bool = False


class ChatRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request to a model. With a `schema`, the answer is data that fits it, as far as the provider enforces it."""

    model: str
    messages: tuple[ChatMessage, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None


class ChatAnswer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The answer of a model: text, data if a schema was given, or tool calls. `finish` is stop, length, tool or filter. `model` is the provider's name of the
    model; `answered_by` is its name in the deployment, if the requested name stands for several.
    """

    text: str = ""
    data: Any = None
    calls: tuple[ToolCall, ...] = ()
    finish: Literal["stop", "length", "tool", "filter"] = "stop"
    usage: ModelUsage = ModelUsage()
    model: str = ""
    provider: str = ""
    answered_by: str = ""
    thinking: tuple[ThinkingBlock, ...] = ()


BYTES_PER_TOKEN = 4
"""By which tokens are estimated from the bytes of the JSON that a request or an answer is: a little more than providers count in plain English."""

TOKENS_MAX = 10**12
"""More tokens than this one answer can't have taken."""


def checked_usage(usage: ModelUsage, answer: ChatAnswer, request: ChatRequest) -> ModelUsage:
    """The usage of an answer, with all numbers plausible.

    Token counts that are absent, zero, negative or not numbers are estimated from the request and the answer; cached tokens are at most all tokens. A cost
    that is negative or not a number is unknown.
    """
    sent = _count(usage.input_tokens) or _estimated(request)
    answered = _count(usage.output_tokens) or _estimated((answer.text, answer.data, answer.calls, *answer.thinking))
    read = min(_count(usage.cache_read_tokens), sent)
    written = min(_count(usage.cache_write_tokens), sent - read)
    is_estimated = (sent, answered) != (usage.input_tokens, usage.output_tokens) or usage.is_estimated is True
    return ModelUsage(sent, answered, read, written, _cost(usage.cost_usd), is_estimated)


def _count(value: Any) -> int:
    """A number of tokens; 0, if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value <= TOKENS_MAX else 0  # NaN is not above 0


def _cost(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= TOKENS_MAX and math.isfinite(value) else None


def _estimated(said: Any) -> int:
    """How many tokens something has, at least one."""
    return max(1, -(-len(msgspec.json.encode(said, enc_hook=repr)) // BYTES_PER_TOKEN))
