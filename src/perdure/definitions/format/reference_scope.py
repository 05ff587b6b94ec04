"""Lists the references that may be used at a step of a document, with the schemas of their values as far as these are known. The document need not be valid.

What is listed follows the rules by which single references are checked. That steps wait for each other in a circle is found only by the check of the whole.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from perdure.core.errors import NotFound
from perdure.definitions.format import model
from perdure.definitions.format.reference_check import ReferenceCheck
from perdure.definitions.format.shape_check import ExpressionSite
from perdure.definitions.format.shapes import ValueShape
from perdure.definitions.format.step_tree import PlacedStep, placed_steps, verb_of

STEP_ROOT = "step"
"""The root of references to results of steps."""


class ScopedReference(msgspec.Struct, frozen=True):
    """A reference: its text, the root that it reads (``step`` for the result of a step), the JSON Schema of its value (empty: not known), and what it is."""

    reference: str
    root: str
    schema: dict[str, Any]
    about: str


def references_at(document: Mapping[str, Any], step: str, field: str, results: Mapping[str, Mapping[str, Any]]) -> list[ScopedReference]:
    """Lists the references that a field of a step may use. `results` has the JSON Schema of the result of a verb, by its name.

    Raises:
        NotFound: the document has no step of this id.
    """
    placed = [one for one in placed_steps(document) if one.id]
    reader = next((one for one in placed if one.id == step), None)
    if reader is None:
        raise NotFound(step[:200], f"the document has no step {step[:200]!r}")
    check = ReferenceCheck(dict(document))
    known = model.step_fields().get(field)
    shape = ValueShape() if known is None else known.shape
    site = ExpressionSite(f"{reader.pointer}/{field}", "", shape)
    roots = check.names_in_scope(site)
    found = [*_of_roots(document, roots, placed)]
    found += [_of_step(one, results) for one in placed if one is not reader and check.is_readable(reader, one, site)]
    return found


def _of_roots(document: Mapping[str, Any], roots: set[str], placed: list[PlacedStep]) -> Iterator[ScopedReference]:
    declared, variables = document.get("input"), document.get("vars")
    if "input" in roots and isinstance(declared, Mapping):
        yield from (ScopedReference(f"@input.{name}", "input", _schema(about), "an input") for name, about in declared.items())
    if "vars" in roots:
        initial = dict(variables) if isinstance(variables, Mapping) else {}
        for one in placed:
            if isinstance(said := one.step.get("set"), Mapping):
                initial |= {name: None for name in said if name not in initial}
        yield from (ScopedReference(f"@vars.{name}", "vars", _schema_of_value(value), "a variable") for name, value in initial.items())
    about = {
        "item": "the item of this turn",
        "index": "the number of this turn, from 0",
        "loop": "the turn of the loop",
        "self": "the result of this step",
        "error": "the error that led here",
        "state": "the state of the repetition",
        "last_turn": "the result of the turn before",
        "last": "the result of the step that ended last",
        "trigger": "what started the execution",
        "execution": "this execution",
    }
    for name in sorted(roots - {"input", "vars", "steps", "secrets"}):
        yield ScopedReference(f"@{name}", name, {"type": "integer"} if name == "index" else {}, about.get(name, "a name that an each or a loop gives"))


def _of_step(one: PlacedStep, results: Mapping[str, Mapping[str, Any]]) -> ScopedReference:
    verb = verb_of(one.step)
    value = one.step.get(verb)
    own = value.get("schema") if isinstance(value, Mapping) else None
    schema = dict(own) if isinstance(own, Mapping) else dict(results.get(verb, {}))
    if "each" in one.step:
        schema = {"type": "array", "items": schema}
    return ScopedReference(f"@{one.id}", STEP_ROOT, schema, f"the result of {one.id} ({verb})" if verb else f"the result of {one.id}")


def _schema(about: Any) -> dict[str, Any]:
    return dict(about) if isinstance(about, Mapping) else {}


_TYPES: tuple[tuple[type, str], ...] = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"))


def _schema_of_value(value: Any) -> dict[str, Any]:
    """The type of a value that is no reference, by which it may change later."""
    if isinstance(value, str) and value.startswith("@"):
        return {}
    return next(({"type": name} for kind, name in _TYPES if isinstance(value, kind)), {})
