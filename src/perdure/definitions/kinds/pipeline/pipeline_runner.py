"""Operations: the eleven that there are, by their names, and the ways in which one may be written.

::

    - {table_sort: {field: price, order: asc}}                      one key, which is its name; what stands behind it are its arguments
    - {table_sort: price}                                           a short form, where one argument says it all
    - {step: table_sort, field: price, order: asc}                  name and arguments side by side

Running: one operation after the other. Long computations run in a thread, so that the event loop stays free.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from perdure.core.error_codes import error_code
from perdure.core.errors import Fatal, MissingExtra, ProgrammingError, RetryAfter
from perdure.definitions.expr.plain_values import short_value_text, shortened
from perdure.definitions.expr.secret_marks import escape_pointer_key
from perdure.definitions.format.definition_findings import closest_name
from perdure.definitions.format.shapes import is_template
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import NOTHING_MORE, Deployment
from perdure.definitions.kinds.pipeline import external_operations, row_conditions, table_operations, text_operations
from perdure.definitions.kinds.pipeline.external_operations import ExternalOperation, OperationContext
from perdure.definitions.kinds.pipeline.operation_arguments import ArgumentProblem, ArgumentReader
from perdure.definitions.kinds.pipeline.pipeline_limits import (
    DEFAULT_LIMITS,
    OPERATIONS_MAX,
    LimitMeter,
    OperationError,
    OperationFailed,
    PipelineFailed,
    PipelineLimits,
)
from perdure.definitions.kinds.pipeline.pipeline_rows import Row, packed_rows, table_rows
from perdure.definitions.kinds.pipeline.table_operations import Rows, TableOperation


class OperationType(NamedTuple):
    """A type of operation: the reader of its arguments, which returns the function that performs it; the argument that a short form stands for (empty: there
    is no short form); and defaults.
    """

    reads: Callable[[ArgumentReader], Any]
    short: str
    defaults: Mapping[str, Any] = {}
    waits: bool = False


FAILS = {"on_error": "fail"}
OPERATIONS: dict[str, OperationType] = {
    "http_request": OperationType(external_operations.http_request, "url", {"method": "GET"}, waits=True),
    "table_sort": OperationType(table_operations.table_sort, "by", {"order": "asc", "nulls": "last"}),
    "table_filter": OperationType(table_operations.table_filter, "condition", FAILS),
    "table_select": OperationType(table_operations.table_select, "fields"),
    "top_k": OperationType(table_operations.top_k, "k", {"order": "desc"}),
    "groupby": OperationType(table_operations.groupby, "by", {"aggregates": {"count": "count"}, **FAILS}),
    "join": OperationType(table_operations.table_join, "", {"how": "inner", "suffix": "_right"}),
    "jq_transform": OperationType(external_operations.jq_transform, "program", {"each": False}, waits=True),
    "regex_extract": OperationType(text_operations.regex_extract, "", {"all": False, "on_no_match": "null", **FAILS}),
    "parse_csv": OperationType(text_operations.parse_csv, "field", {"delimiter": ",", **FAILS}),
    "parse_date": OperationType(text_operations.parse_date, "field", {"timezone": "UTC", "to": "iso", "to_timezone": "UTC", **FAILS}),
}


class OperationCall(NamedTuple):
    """An operation as it is written out: its name, its arguments, and the pointer to these."""

    name: str
    arguments: dict[str, Any]
    pointer: str


class PlannedOperation(NamedTuple):
    """An operation that can be done: at once, or by waiting."""

    number: int
    name: str
    work: TableOperation | None
    wait: ExternalOperation | None


def parse_operation(one: Any, pointer: str) -> OperationCall | ArgumentProblem:
    """An operation, written in any of the ways, as its name and its arguments; or why it is none."""
    if not isinstance(one, dict) or not one:
        return ArgumentProblem(pointer, f"an operation is a mapping such as {{table_sort: price}}, not {short_value_text(one)}")
    if "step" in one:
        name, arguments, pointed = one["step"], {key: value for key, value in one.items() if key != "step"}, pointer
    elif len(one) == 1:
        name, given = next(iter(one.items()))
        operation, pointed = OPERATIONS.get(name), f"{pointer}/{escape_pointer_key(str(name))}"
        is_short = operation is not None and not (isinstance(given, dict) and not _is_condition(name, given) and not _is_fields(name, given))
        if is_short and operation is not None and operation.short == "":
            return ArgumentProblem(pointed, f"{name} takes a mapping of arguments, not {short_value_text(given)}")
        arguments = {operation.short: given} if is_short and operation is not None else given
    else:
        return ArgumentProblem(
            pointer, f"an operation has one name; found {', '.join(shortened(repr(key), 30) for key in list(one)[:4])}; or write step: NAME beside them"
        )
    if not isinstance(name, str) or name not in OPERATIONS:
        meant = closest_name(name, OPERATIONS) if isinstance(name, str) else ""
        hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(OPERATIONS)}"
        return ArgumentProblem(f"{pointer}/step" if "step" in one else pointer, f"{shortened(repr(name))} is not an operation; {hint}")
    if name == "table_filter" and "condition" not in arguments:
        said = {key: value for key, value in arguments.items() if key != "on_error"}
        arguments = {"condition": said} | {key: value for key, value in arguments.items() if key == "on_error"}
    return OperationCall(name, arguments, pointed)


def _is_condition(name: str, given: Mapping[str, Any]) -> bool:
    """Whether the value of a filter is the condition itself."""
    return name == "table_filter" and "condition" not in given and "on_error" not in given


def _is_fields(name: str, given: Mapping[str, Any]) -> bool:
    """Whether the value of a selection is the fields themselves, by their new names."""
    return name == "table_select" and "fields" not in given


def plan_operations(ops: Any, is_open: bool = False, pointer: str = "") -> tuple[list[PlannedOperation], list[tuple[int, str, ArgumentProblem]]]:
    """The operations as planned, and the problems with their numbers and names. With `is_open`, references are not resolved yet."""
    if not isinstance(ops, list) or not ops or len(ops) > OPERATIONS_MAX:
        return [], [(-1, "", ArgumentProblem(pointer, f"a pipeline is a list of 1 to {OPERATIONS_MAX} operations, not {short_value_text(ops)}"))]
    planned, problems = list[PlannedOperation](), list[tuple[int, str, ArgumentProblem]]()
    for number, one in enumerate(ops):
        if is_open and is_template(one):
            continue
        found = parse_operation(one, f"{pointer}/{number}")
        if isinstance(found, ArgumentProblem):
            problems.append((number, "", found))
            continue
        operation = OPERATIONS[found.name]
        read = ArgumentReader(found.arguments, found.pointer, is_open)
        done = operation.reads(read)
        problems += [(number, found.name, problem) for problem in read.problems]
        planned.append(PlannedOperation(number, found.name, None if operation.waits else done, done if operation.waits else None))
    return planned, problems


def with_fields(ops: Any) -> Any:
    """Operations as written, with references to the row (``@self.price``) turned into paths; references that are left lead elsewhere."""
    if not isinstance(ops, list):
        return ops
    return [_with_fields(one) for one in ops]


def _with_fields(one: Any) -> Any:
    found = parse_operation(one, "")
    if isinstance(found, ArgumentProblem) or found.name != "table_filter":
        return one
    return {found.name: {**found.arguments, "condition": row_conditions.row_condition(found.arguments["condition"])}}


def request_arguments(ops: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The arguments of the requests among operations, as far as they can be read."""
    for one in ops:
        found = parse_operation(one, "")
        if isinstance(found, OperationCall) and found.name == "http_request":
            yield found.arguments


