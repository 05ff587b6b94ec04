"""The filters of the ``{{ }}`` language: what stands behind ``|``. Each is given the evaluation, the value before the bar and its arguments.

A filter is total: what it can make nothing of gives the empty list, empty text or null. Only what costs too much fails.
"""

import math
from typing import Any, NamedTuple

import msgspec

from perdure.core.errors import BadExpression
from perdure.expr import braces_time as time
from perdure.expr import loose
from perdure.expr.braces_items import chosen, item_value, predicate, rank
from perdure.expr.braces_run import Filter, Run
from perdure.expr.regexes import regex


class Known(NamedTuple):
    """A filter, and how many arguments it takes at least and at most."""

    make: Filter
    least: int = 0
    most: int = 0


def _length(run: Run, value: Any) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0


def _first(run: Run, value: Any) -> Any:
    return value[0] if isinstance(value, list | str) and value else None


def _last(run: Run, value: Any) -> Any:
    return value[-1] if isinstance(value, list | str) and value else None


def _map(run: Run, value: Any, wanted: Any) -> list[Any]:
    find = item_value(run, wanted)
    return [found for item in chosen(run, value) if (found := find(item)) is not Ellipsis]


def _filter(run: Run, value: Any, condition: Any, wanted: Any = ...) -> list[Any]:
    if wanted is not Ellipsis:
        return _filter_by(run, value, condition, wanted)
    holds = predicate(run, condition)
    return [item for item in chosen(run, value) if holds(item)]


def _filter_by(run: Run, value: Any, field: Any, wanted: Any) -> list[Any]:
    find = item_value(run, field)
    return [item for item in chosen(run, value) if loose.same(run.weighed(find(item)), wanted)]


def _find(run: Run, value: Any, condition: Any, wanted: Any = ...) -> Any:
    return next(iter(_filter(run, value, condition, wanted)), None)


def _sort(run: Run, value: Any, field: Any = None, order: Any = "asc") -> list[Any]:
    find = item_value(run, field)
    keyed = [(rank(find(item)), item) for item in chosen(run, value)]
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0], reverse=run.text(order).lower() == "desc")]


