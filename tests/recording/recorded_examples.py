"""Short ways to write recorded calls, and to look at what was found in them."""

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.definitions.expr.template import compile_template
from perdure.recording.accepted_references import AcceptedCall
from perdure.recording.found_references import found_references
from perdure.recording.literal_calls import LiteralCall
from perdure.recording.suggestions import FoundReference
from tests.recording.generated_sessions import Found, GeneratedSession


def call(step: str, result: Any = None, *, failed: bool = False, **arguments: Any) -> LiteralCall:
    """A call of the tool after which the step is named, as ``get_user_1``."""
    return LiteralCall(step, step.rpartition("_")[0], arguments, result, failed)


def found_in(*calls: LiteralCall, input: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The references that count as found, by argument: ``step/path``, with the part of a text in brackets."""
    return {where(one, calls): one.reference for one in found_references(calls, input).references if one.is_found}


def where(one: FoundReference, calls: Sequence[LiteralCall]) -> str:
    """Where a reference was found."""
    arguments: Any = next(call.arguments for call in calls if call.step == one.call)
    for key in one.path:
        arguments = arguments[key]
    place = "/".join(map(str, (one.call, *one.path)))
    return place if one.span is None else f"{place}[{arguments[slice(*one.span)]}]"


def only(*calls: LiteralCall, input: Mapping[str, Any] | None = None) -> FoundReference:
    """The only reference of a session that counts as found."""
    (found,) = [one for one in found_references(calls, input).references if one.is_found]
    return found


class Results:
    """What references of accepted arguments read: the input, and the results of the calls that have not failed."""

    def __init__(self, calls: Sequence[LiteralCall], input: Mapping[str, Any] | None = None) -> None:
        self._input, self._results = dict(input or {}), {call.step: call.result for call in calls if not call.failed}

    def root(self, name: str) -> Any:
        if name != "input":
            raise KeyError(name)
        return self._input

    def step(self, id: str) -> Any:
        return self._results[id]

    def envelope(self, id: str) -> Any:
        raise KeyError(id)


def evaluated(one: AcceptedCall, calls: Sequence[LiteralCall], input: Mapping[str, Any] | None = None) -> Any:
    """The arguments that a definition computes from accepted ones."""
    return compile_template(one.arguments, expressions="cel").evaluate(Results(calls, input))


def calls_of(session: GeneratedSession) -> list[LiteralCall]:
    """The calls of a generated session."""
    return [LiteralCall(one.name, one.tool, one.arguments, one.result, one.failed) for one in session.calls]


def found_of(session: GeneratedSession, *, plain: bool = False) -> list[Found]:
    """What is found in a generated session, as it is scored; with `plain`, only what a recording can have as a reference itself: no other spelling.

    A recording made literal does not say that a value in another spelling came from anywhere, so such references can't be judged by it.
    """
    found = found_references(calls_of(session), session.input or None).references
    chosen = [one for one in found if one.is_found and not (plain and (one.spelling != "same" or one.is_proposed))]
    return [Found(one.call, one.path, one.span, one.source, one.place) for one in chosen]
