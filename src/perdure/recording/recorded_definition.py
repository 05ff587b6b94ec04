"""Makes a definition of a recording: its calls become the steps, its references stay, and ``@input`` becomes the input.

A definition has no value of a preset, nor of the input of the recording. What a call referred to is a reference in it, and everything else that it was given
is a literal. Its steps are in the order of the calls by default: of two calls whose values have nothing to do with each other, the second may still need
what the first has done, such as a file that was written and is then read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from perdure.core.errors import BadValue
from perdure.recording.recorded_arguments import kept_reference, literal_text, references_of
from perdure.recording.recording_view import RecordedCall, RecordingView

StepOrder = Literal["recorded", "references"]
"""What orders the steps: the order of the calls, or only the references between them."""

RESERVED_KEYS = frozenset(("@secret", "@text"))
LITERALS = "literals"


class DefinitionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a definition is made: with the `steps` that are named (empty: all that have a result), in which `order`, and with calls that have `failed` or not."""

    steps: tuple[str, ...] = ()
    order: StepOrder = "recorded"
    failed: bool = False


NO_OPTIONS = DefinitionOptions()


def recorded_definition(recording: RecordingView, name: str, options: DefinitionOptions = NO_OPTIONS, description: str = "") -> dict[str, Any]:
    """Returns a document with the calls of a recording as its steps.

    Raises:
        BadValue: no call is left, a step is not one of the recording, or a value can't stand in a definition.
    """
    chosen = _chosen_calls(recording, options)
    writer = _StepWriter(frozenset(call.step for call in chosen))
    steps = [writer.step(call) for call in chosen]
    document: dict[str, Any] = {"perdure": 1, "name": name}
    if description or recording.title:
        document["description"] = description or recording.title
    if inputs := _input_schema(chosen, recording.input):
        document["input"] = inputs
    if writer.literals:
        document["vars"] = {LITERALS: writer.literals}
    if options.order == "recorded":
        document["order"] = "listed"
    return {**document, "steps": steps}


def _chosen_calls(recording: RecordingView, options: DefinitionOptions) -> list[RecordedCall]:
    known = {call.step for call in recording.calls}
    for step in options.steps:
        if step not in known:
            raise BadValue("steps", step, f"the steps of the recording: {', '.join(sorted(known)[:20]) or 'it has none'}")
    chosen = [call for call in recording.calls if (not options.steps or call.step in options.steps) and (call.state == "completed" or options.failed)]
    if not chosen:
        raise BadValue("the recording", "", "one with a call that has a result: call tools first" if not recording.calls else "one with such calls")
    return chosen


def _input_schema(calls: Sequence[RecordedCall], given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that are referred to, each with the type of the value that it had in the recording."""
    names: dict[str, None] = {}
    for call in calls:
        for reference in references_of(call.arguments):
            if reference.root == "input":
                names.update(dict.fromkeys(given) if not reference.path else {str(reference.path[0]): None})
    return {name: _type_of(given[name]) if name in given else {} for name in names}


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


class _StepWriter:
    """Writes calls as steps. `literals` are values that can't stand in the arguments of a step as they are, by name."""

    def __init__(self, steps: frozenset[str]) -> None:
        self._steps = steps
        self.literals: dict[str, Any] = {}

    def step(self, call: RecordedCall) -> dict[str, Any]:
        """Returns the step of a call."""
        for reference in references_of(call.arguments):
            if reference.root == "step" and reference.step not in self._steps:
                raise BadValue("steps", call.step, f"chosen together with {reference.step}, whose result it takes")
        arguments = {name: self._value(value) for name, value in call.arguments.items()}
        return {"id": call.step, "tool": call.tool, **({"with": arguments} if arguments else {})}

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return value if kept_reference(value) is not None else written_literal(literal_text(value))
            case list():
                return [self._value(one) for one in value]
            case {"expr": str(text)} if len(value) == 1 and not text.startswith("@"):
                self.literals[name := f"literal_{len(self.literals) + 1}"] = text
                return {"expr": f"@vars.{LITERALS}.{name}"}
            case dict():
                if reserved := RESERVED_KEYS & value.keys():
                    raise BadValue("an argument", min(reserved), "without a key that marks secrets, which a definition may not have: leave the step out")
                return {key: self._value(one) for key, one in value.items()}
        return value


def written_literal(text: str) -> str:
    """Returns a text as a definition says it, so that nothing in it is a reference."""
    needs_marks = text.startswith("@") or "@@" in text or "@{" in text
    return text.replace("@", "@@") if needs_marks else text
