"""Tables: the operations that sort, choose and cut rows. Rows that come in are never changed."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.expr.condition import Condition
from perdure.steps.pipeline import conditions, paths
from perdure.steps.pipeline.bounds import Pace
from perdure.steps.pipeline.failed import RowWrong, Wrong
from perdure.steps.pipeline.ordering import orderable
from perdure.steps.pipeline.paths import Get, Row
from perdure.steps.pipeline.reading import OPEN, Problem, Reader

Rows = Sequence[Row]
Tables = Mapping[str, Rows]
Work = Callable[[Rows, Tables, Pace], Rows]
"""What an operation makes of rows, with the other tables at hand."""

ORDERS, NULLS = ("asc", "desc"), ("last", "first")


class By(NamedTuple):
    """One field by which rows are sorted."""

    get: Get
    is_down: bool
    nulls_first: bool


def sort(read: Reader) -> Work:
    """``table_sort``: by one field or several, the first counting most; stable. Nulls come last whatever the order, unless ``nulls: first`` is said."""
    read.known(("field", "by", "order", "nulls"))
    if ("field" in read.given) is ("by" in read.given):
        read.wrong("", "it takes 'field' or 'by', and one of them alone")
    order, nulls = read.choice("order", ORDERS, "asc"), read.choice("nulls", NULLS, "last")
    by = [_by(read, "field", read.given["field"], order, nulls)] if "field" in read.given else []
    by += [_by(read, f"by/{place}", one, order, nulls) for place, one in enumerate(read.items("by", None))]

    def work(rows: Rows, tables: Tables, pace: Pace) -> Rows:
        places: list[int] = list(range(len(rows)))
        for one in reversed(by):
            pace.look()
            places = sorted_places(rows, places, one, pace)
        return [rows[place] for place in places]

    return work


def _by(read: Reader, at: str, value: Any, order: Any, nulls: Any) -> By:
    if isinstance(value, dict):
        inner = Reader(value, f"{read.pointer}/{at}", read.is_open)
        inner.known(("field", "order", "nulls"))
        path, order, nulls = inner.path("field"), inner.choice("order", ORDERS, order), inner.choice("nulls", NULLS, nulls)
        read.problems += inner.problems
        return By(paths.getter(path), order == "desc", nulls == "first")
    down = isinstance(value, str) and value.startswith("-") and len(value) > 1 and not read.open(value)
    return By(paths.getter(read.path_of(value[1:] if down else value, at)), (order == "desc") is not down, nulls == "first")


def sorted_places(rows: Rows, places: Sequence[int], by: By, pace: Pace, most: int | None = None) -> list[int]:
    """Places of rows in order, equal ones as they were; with `most`, that many of them."""
    get = by.get
    found = [get(rows[place]) for place in pace.each(places)]
    present = [at for at, value in enumerate(found) if value is not None]
    values = orderable([found[at] for at in present])
    numbers = range(len(present))
    if most is not None and most * 8 < len(present):
        cut = heapq.nlargest if by.is_down else heapq.nsmallest
        in_order = cut(most, numbers, key=values.__getitem__)  # as documented, the same as sorting and cutting: equal ones stay as they were
    else:
        in_order = sorted(numbers, key=values.__getitem__, reverse=by.is_down)
    others = [places[at] for at, value in enumerate(found) if value is None]
    sorted_ones = [places[present[at]] for at in in_order]
    return ([*others, *sorted_ones] if by.nulls_first else [*sorted_ones, *others])[:most]


def top_k(read: Reader) -> Work:
    """``top_k``: the first k rows; by a field, those where it is greatest (``order: asc``: least), in that order, rows without it last."""
    read.known(("k", "field", "order"))
    k, path, order = read.whole("k"), read.path("field", None), read.choice("order", ORDERS, "desc")
    if "order" in read.given and "field" not in read.given:
        read.wrong("order", "'order' stands only beside 'field'; without one, the first rows are taken as they stand")
    by = By(paths.getter(path), order == "desc", False) if read.given.get("field") is not None else None

    def work(rows: Rows, tables: Tables, pace: Pace) -> Rows:
        if by is None:
            return rows[:k]
        return [rows[place] for place in sorted_places(rows, range(len(rows)), by, pace, k)]

    return work


def filtered(read: Reader) -> Work:
    """``table_filter``: the rows for which a condition holds; see `conditions`."""
    read.known(("condition", "on_error"))
    condition = read.given.get("condition")
    on_error = read.choice("on_error", ("fail", "skip"), "fail")
    judge: Condition | None = None
    try:
        judge = OPEN if read.open(condition) else conditions.compiled(condition, read.is_open)
    except BadExpression as bad:
        read.problems.append(Problem(f"{read.pointer}/condition{bad.where}", f"{bad.what}; {bad.hint}"))

    def work(rows: Rows, tables: Tables, pace: Pace) -> Rows:
        assert judge is not None
        holds, scope, kept = judge.evaluate, conditions.OfRow(), list[Row]()
        for number, row in enumerate(pace.each(rows)):
            scope.row = row
            try:
                if holds(scope):
                    kept.append(row)
            except ExpressionFailed as failed:
                if on_error == "fail":
                    raise Wrong(f"row {number}: {failed.what}; {failed.hint}, or say on_error: skip") from None
        return kept

    return work


def select(read: Reader) -> Work:
    """``table_select``: some fields of each row, in the order given, under new names if wanted. What is missing or null becomes the field's default, or
    null."""
    read.known(("fields",))
    columns = [(paths.getter(one.path), one.name, one.default) for one in read.columns("fields")]

    def chosen(row: Row) -> Row:
        return {name: default if (value := get(row)) is None else value for get, name, default in columns}

    def work(rows: Rows, tables: Tables, pace: Pace) -> Rows:
        return [chosen(row) for row in pace.each(rows)]

    return work


def rowwise(rows: Rows, pace: Pace, on_error: str, change: Callable[[Row], Row], nothing: Row) -> Rows:
    """Each row as `change` makes it, or what `on_error` says of one that it can't: it fails all, becomes the row with `nothing`, or is skipped."""
    made = list[Row]()
    for number, row in enumerate(pace.each(rows)):
        try:
            made.append({**row, **change(row)})
        except RowWrong as wrong:
            if on_error == "fail":
                raise Wrong(f"row {number}: {wrong}; mend it, or say on_error: null or skip") from None
            if on_error == "null":
                made.append({**row, **nothing})
    return made
