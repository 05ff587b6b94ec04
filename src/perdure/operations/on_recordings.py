"""Operations on recordings: somebody calls tools one by one, and a definition is made of the calls."""

import asyncio
from typing import Any
from uuid import uuid4

import msgspec

from perdure.code.declarations import checked_name
from perdure.code.durations import whole_number
from perdure.core import values
from perdure.core.operations import RECORDING_WORKFLOW
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.operations.on_execution_changes import StartedExecution
from perdure.recording import recording_catalog, recording_requests
from perdure.recording.accepted_references import is_covered, references_by_call
from perdure.recording.recorded_definition import DefinitionOptions, StepOrder, recording_suggestions
from perdure.recording.recording_catalog import RecordedDocument
from perdure.recording.recording_messages import CallRequest, CallState, ToolCallFailed, ToolPreset
from perdure.recording.recording_requests import recording_key, recording_start
from perdure.recording.recording_view import RecordedCall, RecordingView
from perdure.recording.suggestions import FoundReference
from perdure.service import execution_operations, queries
from perdure.service.catalog import CatalogDefinition
from perdure.service.catalog_changes import Edit
from perdure.service.page_cursors import cursor_text, page_limit, parse_cursor
from perdure.service.queries import STATUSES, ExecutionFilter
from perdure.service.start_checks import checked_start
from perdure.service.store_access import StoreAccess
from perdure.service.tenant_numbers import OPEN_STATUSES
from perdure.service.wire_types import NOTHING, EncodedValue


class ListedRecording(msgspec.Struct, frozen=True, kw_only=True):
    """A recording in a list. An open one is `idle` while no call of it runs; it then waits for as long as nobody ends it. Times are seconds since 1970."""

    id: str
    title: str
    open: bool
    idle: bool
    created_at_s: float
    ended_at_s: float | None
    initiator: str = ""


class RecordingPage(msgspec.Struct, frozen=True):
    """A page of a list of recordings, newest first; the next one begins behind `next` (None: this was the last)."""

    items: list[ListedRecording]
    next: str | None = None


class RecordingDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A recording with its calls from a number on. `calls_in_all` counts those before and behind as well, and `calls_by_state` how many of all calls are in
    each state, where there are any.

    `input` has the present values of ``@input``, and `presets_to_come` the steps whose result is given before their call.
    """

    id: str
    title: str
    open: bool
    input: dict[str, Any]
    calls: list[RecordedCall]
    calls_in_all: int
    calls_by_state: dict[CallState, int]
    presets_to_come: list[str]
    started_at_s: float
    last_at_s: float


class ToolCallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool has answered in a recording: its parts, and structured content if it gave any, or that it has failed. `step` is the one that the call is."""

    step: str
    is_error: bool
    is_preset: bool
    content: list[dict[str, Any]]
    structured_content: Any = None


class OtherReference(msgspec.Struct, frozen=True, kw_only=True):
    """Another place from which a literal may have come, and how sure that is."""

    reference: str
    confidence: float


class SuggestedReference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference that a literal in the arguments of a call may have been. `key` names it where it is accepted.

    It is in the arguments of the step `call` at the JSON pointer `path`; with a `span`, it is that part of the text there. `literal` is what is there, and
    `reference` where it may have come from: the JSON pointer `place` in `source`, a step or ``input``. If it `is_proposed`, the input gets a parameter.
    `expression` is the CEL that converts the value, empty if none is needed. `confidence` is between 0 and 1; from a fixed one on, it counts as `found`.
    """

    key: str
    call: str
    path: str
    span: tuple[int, int] | None
    literal: Any
    reference: str
    source: str
    place: str
    expression: str
    confidence: float
    found: bool
    is_proposed: bool
    is_same: bool
    why: str
    alternatives: list[OtherReference]
    more_alternatives: int


class SuggestedLoop(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one tool that may have been one step for each element of a list: the steps of the `calls`, the reference to the `items`, and the `step` that
    they become. Unless it `is_whole`, the step takes more elements than the calls did. With `is_deletion`, its tool removes something. `covers` has the keys of
    the references that it takes the place of, which can't be accepted besides.
    """

    key: str
    calls: list[str]
    items: str
    count: int
    step: dict[str, Any]
    confidence: float
    found: bool
    is_whole: bool
    is_deletion: bool
    covers: list[str]
    why: str


class RecordingSuggestions(msgspec.Struct, frozen=True, kw_only=True):
    """What the literals in a recording may have been, to be accepted one by one. `is_partial` says that the recording is larger than what is read for it."""

    references: list[SuggestedReference]
    loops: list[SuggestedLoop]
    is_partial: bool


class PresetStep(msgspec.Struct, frozen=True):
    """The step whose result was given."""

    step: str


