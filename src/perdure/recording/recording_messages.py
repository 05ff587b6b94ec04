"""What a recording receives and what it records: the bodies of its messages, and the entries of its stream.

All of it is in the log of the execution, so a recording is the fold of its log, as every execution is.
"""

from typing import Any, Literal

import msgspec

from perdure.code.declarations import Signal
from perdure.definitions.expr.plain_values import DEPTH_MAX


class RecordingOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a recording: a title for people, and the values of ``@input`` as far as they are known when it begins."""

    title: str = ""
    input: dict[str, Any] = {}


class CallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool by its full name, ``server.tool``. `id` is that of the call: sent again, it is the same call."""

    id: str
    tool: str
    arguments: dict[str, Any] = {}


class ToolPreset(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call that is not made.

    With a `tool`, the call is recorded now, as if it had been made with these `arguments`. Without, `step` names one that is to come, or one that has failed
    or is in doubt: its next call has this result, or it has the result from now on.
    """

    result: Any = None
    step: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}


class CallCancellation(msgspec.Struct, frozen=True, kw_only=True):
    """The wish to end a call, by its id."""

    id: str


class InputValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values for ``@input``, besides those that are known or in their place."""

    values: dict[str, Any]


class RecordingReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of a recording: the step that a message is about (empty: none), or why it was refused."""

    step: str = ""
    refused: str = ""


CALL, PRESET, CANCELLATION = Signal("call", CallRequest), Signal("preset", ToolPreset), Signal("cancel_call", CallCancellation)
INPUT, END = Signal("input", InputValues), Signal[None]("end", type(None))

TOO_DEEP = f"its lists and mappings nest more than {DEPTH_MAX} levels deep"
"""Why a value is refused that no definition could have either."""

FLATTER = "Pass a part of it, or deep data as a text of JSON"

INPUT_STATE = "input"
"""The state that has the present values of ``@input``."""


class ToolAnswer(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The answer of a tool, as its server gave it. With `is_wrapped`, the structured content has the value under ``result``."""

    content: list[dict[str, Any]] = []
    structured_content: Any = msgspec.UNSET
    is_wrapped: bool = False
    is_preset: bool = False


class ToolCallFailed(Exception):
    """A tool answered that it failed. The message is what it said, and `answer` has all of it."""

    code = "mcp_tool_failed"

    def __init__(self, message: str, answer: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.answer = answer


class CallEntry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="call"):
    """The entry of a call: its step, the tool, and the arguments as they are kept. `refused` is why it was not forwarded."""

    step: str
    tool: str
    arguments: dict[str, Any] = {}
    id: str = ""
    refused: str = ""


class PresetEntry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="entry", tag="preset"):
    """The entry of a preset: the step whose result was given."""

    step: str
    answer: ToolAnswer | None = None


Entry = CallEntry | PresetEntry

CallState = Literal["waiting", "running", "completed", "failed", "refused", "in_doubt", "cancelled"]
"""The state of a call: it waits for a step that it refers to, it runs, or it has ended. One ``in_doubt`` may have done its work: its process died."""
