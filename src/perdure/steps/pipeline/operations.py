"""Operations: the eleven that there are, by their names, and the ways in which one may be written.

::

    - {table_sort: {field: price, order: asc}}                      one key, which is its name; what stands behind it are its arguments
    - {table_sort: price}                                           a short form, where one argument says it all
    - {step: table_sort, field: price, order: asc}                  name and arguments side by side
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.expr.marks import escaped
from perdure.expr.values import cut, shown
from perdure.programs.format.finding import closest
from perdure.programs.format.shapes import is_template
from perdure.steps.pipeline import conditions, grouping, joining, outside, tables, texts
from perdure.steps.pipeline.bounds import OPERATIONS_MAX
from perdure.steps.pipeline.outside import Wait
from perdure.steps.pipeline.reading import Problem, Reader
from perdure.steps.pipeline.tables import Work


class Operation(NamedTuple):
    """An operation: what reads its arguments, and gives what does it; the argument that stands for all (empty: none may), the defaults of others."""

    reads: Callable[[Reader], Any]
    short: str
    defaults: Mapping[str, Any] = {}
    waits: bool = False


FAILS = {"on_error": "fail"}
OPERATIONS: dict[str, Operation] = {
    "http_request": Operation(outside.http_request, "url", {"method": "GET"}, waits=True),
    "table_sort": Operation(tables.sort, "by", {"order": "asc", "nulls": "last"}),
    "table_filter": Operation(tables.filtered, "condition", FAILS),
    "table_select": Operation(tables.select, "fields"),
    "top_k": Operation(tables.top_k, "k", {"order": "desc"}),
    "groupby": Operation(grouping.groupby, "by", {"aggregates": {"count": "count"}, **FAILS}),
    "join": Operation(joining.join, "", {"how": "inner", "suffix": "_right"}),
    "jq_transform": Operation(outside.jq_transform, "program", {"each": False}, waits=True),
    "regex_extract": Operation(texts.regex_extract, "", {"all": False, "on_no_match": "null", **FAILS}),
    "parse_csv": Operation(texts.parse_csv, "field", {"delimiter": ",", **FAILS}),
    "parse_date": Operation(texts.parse_date, "field", {"timezone": "UTC", "to": "iso", "to_timezone": "UTC", **FAILS}),
}


class Spelled(NamedTuple):
    """An operation as it is written out: its name, its arguments, and the pointer to these."""

    name: str
    arguments: dict[str, Any]
    pointer: str


class Planned(NamedTuple):
    """An operation that can be done: at once, or by waiting."""

    number: int
    name: str
    work: Work | None
    wait: Wait | None


def spelled(one: Any, pointer: str) -> Spelled | Problem:
    """An operation, written in any of the ways, as its name and its arguments; or why it is none."""
    if not isinstance(one, dict) or not one:
        return Problem(pointer, f"an operation is a mapping such as {{table_sort: price}}, not {shown(one)}")
    if "step" in one:
        name, arguments, pointed = one["step"], {key: value for key, value in one.items() if key != "step"}, pointer
    elif len(one) == 1:
        name, given = next(iter(one.items()))
        operation, pointed = OPERATIONS.get(name), f"{pointer}/{escaped(str(name))}"
        is_short = operation is not None and not (isinstance(given, dict) and not _is_condition(name, given) and not _is_fields(name, given))
        if is_short and operation is not None and operation.short == "":
            return Problem(pointed, f"{name} takes a mapping of arguments, not {shown(given)}")
        arguments = {operation.short: given} if is_short and operation is not None else given
    else:
        return Problem(pointer, f"an operation has one name; found {', '.join(cut(repr(key), 30) for key in list(one)[:4])}; or write step: NAME beside them")
    if not isinstance(name, str) or name not in OPERATIONS:
        meant = closest(name, OPERATIONS) if isinstance(name, str) else ""
        hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(OPERATIONS)}"
        return Problem(f"{pointer}/step" if "step" in one else pointer, f"{cut(repr(name))} is no operation; {hint}")
    if name == "table_filter" and "condition" not in arguments:
        said = {key: value for key, value in arguments.items() if key != "on_error"}
        arguments = {"condition": said} | {key: value for key, value in arguments.items() if key == "on_error"}
    return Spelled(name, arguments, pointed)


def _is_condition(name: str, given: Mapping[str, Any]) -> bool:
    """Whether what stands behind a filter is the condition itself."""
    return name == "table_filter" and "condition" not in given and "on_error" not in given


def _is_fields(name: str, given: Mapping[str, Any]) -> bool:
    """Whether what stands behind a selection are the fields themselves, by their new names."""
    return name == "table_select" and "fields" not in given


def plan(ops: Any, is_open: bool = False, pointer: str = "") -> tuple[list[Planned], list[tuple[int, str, Problem]]]:
    """Operations as they can be done, and what is wrong, each with the number and name of its operation. With `is_open`, references are not resolved yet."""
    if not isinstance(ops, list) or not ops or len(ops) > OPERATIONS_MAX:
        return [], [(-1, "", Problem(pointer, f"a pipeline is a list of 1 to {OPERATIONS_MAX} operations, not {shown(ops)}"))]
    planned, problems = list[Planned](), list[tuple[int, str, Problem]]()
    for number, one in enumerate(ops):
        if is_open and is_template(one):
            continue
        found = spelled(one, f"{pointer}/{number}")
        if isinstance(found, Problem):
            problems.append((number, "", found))
            continue
        operation = OPERATIONS[found.name]
        read = Reader(found.arguments, found.pointer, is_open)
        done = operation.reads(read)
        problems += [(number, found.name, problem) for problem in read.problems]
        planned.append(Planned(number, found.name, None if operation.waits else done, done if operation.waits else None))
    return planned, problems


def with_fields(ops: Any) -> Any:
    """Operations as an author writes them, with references to the row (``@self.price``) made paths to fields: what references are left lead elsewhere."""
    if not isinstance(ops, list):
        return ops
    return [_with_fields(one) for one in ops]


def _with_fields(one: Any) -> Any:
    found = spelled(one, "")
    if isinstance(found, Problem) or found.name != "table_filter":
        return one
    return {found.name: {**found.arguments, "condition": conditions.of_rows(found.arguments["condition"])}}


def requests(ops: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The arguments of the requests among operations, as far as they can be read."""
    for one in ops:
        found = spelled(one, "")
        if isinstance(found, Spelled) and found.name == "http_request":
            yield found.arguments
