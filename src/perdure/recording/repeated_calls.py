"""Finds calls of one tool that take the elements of a list in turn, and are one step with an `each`.

Such calls have the same arguments but for what comes from their element. The list is in a result or in the input; or it is the list of results of an earlier
loop, one for each element of its list. Other calls may be between them, since the elements are taken in order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.definitions.expr.references import SEGMENTS_MAX, ValuePath, follow_path
from perdure.recording.argument_targets import Span, packed_structure
from perdure.recording.literal_calls import INPUT
from perdure.recording.reference_candidates import GIVEN, CandidateSearch, ReferenceCandidate

BETWEEN_MAX = 3
"""How many other calls may be between two of a loop."""

COMPARISONS_MAX = 200_000
"""The most uses of elements that are compared in one search."""

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


class RunSearch:
    """The loops of a recording."""

    def __init__(self, search: CandidateSearch) -> None:
        self._search = search
        self._targets: dict[int, list[int]] = {}
        for number, target in enumerate(search.index.targets):
            self._targets.setdefault(target.call, []).append(number)
        self._results: dict[int, tuple[int, int]] = {}
        self._lists: dict[int, ListPlace] = {}
        self.comparisons = 0
        self._known: dict[int, _Uses] = {}
        self._leaves_of: dict[int, dict[ValuePath, tuple[type, Any]]] = {}
        self._differences: dict[tuple[int, int], list[tuple[ValuePath, Any, Any]]] = {}

    @property
    def is_partial(self) -> bool:
        """Whether there was more to compare."""
        return self.comparisons > COMPARISONS_MAX

    def runs(self) -> list[CallRun]:
        """Returns the loops, in the order of their first calls; each call is in one at most."""
        found: list[CallRun] = []
        taken: set[int] = set()
        for first in range(len(self._search.calls)):
            run = self._run_from(first) if first not in taken else None
            if run is not None:
                taken.update(run.calls)
                self._results.update((call, (run.calls[0], index)) for call, index in zip(run.calls, run.indexes, strict=True))
                self._lists[run.calls[0]] = run.list
                self._known.clear()  # calls may have something of these results
                found.append(run)
        return found

    def list_length(self, place: ListPlace, input: Mapping[str, Any] | None) -> int:
        """Returns the number of elements of a list. A loop that was found has as many results as its own list has elements."""
        while place.is_results:
            place = self._lists[place.source]
        root = input if place.source == INPUT else self._search.calls[place.source].result
        return len(follow_path(root, place.path, ""))

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
            self.comparisons += len(own)
            if self.comparisons > COMPARISONS_MAX:
                return None
            shared = [use for use in own if (use.at[0], use.suffix) in wanted]
            kept = {(use.at[0], use.suffix) for use in shared}
            mine = tuple(use for use in run.uses if (use.at[0], use.suffix) in kept)
            if mine and self._differ_only_in((run.calls[0], following), mine, shared):
                return CallRun((*run.calls, following), run.list, (*run.indexes, index), mine)
        return None

    def _differ_only_in(self, pair: tuple[int, int], uses: Sequence[ElementUse], others: Sequence[ElementUse]) -> bool:
        """Returns whether the arguments of two calls differ, and only in what they have of their elements."""
        if pair not in self._differences:
            one, other = self._leaves(pair[0]), self._leaves(pair[1])
            paths = (path for path in {**one, **other} if path not in one or path not in other or one[path] != other[path])
            self._differences[pair] = [(path, one.get(path), other.get(path)) for path in paths]
        if not self._differences[pair]:
            return False
        wholes = [use.at[0] for use in uses if use.at[1] is None]
        for path, one_value, other_value in self._differences[pair]:
            if any(path[: len(whole)] == whole for whole in wholes):
                continue
            parts, of_other = _parts_at(path, uses), _parts_at(path, others)
            if not parts or not of_other or _without_parts(one_value, parts) != _without_parts(other_value, of_other):
                return False
        return True

    def _leaves(self, call: int) -> dict[ValuePath, tuple[type, Any]]:
        if call not in self._leaves_of:
            self._leaves_of[call] = dict(_leaves(self._search.calls[call].arguments))
        return self._leaves_of[call]

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


def _leaves(value: Any) -> Iterator[tuple[ValuePath, tuple[type, Any]]]:
    """Yields the values that have no parts, each with its type, by path; those that are deeper than references reach as they are."""
    waiting: list[tuple[ValuePath, Any]] = [((), value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, dict) and one and len(path) < SEGMENTS_MAX:
            waiting.extend(((*path, key), inner) for key, inner in one.items())
        elif isinstance(one, list) and one and len(path) < SEGMENTS_MAX:
            waiting.extend(((*path, place), inner) for place, inner in enumerate(one))
        else:
            yield path, (type(one), packed_structure(one) if isinstance(one, dict | list) else one)


def _parts_at(path: ValuePath, uses: Sequence[ElementUse]) -> list[tuple[Span, ValuePath]]:
    return sorted((use.at[1], use.suffix) for use in uses if use.at[0] == path and use.at[1] is not None)


def _without_parts(leaf: tuple[type, Any] | None, parts: Sequence[tuple[Span, ValuePath]]) -> list[Any]:
    """Returns a text with the parts taken out that come from an element."""
    text = leaf[1] if leaf is not None else ""
    made: list[Any] = []
    behind = 0
    for (start, end), suffix in parts:
        made += [text[behind:start], suffix]
        behind = end
    return [*made, text[behind:]]
