"""Loops that are declared to have no end, though they come to one: their old turns are forgotten, and a compacted log goes on with a later one."""

from typing import Any

from perdure.core.errors import BadDefinition
from perdure.programs.format.canonical import canonical
from perdure.programs.format.compile import compiled
from perdure.testing.definitions.facts import Json
from perdure.testing.definitions.generator import Case
from perdure.testing.definitions.outcomes import Stuck
from perdure.testing.definitions.sequential import predict
from perdure.testing.definitions.shape import inside


def unbounded(case: Case) -> Case | None:
    """The case with no bounds on its loops; None, if it has no loops, does not end then, or has to undo what may be forgotten by then."""
    definition = case.definition
    everything = [one for step in definition["steps"] for one in (step, *inside(step))]
    changed = {**definition, "steps": [_unbounded(step) for step in definition["steps"]]}
    if changed == definition or any("undo" in step for step in everything):
        return None
    try:
        changed = canonical(changed)
        _ = compiled(changed)
        prediction = predict(changed, case.script)
    except (BadDefinition, Stuck):
        return None
    return None if prediction.doubts else Case(changed, case.script, prediction)


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
