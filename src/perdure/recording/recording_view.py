"""A recording as data: the fold of the log of its execution, for everything that shows a recording or makes a definition of it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from perdure.code.exception_data import rebuild_exception
from perdure.core import values
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Failure, KeepOperation, Success
from perdure.core.values import Blob, Value
from perdure.recording.recording_messages import INPUT_STATE, CallEntry, CallState, Entry, PresetEntry, ToolAnswer, ToolCallFailed
from perdure.recording.tool_values import value_of_answer


class RecordedCall(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A call of a recording. `number` counts from 1, in the order of arrival.

    `arguments` are as they were given, with references; a literal that begins with an @ is doubled. `sent` are those that were forwarded, None if none were.
    `value` is what references read of its answer, and `error` why there is none. With `is_preset`, the result was given, and the tool was not called for it.
    Times are seconds since 1970.
    """

    number: int
    step: str
    tool: str
    id: str = ""
    state: CallState = "running"
    arguments: dict[str, Any] = {}
    sent: dict[str, Any] | None = None
    value: Any = None
    error: str = ""
    is_preset: bool = False
    attempts: int = 0
    began_at_s: float | None = None
    ended_at_s: float | None = None


class RecordingView(msgspec.Struct, frozen=True, kw_only=True):
    """A recording: its calls, the present values of ``@input``, the steps to come whose result is given already, and whether it is open or has ended."""

    title: str
    state: Literal["open", "ended"]
    input: dict[str, Any]
    calls: list[RecordedCall]
    presets_to_come: list[str]
    started_at_s: float
    last_at_s: float


PayloadReader = Callable[[Value], bytes]
"""Returns the bytes of a value, of which large ones are kept apart from the log."""


def large_values(execution: Execution) -> Iterator[Blob]:
    """Yields the values of a recording that are kept apart from its log."""
    for one in execution.settled.values():
        for value in (getattr(one.op, "value", None), getattr(one.op, "args", None), getattr(one.outcome, "value", None)):
            if isinstance(value, Blob):
                yield value
    for pending in execution.open.values():
        if isinstance(pending.op, CallOperation) and isinstance(pending.op.args, Blob):
            yield pending.op.args
    if execution.started is not None and isinstance(execution.started.input, Blob):
        yield execution.started.input


def recording_view(execution: Execution, payload: PayloadReader) -> RecordingView:
    """Returns the recording of an execution of the workflow of recordings, which has begun."""
    reader = _RecordingReader(execution, payload)
    started = execution.started
    assert started is not None, "it has begun"
    order = _input_of(payload(started.input))
    return RecordingView(
        title=str(order.get("title", "")),
        state="open" if execution.ended is None else "ended",
        input=reader.input,
        calls=[reader.call(number, entry) for number, entry in enumerate(reader.calls.values(), 1)],
        presets_to_come=[step for step in reader.presets if step not in reader.calls],
        started_at_s=started.at_s,
        last_at_s=execution.now_s,
    )


def call_answer(execution: Execution, step: str, payload: PayloadReader) -> ToolAnswer | ToolCallFailed | None:
    """Returns the answer to the call of a step: that of its server, a preset one, or why there is none; None while there is none yet."""
    reader = _RecordingReader(execution, payload)
    if (preset := reader.presets.get(step)) is not None:
        return preset
    settled = execution.settled.get(((step, 1),))
    match None if settled is None else settled.outcome:
        case Success(value):
            answer: ToolAnswer = values.decode(payload(value), ToolAnswer, step)
            return answer
        case Failure(kind, _, error):
            rebuilt = rebuild_exception(error, (ToolCallFailed,))
            if isinstance(rebuilt, ToolCallFailed):
                return rebuilt
            what = "" if kind != "interrupted" else "it is not known whether the tool has done its work: "
            return ToolCallFailed(f"{what}{error.message}")
    entry = reader.calls.get(step)
    return ToolCallFailed(entry.refused) if entry is not None and entry.refused else None


def _input_of(raw: bytes) -> dict[str, Any]:
    args, named = values.decode(raw, tuple[list[Any], dict[str, Any]], "the input of a recording")
    found = args[0] if args else named.get("order")
    return found if isinstance(found, dict) else {}


class _RecordingReader:
    """The entries of a recording by step: its calls in the order of arrival, and its presets."""

    def __init__(self, execution: Execution, payload: PayloadReader) -> None:
        self._execution, self._payload = execution, payload
        self.calls: dict[str, CallEntry] = {}
        self.presets: dict[str, ToolAnswer] = {}
        self.input: dict[str, Any] = {}
        for one in execution.settled.values():
            match one.op:
                case KeepOperation(value=value, role="stream"):
                    self._take(values.decode(payload(value), Entry, "an entry of a recording"))
                case KeepOperation(value=value, role="state", label=label) if label == INPUT_STATE:
                    self.input = values.decode(payload(value), dict[str, Any], "the input of a recording")

    def _take(self, entry: Entry) -> None:
        match entry:
            case CallEntry():
                self.calls[entry.step] = entry
            case PresetEntry(step, answer) if answer is not None:
                self.presets[step] = answer

    def call(self, number: int, entry: CallEntry) -> RecordedCall:
        """Returns the call of an entry, with what has become of it."""
        found = RecordedCall(number=number, step=entry.step, tool=entry.tool, id=entry.id, arguments=entry.arguments, **self._progress(entry))
        preset = self.presets.get(entry.step)
        if preset is None:
            return found
        return msgspec.structs.replace(found, state="completed", value=value_of_answer(preset), error="", is_preset=True)

    def _progress(self, entry: CallEntry) -> Mapping[str, Any]:
        path = ((entry.step, 1),)
        if entry.refused:
            return {"state": "refused", "error": entry.refused}
        if (pending := self._execution.open.get(path)) is not None and isinstance(pending.op, CallOperation):
            return {"state": "running", "sent": self._sent(pending.op), "attempts": pending.attempt, "began_at_s": pending.opened_at_s}
        if (settled := self._execution.settled.get(path)) is None or not isinstance(settled.op, CallOperation):
            return {"state": "waiting"}
        times = {"attempts": settled.attempt, "began_at_s": settled.opened_at_s, "ended_at_s": settled.at_s, "sent": self._sent(settled.op)}
        match settled.outcome:
            case Success(value):
                answer = values.decode(self._payload(value), ToolAnswer, entry.step)
                return {"state": "completed", "value": value_of_answer(answer), **times}
            case Failure(kind, _, error):
                state = {"interrupted": "in_doubt", "abandoned": "in_doubt", "cancelled": "cancelled"}.get(kind, "failed")
                return {"state": state, "error": error.message, **times}
        return {"state": "running", **times}

    def _sent(self, op: CallOperation) -> dict[str, Any]:
        _, named = values.decode(self._payload(op.args), tuple[list[Any], dict[str, Any]], "the arguments of a call")
        found: dict[str, Any] = named
        return found