async def page(access: StoreAccess, tenant: str, *, open: bool | None = None, limit: int = 100, after: str = "") -> RecordingPage:
    """Lists recordings, newest first, behind `after`: all, or those that are `open`, or that have ended.

    Raises:
        BadValue: the limit or `after` is not valid.
    """
    statuses = None if open is None else OPEN_STATUSES if open else tuple(one for one in STATUSES if one not in OPEN_STATUSES)
    which, most = ExecutionFilter(tenant=tenant, workflow=RECORDING_WORKFLOW, status=statuses, internal=True), page_limit(limit)
    found = await queries.list_executions(access, which, most, parse_cursor(after))
    following = cursor_text(queries.position_behind(found[-1], which)) if len(found) == most else None
    return RecordingPage([_listed(one) for one in found], following)


def _listed(one: queries.ListedExecution) -> ListedRecording:
    is_open = one.ended_at_s is None
    return ListedRecording(
        id=one.key.id,
        title=str(one.attributes.get("title", "")),
        open=is_open,
        idle=is_open and one.status != "running",
        created_at_s=one.created_at_s,
        ended_at_s=one.ended_at_s,
        initiator=str(one.attributes.get("initiator", "")),
    )


async def start(
    access: StoreAccess,
    tenant: str,
    recording: str = "",
    title: str = "",
    *,
    input: dict[str, Any] | None = None,
    deadline_s: float | None = None,
    author: str = "",
) -> StartedExecution:
    """Starts a recording, unless there is one of this id. It has no deadline unless one is given, and waits for calls until it is ended.

    A process with the tools has to run it: ``perdure mcp --record``.

    Raises:
        BadName, BadValue: the id, the title or the deadline is not valid.
    """
    id = checked_name(recording or uuid4().hex, "recording")
    request = recording_start(recording_key(tenant, id), title, input or {}, deadline_s)
    request = execution_operations.initiated_by(request, author)
    return StartedExecution(*await execution_operations.start_execution(access, checked_start(request)))


async def read(access: StoreAccess, tenant: str, recording: str, after: int = 0, limit: int = 100) -> RecordingDetails:
    """A recording with its calls behind number `after`, up to `limit`.

    Raises:
        NotFound: there is no such recording.
        BadValue: `after` or the limit is not valid.
    """
    behind = whole_number(after, "after", 0)
    found = await recording_requests.read_recording(access, recording_key(tenant, recording), slice(behind, behind + page_limit(limit)))
    return _details(recording, found)


def _details(id: str, found: RecordingView) -> RecordingDetails:
    return RecordingDetails(
        id=id,
        title=found.title,
        open=found.state == "open",
        input=found.input,
        calls=found.calls,
        calls_in_all=sum(found.calls_by_state.values()),
        calls_by_state=found.calls_by_state,
        presets_to_come=found.presets_to_come,
        started_at_s=found.started_at_s,
        last_at_s=found.last_at_s,
    )


async def call(access: StoreAccess, tenant: str, recording: str, tool: str, arguments: dict[str, Any] | None = None, call_id: str = "") -> ToolCallAnswer:
    """Calls a tool by its full name, ``server.tool``, and records the call as a step. Texts such as ``@get_user_1.id`` are references to earlier results.

    A call that is repeated under one `call_id` is made once, and answered with the same.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
        BadValue: the call is not valid.
    """
    request = CallRequest(id=call_id or uuid4().hex, tool=tool, arguments=arguments or {})
    found = await recording_requests.call_tool(access, recording_key(tenant, recording), request, is_new=not call_id)
    return tool_call_answer(found)


def tool_call_answer(found: recording_requests.CallResult) -> ToolCallAnswer:
    """The answer to a call in the form of the protocol."""
    answer = found.answer
    if isinstance(answer, ToolCallFailed):
        said = answer.answer or {"content": [{"type": "text", "text": str(answer)}]}
        structured = said.get("structuredContent")
        return ToolCallAnswer(step=found.step, is_error=True, is_preset=False, content=list(said.get("content") or []), structured_content=structured)
    structured = None if answer.structured_content is msgspec.UNSET else answer.structured_content
    return ToolCallAnswer(step=found.step, is_error=False, is_preset=answer.is_preset, content=answer.content, structured_content=structured)


async def cancel_call(access: StoreAccess, tenant: str, recording: str, call_id: str) -> None:
    """Ends a call that waits or runs, by its id.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
        Timeout: no process with the tools runs the recording. The message is kept, and handled once one does.
    """
    await recording_requests.cancel_call(access, recording_key(tenant, recording), call_id)


async def preset(
    access: StoreAccess, tenant: str, recording: str, result: EncodedValue = NOTHING, *, step: str = "", tool: str = "", arguments: dict[str, Any] | None = None
) -> PresetStep:
    """Gives the result of a call that is not made: of a `tool` with these arguments, as a step of its own; or of a `step` that is to come, or has failed.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
        BadValue: both or neither of step and tool are given, the step has no name of one, or it has its result or runs.
        Timeout: no process with the tools runs the recording. The message is kept, and handled once one does.
    """
    wanted = ToolPreset(result=values.decode(result, Any, "the result"), step=step, tool=tool, arguments=arguments or {})
    return PresetStep(await recording_requests.preset_result(access, recording_key(tenant, recording), wanted))


