"""Configs by the shapes of the format: what may stand behind a verb, with some of it wrong."""

from typing import Any

from hypothesis import strategies as st

from perdure.definitions.format import shapes

TEXTS = st.sampled_from(["", "x", "a b", "ü\u2028", "10s", "-1", "@input.value", "@{input.value}", "@nobody", "@@", "@secrets.X", "http://127.0.0.1:1/", "GET"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from([2**70, -0.0, 1e308, 0.5]), TEXTS)
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2), max_leaves=4)
WRONG_OF = 8


def configs(shape: Any) -> st.SearchStrategy[Any]:
    """Values that suit a shape, and one in some that is anything at all."""
    return st.integers(0, WRONG_OF).flatmap(lambda number: _suiting(shape) if number else ANYTHING)


def _suiting(shape: Any) -> st.SearchStrategy[Any]:
    match shape:
        case shapes.FlagShape():
            return st.booleans()
        case shapes.WholeShape(least=least):
            return st.integers(least - 1, least + 3)
        case shapes.NumberShape(least=least):
            return st.floats(least, least + 2) | st.just(least - 1)
        case shapes.ChoiceShape(values=values):
            return st.sampled_from(values)
        case shapes.DurationShape():
            return st.sampled_from(["1s", "10ms", 0.1, "x", -1])
        case shapes.ListShape(of=of):
            return st.lists(configs(of), max_size=3)
        case shapes.MapShape(of=of):
            return st.dictionaries(TEXTS, configs(of), max_size=2)
        case shapes.EitherShape(options=options):
            return st.one_of([configs(option) for option in options])
        case shapes.FieldsShape(fields=fields):
            required = {field.name: configs(field.shape) for field in fields if field.required}
            return st.fixed_dictionaries(required, optional={field.name: configs(field.shape) for field in fields if not field.required})
        case shapes.SchemaShape():
            return st.sampled_from([{"type": "object"}, {"a": {"type": "string"}}, {"type": "nothing"}, {}])
    return TEXTS if isinstance(shape, shapes.TextShape | shapes.IdShape | shapes.NameShape) else ANYTHING
