"""Renders the results of `check` and `verify`: each finding, and a summary line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from perdure.cli import output, terminal_text
from perdure.cli.plain_text import TextCell, cell, status_cell
from perdure.cli.terminal import screen
from perdure.cli.terminal_text import execution_name
from perdure.service.replay_checks import ReplayCheck
from perdure.service.verification import VerificationFinding

VERDICT_TEXTS = {"diverges": ("diverges", "bad"), "unadvertised": ("is not replayed by this code", "warn"), "unreadable": ("can't be replayed", "bad")}


def show_replay_checks(found: Sequence[ReplayCheck], form: str) -> None:
    """Prints replay checks. In the form `ids`, prints the executions that do not fit."""
    wrong = [one for one in found if one.verdict in VERDICT_TEXTS]
    if form != "table":
        output.print_list(form, (execution_name(one.key) for one in wrong), found, output.no_table)
        return
    for one in wrong:
        output.show_lines(_replay_lines(one), screen())
    click.echo(_replay_summary(found))


def _replay_lines(one: ReplayCheck) -> Iterator[tuple[TextCell, ...]]:
    said, style = VERDICT_TEXTS[one.verdict]
    where = (cell(f"at {one.path}"),) if one.path else ()
    yield (cell(execution_name(one.key), "strong"), status_cell(one.status), TextCell(said, style), *where)
    for line in one.diff:
        yield (cell(f"  {line}"),)
    for line in one.advice:
        yield (cell(f"    {line}", "dim"),)


def _replay_summary(found: Sequence[ReplayCheck]) -> str:
    counts = Counter(one.verdict for one in found)
    others = sorted({one.key.workflow for one in found if one.verdict == "unknown"})
    checked = len(found) - counts["unknown"]
    said = [f"{counts['fits']:,} fit"] if counts["fits"] != 1 else ["1 fits"]
    said += [terminal_text.count(counts["diverges"], "diverges", "diverge")] if counts["diverges"] else []
    said += [f"{counts['unadvertised']:,} of a version that this code does not replay"] if counts["unadvertised"] else []
    said += [f"{counts['unreadable']:,} can't be replayed"] if counts["unreadable"] else []
    left_out = (
        f"; left out {terminal_text.count(counts['unknown'], 'execution')} of workflows that this code does not have: {terminal_text.clean(', '.join(others))}"
        if others
        else ""
    )
    return f"{terminal_text.count(checked, 'execution')}: {', '.join(said) if checked else 'nothing to replay'}{left_out}"


UNREFERENCED_SHOWN = 20
"""How many unreferenced blobs are listed."""


def show_verification(count: int | None, found: Sequence[VerificationFinding]) -> None:
    """Prints findings of a verification of `count` executions (None: of all that a server has), damage first."""
    useless = [one for one in found if one.kind == "unreferenced"]
    for one in sorted(found, key=lambda one: one.level):
        if one.kind != "unreferenced" or one in useless[:UNREFERENCED_SHOWN]:
            where = [cell(execution_name(one.key), "strong")] if one.key is not None else []
            output.show_lines(((TextCell(one.level, "bad" if one.level == "damage" else "warn"), *where, cell(one.path)), (cell(f"  {one.what}"),)), screen())
            output.show_lines(((cell(f"    {one.advice}", "dim"),),), screen())
    if len(useless) > UNREFERENCED_SHOWN:
        click.echo(f"and {len(useless) - UNREFERENCED_SHOWN:,} more blobs to which nothing refers")
    damaged = sum(one.level == "damage" for one in found)
    said = f"{damaged:,} damaged" if damaged else "their records agree" if count != 1 else "its records agree"
    notes = f", {terminal_text.count(len(found) - damaged, 'note')}" if len(found) > damaged else ""
    click.echo(f"{'all executions' if count is None else terminal_text.count(count, 'execution')}: {said}{notes}")
