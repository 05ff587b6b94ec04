"""Undo: which of the settled operations are to be undone, and in which order."""

from collections.abc import Mapping

from perdure.core.ops import Call, Ok, Spawn
from perdure.core.paths import UNDO, Path
from perdure.core.promise import Settlement


def undoable(settled: Mapping[Path, Settlement]) -> list[Path]:
    """What is to be undone of what has settled, given in its order: what was done last first."""
    wanted = [(path, known.op.undo, known.outcome) for path, known in settled.items() if isinstance(known.op, Call | Spawn) and path[0] != UNDO]
    return [path for path, undo, outcome in reversed(wanted) if undo == "in_doubt" or (undo and isinstance(outcome, Ok))]
