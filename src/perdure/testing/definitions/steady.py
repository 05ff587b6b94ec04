"""Whether what is predicted of a definition stands on its own feet: work that takes longer, and messages that come later, change nothing of it.

A world in which engines die takes longer than one in which they don't. What a definition comes to there is known only if it does not hang on that.
"""

from random import Random

from msgspec.structs import replace

from perdure.testing.definitions.comparing import differs
from perdure.testing.definitions.facts import Json, Prediction, Script
from perdure.testing.definitions.outcomes import Stuck
from perdure.testing.definitions.sequential import predict
from perdure.testing.definitions.shape import Step

DRAWS = 30
LONG_S = 400.0
"""How much longer a step may take to find out that its time is over: each time that it is interrupted, that begins anew."""


def steady(definition: dict[str, Json], script: Script, prediction: Prediction, random: Random, late_s: float) -> bool:
    """Whether the same is predicted if each piece of work takes up to `late_s` longer, each in its own way."""
    return all(_same(definition, script, prediction, Slower(random, late_s)) for _ in range(DRAWS))


def _same(definition: dict[str, Json], script: Script, prediction: Prediction, slower: "Slower") -> bool:
    try:
        other = predict({**definition, "steps": [slower.step(one) for one in definition["steps"]]}, slower.script(script))
    except Stuck:
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
                slow["timeout"] = step["timeout"] + self._longer(LONG_S)
        elif isinstance(step.get("sleep"), int | float):
            slow["sleep"] = step["sleep"] + self._longer(self._late_s)
        elif isinstance(asked := step.get("approve"), dict) and "timeout" in asked:  # while no engine runs, a decision may come first that is later
            slow["approve"] = {**asked, "timeout": asked["timeout"] + self._longer(self._late_s)}
        return slow

    def script(self, script: Script) -> Script:
        """What the world does, later."""
        messages = [message._replace(at_s=message.at_s + self._longer(self._late_s)) for message in script.messages]
        decisions = {title: replace(one, after_s=one.after_s + self._longer(self._late_s)) for title, one in script.decisions.items()}
        return Script(script.input, messages, decisions)

    def _inside(self, value: Json) -> Json:
        match value:
            case [{"id": _}, *_]:
                return [self.step(one) for one in value]
            case {"steps": [*_] as steps}:
                return {**value, "steps": [self.step(one) for one in steps]}
        return value

    def _longer(self, most_s: float) -> float:
        return self._random.choice((0.0, self._random.uniform(0.0, most_s), most_s))
