"""Loops that are declared to have no end, though they come to one: their old turns are forgotten, and a compacted log goes on with a later one.

Whether what is predicted of a definition stands on its own feet: work that takes longer, and messages that come later, change nothing of it.

A world in which engines die takes longer than one in which they don't. What a definition comes to there is known only if it does not hang on that.

What befalls one definition in a simulated world beside all trouble: a cancel in mid-flight, and patches, of which some are refused.
"""

from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

from perdure.core.errors import BadDefinition
from perdure.definitions.format.canonical_form import canonical_document, definition_bytes
from perdure.definitions.format.compiler import compile_definition
from tests.proof.definitions.comparison import differs
from tests.proof.definitions.facts import DefinitionPrediction, Json, OutsideEvents
from tests.proof.definitions.generator import GeneratedCase, random_case
from tests.proof.definitions.outcomes import DefinitionStuck
from tests.proof.definitions.prediction import predict
from tests.proof.definitions.shape import Step, inside


def unbounded(case: GeneratedCase) -> GeneratedCase | None:
    """The case with no bounds on its loops; None, if it has no loops, does not end then, or has to undo what may be forgotten by then."""
    definition = case.definition
    everything = [one for step in definition["steps"] for one in (step, *inside(step))]
    changed = {**definition, "steps": [_unbounded(step) for step in definition["steps"]]}
    if changed == definition or any("undo" in step for step in everything):
        return None
    try:
        changed = canonical_document(changed)
        _ = compile_definition(changed)
        prediction = predict(changed, case.script)
    except (BadDefinition, DefinitionStuck):
        return None
    return None if prediction.doubts else GeneratedCase(changed, case.script, prediction)


def _unbounded(value: Json) -> Json:
    match value:
        case list():
            return [_unbounded(one) for one in value]
        case {"id": str()}:
            return {key: _loop(one) if key in ("repeat", "next") else one if key == "with" else _unbounded(one) for key, one in value.items()}
        case {"steps": list()}:
            return {**value, "steps": _unbounded(value["steps"])}
    return value


def _loop(loop: Json) -> Json:
    """What turns back: a mapping that has a bound, or several of them."""
    match loop:
        case {"max": int(), "until": _} | {"max": int(), "while": _}:
            return _freed(loop)
        case [{}, *_]:
            return [_freed(rule) if "max" in rule and "when" in rule and "on_max" not in rule else rule for rule in loop]
        case dict():
            return {port: _freed(way) if isinstance(way, dict) and "max" in way else way for port, way in loop.items()}
    return loop


def _freed(way: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in way.items() if key not in ("max", "on_max")} | {"endless": True}


DRAWS = 30
SLOWEST_S = 400.0
"""How much longer a step may take to find out that its time is over: each time that it is interrupted, that begins anew."""


def steady(definition: dict[str, Json], script: OutsideEvents, prediction: DefinitionPrediction, random: Random, late_s: float) -> bool:
    """Whether the same is predicted if each piece of work takes up to `late_s` longer, each in its own way."""
    return all(_same(definition, script, prediction, Slower(random, late_s)) for _ in range(DRAWS))


def _same(definition: dict[str, Json], script: OutsideEvents, prediction: DefinitionPrediction, slower: "Slower") -> bool:
    try:
        other = predict({**definition, "steps": [slower.step(one) for one in definition["steps"]]}, slower.script(script))
    except DefinitionStuck:
        return False
    return not other.doubts and not differs(prediction, other.facts)


