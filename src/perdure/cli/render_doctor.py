"""The doctor's findings as a table."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.cli.examination import Finding
from perdure.cli.render import Cell, Table, cell

STYLES = {"ok": "good", "warn": "warn", "bad": "bad"}


def findings(found: Sequence[Finding]) -> Table:
    """A row each; what to do stands in the last column."""
    return Table(("", "WHAT", "FOUND", "DO"), tuple(_row(one) for one in found))


def _row(one: Finding) -> tuple[Cell, ...]:
    return (Cell(one.mark, STYLES[one.mark]), cell(one.what, "strong"), cell(one.found), cell(one.advice))