ROWS = "rows"
"""The name of the main table in the input; tables of other names are there to be joined."""

GRACE_S = 1.0
"""So long after its time what waits may say itself that it was too short."""

AT_ONCE_BYTES_MAX = 16 * 1024
AT_ONCE_PAIRS_MAX = 10_000
"""So much is done where it stands: the hop into a thread would take longer."""


async def run(
    ops: Sequence[Any],
    rows: Any = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    deployment: Deployment = NOTHING_MORE,
    bounds: PipelineLimits = DEFAULT_LIMITS,
) -> list[Row]:
    """Runs a pipeline over `rows` (a list of mappings), or over the response that its first operation requests; returns the resulting rows.

    `ops` are operations in any spelling; `inputs` are further tables by name, for joins. Arguments are never changed. All references must be resolved, except
    those to the row in a filter (``@self.price``).

    Raises:
        PipelineFailed: an operation is invalid, or can't handle these rows within `bounds`; the message names its number and what to do.
        OperationFailed, RetryAfter: a request or program failed; a retry may succeed.
    """
    return await run_operations(with_fields(list(ops)), {**(inputs or {}), **({} if rows is None else {ROWS: rows})}, http_kind_factory(deployment), bounds)


def http_kind_factory(deployment: Deployment) -> Callable[[], Kind]:
    """Returns a function that creates the kind `http` when it is first needed."""

    @cache
    def http() -> Kind:
        from perdure.definitions.kinds.http.http_kind import http_kind  # imported here, because most pipelines make no requests

        return http_kind(deployment)

    return http


