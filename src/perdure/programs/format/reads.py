"""What a step reads: every reference in its fields, and whether it is read before the step does anything or only once it has."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression
from perdure.expr import condition, template
from perdure.expr.condition import Dollar
from perdure.expr.refs import Read
from perdure.expr.template import Expressions
from perdure.programs.format.finding import joined
from perdure.programs.format.outline import Site
from perdure.programs.format.sources import SOURCES, sourced

RAW = ("tool", "call", "ts", "python", "bash", "do", "parallel", "race")
"""Verbs behind which no template stands: names, sources, and steps that are read for themselves."""

OWN = "pipeline"
"""The verb of a kind that has expressions of its own; so may the `config` of a `task`."""

CONDITIONS = ("test", "if")


class Unreadable(NamedTuple):
    """What stands for an expression and is none."""

    pointer: str
    what: str


class Reading(NamedTuple):
    """One reference: by `root` "step" or "steps" to the step `name`, else to what `root` names. `late`: it is read only when the step has run."""

    root: str
    name: str
    path: tuple[str | int, ...]
    pointer: str
    late: bool = False


Found = Iterator[Reading | Unreadable]


def readings(site: Site, expressions: Expressions) -> Found:
    """All that a step reads before others may go on, those of its nested steps not included; values may have `expressions`."""
    step, pointer = site.step, site.pointer
    if site.verb in CONDITIONS:
        yield from _of_condition(site.value, joined(pointer, site.verb), "steps", expressions)
    elif site.verb in SOURCES and isinstance(site.value, Mapping):
        beside = {name: value for name, value in site.value.items() if name != SOURCES[site.verb]}
        yield from of_template(beside, joined(pointer, site.verb), expressions)
    elif site.verb == "task" and isinstance(site.value, Mapping):
        about = {name: value for name, value in site.value.items() if name != "config"}
        yield from of_template(about, joined(pointer, site.verb), expressions)
        yield from of_template(site.value.get("config"), joined(pointer, site.verb, "config"), "none" if expressions == "cel" else expressions)
    elif site.verb not in RAW:
        yield from of_template(site.value, joined(pointer, site.verb), "none" if site.verb == OWN and expressions == "cel" else expressions)
    if "when" in step:
        yield from _of_condition(step["when"], joined(pointer, "when"), "steps", expressions)
    for field in ("with", "env"):
        if field in step:
            yield from of_template(step[field], joined(pointer, field), expressions)
    if isinstance(each := step.get("each"), Mapping):
        yield from of_template(each.get("in"), joined(pointer, "each", "in"), expressions)
    if isinstance(repeat := step.get("repeat"), Mapping):
        yield from _late(_of_repeat(repeat, joined(pointer, "repeat"), expressions))
    if "transform" in step and sourced(step["transform"]) is None:
        yield from _late(of_template(step["transform"], joined(pointer, "transform"), expressions))


def _late(found: Found) -> Found:
    return (one._replace(late=True) if isinstance(one, Reading) else one for one in found)


def _of_repeat(repeat: Mapping[str, Any], pointer: str, expressions: Expressions) -> Found:
    for field in ("state", "delay"):
        if field in repeat:
            yield from of_template(repeat[field], joined(pointer, field), expressions)
    for field in ("while", "until"):
        if field in repeat:
            yield from _of_condition(repeat[field], joined(pointer, field), "self", expressions)


def readings_later(site: Site, expressions: Expressions) -> Found:
    """What is read when all that ran before is there: where to go on, and what undoes the step."""
    undo, following = site.step.get("undo"), site.step.get("next")
    if isinstance(undo, Mapping) and "with" in undo:
        yield from of_template(undo["with"], joined(site.pointer, "undo", "with"), expressions)
    pointer = joined(site.pointer, "next")
    if isinstance(following, Mapping) and isinstance(following.get("success"), list):
        following, pointer = following["success"], joined(pointer, "success")
    for number, rule in enumerate(following if isinstance(following, list) else ()):
        if isinstance(rule, Mapping) and rule.get("when") is not None:
            yield from _of_condition(rule["when"], joined(pointer, number, "when"), "self", expressions)


def of_template(value: Any, pointer: str, expressions: Expressions) -> Found:
    """The references in a template."""
    if value is None or value is True or value is False:
        return
    try:
        reads = template.compiled(value, expressions=expressions).reads
    except BadExpression as problem:
        yield _unreadable(problem, pointer)
    else:
        yield from _sorted(reads, pointer)


def _of_condition(value: Any, pointer: str, dollar: Dollar, expressions: Expressions) -> Found:
    try:
        reads = condition.compiled(value, dollar=dollar, expressions=expressions).reads
    except BadExpression as problem:
        yield _unreadable(problem, pointer)
    else:
        yield from _sorted(reads, pointer)


def _sorted(reads: Iterable[Read], pointer: str) -> Iterator[Reading]:
    """In an order that does not depend on hashes, so that equal definitions have equal IRs."""
    found = [Reading(read.root, read.step, read.path, f"{pointer}{read.where}") for read in reads]
    return iter(sorted(found, key=lambda one: (one.pointer, one.root, one.name, str(one.path))) if len(found) > 1 else found)


def _unreadable(problem: BadExpression, pointer: str) -> Unreadable:
    return Unreadable(f"{pointer}{problem.where}", f"{problem.what}; {problem.hint}")
