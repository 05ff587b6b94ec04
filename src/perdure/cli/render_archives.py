"""Archives as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.cli import words
from perdure.cli.render import Cell, Table, cell
from perdure.service.archives import LogArchive
from perdure.service.blob_sweep import Swept

LOOPS_MAX = 5
"""Of how many loops it is said which of their turns are in an archive."""


def table(found: Sequence[LogArchive]) -> Table:
    """One line for each."""
    rows = tuple(
        (
            cell(f"{words.when(one.archived_at_s)} UTC"),
            cell(turns(one)),
            Cell(f"{one.events:,}" if one.size_bytes else ""),
            Cell(words.size(one.size_bytes) if one.size_bytes else ""),
            _state(one),
        )
        for one in found
    )
    return Table(("ARCHIVED", "TURNS", "EVENTS", "SIZE", ""), rows)


def turns(one: LogArchive) -> str:
    """Which turns of which loops were forgotten with it."""
    said = [f"{loop} {first:,}" + (f"–{last:,}" if last > first else "") for loop, (first, last) in one.turns.items()]
    return ", ".join(said[:LOOPS_MAX]) + (f" and {len(said) - LOOPS_MAX} loops more" if len(said) > LOOPS_MAX else "")


def _state(one: LogArchive) -> Cell:
    if one.missing:
        return Cell("missing: restore the database from a backup", "bad")
    return Cell("") if one.pruned_at_s is None else Cell(f"archived and pruned at {words.when(one.pruned_at_s)} UTC", "warn")


def pruned(swept: Swept, dry_run: bool) -> str:
    """What a pruning of archives has removed, or would."""
    executions = len({one.key for one in swept.archives})
    done = "would be" if dry_run else "was" if len(swept.archives) == 1 else "were"
    of = f" of {words.count(executions, 'execution')}" if executions else ""
    values = f" with {words.count(swept.values, 'large value')} that nothing else needs" if swept.values else ""
    return f"{words.count(len(swept.archives), 'archive')}{of} {done} removed{values}: {words.size(swept.size_bytes)}"
