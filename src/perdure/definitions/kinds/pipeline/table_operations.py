"""The operations on tables: sort, filter, select, group and join. Input rows are never changed.

Groups come in the order of their first rows; null and missing values form a group like others. Sums of integers are exact; with a float among them, a sum is
the float nearest to the exact one, independent of order. All aggregates but `count` of rows, `first`, `last` and `list` ignore nulls. Of nothing, a sum is 0
and other aggregates are null or empty.

Join keys are equal as JSON values are; null and missing values equal nothing. Rows come in the order of the left table and, for each, of the right one;
unmatched right rows follow (with ``right``, all rows come in the order of the right table). The right key fields are left out, as they equal the left ones;
other fields with the same name get a suffix each. Fields of a missing side are null; a table without rows has no known fields.
"""

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr.condition import CompiledCondition
from perdure.definitions.expr.plain_values import short_value_text, shortened, value_kind
from perdure.definitions.expr.secret_marks import escape_pointer_key
from perdure.definitions.format.definition_findings import closest_name
from perdure.definitions.kinds.pipeline import pipeline_rows, row_conditions
from perdure.definitions.kinds.pipeline.operation_arguments import OPEN, ArgumentProblem, ArgumentReader
from perdure.definitions.kinds.pipeline.pipeline_limits import LimitMeter, OperationError, RowError
from perdure.definitions.kinds.pipeline.pipeline_rows import Get, Path, Row, equality_key, sort_keys, table_rows

Rows = Sequence[Row]
Tables = Mapping[str, Rows]
TableOperation = Callable[[Rows, Tables, LimitMeter], Rows]
"""Computes the result of an operation from its rows and the other tables."""

ORDERS, NULLS = ("asc", "desc"), ("last", "first")


class SortField(NamedTuple):
    """One field by which rows are sorted."""

    get: Get
    is_down: bool
    nulls_first: bool


def table_sort(read: ArgumentReader) -> TableOperation:
    """``table_sort``: by one field or several, the first counting most; stable. Nulls come last whatever the order, unless ``nulls: first`` is said."""
    read.known(("field", "by", "order", "nulls"))
    if ("field" in read.given) is ("by" in read.given):
        read.wrong("", "it takes 'field' or 'by', and one of them alone")
    order, nulls = read.choice("order", ORDERS, "asc"), read.choice("nulls", NULLS, "last")
    by = [_by(read, "field", read.given["field"], order, nulls)] if "field" in read.given else []
    by += [_by(read, f"by/{place}", one, order, nulls) for place, one in enumerate(read.items("by", None))]

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        places: list[int] = list(range(len(rows)))
        for one in reversed(by):
            pace.look()
            places = sorted_places(rows, places, one, pace)
        return [rows[place] for place in places]

    return work


def _by(read: ArgumentReader, at: str, value: Any, order: Any, nulls: Any) -> SortField:
    if isinstance(value, dict):
        inner = ArgumentReader(value, f"{read.pointer}/{at}", read.is_open)
        inner.known(("field", "order", "nulls"))
        path, order, nulls = inner.path("field"), inner.choice("order", ORDERS, order), inner.choice("nulls", NULLS, nulls)
        read.problems += inner.problems
        return SortField(pipeline_rows.path_getter(path), order == "desc", nulls == "first")
    down = isinstance(value, str) and value.startswith("-") and len(value) > 1 and not read.open(value)
    return SortField(pipeline_rows.path_getter(read.path_of(value[1:] if down else value, at)), (order == "desc") is not down, nulls == "first")


def sorted_places(rows: Rows, places: Sequence[int], by: SortField, pace: LimitMeter, most: int | None = None) -> list[int]:
    """Places of rows in order, equal ones as they were; with `most`, that many of them."""
    get = by.get
    found = [get(rows[place]) for place in pace.each(places)]
    present = [at for at, value in enumerate(found) if value is not None]
    values = sort_keys([found[at] for at in present])
    numbers = range(len(present))
    if most is not None and most * 8 < len(present):
        cut = heapq.nlargest if by.is_down else heapq.nsmallest
        in_order = cut(most, numbers, key=values.__getitem__)  # as documented, the same as sorting and cutting: equal ones stay as they were
    else:
        in_order = sorted(numbers, key=values.__getitem__, reverse=by.is_down)
    others = [places[at] for at, value in enumerate(found) if value is None]
    sorted_ones = [places[present[at]] for at in in_order]
    return ([*others, *sorted_ones] if by.nulls_first else [*sorted_ones, *others])[:most]


