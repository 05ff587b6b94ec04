"""What filters are told about the items of a list: a field of each, or a condition on each, written as text within the expression."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr import loose
from perdure.expr.braces_run import NESTED_MAX, Meaning, Run

_PATH = re.compile(r"[\w$-]+(?:\.[\w$-]+|\[\d+\])*")
_PARTS = re.compile(r"[\w$-]+")


def chosen(run: Run, value: Any) -> list[Any]:
    """The items that a filter goes through, paid for; none of what is no list."""
    if not isinstance(value, list):
        return []
    run.spend(len(value))
    return value


def item_value(run: Run, wanted: Any) -> Callable[[Any], Any]:
    """What gives of an item the field or the expression that `wanted` names, Ellipsis where there is none; the item itself without a name."""
    if not isinstance(wanted, str):
        return lambda item: item
    if path := _path(wanted):
        return lambda item: at(item, path)
    meaning = _meant(run, wanted)
    return lambda item: _evaluated(run, meaning, item)


def predicate(run: Run, condition: Any) -> Callable[[Any], bool]:
    """Whether a condition such as ``price >= 5`` holds of an item, whose fields are its names."""
    meaning = _meant(run, run.text(condition))
    return lambda item: loose.truthy(_evaluated(run, meaning, item))


def at(item: Any, path: tuple[str, ...]) -> Any:
    """What stands at a path in an item; Ellipsis if nothing does."""
    for key in path:
        if isinstance(item, dict) and key in item:
            item = item[key]
        elif isinstance(item, list) and key.isdecimal() and int(key[:9]) < len(item):
            item = item[int(key[:9])]
        else:
            return ...
    return item


def rank(value: Any) -> tuple[int, Any]:
    """Where a value stands in order: numbers, then text, then the rest as it came, then null and what is missing."""
    match value:
        case bool() | int() | float():
            return 0, value
        case str():
            return 1, value
        case None:
            return 3, 0
        case _:
            return (4, 0) if value is Ellipsis else (2, 0)


@lru_cache(maxsize=512)
def _path(wanted: str) -> tuple[str, ...]:
    return tuple(_PARTS.findall(wanted)) if len(wanted) < 1000 and _PATH.fullmatch(wanted) else ()


def _meant(run: Run, text: str) -> Meaning:
    run.spend(len(text))
    try:
        return run.of_items(text)
    except BadExpression as error:
        raise run.failed(f"the condition {text[:60]!r} can't be read: {error.what}", error.hint) from None


def _evaluated(run: Run, meaning: Meaning, item: Any) -> Any:
    if run.nested >= NESTED_MAX:
        raise run.failed(f"conditions nest deeper than {NESTED_MAX} in each other", "write  items[.price > 5]  instead of a condition as text")
    outer, run.item = run.item, item
    run.nested += 1
    run.spend(8)
    try:
        return meaning(run)
    finally:
        run.item = outer
        run.nested -= 1
