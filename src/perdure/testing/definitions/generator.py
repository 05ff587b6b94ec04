"""Random definitions: `random_case` makes one and the world that it runs in, in which what comes of it is determined.

Every definition ends by itself. What depends on time depends on differences of a second and more; if a reading finds that it does not, another one is drawn.
"""

from random import Random
from typing import NamedTuple

from perdure.programs.format.canonical import canonical
from perdure.testing.definitions.blocks import Maker
from perdure.testing.definitions.facts import Json, Prediction, Script
from perdure.testing.definitions.sequential import Stuck, predict
from perdure.testing.definitions.wiring import Wiring

TRIES_MAX = 200

ORDERS = ("refs", "listed", "ports")


class Case(NamedTuple):
    """A definition, the world that it runs in, and what comes of it."""

    definition: dict[str, Json]
    script: Script
    prediction: Prediction


def random_case(random: Random, size: int = 12, order: str = "") -> Case:
    """A definition of about `size` steps, in this order or any. The same `random` gives the same one in every process."""
    for _ in range(TRIES_MAX):
        definition, script = _drawn(random, size, order or random.choice(ORDERS))
        try:
            prediction = predict(definition, script)
        except Stuck:  # a message that a branch was to send is never sent
            continue
        if not prediction.doubts:
            return Case(definition, script, prediction)
    raise Stuck(f"each of {TRIES_MAX} definitions hangs on a moment, or does not end")


def random_definition(random: Random, size: int = 12, order: str = "") -> dict[str, Json]:
    """The definition of a `random_case`."""
    return random_case(random, size, order).definition


def _drawn(random: Random, size: int, order: str) -> tuple[dict[str, Json], Script]:
    maker = Maker(random, order)
    steps = Wiring(maker).steps(size) if order == "ports" else maker.whole(size)
    definition: dict[str, Json] = {"perdure": 1, "name": "random", "input": {"n": {"type": "integer"}, "many": {"type": "array"}}}
    definition |= {"order": order} if order != "refs" else {}
    definition |= {"vars": maker.variables} if maker.variables else {}
    definition |= {"on_failure": {"undo": False}} if random.random() < 0.1 else {}
    definition |= {"retry": {"max": 2, "wait": 0}, "steps": steps}
    if readable := [name for name in maker.readable if random.random() < 0.4]:
        definition["output"] = {name: f"@{name}" for name in readable[:6]} | {"n": "@input.n"}
    given = {"n": random.randint(0, 9), "many": [random.randint(0, 9) for _ in range(random.randint(0, 5))]}
    return canonical(definition), Script(given, maker.messages, maker.decisions)
