"""Recorded calls as the search for references reads them: with literal arguments, in the order in which they were made."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from perdure.definitions.expr.references import ValuePath
from perdure.recording.recorded_arguments import kept_reference, literal_text
from perdure.recording.recording_view import RecordedCall

INPUT = -1
"""The number of the input, beside those of calls, which count from 0."""


class LiteralCall(NamedTuple):
    """A call with literal arguments. The result of one that has `failed` is not read.

    `references` has the places in the arguments that were given as references, each as written, such as ``@get_user_1.id``; the arguments have their values
    there. Times are seconds since 1970. A call that began before another one ended can't have read its result; without times, all earlier calls have ended.
    """

    step: str
    tool: str
    arguments: Mapping[str, Any]
    result: Any = None
    failed: bool = False
    references: Mapping[ValuePath, str] = {}
    began_at_s: float | None = None
    ended_at_s: float | None = None

    def could_read(self, earlier: "LiteralCall") -> bool:
        """Returns whether an earlier call had ended when this one began."""
        return self.began_at_s is None or earlier.ended_at_s is None or earlier.ended_at_s <= self.began_at_s


def literal_calls(calls: Iterable[RecordedCall]) -> list[LiteralCall]:
    """Returns recorded calls with the values that were forwarded; of a call that was not forwarded, what was given as a reference stays as written."""
    return [
        LiteralCall(
            step=call.step,
            tool=call.tool,
            arguments=_literals(call.arguments) if call.sent is None else call.sent,
            result=call.value,
            failed=call.state != "completed",
            references=dict(_references(call.arguments, ())),
            began_at_s=call.began_at_s,
            ended_at_s=call.ended_at_s,
        )
        for call in calls
    ]


def _literals(kept: Any) -> Any:
    match kept:
        case str():
            return literal_text(kept)
        case list():
            return [_literals(one) for one in kept]
        case dict():
            return {key: _literals(one) for key, one in kept.items()}
    return kept


def _references(kept: Any, path: ValuePath) -> Iterator[tuple[ValuePath, str]]:
    match kept:
        case str() if kept_reference(kept) is not None:
            yield path, kept
        case list():
            for place, one in enumerate(kept):
                yield from _references(one, (*path, place))
        case dict():
            for key, one in kept.items():
                yield from _references(one, (*path, key))
