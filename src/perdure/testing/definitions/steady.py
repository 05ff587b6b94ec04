"""Whether what is predicted of a definition stands on its own feet: work that takes longer, and messages that come later, change nothing of it.

A world in which engines die takes longer than one in which they don't. What a definition comes to there is known only if it does not hang on that.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from perdure.testing.definitions.comparing import differs
from perdure.testing.definitions.facts import Decision, Json, Prediction, Script
from perdure.testing.definitions.outcomes import Stuck
from perdure.testing.definitions.sequential import predict
from perdure.testing.definitions.shape import Step

DRAWS = 8
LONG_S = 400.0
"""How much longer a step may take to find out that its time is over: each time that it is interrupted, that begins anew."""

Longer = Callable[[], float]


def steady(definition: dict[str, Json], script: Script, prediction: Prediction, random: Random, late_s: float) -> bool:
    """Whether the same is predicted if each piece of work takes up to `late_s` longer, each in its own way."""
    for _ in range(DRAWS):
        longer = _drawn(random, late_s)
        slow, later = _slow(definition, longer, _drawn(random, LONG_S)), _later(script, longer)
        try:
            other = predict(slow, later)
        except Stuck:
            return False
        if other.doubts or differs(prediction, other.facts):
            return False
    return True


def _drawn(random: Random, most_s: float) -> Longer:
    return lambda: random.choice((0.0, random.uniform(0.0, most_s), most_s))


def _slow(definition: dict[str, Json], longer: Longer, patient: Longer) -> dict[str, Json]:
    return {**definition, "steps": [_slower(step, longer, patient) for step in definition["steps"]]}


def _slower(step: Step, longer: Longer, patient: Longer) -> Step:
    """A step, and all that stand in it, each of which takes longer; only what bounds the whole of a block, or a wait, stays."""
    slow = {key: _inside(value, longer, patient) for key, value in step.items()}
    if "tool" in step:
        given = step.get("with", {})
        takes_s = given.get("takes_s", 0.0) if isinstance(given, dict) else None
        if isinstance(takes_s, int | float):
            slow["with"] = {**given, "takes_s": takes_s + longer()}
        if isinstance(step.get("timeout"), int | float):
            slow["timeout"] = step["timeout"] + patient()
    elif isinstance(step.get("sleep"), int | float):
        slow["sleep"] = step["sleep"] + longer()
    return slow


def _inside(value: Json, longer: Longer, patient: Longer) -> Json:
    match value:
        case [{"id": _}, *_]:
            return [_slower(one, longer, patient) for one in value]
        case {"steps": [*_] as steps}:
            return {**value, "steps": [_slower(one, longer, patient) for one in steps]}
    return value


def _later(script: Script, longer: Longer) -> Script:
    messages = [message._replace(at_s=message.at_s + longer()) for message in script.messages]
    decisions = {title: _decided(one, longer) for title, one in script.decisions.items()}
    return Script(script.input, messages, decisions)


def _decided(decision: Decision, longer: Longer) -> Decision:
    return replace(decision, after_s=decision.after_s + longer())
