"""What replaying executions has shown: those that would not go on one by one, and all of them in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from perdure.cli import output, words
from perdure.cli.complaints import name
from perdure.cli.render import Cell, cell, status
from perdure.cli.screen import screen
from perdure.service.checking import Checked

SAID = {"diverges": ("diverges", "bad"), "unadvertised": ("is not replayed by this code", "warn"), "unreadable": ("can't be replayed", "bad")}


def show(found: Sequence[Checked], form: str) -> None:
    """Print it. As `ids`, those that do not fit."""
    wrong = [one for one in found if one.verdict in SAID]
    if form != "table":
        output.listing(form, (name(one.key) for one in wrong), found, output.no_table)
        return
    for one in wrong:
        output.show_lines(_lines(one), screen())
    click.echo(_summary(found))


def _lines(one: Checked) -> Iterator[tuple[Cell, ...]]:
    said, style = SAID[one.verdict]
    where = (cell(f"at {one.path}"),) if one.path else ()
    yield (cell(name(one.key), "strong"), status(one.status), Cell(said, style), *where)
    for line in one.diff:
        yield (cell(f"  {line}"),)
    for line in one.advice:
        yield (cell(f"    {line}", "dim"),)


def _summary(found: Sequence[Checked]) -> str:
    counts = Counter(one.verdict for one in found)
    others = sorted({one.key.workflow for one in found if one.verdict == "unknown"})
    checked = len(found) - counts["unknown"]
    said = [f"{counts['fits']:,} fit"] if counts["fits"] != 1 else ["1 fits"]
    said += [words.count(counts["diverges"], "diverges", "diverge")] if counts["diverges"] else []
    said += [f"{counts['unadvertised']:,} of a version that this code does not replay"] if counts["unadvertised"] else []
    said += [f"{counts['unreadable']:,} can't be replayed"] if counts["unreadable"] else []
    left_out = f"; left out {words.count(counts['unknown'], 'execution')} of workflows that are not here: {words.clean(', '.join(others))}" if others else ""
    return f"{words.count(checked, 'execution')}: {', '.join(said) if checked else 'nothing to replay'}{left_out}"