class Slower:
    """What takes longer, drawn once."""

    def __init__(self, random: Random, late_s: float) -> None:
        self._random, self._late_s = random, late_s

    def step(self, step: Step) -> Step:
        """A step, and all that stand in it, each of which takes longer; only what bounds the whole of a block, or a wait, stays."""
        slow = {key: self._inside(value) for key, value in step.items()}
        if "tool" in step:
            slow["with"] = {**step.get("with", {}), "late": [self._random.random(), self._late_s]}
            if isinstance(step.get("timeout"), int | float):
                slow["timeout"] = step["timeout"] + self._longer(SLOWEST_S)
        elif isinstance(step.get("sleep"), int | float):
            slow["sleep"] = step["sleep"] + self._longer(self._late_s)
        elif isinstance(asked := step.get("approve"), dict) and "timeout" in asked:  # while no engine runs, a decision may come first that is later
            slow["approve"] = {**asked, "timeout": asked["timeout"] + self._longer(self._late_s)}
        return slow

    def script(self, script: OutsideEvents) -> OutsideEvents:
        """What the world does, later."""
        messages = [message._replace(at_s=message.at_s + self._longer(self._late_s)) for message in script.messages]
        decisions = {title: replace(one, after_s=one.after_s + self._longer(self._late_s)) for title, one in script.decisions.items()}
        return OutsideEvents(script.input, messages, decisions)

    def _inside(self, value: Json) -> Json:
        match value:
            case [{"id": _}, *_]:
                return [self.step(one) for one in value]
            case {"steps": [*_] as steps}:
                return {**value, "steps": [self.step(one) for one in steps]}
        return value

    def _longer(self, most_s: float) -> float:
        return self._random.choice((0.0, self._random.uniform(0.0, most_s), most_s))


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
    prediction: DefinitionPrediction | None

    @property
    def raw(self) -> bytes:
        """Its bytes."""
        return definition_bytes(self.definition)


class CasePlan(NamedTuple):
    """A case, and what befalls it."""

    case: GeneratedCase
    patches: tuple[Patch, ...] = ()
    cancel_s: float | None = None


def drawn_plan(random: Random, size: int, late_s: float) -> CasePlan:
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
    return CasePlan(case, tuple(sorted(patches, key=lambda one: one.at_s)), cancel_s)


def _behind(random: Random, case: GeneratedCase, late_s: float) -> Patch | None:
    """One more step behind the end, that waits for all that it can wait for. It is taken whenever it comes, as long as there is an end to wait for."""
    definition, before = case.definition, case.prediction
    order = definition.get("order", "refs")
    ids = [step["id"] for step in definition["steps"] if order == "refs" or (order == "ports" and "next" not in step)]
    step: dict[str, Any] = {"id": "behind", "tool": "ADD", "with": {"value": 7, "takes_s": BEHIND_S}}
    longer = canonical_document({**definition, "steps": [*definition["steps"], {**step, "needs": ids} if ids else step]})
    try:
        _ = compile_definition(longer)
        after = predict(longer, case.script)
    except (BadDefinition, DefinitionStuck):
        return None
    at_the_end = abs(after.ended_s - before.ended_s - BEHIND_S) < 0.01 or not differs(before, after.facts)
    if after.doubts or not at_the_end or not steady(longer, case.script, after, random, late_s):
        return None
    return Patch(random.uniform(0.0, before.ended_s), longer, after)


def _changed(random: Random, case: GeneratedCase, _: float) -> Patch | None:
    """The step that begins first is another."""
    first, *rest = case.definition["steps"]
    if "tool" not in first or first.get("needs") or "when" in first or not _begins(case, first["id"]):
        return None
    changed = canonical_document({**case.definition, "steps": [{**first, "with": {"value": 99}}, *rest]})
    return Patch(random.uniform(1.0, case.prediction.ended_s + 1.0), changed, None)


def _begins(case: GeneratedCase, first: str) -> bool:
    """Whether a step is among the first to begin: nothing leads to it."""
    return not [edge for edge in compile_definition(case.definition).edges if compile_definition(case.definition).nodes[edge.target].id == first]


def _renamed(random: Random, case: GeneratedCase, _: float) -> Patch:
    """A definition of another name."""
    return Patch(random.uniform(0.0, case.prediction.ended_s), {**case.definition, "name": "another"}, None)
