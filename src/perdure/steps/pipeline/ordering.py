"""Ordering and equality of JSON values of any kinds.

Values are ordered by kind, then by value: false, true, numbers, text (by code point), lists (by their items), mappings (by their keys and values). Integers and
floats are compared exactly. Null is in no order: who sorts says whether it comes last or first. Two values are equal as JSON is: 1 and 1.0 are, 1 and true are
not.
"""

from collections.abc import Sequence
from typing import Any

from perdure.expr.values import shown
from perdure.steps.pipeline.failed import Wrong

_BOOLEAN, _NUMBER, _TEXT, _LIST, _MAPPING, _NULL = range(6)
_FALSE, _TRUE = ("", False), ("", True)


def orderable(values: Sequence[Any]) -> Sequence[Any]:
    """Values without null among them, as Python can compare them: as they are if all are numbers or all are text."""
    kinds = set(map(type, values))
    return values if kinds <= {int, float} or kinds == {str} else [key(value) for value in values]


def key(value: Any) -> tuple[Any, ...]:
    """What stands for a value where values of any kinds are compared."""
    match value:
        case None:
            return (_NULL,)
        case bool():
            return (_BOOLEAN, value)
        case int() | float():
            return (_NUMBER, value)
        case str():
            return (_TEXT, value)
        case list():
            return (_LIST, tuple(map(key, value)))
        case dict():
            return (_MAPPING, tuple((name, key(value[name])) for name in sorted(value)))
    raise Wrong(f"{shown(value)} is no JSON value, and in no order")


def same(value: Any) -> Any:
    """What stands for a value where equal ones are looked for: hashable, and equal for equal values alone."""
    match value:
        case True:
            return _TRUE
        case False:
            return _FALSE
        case list():
            return (_LIST, tuple(map(same, value)))
        case dict():
            return (_MAPPING, frozenset((name, same(inner)) for name, inner in value.items()))
        case _:
            return value