def top_k(read: ArgumentReader) -> TableOperation:
    """``top_k``: the first k rows; by a field, those where it is greatest (``order: asc``: least), in that order, rows without it last."""
    read.known(("k", "field", "order"))
    k, path, order = read.whole("k"), read.path("field", None), read.choice("order", ORDERS, "desc")
    if "order" in read.given and "field" not in read.given:
        read.wrong("order", "'order' stands only beside 'field'; without one, the first rows are taken as they stand")
    by = SortField(pipeline_rows.path_getter(path), order == "desc", False) if read.given.get("field") is not None else None

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        if by is None:
            return rows[:k]
        return [rows[place] for place in sorted_places(rows, range(len(rows)), by, pace, k)]

    return work


def table_filter(read: ArgumentReader) -> TableOperation:
    """``table_filter``: the rows for which a condition holds; see `conditions`."""
    read.known(("condition", "on_error"))
    condition = read.given.get("condition")
    on_error = read.choice("on_error", ("fail", "skip"), "fail")
    judge: CompiledCondition | None = None
    try:
        judge = OPEN if read.open(condition) else row_conditions.compile_condition(condition, read.is_open)
    except BadExpression as bad:
        read.problems.append(ArgumentProblem(f"{read.pointer}/condition{bad.where}", f"{bad.what}; {bad.hint}"))

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        assert judge is not None
        holds, scope, kept = judge.evaluate, row_conditions.RowScope(), list[Row]()
        for number, row in enumerate(pace.each(rows)):
            scope.row = row
            try:
                if holds(scope):
                    kept.append(row)
            except ExpressionFailed as failed:
                if on_error == "fail":
                    raise OperationError(f"row {number}: {failed.what}; {failed.hint}, or write on_error: skip") from None
        return kept

    return work


def table_select(read: ArgumentReader) -> TableOperation:
    """``table_select``: some fields of each row, in the order given, under new names if wanted. What is missing or null becomes the field's default, or
    null."""
    read.known(("fields",))
    columns = [(pipeline_rows.path_getter(one.path), one.name, one.default) for one in read.columns("fields")]

    def chosen(row: Row) -> Row:
        return {name: default if (value := get(row)) is None else value for get, name, default in columns}

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        return [chosen(row) for row in pace.each(rows)]

    return work


def map_rows(rows: Rows, pace: LimitMeter, on_error: str, change: Callable[[Row], Row], nothing: Row) -> Rows:
    """The rows as `change` maps them. `on_error` decides about a row that it can't map: fail, use the row with `nothing`, or skip it."""
    made = list[Row]()
    for number, row in enumerate(pace.each(rows)):
        try:
            made.append({**row, **change(row)})
        except RowError as wrong:
            if on_error == "fail":
                raise OperationError(f"row {number}: {wrong}; correct it, or write on_error: null or skip") from None
            if on_error == "null":
                made.append({**row, **nothing})
    return made


Numbered = tuple[int, Row]
Values = Sequence[Any]
LIMB_BITS = 53
"""Of an integer, so many bits are a float exactly."""


class Aggregate(NamedTuple):
    """An aggregate of a group: `of` the values at `get` (None: of the rows), with a name."""

    name: str
    of: str
    get: Get | None


def groupby(read: ArgumentReader) -> TableOperation:
    """``groupby``: `by` one field or several (none: all rows are one group), and `aggregates` by the names of their results."""
    read.known(("by", "aggregates", "on_error"))
    by = [] if read.given.get("by") == [] else read.columns("by", None)
    on_error = read.choice("on_error", ("fail", "null", "skip"), "fail")
    wanted = read.take("aggregates", "a mapping such as {total: {sum: price}, rows: count}", lambda one: isinstance(one, dict), {"count": "count"})
    aggregates = [] if wanted is OPEN else [_aggregate(read, name, one) for name, one in wanted.items()]
    for name in sorted({one.name for one in by} & {one.name for one in aggregates}):
        read.wrong("aggregates", f"{shortened(name)!r} is the name of a field that rows are grouped by; name the result otherwise")
    names, keys = [one.name for one in by], [pipeline_rows.path_getter(one.path) for one in by]
    strict = [(one.name, one.get) for one in aggregates if one.of in ("sum", "avg") and one.get is not None]

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        groups = _grouped(_numeric(rows, strict, on_error, pace) if strict else rows, keys, pace)
        made = list[Row]()
        for values, members in pace.each(groups):
            made.append({**dict(zip(names, values, strict=True)), **{one.name: _made(one, members) for one in aggregates}})
        return made

    return work


def _aggregate(read: ArgumentReader, name: str, given: Any) -> Aggregate:
    at = f"aggregates/{escape_pointer_key(name)}"
    if read.open(given):
        return Aggregate(name, "count", None)
    if given == "count":
        return Aggregate(name, "count", None)
    if not isinstance(given, dict) or len(given) != 1:
        read.wrong(at, f"it is count, or one of {', '.join(AGGREGATES)} with a field, such as {{sum: price}}, not {short_value_text(given)}")
        return Aggregate(name, "count", None)
    of, field = next(iter(given.items()))
    if of not in AGGREGATES:
        meant = closest_name(of, AGGREGATES)
        read.wrong(at, f"{shortened(repr(of))} is none of {', '.join(AGGREGATES)}{f'; did you mean {meant!r}?' if meant else ''}")
        return Aggregate(name, "count", None)
    return Aggregate(name, of, pipeline_rows.path_getter(read.path_of(field, f"{at}/{of}")))


