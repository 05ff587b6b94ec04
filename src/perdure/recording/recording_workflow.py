"""The workflow of a recording: it receives calls, names each as a step, and performs the tool as that step.

Steps are named in the order in which calls arrive. A call begins when the steps that it refers to have ended, and never waits for any other. Everything that
is decided here follows from the log, so the same recording continues in any process that has its tools.
"""

import asyncio
import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import msgspec

from perdure.code.context import Context
from perdure.code.declarations import CodeWorkflow, Step
from perdure.code.results import Message, Ok
from perdure.core.errors import ExpressionFailed, Fatal
from perdure.core.operations import RECORDING_WORKFLOW, Failure
from perdure.definitions.expr.plain_values import DEPTH_MAX, nests_deeper
from perdure.recording.recorded_arguments import forwarded_arguments, kept_arguments, references_of
from perdure.recording.recording_messages import (
    CALL,
    CANCELLATION,
    END,
    FLATTER,
    INPUT,
    INPUT_STATE,
    PRESET,
    TOO_DEEP,
    CallCancellation,
    CallEntry,
    CallRequest,
    InputValues,
    PresetEntry,
    RecordingOrder,
    RecordingReply,
    ToolAnswer,
    ToolCallFailed,
    ToolPreset,
)
from perdure.recording.step_names import step_base
from perdure.recording.tool_values import preset_answer, value_of_answer

ToolFinder = Callable[[str, str], Step[..., Any, Any] | None]
"""Returns the step that calls a tool, by the full name of the tool and the id of the call."""


class RecordingResult(msgspec.Struct, frozen=True):
    """What a recording has come to when it ends: the number of its calls, and of those that have no result."""

    calls: int
    failed: int


class _Call:
    """A call that has not ended, and the message that is answered when it has."""

    def __init__(self, step: str, request: CallRequest, kept: dict[str, Any], message: Message[Any]) -> None:
        self.step, self.request, self.kept, self.message = step, request, kept, message
        self.needs = {reference.step for reference in references_of(kept) if reference.root == "step"}


