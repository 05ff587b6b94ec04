"""What a step reads: every reference in its fields, and whether it is read before the step does anything or only once it has."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from perdure.programs.format.finding import joined
from perdure.programs.format.outline import Site

RAW = ("tool", "call", "ts", "python", "bash", "do", "parallel", "race")
"""Verbs behind which no template stands: names, sources, and steps that are read for themselves."""

CONDITIONS = ("test", "if")


class Reading(NamedTuple):
    """One reference: by `root` "step" or "steps" the step `name`, else a root of this name. `late`: it is read when the step has run."""

    root: str
    name: str
    path: tuple[str | int, ...]
    pointer: str
    late: bool = False


def readings(site: Site) -> Iterator[Reading]:
    """All that a step reads, those of its nested steps not included."""
    step, pointer = site.step, site.pointer
    if site.verb in CONDITIONS:
        yield from condition(site.value, joined(pointer, site.verb))
    elif site.verb not in RAW:
        yield from template(site.value, joined(pointer, site.verb))
    yield from condition(step.get("when"), joined(pointer, "when"))
    for field in ("with", "env"):
        yield from template(step.get(field), joined(pointer, field))
    if isinstance(each := step.get("each"), Mapping):
        yield from template(each.get("in"), joined(pointer, "each", "in"))
    yield from (one._replace(late=True) for one in _late(step, pointer))


def _late(step: Mapping[str, Any], pointer: str) -> Iterator[Reading]:
    if isinstance(repeat := step.get("repeat"), Mapping):
        yield from template(repeat.get("state"), joined(pointer, "repeat", "state"))
        yield from template(repeat.get("delay"), joined(pointer, "repeat", "delay"))
        for field in ("while", "until"):
            yield from condition(repeat.get(field), joined(pointer, "repeat", field))
    yield from template(step.get("transform"), joined(pointer, "transform"))


def unordered(site: Site) -> Iterator[Reading]:
    """What is read when all that ran before is there: where to go on, and what undoes the step."""
    undo, following = site.step.get("undo"), site.step.get("next")
    if isinstance(undo, Mapping):
        yield from template(undo.get("with"), joined(site.pointer, "undo", "with"))
    for number, rule in enumerate(following if isinstance(following, list) else ()):
        if isinstance(rule, Mapping):
            yield from condition(rule.get("when"), joined(site.pointer, "next", number, "when"))


_WHOLE = re.compile(r"@([^\W\d][\w-]*)((?:\.|\[).*)?\??$", re.DOTALL)
_INSIDE = re.compile(r"(?<!@)@\{([^\W\d][\w-]*)([^}]*)\}")
_STEPS = re.compile(r"\.([\w-]+)")


def template(value: Any, pointer: str) -> Iterator[Reading]:
    """The references in a template."""
    waiting = [(value, pointer)]
    while waiting:
        value, pointer = waiting.pop()
        if isinstance(value, str):
            found = _WHOLE.match(value)
            for match in (found,) if found else _INSIDE.finditer(value):
                yield _reading(match[1], match[2] or "", pointer)
        elif isinstance(value, Mapping):
            waiting.extend((one, joined(pointer, key)) for key, one in value.items())
        elif isinstance(value, list):
            waiting.extend((one, joined(pointer, number)) for number, one in enumerate(value))


def condition(value: Any, pointer: str) -> Iterator[Reading]:
    """The references in a condition."""
    yield from template(value, pointer)


def _reading(name: str, rest: str, pointer: str) -> Reading:
    path = tuple(_STEPS.findall(rest))
    if name == "steps":
        return Reading("steps", path[0] if path else "", path[2:], pointer)
    return Reading("step", name, path, pointer)