def _numeric(rows: Rows, strict: Sequence[tuple[str, Get]], on_error: str, pace: LimitMeter) -> Rows:
    """The values that can be summed. With ``on_error: null``, a value that is not a number counts as null."""
    if on_error == "null":
        return rows
    kept = list[Row]()
    for number, row in enumerate(pace.each(rows)):
        for name, get in strict:
            value = get(row)
            if value is not None and type(value) is not int and type(value) is not float:
                if on_error == "fail":
                    what = f"row {number}: {name!r} is made of numbers, and here it finds {short_value_text(value)}, which is {value_kind(value)}"
                    raise OperationError(f"{what}; correct it, or write on_error: null or skip")
                break
        else:
            kept.append(row)
    return kept


def _grouped(rows: Rows, keys: Sequence[Get], pace: LimitMeter) -> list[tuple[list[Any], list[Row]]]:
    if not keys:
        return [([], list(rows))]
    groups: dict[Any, tuple[list[Any], list[Row]]] = {}
    most, single = pace.bounds.groups, keys[0]
    for row in pace.each(rows):
        values = [single(row)] if len(keys) == 1 else [get(row) for get in keys]
        key = equality_key(values[0]) if len(keys) == 1 else tuple(map(equality_key, values))
        group = groups.get(key)
        if group is None:
            if len(groups) >= most:
                raise OperationError(f"there are more than {most:,} groups; group by something coarser, or raise limits.groups")
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
    except RowError as wrong:
        raise OperationError(f"{one.name!r}: {wrong}") from None


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
            raise RowError("the sum has more than 64 bits; sum fewer rows, or floats")
        return whole
    return _nearest(floats, whole)


def _nearest(floats: Sequence[float], whole: int) -> float:
    """The float that is nearest to the sum of floats and an integer."""
    try:
        found = math.fsum([*floats, *_limbs(whole)])
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise RowError("the sum is more than a float can be; sum fewer rows")
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
    keys = sort_keys(values)
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
    "count_distinct": lambda values: len(set(map(equality_key, values))),
}
"""The aggregates of the values of a field in a group."""

OF_ALL = frozenset(("first", "last", "list"))
"""Those to which null is a value."""


HOWS = ("inner", "left", "right", "full", "anti")
SUFFIXES = ("", "_right")


class JoinKey(NamedTuple):
    """A pair of fields whose values have to be equal."""

    left: Path
    right: Path


class JoinFields(NamedTuple):
    """The fields of both sides, with their names in the tables and in the result."""

    left: Mapping[str, str]
    right: Mapping[str, str]


def table_join(read: ArgumentReader) -> TableOperation:
    """``join``: ``with`` another table (its name, or its rows), ``on`` a field, several, or ``{left: right}``; ``how`` is inner, left, right, full or anti."""
    read.known(("with", "on", "how", "suffix", "suffixes"))
    other = read.take("with", "the name of a table of the input, or rows", lambda one: isinstance(one, str | list) and one != "")
    on, how = _on(read), read.choice("how", HOWS, "inner")
    suffixes = _suffixes(read)

    def work(rows: Rows, tables: Tables, pace: LimitMeter) -> Rows:
        right = _other(other, tables, pace)
        index = _index(right, [one.right for one in on], pace)
        gets = [pipeline_rows.path_getter(one.left) for one in on]
        places = [index.get(key, ()) if (key := _key([get(row) for get in gets])) is not None else () for row in pace.each(rows)]
        if how == "anti":
            return [row for row, found in zip(rows, places, strict=True) if not found]
        return _joined((rows, right), places, on, how, suffixes, pace)

    return work


def _on(read: ArgumentReader) -> list[JoinKey]:
    given = read.take("on", "a field, a list of fields, or {left field: right field}", lambda one: one not in ([], {}) and isinstance(one, str | list | dict))
    if given is OPEN:
        return []
    if isinstance(given, dict):
        return [JoinKey(read.path_of(left, "on"), read.path_of(right, f"on/{left}")) for left, right in given.items()]
    pairs = [read.path_of(one, "on") for one in (given if isinstance(given, list) else [given])]
    return [JoinKey(path, path) for path in pairs]


