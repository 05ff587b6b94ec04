"""Finds the references that the literal arguments of recorded calls may have been, so that a definition can be made of them.

A value in an argument may have come from the input or from the result of an earlier call. Each suggestion has its confidence, the other places with the value,
and a sentence of why; those from `FOUND_CONFIDENCE` on count as found. A text may be a reference as a whole, or contain some. If a list or a mapping is one
as a whole, nothing is suggested for what is in it. Which of several places is suggested is said in `reference_candidates`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.definitions.expr.plain_values import json_equal, short_value_text, text_of_value
from perdure.definitions.expr.references import ValuePath
from perdure.dialects.reference_syntax import reference_in_cel, whole_reference
from perdure.recording.accepted_references import is_covered, of_element, references_by_call, written_arguments
from perdure.recording.argument_targets import Span, Target
from perdure.recording.literal_calls import INPUT, LiteralCall
from perdure.recording.match_confidence import FOUND_CONFIDENCE, WEAK_CONFIDENCE
from perdure.recording.name_agreement import Agreement, is_deletion
from perdure.recording.reference_candidates import GIVEN, CandidateSearch, ReferenceCandidate
from perdure.recording.repeated_calls import CallRun, RunSearch
from perdure.recording.suggestions import FoundLoop, FoundReference, OtherPlace, Spelling, Suggestions
from perdure.recording.value_spellings import number_conversion, time_conversion, times_of

ALTERNATIVES_MAX = 5


def found_references(calls: Sequence[LiteralCall], input: Mapping[str, Any] | None = None) -> Suggestions:
    """Returns the references that the arguments of calls, in the order in which they were made, may have been; `input` is theirs, if it is known.

    The same calls give the same suggestions. No reference leads to its own call or a later one.
    """
    search = CandidateSearch(calls, input)
    references = (*_chosen(search),)
    runs = RunSearch(search)
    by_call = references_by_call(references)
    loops = (*(_loop(search, run, runs.list_length(run.list, input), by_call) for run in runs.runs()),)
    is_partial = search.index.is_partial or search.scan.is_partial or runs.is_partial
    return Suggestions(references=references, loops=loops, is_partial=is_partial)


def _loop(search: CandidateSearch, run: CallRun, count: int, references: Mapping[str, Sequence[FoundReference]]) -> FoundLoop:
    """Returns the suggestion of a loop, with the step that its calls become."""
    calls, first = search.calls, search.calls[run.calls[0]]
    source = "input" if run.list.source == INPUT else calls[run.list.source].step
    uses = tuple(_suggested(search, search.index.targets[use.candidate.wanted.target], [use.candidate]) for use in run.uses)
    is_whole = run.indexes == (*range(count),)
    confidence = _loop_confidence(run, is_whole)
    items = whole_reference(source, run.list.path)
    what = f"{len(run.calls)} calls of {first.tool} differ only in what they have of the elements of {items}"
    found = FoundLoop(
        calls=(*(calls[number].step for number in run.calls),),
        items=items,
        source=source,
        place=run.list.path,
        indexes=run.indexes,
        count=count,
        uses=uses,
        step={},
        is_over_loop=run.list.is_results,
        is_whole=is_whole,
        is_deletion=is_deletion(first.tool),
        confidence=round(confidence, 3),
        why=f"{what}, in order and all of them" if is_whole else f"{what}; they took {len(run.calls)} of {count}, and the step takes all of them",
    )
    own = [one for one in references.get(first.step, ()) if one.is_found and not is_covered(one, found)]
    arguments = written_arguments(first, [*(of_element(one, found) for one in uses), *own])
    return msgspec.structs.replace(found, step={"id": first.step, "each": {"in": items}, "tool": first.tool, "with": arguments})


def _loop_confidence(run: CallRun, is_whole: bool) -> float:
    """Returns the confidence of a loop: more calls, all elements, and sure references speak for it."""
    is_long = len(run.calls) > 2
    of_calls = (0.98 if is_long else 0.85) if is_whole else (0.65 if is_long else 0.4)
    return of_calls * (0.6 + 0.4 * max(use.candidate.confidence for use in run.uses))


def _chosen(search: CandidateSearch) -> Iterator[FoundReference]:
    covered: set[tuple[int, ValuePath]] = set()
    for number, target in enumerate(search.index.targets):
        if any((target.call, target.path[:depth]) in covered for depth in range(1, len(target.path) + 1)):
            continue
        for found in _best(search, number):
            if isinstance(target.value, list | dict) and found[0].confidence >= FOUND_CONFIDENCE:
                covered.add((target.call, target.path))
            yield _suggested(search, target, found)


def _best(search: CandidateSearch, number: int) -> list[list[ReferenceCandidate]]:
    """Returns the candidates of a target as a whole, or those of the parts of its text, whichever are found."""
    candidates = search.candidates[number]
    whole = [one for one in candidates.get(None, []) if one.confidence >= WEAK_CONFIDENCE]
    chosen = _without_overlap([found for span, found in candidates.items() if span is not None and found and found[0].confidence >= WEAK_CONFIDENCE])
    found_parts = [found[0] for found in chosen if found[0].confidence >= FOUND_CONFIDENCE]
    is_in_text = any(not one.is_given and not one.is_part_of_word for one in found_parts)
    if whole and whole[0].confidence >= FOUND_CONFIDENCE and not (is_in_text and _is_repeated(whole)):
        return [whole]
    return [whole] if whole and not found_parts else chosen


def _is_repeated(found: list[ReferenceCandidate]) -> bool:
    """Returns whether a value is only found where it repeats an argument."""
    return all(one.is_given or one.confidence < FOUND_CONFIDENCE for one in found)


def _without_overlap(parts: list[list[ReferenceCandidate]]) -> list[list[ReferenceCandidate]]:
    """Returns parts of a text that do not overlap: those that are found first, of these the longest."""

    def order(found: list[ReferenceCandidate]) -> tuple[bool, int, float, int]:
        start, end = found[0].wanted.span or (0, 0)
        return found[0].confidence < FOUND_CONFIDENCE, start - end, -found[0].bits, start

    chosen: dict[Span, list[ReferenceCandidate]] = {}
    taken: list[Span] = []
    for found in sorted(parts, key=order):
        start, end = found[0].wanted.span or (0, 0)
        if all(end <= other_start or other_end <= start for other_start, other_end in taken):
            taken.append((start, end))
            chosen[start, end] = found
    return [chosen[span] for span in sorted(chosen)]


def _suggested(search: CandidateSearch, target: Target, found: list[ReferenceCandidate]) -> FoundReference:
    best = found[0]
    part = target.value if best.wanted.span is None else target.value[slice(*best.wanted.span)]
    others = [one for one in found[1:] if one.confidence >= WEAK_CONFIDENCE]
    source = _source(search.calls, best)
    expression = _expression(search.calls, best, part)
    return FoundReference(
        call=search.calls[target.call].step,
        path=target.path,
        span=best.wanted.span,
        reference=whole_reference(source, best.place.path),
        source=source,
        place=best.place.path,
        value=best.place.value if best.place.source == GIVEN else None,
        expression=expression,
        spelling=_spelling(best, part),
        is_same=bool(expression) or _is_same(best, part),
        is_proposed=best.place.source == GIVEN,
        confidence=round(best.confidence, 3),
        alternatives=tuple(_other(search.calls, one, part) for one in others[:ALTERNATIVES_MAX]),
        others=max(0, len(others) - ALTERNATIVES_MAX),
        is_text=isinstance(best.place.value, str),
        why=_reason(search, best, part, len(others)),
    )


_OF_SPELLING: dict[Spelling, str] = {
    "same": "has this value",
    "number": "has this number in another spelling",
    "amount": "has this amount of money in another unit",
    "time": "has this time in another spelling",
    "case": "has this text with other capitals or white space",
}
_OF_NAMES: dict[Agreement, str] = {
    "same": "the names of both agree",
    "related": "the names of both are alike",
    "near": "the names of both may mean the same",
    "none": "only the value speaks for it",
    "other": "but the names are those of different things",
}


def _reason(search: CandidateSearch, one: ReferenceCandidate, part: Any, others: int) -> str:
    """Returns a sentence that says why a place is suggested."""
    if one.place.source == GIVEN:
        return f"{short_value_text(part)} is given to several calls, and no result has it before: it may be a parameter of the input"
    reference = whole_reference(_source(search.calls, one), one.place.path)
    also = "" if others == 0 else ", and one other place has it too" if others == 1 else f", and {others} other places have it too"
    return f"{reference} {_OF_SPELLING[_spelling(one, part)]}{also}; {_OF_NAMES[one.agreement]}"


def _source(calls: Sequence[LiteralCall], one: ReferenceCandidate) -> str:
    return "input" if one.place.source in (INPUT, GIVEN) else calls[one.place.source].step


def _is_same(one: ReferenceCandidate, part: Any) -> bool:
    value = one.place.value
    if isinstance(part, list | dict):
        return True  # structures are found by their contents
    return text_of_value(value) == part if one.wanted.span is not None else type(value) is type(part) and json_equal(value, part)


def _spelling(one: ReferenceCandidate, part: Any) -> Spelling:
    if _is_same(one, part):
        return "same"
    if one.wanted.time is not None:
        return "time"
    if one.wanted.is_amount:
        return "amount"
    return "case" if isinstance(part, str) and isinstance(one.place.value, str) and not one.wanted.is_respelt else "number"


def _expression(calls: Sequence[LiteralCall], one: ReferenceCandidate, part: Any) -> str:
    """Returns the CEL that converts the value of a place to what the argument has; empty if none is needed, or there is none."""
    if _is_same(one, part):
        return ""
    value = one.place.value
    conversion = number_conversion(part, value)
    if one.wanted.time is not None:
        conversion = next((found for time in times_of(value) if (found := time_conversion(part, one.wanted.time, time))), "")
    return conversion.replace("$", reference_in_cel(_source(calls, one), one.place.path))


def _other(calls: Sequence[LiteralCall], one: ReferenceCandidate, part: Any) -> OtherPlace:
    source, expression = _source(calls, one), _expression(calls, one, part)
    return OtherPlace(
        reference=whole_reference(source, one.place.path),
        confidence=round(one.confidence, 3),
        source=source,
        place=one.place.path,
        expression=expression,
        is_same=bool(expression) or _is_same(one, part),
    )
