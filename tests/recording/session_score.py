"""Scores references that were found in a session against its truth.

The rules:

- A found reference is right if the truth accepts its target at that argument path, and for a part of a text at the same span. Spans are compared without
  white space, quotes, and the signs $ € # @ at their ends; no span means the whole text.
- A found reference to a structure is right if the truth accepts, for each leaf of the argument, the part of the target at the same place. A structure that
  was passed on as a whole is found too if each of its leaves is.
- Any other found reference is wrong: a false positive. A required reference of the truth that is not found is missed: a false negative. A wrong target is both.
- A reference that is not required is not counted if it is found right, nor if it is missed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.recording.session_truth import GeneratedSession, Path, Reference, Span, Target, Truth, at, leaves

EDGES = " \t\r\n\"'`$€#@<>()[]"
"""Characters at the ends of a span that do not matter."""


class Found(NamedTuple):
    """A reference that was found in an argument: the target is a place in the result of a step, or in the input if the step is "input"."""

    call: str
    path: Path
    span: Span | None
    step: str
    target: Path


class Score(NamedTuple):
    """Counts by kind. A false positive has the kind of what is true there, and "(target)" behind it where a reference to elsewhere is true."""

    right: Mapping[str, int]
    wrong: Mapping[str, int]
    missed: Mapping[str, int]

    @property
    def tp(self) -> int:
        """The number of required references that were found."""
        return sum(self.right.values())

    @property
    def fp(self) -> int:
        """The number of found references that are wrong."""
        return sum(self.wrong.values())

    @property
    def fn(self) -> int:
        """The number of required references that were missed."""
        return sum(self.missed.values())

    @property
    def precision(self) -> float:
        """The share of found references that are right; 1 if none was found."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 1.0

    @property
    def recall(self) -> float:
        """The share of required references that were found; 1 if there are none."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 1.0


def score(session: GeneratedSession, found: Iterable[Found]) -> Score:
    """Compare what was found in a session with its truth."""
    arguments = {call.name: call.arguments for call in session.calls}
    accepted = _accepted(session)
    covered: set[tuple[str, Path, Span | None]] = set()
    wrong: Counter[str] = Counter()
    for one in found:
        if one.call not in arguments:
            raise ValueError(f"{one.call} is no call of the session; its calls are {', '.join(arguments)}")
        value = at(arguments[one.call], one.path)
        span = _trimmed(value, one.span)
        places = [(one.call, (*one.path, *path), None) for path, _ in leaves(value)] if span is None else [(one.call, one.path, span)]
        targets = [Target(one.step, (*one.target, *path)) for path, _ in leaves(value)] if span is None else [Target(one.step, one.target)]
        if all(_accepts(accepted.get(place, frozenset()), target) for place, target in zip(places, targets, strict=True)):
            covered.update(places)
        else:
            wrong[_kind_at(session.truth, one.call, one.path, span, value)] += 1
    right: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for truth in session.truth:
        if isinstance(truth.origin, Reference) and truth.origin.required:
            (right if covered.issuperset(_places(truth, at(arguments[truth.call], truth.path))) else missed)[truth.origin.kind] += 1
    return Score(right, wrong, missed)


def total(scores: Iterable[Score]) -> Score:
    """The sum of several scores."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for one in scores:
        right.update(one.right)
        wrong.update(one.wrong)
        missed.update(one.missed)
    return Score(right, wrong, missed)


def _accepted(session: GeneratedSession) -> dict[tuple[str, Path, Span | None], frozenset[Target]]:
    """What the truth accepts at each leaf, and at each part of a text."""
    arguments = {call.name: call.arguments for call in session.calls}
    accepted: dict[tuple[str, Path, Span | None], frozenset[Target]] = {}
    for truth in session.truth:
        if not isinstance(truth.origin, Reference):
            continue
        value = at(arguments[truth.call], truth.path)
        if truth.span is not None or not truth.origin.parts:
            accepted[truth.call, truth.path, _trimmed(value, truth.span)] = truth.origin.acceptable
        for path, targets in truth.origin.parts:
            accepted[truth.call, (*truth.path, *path), None] = targets
    return accepted


def _accepts(acceptable: frozenset[Target], target: Target) -> bool:
    return target in acceptable or Target(target.step, None) in acceptable


def _places(truth: Truth, value: Any) -> list[tuple[str, Path, Span | None]]:
    """What must be covered for a reference of the truth to be found."""
    if (span := _trimmed(value, truth.span)) is not None:
        return [(truth.call, truth.path, span)]
    return [(truth.call, (*truth.path, *path), None) for path, _ in leaves(value)]


def _trimmed(value: Any, span: Span | None) -> Span | None:
    """A span without what does not matter at its ends; None if that is the whole text."""
    if span is None or not isinstance(value, str):
        return None
    inner = _without_edges(value, span)
    return None if inner == _without_edges(value, (0, len(value))) else inner


def _without_edges(text: str, span: Span) -> Span:
    start, end = span
    while start < end and text[start] in EDGES:
        start += 1
    while end > start and text[end - 1] in EDGES:
        end -= 1
    return start, end


def _kind_at(truths: Iterable[Truth], call: str, path: Path, span: Span | None, value: Any) -> str:
    """The kind of what is true where a wrong reference was found."""
    here = [
        truth for truth in truths if truth.call == call and (truth.path == path or truth.path[: len(path)] == path or path[: len(truth.path)] == truth.path)
    ]
    for truth in here:
        if isinstance(truth.origin, Reference) and (span is None or truth.span is None or _overlap(span, truth.span)):
            trimmed = _trimmed(value, truth.span) if truth.path == path else None
            return f"{truth.origin.kind} ({'target' if truth.path == path and trimmed == span else 'place'})"
    return here[0].origin.kind if here else "constant"


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
