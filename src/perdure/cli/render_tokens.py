"""Where the tokens of a graph execution are: the counter, joins that wait, what is open, what the steps came to; and how many keys were applied."""

from collections.abc import Iterator

from perdure.cli import output, words
from perdure.cli.render import Cell, cell
from perdure.programs.graph.view import Tokens

APPLIED_MAX = 20
"""How many applied keys are shown, the last ones; as JSON, all are."""

COLUMNS_MAX = 100


def lines(tokens: Tokens) -> Iterator[tuple[Cell, ...]]:
    """What is said of them, in lines."""
    yield Cell("event", "dim"), Cell(str(tokens.number), "strong")
    yield Cell("counter", "dim"), Cell(str(tokens.counter), "strong"), Cell(f"and {words.count(tokens.approvals, 'approval')}" if tokens.approvals else "")
    yield from _several("open", ((one, "") for one in tokens.open))
    yield from _several("joins", ((target, f"reached by {', '.join(sources)}") for target, sources in tokens.joins.items()))
    left_out = len(tokens.applied) - APPLIED_MAX
    yield from _several("applied", [*([(f"… {left_out:,} before", "")] if left_out > 0 else []), *((one, "") for one in tokens.applied[-APPLIED_MAX:])])
    yield from _several("outputs", ((id, words.cut(output.compact(value), COLUMNS_MAX)) for id, value in tokens.outputs.items()))


def _several(title: str, rows: "Iterator[tuple[str, str]] | list[tuple[str, str]]") -> Iterator[tuple[Cell, ...]]:
    for number, (name, said) in enumerate(rows):
        if number == 0:
            yield (Cell(title, "dim"),)
        yield Cell(" "), cell(name, "strong"), cell(said)
