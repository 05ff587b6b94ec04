"""What is said to a model, and what it says: plain data, the same for all providers, as it stands in logs."""

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


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a conversation. An assistant's may ask for tools (`calls`); a tool's is the result of the call `call_id`, `is_error` if it failed."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    is_error: bool = False


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an answer took: tokens, those read from and written to the provider's cache counted in `input_tokens` too; `cost_usd` None: no price is known.

    `is_estimated`: the provider did not say how many tokens, or said what can't be true.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    is_estimated: bool = False


class Request(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request to a model: all that it is told. With a `schema`, the answer is data that fits it, as far as the provider sees to that."""

    model: str
    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    schema: dict[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a model answered: text, or data if a schema was asked for, or tools that it asks for. `finish` is stop, length, tool or filter."""

    text: str = ""
    data: Any = None
    calls: tuple[ToolCall, ...] = ()
    finish: Literal["stop", "length", "tool", "filter"] = "stop"
    usage: Usage = Usage()
    model: str = ""
    provider: str = ""