async def run_operations(ops: Any, inputs: Mapping[str, Any], http: Callable[[], Kind], bounds: PipelineLimits) -> list[Row]:
    """Runs resolved operations with tables by name, as `run` does."""
    planned, problems = plan_operations(ops)
    if problems:
        number, name, problem = problems[0]
        raise PipelineFailed(number, name or "?", problem.what)
    pace = LimitMeter(bounds)
    try:
        tables, size = _tables(inputs, pace)
        if ROWS not in tables and planned[0].name != "http_request":
            there = f"there are {', '.join(tables)}" if tables else "there is no input"
            raise OperationError(f"it has no rows ({there}); give them (with: {{rows: …}}), or begin with http_request")
    except OperationError as wrong:
        raise PipelineFailed(-1, "", str(wrong)) from None
    try:
        found = await _through(planned, tables, OperationContext(-1, pace, http), size)
    finally:
        pace.stop()
    return list(found)


def _tables(inputs: Mapping[str, Any], pace: LimitMeter) -> tuple[dict[str, Rows], int]:
    """The tables of an input, and how many bytes they take."""
    found, size = dict[str, Rows](), 0
    for name, value in inputs.items():
        if value is None:
            continue
        what = f"the rows of {name!r}" if name != ROWS else "the rows"
        size += len(packed_rows(value, what, pace))
        found[name] = pace.checked(table_rows(value, what))
    return found, size


async def _through(planned: Sequence[PlannedOperation], tables: dict[str, Rows], around: OperationContext, size: int) -> Rows:
    rows = tables.get(ROWS, [])
    at = 0
    while at < len(planned):
        one = planned[at]
        if one.wait is not None:
            came = await _waited(one, rows, tables, around._replace(number=one.number))
            if came.into:
                tables[came.into] = came.rows
            else:
                rows = came.rows
            size, at = AT_ONCE_BYTES_MAX + 1, at + 1
            continue
        several = [one]
        while at + len(several) < len(planned) and planned[at + len(several)].wait is None:
            several.append(planned[at + len(several)])
        pairs = max(len(rows), 1) * max([len(other) for name, other in tables.items() if name != ROWS], default=1)
        if size <= AT_ONCE_BYTES_MAX and pairs <= AT_ONCE_PAIRS_MAX:
            rows = _worked(several, rows, tables, around.pace)
        else:
            rows = await asyncio.to_thread(_worked, several, rows, tables, around.pace)
        at += len(several)
    last = planned[-1]
    try:
        _ = packed_rows(rows, "the rows that come of it", around.pace)
    except OperationError as wrong:
        raise PipelineFailed(last.number, last.name, str(wrong)) from None
    return rows


def _worked(several: Sequence[PlannedOperation], rows: Rows, tables: Mapping[str, Rows], pace: LimitMeter) -> Rows:
    for one in several:
        assert one.work is not None
        try:
            pace.look()
            rows = pace.checked(one.work(rows, tables, pace))
        except OperationError as wrong:
            raise PipelineFailed(one.number, one.name, str(wrong)) from None
        except RecursionError:
            raise PipelineFailed(one.number, one.name, "a value is nested too deeply to be compared") from None
    return rows


async def _waited(one: PlannedOperation, rows: Rows, tables: Mapping[str, Rows], around: OperationContext) -> Any:
    assert one.wait is not None
    limit = asyncio.timeout(max(around.pace.left_s, 0.0) + GRACE_S)
    try:
        around.pace.look()
        async with limit:
            return await one.wait(rows, tables, around)
    except (OperationError, Fatal, ProgrammingError) as error:
        if isinstance(error, MissingExtra):
            raise
        raise PipelineFailed(one.number, one.name, str(error)) from error
    except RetryAfter as error:
        raise RetryAfter(error.after_s, f"pipeline[{one.number}] ({one.name}): {error}") from error
    except Exception as error:
        if limit.expired():
            what = f"it took longer than the {around.pace.bounds.wall_s:g} s that the pipeline has; ask for less, or raise limits.wall"
            raise OperationFailed(one.number, one.name, what) from error
        raise OperationFailed(one.number, one.name, f"{error_code(type(error))}: {error}") from error
