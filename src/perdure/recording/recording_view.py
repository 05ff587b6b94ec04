"""A recording as data: the fold of the log of its execution, for everything that shows a recording or makes a definition of it.

Of each entry only its step is read, until its call is looked at: a page of a long recording takes the work and the large values of its own calls alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.code.exception_data import rebuild_exception
from perdure.core import values
from perdure.core.execution import Execution
from perdure.core.operations import CallOperation, Failure, KeepOperation, Success
from perdure.core.values import Blob, Value
from perdure.recording.recording_messages import INPUT_STATE, CallEntry, CallState, PresetEntry, ToolAnswer, ToolCallFailed
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
    """A recording: its calls, or a page of them, the present values of ``@input``, the steps to come whose result is given already, and whether it is open or
    has ended. `calls_by_state` counts all calls, on every page.
    """

    title: str
    state: Literal["open", "ended"]
    input: dict[str, Any]
    calls: list[RecordedCall]
    calls_by_state: dict[CallState, int]
    presets_to_come: list[str]
    started_at_s: float
    last_at_s: float


ALL_CALLS = slice(None)
"""The page with all calls of a recording."""


def recording_view(reader: "RecordingReader", page: slice = ALL_CALLS) -> RecordingView:
    """Returns a recording with a page of its calls. The reader misses none of their values."""
    execution = reader.execution
    started = execution.started
    assert started is not None, "it has begun"
    return RecordingView(
        title=reader.title(),
        state="open" if execution.ended is None else "ended",
        input=reader.input(),
        calls=[reader.call(number, entry) for number, entry in enumerate(reader.page(page), page.indices(len(reader.calls))[0] + 1)],
        calls_by_state=dict(Counter(map(reader.state, reader.calls.values()))),
        presets_to_come=[step for step in reader.presets if step not in reader.calls],
        started_at_s=started.at_s,
        last_at_s=execution.now_s,
    )


def call_answer(reader: "RecordingReader", step: str) -> ToolAnswer | ToolCallFailed | None:
    """Returns the answer to the call of a step: that of its server, a preset one, or why there is none; None while there is none yet."""
    if step in reader.presets:
        return reader.preset(step)
    settled = reader.execution.settled.get(((step, 1),))
    match None if settled is None else settled.outcome:
        case Success(value):
            return reader.answer(step, value)
        case Failure(kind, _, error):
            rebuilt = rebuild_exception(error, (ToolCallFailed,))
            if isinstance(rebuilt, ToolCallFailed):
                return rebuilt
            what = "" if kind != "interrupted" else "it is not known whether the tool has done its work: "
            return ToolCallFailed(f"{what}{error.message}")
    entry = reader.calls.get(step)
    return ToolCallFailed(entry.refused) if entry is not None and entry.refused else None


class _CallHead(msgspec.Struct, frozen=True, tag_field="entry", tag="call"):
    """The part of the entry of a call that says which one it is, and whether it was refused."""

    step: str
    refused: str = ""


class _Given(msgspec.Struct, frozen=True):
    """The answer of a preset, of which nothing is decoded."""


class _PresetHead(msgspec.Struct, frozen=True, tag_field="entry", tag="preset"):
    """The part of the entry of a preset that says which step has it, and whether it has an answer."""

    step: str
    answer: _Given | None = None


_heads: dict[str, _CallHead | _PresetHead] = {}
"""The heads of large entries that were read, by the hash of the entry: so these are not read again for each page."""

HEADS_MAX = 10_000


class _EntryOfCall(NamedTuple):
    """A call: its step, why it was refused (empty: it was not), and the value of its entry."""

    step: str
    refused: str
    value: Value


class RecordingReader:
    """The entries of a recording by step: its calls in the order of arrival, and the values of the entries of its presets.

    `payloads` has the values that are kept apart from the log, by hash, as far as they were read.
    """

    def __init__(self, execution: Execution, payloads: Mapping[str, bytes]) -> None:
        self.execution, self._payloads = execution, payloads
        self.calls: dict[str, _EntryOfCall] = {}
        self.presets: dict[str, Value] = {}
        self._input: Value | None = None
        self._unread: list[Value] = []
        for one in execution.settled.values():
            match one.op:
                case KeepOperation(value=value, role="stream"):
                    self._take(value)
                case KeepOperation(value=value, role="state", label=label) if label == INPUT_STATE:
                    self._input = value

    def missing(self, page: slice | str) -> list[Blob]:
        """Returns the values that a view of a page of the calls, or of the call of a step, needs besides the known ones.

        Which calls are on the page is known with all entries: while one of these is missing that was never read, nothing else is returned.
        """
        assert self.execution.started is not None, "it has begun"
        own = [self.execution.started.input, *self._unread, *([] if self._input is None else [self._input])]
        of_calls = (value for entry in self.page(page) for value in self._values_of(entry))
        return self._without_known(own) or self._without_known(of_calls)

    def _without_known(self, wanted: Iterable[Value]) -> list[Blob]:
        return [value for value in wanted if isinstance(value, Blob) and value.sha256 not in self._payloads]

    def _payload(self, value: Value) -> bytes:
        return value if isinstance(value, bytes) else self._payloads[value.sha256]

    def _take(self, value: Value) -> None:
        match self._head(value):
            case _CallHead(step, refused):
                self.calls[step] = _EntryOfCall(step, refused, value)
            case _PresetHead(step, answer) if answer is not None:
                self.presets[step] = value
            case None:
                self._unread.append(value)

    def _head(self, value: Value) -> _CallHead | _PresetHead | None:
        if isinstance(value, Blob) and (known := _heads.get(value.sha256)) is not None:
            return known
        if self._without_known([value]):
            return None
        found: _CallHead | _PresetHead = values.decode(self._payload(value), _CallHead | _PresetHead, "an entry of a recording")
        if isinstance(value, Blob):
            if len(_heads) >= HEADS_MAX:
                _heads.clear()
            _heads[value.sha256] = found
        return found

    def title(self) -> str:
        """Returns the title that the recording was given."""
        assert self.execution.started is not None, "it has begun"
        args, named = values.decode(self._payload(self.execution.started.input), tuple[list[Any], dict[str, Any]], "the input of a recording")
        order = args[0] if args else named.get("order")
        return str(order.get("title", "")) if isinstance(order, dict) else ""

    def input(self) -> dict[str, Any]:
        """Returns the present values of ``@input``."""
        found: dict[str, Any] = {} if self._input is None else values.decode(self._payload(self._input), dict[str, Any], "the input of a recording")
        return found

    def answer(self, step: str, value: Value) -> ToolAnswer:
        """Returns the answer of a tool to the call of a step."""
        found: ToolAnswer = values.decode(self._payload(value), ToolAnswer, step)
        return found

    def page(self, page: slice | str) -> list[_EntryOfCall]:
        """Returns the entries of a page of the calls, or that of the call of a step, if there is one."""
        if isinstance(page, str):
            return [self.calls[page]] if page in self.calls else []
        return [*self.calls.values()][page]

    def preset(self, step: str) -> ToolAnswer:
        """Returns the answer that was given for a step, which has one."""
        found = values.decode(self._payload(self.presets[step]), PresetEntry, "an entry of a recording").answer
        assert isinstance(found, ToolAnswer), "entries without an answer are not among the presets"
        return found

    def _values_of(self, entry: _EntryOfCall) -> Iterator[Value]:
        """Yields what `call` decodes of a call."""
        yield entry.value
        if entry.step in self.presets:
            yield self.presets[entry.step]
        done = self.execution.settled.get(((entry.step, 1),))
        one = done or self.execution.open.get(((entry.step, 1),))
        if entry.refused or one is None or not isinstance(one.op, CallOperation):
            return
        yield one.op.args
        if done is not None and isinstance(done.outcome, Success) and entry.step not in self.presets:
            yield done.outcome.value

    def state(self, entry: _EntryOfCall) -> CallState:
        """Returns the state of a call."""
        path = ((entry.step, 1),)
        if entry.step in self.presets:
            return "completed"
        if entry.refused:
            return "refused"
        if (pending := self.execution.open.get(path)) is not None and isinstance(pending.op, CallOperation):
            return "running"
        if (settled := self.execution.settled.get(path)) is None or not isinstance(settled.op, CallOperation):
            return "waiting"
        match settled.outcome:
            case Success():
                return "completed"
            case Failure(kind):
                return _STATES_OF_FAILURES.get(kind, "failed")
        return "running"

    def call(self, number: int, entry: _EntryOfCall) -> RecordedCall:
        """Returns the call of an entry, with what has become of it."""
        given = values.decode(self._payload(entry.value), CallEntry, "an entry of a recording")
        found = RecordedCall(
            number=number, step=entry.step, tool=given.tool, id=given.id, state=self.state(entry), arguments=given.arguments, **self._progress(entry)
        )
        if entry.step not in self.presets:
            return found
        return msgspec.structs.replace(found, value=value_of_answer(self.preset(entry.step)), is_preset=True)

    def _progress(self, entry: _EntryOfCall) -> Mapping[str, Any]:
        path, is_preset = ((entry.step, 1),), entry.step in self.presets
        if entry.refused:
            return {} if is_preset else {"error": entry.refused}
        if (pending := self.execution.open.get(path)) is not None and isinstance(pending.op, CallOperation):
            return {"sent": self._sent(pending.op), "attempts": pending.attempt, "began_at_s": pending.opened_at_s}
        if (settled := self.execution.settled.get(path)) is None or not isinstance(settled.op, CallOperation):
            return {}
        found = {"attempts": settled.attempt, "began_at_s": settled.opened_at_s, "ended_at_s": settled.at_s, "sent": self._sent(settled.op)}
        match settled.outcome:
            case Success(value) if not is_preset:
                return {"value": value_of_answer(self.answer(entry.step, value)), **found}
            case Failure(_, _, error) if not is_preset:
                return {"error": error.message, **found}
        return found

    def _sent(self, op: CallOperation) -> dict[str, Any]:
        _, named = values.decode(self._payload(op.args), tuple[list[Any], dict[str, Any]], "the arguments of a call")
        found: dict[str, Any] = named
        return found


_STATES_OF_FAILURES: Mapping[str, CallState] = {"interrupted": "in_doubt", "abandoned": "in_doubt", "cancelled": "cancelled"}
