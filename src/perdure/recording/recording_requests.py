"""Calls tools in a recording, and sends it everything else, over the store alone or through the engine of this process.

What is sent arrives once, in whatever process the recording is. Each function returns when the recording has recorded what follows from it.
"""

import secrets
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from perdure.code.declarations import Signal
from perdure.core import messages, values
from perdure.core.attributes import checked_attributes
from perdure.core.errors import BadValue, NotFound
from perdure.core.execution import Execution
from perdure.core.operations import RECORDING_WORKFLOW, Success
from perdure.core.paths import Key
from perdure.core.values import Blob
from perdure.definitions.expr.plain_values import DEPTH_MAX, nests_deeper
from perdure.recording.recording_messages import (
    CALL,
    CANCELLATION,
    END,
    FLATTER,
    INPUT,
    PRESET,
    TOO_DEEP,
    CallCancellation,
    CallRequest,
    InputValues,
    RecordingOrder,
    RecordingReply,
    ToolAnswer,
    ToolCallFailed,
    ToolPreset,
)
from perdure.recording.recording_view import ALL_CALLS, RecordingReader, RecordingView, call_answer, recording_view
from perdure.recording.step_names import is_step_name
from perdure.service.execution_operations import StartRequest, await_direct_reply
from perdure.service.store_access import StoreAccess, with_timeout

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long a preset and the like waits for the process that runs the recording."""


class CallResult(msgspec.Struct, frozen=True):
    """The step that a call has become, and its answer or failure."""

    step: str
    answer: ToolAnswer | ToolCallFailed


def recording_key(tenant: str, recording: str) -> Key:
    """The key of the execution of a recording."""
    return Key(tenant, RECORDING_WORKFLOW, recording)


def recording_start(key: Key, title: str = "", given: dict[str, Any] | None = None, deadline_s: float | None = None) -> StartRequest:
    """The start of a recording, which names the version of the workflow that engines with tools have.

    Raises:
        BadValue: the title is not one that an attribute can have, or the input nests too deep.
    """
    if nests_deeper(given, DEPTH_MAX):
        raise BadValue("the input of a recording", key.id, "", f"the input of the recording is refused: {TOO_DEEP}. {FLATTER}")
    order = RecordingOrder(title=title, input=given or {})
    raw = values.encode(((order,), {}), "the input of a recording")
    attributes = checked_attributes({"title": title}) if title else ()
    return StartRequest(key=key, input=raw, deadline_s=deadline_s, attributes=attributes)


async def call_tool(access: StoreAccess, key: Key, request: CallRequest, *, is_new: bool = True) -> CallResult:
    """Calls a tool in a recording, and returns what it answered. The call is durable before it is forwarded, and the answer before this returns.

    If the call is not `is_new`, one of its id may have been made before. It is then not made again, and its answer is returned.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
        BadValue: the recording has refused the call.
    """
    with access.wait_warnings.waiting(key):
        reply = await _ask(access, key, CALL, request, f"call:{request.id}", is_new=is_new)
    execution = await access.folds.of(key).refresh()
    settled = execution.settled.get(((reply.step, 1),))
    if settled is not None and isinstance(settled.outcome, Success):  # as is usual: there is no need to read the whole recording
        return CallResult(reply.step, values.decode(await access.payload(settled.outcome.value), ToolAnswer, reply.step))
    answer = await _look(access, key, reply.step, lambda reader: call_answer(reader, reply.step))
    assert answer is not None, "it has ended, since the recording has replied"
    return CallResult(reply.step, answer)


async def cancel_call(access: StoreAccess, key: Key, id: str) -> None:
    """Ends a call that waits or runs. The tool is told, where its server can be."""
    _ = await _ask_soon(access, key, CANCELLATION, CallCancellation(id=id))


async def preset_result(access: StoreAccess, key: Key, preset: ToolPreset) -> str:
    """Gives the result of a call that is not made, and returns its step.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
        BadValue: neither a step nor a tool is named, or both are; the step has no name of one; or the step has its result already or runs.
    """
    if bool(preset.step) == bool(preset.tool):
        raise BadValue("preset", preset.step or preset.tool, "given for a step, or for a tool with its arguments")
    if preset.step and not is_step_name(preset.step):
        raise BadValue("step", preset.step, "the name of a step: that of a tool with a number, such as get_user_1")
    return (await _ask_soon(access, key, PRESET, preset)).step


async def set_input(access: StoreAccess, key: Key, given: dict[str, Any]) -> None:
    """Sets values of ``@input``.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
    """
    _ = await _ask_soon(access, key, INPUT, InputValues(values=given))


async def end_recording(access: StoreAccess, key: Key) -> None:
    """Ends a recording, once the calls that have begun have ended.

    With an engine, which may have begun them, this waits as long as they take.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
    """
    _ = await _ask(access, key, END, None, secrets.token_hex(8)) if access.engine is not None else await _ask_soon(access, key, END, None)


async def read_recording(access: StoreAccess, key: Key, page: slice = ALL_CALLS) -> RecordingView:
    """Returns a recording as it is recorded now, with a page of its calls.

    Raises:
        NotFound: there is no such recording.
    """
    return await _look(access, key, page, lambda reader: recording_view(reader, page))


async def _ask(access: StoreAccess, key: Key, signal: Signal[T], body: T, message_key: str, *, is_new: bool = True) -> RecordingReply:
    if isinstance(body, msgspec.Struct) and nests_deeper(msgspec.structs.asdict(body), DEPTH_MAX + 1):
        raise BadValue(signal.name, key.id, "", f"{signal.name} is refused: {TOO_DEEP}. {FLATTER}")
    message = messages.SignalMessage(signal.name, values.encode(body, f"the body of {signal.name}"), message_key)
    raw = await access.payload(await await_direct_reply(access, key, message, is_new=is_new))
    reply: RecordingReply = values.decode(raw, RecordingReply, "the reply of a recording")
    if reply.refused:
        raise BadValue(signal.name, key.id, reply.refused)
    return reply


async def _ask_soon(access: StoreAccess, key: Key, signal: Signal[T], body: T) -> RecordingReply:
    """Sends what takes no time. The message stays with the recording if nothing answers.

    Raises:
        Timeout: no process with the tools runs the recording.
    """

    async def why() -> str:
        return f"the message is kept, and handled once a process with its tools runs the recording: perdure mcp --record --recording {key.id}"

    async with with_timeout(PATIENCE_S, f"the reply of the recording {key.id}", why):
        return await _ask(access, key, signal, body, secrets.token_hex(8))


async def _look(access: StoreAccess, key: Key, page: slice | str, look: Callable[[RecordingReader], T]) -> T:
    """Returns what is seen in a recording with the large values of a page of its calls, or of the call of a step.

    Values are decoded in a thread, since there may be many.
    """
    payloads, fold = dict[str, bytes](), access.folds.of(key)

    def looked(execution: Execution) -> tuple[list[Blob], T | None]:
        if execution.started is None:
            raise NotFound(key)
        reader = RecordingReader(execution, payloads)
        missing = reader.missing(page)
        return (missing, None) if missing else ([], look(reader))

    while True:
        missing, found = await fold.view(looked, in_thread=True)
        if not missing:
            return cast("T", found)
        payloads |= {blob.sha256: await access.payload(blob) for blob in missing}
