"""What befalls one definition in a simulated world beside all trouble: a cancel in mid-flight, and patches, of which some are refused."""

from random import Random
from typing import Any, NamedTuple

from perdure.core.errors import BadDefinition
from perdure.programs.format.canonical import bytes_of, canonical
from perdure.programs.format.compile import compiled
from perdure.testing.definitions.comparing import differs
from perdure.testing.definitions.endless import unbounded
from perdure.testing.definitions.facts import Json, Prediction
from perdure.testing.definitions.generator import Case, random_case
from perdure.testing.definitions.outcomes import Stuck
from perdure.testing.definitions.sequential import predict
from perdure.testing.definitions.steady import steady

BEHIND_S = 3.0
"""How long the step takes that a patch adds behind the end."""


ENDLESS = 0.2
"""How many of all have loops whose old turns are forgotten."""


LONG_S = 1000.0
"""What takes longer is not run: a world is given up some time after its last fault."""


class Patch(NamedTuple):
    """A patch: when it comes, the definition, and what is predicted if it is taken; None: it is refused."""

    at_s: float
    definition: dict[str, Json]
    prediction: Prediction | None

    @property
    def raw(self) -> bytes:
        """Its bytes."""
        return bytes_of(self.definition)


class Plan(NamedTuple):
    """A case, and what befalls it."""

    case: Case
    patches: tuple[Patch, ...] = ()
    cancel_s: float | None = None


def drawn_plan(random: Random, size: int, late_s: float) -> Plan:
    """A case of about `size` steps, of which the same is predicted if all takes up to `late_s` longer."""
    endless = random.random() < ENDLESS
    while True:
        drawn = random_case(random, size)
        case = unbounded(drawn) if endless else drawn
        if case is not None and case.prediction.ended_s < LONG_S and steady(case.definition, case.script, case.prediction, random, late_s):
            break
    ended_s = case.prediction.ended_s
    patches = [one for made in (_behind, _changed, _renamed) if random.random() < 0.3 and (one := made(random, case, late_s)) is not None]
    cancel_s = random.uniform(0.0, ended_s) if random.random() < 0.15 else None
    return Plan(case, tuple(sorted(patches, key=lambda one: one.at_s)), cancel_s)


def _behind(random: Random, case: Case, late_s: float) -> Patch | None:
    """One more step behind the end, that waits for all that it can wait for. It is taken whenever it comes, as long as there is an end to wait for."""
    definition, before = case.definition, case.prediction
    order = definition.get("order", "refs")
    ids = [step["id"] for step in definition["steps"] if order == "refs" or (order == "ports" and "next" not in step)]
    step: dict[str, Any] = {"id": "behind", "tool": "ADD", "with": {"value": 7, "takes_s": BEHIND_S}}
    longer = canonical({**definition, "steps": [*definition["steps"], {**step, "needs": ids} if ids else step]})
    try:
        _ = compiled(longer)
        after = predict(longer, case.script)
    except (BadDefinition, Stuck):
        return None
    at_the_end = abs(after.ended_s - before.ended_s - BEHIND_S) < 0.01 or not differs(before, after.facts)
    if after.doubts or not at_the_end or not steady(longer, case.script, after, random, late_s):
        return None
    return Patch(random.uniform(0.0, before.ended_s), longer, after)


def _changed(random: Random, case: Case, _: float) -> Patch | None:
    """The step that begins first is another."""
    first, *rest = case.definition["steps"]
    if "tool" not in first or first.get("needs") or "when" in first or not _begins(case, first["id"]):
        return None
    changed = canonical({**case.definition, "steps": [{**first, "with": {"value": 99}}, *rest]})
    return Patch(random.uniform(1.0, case.prediction.ended_s + 1.0), changed, None)


def _begins(case: Case, first: str) -> bool:
    """Whether a step is among the first to begin: nothing leads to it."""
    return not [edge for edge in compiled(case.definition).edges if compiled(case.definition).nodes[edge.target].id == first]


def _renamed(random: Random, case: Case, _: float) -> Patch:
    """A definition of another name."""
    return Patch(random.uniform(0.0, case.prediction.ended_s), {**case.definition, "name": "another"}, None)