class _Recording:
    """A recording. `values` are the results of its steps, `presets` those that were given for steps to come, and `ended` has the steps without a result."""

    def __init__(self, ctx: Context, order: RecordingOrder, find_tool: ToolFinder) -> None:
        self.ctx, self.find_tool = ctx, find_tool
        self.input = dict(order.input)
        self.counts = Counter[str]()
        self.steps: dict[str, CallRequest] = {}
        self.values: dict[str, Any] = {}
        self.presets: dict[str, ToolAnswer] = {}
        self.failures: dict[str, str] = {}
        self.waiting: list[_Call] = []
        self.running: dict[asyncio.Future[Any], _Call] = {}

    # What expressions read.

    def root(self, name: str) -> Any:
        """Returns the values of ``@input``."""
        if name != "input":
            raise KeyError(name)
        return self.input

    def step(self, id: str) -> Any:
        """Returns the value of a step."""
        if (why := self.failures.get(id)) is not None:
            raise ExpressionFailed("", f"@{id} has no result: {why}", f"call the tool again, or give the result of {id} as a preset")
        return self.values[id]

    def envelope(self, id: str) -> Any:
        """Raises KeyError: the steps of a recording have no envelopes."""
        raise KeyError(id)

    # The recording.

    async def run(self) -> RecordingResult:
        """Receives messages until the recording is ended, then waits for the calls that have begun."""
        self.ctx.set(INPUT_STATE, self.input)
        end: Message[Any] | None = None
        listening: asyncio.Future[Any] | None = self._listen()
        while listening is not None or self.running:
            waited = [*self.running, *([] if listening is None else [listening])]
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for task in [one for one in self.running if one in done]:
                self._settle(task)
            if listening is not None and listening in done:
                message = listening.result()
                end = message if message.name == END.name else None
                if end is None:
                    self._receive(message)
                listening = self._listen() if end is None else None
            self._begin_ready()
        if end is not None:
            end.complete(RecordingReply())
        return RecordingResult(len(self.steps), len(self.failures))

    def _listen(self) -> "asyncio.Future[Any]":
        return asyncio.ensure_future(self.ctx.listen(CALL.name, PRESET.name, INPUT.name, CANCELLATION.name, END.name, completable=True))

    def _receive(self, message: Message[Any]) -> None:
        handler, kind = self._HANDLERS[message.name]
        if self._is_too_deep(message.body, DEPTH_MAX + 1):
            message.complete(RecordingReply(refused=f"{TOO_DEEP}. {FLATTER}"))
            return
        try:
            body = msgspec.convert(message.body, kind)
        except msgspec.ValidationError as error:
            message.complete(RecordingReply(refused=f"the message is not valid: {error}"))
            return
        handler(self, body, message)

    def _is_too_deep(self, value: Any, limit: int = DEPTH_MAX) -> bool:
        """Returns whether a value nests too deep. What went through before there was a limit still does when it is replayed."""
        return nests_deeper(value, limit) and self.ctx.version("depth", 2).value > 1

    def _name(self, tool: str) -> str:
        base = step_base(tool)
        self.counts[base] += 1
        return f"{base}_{self.counts[base]}"

    def _receive_call(self, request: CallRequest, message: Message[Any]) -> None:
        kept, step = kept_arguments(request.arguments, self.steps), self._name(request.tool)
        self.steps[step] = request
        call = _Call(step, request, kept, message)
        self._record(call)
        if (answer := self.presets.pop(step, None)) is not None:
            self.values[step] = value_of_answer(answer)
            message.complete(RecordingReply(step=step))
        else:
            self.waiting.append(call)

    def _record(self, call: _Call, refused: str = "") -> None:
        self.ctx.emit(CallEntry(call.step, call.request.tool, call.kept, call.request.id, refused))

    def _receive_preset(self, preset: ToolPreset, message: Message[Any]) -> None:
        answer = preset_answer(preset.result)
        if preset.tool:
            step, kept = self._name(preset.tool), kept_arguments(preset.arguments, self.steps)
            self.steps[step] = CallRequest(id="", tool=preset.tool, arguments=preset.arguments)
            self.ctx.emit(CallEntry(step, preset.tool, kept))
            self._use_preset(step, answer)
            message.complete(RecordingReply(step=step))
        elif preset.step in self.values or preset.step in {one.step for one in (*self.waiting, *self.running.values())}:
            state = "has its result already" if preset.step in self.values else "is running: cancel the call first"
            message.complete(RecordingReply(refused=f"{preset.step} {state}"))
        elif preset.step in self.failures:
            self._use_preset(preset.step, answer)
            message.complete(RecordingReply(step=preset.step))
        else:
            self.presets[preset.step] = answer
            self.ctx.emit(PresetEntry(preset.step, answer))
            message.complete(RecordingReply(step=preset.step))

    def _use_preset(self, step: str, answer: ToolAnswer) -> None:
        _ = self.failures.pop(step, None)
        self.values[step] = value_of_answer(answer)
        self.ctx.emit(PresetEntry(step, answer))

    def _receive_input(self, given: InputValues, message: Message[Any]) -> None:
        self.input |= given.values
        self.ctx.set(INPUT_STATE, self.input)
        message.complete(RecordingReply())

    def _receive_cancellation(self, wanted: CallCancellation, message: Message[Any]) -> None:
        for task, call in self.running.items():
            if call.request.id == wanted.id:
                _ = task.cancel()
        for call in [one for one in self.waiting if one.request.id == wanted.id]:
            self.waiting.remove(call)
            self._fail(call, "it was cancelled before it began")
        message.complete(RecordingReply())

    _HANDLERS: Mapping[str, tuple[Callable[["_Recording", Any, Message[Any]], None], Any]] = {
        CALL.name: (_receive_call, CallRequest),
        PRESET.name: (_receive_preset, ToolPreset),
        INPUT.name: (_receive_input, InputValues),
        CANCELLATION.name: (_receive_cancellation, CallCancellation),
    }

    # Calls.

    def _begin_ready(self) -> None:
        """Begins each call whose references have a value, or never will."""
        unsettled = {call.step for call in self.running.values()}
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            if call.needs.isdisjoint(unsettled):
                self._begin(call)
            else:
                self.waiting.append(call)
            if call.step not in self.failures:
                unsettled.add(call.step)

    def _begin(self, call: _Call) -> None:
        try:
            arguments = forwarded_arguments(call.kept, self)
        except ExpressionFailed as error:
            self._fail(call, str(error))
            return
        if self._is_too_deep(arguments):
            self._fail(call, f"with the values of its references, {TOO_DEEP}. Refer to a part of them")
            return
        tool = _checked_tool(self.find_tool(call.request.tool, call.request.id) or _missing_tool(call.request.tool))
        self.running[asyncio.ensure_future(self.ctx.attempt(call.step, tool, **arguments))] = call

    def _fail(self, call: _Call, why: str) -> None:
        """Ends a call that is not forwarded."""
        self.failures[call.step] = why
        self._record(call, why)
        call.message.complete(RecordingReply(step=call.step))

    def _settle(self, task: "asyncio.Future[Any]") -> None:
        call = self.running.pop(task)
        if task.cancelled():
            self.failures[call.step] = "it was cancelled"
        else:
            match task.result():
                case Ok(value):
                    self.values[call.step] = value_of_answer(msgspec.convert(value, ToolAnswer))
                case Failure(_, _, error):
                    self.failures[call.step] = f"it failed: {error.message}"
        call.message.complete(RecordingReply(step=call.step))


def _missing_tool(name: str) -> Step[..., Any, Any]:
    def refuse(**_: Any) -> Any:
        raise Fatal(f"the engine that runs this recording has no tool {name!r}: name its server in mcp.json, and start the recorder again")

    return Step(refuse, name=name)


def _checked_tool(tool: Step[..., Any, Any]) -> Step[..., Any, Any]:
    """Returns the step of a tool that fails if its answer nests too deep: what is recorded has to be read again."""

    def checked(answer: Any) -> Any:
        if isinstance(answer, ToolAnswer) and nests_deeper(msgspec.structs.asdict(answer), DEPTH_MAX + 1):
            raise ToolCallFailed(f"the tool has done its work, and its answer can't be recorded: {TOO_DEEP}")
        return answer

    @wraps(tool.fn)
    async def called(**arguments: Any) -> Any:
        return checked(await tool.fn(**arguments))

    @wraps(tool.fn)
    def called_in_a_thread(**arguments: Any) -> Any:
        return checked(tool.fn(**arguments))

    fn = called if inspect.iscoroutinefunction(tool.fn) else called_in_a_thread
    return dataclasses.replace(tool, fn=fn, raises=(*tool.raises, ToolCallFailed))


def recording_workflow(find_tool: ToolFinder) -> CodeWorkflow:
    """Returns the workflow of recordings in a process that has these tools."""

    async def record(ctx: Context, order: RecordingOrder) -> RecordingResult:
        return await _Recording(ctx, order, find_tool).run()

    return CodeWorkflow(record, RECORDING_WORKFLOW)
