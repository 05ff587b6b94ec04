"""The filters of the ``{{ }}`` language, the functions behind ``|``. Each takes the evaluation, the value before the bar and its arguments.

A filter is total: for a value that it can't use, it returns an empty list, empty text or null. It fails only if the evaluation exceeds its cost limit.
Filters on lists take the name of a field, or a condition on each item as text. A time is ISO 8601 text (UTC if it has no zone) or a number: milliseconds
since 1970, or seconds if it is below 1e11.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr import lenient_values
from perdure.definitions.expr.references import ExpressionScope
from perdure.definitions.expr.regular_expressions import compile_regex

STEPS_MAX = 500_000
"""The cost limit of one evaluation: each item that is read costs one step, as do 64 characters."""

TEXT_MAX = 4 * 1024 * 1024
"""The longest text that an expression may build."""

EVALUATION_DEPTH_MAX = 200
"""The deepest nesting of values that are compared or converted to text."""

NESTED_MAX = 2
"""The deepest nesting of conditions that filters receive as text."""


class BracesEvaluation:
    """An evaluation in progress: its scope, the item that it examines, and its cost so far. `of_items` compiles conditions on items."""

    __slots__ = ("item", "nested", "of_items", "scope", "steps")

    def __init__(self, scope: ExpressionScope, of_items: "Callable[[str], BracesFunction]") -> None:
        self.scope, self.of_items, self.nested, self.steps = scope, of_items, 0, 0
        self.item: Any = None

    def root(self, name: str) -> Any:
        """Returns the value of a root, or null."""
        try:
            return self.scope.root(name)
        except KeyError:
            return None

    def envelope(self, id: str) -> Any:
        """Returns the result of a step, or null."""
        try:
            return self.scope.envelope(id)
        except KeyError:
            return None

    def now_s(self) -> float:
        """Returns the time of the decision."""
        execution = self.root("execution")
        now_s = execution.get("now_s") if isinstance(execution, dict) else None
        if not isinstance(now_s, int | float):
            raise self.failed("the time is not known here", "use now and daysAgo only in steps")
        return float(now_s)

    def failed(self, what: str, hint: str) -> ExpressionFailed:
        """Returns the error that the expression has no value."""
        return ExpressionFailed("", what, hint)

    def spend(self, steps: int) -> None:
        """Adds to the cost, and raises an error above the limit."""
        self.steps += 1 + steps
        if self.steps > STEPS_MAX:
            raise self.failed(f"this takes more than {STEPS_MAX:,} steps", "compute this in a step")

    def sized(self, characters: int) -> None:
        """Raises an error before a text of so many characters is built, if that is too many."""
        if characters > TEXT_MAX:
            raise self.failed(f"this builds text of more than {TEXT_MAX:,} characters", "compute this in a step")
        self.spend(characters // 64)

    def text(self, value: Any) -> str:
        """Converts `value` to text, and counts its cost."""
        return value if isinstance(value, str) else lenient_values.js_text(self.weighed(value))

    def weighed(self, value: Any) -> Any:
        """Returns `value` after counting the cost of reading all of it."""
        if not isinstance(value, list | dict):
            if isinstance(value, str):
                self.spend(len(value) // 64)
            return value
        level: list[Any] = [value]
        for _ in range(EVALUATION_DEPTH_MAX):
            inside = [one for one in level if isinstance(one, list | dict)]
            self.spend(sum(map(len, inside)))
            level = [inner for one in inside for inner in (one if isinstance(one, list) else one.values())]
            if not level:
                return value
            self.spend(sum(len(one) for one in level if isinstance(one, str)) // 64)
        raise self.failed(f"this reads a value that nests deeper than {EVALUATION_DEPTH_MAX}", "read only the part that is needed")


BracesFunction = Callable[[BracesEvaluation], Any]
FilterFunction = Callable[..., Any]


SECONDS_BELOW = 1e11
"""Smaller numbers are seconds: as milliseconds they would be before 1973."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_ms(value: Any) -> float | None:
    """Returns the time that `value` represents, in milliseconds since 1970; None if it is not a time."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            return float(value) * (1000 if 0 < value < SECONDS_BELOW else 1) if abs(value) < 1e18 else None
        case str():
            return _parsed_ms(value.strip())
        case _:
            return None


def _parsed_ms(written: str) -> float | None:
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    moment = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (moment - _EPOCH) / timedelta(milliseconds=1)


def moment_iso_text(moment: float) -> str:
    """Formats milliseconds since 1970 as ISO 8601; empty for a time outside of the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=math.floor(moment))).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ""