def _join(run: Run, value: Any, between: Any = ",") -> str:
    texts = [loose.shown(run.weighed(item)) for item in chosen(run, value)]
    separator = run.text(between)
    run.sized(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _unique(run: Run, value: Any, field: Any = None) -> list[Any]:
    find, seen = item_value(run, field), dict[Any, Any]()
    for item in chosen(run, value):
        found = run.weighed(find(item))
        seen.setdefault(("text", found) if isinstance(found, str) else _sorted_json(found), item)
    return list(seen.values())


def _sorted_json(value: Any) -> bytes | None:
    return None if value is Ellipsis else msgspec.json.encode(loose.finite(value), order="deterministic")


def _flatten(run: Run, value: Any) -> list[Any]:
    flat = list[Any]()
    for item in chosen(run, value):
        run.spend(len(item) if isinstance(item, list) else 1)
        flat.extend(item if isinstance(item, list) else [item])
    return flat


def _concat(run: Run, value: Any, other: Any) -> list[Any]:
    return [*chosen(run, value), *chosen(run, other)]


def _reverse(run: Run, value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else chosen(run, value)[::-1]


def _slice(run: Run, value: Any, start: Any = 0, end: Any = None) -> Any:
    whole = value if isinstance(value, str) else chosen(run, value)
    return whole[_place(start) : None if end is None else _place(end)]


def _place(value: Any) -> int:
    place = 0 if isinstance(value, list | dict) else loose.number(value)
    return int(place) if math.isfinite(place) else 0 if place != place or place < 0 else loose.SAFE_MAX


def _chunk(run: Run, value: Any, size: Any = 1) -> list[Any]:
    items, width = chosen(run, value), max(1, _place(size))
    return [items[start : start + width] for start in range(0, len(items), width)]


def _includes(run: Run, value: Any, wanted: Any) -> bool:
    if isinstance(value, dict):
        return run.text(wanted) in value
    if isinstance(value, list):
        return any(loose.same(run.weighed(item), run.weighed(wanted)) for item in chosen(run, value))
    return isinstance(value, str) and run.text(wanted) in run.weighed(value)


def _has_overlap(run: Run, value: Any, other: Any) -> bool:
    texts = {loose.shown(run.weighed(item)) for item in chosen(run, value)}
    return any(loose.shown(run.weighed(item)) in texts for item in chosen(run, other))


def _keys(run: Run, value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _values(run: Run, value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _entries(run: Run, value: Any) -> list[Any]:
    return [{"key": key, "value": item} for key, item in value.items()] if isinstance(value, dict) else []


def _default(run: Run, value: Any, other: Any) -> Any:
    return other if value is None else value


def _numbers(run: Run, value: Any, field: Any) -> list[int | float]:
    find = item_value(run, field)
    return [loose.number(None if (found := find(item)) is Ellipsis else run.weighed(found)) for item in chosen(run, value)]


def _sum(run: Run, value: Any, field: Any = None) -> int | float:
    total: int | float = 0
    for one in _numbers(run, value, field):
        total = loose.settled(total + one)
    return total


def _min(run: Run, value: Any, field: Any = None) -> int | float | None:
    return min(_numbers(run, value, field), default=None)


def _max(run: Run, value: Any, field: Any = None) -> int | float | None:
    return max(_numbers(run, value, field), default=None)


def _average(run: Run, value: Any, field: Any = None) -> int | float | None:
    numbers = _numbers(run, value, field)
    return loose.settled(_sum(run, numbers) / len(numbers)) if numbers else None


def _round(run: Run, value: Any, digits: Any = 0) -> int | float:
    amount, places = _number(run, value), max(-15, min(15, _place(digits)))
    if not math.isfinite(amount) or abs(amount) >= loose.SAFE_MAX:
        return amount
    return loose.settled(math.floor(amount * 10**places + 0.5) / 10**places)


def _floor(run: Run, value: Any) -> int | float:
    amount = _number(run, value)
    return loose.settled(math.floor(amount)) if math.isfinite(amount) else amount


def _ceil(run: Run, value: Any) -> int | float:
    amount = _number(run, value)
    return loose.settled(math.ceil(amount)) if math.isfinite(amount) else amount


def _abs(run: Run, value: Any) -> int | float:
    return abs(_number(run, value))


def _text(run: Run, value: Any) -> str:
    shown = loose.shown(run.weighed(value))
    run.sized(len(shown))
    return shown


def _upper(run: Run, value: Any) -> str:
    return _text(run, value).upper()


def _lower(run: Run, value: Any) -> str:
    return _text(run, value).lower()


def _trim(run: Run, value: Any) -> str:
    return _text(run, value).strip()


def _starts(run: Run, value: Any, beginning: Any) -> bool:
    return _text(run, value).startswith(run.text(beginning))


def _ends(run: Run, value: Any, ending: Any) -> bool:
    return _text(run, value).endswith(run.text(ending))


def _split(run: Run, value: Any, separator: Any = ",") -> list[str]:
    whole, between = _text(run, value), run.text(separator)
    run.spend(len(whole) if not between else whole.count(between))
    return whole.split(between) if between else list(whole)


def _replace(run: Run, value: Any, old: Any, new: Any = "") -> str:
    whole, before, after = _text(run, value), run.text(old), run.text(new)
    count = whole.count(before) if before else 0
    run.sized(len(whole) + count * (len(after) - len(before)))
    return whole.replace(before, after) if before else whole


def _matches(run: Run, value: Any, pattern: Any) -> bool:
    try:
        return regex(run.text(pattern)).search(_text(run, value)) is not None
    except UnicodeEncodeError:
        return False
    except BadExpression as error:
        raise run.failed(error.what, error.hint) from None


def _number(run: Run, value: Any) -> int | float:
    return loose.number(run.weighed(value))


def _boolean(run: Run, value: Any) -> bool:
    return loose.truthy(value)


def _json(run: Run, value: Any) -> str:
    made = loose.json(run.weighed(value))
    run.sized(len(made))
    return made


def _parse_json(run: Run, value: Any) -> Any:
    try:
        return msgspec.json.decode(_text(run, value))
    except (ValueError, RecursionError):
        return None


def _format_list(run: Run, value: Any, pattern: Any, between: Any = "\n") -> str:
    lines = list[str]()
    for item in chosen(run, value):
        pieces = run.text(pattern).split("{") if isinstance(item, list | dict) else [_text(run, item)]
        line = [pieces[0]]
        for piece in pieces[1:]:
            field, closed, after = piece.partition("}")
            found = item_value(run, field)(item) if closed else f"{{{piece}"
            line.append(("" if found is Ellipsis else _text(run, found)) + after)
        run.sized(sum(map(len, line)))
        lines.append("".join(line))
    return _join(run, [line for line in lines if line.strip()], between)


FILTERS: dict[str, Known] = {
    "length": Known(_length),
    "size": Known(_length),
    "first": Known(_first),
    "last": Known(_last),
    "map": Known(_map, 1, 1),
    "filter": Known(_filter, 1, 2),
    "filterBy": Known(_filter_by, 2, 2),
    "find": Known(_find, 1, 2),
    "sort": Known(_sort, 0, 2),
    "join": Known(_join, 0, 1),
    "unique": Known(_unique, 0, 1),
    "flatten": Known(_flatten),
    "concat": Known(_concat, 1, 1),
    "reverse": Known(_reverse),
    "slice": Known(_slice, 0, 2),
    "chunk": Known(_chunk, 0, 1),
    "includes": Known(_includes, 1, 1),
    "contains": Known(_includes, 1, 1),
    "hasOverlap": Known(_has_overlap, 1, 1),
    "keys": Known(_keys),
    "values": Known(_values),
    "entries": Known(_entries),
    "default": Known(_default, 1, 1),
    "sum": Known(_sum, 0, 1),
    "min": Known(_min, 0, 1),
    "max": Known(_max, 0, 1),
    "average": Known(_average, 0, 1),
    "round": Known(_round, 0, 1),
    "floor": Known(_floor),
    "ceil": Known(_ceil),
    "abs": Known(_abs),
    "upper": Known(_upper),
    "lower": Known(_lower),
    "toUpperCase": Known(_upper),
    "toLowerCase": Known(_lower),
    "trim": Known(_trim),
    "startsWith": Known(_starts, 1, 1),
    "endsWith": Known(_ends, 1, 1),
    "split": Known(_split, 0, 1),
    "replace": Known(_replace, 1, 2),
    "matches": Known(_matches, 1, 1),
    "string": Known(_text),
    "toString": Known(_text),
    "number": Known(_number),
    "boolean": Known(_boolean),
    "json": Known(_json),
    "parseJSON": Known(_parse_json),
    "formatList": Known(_format_list, 1, 2),
    "daysAgo": Known(time.days_ago),
    "hoursAgo": Known(time.hours_ago),
    "minutesAgo": Known(time.minutes_ago),
    "parseDate": Known(time.milliseconds),
    "isoDate": Known(time.iso),
    "epochSeconds": Known(time.seconds),
    "isBefore": Known(time.is_before, 1, 1),
    "isAfter": Known(time.is_after, 1, 1),
}
