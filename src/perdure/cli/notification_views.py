"""Renders people and the rules of notifications as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.cli import terminal_text
from perdure.cli.plain_text import TextCell, TextTable, cell, fact_lines
from perdure.service.notifications.notification_rules import RuleDetails
from perdure.service.people.person_records import PersonDetails


def person_lines(one: PersonDetails) -> Iterator[Sequence[TextCell]]:
    """A person: whether they are out of office, who then stands in, and what they are not notified of."""
    yield cell(one.name, "strong"), TextCell("out of office", "warn") if one.is_out else TextCell("")
    until = "" if one.out_until_at_s is None else f" until {terminal_text.utc_time(one.out_until_at_s)} UTC"
    out = "" if one.out_from_at_s is None else f"from {terminal_text.utc_time(one.out_from_at_s)} UTC{until}; {one.substitute} stands in"
    yield from fact_lines([("out", out), ("email", one.email), ("unsubscribed", ", ".join(one.unsubscribed))], 12)


def rule_table(found: Sequence[RuleDetails]) -> TextTable:
    """Rules, a row each."""
    return TextTable(("NAME", "KINDS", "CHANNEL", "TARGET", "WORKFLOW", "STATE"), tuple(_row(one) for one in found))


def _row(one: RuleDetails) -> tuple[TextCell, ...]:
    rule = one.rule
    return cell(one.name, "strong"), cell(", ".join(rule.kinds)), cell(rule.channel), cell(target_text(one)), cell(rule.workflow), _state(one)


def _state(one: RuleDetails) -> TextCell:
    return TextCell("enabled", "good") if one.rule.enabled else TextCell("disabled", "dim")


def target_text(one: RuleDetails) -> str:
    """Whom a rule reaches."""
    return one.rule.target or ("the application" if one.rule.channel == "app" else "the assignees")


def rule_lines(one: RuleDetails) -> Iterator[Sequence[TextCell]]:
    """A rule."""
    rule = one.rule
    yield cell(one.name, "strong"), _state(one)
    quiet = f"from {rule.quiet_from} until {rule.quiet_until}, {rule.zone}" if rule.quiet_from else ""
    surge = f"more than {rule.surge_above} dead letters within {terminal_text.duration(rule.surge_s)}" if "dead_letter_surge" in rule.kinds else ""
    about = [
        ("kinds", ", ".join(rule.kinds)),
        ("channel", f"{rule.channel} to {target_text(one)}"),
        ("workflow", rule.workflow),
        ("secret", rule.secret),
        ("title", rule.title),
        ("body", rule.body),
        ("group", terminal_text.duration(rule.group_s) if rule.group_s else ""),
        ("hourly", f"at most {rule.hourly_max}" if rule.hourly_max else ""),
        ("quiet", quiet),
        ("surge", surge),
        ("version", str(one.version)),
    ]
    yield from fact_lines(about, 12)