def _ago(run: BracesEvaluation, value: Any, unit_s: int) -> int:
    moment = moment_ms(value)
    return -1 if moment is None else math.floor((run.now_s() - moment / 1000) / unit_s)


def days_ago(run: BracesEvaluation, value: Any) -> int:
    """Returns the whole days from then until now; -1 if `value` is not a time."""
    return _ago(run, value, 86_400)


def hours_ago(run: BracesEvaluation, value: Any) -> int:
    """Returns the whole hours from then until now; -1 if `value` is not a time."""
    return _ago(run, value, 3600)


def minutes_ago(run: BracesEvaluation, value: Any) -> int:
    """Returns the whole minutes from then until now; -1 if `value` is not a time."""
    return _ago(run, value, 60)


def milliseconds_of_value(run: BracesEvaluation, value: Any) -> int | None:
    """Returns milliseconds since 1970; null if `value` is not a time."""
    moment = moment_ms(value)
    return None if moment is None else math.floor(moment)


def seconds_of_value(run: BracesEvaluation, value: Any) -> int | str:
    """Returns seconds since 1970; empty text if `value` is not a time."""
    moment = moment_ms(value)
    return "" if moment is None else math.floor(moment / 1000)


def iso_of_value(run: BracesEvaluation, value: Any) -> str:
    """Formats a time as ISO 8601; empty text if `value` is not a time."""
    moment = moment_ms(value)
    return "" if moment is None else moment_iso_text(moment)


def is_before(run: BracesEvaluation, value: Any, other: Any) -> bool:
    """Returns whether both are times, and the first is earlier."""
    one, two = moment_ms(value), moment_ms(other)
    return one is not None and two is not None and one < two


def is_after(run: BracesEvaluation, value: Any, other: Any) -> bool:
    """Returns whether both are times, and the first is later."""
    return is_before(run, other, value)


_PATH = re.compile(r"[\w$-]+(?:\.[\w$-]+|\[\d+\])*")
_PARTS = re.compile(r"[\w$-]+")


def items_for_filter(run: BracesEvaluation, value: Any) -> list[Any]:
    """Returns the items that a filter reads, after counting their cost; an empty list if `value` is not a list."""
    if not isinstance(value, list):
        return []
    run.spend(len(value))
    return value


def item_getter(run: BracesEvaluation, wanted: Any) -> Callable[[Any], Any]:
    """Returns a function that reads from an item the field or the expression `wanted`, Ellipsis if it is missing; without a name, the item itself."""
    if not isinstance(wanted, str):
        return lambda item: item
    if path := _item_path(wanted):
        return lambda item: value_at_path(item, path)
    meaning = _item_meaning(run, wanted)
    return lambda item: _evaluated_for_item(run, meaning, item)


def item_predicate(run: BracesEvaluation, condition: Any) -> Callable[[Any], bool]:
    """Returns a function that tests a condition such as ``price >= 5`` on an item, whose fields are its names."""
    meaning = _item_meaning(run, run.text(condition))
    return lambda item: lenient_values.js_truthy(_evaluated_for_item(run, meaning, item))


def value_at_path(item: Any, path: tuple[str, ...]) -> Any:
    """Returns the value at a path in an item; Ellipsis if there is none."""
    for key in path:
        if isinstance(item, dict) and key in item:
            item = item[key]
        elif isinstance(item, list) and key.isdecimal() and int(key[:9]) < len(item):
            item = item[int(key[:9])]
        else:
            return ...
    return item


def sort_rank(value: Any) -> tuple[int, Any]:
    """Returns the sort key of a value: numbers first, then text, then other values in their given order, then null and missing values."""
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
def _item_path(wanted: str) -> tuple[str, ...]:
    return tuple(_PARTS.findall(wanted)) if len(wanted) < 1000 and _PATH.fullmatch(wanted) else ()


def _item_meaning(run: BracesEvaluation, text: str) -> BracesFunction:
    run.spend(len(text))
    try:
        return run.of_items(text)
    except BadExpression as error:
        raise run.failed(f"the condition {text[:60]!r} can't be read: {error.what}", error.hint) from None


