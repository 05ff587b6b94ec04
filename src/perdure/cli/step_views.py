"""Renders the steps of an execution with all their attempts: as a table, as data, and as the views of which the tree of `perdure show` is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from perdure.cli import output, terminal_text
from perdure.cli.plain_text import TextCell, TextTable, cell, status_cell
from perdure.core.errors import ErrorInfo
from perdure.core.step_attempts import StepAttempt
from perdure.core.views import StepView
from perdure.service.execution_records import ExecutionRecord
from perdure.service.step_traces import StepTrace

OUTPUT_COLUMNS_MAX = 60


def step_table(steps: Sequence[StepTrace], now_s: float) -> TextTable:
    """Steps, a row each; below one with several attempts, a row for each of these."""
    headers = ("STEP", "STATE", "ATTEMPTS", "STARTED", "TOOK", "NOTE")
    return TextTable(headers, tuple(row for step in steps for row in _step_rows(step, now_s)))


def _step_rows(step: StepTrace, now_s: float) -> Iterator[tuple[TextCell, ...]]:
    count = "" if not step.attempts else str(len(step.attempts))
    times = _times(step.started_at_s, step.ended_at_s, now_s)
    yield (cell(step.path, "strong"), status_cell(step.state), TextCell(count), *times, _note(step))
    for one in step.attempts if len(step.attempts) > 1 else ():
        yield (
            TextCell(f"  attempt {one.number}", "dim"),
            status_cell(one.state),
            TextCell(""),
            *_times(one.started_at_s, one.ended_at_s, now_s),
            _error_cell(one.error) or cell("" if one.by is None else f"by {one.by}", "dim"),
        )


def _times(started_at_s: float, ended_at_s: float | None, now_s: float) -> tuple[TextCell, TextCell]:
    took = terminal_text.duration((now_s if ended_at_s is None else ended_at_s) - started_at_s)
    return TextCell(terminal_text.utc_timestamp(started_at_s), "dim"), TextCell(took if ended_at_s is not None else f"for {took}")


def _note(step: StepTrace) -> TextCell:
    if (wrong := _error_cell(step.error)) is not None:
        return wrong
    if step.output is None:
        return TextCell("")
    return cell(f"→ {terminal_text.truncate(output.compact_json(step.decoded_output()), OUTPUT_COLUMNS_MAX)}", "dim")


def _error_cell(error: ErrorInfo | None) -> TextCell | None:
    return None if error is None else cell(f"{error.type}: {terminal_text.first_line(error.message)}", "bad")


def step_data(step: StepTrace) -> dict[str, Any]:
    """A step as plain data, with its input and output as values."""
    given = step.decoded_input()
    return {**output.as_data(step), "input": None if given is None else given._asdict(), "output": step.decoded_output()}


def view_of_trace(step: StepTrace) -> StepView:
    """A step without its attempts and values."""
    return StepView(
        path=step.path,
        kind=step.kind,
        target=step.target,
        state=step.state,
        attempt=step.attempt,
        opened_at_s=step.started_at_s,
        settled_at_s=step.ended_at_s,
        due_at_s=step.due_at_s,
        error=step.error,
        port=step.port,
    )


def last_moment(record: ExecutionRecord, steps: Sequence[StepTrace]) -> float:
    """The latest time that an execution as it was knows of: what was open then had been open until about this."""
    known = [record.created_at_s, record.started_at_s, record.ended_at_s]
    known += [at_s for step in steps for at_s in (step.started_at_s, step.ended_at_s, *_attempt_times(step.attempts))]
    return max(at_s for at_s in known if at_s is not None)


def _attempt_times(attempts: Sequence[StepAttempt]) -> Iterator[float | None]:
    for one in attempts:
        yield from (one.started_at_s, one.ended_at_s)
