"""What must be true of a definition that was cancelled in mid-flight: what it did is part of what was predicted, and all of that is undone, the last first,
whatever the definition says of failures: who cancels has it so."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from perdure.testing.definitions.facts import Facts, Json, Prediction, Ran
from perdure.testing.definitions.shape import inside, is_to_be_undone


def differs_from_part(definition: dict[str, Json], prediction: Prediction, facts: Facts) -> list[str]:
    """What is otherwise than it must be; empty if nothing is."""
    return list(_differences(definition, prediction, facts))


def _differences(definition: dict[str, Json], prediction: Prediction, facts: Facts) -> Iterator[str]:
    if facts.status != "cancelled":
        yield f"it was cancelled, and is {facts.status}"
    predicted, ran = Counter(map(_named, prediction.facts.ran)), Counter(map(_named, facts.ran))
    yield from (f"{one} ran, which was not predicted" for one in sorted((ran - predicted).elements()))
    steps = {one["id"]: one for step in definition["steps"] for one in (step, *inside(step))}
    done = [one for one in facts.ran if is_to_be_undone(steps[one.step], one.failed)]
    undone = [(one.step, one.place) for one in facts.undone]
    if Counter(undone) != Counter((one.step, one.place) for one in done):
        yield f"undone was {undone}; done was {[(one.step, one.place) for one in done]}"
    elif undone != [(one.step, one.place) for one in reversed(done)]:
        yield f"undone was {undone}, not the last first of {[(one.step, one.place) for one in done]}"


def _named(one: Ran) -> str:
    return f"{'/'.join((*one.place, one.step))} = {one.failed or msgspec.json.encode(one.result, order='sorted').decode()}"