def _evaluated_for_item(run: BracesEvaluation, meaning: BracesFunction, item: Any) -> Any:
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


class RegisteredFilter(NamedTuple):
    """A filter, with the smallest and the largest number of its arguments."""

    make: FilterFunction
    least: int = 0
    most: int = 0


def _length(run: BracesEvaluation, value: Any) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


def _first(run: BracesEvaluation, value: Any) -> Any:
    return value[0] if isinstance(value, list | str) and value else None


def _last(run: BracesEvaluation, value: Any) -> Any:
    return value[-1] if isinstance(value, list | str) and value else None


def _map(run: BracesEvaluation, value: Any, wanted: Any) -> list[Any]:
    find = item_getter(run, wanted)
    return [found for item in items_for_filter(run, value) if (found := find(item)) is not Ellipsis]


def _filter(run: BracesEvaluation, value: Any, condition: Any, wanted: Any = ...) -> list[Any]:
    if wanted is not Ellipsis:
        return _filter_by(run, value, condition, wanted)
    holds = item_predicate(run, condition)
    return [item for item in items_for_filter(run, value) if holds(item)]


def _filter_by(run: BracesEvaluation, value: Any, field: Any, wanted: Any) -> list[Any]:
    find = item_getter(run, field)
    return [item for item in items_for_filter(run, value) if lenient_values.strictly_equal(run.weighed(find(item)), wanted)]


def _find(run: BracesEvaluation, value: Any, condition: Any, wanted: Any = ...) -> Any:
    return next(iter(_filter(run, value, condition, wanted)), None)


def _sort(run: BracesEvaluation, value: Any, field: Any = None, order: Any = "asc") -> list[Any]:
    find = item_getter(run, field)
    keyed = [(sort_rank(find(item)), item) for item in items_for_filter(run, value)]
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0], reverse=run.text(order).lower() == "desc")]


