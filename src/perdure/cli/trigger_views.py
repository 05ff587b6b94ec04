"""Renders triggers as text: a list of them, one of them, and the times of a schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.cli import terminal_text
from perdure.cli.plain_text import TextCell, TextTable, cell, fact_lines
from perdure.service.triggers.schedule_operations import SchedulePreview
from perdure.service.triggers.schedule_times import ClockNote, tick_text
from perdure.service.triggers.trigger_directory import TriggerDetails
from perdure.service.triggers.trigger_records import EventConfig, ScheduleConfig, WebhookConfig

_NOTES: dict[ClockNote, str] = {
    "": "",
    "moved": "the clock skips the time; it is due at the jump",
    "first": "the clock shows this time twice; this is the first",
    "second": "the clock shows this time twice; this is the second",
}


def trigger_table(found: Sequence[TriggerDetails]) -> TextTable:
    """Triggers, a row each."""
    return TextTable(("ID", "NAME", "WHAT", "STARTS", "STATE", "DUE", "LAST RUN"), tuple(_row(one) for one in found))


def _row(one: TriggerDetails) -> tuple[TextCell, ...]:
    starts = one.workflow_id or "the prompt handler"
    return cell(one.id, "strong"), cell(one.name), cell(what_text(one)), cell(starts), _state(one), cell(_time(one.due_at_s)), cell(_time(one.last_run_at_s))


def _state(one: TriggerDetails) -> TextCell:
    if one.undeclared:
        return TextCell("undeclared", "warn")
    if one.pause is not None:
        return TextCell("broken" if one.pause.breaker else "paused", "bad" if one.pause.breaker else "warn")
    return TextCell("enabled", "good") if one.enabled else TextCell("disabled", "dim")


def _time(at_s: float | None) -> str:
    return "" if at_s is None else terminal_text.utc_time(at_s)


def what_text(one: TriggerDetails) -> str:
    """What a trigger is, in short."""
    match one.config:
        case ScheduleConfig() as schedule:
            when = schedule.cron or (f"every {terminal_text.duration(schedule.every_s)}" if schedule.every_s is not None else "once")
            return when if schedule.timezone == "UTC" else f"{when} {schedule.timezone}"
        case WebhookConfig():
            return f"webhook {one.webhook_url}"
        case EventConfig() as event:
            return f"on {', '.join(event.on)}" + (f" of {event.of}" if event.of else "")
    return "by hand"


def trigger_lines(one: TriggerDetails) -> Iterator[Sequence[TextCell]]:
    """A trigger: what it is, and how it has gone."""
    yield cell(one.id, "strong"), cell(what_text(one)), _state(one)
    by_code = "no longer by any engine; perdure trigger prune deletes it" if one.undeclared else "code"
    owned = {"definition": f"the definition {one.definition}", "code": by_code, "": ""}[one.owner]
    pause = "" if one.pause is None else f"{terminal_text.utc_time(one.pause.at_s)} UTC by {one.pause.by}: {one.pause.reason or 'no reason was given'}"
    about = [
        ("name", one.name),
        ("starts", one.workflow_id or "the prompt handler of the application"),
        ("declared", owned),
        ("paused", pause),
        ("due", f"{_time(one.due_at_s)} UTC" if one.due_at_s is not None else ""),
        ("last run", f"{_time(one.last_run_at_s)} UTC {one.last_execution_id}" if one.last_run_at_s is not None else ""),
        ("changed", f"{terminal_text.utc_time(one.updated_at_s)} UTC by {one.updated_by}"),
    ]
    if one.schedule is not None:
        about.append(("started", f"{one.schedule.started} executions"))
        if one.schedule.waiting:
            about.append(("waiting", f"{one.schedule.waiting} for their turn"))
    yield from fact_lines(about, 8)
    for incident in () if one.schedule is None else one.schedule.incidents:
        yield TextCell(f"  {incident.kind:<8}", "warn"), cell(f"{tick_text(incident.tick_at_s)}: {incident.why}")


def preview_table(found: SchedulePreview) -> TextTable:
    """The next times of a schedule, a row each."""
    rows = tuple((cell(one.local, "strong"), cell(tick_text(one.tick_at_s)), cell(_NOTES[one.note])) for one in found.ticks)
    return TextTable((found.timezone.upper(), "UTC", ""), rows)
