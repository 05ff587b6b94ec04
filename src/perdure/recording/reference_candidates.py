"""Weighs the places that were found for each argument: the candidates of a reference, the best one first.

Of places with the same evidence the first is taken: in the order of the calls, and in a result by its path. A result that merely repeats an argument of its own
call comes behind every other.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import count, islice, pairwise
from typing import Any, NamedTuple, TypeGuard

from perdure.definitions.expr.references import Reference, ValuePath, follow_path
from perdure.recording.argument_targets import Span, Target, TargetIndex, Wanted, folded, leaves_and_structures, packed_structure
from perdure.recording.literal_calls import INPUT, LiteralCall
from perdure.recording.match_confidence import (
    BITS_OF_KNOWN,
    BITS_OF_TEXT,
    BITS_OF_THING,
    BITS_OF_TOOL,
    BITS_OF_TURN,
    BITS_OF_UNUSED,
    BITS_OF_USED,
    EVEN_BITS,
    WEAK_CONFIDENCE,
    Evidence,
    confidence_of,
    evidence_bits,
)
from perdure.recording.name_agreement import Agreement, PlaceNames, may_agree, name_words, names_agreement, place_names, tool_things
from perdure.recording.recorded_arguments import kept_reference
from perdure.recording.result_places import ResultScan, ValuePlace
from perdure.recording.value_specificity import WEAK_BITS, value_bits
from perdure.recording.value_spellings import same_time, times_of

GIVEN = -2
"""The number of the source of a value that was only an argument before: a parameter that the input does not have yet."""

CONTEXT_CHARACTERS = 60
KNOWN_MAX = 10
ELEMENTS_MAX, VALUES_OF_ELEMENT_MAX = 16, 64
"""How many elements of lists are looked at again for a call, and how many values of each."""

LAST = 10**9
TURNS_MAX = 1024


class ReferenceCandidate(NamedTuple):
    """A place from which a target, or the part of its text that is wanted, may have come, with the evidence in bits."""

    wanted: Wanted
    place: ValuePlace
    bits: float
    agreement: Agreement
    is_given: bool
    is_part_of_word: bool = False

    @property
    def confidence(self) -> float:
        """The confidence that the evidence gives."""
        return confidence_of(self.bits)

    def rank(self) -> tuple[Any, ...]:
        """Sorts candidates, the best one first."""
        return (-self.bits, self.place.source == GIVEN, self.is_given, self.place.source, self.place.order)


def value_key(value: Any) -> str:
    """Returns what is the same for the spellings of one value as a text and as a number."""
    if isinstance(value, str):
        return folded(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else repr(value)


class CandidateSearch:
    """The candidates of all targets of a recording. `candidates` has them by target and span, each list the best one first."""

    def __init__(self, calls: Sequence[LiteralCall], input: Mapping[str, Any] | None) -> None:
        self.calls = calls
        self.index = TargetIndex(calls)
        self._names: dict[tuple[int, Span | None], tuple[PlaceNames, ...]] = {}
        self._constants = [_constant_key(target.value) for target in self.index.targets]
        self._arguments = {(target.call, target.path, key) for target, key in zip(self.index.targets, self._constants, strict=True)}
        self._tools: dict[str, set[str]] = {}
        self._first: dict[str, int] = {}
        self._given = self._first_given()
        self.scan = ResultScan(self.index, self._may_be_meant)
        self.scan.read(calls, input)
        self._before = self._values_before()
        self.candidates: list[dict[Span | None, list[ReferenceCandidate]]] = [self._candidates(number) for number in range(len(self.index.targets))]
        self._by_call: dict[int, list[int]] = {}
        for number, target in enumerate(self.index.targets):
            self._by_call.setdefault(target.call, []).append(number)
        self._add_of_elements()
        self._add_turns()
        self._add_things()
        self._add_unused_input()
        self._add_known()
        self._add_used()
        for of_target in self.candidates:
            for found in of_target.values():
                found.sort(key=ReferenceCandidate.rank)
        self._add_parameters()
        self._name_parameters(input or {})

    def _first_given(self) -> dict[str, Target]:
        found: dict[str, Target] = {}
        for number, target in enumerate(self.index.targets):
            if not isinstance(target.value, list | dict | bool):
                key = value_key(target.value)
                _ = found.setdefault(key, target)
                _ = self._first.setdefault(key, number)
                self._tools.setdefault(key, set()).add(self.calls[target.call].tool)
        return found

    def _values_before(self) -> list[int]:
        """Returns the number of values that were read before each call."""
        counts = [self.scan.visited.get(INPUT, 0)]
        for number in range(len(self.calls)):
            counts.append(counts[-1] + self.scan.visited.get(number, 0))
        return counts

    def argument_names(self, wanted: Wanted) -> tuple[PlaceNames, ...]:
        """Returns the names of what is wanted: of a part of a text first those of the words before it, then those of the argument."""
        key = (wanted.target, wanted.span)
        if (known := self._names.get(key)) is not None:
            return known
        target = self.index.targets[wanted.target]
        tool = self.calls[target.call].tool
        own = place_names(target.path, tool)
        names: tuple[PlaceNames, ...] = (own,)
        if wanted.span is not None:
            before = _WORDS_BEFORE.search(target.value[max(0, wanted.span[0] - CONTEXT_CHARACTERS) : wanted.span[0]])
            words = [name_words(word) for word in re.findall(r"[^\W\d]\w*", before[0])] if before is not None else []
            names = (*(PlaceNames(one, tool_things(tool)) for one in reversed(words)), own)
        self._names[key] = names
        return names

    def _may_be_meant(self, source: int, value: Any, field: str, wanted: Sequence[Wanted]) -> bool:
        """Returns whether a value says enough, or a field with this name may be what one of the arguments is."""
        if not isinstance(value, bool) and value_bits(value) >= WEAK_BITS:
            return True
        words = name_words(field)
        if source == INPUT:
            return True
        return any(one.time is not None or may_agree(names.field, words) for one in wanted for names in self.argument_names(one))

    def _candidates(self, number: int) -> dict[Span | None, list[ReferenceCandidate]]:
        """Weighs the places of one target; the best evidence counts where a place was found in several ways."""
        found: dict[Span | None, dict[tuple[int, ValuePath], ReferenceCandidate]] = {}
        target, weighed = self.index.targets[number], dict[tuple[Any, ...], ReferenceCandidate]()
        for table, key, wanted in self.index.wants[number]:
            for place in self.scan.places[table].get(key, ()):
                if table == "days" and not any(same_time(wanted.time, time) for time in times_of(place.value) if wanted.time is not None):
                    continue
                if not self._could_come_from(target.call, place.source):
                    continue
                one = wanted if table != "anchors" else wanted._replace(span=_span_of(key[1], place.value))
                alike = (one, place.source, place.fields, type(place.value))
                if (known := weighed.get(alike)) is None:
                    weighed[alike] = known = self._weighed(target, one, place)
                self._keep(found, known if known.place is place else ReferenceCandidate(one, place, *known[2:]))
            if (
                table in ("texts", "numbers")
                and (given := self._given.get(value_key(key))) is not None
                and (given.call, given.path) != (target.call, target.path)
                and given.call <= target.call
            ):
                self._keep(found, self._weighed_given(target, wanted, given))
        return {span: [*places.values()] for span, places in found.items()}

    def _could_come_from(self, call: int, source: int) -> bool:
        """Returns whether a call could have something from a source: the input, or an earlier call that had ended when it began."""
        return source < 0 or (source < call and self.calls[call].could_read(self.calls[source]))

    def _keep(self, found: dict[Span | None, dict[tuple[int, ValuePath], ReferenceCandidate]], one: ReferenceCandidate) -> None:
        places = found.setdefault(one.wanted.span, {})
        at = (one.place.source, one.place.path)
        if at not in places or places[at].bits < one.bits:
            places[at] = one

    def _weighed(self, target: Target, wanted: Wanted, place: ValuePlace) -> ReferenceCandidate:
        tool = self.calls[place.source].tool if place.source >= 0 else ""
        there = place_names(place.path, tool)
        agreement = self._agreement(wanted, there)
        part = target.value if wanted.span is None else target.value[slice(*wanted.span)]
        given = self._given.get(value_key(place.value)) if not isinstance(place.value, list | dict | bool) else None
        is_given = given is not None and place.source >= 0 and given.call <= place.source
        evidence = Evidence(
            bits=min(value_bits(part), value_bits(place.value)),
            agreement=agreement,
            values_before=self._before[target.call] if place.source != INPUT else self._before[0],
            argument_field=self.argument_names(wanted)[0].field,
            field=there.field,
            is_other_case=wanted.span is not None and isinstance(place.value, str) and not wanted.is_respelt and place.value.strip() != part.strip(),
            is_repeated_by_other=is_given and given is not None and self.calls[given.call].tool != tool,
            is_in_text=wanted.span is not None,
            is_respelt=wanted.is_respelt,
            is_part_of_word=wanted.span is not None and _is_part_of_word(target.value, wanted.span),
            is_given=is_given,
            is_amount=wanted.is_amount,
            is_input=place.source == INPUT,
            is_repetition=self._is_repetition(wanted.target, place),
        )
        return ReferenceCandidate(wanted, place, evidence_bits(evidence), agreement, is_given, evidence.is_part_of_word)

    def _is_repetition(self, number: int, place: ValuePlace) -> bool:
        """Returns whether a result only repeats what its call was given in the same place, by the same tool: a constant, or a call that was made again."""
        target = self.index.targets[number]
        if place.source < 0 or self.calls[place.source].tool != self.calls[target.call].tool:
            return False
        return (place.source, target.path, self._constants[number]) in self._arguments

    def _agreement(self, wanted: Wanted, there: PlaceNames) -> Agreement:
        found: list[Agreement] = []
        names = self.argument_names(wanted)
        for place, one in enumerate(names):
            agreement = names_agreement(one, there)
            is_own = wanted.span is None or place < len(names) - 1
            found.append(agreement if is_own or agreement not in ("same", "related") else "near")
        return min(found, key=_ORDER.__getitem__)

    def _weighed_given(self, target: Target, wanted: Wanted, given: Target) -> ReferenceCandidate:
        """Weighs that a value is a parameter, since it was an argument before."""
        bits = value_bits(given.value) - (2.0 if wanted.span is not None else 0.0) - 3.0 * wanted.is_respelt
        if wanted.span is not None and _is_part_of_word(target.value, wanted.span):
            bits -= 8.0
        bits += BITS_OF_TOOL * min(4, len(self._tools[value_key(given.value)]) - 1)
        if wanted.span is None and target.path == given.path:
            bits -= 40.0 if self.calls[target.call].tool == self.calls[given.call].tool else 3.0
        return ReferenceCandidate(wanted, ValuePlace(GIVEN, (value_key(given.value),), given.value), bits, "none", True)

    def _add_unused_input(self) -> None:
        """Adds evidence for a parameter of the input that only one value of the arguments can be."""
        users: dict[ValuePath, list[tuple[int, Span | None, int]]] = {}
        for number, of_target in enumerate(self.candidates):
            for span, found in of_target.items():
                for at, one in enumerate(found):
                    if one.place.source == INPUT:
                        users.setdefault(one.place.path, []).append((number, span, at))
        for places in users.values():
            if all(self.candidates[number][span][at].bits < EVEN_BITS + 3 for number, span, at in places):
                keys = {(self.index.targets[number].path, span is None) for number, span, _ in places}
                for number, span, at in places if len(keys) == 1 else ():
                    one = self.candidates[number][span][at]
                    if one.agreement == "none" and value_bits(one.place.value) < 8:
                        continue
                    self.candidates[number][span][at] = with_bits(one, one.bits + BITS_OF_UNUSED)

    def _add_parameters(self) -> None:
        """Adds to the first argument with a value that later ones have from a parameter, that it has it from there as well."""
        for number, target in enumerate(self.index.targets):
            for span, found in [*self.candidates[number].items()]:
                if not found or found[0].place.source != GIVEN or found[0].bits < EVEN_BITS:
                    continue
                part = target.value if span is None else target.value[slice(*span)]
                first = self._first.get(value_key(part))
                if first is not None and first != number and not self.candidates[first].get(None):
                    self.candidates[first][None] = [
                        found[0]._replace(wanted=Wanted(first), place=found[0].place._replace(value=self.index.targets[first].value))
                    ]

    def _name_parameters(self, input: Mapping[str, Any]) -> None:
        """Names the parameters that the input does not have yet, each value by another name; what is suggested has the first choice."""
        names: dict[ValuePath, str] = {}
        taken = {*input, *(str(one.path[0]) for call in self.calls for one in map(kept_reference, call.references.values()) if _is_of_input(one))}
        ranked = [found for of_target in self.candidates for found in of_target.values()]
        likely = (found[0] for found in ranked if found and found[0].confidence >= WEAK_CONFIDENCE)
        for one in (*likely, *(other for found in ranked for other in found)):
            if one.place.source == GIVEN and one.place.path not in names:
                given = self._given[str(one.place.path[0])]
                name = parameter_name(given, self.calls[given.call].tool)
                numbered = (name if number == 1 else f"{name}_{number}" for number in count(1))
                names[one.place.path] = next(free for free in numbered if free not in taken)
                taken.add(names[one.place.path])
        for found in ranked:
            found[:] = [one if one.place.source != GIVEN else one._replace(place=one.place._replace(path=(names[one.place.path],))) for one in found]

    def _add_known(self) -> None:
        """Adds evidence for a place from which an earlier argument with the same value was found to come.

        Such a value is no parameter that the input lacks: what speaks for the parameter speaks for that place, and so it does for a result that repeats it.
        """
        known: dict[str, dict[tuple[int, ValuePath], tuple[int, ValuePlace]]] = {}
        for number, target in enumerate(self.index.targets):
            for span, found in self.candidates[number].items() if not isinstance(target.value, list | dict | bool) else ():
                places = known.setdefault(value_key(target.value if span is None else target.value[slice(*span)]), {})
                self._weigh_known(found, number, {at: place for at, (other, place) in places.items() if other != number})
                for one in found:
                    if one.place.source != GIVEN and one.bits >= EVEN_BITS:
                        _ = places.setdefault((one.place.source, one.place.path), (number, one.place))

    def _weigh_known(self, found: list[ReferenceCandidate], number: int, known: Mapping[tuple[int, ValuePath], ValuePlace]) -> None:
        given = next((one for one in found if one.place.source == GIVEN), None)
        if given is not None:
            here = {(one.place.source, one.place.path) for one in found}
            added = [place for at, place in known.items() if at not in here and self._could_come_from(self.index.targets[number].call, place.source)]
            found.extend(given._replace(place=place, is_given=False, bits=given.bits) for place in added[:KNOWN_MAX])
        for at, one in enumerate(found):
            is_known = (one.place.source, one.place.path) in known
            if is_known and not (value_bits(one.place.value) < WEAK_BITS and one.agreement in ("none", "other")):
                one = with_bits(one, one.bits + BITS_OF_KNOWN)
            if given is not None and one.place.source != GIVEN and (is_known or one.is_given):
                one = with_bits(one, max(one.bits, given.bits))
            found[at] = one
        if any(one.place.source != GIVEN and (one.bits >= EVEN_BITS or (one.place.source, one.place.path) in known) for one in found):
            found[:] = [one for one in found if one.place.source != GIVEN]

    def _add_used(self) -> None:
        """Adds a little evidence for elements of lists that earlier arguments came from, which decides between places with equal evidence."""
        used: dict[tuple[int, ValuePath], int] = {}
        for number, of_target in enumerate(self.candidates):
            for found in of_target.values():
                for at, one in enumerate(found):
                    if _is_element(one.place) and used.get(_thing(one.place), number) != number:
                        found[at] = with_bits(one, one.bits + BITS_OF_USED)
                if found and (best := max(found, key=_bits_of)).bits >= EVEN_BITS + 3 and _is_element(best.place):
                    _ = used.setdefault(_thing(best.place), number)

    def _add_of_elements(self) -> None:
        """Adds places in the elements of lists that a call has something from, also for values that say too little to be looked for everywhere."""
        for numbers in self._by_call.values():
            elements: dict[tuple[int, ValuePath], None] = {}
            for number in numbers:
                for found in self.candidates[number].values():
                    for one in nlargest(3, found, key=_bits_of):
                        if one.bits >= EVEN_BITS and one.place.source >= 0 and _is_element(one.place):
                            elements[_thing(one.place)] = None
            if elements:
                self._add_of_call(numbers, [*elements][:ELEMENTS_MAX])

    def _add_of_call(self, numbers: Sequence[int], elements: Sequence[tuple[int, ValuePath]]) -> None:
        wanted: dict[tuple[str, Any], list[Wanted]] = {}
        for number in numbers:
            for table, key, one_wanted in self.index.wants[number]:
                if table in ("texts", "numbers", "days"):
                    wanted.setdefault((table, key), []).append(one_wanted)
        here = {(number, span, one.place.source, one.place.path) for number in numbers for span, found in self.candidates[number].items() for one in found}
        for source, path in elements:
            element = follow_path(self.calls[source].result, path, "")
            for order, (inner, value) in enumerate(islice(leaves_and_structures(element), VALUES_OF_ELEMENT_MAX)):
                if isinstance(value, bool | list | dict):
                    continue
                at = (*path, *inner)
                place = ValuePlace(source, at, value, LAST + order, (*(one for one in at if isinstance(one, str)),))
                for one in _wanted_of(value, wanted):
                    if (one.target, one.span, source, at) not in here:
                        here.add((one.target, one.span, source, at))
                        found = self.candidates[one.target].setdefault(one.span, [])
                        found.append(self._weighed(self.index.targets[one.target], one, place))

    def _add_turns(self) -> None:
        """Adds evidence where successive arguments of one name have successive elements of one list."""
        rows: dict[tuple[Any, ...], list[int]] = {}
        for number, target in enumerate(self.index.targets):
            shape = tuple("*" if isinstance(key, int) else key for key in target.path)
            rows.setdefault((self.calls[target.call].tool, shape), []).append(number)
        for row in rows.values():
            for one, after in pairwise(row):
                self._add_turn(one, after)

    def _add_turn(self, one: int, after: int) -> None:
        here, there = self.candidates[one].get(None, []), self.candidates[after].get(None, [])
        if len(here) * len(there) > TURNS_MAX:
            return  # a value that is everywhere says nothing by its turn
        elements: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for number, candidate in enumerate(there):
            for element, at in _elements(candidate.place):
                elements.setdefault(element, []).append((at, number))
        for number, candidate in enumerate(here):
            for element, at in _elements(candidate.place):
                for at_after, other in elements.get(element, ()):
                    if at_after == at + 1:
                        here[number] = _with_turn(here[number])
                        there[other] = _with_turn(there[other])

    def _add_things(self) -> None:
        """Adds evidence where another argument of the call came from the same mapping."""
        for numbers in self._by_call.values():
            things: dict[tuple[int, ValuePath], dict[tuple[int, Span | None], set[ValuePath]]] = {}
            for number in numbers:
                for span, found in self.candidates[number].items():
                    for one in found:
                        if one.bits >= EVEN_BITS + 3 and one.place.source != GIVEN and one.place.path:
                            things.setdefault(_thing(one.place), {}).setdefault((number, span), set()).add(one.place.path)
            users = {thing: _ThingUsers(found) for thing, found in things.items()}
            for number in numbers:
                for span, found in self.candidates[number].items():
                    for at, one in enumerate(found):
                        if (added := _bits_of_thing(one, number, span, users.get(_thing(one.place)))) > 0:
                            found[at] = with_bits(one, one.bits + added)


class _ThingUsers:
    """The arguments, and parts of texts, of one call that came from one thing, each with the places there; counted, so that none is compared with all."""

    def __init__(self, places: Mapping[tuple[int, Span | None], set[ValuePath]]) -> None:
        self._places = places
        self._all, self._of_target = len(places), Counter(number for number, _ in places)
        alone = [(number, path) for (number, _), paths in places.items() if len(paths) == 1 for path in paths]
        self._alone, self._alone_of_target = Counter(path for _, path in alone), Counter(alone)

    def others(self, number: int, span: Span | None, path: ValuePath) -> tuple[int, int]:
        """Returns how many others came from there, in all and in the text of the same target, without those that can only have come from this place."""
        own = self._places.get((number, span))
        is_counted = own is not None and own != {path}
        return (
            self._all - self._alone[path] - is_counted,
            self._of_target[number] - self._alone_of_target[number, path] - is_counted,
        )


def _is_of_input(one: Reference | None) -> TypeGuard[Reference]:
    return one is not None and one.root == "input" and bool(one.path)


def _wanted_of(value: Any, wanted: Mapping[tuple[str, Any], Sequence[Wanted]]) -> Iterator[Wanted]:
    """Yields what wants a value, as it is or as a time."""
    yield from wanted.get(("texts", folded(value)) if isinstance(value, str) else ("numbers", value), ())
    for time in times_of(value):
        for one in wanted.get(("days", time.day.isoformat()), ()):
            if one.time is not None and same_time(one.time, time):
                yield one


_ORDER: dict[Agreement, int] = {"same": 0, "related": 1, "near": 2, "none": 3, "other": 4}
_WORDS_BEFORE = re.compile(r"(?:[^\W\d]\w*[\s:=#/\"'(\[.-]{1,4}){1,2}$")


def _constant_key(value: Any) -> Any:
    return packed_structure(value) if isinstance(value, list | dict) else (type(value), value)


def _span_of(end: int, found: str) -> Span:
    return end - len(found.strip()), end


def _is_part_of_word(text: str, span: Span) -> bool:
    """Returns whether a part of a text is joined to what is before or behind it, as by a hyphen."""
    start, end = span
    before, behind = text[max(0, start - 2) : start], text[end : end + 2]
    return (len(before) == 2 and before[1] in "_-.@" and before[0].isalnum()) or (len(behind) == 2 and behind[0] in "_-.@" and behind[1].isalnum())


def _elements(place: ValuePlace) -> Iterable[tuple[tuple[Any, ...], int]]:
    for at, key in enumerate(place.path):
        if isinstance(key, int):
            yield (place.source, place.path[:at], place.path[at + 1 :]), key


def with_bits(one: ReferenceCandidate, bits: float) -> ReferenceCandidate:
    """Returns a candidate with other evidence."""
    return ReferenceCandidate(one.wanted, one.place, bits, one.agreement, one.is_given, one.is_part_of_word)


def _with_turn(one: ReferenceCandidate) -> ReferenceCandidate:
    return with_bits(one, one.bits + BITS_OF_TURN)


def _thing(place: ValuePlace) -> tuple[int, ValuePath]:
    """Returns the element of a list that a place is in, or else the mapping."""
    last = max((at for at, key in enumerate(place.path) if isinstance(key, int)), default=-1)
    return place.source, place.path[: last + 1] if last >= 0 else place.path[:-1]


def _bits_of(one: ReferenceCandidate) -> float:
    return one.bits


def _is_element(place: ValuePlace) -> bool:
    return any(isinstance(key, int) for key in place.path)


def _bits_of_thing(one: ReferenceCandidate, number: int, span: Span | None, users: _ThingUsers | None) -> float:
    if users is None or not one.place.path or one.agreement == "other" or one.place.source == GIVEN or one.is_part_of_word:
        return 0.0
    others, in_text = users.others(number, span, one.place.path)
    if not others:
        return 0.0
    of_text = BITS_OF_TEXT if in_text else 0.0
    if one.place.source == INPUT:
        return of_text
    if value_bits(one.place.value) < 9 and not one.wanted.is_respelt:
        return BITS_OF_THING / 2
    return BITS_OF_THING + of_text


def parameter_name(target: Target, tool: str) -> str:
    """Returns a name for a parameter of the input, after the argument that it is for: ``user_id`` for the ``id`` of ``get_user``."""
    key = next((key for key in reversed(target.path) if isinstance(key, str)), "value")
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", key)
    name = "_".join(word.lower() for word in words) or "value"
    if name in ("id", "name", "value", "key", "number", "code") and (things := sorted(tool_things(tool))):
        name = f"{things[0]}_{name}"
    return name if name[:1].isalpha() else f"value_{name}"
