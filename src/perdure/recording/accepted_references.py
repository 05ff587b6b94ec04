"""The arguments of calls with accepted references in place, as a definition has them.

Everything else stays what it was: an @ that would mean something is doubled, and a mapping that would be an expression is written as one that gives it. Where
a value needs a conversion, it becomes ``{expr: …}``, and so does a text that has such a value in it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from perdure.definitions.expr.references import EXPRESSION_CHARACTERS_MAX, SEGMENTS_MAX, ValuePath
from perdure.definitions.expr.template import is_expression
from perdure.dialects.reference_syntax import EmbeddedReference, escape_template, reference_in_cel, template_text, whole_reference
from perdure.recording.literal_calls import LiteralCall
from perdure.recording.recorded_arguments import kept_reference
from perdure.recording.suggestions import FoundLoop, FoundReference
from perdure.recording.value_spellings import is_plain_number_text

ITEM = "item"
TERMS_MAX = 8
"""The most terms of a sum in an expression."""


class AcceptedCall(NamedTuple):
    """A call as a step of a definition: its `arguments` are a template. With `each`, it stands for all `calls` of a loop; else for its own alone."""

    step: str
    tool: str
    arguments: dict[str, Any]
    each: Mapping[str, Any] | None
    calls: tuple[str, ...]


def accepted(calls: Sequence[LiteralCall], chosen: Iterable[FoundReference | FoundLoop]) -> list[AcceptedCall]:
    """Returns the calls with what was chosen of the suggestions in place.

    References that a call was given stay. A loop takes the place of its calls: what each of them has of its element becomes ``@item``, and a reference to one
    of them, given or chosen, then leads to the element of the result of the loop. The result has one for each element of the list, also for those that no
    call took.

    Raises:
        ValueError: two of the chosen overlap, are of other calls, or one needs another that was not chosen.
    """
    chosen = [*chosen]
    references = [one for one in chosen if isinstance(one, FoundReference)]
    in_loop = _calls_in_loops(calls, [one for one in chosen if isinstance(one, FoundLoop)])
    steps = {call.step for call in calls}
    if foreign := [one.call for one in references if one.call not in steps]:
        raise ValueError(f"a reference is for the call {foreign[0]}, which is not of this recording")
    for one in references:
        if (around := in_loop.get(one.call)) is not None and is_covered(one, around[0]):
            raise ValueError(f"{one.key} is inside the loop {around[0].key}, which says what its calls have of the elements: choose one of them")
    by_call = references_by_call(references)
    made = []
    for call in calls:
        taken = in_loop.get(call.step)
        call = call._replace(references={path: _given_after_loops(one, in_loop) for path, one in call.references.items()})
        own = by_call.get(call.step, [])
        if taken is None:
            arguments = written_arguments(call, [_after_loops(one, in_loop) for one in own])
            made.append(AcceptedCall(call.step, call.tool, arguments, None, (call.step,)))
        elif taken[1] == 0:
            loop = taken[0]
            others = (_after_loops(one, in_loop) for one in own)
            arguments = written_arguments(call, [*(of_element(one, loop) for one in loop.uses), *others])
            made.append(AcceptedCall(call.step, call.tool, arguments, _each(loop, in_loop), loop.calls))
    return made


def references_by_call(references: Iterable[FoundReference]) -> dict[str, list[FoundReference]]:
    """Returns references by the step of the call that has them."""
    found: dict[str, list[FoundReference]] = {}
    for one in references:
        found.setdefault(one.call, []).append(one)
    return found


_InLoop = Mapping[str, tuple[FoundLoop, int]]
"""The loop of each call that is in one, and the number of the call there."""


def _calls_in_loops(calls: Sequence[LiteralCall], loops: Sequence[FoundLoop]) -> _InLoop:
    steps = {call.step for call in calls}
    found: dict[str, tuple[FoundLoop, int]] = {}
    for loop in loops:
        for number, step in enumerate(loop.calls):
            if step not in steps:
                raise ValueError(f"the loop over {loop.items} has the call {step}, which is not of this recording")
            if step in found:
                raise ValueError(f"the call {step} is in two loops: choose one")
            found[step] = loop, number
    for loop in loops:
        if loop.is_over_loop and found.get(loop.source, (loop, 1))[1] > 0:
            raise ValueError(f"the loop of {loop.calls[0]} is over the results of that of {loop.source}: choose that too")
    return found


def overlap(one: FoundReference, other: FoundReference) -> bool:
    """Returns whether two references of one call are for the same argument, or for parts of it that overlap."""
    shorter = min(len(one.path), len(other.path))
    if one.path[:shorter] != other.path[:shorter]:
        return False
    if one.path != other.path or one.span is None or other.span is None:
        return True
    return one.span[0] < other.span[1] and other.span[0] < one.span[1]


def is_covered(one: FoundReference, loop: FoundLoop) -> bool:
    """Returns whether a loop takes the place of a reference: of all in its calls, but for those of the first one that it has nothing of an element for."""
    return one.call in loop.calls[1:] or (one.call == loop.calls[0] and any(overlap(one, use) for use in loop.uses))


def _each(loop: FoundLoop, in_loop: _InLoop) -> dict[str, Any]:
    source, place = loop.source, loop.place
    if source in in_loop and not loop.is_over_loop:
        source, place = _in_result(in_loop[source], place)
    return {"in": whole_reference(source, place)}


def _in_result(taken: tuple[FoundLoop, int], place: ValuePath) -> tuple[str, ValuePath]:
    """Returns where a place in the result of a call of a loop is in the result of the loop: the step, and the path there."""
    loop, number = taken
    return loop.calls[0], (loop.indexes[number], *place)


def _given_after_loops(written: str, in_loop: _InLoop) -> str:
    """Returns a reference that a call was given, where what it leads to is now."""
    reference = kept_reference(written)
    if reference is None or reference.step not in in_loop:
        return written
    return whole_reference(*_in_result(in_loop[reference.step], reference.path))


def _with_source(one: FoundReference, source: str, place: ValuePath) -> FoundReference:
    before, after = reference_in_cel(one.source, one.place), reference_in_cel(source, place)
    return msgspec.structs.replace(one, source=source, place=place, reference=whole_reference(source, place), expression=one.expression.replace(before, after))


def of_element(one: FoundReference, loop: FoundLoop) -> FoundReference:
    """Returns one of the `uses` of a loop as a reference to ``@item``."""
    depth = 0 if loop.is_over_loop else len(loop.place) + 1
    return _with_source(one, ITEM, one.place[depth:])


def _after_loops(one: FoundReference, in_loop: _InLoop) -> FoundReference:
    if one.source not in in_loop:
        return one
    return _with_source(one, *_in_result(in_loop[one.source], one.place))


def written_arguments(call: LiteralCall, references: Iterable[FoundReference]) -> dict[str, Any]:
    """Returns the arguments of a call as a template with these references, besides those that it was given.

    Raises:
        ValueError: two references overlap, or there is nothing at the path of one.
    """
    wholes: dict[ValuePath, Any] = dict(call.references)
    parts: dict[ValuePath, list[FoundReference]] = {}
    for one in references:
        if one.span is not None:
            parts.setdefault(one.path, []).append(one)
        elif one.path in wholes:
            raise ValueError(f"{call.step} has two references at {_shown(one.path)}: choose one")
        else:
            wholes[one.path] = {"expr": one.expression} if one.expression else one.reference
    writer = _Writer(wholes, parts)
    made: dict[str, Any] = writer.mapping(call.arguments, ())
    if left := writer.unused():
        raise ValueError(f"a reference of {call.step} at {_shown(left[0])} overlaps with another one, or there is nothing: choose one of them")
    return made


def _shown(path: ValuePath) -> str:
    return "/".join(map(str, path)) or "its arguments"


class _Writer:
    def __init__(self, wholes: Mapping[ValuePath, Any], parts: Mapping[ValuePath, list[FoundReference]]) -> None:
        self._wholes, self._parts = wholes, parts
        self._written: set[ValuePath] = set()

    def unused(self) -> list[ValuePath]:
        """Returns the paths of references that were not written."""
        return [path for path in (*self._wholes, *self._parts) if path not in self._written] + [path for path in self._parts if path in self._wholes]

    def write(self, value: Any, path: ValuePath) -> Any:
        """Returns a value as a template. What is deeper than references reach stays as it is; a definition does not take it."""
        if path in self._wholes:
            self._written.add(path)
            return self._wholes[path]
        match value:
            case str() if path in self._parts:
                self._written.add(path)
                return written_text(value, self._parts[path])
            case str():
                return escape_template(value)
            case list() if len(path) <= SEGMENTS_MAX:
                return [self.write(one, (*path, place)) for place, one in enumerate(value)]
            case dict() if len(path) <= SEGMENTS_MAX:
                return self.mapping(value, path)
        return value

    def mapping(self, value: Mapping[str, Any], path: ValuePath) -> dict[str, Any]:
        """Returns a mapping as a template; one that would be an expression becomes one that gives it."""
        made = {key: self.write(one, (*path, key)) for key, one in value.items()}
        if not is_expression(made):
            return made
        at = (*path, "expr")
        pieces = text_pieces(value["expr"], self._parts[at]) if at in self._parts else [value["expr"]]
        if not all(isinstance(piece, str) or _is_in_cel(piece, value["expr"]) for piece in pieces):
            raise ValueError(f"the text at {_shown(at)} can't have a reference to such a number, since a mapping with the only key expr is an expression")
        return {"expr": f'{{"expr": {_pieces_in_cel(pieces)}}}'}


def _in_cel(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def text_pieces(text: str, references: Iterable[FoundReference]) -> list[str | FoundReference]:
    """Returns a text with references in the place of its parts, in pieces.

    Raises:
        ValueError: two parts overlap.
    """
    pieces: list[str | FoundReference] = []
    behind = 0
    for one in sorted(references, key=lambda one: one.span or (0, 0)):
        start, end = one.span or (0, 0)
        if start < behind or end > len(text):
            raise ValueError(f"two references overlap in the text at {_shown(one.path)} of {one.call}: choose one of them")
        pieces += [text[behind:start], one]
        behind = end
    pieces.append(text[behind:])
    return [piece for piece in pieces if piece]


def written_text(text: str, references: Iterable[FoundReference]) -> Any:
    """Returns a text with references in the place of its parts: as a template, or if a part needs a conversion as an expression. A number that an expression
    writes in another way than the text has it stays in that as it was.

    Raises:
        ValueError: two parts overlap, or the expression is longer than one may be.
    """
    pieces = text_pieces(text, references)
    if any(isinstance(piece, FoundReference) and piece.expression for piece in pieces):
        made = _pieces_in_cel([_in_expression(piece, text) for piece in pieces])
        if len(made) > EXPRESSION_CHARACTERS_MAX:
            one = next(piece for piece in pieces if isinstance(piece, FoundReference))
            raise ValueError(f"the text at {_shown(one.path)} of {one.call} would be an expression of {len(made):,} characters: choose fewer references for it")
        return {"expr": made}
    return template_text([piece if isinstance(piece, str) else EmbeddedReference(piece.reference[1:]) for piece in pieces])


def _pieces_in_cel(pieces: Sequence[str | FoundReference]) -> str:
    """Returns the sum of the pieces of a text. A sum nests as deep as it has terms, and CEL only so deep: one of many terms is a sum of two sums."""
    if len(pieces) <= TERMS_MAX:
        return " + ".join(_in_cel(piece) if isinstance(piece, str) else f"string({_cel_of(piece)})" for piece in pieces)
    half = len(pieces) // 2
    return f"({_pieces_in_cel(pieces[:half])}) + ({_pieces_in_cel(pieces[half:])})"


def _in_expression(piece: str | FoundReference, text: str) -> str | FoundReference:
    if isinstance(piece, str) or _is_in_cel(piece, text):
        return piece
    return text[slice(*piece.span)] if piece.span is not None else text


def _is_in_cel(piece: FoundReference, text: str) -> bool:
    """Returns whether CEL writes a part of a text as a template does: all but some numbers."""
    if piece.expression:
        return True
    part = text[slice(*piece.span)] if piece.span is not None else text
    return piece.is_text or is_plain_number_text(part)


def _cel_of(piece: FoundReference) -> str:
    return piece.expression or reference_in_cel(piece.source, piece.place)
