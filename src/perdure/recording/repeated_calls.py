"""Finds calls of one tool that take the elements of a list in turn, and are one step with an `each`.

Such calls have the same arguments but for what comes from their element. The list is in a result or in the input; or it is the list of results of an earlier
loop, one for each of its calls. Other calls may be between them, since the elements are taken in order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.definitions.expr.references import ValuePath, follow_path
from perdure.recording.argument_targets import Span, leaves_and_structures
from perdure.recording.literal_calls import INPUT, LiteralCall
from perdure.recording.reference_candidates import GIVEN, CandidateSearch, ReferenceCandidate

BETWEEN_MAX = 3
"""How many other calls may be between two of a loop."""

CANDIDATES_MAX = 16
"""How many places of one value are considered."""


class ListPlace(NamedTuple):
    """A list: in the result of a call, or in the input; with `is_results`, the results of the loop whose first call is `source`."""

    source: int
    path: ValuePath
    is_results: bool = False


class ElementUse(NamedTuple):
    """What an argument has of the element of a list."""

    at: tuple[ValuePath, Span | None]
    suffix: ValuePath
    candidate: ReferenceCandidate


class CallRun(NamedTuple):
    """Calls that take elements of a list, each with the index of its own, and what the first one uses."""

    calls: tuple[int, ...]
    list: ListPlace
    indexes: tuple[int, ...]
    uses: tuple[ElementUse, ...]


_Uses = dict[ListPlace, dict[int, list[ElementUse]]]
"""What a call has of the elements of lists, by list and index."""


def call_runs(search: CandidateSearch) -> list[CallRun]:
    """Returns the loops of a recording, in the order of their first calls."""
    return _RunSearch(search).runs()


class _RunSearch:
    def __init__(self, search: CandidateSearch) -> None:
        self._search = search
        self._targets: dict[int, list[int]] = {}
        for number, target in enumerate(search.index.targets):
            self._targets.setdefault(target.call, []).append(number)
        self._results: dict[int, tuple[int, int]] = {}
        self._known: dict[int, _Uses] = {}

    def runs(self) -> list[CallRun]:
        """Returns the loops; each call is in one at most."""
        found: list[CallRun] = []
        taken: set[int] = set()
        for first in range(len(self._search.calls)):
            run = self._run_from(first) if first not in taken else None
            if run is not None:
                taken.update(run.calls)
                self._results.update((call, (run.calls[0], place)) for place, call in enumerate(run.calls))
                self._known.clear()  # calls may have something of these results
                found.append(run)
        return found

    def _run_from(self, first: int) -> CallRun | None:
        """Returns the longest loop that begins with a call."""
        best: CallRun | None = None
        following = self._following(first)
        after = self._uses(following) if following is not None else {}
        for place, elements in self._uses(first).items() if not self._search.calls[first].failed else ():
            for index, own in elements.items() if place in after else ():
                run = CallRun((first,), place, (index,), tuple(own))
                while (longer := self._longer(run)) is not None:
                    run = longer
                if len(run.calls) > 1 and (best is None or (len(run.calls), len(run.uses)) > (len(best.calls), len(best.uses))):
                    best = run
        return best

    def _following(self, call: int) -> int | None:
        calls = self._search.calls
        later = range(call + 1, min(len(calls), call + 2 + BETWEEN_MAX))
        return next((at for at in later if calls[at].tool == calls[call].tool), None)

    def _longer(self, run: CallRun) -> CallRun | None:
        """Returns a loop with its next call; None if there is none."""
        calls, following = self._search.calls, self._following(run.calls[-1])
        if following is None or calls[following].failed:
            return None
        wanted = {(use.at[0], use.suffix) for use in run.uses}
        for index, own in sorted(self._uses(following).get(run.list, {}).items()):
            if index <= run.indexes[-1]:
                continue
            shared = [use for use in own if (use.at[0], use.suffix) in wanted]
            kept = {(use.at[0], use.suffix) for use in shared}
            mine = tuple(use for use in run.uses if (use.at[0], use.suffix) in kept)
            if mine and _differ_only_in(calls[run.calls[0]], calls[following], mine, shared):
                return CallRun((*run.calls, following), run.list, (*run.indexes, index), mine)
        return None

    def _uses(self, call: int) -> _Uses:
        if (known := self._known.get(call)) is not None:
            return known
        found: dict[ListPlace, dict[int, dict[tuple[ValuePath, Span | None], ElementUse]]] = {}
        for number in self._targets.get(call, ()):
            path = self._search.index.targets[number].path
            for span, candidates in self._search.candidates[number].items():
                for one in candidates[:CANDIDATES_MAX]:
                    if one.place.source == GIVEN or one.bits <= 0:
                        continue
                    for place, index, suffix in _elements_of(one, self._results):
                        _ = found.setdefault(place, {}).setdefault(index, {}).setdefault((path, span), ElementUse((path, span), suffix, one))
        uses = {place: {index: _outermost([*own.values()]) for index, own in elements.items()} for place, elements in found.items()}
        self._known[call] = uses
        return uses


def _outermost(uses: Sequence[ElementUse]) -> list[ElementUse]:
    """Returns the uses that are not inside of others: whole arguments, then the longest parts of texts."""
    kept: list[ElementUse] = []
    for use in sorted(uses, key=lambda one: (one.at[1] is not None, len(one.at[0]), (one.at[1] or (0, 0))[0] - (one.at[1] or (0, 0))[1])):
        if not any(_overlaps(use, other) for other in kept):
            kept.append(use)
    return kept


def _overlaps(one: ElementUse, other: ElementUse) -> bool:
    (path, span), (outer, taken) = one.at, other.at
    if taken is None:
        return path[: len(outer)] == outer
    return path == outer and span is not None and span[0] < taken[1] and taken[0] < span[1]


def _elements_of(one: ReferenceCandidate, results: Mapping[int, tuple[int, int]]) -> Iterator[tuple[ListPlace, int, ValuePath]]:
    place = one.place
    for at, key in enumerate(place.path):
        if isinstance(key, int):
            yield ListPlace(place.source, place.path[:at]), key, place.path[at + 1 :]
    if place.source in results:
        loop, index = results[place.source]
        yield ListPlace(loop, (), is_results=True), index, place.path


def _differ_only_in(one: LiteralCall, other: LiteralCall, uses: Sequence[ElementUse], others: Sequence[ElementUse]) -> bool:
    """Returns whether the arguments of two calls differ only in what they have of their elements."""
    return _without(one, uses) == _without(other, others)


def _without(call: LiteralCall, uses: Sequence[ElementUse]) -> dict[ValuePath, Any]:
    """Returns the arguments of a call by path, with what it has of an element taken out."""
    parts: dict[ValuePath, list[tuple[Span, ValuePath]]] = {}
    wholes = {use.at[0]: use.suffix for use in uses if use.at[1] is None}
    for use in uses:
        if use.at[1] is not None:
            parts.setdefault(use.at[0], []).append((use.at[1], use.suffix))
    found: dict[ValuePath, Any] = {}
    for path, value in leaves_and_structures(call.arguments):
        if any(path[: len(whole)] == whole for whole in wholes) or isinstance(value, list | dict):
            continue
        found[path] = _without_parts(value, parts.get(path, ()))
    return {**found, **{path: ("element", suffix) for path, suffix in wholes.items()}}


def _without_parts(value: Any, parts: Sequence[tuple[Span, ValuePath]]) -> Any:
    if not parts:
        return value
    made: list[Any] = []
    behind = 0
    for (start, end), suffix in sorted(parts):
        made += [value[behind:start], suffix]
        behind = end
    return (*made, value[behind:])


def list_length(search: CandidateSearch, run: CallRun, input: Mapping[str, Any] | None) -> int:
    """Returns the number of elements of the list of a loop."""
    if run.list.is_results:
        return max(run.indexes) + 1
    root = input if run.list.source == INPUT else search.calls[run.list.source].result
    value = follow_path(root, run.list.path, "")
    return len(value)