async def set_input(access: StoreAccess, tenant: str, recording: str, input: dict[str, Any]) -> None:
    """Sets values of ``@input``, besides those that are known or in their place.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
        Timeout: no process with the tools runs the recording. The message is kept, and handled once one does.
    """
    await recording_requests.set_input(access, recording_key(tenant, recording), input)


async def end(access: StoreAccess, tenant: str, recording: str) -> None:
    """Ends a recording, once the calls that have begun have ended. It can be saved after that, too.

    Raises:
        NotFound, HasEnded: there is no such recording, or it has ended.
        Timeout: no process with the tools runs the recording. The message is kept, and handled once one does.
    """
    await recording_requests.end_recording(access, recording_key(tenant, recording))


async def suggestions(access: StoreAccess, tenant: str, recording: str, steps: list[str] | None = None, *, failed: bool = False) -> RecordingSuggestions:
    """Finds what the literals in the arguments of a recording may have been: references to earlier results and to the input, and loops over lists.

    `definition` and `save` take the keys of those that are accepted. `steps` and `failed` choose the calls, as there.

    Raises:
        NotFound: there is no such recording.
        BadValue: no call is left, or a step is not one of the recording.
    """
    view = await recording_requests.read_recording(access, recording_key(tenant, recording))
    options = DefinitionOptions(steps=tuple(steps or ()), failed=failed)
    return await asyncio.to_thread(_suggestions, view, options)


def _suggestions(view: RecordingView, options: DefinitionOptions) -> RecordingSuggestions:
    calls, found = recording_suggestions(view, options)
    arguments, by_call = {one.step: one.arguments for one in calls}, references_by_call(found.references)
    return RecordingSuggestions(
        references=[_suggested(one, arguments[one.call]) for one in found.references],
        loops=[
            SuggestedLoop(
                key=one.key,
                calls=[*one.calls],
                items=one.items,
                count=one.count,
                step=one.step,
                confidence=one.confidence,
                found=one.is_found,
                is_whole=one.is_whole,
                is_deletion=one.is_deletion,
                covers=[inner.key for step in one.calls for inner in by_call.get(step, ()) if is_covered(inner, one)],
                why=one.why,
            )
            for one in found.loops
        ],
        is_partial=found.is_partial,
    )


def _suggested(one: FoundReference, arguments: Any) -> SuggestedReference:
    for key in one.path:
        arguments = arguments[key]
    return SuggestedReference(
        key=one.key,
        call=one.call,
        path=joined_pointer("", *one.path),
        span=one.span,
        literal=arguments if one.span is None else arguments[slice(*one.span)],
        reference=one.reference,
        source=one.source,
        place=joined_pointer("", *one.place),
        expression=one.expression,
        confidence=one.confidence,
        found=one.is_found,
        is_proposed=one.is_proposed,
        is_same=one.is_same,
        why=one.why,
        alternatives=[OtherReference(reference=other.reference, confidence=other.confidence) for other in one.alternatives],
        more_alternatives=one.others,
    )


async def definition(
    access: StoreAccess,
    tenant: str,
    recording: str,
    name: str = "",
    steps: list[str] | None = None,
    *,
    order: StepOrder = "recorded",
    failed: bool = False,
    accept: list[str] | None = None,
) -> RecordedDocument:
    """Makes the definition of a recording, and says what was found in it. Nothing is stored.

    It has the calls with a result, or the chosen `steps`, in the order of the calls; with order ``references``, steps wait only for those that they refer to.
    It has no value of a preset or of the input. With `failed`, it has the calls without a result as well. What `accept` names of the `suggestions`, by their
    keys, takes the place of literals.

    Raises:
        NotFound: there is no such recording.
        BadValue: no call is left, one can't stand in a definition, or what is accepted is not suggested or contradicts itself.
        BadName: no slug can be made of the name.
    """
    options = DefinitionOptions(steps=tuple(steps or ()), order=order, failed=failed, accept=tuple(accept or ()))
    return await recording_catalog.preview_definition(access, tenant, recording, name or recording, options)


async def save(
    access: StoreAccess,
    tenant: str,
    recording: str,
    slug: str,
    author: str,
    steps: list[str] | None = None,
    *,
    order: StepOrder = "recorded",
    failed: bool = False,
    accept: list[str] | None = None,
    draft: bool = False,
    note: str = "",
    revision: int | None = None,
) -> CatalogDefinition:
    """Publishes the definition of a recording under a slug, as its first version or the next one; with `draft`, keeps it as a draft. See `definition`.

    Raises:
        NotFound: there is no such recording.
        BadValue: no call is left, one can't stand in a definition, or what is accepted is not suggested or contradicts itself.
        BadDefinition: the document is not valid; the error has all findings.
        StaleRecord: the definition is not at the revision.
        DefinitionOwned: a watched file has the definition.
        BadName: the slug or the author is not valid.
    """
    options = DefinitionOptions(steps=tuple(steps or ()), order=order, failed=failed, accept=tuple(accept or ()))
    return await recording_catalog.save_definition(access, tenant, recording, slug, Edit(author, note, revision), options, is_draft=draft)
