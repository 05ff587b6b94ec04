"""Makes a definition of a recording: its calls become the steps, its references stay, and ``@input`` becomes the input.

A definition has no value of a preset, nor of the input of the recording. What a call referred to is a reference in it, and so is what was accepted of the
suggestions; everything else that it was given is a literal. Its steps are in the order of the calls by default: of two calls whose values have nothing to do
with each other, the second may still need what the first has done, such as a file that was written and is then read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from perdure.core.errors import BadValue
from perdure.recording.accepted_references import AcceptedCall, accepted
from perdure.recording.found_references import found_references
from perdure.recording.literal_calls import LiteralCall, literal_calls
from perdure.recording.recorded_arguments import references_of
from perdure.recording.recording_view import RecordedCall, RecordingView
from perdure.recording.suggestions import FoundLoop, FoundReference, Suggestions

StepOrder = Literal["recorded", "references"]
"""What orders the steps: the order of the calls, or only the references between them."""

RESERVED_KEYS = frozenset(("@secret", "@text"))


class DefinitionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a definition is made: with the `steps` that are named (empty: all that have a result), in which `order`, and with calls that have `failed` or not.

    `accept` has the keys of the suggestions that are put in place of literals.
    """

    steps: tuple[str, ...] = ()
    order: StepOrder = "recorded"
    failed: bool = False
    accept: tuple[str, ...] = ()


NO_OPTIONS = DefinitionOptions()


def recorded_definition(recording: RecordingView, name: str, options: DefinitionOptions = NO_OPTIONS, description: str = "") -> dict[str, Any]:
    """Returns a document with the calls of a recording as its steps.

    Raises:
        BadValue: no call is left, a step or an accepted suggestion is not one of the recording, suggestions contradict each other, or a value can't stand in
            a definition.
    """
    chosen = _chosen_calls(recording, options)
    _expect_writable(chosen)
    calls = literal_calls(chosen)
    suggestions = _accepted_suggestions(recording, calls, options.accept)
    try:
        made = accepted(calls, suggestions)
    except ValueError as error:
        raise BadValue("accept", ", ".join(options.accept), f"suggestions that go together: {error}") from None
    document: dict[str, Any] = {"perdure": 1, "name": name}
    if description or recording.title:
        document["description"] = description or recording.title
    if inputs := _input_schema(chosen, suggestions, recording.input):
        document["input"] = inputs
    if options.order == "recorded":
        document["order"] = "listed"
    return {**document, "steps": [_step(one) for one in made]}


def recording_suggestions(recording: RecordingView, options: DefinitionOptions = NO_OPTIONS) -> tuple[list[LiteralCall], Suggestions]:
    """Returns the calls of which a definition would be made, and the references and loops that their arguments may have been.

    Raises:
        BadValue: no call is left, or a step is not one of the recording.
    """
    calls = literal_calls(_chosen_calls(recording, options))
    return calls, found_references(calls, recording.input)


def _accepted_suggestions(recording: RecordingView, calls: Sequence[LiteralCall], keys: Sequence[str]) -> list[FoundReference | FoundLoop]:
    """Returns the suggestions that have these keys, in the order of the recording."""
    if not keys:
        return []
    found = found_references(calls, recording.input)
    known: dict[str, FoundReference | FoundLoop] = {one.key: one for one in found.references}
    known |= {one.key: one for one in found.loops}
    for key in keys:
        if key not in known:
            raise BadValue("accept", key, f"suggestions of the recording: {', '.join([*known][:20]) or 'it has none'}")
    wanted = frozenset(keys)
    return [one for key, one in known.items() if key in wanted]


def _chosen_calls(recording: RecordingView, options: DefinitionOptions) -> list[RecordedCall]:
    known = {call.step for call in recording.calls}
    for step in options.steps:
        if step not in known:
            raise BadValue("steps", step, f"the steps of the recording: {', '.join(sorted(known)[:20]) or 'it has none'}")
    chosen = [call for call in recording.calls if (not options.steps or call.step in options.steps) and (call.state == "completed" or options.failed)]
    if not chosen:
        raise BadValue("the recording", "", "one with a call that has a result: call tools first" if not recording.calls else "one with such calls")
    return chosen


def _expect_writable(calls: Sequence[RecordedCall]) -> None:
    """Checks that calls can be the steps of a definition.

    Raises:
        BadValue: one refers to a call that is not among them, or has a key that no definition may have.
    """
    steps = {call.step for call in calls}
    for call in calls:
        for reference in references_of(call.arguments):
            if reference.root == "step" and reference.step not in steps:
                raise BadValue("steps", call.step, f"chosen together with {reference.step}, whose result it takes")
        if reserved := RESERVED_KEYS.intersection(_keys(call.arguments)):
            raise BadValue("an argument", min(reserved), "without a key that marks secrets, which a definition may not have: leave the step out")


def _keys(value: Any) -> Iterator[str]:
    match value:
        case dict():
            yield from value
            for one in value.values():
                yield from _keys(one)
        case list():
            for one in value:
                yield from _keys(one)


def _step(one: AcceptedCall) -> dict[str, Any]:
    each = {} if one.each is None else {"each": one.each}
    return {"id": one.step, **each, "tool": one.tool, **({"with": one.arguments} if one.arguments else {})}


def _input_schema(calls: Sequence[RecordedCall], suggestions: Iterable[FoundReference | FoundLoop], given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that are referred to, each with the type of the value that it had in the recording."""
    known = dict(given)
    names: dict[str, None] = {}
    for call in calls:
        for reference in references_of(call.arguments):
            if reference.root == "input":
                names.update(dict.fromkeys(given) if not reference.path else {str(reference.path[0]): None})
    for one in suggestions:
        for source, place in [(one.source, one.place), *((use.source, use.place) for use in (one.uses if isinstance(one, FoundLoop) else ()))]:
            if source == "input" and place:
                names[str(place[0])] = None
        if isinstance(one, FoundReference) and one.is_proposed:
            _ = known.setdefault(str(one.place[0]), one.value)
    return {name: _type_of(known[name]) if name in known else {} for name in names}


def _type_of(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array"}
        case dict():
            return {"type": "object"}
    return {}
