"""Grouping: rows with equal values in some fields become one, with what is made of the others.

Groups come in the order in which each was first seen; null is a value like any other, and so is what is missing. Sums of integers are exact; as soon as there
is a float among them, a sum is the float nearest to the true one, in whatever order the rows come. Nulls are left out by all but `count` of rows, `first`,
`last` and `list`. Of nothing, a sum is 0 and everything else null or empty.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from perdure.expr.marks import escaped
from perdure.expr.values import cut, kind, shown
from perdure.programs.format.finding import closest
from perdure.steps.pipeline import paths
from perdure.steps.pipeline.bounds import Pace
from perdure.steps.pipeline.failed import RowWrong, Wrong
from perdure.steps.pipeline.ordering import orderable, same
from perdure.steps.pipeline.paths import Get, Row
from perdure.steps.pipeline.reading import OPEN, Reader
from perdure.steps.pipeline.tables import Rows, Tables, Work

Numbered = tuple[int, Row]
Values = Sequence[Any]
LIMB_BITS = 53
"""Of an integer, so many bits are a float exactly."""


class Aggregate(NamedTuple):
    """What is made of a group: `of` the values at `get` (None: of the rows), under a name."""

    name: str
    of: str
    get: Get | None


def groupby(read: Reader) -> Work:
    """``groupby``: `by` one field or several (none: all rows are one group), and `aggregates` by the names of their results."""
    read.known(("by", "aggregates", "on_error"))
    by = [] if read.given.get("by") == [] else read.columns("by", None)
    on_error = read.choice("on_error", ("fail", "null", "skip"), "fail")
    wanted = read.take("aggregates", "a mapping such as {total: {sum: price}, rows: count}", lambda one: isinstance(one, dict), {"count": "count"})
    aggregates = [] if wanted is OPEN else [_aggregate(read, name, one) for name, one in wanted.items()]
    for name in sorted({one.name for one in by} & {one.name for one in aggregates}):
        read.wrong("aggregates", f"{cut(name)!r} is the name of a field that rows are grouped by; name the result otherwise")
    names, keys = [one.name for one in by], [paths.getter(one.path) for one in by]
    strict = [(one.name, one.get) for one in aggregates if one.of in ("sum", "avg") and one.get is not None]

    def work(rows: Rows, tables: Tables, pace: Pace) -> Rows:
        groups = _grouped(_numeric(rows, strict, on_error, pace) if strict else rows, keys, pace)
        made = list[Row]()
        for values, members in pace.each(groups):
            made.append({**dict(zip(names, values, strict=True)), **{one.name: _made(one, members) for one in aggregates}})
        return made

    return work


def _aggregate(read: Reader, name: str, given: Any) -> Aggregate:
    at = f"aggregates/{escaped(name)}"
    if read.open(given):
        return Aggregate(name, "count", None)
    if given == "count":
        return Aggregate(name, "count", None)
    if not isinstance(given, dict) or len(given) != 1:
        read.wrong(at, f"it is count, or one of {', '.join(AGGREGATES)} with a field, such as {{sum: price}}, not {shown(given)}")
        return Aggregate(name, "count", None)
    of, field = next(iter(given.items()))
    if of not in AGGREGATES:
        meant = closest(of, AGGREGATES)
        read.wrong(at, f"{cut(repr(of))} is none of {', '.join(AGGREGATES)}{f'; did you mean {meant!r}?' if meant else ''}")
        return Aggregate(name, "count", None)
    return Aggregate(name, of, paths.getter(read.path_of(field, f"{at}/{of}")))


def _numeric(rows: Rows, strict: Sequence[tuple[str, Get]], on_error: str, pace: Pace) -> Rows:
    """The rows that the sums can be made of; with ``on_error: null``, what is no number counts as null."""
    if on_error == "null":
        return rows
    kept = list[Row]()
    for number, row in enumerate(pace.each(rows)):
        for name, get in strict:
            value = get(row)
            if value is not None and type(value) is not int and type(value) is not float:
                if on_error == "fail":
                    what = f"row {number}: {name!r} is made of numbers, and here it finds {shown(value)}, which is {kind(value)}"
                    raise Wrong(f"{what}; mend it, or say on_error: null or skip")
                break
        else:
            kept.append(row)
    return kept


def _grouped(rows: Rows, keys: Sequence[Get], pace: Pace) -> list[tuple[list[Any], list[Row]]]:
    if not keys:
        return [([], list(rows))]
    groups: dict[Any, tuple[list[Any], list[Row]]] = {}
    most, single = pace.bounds.groups, keys[0]
    for row in pace.each(rows):
        values = [single(row)] if len(keys) == 1 else [get(row) for get in keys]
        key = same(values[0]) if len(keys) == 1 else tuple(map(same, values))
        group = groups.get(key)
        if group is None:
            if len(groups) >= most:
                raise Wrong(f"there are more than {most:,} groups; group by something coarser, or raise limits.groups")
            groups[key] = values, [row]
        else:
            group[1].append(row)
    return list(groups.values())


def _made(one: Aggregate, rows: list[Row]) -> Any:
    if one.get is None:
        return len(rows)
    values = list(map(one.get, rows))
    try:
        return AGGREGATES[one.of](values if one.of in OF_ALL else [value for value in values if value is not None])
    except RowWrong as wrong:
        raise Wrong(f"{one.name!r}: {wrong}") from None


def _numbers(values: Values) -> list[int | float]:
    return [value for value in values if type(value) is int or type(value) is float]


def total(values: Values) -> int | float:
    """The sum of the numbers among values: exact of integers, else the nearest float.

    Raises:
        RowWrong: it is more than a number may be.
    """
    numbers = _numbers(values)
    whole = sum(one for one in numbers if type(one) is int)
    floats = [one for one in numbers if type(one) is float]
    if not floats:
        if not -(2**63) <= whole < 2**64:
            raise RowWrong("the sum has more than 64 bits; sum fewer rows, or floats")
        return whole
    return _nearest(floats, whole)


def _nearest(floats: Sequence[float], whole: int) -> float:
    """The float that is nearest to the sum of floats and an integer."""
    try:
        found = math.fsum([*floats, *_limbs(whole)])
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise RowWrong("the sum is more than a float can be; sum fewer rows")
    return found


def _limbs(whole: int) -> list[float]:
    sign, left, shift, found = (-1 if whole < 0 else 1), abs(whole), 0, list[float]()
    while left:
        found.append(float(sign * ((left & ((1 << LIMB_BITS) - 1)) << shift)))
        left >>= LIMB_BITS
        shift += LIMB_BITS
    return found


def average(values: Values) -> float | None:
    """The mean of the numbers among values, a float: of integers the nearest to the true one, else the sum's divided by their count."""
    numbers = _numbers(values)
    if not numbers:
        return None
    whole = sum(one for one in numbers if type(one) is int)
    floats = [one for one in numbers if type(one) is float]
    return (_nearest(floats, whole) if floats else whole) / len(numbers)


def _extreme(values: Values, choose: Callable[..., int]) -> Any:
    keys = orderable(values)
    return values[choose(range(len(values)), key=keys.__getitem__)] if values else None


AGGREGATES: dict[str, Callable[[Values], Any]] = {
    "count": len,
    "sum": total,
    "avg": average,
    "min": lambda values: _extreme(values, min),
    "max": lambda values: _extreme(values, max),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "list": list,
    "count_distinct": lambda values: len(set(map(same, values))),
}
"""What can be made of the values of a field in a group."""

OF_ALL = frozenset(("first", "last", "list"))
"""Those to which null is a value."""