def _suffixes(read: ArgumentReader) -> tuple[str, str]:
    if "suffix" in read.given and "suffixes" in read.given:
        read.wrong("suffix", "it has 'suffix' and 'suffixes'; say the right one's alone, or both")
    given = read.take("suffixes", "a list of two different texts", _are_two, list(SUFFIXES))
    right = read.text("suffix", "text that is put behind the right table's fields", SUFFIXES[1])
    if given is OPEN or right is OPEN:
        return SUFFIXES
    return ("", right) if "suffix" in read.given else (given[0], given[1])


def _are_two(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value) and value[0] != value[1]


def _other(other: Any, tables: Tables, pace: LimitMeter) -> Rows:
    if not isinstance(other, str):
        return pace.checked(table_rows(other, "the rows of 'with'"))
    if other not in tables:
        meant = closest_name(other, tables)
        here = f"did you mean {meant!r}?" if meant else f"there are {', '.join(tables)}" if tables else "give it beside rows: with: {rows: …, NAME: …}"
        raise OperationError(f"there is no table {shortened(other)!r} in the input; {here}")
    return tables[other]


def _key(values: Sequence[Any]) -> Any:
    """A hashable key for the key values; None if one of them is null."""
    if None in values:
        return None
    return equality_key(values[0]) if len(values) == 1 else tuple(map(equality_key, values))


def _index(rows: Rows, key: Sequence[Path], pace: LimitMeter) -> dict[Any, list[int]]:
    """The places of rows by their keys."""
    found: dict[Any, list[int]] = {}
    gets = [pipeline_rows.path_getter(path) for path in key]
    for place, row in enumerate(pace.each(rows)):
        if (one := _key([get(row) for get in gets])) is not None:
            found.setdefault(one, []).append(place)
    return found


def _joined(sides: tuple[Rows, Rows], places: Sequence[Sequence[int]], on: Sequence[JoinKey], how: str, suffixes: tuple[str, str], pace: LimitMeter) -> Rows:
    rows, right = sides
    matched = {place for found in places for place in found} if how in ("right", "full") else set[int]()
    lonely = [place for place in range(len(right)) if place not in matched] if how in ("right", "full") else []
    pairs = sum(map(len, places)) + len(lonely)
    pace.count(pairs + (sum(not found for found in places) if how in ("left", "full") else 0), "rows of the join")
    names = _names(rows, right, on, suffixes, pace)
    lefts = [_called(row, names.left) for row in pace.each(rows)]
    rights = [_called(row, names.right) for row in pace.each(right)]
    no_left, no_right = dict.fromkeys(names.left.values()), dict.fromkeys(names.right.values())
    if how == "right":
        owners: dict[int, list[int]] = {}
        for at, found in enumerate(places):
            for place in found:
                owners.setdefault(place, []).append(at)
        return [row for place in pace.each(range(len(right))) for row in _of_right(place, owners.get(place), (lefts, rights), (right, on, names), no_left)]
    made = list[Row]()
    for at, found in enumerate(pace.each(places)):
        made += [{**lefts[at], **rights[place]} for place in found]
        if not found and how in ("left", "full"):
            made.append({**lefts[at], **no_right})
    return made + [row for place in lonely for row in _of_right(place, None, (lefts, rights), (right, on, names), no_left)]


def _of_right(
    place: int, owners: Sequence[int] | None, called: tuple[list[Row], list[Row]], about: tuple[Rows, Sequence[JoinKey], JoinFields], no_left: Row
) -> list[Row]:
    """The joined rows of one right row: one for each left row that matches, or one alone."""
    lefts, rights = called
    if owners:
        return [{**lefts[at], **rights[place]} for at in owners]
    right, on, names = about
    row = dict(no_left)
    for one in on:
        first = str(one.left[0])
        pipeline_rows.put_at_path(row, (names.left.get(first, first), *one.left[1:]), pipeline_rows.path_getter(one.right)(right[place]))
    return [{**row, **rights[place]}]


def _names(rows: Rows, right: Rows, on: Sequence[JoinKey], suffixes: tuple[str, str], pace: LimitMeter) -> JoinFields:
    keys = {one.right[0] for one in on if len(one.right) == 1}
    of_left = dict.fromkeys(name for row in pace.each(rows) for name in row)
    of_left.update(dict.fromkeys(str(one.left[0]) for one in on))
    of_right = dict.fromkeys(name for row in pace.each(right) for name in row if name not in keys)
    both = of_left.keys() & of_right.keys()
    names = JoinFields(
        {name: name + suffixes[0] if name in both else name for name in of_left}, {name: name + suffixes[1] if name in both else name for name in of_right}
    )
    seen = set[str]()
    for called in (*names.left.values(), *names.right.values()):
        if called in seen:
            raise OperationError(f"two fields would be named {shortened(called)!r}; choose other suffixes, or select and rename before")
        seen.add(called)
    return names


def _called(row: Row, names: Mapping[str, str]) -> Row:
    return {called: row[name] for name in row if (called := names.get(name)) is not None}
