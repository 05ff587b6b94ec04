"""Documents for fuzzing, drawn from the model of the format: a field that the model gains is in them by itself."""

import copy
from typing import Any

from hypothesis import strategies as st

from perdure.definitions.format import model
from perdure.definitions.format.shapes import (
    ChoiceShape,
    ConditionShape,
    DurationShape,
    EitherShape,
    FieldsShape,
    FlagShape,
    FormatField,
    IdShape,
    ListShape,
    MapShape,
    NameShape,
    NumberShape,
    PlainShape,
    SchemaShape,
    Shape,
    StepsShape,
    TextShape,
    ValueShape,
    WholeShape,
)

IDS = ("a", "b", "c", "d", "e", "f")
ROOTS = tuple(sorted(model.ROOTS - {"secrets"}))
READS = st.builds(
    lambda name, rest, optional: f"@{name}{rest}{optional}",
    st.sampled_from((*IDS, *ROOTS, "steps.a", "steps.c")),
    st.sampled_from(("", ".x", "[0].x", ".output.meta")),
    st.sampled_from(("", "?")),
)
TEXTS = READS | READS.map(lambda read: f"see @{{{read[1:]}}}") | st.sampled_from(("x", "T", "@@", "$.x", "{{ steps.a.output.data }}"))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("x", "y", "type")), inner, max_size=2),
    max_leaves=4,
)
CONDITIONS = st.recursive(
    st.booleans()
    | READS
    | st.fixed_dictionaries({"ref": READS | st.sampled_from(("$.x", "$.a[*].x"))}, optional={"gt": PLAIN, "sum": st.just({"gt": 1}), "exists": st.booleans()})
    | st.sampled_from([{"expr": f"{name}.x > 1"} for name in (*IDS, "self", "input")])
    | st.just({"python": "def evaluate(output, context): return True"}),
    lambda inner: st.builds(lambda group, one: {group: one if group == "not" else [one]}, st.sampled_from(("all", "any", "not")), inner),
    max_leaves=3,
)
SCHEMAS = st.sampled_from(({}, {"type": "object"}, {"x": {"type": "string"}}, {"x": {"type": "integer", "default": 1}}))
LEAVES: dict[type, st.SearchStrategy[Any]] = {
    FlagShape: st.booleans(),
    DurationShape: st.sampled_from((1, "1s", "2h 30m", 0.5)),
    IdShape: st.sampled_from(IDS),
    ValueShape: PLAIN,
    PlainShape: PLAIN,
    ConditionShape: CONDITIONS,
    SchemaShape: SCHEMAS,
    NameShape: st.sampled_from((*IDS, "row", "item")),
}


def of(shape: Shape, depth: int = 3) -> st.SearchStrategy[Any]:
    """Values that suit a shape, most of them; steps nest `depth` levels deep at most."""
    match shape:
        case TextShape():
            return st.sampled_from(("child@^1", "py:json.loads") if shape.pattern == model.CALL_PATTERN else ("T", "1.2.0")) if not shape.template else TEXTS
        case WholeShape() | NumberShape():
            return st.integers(1, 4) | st.just(2.0)
        case ChoiceShape():
            return st.sampled_from(shape.values)
        case StepsShape():
            return st.deferred(lambda: steps(depth - 1)) if depth > 0 else st.just([])
        case ListShape():
            inner = of(shape.of, depth)
            return st.lists(inner, max_size=2) | inner if shape.sugar else st.lists(inner, max_size=2)
        case MapShape():
            return st.dictionaries(st.sampled_from(("x", "success", "error", "approved")), of(shape.of, depth), max_size=2)
        case FieldsShape():
            return fields(shape.fields, depth, shape.one_of)
        case EitherShape():
            return st.one_of([of(option, depth) for option in shape.options])
    return LEAVES[type(shape)]


@st.composite
def fields(draw: st.DrawFn, known: tuple[FormatField, ...], depth: int, one_of: tuple[str, ...] = ()) -> dict[str, Any]:
    """A mapping of some fields: those that must stand, one of `one_of`, and up to three others."""
    chosen = {field.name for field in known if field.required} | ({draw(st.sampled_from(one_of))} if one_of else set())
    others = [field.name for field in known if field.name not in chosen and field.name not in one_of]
    if others:
        chosen |= draw(st.sets(st.sampled_from(others), max_size=3))
    return {field.name: draw(of(field.shape, depth)) for field in known if field.name in chosen}


@st.composite
def steps(draw: st.DrawFn, depth: int = 3) -> list[dict[str, Any]]:
    """A list of steps, each with a verb, what must stand beside it, and a few modifiers."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        verb = draw(st.sampled_from(model.VERBS))
        beside = tuple(field for field in model.BESIDE if verb.name in field.verbs)
        step = draw(fields((*model.IDENTITY, *beside, *model.MODIFIERS), depth))
        found.append({**step, verb.name: draw(of(verb.shape, depth))} if draw(st.integers(0, 20)) < 20 else step)
    return found


def _distinct(document: dict[str, Any]) -> dict[str, Any]:
    """The document with an id of its own for each step, as far as there are ids."""
    left = list(IDS)
    waiting: list[Any] = [document["steps"]]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(reversed(one))
        elif isinstance(one, dict):
            if not model.verbs_by_name().keys().isdisjoint(one) and left:
                one["id"] = left.pop(0)
            waiting.extend(value for value in one.values() if isinstance(value, list | dict))
    return document


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Whole documents, many of them without errors but for a reference or two."""
    head = draw(fields(tuple(field for field in model.DOCUMENT.fields if field.name not in ("perdure", "name", "version", "steps")), 1))
    return _distinct(copy.deepcopy({**head, "perdure": 1, "name": "fuzzed", "steps": draw(steps())}))


@st.composite
def mutated(draw: st.DrawFn, document: Any, others: st.SearchStrategy[Any] = PLAIN) -> Any:
    """A document in which one to three values are others, stand elsewhere, or are gone."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        spots = list(_spots(document))
        if not spots:
            return document
        holder, key = draw(st.sampled_from(spots))
        match draw(st.integers(0, 3)):
            case 0:
                holder[key] = draw(others)
            case 1:
                other, at = draw(st.sampled_from(spots))
                holder[key] = copy.deepcopy(other[at])
            case 2:
                del holder[key]
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from((*model.step_fields(), "type", "config", "input", "x")))] = holder.pop(key)
    return document


def _spots(document: Any) -> list[tuple[Any, Any]]:
    found = []
    waiting = [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            keys = list(one) if isinstance(one, dict) else range(len(one))
            found += [(one, key) for key in keys]
            waiting.extend(one[key] for key in keys)
    return found
