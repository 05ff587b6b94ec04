"""Whether what came of an execution is what was predicted: the differences, one line each.

What must be true of a definition that was cancelled in mid-flight: what it did is part of what was predicted, and all of that is undone, the last first,
whatever the definition says of failures: who cancels has it so.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import msgspec

from perdure.core import events as e
from perdure.core.operations import APPROVAL_WORKFLOW, Failure, Outcome, SpawnOperation, Success
from perdure.core.paths import UNDO, Path
from tests.proof.definitions.facts import DefinitionPrediction, Facts, Json, Ran, Undone
from tests.proof.definitions.shape import inside, is_to_be_undone


def differs(prediction: DefinitionPrediction, facts: Facts) -> list[str]:
    """What is otherwise than predicted; empty if nothing is. Tries are compared where they are told, and so is the kind of the error."""
    return list(_differences(prediction, facts))


def _differences(prediction: DefinitionPrediction, facts: Facts) -> Iterator[str]:
    expected = prediction.facts
    if facts.status != expected.status:
        yield f"it is {facts.status} ({facts.failed or _shown(facts.result)}), predicted was {expected.status} ({expected.failed or _shown(expected.result)})"
    elif _shown(facts.result) != _shown(expected.result):
        yield f"its result is {_shown(facts.result)}, predicted was {_shown(expected.result)}"
    if facts.failed and expected.failed and facts.failed != expected.failed:
        yield f"it failed as {facts.failed}, predicted was {expected.failed}"
    yield from _more("ran", [_ran(one) for one in expected.ran], [_ran(one) for one in facts.ran])
    yield from _tries(expected.ran, facts.ran)
    yield from _more("was emitted", [_shown(one) for one in expected.emitted], [_shown(one) for one in facts.emitted])
    yield from _undone(prediction, facts)


def _tries(expected: Sequence[Ran], found: Sequence[Ran]) -> Iterator[str]:
    """How often each piece was tried; only of those that ran as predicted, and say so."""
    tries = {_ran(one): one.tries for one in expected}
    for one in found:
        if one.tries and tries.get(_ran(one), 0) not in (0, one.tries):
            yield f"{_ran(one)} took {one.tries} tries, predicted were {tries[_ran(one)]}"


def _undone(prediction: DefinitionPrediction, facts: Facts) -> Iterator[str]:
    expected, found = [_back(one) for one in prediction.facts.undone], [_back(one) for one in facts.undone]
    differences = list(_more("was undone", expected, found))
    yield from differences
    if differences:
        return
    for start, end in _groups(len(expected), prediction.together):
        if sorted(expected[start:end]) != sorted(found[start:end]):
            yield f"undone was {', '.join(found)}; predicted was the order {', '.join(expected)}"
            return


def _groups(count: int, together: Sequence[int]) -> Iterator[tuple[int, int]]:
    """From where to where the order is free."""
    start = 0
    for number in range(count):
        if number not in together:
            yield start, number + 1
            start = number + 1


def _more(what: str, expected: Sequence[str], found: Sequence[str]) -> Iterator[str]:
    wanted, got = Counter(expected), Counter(found)
    yield from (f"{one} never {what}" if not got[one] else f"{one} {what} {got[one]} times, not {wanted[one]}" for one in sorted(wanted - got))
    yield from (
        f"{one} {what}, which was not predicted" if not wanted[one] else f"{one} {what} {got[one]} times, not {wanted[one]}" for one in sorted(got - wanted)
    )


def _ran(one: Ran) -> str:
    return f"{'/'.join((*one.place, one.step))} = {f'failure: {one.failed}' if one.failed else _shown(one.result)}"


def _back(one: Undone) -> str:
    return f"{'/'.join((*one.place, one.step))} = {_shown(one.result)}{' (failed)' if one.failed else ''}"


def _shown(value: object) -> str:
    return msgspec.json.encode(_timeless(value), order="sorted").decode()


def _timeless(value: object) -> object:
    """The value without the times of decisions in it, which are predicted only roughly."""
    match value:
        case dict():
            kept = {name: _timeless(item) for name, item in value.items()}
            return {name: item for name, item in kept.items() if name != "at_s"} if kept.keys() >= {"approved", "means", "at_s"} else kept
        case list():
            return [_timeless(item) for item in value]
    return value


def differs_from_part(definition: dict[str, Json], prediction: DefinitionPrediction, facts: Facts) -> list[str]:
    """What is otherwise than it must be; empty if nothing is."""
    return list(_part_differences(definition, prediction, facts))


def _part_differences(definition: dict[str, Json], prediction: DefinitionPrediction, facts: Facts) -> Iterator[str]:
    if facts.status != "cancelled":
        yield f"it was cancelled, and is {facts.status}"
    predicted, ran = Counter(map(_ran, prediction.facts.ran)), Counter(map(_ran, facts.ran))
    yield from (f"{one} ran, which was not predicted" for one in sorted((ran - predicted).elements()))
    steps = {one["id"]: one for step in definition["steps"] for one in (step, *inside(step))}
    done = [one for one in facts.ran if is_to_be_undone(steps[one.step], one.failed)]
    undone = [(one.step, one.place) for one in facts.undone]
    if Counter(undone) != Counter((one.step, one.place) for one in done):
        yield f"undone was {undone}; done was {[(one.step, one.place) for one in done]}"
    elif undone != [(one.step, one.place) for one in reversed(done)]:
        yield f"undone was {undone}, not the last first of {[(one.step, one.place) for one in done]}"


def differs_from_undisturbed(events: Sequence[e.Event], undisturbed: Sequence[e.Event]) -> list[str]:
    """What an execution asked for and what came of it, otherwise than in the same execution where nothing happened; empty if nothing is.

    A step in flight at the end whose process dies within its grace is abandoned, not begun again. So what such a step came to and whether it was undone is
    compared only if it was answered in both.
    """
    unanswered = (_in_grace(events) | _in_grace(undisturbed)) - (_answered(events) & _answered(undisturbed))
    here, there = _asked(events, unanswered), _asked(undisturbed, unanswered)
    return [
        *(f"{one}, which it does not where nothing happens" for one in sorted((here - there).elements())),
        *(f"{one} where nothing happens, and here it does not" for one in sorted((there - here).elements())),
    ]


def _in_grace(events: Sequence[e.Event]) -> set[Path]:
    return {event.path for event in events if isinstance(event, e.DroppedEvent) and event.until_s is not None}


def _answered(events: Sequence[e.Event]) -> set[Path]:
    return {event.path for event in events if isinstance(event, e.SettledEvent) and not _says_nothing(event.outcome)}


def _says_nothing(outcome: Outcome) -> bool:
    return isinstance(outcome, Failure) and outcome.kind in ("abandoned", "cancelled")


def _asked(events: Sequence[e.Event], unanswered: Collection[Path]) -> Counter[str]:
    """All that was asked for, and what came of that, in no order, without the ends and the undoing of steps that are `unanswered`."""
    decided = {
        event.path for event in events if isinstance(event, e.OpenedEvent) and isinstance(event.op, SpawnOperation) and event.op.workflow == APPROVAL_WORKFLOW
    }
    return Counter(
        DECIDED_AT.sub("", _event_shown(event, decided)).replace('"', "'")  # with which of them Python shows bytes depends on those of the time
        for event in events
        if isinstance(event, e.EndedEvent)
        or (isinstance(event, e.OpenedEvent | e.SettledEvent | e.ReceivedEvent | e.DroppedEvent) and not _is_left_out(event, unanswered))
    )


def _is_left_out(event: e.OpenedEvent | e.SettledEvent | e.ReceivedEvent | e.DroppedEvent, unanswered: Collection[Path]) -> bool:
    undoes = event.path[0] == UNDO and event.path[1:] in unanswered
    return undoes or (isinstance(event, e.SettledEvent) and event.path in unanswered)


DECIDED_AT = re.compile(r"\\xa4at_s\\xcb(?:\\x[0-9a-f]{2}|\\.|[^\\]){8}")
"""The time of a decision in what is shown of encoded values."""


def _event_shown(event: e.Event, decided: Collection[Path]) -> str:
    """An event without times: those at which somebody `decided` stand in what came of that."""
    match event:
        case e.SettledEvent(path, Success(_, port)) if path in decided:
            return f"{path} is decided by {port}"
        case e.OpenedEvent(path, op):
            if isinstance(op, SpawnOperation) and op.workflow == APPROVAL_WORKFLOW:
                op = msgspec.structs.replace(op, attributes=())  # which say when it was asked
            return f"{path} asks for {op}" if path[0] != UNDO else f"{path} undoes"
        case e.SettledEvent(path, outcome):
            return f"{path} comes to {outcome}"
        case e.ReceivedEvent(path) | e.DroppedEvent(path):
            return f"{path} is {type(event).__name__.lower()}"
        case e.EndedEvent(status):
            return f"it is {status}"
    raise AssertionError(event)
