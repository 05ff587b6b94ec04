"""Running: one operation after the other. What has much to compute does so in a thread, so nobody else waits for it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from perdure.core.errors import Fatal, MissingExtra, ProgrammingError, RetryAfter
from perdure.programs.graph.kind import Kind
from perdure.steps.deployment import NOTHING_MORE, Deployment
from perdure.steps.pipeline import operations
from perdure.steps.pipeline.bounds import DEFAULT, Bounds, Pace
from perdure.steps.pipeline.failed import OperationFailed, PipelineFailed, Wrong
from perdure.steps.pipeline.operations import Planned
from perdure.steps.pipeline.outside import Around
from perdure.steps.pipeline.paths import Row
from perdure.steps.pipeline.rows import packed, table
from perdure.steps.pipeline.tables import Rows

ROWS = "rows"
"""What the table is called in the input that goes through the pipeline; those of all other names are there to be joined."""

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
    bounds: Bounds = DEFAULT,
) -> list[Row]:
    """The rows that come of a pipeline: of `rows` (a list of mappings), or of the answer that its first operation requests.

    `ops` are its operations, in any of their spellings (see `operations`); `inputs` are further tables, by the names by which operations join them. Nothing
    that is given is changed. References have to be resolved, but for those to the row in a filter (``@self.price``).

    Raises:
        PipelineFailed: an operation is none, or can't do its work with these rows, or within `bounds`; the message names its number and what to do.
        OperationFailed, RetryAfter: what it asked of the world failed, and may succeed another time.
    """
    return await performed(operations.with_fields(list(ops)), {**(inputs or {}), **({} if rows is None else {ROWS: rows})}, http_of(deployment), bounds)


def http_of(deployment: Deployment) -> Callable[[], Kind]:
    """What gives the kind of requests, made when the first of them is."""

    @cache
    def http() -> Kind:
        from perdure.steps.http.kind import kind  # here, as most pipelines ask nobody

        return kind(deployment)

    return http


async def performed(ops: Any, inputs: Mapping[str, Any], http: Callable[[], Kind], bounds: Bounds) -> list[Row]:
    """The rows that come of operations that are resolved, with tables by name. See `run`."""
    planned, problems = operations.plan(ops)
    if problems:
        number, name, problem = problems[0]
        raise PipelineFailed(number, name or "?", problem.what)
    pace = Pace(bounds)
    try:
        tables, size = _tables(inputs, pace)
        if ROWS not in tables and planned[0].name != "http_request":
            there = f"there are {', '.join(tables)}" if tables else "there is no input"
            raise Wrong(f"it has no rows ({there}); give them (with: {{rows: …}}), or begin with http_request")
    except Wrong as wrong:
        raise PipelineFailed(-1, "", str(wrong)) from None
    try:
        found = await _through(planned, tables, Around(-1, pace, http), size)
    finally:
        pace.stop()
    return list(found)


def _tables(inputs: Mapping[str, Any], pace: Pace) -> tuple[dict[str, Rows], int]:
    """The tables of an input, and how many bytes they take."""
    found, size = dict[str, Rows](), 0
    for name, value in inputs.items():
        if value is None:
            continue
        what = f"the rows of {name!r}" if name != ROWS else "the rows"
        size += len(packed(value, what, pace))
        found[name] = pace.checked(table(value, what))
    return found, size


async def _through(planned: Sequence[Planned], tables: dict[str, Rows], around: Around, size: int) -> Rows:
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
        _ = packed(rows, "the rows that come of it", around.pace)
    except Wrong as wrong:
        raise PipelineFailed(last.number, last.name, str(wrong)) from None
    return rows


def _worked(several: Sequence[Planned], rows: Rows, tables: Mapping[str, Rows], pace: Pace) -> Rows:
    for one in several:
        assert one.work is not None
        try:
            pace.look()
            rows = pace.checked(one.work(rows, tables, pace))
        except Wrong as wrong:
            raise PipelineFailed(one.number, one.name, str(wrong)) from None
        except RecursionError:
            raise PipelineFailed(one.number, one.name, "a value nests too deep to be compared") from None
    return rows


async def _waited(one: Planned, rows: Rows, tables: Mapping[str, Rows], around: Around) -> Any:
    assert one.wait is not None
    limit = asyncio.timeout(max(around.pace.left_s, 0.0) + GRACE_S)
    try:
        around.pace.look()
        async with limit:
            return await one.wait(rows, tables, around)
    except (Wrong, Fatal, ProgrammingError) as error:
        if isinstance(error, MissingExtra):
            raise
        raise PipelineFailed(one.number, one.name, str(error)) from error
    except RetryAfter as error:
        raise RetryAfter(error.after_s, f"pipeline[{one.number}] ({one.name}): {error}") from error
    except Exception as error:
        if limit.expired():
            what = f"it took longer than the {around.pace.bounds.wall_s:g} s that the pipeline has; ask for less, or raise limits.wall"
            raise OperationFailed(one.number, one.name, what) from error
        raise OperationFailed(one.number, one.name, f"{type(error).__name__}: {error}") from error
