"""What is said to a model, and what it says: plain data, the same for all providers, as it stands in logs.

Checks what a provider says that an answer took, and estimates what it does not say, or says wrongly: budgets are counted in it.
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
    """What a model asks for: `id` is the provider's, by which the result is told to it."""

    id: str
    name: str
    args: dict[str, Any] = {}


class ChatMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation. An assistant's may ask for tools (`calls`); a tool's is the result of the call `call_id`, `is_error` if it failed."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    is_error: bool = False


class ModelUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an answer took: tokens, those read from and written to the provider's cache counted in `input_tokens` too; `cost_usd` None: no price is known.

    `is_estimated`: the provider did not say how many tokens, or said what can't be true.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    is_estimated: bool = False


class ChatRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request to a model: all that it is told. With a `schema`, the answer is data that fits it, as far as the provider sees to that."""

    model: str
    messages: tuple[ChatMessage, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None


class ChatAnswer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a model answered: text, or data if a schema was asked for, or tools that it asks for. `finish` is stop, length, tool or filter."""

    text: str = ""
    data: Any = None
    calls: tuple[ToolCall, ...] = ()
    finish: Literal["stop", "length", "tool", "filter"] = "stop"
    usage: ModelUsage = ModelUsage()
    model: str = ""
    provider: str = ""


BYTES_PER_TOKEN = 4
"""By which tokens are estimated from the bytes of the JSON that a request or an answer is: a little more than providers count in plain English."""

TOKENS_MAX = 10**12
"""More tokens than this one answer can't have taken."""


def checked_usage(usage: ModelUsage, answer: ChatAnswer, request: ChatRequest) -> ModelUsage:
    """The usage of an answer to a request, in which each number is one that can be true.

    Tokens that are absent, zero, negative or no numbers are estimated from what was sent and answered, and those of the cache are no more than all. A cost
    that is negative or no number is not known.
    """
    sent = _count(usage.input_tokens) or _estimated(request)
    answered = _count(usage.output_tokens) or _estimated((answer.text, answer.data, answer.calls))
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
