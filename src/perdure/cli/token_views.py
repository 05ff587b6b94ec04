"""Renders the tokens of an execution of a definition as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.cli import output, terminal_text
from perdure.cli.plain_text import TextCell, cell
from perdure.definitions.graph.execution_view import TokenCounts

APPLIED_KEYS_MAX = 20
"""How many of the latest applied keys are shown; JSON has all."""

OUTPUT_COLUMNS_MAX = 100


def token_lines(tokens: TokenCounts) -> Iterator[tuple[TextCell, ...]]:
    """The lines of the tokens of an execution."""
    yield TextCell("event", "dim"), TextCell(str(tokens.number), "strong")
    yield (
        TextCell("counter", "dim"),
        TextCell(str(tokens.counter), "strong"),
        TextCell(f"and {terminal_text.count(tokens.approvals, 'approval')}" if tokens.approvals else ""),
    )
    yield from _section("open", ((one, "") for one in tokens.open))
    yield from _section("joins", ((target, f"reached by {', '.join(sources)}") for target, sources in tokens.joins.items()))
    left_out = len(tokens.applied) - APPLIED_KEYS_MAX
    yield from _section("applied", [*([(f"… {left_out:,} before", "")] if left_out > 0 else []), *((one, "") for one in tokens.applied[-APPLIED_KEYS_MAX:])])
    yield from _section("outputs", ((id, terminal_text.truncate(output.compact_json(value), OUTPUT_COLUMNS_MAX)) for id, value in tokens.outputs.items()))


def _section(title: str, rows: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> Iterator[tuple[TextCell, ...]]:
    for number, (name, said) in enumerate(rows):
        if number == 0:
            yield (TextCell(title, "dim"),)
        yield TextCell(" "), cell(name, "strong"), cell(said)
