"""What verifying has found: damage and notes one by one, and how many there are in a line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from perdure.cli import output, words
from perdure.cli.complaints import name
from perdure.cli.render import Cell, cell
from perdure.cli.screen import screen
from perdure.service.verify import Finding

SHOWN_MAX = 20
"""How many blobs without use are named."""


def show(count: int, found: Sequence[Finding]) -> None:
    """Print it: damage first."""
    useless = [one for one in found if one.kind == "unreferenced"]
    for one in sorted(found, key=lambda one: one.level):
        if one.kind != "unreferenced" or one in useless[:SHOWN_MAX]:
            where = [cell(name(one.key), "strong")] if one.key is not None else []
            output.show_lines(((Cell(one.level, "bad" if one.level == "damage" else "warn"), *where, cell(one.path)), (cell(f"  {one.what}"),)), screen())
            output.show_lines(((cell(f"    {one.advice}", "dim"),),), screen())
    if len(useless) > SHOWN_MAX:
        click.echo(f"and {len(useless) - SHOWN_MAX:,} blobs more to which nothing refers")
    damaged = sum(one.level == "damage" for one in found)
    said = f"{damaged:,} damaged" if damaged else "their records agree" if count != 1 else "its records agree"
    notes = f", {words.count(len(found) - damaged, 'note')}" if len(found) > damaged else ""
    click.echo(f"{words.count(count, 'execution')}: {said}{notes}")