def _join(run: BracesEvaluation, value: Any, between: Any = ",") -> str:
    texts = [lenient_values.js_shown(run.weighed(item)) for item in items_for_filter(run, value)]
    separator = run.text(between)
    run.sized(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _unique(run: BracesEvaluation, value: Any, field: Any = None) -> list[Any]:
    find, seen = item_getter(run, field), dict[Any, Any]()
    for item in items_for_filter(run, value):
        found = run.weighed(find(item))
        seen.setdefault(("text", found) if isinstance(found, str) else _sorted_json(found), item)
    return list(seen.values())


def _sorted_json(value: Any) -> bytes | None:
    return None if value is Ellipsis else msgspec.json.encode(lenient_values.json_number(value), order="deterministic")


def _flatten(run: BracesEvaluation, value: Any) -> list[Any]:
    flat = list[Any]()
    for item in items_for_filter(run, value):
        run.spend(len(item) if isinstance(item, list) else 1)
        flat.extend(item if isinstance(item, list) else [item])
    return flat


def _concat(run: BracesEvaluation, value: Any, other: Any) -> list[Any]:
    return [*items_for_filter(run, value), *items_for_filter(run, other)]


def _reverse(run: BracesEvaluation, value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else items_for_filter(run, value)[::-1]


def _slice(run: BracesEvaluation, value: Any, start: Any = 0, end: Any = None) -> Any:
    whole = value if isinstance(value, str) else items_for_filter(run, value)
    return whole[_place(start) : None if end is None else _place(end)]


def _place(value: Any) -> int:
    place = 0 if isinstance(value, list | dict) else lenient_values.js_number(value)
    return int(place) if math.isfinite(place) else 0 if place != place or place < 0 else lenient_values.SAFE_MAX


def _chunk(run: BracesEvaluation, value: Any, size: Any = 1) -> list[Any]:
    items, width = items_for_filter(run, value), max(1, _place(size))
    return [items[start : start + width] for start in range(0, len(items), width)]


def _includes(run: BracesEvaluation, value: Any, wanted: Any) -> bool:
    if isinstance(value, dict):
        return run.text(wanted) in value
    if isinstance(value, list):
        return any(lenient_values.strictly_equal(run.weighed(item), run.weighed(wanted)) for item in items_for_filter(run, value))
    return isinstance(value, str) and run.text(wanted) in run.weighed(value)


def _has_overlap(run: BracesEvaluation, value: Any, other: Any) -> bool:
    texts = {lenient_values.js_shown(run.weighed(item)) for item in items_for_filter(run, value)}
    return any(lenient_values.js_shown(run.weighed(item)) in texts for item in items_for_filter(run, other))


def _keys(run: BracesEvaluation, value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _values(run: BracesEvaluation, value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _entries(run: BracesEvaluation, value: Any) -> list[Any]:
    return [{"key": key, "value": item} for key, item in value.items()] if isinstance(value, dict) else []


def _default(run: BracesEvaluation, value: Any, other: Any) -> Any:
    return other if value is None else value


def _numbers(run: BracesEvaluation, value: Any, field: Any) -> list[int | float]:
    find = item_getter(run, field)
    return [lenient_values.js_number(None if (found := find(item)) is Ellipsis else run.weighed(found)) for item in items_for_filter(run, value)]


def _sum(run: BracesEvaluation, value: Any, field: Any = None) -> int | float:
    total: int | float = 0
    for one in _numbers(run, value, field):
        total = lenient_values.js_result(total + one)
    return total


def _min(run: BracesEvaluation, value: Any, field: Any = None) -> int | float | None:
    return min(_numbers(run, value, field), default=None)


def _max(run: BracesEvaluation, value: Any, field: Any = None) -> int | float | None:
    return max(_numbers(run, value, field), default=None)


def _average(run: BracesEvaluation, value: Any, field: Any = None) -> int | float | None:
    numbers = _numbers(run, value, field)
    return lenient_values.js_result(_sum(run, numbers) / len(numbers)) if numbers else None


def _round(run: BracesEvaluation, value: Any, digits: Any = 0) -> int | float:
    amount, places = _number(run, value), max(-15, min(15, _place(digits)))
    if not math.isfinite(amount) or abs(amount) >= lenient_values.SAFE_MAX:
        return amount
    return lenient_values.js_result(math.floor(amount * 10**places + 0.5) / 10**places)


def _floor(run: BracesEvaluation, value: Any) -> int | float:
    amount = _number(run, value)
    return lenient_values.js_result(math.floor(amount)) if math.isfinite(amount) else amount


def _ceil(run: BracesEvaluation, value: Any) -> int | float:
    amount = _number(run, value)
    return lenient_values.js_result(math.ceil(amount)) if math.isfinite(amount) else amount


def _abs(run: BracesEvaluation, value: Any) -> int | float:
    return abs(_number(run, value))


def _text(run: BracesEvaluation, value: Any) -> str:
    shown = lenient_values.js_shown(run.weighed(value))
    run.sized(len(shown))
    return shown


def _upper(run: BracesEvaluation, value: Any) -> str:
    return _text(run, value).upper()


def _lower(run: BracesEvaluation, value: Any) -> str:
    return _text(run, value).lower()


def _trim(run: BracesEvaluation, value: Any) -> str:
    return _text(run, value).strip()


def _starts(run: BracesEvaluation, value: Any, beginning: Any) -> bool:
    return _text(run, value).startswith(run.text(beginning))


def _ends(run: BracesEvaluation, value: Any, ending: Any) -> bool:
    return _text(run, value).endswith(run.text(ending))


def _split(run: BracesEvaluation, value: Any, separator: Any = ",") -> list[str]:
    whole, between = _text(run, value), run.text(separator)
    run.spend(len(whole) if not between else whole.count(between))
    return whole.split(between) if between else list(whole)


def _replace(run: BracesEvaluation, value: Any, old: Any, new: Any = "") -> str:
    whole, before, after = _text(run, value), run.text(old), run.text(new)
    count = whole.count(before) if before else 0
    run.sized(len(whole) + count * (len(after) - len(before)))
    return whole.replace(before, after) if before else whole


def _matches(run: BracesEvaluation, value: Any, pattern: Any) -> bool:
    try:
        return compile_regex(run.text(pattern)).search(_text(run, value)) is not None
    except UnicodeEncodeError:
        return False
    except BadExpression as error:
        raise run.failed(error.what, error.hint) from None


def _number(run: BracesEvaluation, value: Any) -> int | float:
    return lenient_values.js_number(run.weighed(value))


def _boolean(run: BracesEvaluation, value: Any) -> bool:
    return lenient_values.js_truthy(value)


def _json(run: BracesEvaluation, value: Any) -> str:
    made = lenient_values.js_json(run.weighed(value))
    run.sized(len(made))
    return made


def _parse_json(run: BracesEvaluation, value: Any) -> Any:
    try:
        return msgspec.json.decode(_text(run, value))
    except (ValueError, RecursionError):
        return None


def _format_list(run: BracesEvaluation, value: Any, pattern: Any, between: Any = "\n") -> str:
    lines = list[str]()
    for item in items_for_filter(run, value):
        pieces = run.text(pattern).split("{") if isinstance(item, list | dict) else [_text(run, item)]
        line = [pieces[0]]
        for piece in pieces[1:]:
            field, closed, after = piece.partition("}")
            found = item_getter(run, field)(item) if closed else f"{{{piece}"
            line.append(("" if found is Ellipsis else _text(run, found)) + after)
        run.sized(sum(map(len, line)))
        lines.append("".join(line))
    return _join(run, [line for line in lines if line.strip()], between)


FILTERS: dict[str, RegisteredFilter] = {
    "length": RegisteredFilter(_length),
    "size": RegisteredFilter(_length),
    "first": RegisteredFilter(_first),
    "last": RegisteredFilter(_last),
    "map": RegisteredFilter(_map, 1, 1),
    "filter": RegisteredFilter(_filter, 1, 2),
    "filterBy": RegisteredFilter(_filter_by, 2, 2),
    "find": RegisteredFilter(_find, 1, 2),
    "sort": RegisteredFilter(_sort, 0, 2),
    "join": RegisteredFilter(_join, 0, 1),
    "unique": RegisteredFilter(_unique, 0, 1),
    "flatten": RegisteredFilter(_flatten),
    "concat": RegisteredFilter(_concat, 1, 1),
    "reverse": RegisteredFilter(_reverse),
    "slice": RegisteredFilter(_slice, 0, 2),
    "chunk": RegisteredFilter(_chunk, 0, 1),
    "includes": RegisteredFilter(_includes, 1, 1),
    "contains": RegisteredFilter(_includes, 1, 1),
    "hasOverlap": RegisteredFilter(_has_overlap, 1, 1),
    "keys": RegisteredFilter(_keys),
    "values": RegisteredFilter(_values),
    "entries": RegisteredFilter(_entries),
    "default": RegisteredFilter(_default, 1, 1),
    "sum": RegisteredFilter(_sum, 0, 1),
    "min": RegisteredFilter(_min, 0, 1),
    "max": RegisteredFilter(_max, 0, 1),
    "average": RegisteredFilter(_average, 0, 1),
    "round": RegisteredFilter(_round, 0, 1),
    "floor": RegisteredFilter(_floor),
    "ceil": RegisteredFilter(_ceil),
    "abs": RegisteredFilter(_abs),
    "upper": RegisteredFilter(_upper),
    "lower": RegisteredFilter(_lower),
    "toUpperCase": RegisteredFilter(_upper),
    "toLowerCase": RegisteredFilter(_lower),
    "trim": RegisteredFilter(_trim),
    "startsWith": RegisteredFilter(_starts, 1, 1),
    "endsWith": RegisteredFilter(_ends, 1, 1),
    "split": RegisteredFilter(_split, 0, 1),
    "replace": RegisteredFilter(_replace, 1, 2),
    "matches": RegisteredFilter(_matches, 1, 1),
    "string": RegisteredFilter(_text),
    "toString": RegisteredFilter(_text),
    "number": RegisteredFilter(_number),
    "boolean": RegisteredFilter(_boolean),
    "json": RegisteredFilter(_json),
    "parseJSON": RegisteredFilter(_parse_json),
    "formatList": RegisteredFilter(_format_list, 1, 2),
    "daysAgo": RegisteredFilter(days_ago),
    "hoursAgo": RegisteredFilter(hours_ago),
    "minutesAgo": RegisteredFilter(minutes_ago),
    "parseDate": RegisteredFilter(milliseconds_of_value),
    "isoDate": RegisteredFilter(iso_of_value),
    "epochSeconds": RegisteredFilter(seconds_of_value),
    "isBefore": RegisteredFilter(is_before, 1, 1),
    "isAfter": RegisteredFilter(is_after, 1, 1),
}
