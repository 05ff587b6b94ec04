"""Renders the plan of a command: what it would do to an execution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from perdure.cli import output, terminal_text
from perdure.cli.plain_text import TextCell, cell
from perdure.cli.terminal import screen
from perdure.cli.terminal_text import execution_name
from perdure.service.change_plans import ChangePlan
from perdure.service.queries import INTERNAL_WORKFLOWS

NAMED_MAX = 8
"""How many operations, or children, are named in a line; JSON has all."""

LABELS = (("reused", "keeps"), ("repeated", "repeats"), ("given", "is given"), ("undone", "undoes"), ("stopped", "stops"), ("continued", "goes on with"))
"""The effects of a command on operations, by the fields of a plan."""

NEW_EXECUTIONS = {"rerun": "would be run again as a new execution", "fork": "would be forked into a new execution"}


def print_plan(plan: ChangePlan, would: str, form: str = "text") -> None:
    """Prints a plan under a line that says which execution it is of and what `would` happen to it; as `json`, the plan as data."""
    if form == "json":
        click.echo(output.indented_json({**output.as_data(plan), "children": [output.as_data(child) for child in plan.children]}))
        return
    click.echo(f"{execution_name(plan.key)} {would}")
    output.show_lines(_lines(plan), screen())


def _lines(plan: ChangePlan) -> Iterator[tuple[TextCell, ...]]:
    if not plan.has_effect:
        yield _line("no effect", "; ".join(plan.refused) or f"it is {plan.status.replace('_', ' ')}", "warn")
        return
    for field, label in LABELS:
        if paths := getattr(plan, field):
            yield _line(label, _named(paths))
    by_effect: dict[str, list[str]] = {}
    for child in (one for one in plan.children if one.key.workflow not in INTERNAL_WORKFLOWS):
        by_effect.setdefault(child.effect, []).append(execution_name(child.key))
    for effect, names in by_effect.items():
        yield _line("children", f"{_named(names)}: {effect}")
    for change in plan.changes:
        yield _line("changes", change)


def _line(label: str, text: str, style: str = "") -> tuple[TextCell, ...]:
    return TextCell(f"  {label:<12}", "dim"), cell(text, style)


def _named(names: Sequence[str]) -> str:
    left_out = len(names) - NAMED_MAX
    return ", ".join(map(terminal_text.clean, names[:NAMED_MAX])) + (f" and {left_out:,} more" if left_out > 0 else "")
